"""What every sink of bytes keeps, whichever store is behind it."""

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
from orcstream.io.byte_sink import ByteSink, SinkOptions
from orcstream.io.byte_source import Transient
from orcstream.io.clients import keep_clients, leased_clients
from orcstream.io.part_sink import PartSink
from orcstream.io.sink import cleanup, commit, open_sink
from orcstream.io.sink_filesystem import ATOMIC_RENAMES
from tests.support.s3_proxy import S3_KINDS
from tests.support.sink_stores import SinkStore, make_store, rename_at_once

KINDS = ["local", "file_url", "memory", "copytest", "renametest", "hdfs", *S3_KINDS]
DATA = os.urandom(16 << 20)


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SinkStore:
    monkeypatch.setitem(ATOMIC_RENAMES, "tests.support.sink_stores.RenamingFileSystem", rename_at_once)
    return make_store(request.param, tmp_path)


def sizes_of(store: SinkStore) -> list[int]:
    part = store.part_bytes
    return [0, 1, part - 1, part, part + 1, 3 * part + 17]


@pytest.mark.parametrize("case", range(6))
async def test_what_was_written_appears_with_the_commit(store: SinkStore, case: int) -> None:
    size = sizes_of(store)[case]
    sink = await store.open("a.orc")
    for start in range(0, size, 700_001):
        await sink.write(DATA[start : min(size, start + 700_001)])
    assert sink.length == size
    assert store.seen("a.orc") is None
    prepared = await sink.prepare()
    assert prepared == await sink.prepare()
    assert store.seen("a.orc") is None
    assert prepared.length == size
    await store.commit(prepared)
    assert store.seen("a.orc") == DATA[:size]
    assert store.left() == []
    await sink.aclose()
    await sink.aclose()
    assert leased_clients() == 0
    await store.commit(prepared)  # once more, as after a lost answer
    assert store.seen("a.orc") == DATA[:size]


async def test_small_writes_of_any_buffer_keep_their_order(store: SinkStore) -> None:
    sink = await store.open("a.orc")
    expected = bytearray()
    reused = bytearray(8)
    for number in range(3000):
        reused[:] = number.to_bytes(8, "big")
        await sink.write(reused)
        await sink.write(memoryview(reused)[2:6])
        expected += reused + reused[2:6]
    await store.commit(await sink.prepare())
    await sink.aclose()
    assert store.seen("a.orc") == bytes(expected)


async def test_an_earlier_file_stays_until_the_commit(store: SinkStore) -> None:
    store.put("a.orc", b"earlier")
    sink = await store.open("a.orc")
    await sink.write(DATA[: 2 * store.part_bytes])
    prepared = await sink.prepare()
    assert store.seen("a.orc") == b"earlier"
    await store.commit(prepared)
    assert store.seen("a.orc") == DATA[: 2 * store.part_bytes]
    await sink.aclose()
    await store.commit(await store.write("a.orc", b"short"))
    assert store.seen("a.orc") == b"short"
    assert store.left() == []


@pytest.mark.parametrize("when", ["at once", "after a byte", "after parts", "prepared"])
async def test_abort_leaves_nothing(store: SinkStore, when: str) -> None:
    store.put("a.orc", b"earlier")
    sink = await store.open("a.orc")
    size = {"at once": 0, "after a byte": 1}.get(when, 2 * store.part_bytes + 1)
    await sink.write(DATA[:size])
    if when == "prepared":
        await sink.prepare()
    await sink.abort()
    await sink.abort()
    assert store.left() == []
    assert store.seen("a.orc") == b"earlier"
    assert leased_clients() == 0
    with pytest.raises(UsageError):
        await sink.write(b"more")
    with pytest.raises(UsageError):
        await sink.prepare()


async def test_closing_without_prepare_aborts(store: SinkStore) -> None:
    sink = await store.open("a.orc")
    await sink.write(DATA[: 2 * store.part_bytes])
    await sink.aclose()
    assert store.left() == []
    assert store.seen("a.orc") is None
    assert leased_clients() == 0


async def test_discarding_what_was_prepared_leaves_nothing(store: SinkStore) -> None:
    prepared = await store.write("a.orc", DATA[: store.part_bytes + 1])
    await store.discard(prepared)
    await store.discard(prepared)
    assert store.left() == []
    assert store.seen("a.orc") is None


async def test_discarding_what_was_committed_leaves_it(store: SinkStore) -> None:
    prepared = await store.write("a.orc", b"data")
    await store.commit(prepared)
    await store.discard(prepared)
    assert store.seen("a.orc") == b"data"


async def test_without_overwrite_the_first_commit_wins(store: SinkStore) -> None:
    first = await store.write("a.orc", b"first", overwrite=False)
    second = await store.write("a.orc", b"second", overwrite=False)
    await store.commit(first)
    with pytest.raises(FileExistsError):
        await store.commit(second)
    assert store.seen("a.orc") == b"first"
    await store.discard(second)
    assert store.left() == []


async def test_without_overwrite_a_commit_may_be_repeated(store: SinkStore) -> None:
    prepared = await store.write("a.orc", b"first", overwrite=False)
    await store.commit(prepared)
    await store.commit(prepared)
    assert store.seen("a.orc") == b"first"


CHILD = """
import asyncio, pickle, sys
from orcstream.io.sink import commit
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


async def test_cancelled_anywhere_an_abort_leaves_nothing(
    store: SinkStore, request: pytest.FixtureRequest
) -> None:
    async def run(sink: ByteSink) -> None:
        await sink.write(DATA[: store.part_bytes + 1])
        await sink.write(DATA[: store.part_bytes])
        await sink.prepare()

    keeper = keep_clients()  # making one for each round takes longer than all the rest
    ticks, cancelled_count = 0.0, 0
    least, growth = (25, 1.4) if store.part_bytes < 10_000 else (4, 2.2)
    while True:
        sink = await store.open("a.orc")
        task = asyncio.create_task(run(sink))
        for _ in range(int(ticks)):
            await asyncio.sleep(0)
        finished = task.done()
        task.cancel()
        await asyncio.wait([task])
        if not finished:
            cancelled_count += task.cancelled()
            if task.cancelled() and ticks >= 1:  # it had begun
                with pytest.raises((SinkError, UsageError)):
                    await sink.prepare()
        await sink.abort()
        assert store.left() == []
        assert store.seen("a.orc") is None
        if finished:
            break
        ticks = ticks + 1 if ticks < least else ticks * growth
    assert cancelled_count > 2
    await keeper.aclose()
    assert leased_clients() == 0


async def test_an_abort_is_not_cancelled(store: SinkStore) -> None:
    sink = await store.open("a.orc")
    await sink.write(DATA[: 2 * store.part_bytes])
    with anyio.CancelScope() as scope:
        scope.cancel()
        await sink.abort()
    assert store.left() == []
    assert leased_clients() == 0


async def test_clean_up_finds_what_was_left(store: SinkStore) -> None:
    if store.url_of("").startswith("memory:"):
        assert await cleanup("memory://sinks", older_than_s=0) == []
        return
    await store.commit(await store.write("b.orc", b"stays"))
    for name in ("a.orc", "a.orc2"):
        await store.write(name, b"data")  # nobody will commit it
    assert len(store.left()) == 2
    clean = functools.partial(cleanup, storage_options=store.options)
    url = store.url_of("a.orc")
    assert await clean(url, older_than_s=1e9 if store.is_undated else 3600) == []
    listed = await clean(url, older_than_s=0, remove=False)
    assert len(listed) == 1
    assert len(store.left()) == 2
    removed = await clean(url, older_than_s=0)
    assert [one.identity for one in removed] == [one.identity for one in listed]
    assert len(store.left()) == 1
    assert await clean(url.rpartition("/")[0], older_than_s=0, containing="b.orc") == []
    assert len(store.left()) == 1
    found = await clean(url.rpartition("/")[0], older_than_s=0, containing="orc2")
    assert [one.kind for one in found] == [listed[0].kind]
    assert store.left() == []
    assert store.seen("b.orc") == b"stays"
    assert leased_clients() == 0


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
        with pytest.raises(UsageError, match="two tasks"):
            await sink.write(b"x")
    await sink.abort()


async def test_nothing_is_added_to_a_prepared_file() -> None:
    store = make_store("memory", Path())
    sink = await store.open("a.orc")
    prepared = await sink.prepare()
    with pytest.raises(UsageError, match="prepared"):
        await sink.write(b"x")
    await store.commit(prepared)
    assert store.seen("a.orc") == b""
    await sink.aclose()


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
