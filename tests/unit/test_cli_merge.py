"""`orcstream merge`: what it prints and what it leaves, and how it fails."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc

from orcstream.cli import output as cli_output
from orcstream.cli.main import main


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Two that go together, and one that does not."""
    for name, numbers in (("a", range(10)), ("b", range(10, 30))):
        orc.write_table(pa.table({"n": numbers}), tmp_path / f"{name}.orc")
    orc.write_table(pa.table({"n": ["text"]}), tmp_path / "c.orc")
    return [str(tmp_path / f"{name}.orc") for name in "abc"]


def test_one_file_of_two(files: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "all.orc"
    assert main(["merge", str(target), *files[:2]]) == 0
    printed = capfd.readouterr()
    assert printed.out == f"{target}: 30 rows in 2 stripes of 2 files, {target.stat().st_size} B\n"
    assert printed.err == ""
    assert orc.read_table(target).column("n").to_pylist() == list(range(30))


def test_a_file_that_does_not_go_with_them(
    files: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "all.orc"
    assert main(["merge", str(target), *files]) == 2
    error = capfd.readouterr().err
    assert error.startswith(f"orcstream: {files[2]}: cannot be merged with {files[0]}: its schema is ")
    assert error.count("\n") == 1
    assert not target.exists()
    assert main(["merge", "--skip-incompatible", str(target), *files]) == 0
    printed = capfd.readouterr()
    assert "30 rows in 2 stripes of 2 files" in printed.out
    assert printed.err.startswith(f"orcstream: skipped {files[2]}: its schema is ")


def test_failures(files: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["merge", files[0], files[1], "--no-overwrite"]) == 4
    assert files[0] in capfd.readouterr().err
    assert orc.read_table(files[0]).num_rows == 10
    missing = str(tmp_path / "missing.orc")
    assert main(["merge", files[0], files[1], missing]) == 4
    assert missing in capfd.readouterr().err
    with pytest.raises(SystemExit) as left:
        main(["merge", files[0]])
    assert left.value.code == 2


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_of_what_takes_long(
    files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    target = str(tmp_path / "all.orc")
    assert main(["merge", target, *files[:2]]) == 0
    assert terminal.getvalue() == ""  # it was done in no time
    monkeypatch.setattr(cli_output, "_PROGRESS_AFTER_S", 0.0)
    monkeypatch.setattr(cli_output, "_PROGRESS_EVERY_S", 0.0)
    assert main(["merge", target, *files[:2]]) == 0
    assert terminal.getvalue().endswith("(100%)\r\x1b[K")


def test_no_progress_where_nobody_looks(
    files: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli_output, "_PROGRESS_AFTER_S", 0.0)
    assert main(["merge", str(tmp_path / "all.orc"), *files[:2]]) == 0
    assert capfd.readouterr().err == ""
