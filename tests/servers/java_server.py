"""Servers of Hadoop's for tests, each in a JVM of its own, on the loopback.

`make servers` fetches their jars. Where they are missing, tests that need them do not run, and say so.
A JVM ends with this process, whatever ends it, because its standard input does.
"""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path

from tests.support.needs import CACHE, not_here

__all__ = ["HASTE", "missing_jars", "start_java_server"]

START_TIMEOUT_S = 180
# They live for minutes: a second compiler does not pay, nor does looking at each class that is loaded.
HASTE = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-BytecodeVerificationRemote",
)
JAVA = ("java", "-Xmx512m", *HASTE, "-Djava.net.preferIPv4Stack=true")


def missing_jars(name: str) -> str | None:
    """What the server lacks on this machine, in words; None when it can be started."""
    if (CACHE / name / ".fetched").exists():
        return None
    return f"no jars of {name} in .cache/{name}: `make servers` fetches them"


def start_java_server(
    name: str,
    program: Path,
    *arguments: str,
    options: tuple[str, ...] = (),
    environment: Mapping[str, str] | None = None,
) -> list[int]:
    """The ports of a server that was started now; `program` is given a folder, and removes it at its end."""
    problem = missing_jars(name)
    if problem is not None:
        not_here(problem)
    folder = tempfile.mkdtemp(prefix=f"orcstream-{name}")
    process = subprocess.Popen(
        [*JAVA, *options, "-cp", f"{folder}:{CACHE / name}/*", str(program), folder, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        env={**os.environ, **(environment or {})},
        text=True,
    )
    stdin, stdout = process.stdin, process.stdout
    assert stdin is not None and stdout is not None

    def stop() -> None:
        stdin.close()
        try:
            process.wait(20)  # it removes its folder
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            shutil.rmtree(folder, ignore_errors=True)
        stdout.close()

    atexit.register(stop)
    timer = threading.Timer(START_TIMEOUT_S, process.kill)
    timer.start()
    line = stdout.readline()
    timer.cancel()
    assert line.startswith("ready "), f"{name} did not start: {line!r}, status {process.poll()}"
    return [int(port) for port in line.split()[1:]]
