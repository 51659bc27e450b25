"""The command line's jobs: what is printed, and the exit status."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import orcstream
from orcstream.cli.commands import job as cli_job
from orcstream.cli.main import main
from orcstream.cli.output import report
from orcstream.spark import jobs
from tests.spark.test_jobs import data_files, ids, lines

# Spark takes long to begin where others are at work.
pytestmark = pytest.mark.timeout(300)


# What `verify` and `profile` take, as the command line has it where nothing is given.
LOOKING: dict[str, Any] = dict.fromkeys(("report", "journal", "storage_options", "keys"), None) | {
    "paths": []
}


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    status = main(["job", *map(str, arguments)])
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def test_jobs(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines(tmp_path / "in", "a.json", range(50))
    target = tmp_path / "out"
    schema = ("--from", "json", "--schema", "id bigint, text string, day string")
    for number in range(2):
        lines(tmp_path / "in", f"{number}.json", range(50 + number * 50, 100 + number * 50))
        status, out, _ = run(
            capsys,
            "ingest",
            tmp_path / "in",
            target,
            *schema,
            "--sort",
            "id",
            "--write-option",
            "blooms=text",
        )
        assert status == 0
        assert f"{target}: {100 - number * 50} rows in " in out
    assert ids(target) == list(range(150))

    status, out, _ = run(capsys, "compact", target, "--json")
    found = json.loads(out)
    assert (status, found["made"], found["is_continued"]) == (0, 1, False)
    assert len(data_files(target)) == 1

    status, out, _ = run(capsys, "verify", target)
    assert (status, out) == (0, "sound: 1 file, 150 rows, 1 stripe, 12 claims\n")
    (tmp_path / "none.orc").write_bytes(b"nothing")
    status, out, _ = run(capsys, "verify", target, tmp_path / "none.orc")
    assert status == 1
    assert out.startswith("not sound: 2 files, ")
    assert "none.orc: unreadable" in out

    status, out, _ = run(capsys, "profile", target, "--no-distinct")
    assert status == 0
    assert "1 file, 150 rows, " in out
    assert "  id bigint, " in out
    assert ", 0 to 149, a value leaves 100.0% of row groups" in out

    status, _, err = run(capsys, "compact", tmp_path / "nowhere")
    assert status == 4
    assert err.startswith("orcstream: ")
    assert "nowhere" in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments",
    [["job"], ["job", "compact", "x", "--target-size", "much"], ["job", "ingest", "a", "b", "--option", "x"]],
)
def test_calls_that_have_to_be_changed(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as error:
        main(arguments)
    assert error.value.code == 2
    assert capsys.readouterr().err.startswith("orcstream: ")


def test_without_spark(tmp_path: Path) -> None:
    orcstream.blocking.write(tmp_path / "a.orc", pa.table({"id": [1]}))
    program = """
import sys
sys.modules["pyspark"] = None
from orcstream.cli.main import main
sys.exit(main(["job", "verify", sys.argv[1]]))
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], check=False, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "pip install 'orcstream[spark]'" in done.stderr


def test_texts_of_files_give_a_terminal_no_orders(
    monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    finding = jobs.Finding("a\x1b[2J.orc", None, None, "na\nme", "minimum", "\x7f", "b", known=False)
    result = jobs.VerifyResult(1, 1, 1, 1, 1, (finding,))
    monkeypatch.setattr(jobs, "verify", lambda *_, **__: result)
    for as_json in (False, True):
        options = argparse.Namespace(**LOOKING, json=as_json)
        status, document, lines = cli_job._verify(None, options, None)
        assert status == 1
        report(options, document, lines)
        printed = capsysbinary.readouterr().out.decode()
        if as_json:
            assert json.loads(printed)["findings"][0]["recorded"] == "\x7f"
        else:
            assert len(printed.splitlines()) == 2
            assert all(one.isprintable() for one in printed.splitlines())


def test_long_bounds_are_cut(monkeypatch: pytest.MonkeyPatch, capsysbinary: Any) -> None:
    sizes: dict[str, Any] = {"stored_bytes": 1, "plain_bytes": 1, "stream_bytes": {}, "encodings": {}}
    shares: dict[str, Any] = {"row_group_count": 1, "point_share": None, "range_share": None}
    column = jobs.ColumnProfile("s", "string", 1, 0, "short", "x" * 1000, None, **sizes, **shares)
    monkeypatch.setattr(jobs, "profile", lambda *_, **__: jobs.ProfileResult(1, 1, 1, (column,)))
    for as_json in (False, True):
        options = argparse.Namespace(**LOOKING, json=as_json, no_distinct=True)
        status, document, lines = cli_job._profile(None, options, None)
        assert status == 0
        report(options, document, lines)
        printed = capsysbinary.readouterr().out.decode()
        assert ("x" * 1000 in printed) == as_json
        assert as_json or f"short to {'x' * 39}…" in printed
