"""Writers that are cancelled at every await, whose store fails at every request, or that are used wrongly.

Whatever happens: nothing half is visible, an earlier file stays what it was, nothing hidden is left in the
store, and no task or thread goes on.
"""

from __future__ import annotations

import asyncio
import itertools
import pickle
import random
import threading
import time
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pyarrow as pa
import pytest

import orcstream
from orcstream.codec.encode.file_encoder import StripeEncoder
from orcstream.errors import CommitUnknown, OrcError, SchemaMismatch, UsageError
from orcstream.io.contract.byte_sink import Prepared
from orcstream.io.request.part_sink import PartSink
from orcstream.io.sink import commit, discard
from orcstream.writer import workers
from orcstream.writer.creating import WholeFile
from tests.servers.loopback import MotoServer, start_moto
from tests.servers.s3_proxy import Fault, S3Proxy, s3_proxies
from tests.servers.sink_stores import SinkStore, local_store, memory_store, s3_store
from tests.support.effort import STEP, share, some

__all__ = ["s3_proxies"]  # a fixture

SCHEMA = "struct<a:int,s:string,d:double>"
BATCHES = [
    [(n, f"{random.Random(n).getrandbits(64):x}", n / 3) for n in range(start, start + 100)]
    for start in range(0, 600, 100)
]
ROWS = [row for batch in BATCHES for row in batch]
# Each batch fills a stripe, and each stripe a part.
OPTIONS: dict[str, Any] = {"stripe_bytes": 1024, "encode_threads": 2, "compression": "none"}
NAME = "a.orc"
EARLIER = b"earlier"


@pytest.fixture(params=["memory", "local"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> SinkStore:
    return memory_store() if request.param == "memory" else local_store(tmp_path)


def create(store: SinkStore, name: str = NAME, **more: Any) -> Any:
    return orcstream.create(
        store.url_of(name),
        SCHEMA,
        storage_options=store.options,
        sink_options=store.tuned(),
        **{**OPTIONS, **more},
    )


async def write_all(store: SinkStore) -> None:
    async with create(store) as out:
        for batch in BATCHES:
            await out.write(batch)


async def rows_of(store: SinkStore, name: str = NAME) -> list[tuple[Any, ...]]:
    url = store.url_of(name)
    async with orcstream.open(url, storage_options=store.options) as file, file.batches() as stream:
        return [tuple(row.values()) async for batch in stream for row in batch.to_pylist()]


@contextmanager
def watched() -> Iterator[Callable[..., None]]:
    """Afterwards, or when called, no task has been left and no thread encodes."""
    before = asyncio.all_tasks()
    active, lock = [0], threading.Lock()

    def counted(method: Any) -> Any:
        def call(*arguments: Any) -> Any:
            with lock:
                active[0] += 1
            try:
                return method(*arguments)
            finally:
                with lock:
                    active[0] -= 1

        return call

    def check(*, tasks: bool = True) -> None:
        assert active[0] == 0, "a thread goes on encoding"
        left = {task for task in asyncio.all_tasks() - before if not task.done()}
        assert not tasks or not left, left

    with pytest.MonkeyPatch.context() as patch:
        for name in ("take", "run", "close"):
            wrap(patch, name, counted)
        yield check
        check()


def wrap(patch: pytest.MonkeyPatch, name: str, wrapped: Callable[[Any], Any]) -> None:
    """Wrap what threads do for a stripe: make tasks of rows or of its end, or run their part of a round."""
    if name != "run":
        patch.setattr(StripeEncoder, name, wrapped(getattr(StripeEncoder, name)))
        return

    made = vars(workers)["Round"]  # which may be wrapped already

    def wrapped_round(tasks: Any) -> Any:
        inner = made(tasks)
        return SimpleNamespace(run=wrapped(inner.run), check=inner.check)

    patch.setattr(workers, "Round", wrapped_round)


class Stepped:
    """Runs a coroutine, calls `act` where it waits for the `at`-th time; `count` is how often it waited.

    `again` is how many times later it is called once more.
    """

    def __init__(
        self, inner: Coroutine[Any, Any, Any], at: int, act: Callable[[], object], again: int = 0
    ) -> None:
        self.inner, self.at, self.act, self.count = inner, (at, at + again), act, 0

    def __await__(self) -> Generator[Any, Any, Any]:
        value: Any = None
        error: BaseException | None = None
        while True:
            try:
                waited = self.inner.send(value) if error is None else self.inner.throw(error)
            except StopIteration as stop:
                return stop.value
            if self.count in self.at:
                self.act()
            self.count += 1
            value, error = None, None
            try:
                value = yield waited
            except BaseException as raised:  # noqa: BLE001 - handed on
                error = raised


async def stepped(
    inner: Coroutine[Any, Any, Any], at: int = -1, act: Callable[[], object] = lambda: None, again: int = 0
) -> int:
    steps = Stepped(inner, at, act, again)
    await steps
    return steps.count


async def assert_all_or_nothing(store: SinkStore) -> None:
    assert store.left() == []
    if store.seen(NAME) != EARLIER:
        assert await rows_of(store) == ROWS


@pytest.mark.parametrize(("native", "again"), some([(False, 0), (True, 1), (True, 0), (True, 3)], 2))
async def test_cancelled_at_every_await(store: SinkStore, native: bool, again: int) -> None:
    """By a scope, by the task, and by the task once more while it cleans up."""
    total = await stepped(write_all(store))
    assert total > 30
    caught = 0
    for number in range(0, total, STEP):
        store.put(NAME, EARLIER)
        with watched():
            if native:
                task = asyncio.create_task(stepped(write_all(store), number, lambda: task.cancel(), again))  # noqa: B023
                await asyncio.wait([task])
                caught += task.cancelled()
                if not task.cancelled():
                    task.result()
            else:
                scope = anyio.CancelScope()
                with scope:
                    await stepped(write_all(store), number, scope.cancel)
                caught += scope.cancelled_caught
        await assert_all_or_nothing(store)
    assert caught > total // STEP // 2


async def test_a_write_that_was_cancelled_leaves_only_abort(store: SinkStore) -> None:
    """The block ends as if nothing had happened, and nothing appears: rows may be missing."""

    async def run(number: int) -> bool:
        scope = anyio.CancelScope()
        async with create(store) as out:
            await out.write(BATCHES[0])
            with scope:
                await stepped(out.write(stream()), number, scope.cancel)
        return not scope.cancelled_caught

    for number in itertools.count():
        store.put(NAME, EARLIER)
        with watched():
            refused = ""
            try:
                if await run(number):
                    break
            except UsageError as error:
                refused = str(error)
        assert "abort it" in refused
        assert store.left() == []
        assert store.seen(NAME) == EARLIER
    assert number > 10


def stream() -> pa.RecordBatchReader:
    """All rows, a batch at a time; they can be had once."""
    schema = pa.schema({"a": pa.int32(), "s": pa.string(), "d": pa.float64()})
    columns = [list(zip(*batch, strict=True)) for batch in BATCHES]
    return pa.RecordBatchReader.from_batches(
        schema,
        [pa.record_batch(list(map(pa.array, held)), names=schema.names).cast(schema) for held in columns],
    )


@pytest.mark.parametrize("name", ["take", "run", "close"])
@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("threads", [1, 3])
async def test_threads_have_ended_when_a_cancelled_write_has(
    store: SinkStore, name: str, native: bool, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody touches the writer's memory, nor the user's data, after the call."""
    entered = threading.Event()

    def slow(method: Any) -> Any:
        def call(*arguments: Any) -> Any:
            entered.set()
            time.sleep(0.1)
            return method(*arguments)

        return call

    wrap(monkeypatch, name, slow)
    with watched() as check:
        out = await create(store, encode_threads=threads)
        scope = anyio.CancelScope()

        async def write() -> None:
            try:
                with scope:
                    await out.write(ROWS)
            finally:
                check(tasks=False)

        task = asyncio.create_task(write())
        await anyio.to_thread.run_sync(entered.wait)
        if native:
            task.cancel()
        else:
            scope.cancel()
        await asyncio.wait([task])
        assert task.cancelled() == native
        if not native:
            task.result()
        await out.abort()
    assert store.left() == []


class Broken(OSError):
    """What a store may raise."""


async def test_the_sink_fails_at_every_call(store: SinkStore) -> None:
    calls = [0]
    for method in ("write", "prepare"):
        for number in itertools.count():
            store.put(NAME, EARLIER)
            calls[0] = 0
            patch = pytest.MonkeyPatch()
            patch.setattr(PartSink, method, _failing(getattr(PartSink, method), calls, number))
            with watched():
                try:
                    await write_all(store)
                except Broken:
                    pass
                else:
                    patch.undo()
                    break
                finally:
                    patch.undo()
            assert store.left() == []
            assert store.seen(NAME) == EARLIER
        assert number >= 1, method
        assert await rows_of(store) == ROWS


def _failing(method: Any, calls: list[int], at: int) -> Any:
    async def call(*arguments: Any) -> Any:
        calls[0] += 1
        if calls[0] == at + 1:
            raise Broken("no room")
        return await method(*arguments)

    return call


# --- S3 --------------------------------------------------------------------------------------------

# Parts of S3 are of 5 MiB at least.
BIG = [(n, random.Random(n).randbytes(50_000).hex(), n / 3) for n in range(120)]


async def write_big(store: SinkStore) -> None:
    async with create(store, stripe_bytes=1 << 20) as out:
        for start in range(0, len(BIG), 40):
            await out.write(BIG[start : start + 40])


@pytest.mark.parametrize("fault", ["refuse", "500"])
async def test_s3_fails_at_every_request(
    s3_proxies: tuple[MotoServer, S3Proxy], tmp_path: Path, fault: Fault
) -> None:
    server, proxy = s3_proxies
    store = s3_store(server, tmp_path.name, proxy.endpoint)
    for number in itertools.count(step=STEP):
        store.put(NAME, EARLIER)
        proxy.asked.clear()
        gone = threading.Event()

        def fail(at: int, asked: Any, number: int = number, gone: threading.Event = gone) -> Fault | None:
            # The request fails, and when it is asked again; the abort's requests pass.
            if at >= number and asked.method != "DELETE":
                gone.set()
                return fault
            return None

        proxy.fault = fail
        with watched():
            try:
                await write_big(store)
            except (OrcError, PermissionError, FileNotFoundError) as error:
                unknown = isinstance(error, CommitUnknown)
            else:
                unknown = False
        proxy.pass_all()
        if not gone.is_set():
            break
        assert store.seen(NAME) == EARLIER
        if not store.is_undated and not unknown:
            assert store.left() == []
    assert number > 5
    assert await rows_of(store) == BIG


async def test_s3_cancelled_at_some_awaits(tmp_path: Path) -> None:
    """Of moto alone: versitygw may finish a part that the client hung up on after its upload was aborted."""
    store = s3_store(start_moto(), tmp_path.name)
    total = await stepped(write_big(store))
    for number in range(0, total, max(1, total // share(15, 2))):
        store.put(NAME, EARLIER)
        with watched():
            task = asyncio.create_task(stepped(write_big(store), number, lambda: task.cancel()))  # noqa: B023
            await asyncio.wait([task])
        assert store.left() == [], number
        assert store.seen(NAME) == EARLIER or await rows_of(store) == BIG


# --- who may do what when --------------------------------------------------------------------------


async def test_two_tasks_on_one_writer(store: SinkStore) -> None:
    with watched():
        async with create(store) as out:
            tasks = [asyncio.create_task(out.write(batch)) for batch in BATCHES[:2]]
            found = await asyncio.gather(*tasks, return_exceptions=True)
            assert found[0] == 100
            assert isinstance(found[1], UsageError)
            for batch in BATCHES[1:]:
                await out.write(batch)
    assert await rows_of(store) == ROWS


async def test_two_tasks_commit(store: SinkStore) -> None:
    with watched():
        out = await create(store)
        await out.write(BATCHES[0])
        found = await asyncio.gather(out.commit(), out.commit(), return_exceptions=True)
        assert out.result in found
        assert [type(one) for one in found if one != out.result] in ([], [UsageError])
        assert await out.commit() == out.result
        other = await create(store)
        await other.write(BATCHES[0])
        await other.prepare()
        ends = await asyncio.gather(other.commit(), other.commit(), other.abort(), return_exceptions=True)
        assert [type(one) for one in ends] == [orcstream.WriteResult, UsageError, UsageError]
        await other.aclose()
    assert store.left() == []
    assert await rows_of(store) == BATCHES[0]


async def test_abort_while_another_task_writes(store: SinkStore) -> None:
    """As when a supervisor gives up: nothing appears, and the write says why it ended."""
    store.put(NAME, EARLIER)
    for turns in (0, 1, 3, 10):
        with watched():
            out = await create(store)
            task = asyncio.create_task(out.write(ROWS))
            for _ in range(turns):
                await anyio.lowlevel.checkpoint()
            finished = task.done()
            await out.abort()
            if finished:
                assert await task == len(ROWS)
            else:
                with pytest.raises(UsageError):
                    await task
            with pytest.raises(UsageError, match="aborted"):
                await out.commit()
            await out.aclose()
        assert store.left() == []
        assert store.seen(NAME) == EARLIER


async def test_commit_and_abort_more_than_once(store: SinkStore) -> None:
    with watched():
        out = await create(store)
        await out.write(BATCHES[0])
        result = await out.commit()
        assert await out.commit() is result is out.result
        await out.abort()
        await out.aclose()
        assert await rows_of(store) == BATCHES[0]
        with pytest.raises(UsageError, match="committed"):
            await out.write(BATCHES[1])
        with pytest.raises(UsageError, match="committed"):
            out.add_user_metadata({"a": "b"})
        other = await create(store, "b.orc")
        await other.abort()
        await other.abort()
        for call in (other.commit, other.prepare, other.end_stripe):
            with pytest.raises(UsageError, match="aborted"):
                await call()
        with pytest.raises(UsageError, match=r"\bcommitted\b.*\baborted\b"):
            _ = other.result
    assert store.left() == []
    assert store.seen("b.orc") is None


async def test_a_block_left_with_an_exception(store: SinkStore) -> None:
    async def write_and_fail(count: int, *, prepared: bool = False) -> None:
        async with create(store) as out:
            for batch in BATCHES[:count]:
                await out.write(batch)
            if prepared:
                await out.prepare()
            raise ZeroDivisionError

    store.put(NAME, EARLIER)
    for count in range(len(BATCHES)):
        with watched(), pytest.raises(ZeroDivisionError):
            await write_and_fail(count)
        assert store.left() == []
        assert store.seen(NAME) == EARLIER
    with watched(), pytest.raises(ZeroDivisionError):
        await write_and_fail(1, prepared=True)
    assert store.left() == []
    assert store.seen(NAME) == EARLIER


async def test_what_was_prepared_is_committed_elsewhere(store: SinkStore) -> None:
    store.put(NAME, EARLIER)
    with watched():
        async with create(store) as out:
            for batch in BATCHES:
                await out.write(batch)
            prepared = pickle.loads(pickle.dumps(await out.prepare()))
            assert await out.prepare() is not None
        assert store.seen(NAME) == EARLIER
        await commit(prepared, storage_options=store.options)
    assert store.left() == []
    assert await rows_of(store) == ROWS


async def test_what_was_prepared_is_discarded_elsewhere(store: SinkStore) -> None:
    async with create(store) as out:
        await out.write(BATCHES[0])
        prepared = await out.prepare()
    await discard(prepared, storage_options=store.options)
    assert store.left() == []
    assert store.seen(NAME) is None


async def test_a_file_that_is_there_is_kept_where_asked(store: SinkStore) -> None:
    store.put(NAME, EARLIER)
    with watched(), pytest.raises(FileExistsError):
        async with create(store, overwrite=False) as out:
            await out.write(BATCHES[0])
    assert store.left() == []
    assert store.seen(NAME) == EARLIER


async def test_data_that_does_not_fit_stops_nothing(store: SinkStore) -> None:
    with watched():
        async with create(store) as out:
            await out.write(BATCHES[0])
            with pytest.raises(SchemaMismatch) as caught:
                await out.write([*BATCHES[1][:50], (1, 2, 3)])
            assert caught.value.row == 50
            assert out.row_count == 100
            for batch in BATCHES[1:]:
                await out.write(batch)
    assert await rows_of(store) == ROWS


async def test_abort_while_another_task_prepares(store: SinkStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is prepared in spite of it is not there to be committed, and goes too."""
    prepared, go_on, real = anyio.Event(), anyio.Event(), WholeFile.prepare

    async def slow(outlet: WholeFile) -> Prepared:
        found = await real(outlet)
        prepared.set()
        await go_on.wait()
        return found

    monkeypatch.setattr(WholeFile, "prepare", slow)
    store.put(NAME, EARLIER)
    out = await create(store)
    await out.write(ROWS)
    preparing = asyncio.create_task(out.prepare())
    await prepared.wait()
    await out.abort()
    go_on.set()
    with pytest.raises(UsageError, match="aborted"):
        await preparing
    with pytest.raises(UsageError, match="aborted"):
        await out.commit()
    assert store.seen(NAME) == EARLIER
    assert store.left() == []
