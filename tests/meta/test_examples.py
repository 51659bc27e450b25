"""The examples that need no server run, and show what they say."""

from __future__ import annotations

import json
import runpy

import pytest

from scripts.run_notebook import run_notebook
from tests.meta.tree import ROOT


def test_selecting(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples" / "selecting.py"))["main"]()
    printed = capsys.readouterr().out
    assert "by row group statistics" in printed
    assert "by bloom filters" in printed
    assert "3 match: " in printed
    assert "[{'id': 200000, 'row_number': 200000}, " in printed
    assert "'id': '0', 'unit': None}, {'value': Decimal('" in printed


def test_write_file(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["write_file.py"])
    runpy.run_path(str(ROOT / "examples" / "write_file.py"))["main"]()
    printed = capsys.readouterr().out
    assert "is there a file? False" in printed
    assert "200,000 rows in 1 stripe, " in printed
    assert "{'id': 100000, 'sensor': 's-000', 'value': None, 'tags': ['first', None]}" in printed
    assert "pyarrow reads 200,000 rows" in printed
    assert "SchemaMismatch: the column 'id' holds 'ten'" in printed
    assert "unchanged: True, files beside it: 0" in printed


def test_copy_filtered(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["copy_filtered.py"])
    runpy.run_path(str(ROOT / "examples" / "copy_filtered.py"))["main"]()
    source, target, read = capsys.readouterr().out.splitlines()
    assert source.startswith("memory://example/all.orc: 400,000 rows, ")
    assert target.startswith("memory://example/large.orc: ")
    assert read.startswith("{'origin': b'example'} [{'id': 300")


def test_notebook() -> None:
    notebook = json.loads((ROOT / "examples" / "tour.ipynb").read_text())
    count = 0
    for cell, outputs in run_notebook(notebook):
        assert outputs == cell["outputs"]
        count += len(outputs)
    assert count >= 7


def test_all_examples_are_listed() -> None:
    page = (ROOT / "docs" / "examples.md").read_text()
    names = [one.name for one in (ROOT / "examples").iterdir() if one.is_file()]
    assert [name for name in names if f"examples/{name})" not in page] == []
