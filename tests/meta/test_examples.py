"""The example that needs no server runs, and shows what it says."""

from __future__ import annotations

import runpy

import pytest

from tests.meta.tree import ROOT


def test_selecting(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples" / "selecting.py"))["main"]()
    printed = capsys.readouterr().out
    assert "by row group statistics" in printed
    assert "by bloom filters" in printed
    assert "3 match: " in printed
    assert "[{'id': 200000, 'row_number': 200000}, " in printed
    assert "'id': '0', 'unit': None}, {'value': Decimal('" in printed
