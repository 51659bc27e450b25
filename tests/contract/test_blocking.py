"""`orcstream.blocking` has what the asynchronous interface has, and waits wherever a program may stand."""

from __future__ import annotations

import asyncio
import gc
import inspect
import io
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import orcstream
from orcstream import blocking
from orcstream.errors import ColumnNotFound, NotOrcFile, UsageError
from orcstream.reader.options import ReadKeywords
from orcstream.writer.options import CreateOptions, FileOptions
from tests.servers.loopback import RangeServer, range_server
from tests.support.read_sources import sample, sample_rows

__all__ = ["range_server"]  # fixture

DATA = sample(5, 40)
ROWS = [dict(zip("asd", row, strict=True)) for stripe in range(5) for row in sample_rows(stripe, 40)]
TIMEOUT_S = 60


def members_of(cls: type) -> set[str]:
    return {name for name in dir(cls) if not name.startswith("_")} - {"aclose"}


# --- the same names ---


@pytest.mark.parametrize("name", ["OrcFile", "BatchStream", "FileStream", "OrcWriter"])
def test_every_name_of_a_class_is_there(name: str) -> None:
    ours, theirs = getattr(blocking, name), getattr(orcstream, name)
    with (
        blocking.open(DATA) as file,
        file.batches() as batches,
        blocking.open_many([]) as files,
        blocking.create(io.BytesIO(), "struct<a:int>") as out,
    ):
        out.commit()
        made = {"OrcFile": file, "BatchStream": batches, "FileStream": files, "OrcWriter": out}[name]
        assert type(made) is ours
        for member in members_of(theirs):
            assert hasattr(made, member), member
            assert member in dir(made)
        assert hasattr(made, "close")
        assert not hasattr(made, "aclose")
        assert not hasattr(made, "nothing_of_the_kind")


@pytest.mark.parametrize("name", ["OrcFile", "BatchStream", "FileStream", "OrcWriter"])
def test_nothing_has_to_be_awaited(name: str) -> None:
    ours = getattr(blocking, name)
    for member in members_of(ours):
        assert not inspect.iscoroutinefunction(getattr(ours, member)), member


def test_top_level_names() -> None:
    assert set(blocking.__all__) >= {"open", "open_many", "read", "OrcFile", "BatchStream", "FileStream"}
    opening = set(inspect.signature(orcstream.open).parameters) - {"url"}
    assert opening <= set(inspect.signature(blocking.read).parameters)
    assert orcstream.blocking is blocking


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (blocking.open, orcstream.open),
        (blocking.open_many, orcstream.open_many),
        (blocking.create, orcstream.create),
        (blocking.ingest, orcstream.ingest),
        (blocking.merge, orcstream.merge),
        (blocking.cleanup, orcstream.cleanup),
        (blocking.commit, orcstream.commit),
        (blocking.discard, orcstream.discard),
        (blocking.OrcFile.batches, orcstream.OrcFile.batches),
        (blocking.OrcFile.read, orcstream.OrcFile.read),
        (blocking.OrcFile.take, orcstream.OrcFile.take),
        (blocking.OrcFile.explain, orcstream.OrcFile.explain),
    ],
)
def test_help_names_all_parameters(ours: Any, theirs: Any) -> None:
    assert inspect.signature(ours).parameters == inspect.signature(theirs).parameters
    assert f"orcstream.{theirs.__name__}" in ours.__doc__ or f"OrcFile.{theirs.__name__}" in ours.__doc__


def test_options_that_are_handed_on_are_those_that_there_are() -> None:
    reading = set(inspect.signature(orcstream.OrcFile.read).parameters) - {"self"}
    assert ReadKeywords.__optional_keys__ == reading
    creating = set(inspect.signature(orcstream.create).parameters) - {"url", "schema"}
    assert CreateOptions.__optional_keys__ == creating
    ingesting = set(inspect.signature(orcstream.ingest).parameters)
    assert FileOptions.__optional_keys__ == creating - ingesting


@pytest.mark.parametrize("name", ["OrcFile", "BatchStream", "FileStream", "OrcWriter", "Ingester"])
def test_every_member_is_written_down_for_editors(name: str) -> None:
    assert members_of(getattr(orcstream, name)) <= members_of(getattr(blocking, name))


def test_a_loop_that_waits_may_ingest(tmp_path: Path) -> None:
    with blocking.ingest(str(tmp_path / "{number}.orc"), "struct<a:int>", max_rows=10) as out:
        for number in range(25):
            out.write([{"a": number}])
        assert out.row_count == 25
    assert sorted(file.row_count for file in out.files) == [5, 10, 10]
    with pytest.raises(ZeroDivisionError), blocking.ingest(str(tmp_path / "b{number}.orc")) as out:
        out.write([{"a": 1 / 0}])
    assert not list(tmp_path.glob("b*"))
    assert blocking.cleanup(tmp_path, older_than_s=3600) == []


def test_methods_that_are_not_written_down_work_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async def twice(self: orcstream.OrcFile, number: int, *, more: int = 0) -> int:
        await asyncio.sleep(0)
        return 2 * number + more

    def stream(self: orcstream.OrcFile) -> orcstream.BatchStream:
        return self.batches(columns=["a"])

    monkeypatch.setattr(orcstream.OrcFile, "twice", twice, raising=False)
    monkeypatch.setattr(orcstream.OrcFile, "stream", stream, raising=False)
    opened: Any = blocking.open(DATA)
    with opened as file:
        assert file.twice(4, more=1) == 9
        assert [row for batch in file.stream() for row in batch.to_pylist()] == [{"a": r["a"]} for r in ROWS]


# --- reading ---


def test_it_reads_what_the_asynchronous_one_reads() -> None:
    async def asynchronously() -> list[Any]:
        async with orcstream.open(DATA) as file:
            return [
                (file.url, str(file.schema), file.row_count, file.stripes, file.compression, file.tail),
                (await file.read()).to_pylist(),
                [batch.to_pylist() async for batch in file.batches(columns=["s"], batch_rows=7)],
                str(await file.explain(columns=["s"])),
                await file.stripe_footer(1),
                await file.row_index(1),
                await file.stripe_statistics(),
                list(file.statistics),
                dict(file.user_metadata),
            ]

    with blocking.open(DATA) as file:
        found = [
            (file.url, str(file.schema), file.row_count, file.stripes, file.compression, file.tail),
            file.read().to_pylist(),
            [batch.to_pylist() for batch in file.batches(columns=["s"], batch_rows=7)],
            str(file.explain(columns=["s"])),
            file.stripe_footer(1),
            file.row_index(1),
            file.stripe_statistics(),
            list(file.statistics),
            dict(file.user_metadata),
        ]
    assert found == asyncio.run(asynchronously())
    assert found[1] == ROWS


def test_read_opens_and_closes(tmp_path: Path) -> None:
    path = tmp_path / "t.orc"
    path.write_bytes(DATA)
    result = blocking.read(path, columns=["a"], io_options={"tail_bytes": 100})
    assert pa.table(result).to_pylist() == [{"a": row["a"]} for row in ROWS]
    tail = blocking.open(path).tail
    assert blocking.read(path, tail=tail).num_rows == 200


def test_a_stream() -> None:
    with blocking.open(DATA) as file:
        with file.batches() as stream:
            assert next(stream).num_rows == 40
            assert stream.stats.row_count == 40
            assert str(stream.schema) == str(file.schema)
            assert tuple(pa.schema(stream).names) == stream.batch_schema.names == ("a", "s", "d")
        with pytest.raises(StopIteration):
            next(stream)
        for batch in file.batches():
            assert batch.num_rows == 40
            break
        assert file.read().num_rows == 200
    with pytest.raises(UsageError, match="closed"):
        file.read()
    file.close()


def test_many_files(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.orc" for number in range(20)]
    for number, path in enumerate(paths):
        path.write_bytes(sample(1, number + 1))
    with blocking.open_many(paths, ordered=True) as files:
        counts = []
        for file in files:
            with file:
                counts.append(file.read().num_rows)
    assert counts == list(range(1, 21))
    failed: list[Any] = []
    files = blocking.open_many([paths[0], tmp_path / "none"], on_error=lambda *found: failed.append(found))
    for file in files:
        file.close()
    assert [url for url, _ in failed] == [tmp_path / "none"]


def test_errors_are_those_of_the_asynchronous_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        blocking.open(tmp_path / "none.orc")
    with pytest.raises(NotOrcFile):
        blocking.read(b"nothing of the kind")
    with pytest.raises(UsageError, match="calendar"):
        blocking.open(DATA, calendar="lunar")
    with blocking.open(DATA) as file, pytest.raises(ColumnNotFound):
        file.batches(columns=["none"])


# --- where it is called ---


async def test_within_a_running_loop() -> None:
    """As in a notebook."""
    with blocking.open(DATA) as file:
        assert [row for batch in file.batches() for row in batch.to_pylist()] == ROWS
    async with orcstream.open(DATA) as other:
        assert (await other.read()).num_rows == blocking.read(DATA).num_rows


def test_from_many_threads() -> None:
    counts: list[int] = []
    with blocking.open(DATA) as file:
        threads = [threading.Thread(target=lambda: counts.append(file.read().num_rows)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert counts == [200] * 8


def test_its_own_loop_is_no_place_to_call_it_from() -> None:
    errors: list[Exception] = []

    def on_error(url: object, error: Exception) -> None:
        try:
            blocking.read(DATA)
        except UsageError as refused:
            errors.append(refused)

    with blocking.open_many([b"none"], on_error=on_error) as files:
        assert list(files) == []
    assert "event loop" in str(errors[0])


def test_dropped_objects_are_closed(range_server: RangeServer) -> None:
    url = range_server.serve("t.orc", DATA)
    file: blocking.OrcFile | None = blocking.open(url, io_options={"tail_bytes": 100})
    assert file is not None
    next(file.batches())
    session = file._inner._session
    file = None
    deadline_s = time.monotonic() + 10
    while not (session._closer and session._closer.done()):
        gc.collect()
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


# What asyncio says in development mode of calls that take long says how busy the machine is.
UNHURRIED = """
import logging
logging.getLogger("asyncio").addFilter(lambda record: not record.getMessage().startswith("Executing "))
"""


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-X", "dev", "-c", UNHURRIED + program, *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


FORK = """
import os, sys, orcstream
from orcstream import blocking
path = sys.argv[1]
file = blocking.open(path)
stream = file.batches(batch_rows=10)
next(stream)
child = os.fork()
if child == 0:
    for call in (file.read, lambda: next(stream), file.close, lambda: file.stripe_footer(0)):
        try:
            call()
        except orcstream.UsageError as error:
            assert "forked" in str(error)
        else:
            raise SystemExit("read by the child")
    assert blocking.read(path).num_rows == 200
    with blocking.open(path) as own:
        assert sum(batch.num_rows for batch in own.batches()) == 200
    del file, stream
    print("child", flush=True)
    raise SystemExit(0)
assert os.waitpid(child, 0)[1] == 0
assert sum(batch.num_rows for batch in stream) == 190
assert file.read().num_rows == 200
print("parent")
"""


@pytest.mark.parametrize("threads", [False, True], ids=["plain", "while reading"])
def test_after_a_fork(tmp_path: Path, *, threads: bool) -> None:
    (tmp_path / "t.orc").write_bytes(DATA)
    busy = """
import threading
ended = threading.Event()
def work():
    while not ended.is_set():
        blocking.read(path)
thread = threading.Thread(target=work)
thread.start()
"""
    program = FORK
    if threads:
        program = program.replace("child = os.fork()", busy + "child = os.fork()")
        program += "\nended.set(); thread.join()\n"
    done = run(program, str(tmp_path / "t.orc"))
    assert (done.returncode, done.stdout) == (0, "child\nparent\n"), done.stderr


END = {
    "with everything open": "file = blocking.open(path); stream = file.batches(batch_rows=1); next(stream)",
    "after a read": "blocking.read(path)",
    "nothing done": "pass",
    "in the middle of many": "files = blocking.open_many([path] * 100); next(files)",
    "by an exception": "blocking.read(path); raise SystemExit(0)",
    "with a thread that reads": """
import threading
def work():
    try:
        while True:
            blocking.read(path)
    except orcstream.UsageError as error:
        assert "ending" in str(error) or "cancelled" in str(error)
threading.Thread(target=work, daemon=True).start()
blocking.read(path)
""",
    "with a task that begins others": """
import asyncio, threading
from orcstream.blocking.loop import the_loop
begun = threading.Event()
async def begin():
    begun.set()
    try:
        await asyncio.sleep(60)
    finally:
        asyncio.create_task(asyncio.sleep(60))
def work():
    try:
        the_loop().run(begin)
    except orcstream.UsageError as error:
        assert "cancelled" in str(error)
threading.Thread(target=work, daemon=True).start()
begun.wait()
""",
    "with a group that begins tasks": """
import anyio, threading
from orcstream.blocking.loop import the_loop
begun = threading.Event()
async def begin():
    async with anyio.create_task_group() as group:
        while True:
            for _ in range(10):
                group.start_soon(anyio.sleep, 0)
            await anyio.sleep(0)
            begun.set()
def work():
    try:
        the_loop().run(begin)
    except orcstream.UsageError as error:
        assert "cancelled" in str(error)
threading.Thread(target=work, daemon=True).start()
begun.wait()
""",
}


AFTER_ITS_LAST_LINE = """
import threading, time
def work():
    with blocking.create(sys.argv[2], "struct<n:int>") as out:
        for number in range(5):
            out.write([{"n": number}])
            time.sleep(0.05)
    assert blocking.read(sys.argv[2]).num_rows == 5
    print("written")
threading.Thread(target=work).start()
"""


@pytest.mark.parametrize("first", ["", "blocking.read(path)"], ids=["first used there", "used before"])
def test_threads_end_their_work_after_the_main_one(tmp_path: Path, first: str) -> None:
    (tmp_path / "t.orc").write_bytes(DATA)
    start = "import sys, orcstream\nfrom orcstream import blocking\npath = sys.argv[1]\n"
    done = run(start + first + AFTER_ITS_LAST_LINE, str(tmp_path / "t.orc"), str(tmp_path / "out.orc"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "written\n", "")


@pytest.mark.parametrize("how", sorted(END))
def test_the_program_ends(tmp_path: Path, how: str) -> None:
    (tmp_path / "t.orc").write_bytes(DATA)
    start = "import sys, orcstream\nfrom orcstream import blocking\npath = sys.argv[1]\n"
    done = run(start + END[how], str(tmp_path / "t.orc"))
    assert (done.returncode, done.stderr) == (0, "")


FORGOTTEN = {
    "a file": "file = blocking.open(url)",
    "a data set": "files = blocking.dataset(url); files.count()",
    "a data set that is dropped": "blocking.dataset(url).count()",
}


@pytest.mark.parametrize("what", sorted(FORGOTTEN))
def test_connections_that_nobody_closed_end_with_the_program(what: str, range_server: RangeServer) -> None:
    start = "import sys, orcstream\nfrom orcstream import blocking\nurl = sys.argv[1]\n"
    done = run(start + FORGOTTEN[what], range_server.serve("t.orc", DATA))
    assert (done.returncode, done.stderr) == (0, "")


INTERRUPTED = """
import sys, time, orcstream
from orcstream import blocking
url, local = sys.argv[1:]
print("started", flush=True)
try:
    blocking.open(url)
except KeyboardInterrupt:
    print("interrupted", flush=True)
print(blocking.read(local).num_rows, flush=True)
"""


def test_ctrl_c_cancels_what_is_under_way(tmp_path: Path, range_server: RangeServer) -> None:
    (tmp_path / "t.orc").write_bytes(DATA)
    url = range_server.serve("t.orc", DATA)
    range_server.gate.clear()
    command = [sys.executable, "-c", INTERRUPTED, url, str(tmp_path / "t.orc")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "started\n"
        range_server.wait_for_requests(1)
        began_s = time.monotonic()
        os.kill(process.pid, signal.SIGINT)
        assert process.stdout.readline() == "interrupted\n"
        assert process.stdout.readline() == "200\n"
        assert process.wait(TIMEOUT_S) == 0
        # The answer would have come after a minute.
        assert time.monotonic() - began_s < 30


def test_what_is_awaited_elsewhere_is_no_blocking_url(tmp_path: Path) -> None:
    """URLs may come from an asynchronous generator here too: it runs on the loop."""
    (tmp_path / "t.orc").write_bytes(DATA)

    async def later() -> AsyncIterator[str]:
        for _ in range(3):
            await asyncio.sleep(0)
            yield str(tmp_path / "t.orc")

    counts = []
    for file in blocking.open_many(later()):
        with file:
            counts.append(file.row_count)
    assert counts == [200] * 3


# --- writing ---


def test_a_file_is_written_and_read(tmp_path: Path) -> None:
    table = pa.table({"a": [1, 2, None], "s": ["x", None, "z"]})
    result = blocking.write(tmp_path / "a.orc", table, compression="zlib")
    assert (result.row_count, result.length) == (3, (tmp_path / "a.orc").stat().st_size)
    with blocking.create(tmp_path / "b.orc") as out:
        assert out.write(blocking.read(tmp_path / "a.orc")) == 3
        assert out.write([(4, "v")]) == 1
        assert not (tmp_path / "b.orc").exists()
    assert out.result.row_count == 4
    assert pa.table(blocking.read(tmp_path / "b.orc")).to_pylist() == [
        *table.to_pylist(),
        {"a": 4, "s": "v"},
    ]


def test_an_exception_in_the_block_leaves_nothing(tmp_path: Path) -> None:
    def write() -> None:
        with blocking.create(tmp_path / "a.orc", "struct<a:int>") as out:
            out.write([(1,)])
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        write()
    assert list(tmp_path.iterdir()) == []
