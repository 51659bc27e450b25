"""What every sink of bytes keeps, whichever store is behind it, and what the package's own keep besides."""

from __future__ import annotations

import asyncio
import functools
import io
import itertools
import os
import pickle
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from orcstream.errors import SinkError, Unsupported, UsageError
from orcstream.io.contract.byte_sink import SinkOptions
from orcstream.io.contract.byte_source import Transient
from orcstream.io.loop.clients import leased_clients
from orcstream.io.request.part_sink import PartSink
from orcstream.io.sink import cleanup, commit, open_sink
from orcstream.io.stores.fsspec.sink import ATOMIC_RENAMES
from orcstream.testing import ByteSinkContract
from tests.servers.hdfs import USER
from tests.servers.sink_stores import (
    SINK_STORES,
    DescribedSinkStore,
    SinkStore,
    make_store,
    rename_at_once,
)

DATA = os.urandom(16 << 20)


@pytest.fixture(params=SINK_STORES)
def plain(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SinkStore:
    monkeypatch.setitem(ATOMIC_RENAMES, "tests.servers.sink_stores.RenamingFileSystem", rename_at_once)
    if request.param == "hdfs_native":
        monkeypatch.setenv("HADOOP_USER_NAME", USER)
    return make_store(request.param, tmp_path)


@pytest.fixture
def store(plain: SinkStore) -> SinkStore:
    return plain


class TestByteSink(ByteSinkContract):
    """Of every store there is."""

    @pytest.fixture
    def store(self, plain: SinkStore) -> DescribedSinkStore:
        return DescribedSinkStore(plain)


CHILD = """
import asyncio, pickle, sys
from orcstream.io.sink import cleanup, commit
prepared, options, tuned = pickle.load(sys.stdin.buffer)
asyncio.run(commit(prepared, storage_options=options, sink_options=tuned))
"""


async def test_another_process_commits(store: SinkStore, request: pytest.FixtureRequest) -> None:
    data = DATA[: store.part_bytes + 1]
    message = pickle.dumps((await store.write("a.orc", data), store.options, store.tuned()))
    if store.url_of("").startswith(("memory:", "copytest:", "renametest:")):
        # Stores of this process alone: another loop, from the pickle.
        prepared, options, tuned = pickle.loads(message)
        await anyio.to_thread.run_sync(
            lambda: asyncio.run(commit(prepared, storage_options=options, sink_options=tuned))
        )
    else:
        await anyio.run_process([sys.executable, "-c", CHILD], input=message, stderr=sys.stderr)
    assert store.seen("a.orc") == data
    assert store.left() == []


async def test_clean_up_of_some_names(store: SinkStore) -> None:
    if store.url_of("").startswith("memory:"):
        return  # nothing is ever left there
    for name in ("a.orc", "a.orc2"):
        await store.write(name, b"data")  # nobody will commit it
    clean = functools.partial(cleanup, storage_options=store.options, older_than_s=0)
    folder = store.url_of("a.orc").rpartition("/")[0]
    assert await clean(folder, containing="b.orc") == []
    assert len(store.left()) == 2
    assert len(await clean(folder, containing="orc2")) == 1
    assert len(store.left()) == 1
    assert len(await clean(folder)) == 1
    assert store.left() == []


# By number of the call: before or after it, and what is raised.
Plan = dict[int, tuple[str, Exception]]


class FaultyStore:
    """A store whose calls fail: as `plan` says."""

    def __init__(self, inner: Any, plan: Plan) -> None:
        self.inner, self.plan = inner, plan
        self.calls: list[str] = []
        self.part_cap = inner.part_cap
        self.smallest_part_bytes = inner.smallest_part_bytes
        self.upload_cap = inner.upload_cap

    def new_upload(self, options: SinkOptions) -> Any:
        return FaultyUpload(self.inner.new_upload(options), self)

    async def aclose(self) -> None:
        await self.inner.aclose()


class FaultyUpload:
    def __init__(self, inner: Any, store: FaultyStore) -> None:
        self.inner, self.store = inner, store
        self.retries_parts = inner.retries_parts

    @property
    def remains(self) -> str:
        return str(self.inner.remains)

    def __getattr__(self, name: str) -> Any:
        async def call(*arguments: Any) -> Any:
            number = len(self.store.calls)
            self.store.calls.append(name)
            when, error = self.store.plan.get(number, ("", Exception()))
            if when == "before":
                raise error
            answer = await getattr(self.inner, name)(*arguments)
            if when == "after":
                raise error
            return answer

        return call


async def faulty_sink(store: SinkStore, plan: Plan) -> tuple[PartSink, FaultyStore]:
    plain = await store.open("a.orc")
    assert isinstance(plain, PartSink)
    faulty = FaultyStore(plain._store, plan)
    tuned = SinkOptions.of(store.tuned(retries=0))
    sink = PartSink(store.url_of("a.orc"), faulty, tuned, overwrite=True)  # type: ignore[arg-type]
    return sink, faulty


@pytest.mark.sampled
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    "error", [Transient("gone"), SinkError("no"), PermissionError("no"), RuntimeError("?")], ids=repr
)
async def test_a_store_that_fails_at_any_call(store: SinkStore, when: str, error: Exception) -> None:
    if store.part_bytes > 10_000 and not isinstance(error, Transient):
        return  # these stores are slow, and it makes no difference to them which error it was
    store.put("a.orc", b"earlier")
    for number in itertools.count():
        sink, faulty = await faulty_sink(store, {number: (when, error)})
        expected = PermissionError if isinstance(error, PermissionError) else SinkError
        try:
            await sink.write(DATA[: 2 * store.part_bytes + 1])
            await sink.prepare()
        except expected:
            pass
        else:
            assert number == len(faulty.calls)
            break
        faulty.plan = {}
        await sink.abort()
        assert store.left() == []
        assert store.seen("a.orc") == b"earlier"
    faulty.plan = {}
    await sink.abort()
    assert number == 5  # begin, three parts, finish
    assert store.left() == []


async def test_an_abort_that_fails_says_so_and_closes() -> None:
    store = make_store("memory", Path())
    sink, _ = await faulty_sink(store, {0: ("before", Transient("gone"))})
    with pytest.raises(SinkError, match="cleanup"):
        await sink.abort()


async def test_an_abort_ends_in_time() -> None:
    store = make_store("memory", Path())
    plain = await store.open("a.orc", abort_timeout_s=0.05)
    assert isinstance(plain, PartSink)

    async def hang() -> None:
        await anyio.sleep(60)

    plain._upload.discard = hang  # type: ignore[method-assign]
    with anyio.fail_after(5), pytest.raises(SinkError, match=r"0\.05 s"):
        await plain.abort()


async def test_memory_is_bounded_and_parts_travel_together() -> None:
    store = make_store("memory", Path())
    sink = await store.open("a.orc", part_bytes=1000, in_flight_bytes=5000, upload_cap=3)
    assert isinstance(sink, PartSink)
    gate, under_way, most = anyio.Event(), 0, 0
    put = sink._upload.put

    async def gated(number: int, offset: int, data: bytes) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await gate.wait()
        under_way -= 1
        assert data == DATA[offset : offset + len(data)]
        await put(number, offset, data)

    sink._upload.put = gated  # type: ignore[method-assign]
    written = 0
    with anyio.move_on_after(0.2):
        for start in range(0, 100_000, 100):
            await sink.write(DATA[start : start + 100])
            written = start + 100
            assert sink.held_bytes <= 5000
    assert written < 5000, "back-pressure"
    assert most == 3
    await sink.abort()
    assert sink.held_bytes == 0


async def test_writing_goes_on_while_parts_travel() -> None:
    store = make_store("memory", Path())
    sink = await store.open("a.orc", part_bytes=1000, in_flight_bytes=4000, upload_cap=2)
    assert isinstance(sink, PartSink)
    put, most = sink._upload.put, 0

    async def slow(number: int, offset: int, data: bytes) -> None:
        nonlocal most
        await anyio.sleep(0.001 * (number % 3))
        most = max(most, sink.held_bytes)
        await put(number, offset, data)

    sink._upload.put = slow  # type: ignore[method-assign]
    await sink.write(DATA[:100_500])
    await store.commit(await sink.prepare())
    assert store.seen("a.orc") == DATA[:100_500]
    assert most <= 4000
    await sink.aclose()


async def test_two_tasks_cannot_write_at_once() -> None:
    store = make_store("memory", Path())
    sink = await store.open("a.orc", part_bytes=10, in_flight_bytes=20)
    async with anyio.create_task_group() as group:
        group.start_soon(sink.write, DATA[:1000])
        await asyncio.sleep(0)
        with pytest.raises(UsageError, match=r"\btasks\b"):
            await sink.write(b"x")
    await sink.abort()


async def test_a_buffer_is_written_by_the_commit() -> None:
    buffer = io.BytesIO(b"head")
    buffer.seek(4)
    sink = await open_sink(buffer, sink_options={"part_bytes": 100})
    await sink.write(DATA[:1000])
    prepared = await sink.prepare()
    assert buffer.getvalue() == b"head"
    with pytest.raises(UsageError):
        pickle.dumps(prepared)
    await commit(prepared)
    assert buffer.getvalue() == b"head" + DATA[:1000]
    await sink.aclose()


async def test_stores_that_cannot_commit_at_once_are_refused() -> None:
    with pytest.raises(Unsupported, match="allow_non_atomic") as caught:
        await open_sink("copytest://sinks/a.orc")
    assert caught.value.reason == "non_atomic_store"
    assert leased_clients() == 0


@pytest.mark.parametrize("url", ["http://host/a.orc", "simplecache::s3://b/a.orc", "zip://a::file:///b.zip"])
async def test_what_cannot_be_written_is_refused(url: str) -> None:
    with pytest.raises(Unsupported) as caught:
        await open_sink(url)
    assert caught.value.reason == "read_only_store"


@pytest.mark.parametrize(
    "options",
    [
        {"part_bytes": 0},
        {"retries": -1},
        {"timeout_s": 0},
        {"allow_non_atomic": 1},
        {"upload_cap": True},
        {"x": 1},
        3,
    ],
)
async def test_options_are_checked(options: Any) -> None:
    with pytest.raises(UsageError, match="sink_options"):
        await open_sink("memory://a", sink_options=options)


def test_sinks_need_asyncio() -> None:
    def step() -> None:
        open_sink("memory://a").send(None)

    with pytest.raises(Unsupported) as caught:
        step()
    assert caught.value.reason == "trio"
