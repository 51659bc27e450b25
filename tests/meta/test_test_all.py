"""`make test-all`: what fails is told, and keeps nothing else from being tried."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence

import pytest

from scripts import test_all
from tests.meta.tree import ROOT


def test_it_goes_on_after_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tried: list[Sequence[str]] = []

    def make(targets: Sequence[str]) -> int:
        tried.append(targets)
        return 2 if "test" in targets else 0

    monkeypatch.setattr(test_all, "make", make)
    assert test_all.main(["lint", "test", "demo"]) == 2
    assert [targets[0] for targets in tried] == ["lint", "test", "demo"]
    lines = [line.split() for line in capsys.readouterr().out.splitlines()[-4:]]
    assert lines[0] == ["part", "result", "time"]
    assert [line[:2] for line in lines[1:]] == [["lint", "passed"], ["test", "FAILED"], ["demo", "passed"]]
    assert test_all.main(["lint"]) == 0


def test_all_parts_are_targets() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {targets_[0] for targets_ in test_all.PARTS.values()} <= targets


def test_a_part_whose_python_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(test_all, "THIS_PYTHON", "python3.13")
    monkeypatch.setattr("shutil.which", lambda _: None)
    assert test_all.main(["test-oldest"]) == 0
    assert "not run: no python3.11" in capsys.readouterr().out


def test_the_oldest_versions_run_on_the_python_that_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        commands.append(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(test_all, "THIS_PYTHON", "python3.13")
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr("subprocess.run", run)
    assert test_all.main(["test-oldest"]) == 0
    assert commands == [["make", "test-oldest", "PYTHON=python3.11"]]
