"""What `stripes`, `index` and `stats` say of a file; calls that cannot be, exit status and progress."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc

import orcstream
from orcstream import blocking
from orcstream.cli import output as cli_output
from orcstream.cli.commands import cat as cli_cat
from orcstream.cli.main import main
from tests.unit.test_cli_merge import Terminal

ROWS = 3_000
STRIDE = 1_000
SCHEMA = "struct<id:bigint,name:string,s:struct<x:int>>"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two stripes of two row groups, with bloom filters of one column and nulls in another."""
    folder = tmp_path_factory.mktemp("file")
    parts = [folder / "first.orc", folder / "second.orc"]
    for part, rows in zip(parts, (range(ROWS // 2), range(ROWS // 2, ROWS)), strict=True):
        with blocking.create(part, SCHEMA, blooms=["id"], row_index_stride=STRIDE) as out:
            out.write(
                [{"id": n, "name": None if n % 7 == 0 else f"name {n % 50}", "s": {"x": -n}} for n in rows]
            )
    path = folder / "rows.orc"
    blocking.merge(parts, path)
    return str(path)


def shown(capfd: pytest.CaptureFixture[str], *arguments: str) -> Any:
    return json.loads(text_of(capfd, *arguments, "--json"))


def text_of(capfd: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(list(arguments)) == 0
    printed = capfd.readouterr()
    assert printed.err == ""
    return printed.out


def test_stripes(capfd: pytest.CaptureFixture[str], file: str) -> None:
    found = shown(capfd, "stripes", file)
    with blocking.open(file) as opened:
        stripes = opened.stripes
        assert len(stripes) == 2
        assert [one["stripe"] for one in found["stripes"]] == list(range(len(stripes)))
        for one, stripe in zip(found["stripes"], stripes, strict=True):
            assert (one["first_row"], one["row_count"]) == (stripe.first_row, stripe.row_count)
            assert one["file_offset"] == stripe.offset
            sizes = (one["index_bytes"], one["data_bytes"], one["footer_bytes"])
            assert sum(sizes) == stripe.range.length
            assert one["encodings"] is None
    head, *lines = text_of(capfd, "stripes", file).splitlines()
    assert head.split() == ["stripe", "rows", "from", "row", "offset", "index", "data", "footer"]
    assert len(lines) == len(stripes)


def test_encodings_of_stripes(capfd: pytest.CaptureFixture[str], file: str) -> None:
    (one,) = shown(capfd, "stripes", file, "--stripes", "1:2", "--encodings")["stripes"]
    assert one["stripe"] == 1
    encodings = {each["column"]: each for each in one["encodings"]}
    assert list(encodings) == ["", "id", "name", "s", "s.x"]
    assert encodings["name"]["encoding"] == "DICTIONARY_V2"
    assert encodings["name"]["dictionary_size"] == 50
    lines = text_of(capfd, "stripes", file, "--stripes", "1:2", "--encodings").splitlines()
    assert "    name: DICTIONARY_V2, 50 entries" in lines


def test_index(capfd: pytest.CaptureFixture[str], file: str) -> None:
    found = shown(capfd, "index", file, "--columns", "id,s")
    with blocking.open(file) as opened:
        assert len(found["stripes"]) == len(opened.stripes)
    groups = []
    for stripe in found["stripes"]:
        assert [column["column"] for column in stripe["columns"]] == ["id", "s", "s.x"]
        column = stripe["columns"][0]
        assert column["index_bytes"] > 0
        assert column["bloom_filter_bytes"]["BLOOM_FILTER_UTF8"] > 0
        assert stripe["columns"][1]["bloom_filter_bytes"] == {}
        groups += column["row_groups"]
        (places,) = {tuple(group["positions"]) for group in column["row_groups"]}
        assert places == ("DATA",)
        first = column["row_groups"][0]["positions"]["DATA"]
        assert set(first.values()) == {0}
        assert list(first) == ["chunk_offset", "bytes_into_chunk", "values_to_skip"]
    rows = [range(group["first_row"], group["first_row"] + group["row_count"]) for group in groups]
    assert [row for some in rows for row in some] == list(range(ROWS))
    for group, some in zip(groups, rows, strict=True):
        known = group["statistics"]
        assert (known["minimum"], known["maximum"]) == (some[0], some[-1])
    text = text_of(capfd, "index", file, "--columns", "id", "--positions")
    assert "BLOOM_FILTER_UTF8 " in text
    assert "      DATA: chunk_offset 0, bytes_into_chunk 0, values_to_skip 0" in text


def test_files_without_an_index_say_so(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = str(tmp_path / "plain.orc")
    with blocking.create(path, "struct<a:int>", row_index_stride=0) as out:
        out.write([(1,)])
    (stripe,) = shown(capfd, "index", path, "--columns", "a")["stripes"]
    assert stripe["columns"][0]["row_groups"] == []
    assert "stripe 0, a: 0 row groups, " in text_of(capfd, "index", path, "--columns", "a")


def test_stats_are_those_of_the_file_and_its_stripes(capfd: pytest.CaptureFixture[str], file: str) -> None:
    found = {one["column"]: one for one in shown(capfd, "stats", file)["columns"]}
    assert list(found) == ["id", "name", "s", "s.x"]
    assert all(one["stripes"] is None for one in found.values())
    assert found["id"]["type"] == "bigint"
    assert found["s"]["type"] == "struct"
    known = found["name"]["statistics"]
    nulls = sum(n % 7 == 0 for n in range(ROWS))
    assert (known["value_count"], known["has_null"]) == (ROWS - nulls, True)
    assert found["s.x"]["statistics"]["minimum"] == 1 - ROWS
    (column,) = shown(capfd, "stats", file, "--columns", "id", "--stripes", ":")["columns"]
    minima = [one["statistics"]["minimum"] for one in column["stripes"]]
    with blocking.open(file) as opened:
        assert minima == [stripe.first_row for stripe in opened.stripes]
    head, *lines = text_of(capfd, "stats", file, "--columns", "id", "--stripes", "0:1").splitlines()
    assert head.split() == ["column", "type", "values", "nulls", "minimum", "maximum", "sum"]
    assert lines[0].split() == ["id", "bigint", "3,000", "no", "0", "2,999", f"{sum(range(ROWS)):,}"]
    assert lines[1].split()[:2] == ["stripe", "0"]
    assert len(lines) == 2


def test_values_of_files_are_cut_and_harmless(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = str(tmp_path / "odd.orc")
    orc.write_table(pa.table({"\x1b[2J": ["\x1b[31m" + "x" * 200, "a\nb"]}), path)
    for command in (
        ["stats", path],
        ["index", path, "--columns", "\x1b[2J"],
        ["stripes", path, "--encodings"],
    ):
        text = text_of(capfd, *command)
        assert all(line.isprintable() for line in text.splitlines())
        assert "x" * 41 not in text
        assert main([*command, "--json"]) == 0
        assert capfd.readouterr().out.isascii()


@pytest.mark.parametrize("command", ["index", "stats"])
def test_a_column_that_is_misspelt(capfd: pytest.CaptureFixture[str], file: str, command: str) -> None:
    assert main([command, file, "--columns", "nmae"]) == 2
    message = capfd.readouterr().err
    assert message.startswith(f"orcstream: {file}: no column 'nmae'")
    assert "did you mean 'name'?" in message


# --- calls that cannot be ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["cta", "x.orc"], "there is no command 'cta'; did you mean cat?"),
        (["zzz"], "there is no command 'zzz'"),
        (["acid", "sohw", "x"], "there is no command 'sohw'; did you mean show?"),
        (["cat", "x.orc", "--colums", "a"], "there is no option --colums; did you mean --columns?"),
        (["cat", "x.orc", "--col", "a"], "there is no option --col"),
        (["meta", "x.orc", "y.orc"], "nothing more was expected than what stands before 'y.orc'"),
        (["cat", "x.orc", "--format", "cvs"], "--format takes json, csv and not 'cvs'; did you mean csv?"),
        (["index", "x.orc"], "required: --columns"),
        (["stats", "x.orc", "--stripes", "3"], "are no stripes; write 1000:2000"),
        (["completion", "tcsh"], "shell takes bash, zsh, fish and not 'tcsh'"),
    ],
)
def test_one_line_says_what_to_do(
    capfd: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert left.value.code == 2
    said = capfd.readouterr().err
    assert message in said
    assert said.startswith("orcstream: ")
    assert said.count("\n") == 1
    assert "--help)" in said


STATUS = [
    (orcstream.UsageError("x"), 2),
    (orcstream.ColumnNotFound("x"), 2),
    (ImportError("x"), 2),
    (orcstream.Unsupported("x", reason="missing_dependency"), 2),
    (orcstream.Unsupported("x", reason="other"), 3),
    (orcstream.NotOrcFile("x"), 3),
    (orcstream.CorruptStream("x"), 3),
    (FileNotFoundError(2, "x"), 4),
    (PermissionError(13, "x"), 4),
    (orcstream.SourceChanged("x"), 4),
    (orcstream.CommitFailed("x"), 4),
    (orcstream.KeyUnavailable("x"), 5),
    (orcstream.OrcError("x"), 1),
    (KeyboardInterrupt(), 130),
]


@pytest.mark.parametrize(("error", "status"), STATUS, ids=[type(error).__name__ for error, _ in STATUS])
def test_the_exit_status_says_whose_fault_it_is(
    error: BaseException, status: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    async def fail(_: argparse.Namespace) -> None:
        raise error

    monkeypatch.setattr(cli_cat, "_count", fail)
    assert main(["count", "x.orc"]) == status
    said = capfd.readouterr().err
    assert said.count("\n") == (status != 130)


# --- progress ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "shown_text"),
    [
        (["meta"], "opening "),
        (["stripes", "--encodings"], "stripe footer "),
        (["index", "--columns", "id"], "index "),
        (["stats", "--stripes", ":"], "reading the statistics"),
        (["plan"], "reading what says"),
        (["count", "--where", "s.x < 0"], "rows so far"),
        (["verify"], " rows"),
        (["inspect"], "looking at "),
        (["cleanup", "--older-than", "1d"], "looking below "),
    ],
)
def test_what_takes_long_shows_progress(
    file: str,
    arguments: list[str],
    shown_text: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr(cli_output, "_PROGRESS_AFTER_S", 0.0)
    monkeypatch.setattr(cli_output, "_PROGRESS_EVERY_S", 0.0)
    command, *options = arguments
    assert main([command, file, *options]) == 0
    assert shown_text in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K")
    assert capfd.readouterr().out


def test_rows_on_a_terminal_are_their_own_progress(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []
    made = cli_output.Progress.__init__

    def recorded(self: cli_output.Progress, *, shown: bool = True) -> None:
        seen.append(shown)
        made(self, shown=shown)

    monkeypatch.setattr(cli_output.Progress, "__init__", recorded)
    for is_terminal in (True, False):
        monkeypatch.setattr("sys.stdout.isatty", lambda is_terminal=is_terminal: is_terminal, raising=False)
        assert main(["cat", file, "--limit", "1"]) == 0
    assert seen == [False, True]


# --- many files as one table -------------------------------------------------------------------------------


@pytest.fixture
def table(tmp_path: Path) -> Path:
    for day, first in (("1", 0), ("2", 10)):
        folder = tmp_path / "table" / f"day={day}"
        folder.mkdir(parents=True)
        with blocking.create(folder / "a.orc", "struct<n:int>") as out:
            out.write([(n,) for n in range(first, first + 10)])
    return tmp_path / "table"


@pytest.mark.parametrize("way", ["folder", "slash", "pattern", "files"])
def test_rows_of_many_files(capfd: pytest.CaptureFixture[str], table: Path, way: str) -> None:
    files = [str(table / f"day={day}" / "a.orc") for day in "12"]
    places = {"folder": [str(table)], "slash": [f"{table}/"], "pattern": [f"{table}/*/*.orc"], "files": files}
    urls = places[way]
    rows = [json.loads(line) for line in text_of(capfd, "cat", *urls).splitlines()]
    assert [row["n"] for row in rows] == list(range(20))
    assert shown(capfd, "count", *urls) == {"row_count": 20}
    assert text_of(capfd, "count", *urls, "--where", "n >= 15") == "5\n"
    options = ["--where", "n > 8", "--limit", "2", "--columns", "n", "--format", "csv"]
    assert text_of(capfd, "cat", *urls, *options) == "n\n9\n10\n"
    if way in ("folder", "slash"):
        assert text_of(capfd, "count", *urls, "--where", "day = 2") == "10\n"
    for option in (["--rows", "0:1"], ["--row-numbers"]):
        assert main(["cat", *urls, *option]) == 2
        assert f"{option[0]} is for one file" in capfd.readouterr().err


def test_a_file_whose_name_looks_like_a_pattern(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "a[1].orc"
    with blocking.create(path, "struct<n:int>") as out:
        out.write([(1,)])
    assert text_of(capfd, "cat", str(path), "--row-numbers") == '{"n": 1, "row_number": 0}\n'
