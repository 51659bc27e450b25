"""What Windows and macOS lack is not needed: modules are imported, and local files read and written, without.

That is not those systems. It shows that what stands in for the missing calls does what they do, that nothing
is removed or replaced while it is open, and that none of the calls was overlooked.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from orcstream.io import urls
from orcstream.io.stores.local import source as system
from tests.io.other_system_child import MISSING_CALLS
from tests.meta.tree import ROOT, source_files


def test_local_files_without_calls_of_posix(tmp_path: Path) -> None:
    child = subprocess.run(
        [sys.executable, "-m", "tests.io.other_system_child", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert child.returncode == 0, child.stderr
    count, _, left = child.stdout.partition(" ")
    assert int(count) > 150
    made = ["a.orc", "b.orc", "in/n=0/0.orc", "in/n=1/1.orc", "in/n=2/2.orc"]
    assert ast.literal_eval(left) == made


def test_only_two_modules_name_these_calls() -> None:
    named = re.compile(rf"\bos\.({'|'.join([*MISSING_CALLS, 'kill', 'mkfifo', 'setsid'])})\b")
    found = [
        str(path.relative_to(ROOT)) for path in source_files("orcstream") if named.search(path.read_text())
    ]
    assert found == ["orcstream/io/loop/system.py", "orcstream/io/stores/local/source.py"]


@pytest.mark.parametrize("has_calls", [True, False])
def test_places_in_files(has_calls: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not has_calls:
        monkeypatch.delattr(os, "preadv")
        monkeypatch.delattr(os, "pwrite")
        monkeypatch.delattr(os, "RWF_NOWAIT", raising=False)
    descriptor = os.open(tmp_path / "a", os.O_RDWR | os.O_CREAT)
    try:
        system.write_at(descriptor, b"world", 6)
        system.write_at(descriptor, b"hello ", 0)
        data = bytearray(8)
        assert system.read_at(descriptor, memoryview(data), 4) == 7
        assert data == b"o world\0"
        assert system.read_at(descriptor, memoryview(data), 11) == 0
        assert has_calls or not system.tells_cached(descriptor)
    finally:
        os.close(descriptor)


def test_urls_with_drives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(urls, "_HAS_DRIVES", True)
    assert urls.local_path("file:///C:/a/b.orc") == "C:/a/b.orc"
    assert urls.local_path("file:/d:/a.orc") == "d:/a.orc"
    assert urls.local_path("C:\\a\\b.orc") == "C:\\a\\b.orc"
    assert urls.local_path("file:///a") == "/a"
    assert urls.protocol_of("C:\\a\\b.orc") == urls.protocol_of("C:/a/b.orc") == "file"
