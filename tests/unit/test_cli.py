"""The command line, on files that pyarrow wrote: what it prints loses nothing, and how it fails."""

from __future__ import annotations

import base64
import csv
import datetime
import io
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc

import orcstream
from orcstream.cli.commands.cat import csv_format, json_format
from orcstream.cli.main import main
from orcstream.schema.schema import Schema
from tests.generators.trips import trips

NASTY_TEXTS = [
    "",
    "plain",
    'a "quoted" word',
    "comma, and\nline\r\nbreaks",
    "\x00\x1f\x7f",
    "zwölf 十二 🙂",
    None,
]
WIDE = Decimal("-12345678901234567890123456789012345.678")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cli")


@pytest.fixture(scope="module")
def texts(folder: Path) -> str:
    """Seven rows: a number and a text that is hard to quote."""
    path = folder / "texts.orc"
    orc.write_table(pa.table({"n": pa.array(range(7), pa.int32()), "text": NASTY_TEXTS}), str(path))
    return str(path)


@pytest.fixture(scope="module")
def kinds(folder: Path) -> str:
    """Two rows of values at the edges of what their types hold, and one of nulls."""
    wide = pa.decimal128(38, 3)
    nested = pa.struct([("tags", pa.list_(pa.string())), ("by", pa.map_(pa.int32(), wide))])
    when = pa.timestamp("ns")
    columns = {
        "yes": pa.array([True, False, None]),
        "big": pa.array([2**63 - 1, -(2**63), None]),
        "half": pa.array([0.1, float("nan"), None], pa.float32()),
        "real": pa.array([float("-inf"), 1e300, None]),
        "price": pa.array([WIDE, Decimal("0.001"), None], wide),
        "raw": pa.array([b"\x00\xff", b"", None]),
        "day": pa.array([datetime.date(1, 1, 1), datetime.date(9999, 12, 31), None]),
        "at": pa.array([1, 1_500_000_000_500_000_000, None], when),
        "instant": pa.array([1_500_000_000_123_456_789, 0, None], pa.timestamp("ns", "UTC")),
        "deep": pa.array([{"tags": ['"', None], "by": [(1, WIDE)]}, {"tags": [], "by": None}, None], nested),
    }
    path = folder / "kinds.orc"
    orc.write_table(pa.table(columns), str(path))
    return str(path)


def _run(capfd: pytest.CaptureFixture[str], *arguments: str) -> str:
    status = main(list(arguments))
    printed = capfd.readouterr()
    assert (status, printed.err) == (0, "")
    return printed.out


def _rows(capfd: pytest.CaptureFixture[str], *arguments: str) -> list[Any]:
    lines = _run(capfd, "cat", *arguments).split("\n")
    assert lines.pop() == ""
    return [json.loads(line, parse_float=Decimal) for line in lines]


def _fails(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    status = main(list(arguments))
    printed = capfd.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("orcstream: ")
    assert printed.err.count("\n") == 1
    return status, printed.err


def test_json_keeps_every_text(capfd: pytest.CaptureFixture[str], texts: str) -> None:
    assert _rows(capfd, texts) == [{"n": n, "text": text} for n, text in enumerate(NASTY_TEXTS)]


def test_json_keeps_every_digit(capfd: pytest.CaptureFixture[str], kinds: str) -> None:
    first, second, nulls = _rows(capfd, kinds)
    assert first == {
        "yes": True,
        "big": 2**63 - 1,
        "half": Decimal("0.1"),
        "real": "-Infinity",
        "price": WIDE,
        "raw": base64.b64encode(b"\x00\xff").decode(),
        "day": "0001-01-01",
        "at": "1970-01-01 00:00:00.000000001",
        "instant": "2017-07-14 02:40:00.123456789Z",
        "deep": {"tags": ['"', None], "by": [{"key": 1, "value": WIDE}]},
    }
    assert second == {
        "yes": False,
        "big": -(2**63),
        "half": "NaN",
        "real": Decimal("1e300"),
        "price": Decimal("0.001"),
        "raw": "",
        "day": "9999-12-31",
        "at": "2017-07-14 02:40:00.5",
        "instant": "1970-01-01 00:00:00Z",
        "deep": {"tags": [], "by": None},
    }
    assert nulls == dict.fromkeys(first)


def test_csv_is_read_back(capfd: pytest.CaptureFixture[str], texts: str) -> None:
    text = _run(capfd, "cat", texts, "--format", "csv")
    header, *rows = csv.reader(io.StringIO(text, newline=""))
    assert header == ["n", "text"]
    assert rows == [[str(n), "" if value is None else value] for n, value in enumerate(NASTY_TEXTS)]


def test_csv_tells_null_from_empty_text(capfd: pytest.CaptureFixture[str], texts: str) -> None:
    lines = _run(capfd, "cat", texts, "--format", "csv").split("\n")
    assert lines[1] == '0,""'
    assert lines[-2] == "6,"


def test_csv_holds_nested_values_as_json(capfd: pytest.CaptureFixture[str], kinds: str) -> None:
    text = _run(capfd, "cat", kinds, "--format", "csv", "--columns", "deep,price")
    rows = list(csv.reader(io.StringIO(text)))
    assert json.loads(rows[1][0])["tags"] == ['"', None]
    assert rows[1][1] == str(WIDE)


@pytest.mark.parametrize(
    ("type_", "value", "as_json", "as_csv"),
    [
        ("uniontype<int,string>", (1, "x"), '{"tag": 1, "value": "x"}', '"{""tag"": 1, ""value"": ""x""}"'),
        ("double", float("inf"), '"Infinity"', "Infinity"),
        ("double", -0.0, "-0.0", "-0.0"),
        ("decimal(38,10)", Decimal("1E-10"), "0.0000000001", "0.0000000001"),
        ("char(3)", "a,b", '"a,b"', '"a,b"'),
        ("boolean", False, "false", "false"),
        ("struct<>", {}, "{}", "{}"),
    ],
)
def test_single_values(type_: str, value: Any, as_json: str, as_csv: str) -> None:
    from orcstream import UnionValue

    root = Schema.parse(type_).root
    value = UnionValue(*value) if isinstance(value, tuple) else value
    assert json_format(root)(value) == as_json
    assert csv_format(root)(value) == as_csv


def test_columns_come_in_the_order_asked(capfd: pytest.CaptureFixture[str], kinds: str) -> None:
    rows = _rows(capfd, kinds, "--columns", "deep.tags,big")
    assert [list(row) for row in rows] == [["deep", "big"]] * 3
    assert rows[0]["deep"] == {"tags": ['"', None]}


def test_no_columns_keep_the_rows(capfd: pytest.CaptureFixture[str], kinds: str) -> None:
    assert _rows(capfd, kinds, "--columns", "") == [{}, {}, {}]


def test_backquotes_keep_dots(capfd: pytest.CaptureFixture[str], folder: Path) -> None:
    path = folder / "dots.orc"
    orc.write_table(pa.table({"a.b": [1], "c,d": [2]}), str(path))
    assert _rows(capfd, str(path), "--columns", "`c,d`,`a.b`") == [{"c,d": 2, "a.b": 1}]


@pytest.mark.parametrize("limit", [0, 1, 20_000, 40_000, 50_000])
def test_limit(capfd: pytest.CaptureFixture[str], folder: Path, limit: int) -> None:
    path = folder / "many.orc"
    if not path.exists():
        orc.write_table(pa.table({"n": range(40_000)}), str(path))
    rows = _rows(capfd, str(path), "--limit", str(limit))
    assert [row["n"] for row in rows] == list(range(min(limit, 40_000)))


def test_times_in_another_unit(capfd: pytest.CaptureFixture[str], kinds: str) -> None:
    rows = _rows(capfd, kinds, "--columns", "at", "--timestamp-unit", "s", "--limit", "0")
    assert rows == []


# --- rows that are chosen -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def chosen(folder: Path) -> str:
    """25,000 rows in three row groups."""
    path = folder / "chosen.orc"
    count = 25_000
    table = pa.table(
        {
            "n": range(count),
            "day": pa.array([datetime.date(2020, 1, 1) + datetime.timedelta(i // 100) for i in range(count)]),
            "s": [{"x": i % 7, "t": None if i % 5 == 0 else f"it's {i % 3}"} for i in range(count)],
        }
    )
    orc.write_table(table, str(path))
    return str(path)


@pytest.mark.parametrize(
    ("where", "match"),
    [
        ("n in (3, 12000, 24999, 99999)", lambda n: n in (3, 12000, 24999)),
        ("s.t = 'it''s 2' and not n > 100", lambda n: n % 5 and n % 3 == 2 and n <= 100),
        ("s.t is null and n between 10 and 20", lambda n: n in (10, 15, 20)),
        ("day = date '2020-01-03'", lambda n: 200 <= n < 300),
    ],
)
def test_where(
    capfd: pytest.CaptureFixture[str], chosen: str, where: str, match: Callable[[int], object]
) -> None:
    expected = [n for n in range(25_000) if match(n)]
    assert [row["n"] for row in _rows(capfd, chosen, "--columns", "n", "--where", where)] == expected
    assert _run(capfd, "count", chosen, "--where", where) == f"{len(expected)}\n"


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ("10:13", [10, 11, 12]),
        (":2", [0, 1]),
        ("24998:", [24998, 24999]),
        ("24998:99999", [24998, 24999]),
        ("5:5", []),
        ("7:5", []),
        ("25000:", []),
    ],
)
def test_rows(capfd: pytest.CaptureFixture[str], chosen: str, rows: str, expected: list[int]) -> None:
    assert [row["n"] for row in _rows(capfd, chosen, "--rows", rows)] == expected
    assert _run(capfd, "count", chosen, "--rows", rows) == f"{len(expected)}\n"


def test_rows_where_and_limit_together(capfd: pytest.CaptureFixture[str], chosen: str) -> None:
    options = ["--rows", "9990:", "--where", "s.x = 0", "--limit", "3", "--row-numbers", "--columns", "s.x"]
    found = _rows(capfd, chosen, *options)
    assert [row["row_number"] for row in found] == [9996, 10003, 10010]
    assert _rows(capfd, chosen, "--where", "n < 3", "--limit", "10", "--columns", "") == [{}] * 3
    assert _rows(capfd, chosen, "--where", "n < 3", "--limit", "0") == []


def test_count_of_all(capfd: pytest.CaptureFixture[str], chosen: str) -> None:
    assert _run(capfd, "count", chosen) == "25000\n"


def test_another_schema(capfd: pytest.CaptureFixture[str], chosen: str) -> None:
    options = ["--schema", "struct<n:string,new:date>", "--where", "n = '7'"]
    assert _rows(capfd, chosen, *options) == [{"n": "7", "new": None}]
    assert _run(capfd, "cat", chosen, *options, "--format", "csv") == "n,new\n7,\n"


def test_plan_of_chosen_rows(capfd: pytest.CaptureFixture[str], chosen: str) -> None:
    text = _run(capfd, "plan", chosen, "--columns", "n", "--where", "n = 24000")
    assert "5,000 of 25,000" in text
    assert "20,000 by row group statistics" in text
    assert "10,000 of 25,000" in _run(capfd, "plan", chosen, "--rows", "10000:20000")


def test_a_literal_of_another_type_is_the_callers(capfd: pytest.CaptureFixture[str], chosen: str) -> None:
    status, message = _fails(capfd, "count", chosen, "--where", "day = '2020-01-03'")
    assert status == 2
    assert "in text: date '2020-01-03'" in message


def test_errors_of_where_show_the_place(capfd: pytest.CaptureFixture[str], chosen: str) -> None:
    with pytest.raises(SystemExit) as left:
        main(["cat", chosen, "--where", "n > 5 & day"])
    assert left.value.code == 2
    assert capfd.readouterr().err == (
        "orcstream: argument --where: write and, or, not, at character 7:\n  n > 5 & day\n        ^\n"
    )


def test_the_examples_of_the_help_are_right(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    examples = [
        shlex.split(line)[1:]
        for line in capfd.readouterr().out.splitlines()
        if line.startswith("  orcstream ") and "s3:" not in line
    ]
    assert len(examples) >= 5
    orc.write_table(trips(), str(tmp_path / "trips.orc"))
    monkeypatch.chdir(tmp_path)
    for arguments in examples:
        assert main(arguments) == 0
        assert any(capfd.readouterr())


def test_meta_says_what_pyarrow_says(capfd: pytest.CaptureFixture[str], kinds: str) -> None:
    facts = json.loads(_run(capfd, "meta", "--json", kinds))
    theirs = orc.ORCFile(kinds)
    assert facts["row_count"] == theirs.nrows
    assert facts["stripe_count"] == theirs.nstripes
    assert facts["length"] == theirs.file_length
    assert f"{facts['writer']} {facts['software_version']}" == theirs.software_version
    assert facts["format_version"] == theirs.file_version
    assert facts["row_index_stride"] == theirs.row_index_stride


def test_meta_for_people(capfd: pytest.CaptureFixture[str], texts: str) -> None:
    text = _run(capfd, "meta", texts)
    assert "schema:                 struct<n:int,text:string>\n" in text
    assert (
        f"length:                 {Path(texts).stat().st_size} B ({Path(texts).stat().st_size} bytes)\n"
        in text
    )
    assert "stripe count:           1\n" in text


def test_plan_is_the_files_explanation(capfd: pytest.CaptureFixture[str], texts: str) -> None:
    text = _run(capfd, "plan", texts, "--columns", "n")
    assert texts in text
    assert "struct<n:int>" in text
    assert "hops" in text


def test_a_missing_file(capfd: pytest.CaptureFixture[str], folder: Path) -> None:
    path = str(folder / "missing.orc")
    status, message = _fails(capfd, "cat", path)
    assert status == 4
    assert path in message


def test_a_file_of_another_kind(capfd: pytest.CaptureFixture[str]) -> None:
    status, message = _fails(capfd, "meta", __file__)
    assert status == 3
    assert __file__ in message


def test_an_unknown_column_is_the_callers(capfd: pytest.CaptureFixture[str], texts: str) -> None:
    status, message = _fails(capfd, "cat", texts, "--columns", "txet")
    assert status == 2
    assert texts in message
    assert "did you mean 'text'" in message


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["cat"],
        ["cut", "x.orc"],
        ["cat", "x.orc", "--limit", "-1"],
        ["cat", "x.orc", "--format", "xml"],
        ["cat", "x.orc", "--storage-options", "anon"],
        ["cat", "x.orc", "--storage-options", "[1]"],
        ["cat", "x.orc", "--columns", "`a"],
        ["cat", "x.orc", "--rows", "5"],
        ["cat", "x.orc", "--rows", "-5:"],
        ["cat", "x.orc", "--rows", "1:2:3"],
        ["cat", "x.orc", "--rows", ":" + "9" * 5000],
        ["cat", "x.orc", "--where", ""],
        ["count", "x.orc", "--columns", "a"],
        ["plan", "x.orc", "--schema", "struct<a:intt>"],
        ["plan", "x.orc", "--schema", "array<" * 300 + "int" + ">" * 300],
    ],
)
def test_wrong_calls(capfd: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert left.value.code == 2
    message = capfd.readouterr().err
    assert message.startswith("orcstream: ")
    assert message.count("\n") == 1 or "^" in message


def test_cleanup(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    left = tmp_path / f".a.orc.orcstream-{'0' * 32}.tmp"
    left.write_bytes(b"half a file")
    (tmp_path / "a.orc").write_bytes(b"whole")
    os.utime(left, (time.time() - 7300,) * 2)
    target = str(tmp_path / "a.orc")
    assert _run(capfd, "cleanup", target, "--older-than", "3h") == "0 found\n"
    wanted = f"temporary {left}, 2h old\n1 found\n"
    assert _run(capfd, "cleanup", target, "--older-than", "121m", "--dry-run") == f"would remove {wanted}"
    assert left.exists()
    assert _run(capfd, "cleanup", str(tmp_path), "--older-than", "2h") == f"removed {wanted}"
    assert [path.name for path in tmp_path.iterdir()] == ["a.orc"]


def test_cleanup_of_what_can_have_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    assert _fails(capfd, "cleanup", "http://host/a.orc", "--older-than", "1d")[0] == 3


def test_as_a_program_with_a_reader_that_leaves(folder: Path) -> None:
    path = folder / "long.orc"
    orc.write_table(pa.table({"text": ["some text"] * 200_000}), str(path))
    command = [sys.executable, "-m", "orcstream", "cat", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        assert process.stdout.readline() == b'{"text": "some text"}\n'
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 141


def test_output_is_utf8_whatever_the_locale(texts: str) -> None:
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-m", "orcstream", "cat", texts]
    printed = subprocess.run(command, env=environment, check=True, capture_output=True).stdout
    assert [json.loads(line)["text"] for line in printed.decode().splitlines()] == NASTY_TEXTS


def test_an_interrupt_while_the_command_line_is_imported_is_silent(tmp_path: Path) -> None:
    (tmp_path / "anyio.py").write_text("raise KeyboardInterrupt\n")
    root = Path(orcstream.__file__).parents[1]
    run = subprocess.run(
        [sys.executable, "-m", "orcstream", "--version"],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{root}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stdout, run.stderr) == (130, "", "")
