"""Calls at the edge of what commands take: empty or wicked names, closed outputs, values far away."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from orcstream import blocking
from orcstream.cli.main import main
from tests.meta.tree import ROOT

ORDER = "a\x1b[31m\u202eb\x9b"


def put(path: Path, schema: str, *rows: dict[str, object]) -> str:
    with blocking.create(path, schema) as out:
        out.write(list(rows))
    return str(path)


def failed(capfd: pytest.CaptureFixture[str], *arguments: str, status: int = 2) -> str:
    try:
        assert main(list(arguments)) == status
    except SystemExit as error:
        assert error.code == status  # noqa: PT017 - argparse ends the program
    return capfd.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["count", ""],
        ["cat", "a.orc", ""],
        ["verify", ""],
        ["cleanup", "", "--older-than", "1d"],
        ["acid", "show", ""],
        ["convert", "", "a.orc"],
        ["merge", "", "a.orc"],
    ],
    ids=" ".join,
)
def test_nothing_is_no_url(capfd: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert "the empty text is no path and no URL" in failed(capfd, *arguments)


@pytest.mark.parametrize("rows", ["0:0", "5:2", "0:1"])
@pytest.mark.parametrize("command", ["count", "cat"])
def test_rows_of_a_table_are_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], command: str, rows: str
) -> None:
    urls = [put(tmp_path / name, "struct<n:int>", {"n": 1}) for name in ("a.orc", "b.orc")]
    assert "--rows is for one file" in failed(capfd, command, *urls, "--rows", rows)


def test_matching_rows_of_a_table_are_counted(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    urls = [put(tmp_path / name, "struct<n:int>", {"n": 1}, {"n": -1}) for name in ("a.orc", "b.orc")]
    for where, count in (("n > 0", 2), ("n <> 0", 4), ("n > 1", 0)):
        assert main(["count", *urls, "--where", where, "--memory-limit", "1MB"]) == 0
        assert capfd.readouterr().out == f"{count}\n"


def test_rows_without_columns_are_counted(corpus_folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Of a file whose root is a timestamp."""
    assert main(["count", str(corpus_folder / "apache-orc" / "TestOrcFile.testTimestamp.orc")]) == 0
    assert capfd.readouterr().out == "12\n"


@pytest.mark.parametrize("command", [["stats"], ["index", "--columns", "t"]], ids=["stats", "index"])
def test_times_far_away(tmp_path: Path, capfd: pytest.CaptureFixture[str], command: list[str]) -> None:
    path = tmp_path / "far.orc"
    with blocking.create(path, "struct<t:timestamp>") as out:
        out.write({"t": np.array([1 << 52], "M8[s]")})
    assert main([*command, str(path)]) == 0
    assert str(np.datetime64(1 << 52, "s")) in capfd.readouterr().out


def test_what_cannot_be_opened_hides_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text.orc").write_text("no ORC")
    sound = put(tmp_path / "sound.orc", "struct<n:int>", {"n": 1})
    assert main(["verify", str(tmp_path / "text.orc"), "nope://x", sound]) == 1
    lines = capfd.readouterr().out.splitlines()
    assert [" cannot be read" in line for line in lines] == [True, True, False]
    assert main(["verify", sound, "nope://x"]) == 2
    printed = capfd.readouterr()
    assert f"{sound}: sound" in printed.out
    assert "no file system for nope" in printed.err


def test_names_give_no_orders(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    wicked = put(tmp_path / "a.orc", f"struct<`{ORDER}`:string>", {ORDER: ORDER})
    plain = put(tmp_path / "b.orc", "struct<a:string>", {"a": "x"})
    target = str(tmp_path / "c.orc")
    assert main(["merge", target, plain, wicked, "--skip-incompatible"]) == 0
    printed = capfd.readouterr()
    assert "skipped" in printed.err
    said = [printed.err, failed(capfd, "merge", target, plain, wicked)]
    assert main(["cat", wicked]) == 0
    said.append(capfd.readouterr().out)
    for text in said:
        assert r"\x1b" in text or r"\u001b" in text
        assert all(line.isprintable() for line in text.splitlines())
        assert text.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", "[1,2"),
        ("a.jsonl", '{"a":' * 5_000),
        ("a.jsonl", '{"a":' * 5_000 + "1" + "}" * 5_000),
        ("a.jsonl", '{"a":' * 300 + "1" + "}" * 300),
        ("a.jsonl", '{"a":' + "[" * 300 + "1" + "]" * 300 + "}"),
        ("a.parquet", "PAR1xxxxPAR1"),
        ("a.csv.gz", "no gzip"),
    ],
    ids=["array", "cut off", "deep", "300 objects", "300 arrays", "parquet", "gzip"],
)
def test_a_damaged_source(tmp_path: Path, capfd: pytest.CaptureFixture[str], name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    error = failed(capfd, "convert", str(tmp_path / name), str(tmp_path / "a.orc"), status=3)
    assert error.startswith("orcstream: ")
    assert error.count("\n") == 1
    assert not (tmp_path / "a.orc").exists()


@pytest.mark.parametrize(
    ("command", "status"),
    [
        ("meta {} >&-", 0),
        ("count {} >&- 2>&-", 0),
        ("meta {}x >&-", 4),
        ("meta {} >/dev/full", 4),
        ("--version >/dev/full", 4),
        ("--help >/dev/full", 4),
    ],
)
def test_outputs_that_take_nothing(
    tmp_path: Path, command: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)  # where it is set, printing fails, not the end
    path = put(tmp_path / "a.orc", "struct<n:int>", {"n": 1})
    words = command.format(path)
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m orcstream {words}"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == status
    assert done.stderr.count("\n") <= 1
