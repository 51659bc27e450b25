"""Servers of tests as processes of their own, which end with the process that started them.

A watcher beside each server reads a pipe that nobody writes to. When the pipe ends, at the exit of the
starter or because that was killed, the watcher kills the server and removes its folder.
"""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

__all__ = ["await_port", "free_port", "new_folder", "start_process"]

START_TIMEOUT_S = 60
# The shell becomes the server, so that its number and its end are the server's. What it starts in the
# background has its standard input by another number only.
WATCHED = """
exec 3<&0
{ cat; kill -9 $$; rm -rf "$0"; } <&3 >/dev/null 2>&1 &
exec "$@" 3<&- </dev/null
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
    return port


def new_folder(name: str) -> Path:
    """A folder for a server to be started."""
    return Path(tempfile.mkdtemp(prefix=f"orcstream-{name}"))


def start_process(
    command: list[str], folder: Path, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """A server, which is stopped at the exit of this process, and its `folder` removed."""
    process = subprocess.Popen(
        ["/bin/sh", "-c", WATCHED, str(folder), *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **(environment or {})},
        start_new_session=True,  # an interrupt at the terminal is for the tests
    )

    def stop() -> None:
        process.kill()
        process.wait()
        assert process.stdin is not None
        process.stdin.close()
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(stop)
    return process


def await_port(process: subprocess.Popen[bytes], port: int) -> None:
    """Return when the server takes connections; it is an error if it ends, or does not in time."""
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
        except ConnectionError:
            if process.poll() is not None or time.monotonic() > deadline_s:
                raise
            time.sleep(0.02)  # a process of its own can only be polled
        else:
            return
