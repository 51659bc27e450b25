"""Servers that tests start end with whoever started them, and leave nothing."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

PROGRAM = """
import sys
from pathlib import Path
from tests.servers.processes import start_process
folder = Path(sys.argv[1])
process = start_process([sys.executable, "-c", "import time; time.sleep(600)"], folder)
print(process.pid, flush=True)
sys.stdin.read()
"""


def is_running(pid: int) -> bool:
    """Whether it runs; one that has ended and that nobody has asked for since does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize("killed", [False, True])
def test_a_server_ends_with_its_starter(killed: bool, tmp_path: Path) -> None:
    folder = tmp_path / "server's folder"
    folder.mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as starter:
        assert starter.stdout is not None and starter.stdin is not None
        server = int(starter.stdout.readline())
        assert is_running(server)
        if killed:
            starter.kill()
        starter.stdin.close()
        starter.wait()
    while is_running(server) or folder.exists():
        time.sleep(0.01)  # the watcher is nobody's child; the test's time limit ends this
