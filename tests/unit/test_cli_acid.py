"""The command line's transactional tables: what it prints of real ones, and what it says no to."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from orcstream import acid, col
from orcstream.cli import output as cli_output
from orcstream.cli.main import main
from tests.generators.acid_tables import SCHEMA, rows_of
from tests.unit.test_cli_merge import Terminal


async def _make(url: str) -> None:
    await acid.create_table(url, SCHEMA, partitions={"part": "int"})
    async with acid.open_table(url) as table:
        async with await table.transaction() as change:
            await change.insert([{"id": one, "name": "a", "part": one % 2} for one in range(10)])
        async with await table.transaction() as change:
            await change.delete(col("id") == 4)
            await change.insert([{"id": 10, "name": "b", "part": 1}])
        await table.transaction()  # of a program that ends here


@pytest.fixture
def table(tmp_path: Path) -> str:
    url = str(tmp_path / "table")
    asyncio.run(_make(url))
    return url


def run(capfd: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    assert main(["acid", *arguments]) == status
    printed = capfd.readouterr()
    return printed.err if status else printed.out


def shown(capfd: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(capfd, *arguments, "--json"))
    return found


def test_show(capfd: pytest.CaptureFixture[str], table: str) -> None:
    text = run(capfd, "show", table)
    assert "up to 3, without 3 (open)" in text
    assert re.search(r"part=0\n +directory", text)
    assert re.search(r"delete_delta_0000002_0000002_0000 +2 +read +1 +[0-9]+ B +0 +1\n", text)
    assert text.endswith("\n10 rows\n")
    found = shown(capfd, "show", table, "--write-ids", "1")
    assert (found["row_count"], found["high_watermark"], found["partition_columns"]) == (10, 1, ["part"])
    states = {(one["partition"], one["name"]): one["state"] for one in found["directories"]}
    assert states["part=1", "delta_0000001_0000001_0000"] == "read"
    assert states["part=1", "delta_0000002_0000002_0001"] == "not visible"
    assert shown(capfd, "show", table, "--no-count")["row_count"] is None


def test_compact_and_clean(capfd: pytest.CaptureFixture[str], table: str) -> None:
    assert "part=0/base_0000002_v0000004: 4 rows, in place of 2" in run(
        capfd, "compact", table, "--kind", "major", "--partition", "part=0"
    )
    assert "0 B in 0 places would be removed; 2 kept" in run(capfd, "clean", table, "--dry-run")
    # A transaction is open that began before.
    assert "2 kept" in run(capfd, "clean", table, "--older-than", "0s")
    text = run(capfd, "clean", table, "--older-than", "0s", "--give-up", "0s")
    assert "given up: 3" in text
    assert "part=0/delta_0000001_0000001_0000" in text
    assert "in 2 places removed\n" in text
    minor = shown(capfd, "compact", table)
    assert [one["path"] for one in minor["partitions"]] == ["part=1"]
    assert run(capfd, "compact", table) == "nothing to compact\n"
    assert asyncio.run(rows_of(table)) == {**{one: "a" for one in range(10) if one != 4}, 10: "b"}


def test_what_is_no_table(capfd: pytest.CaptureFixture[str], table: str, tmp_path: Path) -> None:
    assert "no partition 'part=7'" in run(capfd, "compact", table, "--partition", "part=7", status=2)
    assert "is no list of write ids" in run(capfd, "show", table, "--write-ids", "x", status=2)
    assert run(capfd, "show", str(tmp_path / "nothing"), status=4).startswith("orcstream: ")
    (tmp_path / "empty").mkdir()
    assert "no files that say its columns" in run(capfd, "show", str(tmp_path / "empty"), status=2)


def test_what_takes_long_shows_progress(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli_output, "_PROGRESS_AFTER_S", 0.0)
    monkeypatch.setattr(cli_output, "_PROGRESS_EVERY_S", 0.0)
    for command, shown_text in (("show", " so far"), ("compact", " written"), ("clean", "listing ")):
        terminal = Terminal()
        monkeypatch.setattr("sys.stderr", terminal)
        assert main(["acid", command, table]) == 0
        assert shown_text in terminal.getvalue()
        assert terminal.getvalue().endswith("\r\x1b[K")
