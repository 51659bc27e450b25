"""`orcstream convert` as a program: standard input, terminals, signals, memory, and an object store."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, orc, parquet

from orcstream.cli.main import main
from tests.meta.tree import ROOT
from tests.servers.loopback import MotoServer, moto_server
from tests.support.effort import some

__all__ = ["moto_server"]

CONVERT = [sys.executable, "-m", "orcstream", "convert"]
WITHOUT = [sys.executable, "-m", "tests.support.without_pyarrow", "convert"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
IN_STRIPES = ["--from", "csv", "--memory-limit", "32MB", "--stripe-bytes", "64KB"]
# What is read ahead to decide on types, and some more.
MUCH = 3 << 20


def _begin(command: list[str], folder: Path, terminal: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=terminal, stderr=terminal, cwd=folder, env=ENVIRONMENT
    )


@pytest.mark.parametrize("command", [CONVERT, WITHOUT])
def test_standard_input(tmp_path: Path, command: list[str]) -> None:
    """In pieces that end anywhere."""
    text = "".join(f'{{"n": {n}, "text": "zwölf {n}"}}\n' for n in range(20_000)).encode()
    with _begin([*command, "-", "out.orc", "--from", "jsonl"], tmp_path) as process:
        assert process.stdin
        for start in range(0, len(text), 9_999):
            process.stdin.write(text[start : start + 9_999])
        done, said = process.communicate()
        assert (process.returncode, said) == (0, b"")
        assert done.startswith(b"out.orc: 20,000 rows in 1 stripe, ")
    assert orc.read_table(tmp_path / "out.orc").to_pylist() == [
        json.loads(line) for line in text.splitlines()
    ]


@pytest.mark.parametrize(
    ("command", "count", "pause_s"),
    some(
        [
            (CONVERT, 10, 0.0),
            (CONVERT, 900_000, 0.0),
            (WITHOUT, 900_000, 0.0),
            (WITHOUT, 10, 0.0),
            (CONVERT, 900_000, 0.2),
        ],
        2,
    ),
)
def test_an_interrupt_leaves_nothing(tmp_path: Path, command: list[str], count: int, pause_s: float) -> None:
    """While it waits for bytes, for the first ones or with stripes written already, and while it writes."""
    with _begin([*command, "-", "out.orc", *IN_STRIPES], tmp_path) as process:
        assert process.stdin
        assert process.stderr
        _feed(process, tmp_path, count, pause_s)
        begin_s = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
        assert time.monotonic() - begin_s < 10
        assert process.stderr.read() == b""
        with suppress(BrokenPipeError):
            process.stdin.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", some([CONVERT, WITHOUT]))
def test_a_failure_does_not_wait_for_the_rest(tmp_path: Path, command: list[str]) -> None:
    """Of an input whose end does not come."""
    with _begin([*command, "-", "out.orc", *IN_STRIPES], tmp_path) as process:
        assert process.stdin
        assert process.stderr
        _feed(process, tmp_path, 900_000, 0.0)
        with suppress(BrokenPipeError):
            process.stdin.write(b"".join(b"%d\n" % n for n in range(300_000)) + b"no number\n" * 300_000)
        assert process.wait(20) == 2
        assert re.fullmatch(rb"orcstream: .*no number.*\n", process.stderr.read())
    assert list(tmp_path.iterdir()) == []


def _feed(process: subprocess.Popen[bytes], folder: Path, count: int, pause_s: float) -> None:
    """Write rows until the program waits for the first ones, or stripes of them are being written."""
    assert process.stdin
    random = np.random.default_rng(5).integers(0, 1 << 62, count).tolist()
    process.stdin.write(b"n\n" + b"".join(b"%d\n" % n for n in random))
    process.stdin.flush()
    if count > 10:
        deadline_s = time.monotonic() + 60
        while not list(folder.iterdir()) and time.monotonic() < deadline_s:
            time.sleep(0.02)
        time.sleep(pause_s)
    else:
        _wait_until_read(process.stdin.fileno())
    assert len(list(folder.iterdir())) == (count > 10)


def _wait_until_read(pipe: int) -> None:
    """Until the other end has taken all that was written: it can only wait for more then."""
    deadline_s = time.monotonic() + 60
    while int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder):
        assert time.monotonic() < deadline_s
        time.sleep(0.02)
    time.sleep(0.2)


def _until(descriptor: int, pattern: bytes) -> bytes:
    found, deadline_s = b"", time.monotonic() + 20
    while not re.search(pattern, found) and time.monotonic() < deadline_s:
        if select.select([descriptor], [], [], 0.1)[0]:
            try:
                found += os.read(descriptor, 4096)
            except OSError:  # the other end is closed
                break
    return found


def test_progress_on_a_terminal(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    try:
        command = [*CONVERT, "-", "out.orc", "--from", "csv", "--memory-limit", "32MB"]
        with _begin(command, tmp_path, theirs) as process:
            os.close(theirs)
            assert process.stdin
            process.stdin.write(b"n,text\n" + b"1,some text\n" * (MUCH // 12))
            process.stdin.flush()
            shown = _until(ours, rb"\r\x1b\[K[0-9]{2,3},[0-9]{3} rows, 3\.0 MiB, [0-9.]+ [MK]iB/s")
            assert b"rows, 3.0 MiB, " in shown
            process.stdin.close()
            end = _until(ours, rb"out\.orc: .*\n")
            assert process.wait(20) == 0
            assert re.search(
                rb"\r\x1b\[Kout\.orc: 262,144 rows in 1 stripe, [0-9.]+ [KM]?i?B, [0-9.]+ s\r\n$", end
            )
    finally:
        os.close(ours)


def test_no_progress_elsewhere(tmp_path: Path) -> None:
    with _begin([*CONVERT, "-", "out.orc", "--from", "csv"], tmp_path) as process:
        assert process.stdin
        process.stdin.write(b"n\n1\n")
        process.stdin.flush()
        time.sleep(2)
        done, said = process.communicate()
    assert said == b""
    assert re.fullmatch(rb"out\.orc: 1 row in 1 stripe, [0-9]+ B, [0-9.]+ s\n", done)


# --- memory ------------------------------------------------------------------------------------------------

PEAK = """
import sys
from pathlib import Path
from orcstream.cli.main import main
def status(name):
    (line,) = (x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith(name))
    return int(line.split()[1]) << 10
arguments = sys.argv[1:]
assert main(["convert", "tiny." + arguments[0].split(".")[-1], "tiny.orc"]) == 0
before = status("VmRSS:")
assert main(["convert", *arguments]) == 0
print(status("VmHWM:") - before)
"""


COUNT = 1_600_000
LIMIT = 32 << 20
# The library's and the writer's own memory, which does not depend on the file; 100 MB would not fit in.
BESIDES = 120 << 20


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with 100 MB of CSV, random, so that nothing becomes small, and a tiny file of the same."""
    folder = tmp_path_factory.mktemp("large")
    random = np.random.default_rng(5)
    numbers, reals = random.integers(0, 1 << 62, (2, COUNT))
    digits = pa.py_buffer(random.bytes(16 * COUNT).hex().encode())
    ends = pa.py_buffer(np.arange(0, 32 * COUNT + 1, 32, dtype=np.int32))
    texts = pa.StringArray.from_buffers(COUNT, ends, digits)
    table = pa.table({"n": numbers, "real": reals / 7, "text": texts})
    csv.write_csv(table, folder / "in.csv", csv.WriteOptions(quoting_style="none"))
    (folder / "tiny.csv").write_text("n,real,text\n1,2.5,x\n")
    assert (folder / "in.csv").stat().st_size > 100_000_000
    return folder


@pytest.mark.parametrize("ending", some(["csv", "orc", "parquet"], 2))
def test_a_large_file_takes_little_memory(large: Path, ending: str) -> None:
    if ending != "csv":
        for name in ("in", "tiny"):
            _another(large / f"{name}.csv", large / f"{name}.{ending}")
    command = [sys.executable, "-c", PEAK, f"in.{ending}", "out.orc", "--memory-limit", str(LIMIT)]
    run = subprocess.run(command, cwd=large, env=ENVIRONMENT, capture_output=True, check=True)
    assert orc.ORCFile(large / "out.orc").nrows == COUNT
    assert int(run.stdout.split()[-1]) < LIMIT + BESIDES


def _another(source: Path, target: Path) -> None:
    table = csv.read_csv(source)
    if target.suffix == ".parquet":
        parquet.write_table(table, target, row_group_size=200_000)
    else:
        orc.write_table(table, target)


# --- an object store ---------------------------------------------------------------------------------------


def test_from_a_store_to_a_store(
    tmp_path: Path, moto_server: MotoServer, capfd: pytest.CaptureFixture[str]
) -> None:
    text = "n,text\n" + "".join(f"{n},t{n}\n" for n in range(1000))
    moto_server.put("bucket", "in.csv", text.encode())
    there = json.dumps(
        {
            "key": "testing",
            "secret": "testing",
            "endpoint_url": moto_server.endpoint,
            "client_kwargs": {"region_name": "us-east-1"},
        }
    )
    options = ["--storage-options", there]
    assert main(["convert", "s3://bucket/in.csv", "s3://bucket/out.orc", *options]) == 0
    assert capfd.readouterr().out.startswith("s3://bucket/out.orc: 1,000 rows in ")
    local = str(tmp_path / "back.orc")
    options += ["--target-storage-options", "{}", "--where", "n >= 998"]
    assert main(["convert", "s3://bucket/out.orc", local, *options]) == 0
    assert orc.read_table(local).to_pylist() == [{"n": 998, "text": "t998"}, {"n": 999, "text": "t999"}]
    assert main(["convert", "s3://bucket/none.csv", local, "--storage-options", there]) == 4
    assert "s3://bucket/none.csv" in capfd.readouterr().err
