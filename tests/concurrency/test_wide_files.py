"""Files of so many columns that planning a read takes long: it is done on threads, and other tasks go on."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import re
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pyarrow as pa
import pytest
from pyarrow import orc

import orcstream
import orcstream.acid
import orcstream.blocking
import orcstream.inspect
from orcstream.batch import Batch
from orcstream.errors import ColumnNotFound, UsageError
from orcstream.reader.engine.pipeline import Gathering
from orcstream.reader.engine.session import DecodeSpan, RequestSpan
from orcstream.table.lanes import TableLife
from tests.generators import bombs

COUNT = 40_000
ROWS = 16
# Of processor time, so that a busy machine does not matter; before, it was 0.5 to 0.7 s.
LONGEST_TURN_S = 0.25


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("wide") / "wide.orc"
    path.write_bytes(bombs.wide_chunks(COUNT, 4 * ROWS))
    return path


@asynccontextmanager
async def turns() -> AsyncIterator[list[float]]:
    """Of each turn of the loop, the processor time that its thread took.

    The interpreter's garbage collection stops every thread, whichever it begins on. It does not run then:
    how long it takes depends on all that the process holds.
    """
    found: list[float] = []

    async def count() -> None:
        last = time.thread_time()
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            found.append(now - last)
            last = now

    gc.collect()
    gc.disable()
    task = asyncio.create_task(count())
    await asyncio.sleep(0)  # or the first turn would not be counted
    try:
        yield found
        await asyncio.sleep(0)  # or a last long turn would not be counted
    finally:
        task.cancel()
        gc.enable()


async def read(file: orcstream.OrcFile) -> None:
    assert (await file.read()).num_rows == ROWS


async def where(file: orcstream.OrcFile) -> None:
    assert (await file.read(where=orcstream.col("c9").is_null())).num_rows == 0


async def select(file: orcstream.OrcFile) -> None:
    assert (await file.take([1], columns=["c3", "c4"])).num_rows == 1


async def take(file: orcstream.OrcFile) -> None:
    assert (await file.take([1, 3])).num_rows == 2


async def explain(file: orcstream.OrcFile) -> None:
    assert (await file.explain()).row_count == ROWS


async def matching(file: orcstream.OrcFile) -> None:
    assert await file.matching_stripes(~orcstream.col("c9").is_null()) == (0,)


@pytest.mark.parametrize("use", [read, where, select, take, explain, matching])
async def test_other_tasks_go_on(path: Path, use: Callable[[orcstream.OrcFile], Awaitable[None]]) -> None:
    async with orcstream.open(path) as file:
        await file.read(columns=["c0"])  # what is imported late is not counted
        async with turns() as found:
            await use(file)
        assert max(found) < LONGEST_TURN_S


async def test_what_is_wrong_with_a_question_is_said_by_each_step(path: Path) -> None:
    async with orcstream.open(path) as file:
        stream = file.batches(columns=["nobody"])
        for _ in range(2):
            with pytest.raises(ColumnNotFound, match="nobody"):
                await anext(stream)
        await stream.aclose()


async def test_the_schema_before_the_first_step(path: Path) -> None:
    async with orcstream.open(path) as file, file.batches(columns=["c5", "c3"]) as stream:
        assert "open" in repr(stream)
        assert stream.schema.names == ("c5", "c3")
        assert stream.stats.row_count == 0
        assert (await anext(stream)).num_rows == ROWS


async def test_seek_before_the_first_step(path: Path) -> None:
    async with orcstream.open(path) as file, file.batches(columns=["c5"]) as stream:
        with pytest.raises(UsageError, match=r"\brow 17\b.*\b16\b"):
            await stream.seek(17)
        await stream.seek(1)
        assert [batch.num_rows async for batch in stream] == [ROWS - 1]
        await stream.seek(0)
        assert [batch.num_rows async for batch in stream] == [ROWS]


async def test_a_stream_that_is_closed_while_it_is_planned(path: Path) -> None:
    async with orcstream.open(path) as file:
        stream = file.batches()
        step = asyncio.ensure_future(anext(stream))
        await anyio.sleep(0.005)
        await stream.aclose()
        with pytest.raises(UsageError, match="closed"):
            await step
        with pytest.raises(StopAsyncIteration):
            await anext(stream)


async def test_a_step_that_is_cancelled_while_it_plans(path: Path) -> None:
    async with orcstream.open(path) as file:
        stream = file.batches()
        with anyio.move_on_after(0.005) as scope:
            await anext(stream)
        assert scope.cancelled_caught
        async with stream:
            assert (await anext(stream)).num_rows == ROWS


async def test_the_schema_of_a_stream_that_was_entered(path: Path) -> None:
    """It was planned on the loop for who asked before the first step, as the command line does."""
    async with orcstream.open(path) as file:
        await file.read(columns=["c0"])
        async with turns() as found, file.batches() as stream:
            assert len(stream.batch_schema.names) == COUNT
        assert max(found) < LONGEST_TURN_S


async def test_other_tasks_have_a_turn_between_stripes_that_are_verified(tmp_path: Path) -> None:
    """A file of 2 KB can have 87,000 stripes: `verify` held the loop for all of them, for 7 s."""
    path = tmp_path / "stripes.orc"
    path.write_bytes(bombs.empty_stripes(1 << 18))
    async with orcstream.open(path) as file:
        assert len(file.stripes) > 10_000
        async with turns() as found:
            verified = await file.verify()
    assert not verified.is_sound
    assert max(found) < LONGEST_TURN_S


@pytest.mark.parametrize("way", ["read", "where", "take", "verify", "data_set", "table"])
async def test_columns_take_memory_from_the_limit(way: str, path: Path, tmp_path: Path) -> None:
    """Of 40,000, 160 to 240 MB were kept whatever the limit was."""
    limit = 16 << 20
    where = orcstream.col("c0") > 5
    (tmp_path / "000000_0").symlink_to(path)
    async with contextlib.AsyncExitStack() as stack:
        file = await stack.enter_async_context(orcstream.open(path))
        files = await stack.enter_async_context(orcstream.dataset(path))
        table = await stack.enter_async_context(orcstream.acid.open_table(str(tmp_path)))
        ways: dict[str, Callable[[], Awaitable[object]]] = {
            "read": lambda: file.read(memory_limit=limit),
            "where": lambda: file.read(where=where, memory_limit=limit),
            "take": lambda: file.take([1], memory_limit=limit),
            "verify": lambda: file.verify(memory_limit=limit),
            "data_set": lambda: files.read(memory_limit=limit),
            "table": lambda: table.read(memory_limit=limit),
        }
        with pytest.raises(orcstream.Unsupported, match=r"\bmemory_limit=") as caught:
            await ways[way]()
        assert caught.value.reason == "too_many_columns"
        assert (await file.read(columns=["c0"], where=where, memory_limit=limit)).num_rows == 0


async def test_as_much_memory_as_the_error_names(path: Path) -> None:
    async with orcstream.open(path) as file:
        with pytest.raises(orcstream.Unsupported) as caught:
            await file.read(memory_limit=1 << 20)
        (enough,) = map(int, re.findall(r"memory_limit=: (\d+) bytes", str(caught.value)))
        assert (await file.read(memory_limit=enough)).num_rows == ROWS
        with pytest.raises(orcstream.Unsupported):
            await file.read(memory_limit=enough - 2)


@pytest.mark.parametrize("open_", [orcstream.dataset, orcstream.acid.open_table])
async def test_other_tasks_have_a_turn_before_a_table_is_used(
    open_: Callable[[str], Awaitable[orcstream.OrcDataset]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Opening numbers the columns, and so does the first read: of 40,000, the two held the loop for 0.2 s."""
    orc.write_table(pa.table({"a": [1]}), tmp_path / "000000_0")
    count = at_end = 0
    make = TableLife.__init__

    def made(self: TableLife) -> None:
        nonlocal at_end
        make(self)
        at_end = count

    async def others() -> None:
        nonlocal count
        while True:
            count += 1
            await asyncio.sleep(0)

    monkeypatch.setattr(TableLife, "__init__", made)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(others)
        table = await open_(str(tmp_path))
        assert count > at_end > 0
        await table.aclose()
        tasks.cancel_scope.cancel()


async def ask(file: orcstream.OrcFile) -> None:
    await file.read(where=orcstream.col("c9") > 5)


async def explain_question(file: orcstream.OrcFile) -> None:
    await file.explain(where=orcstream.col("c9") > 5)


async def read_any(file: orcstream.OrcFile) -> None:
    await file.read(columns=["c0"])


async def test_names_of_statistics(path: Path) -> None:
    """It took 0.2 s for 20,000 columns, and hours where they lie deep."""
    for data, count in ((path, 0), (bombs.nested(180, 8000, "n"), 8180)):
        async with orcstream.open(data) as file, turns() as found:
            await anyio.lowlevel.checkpoint()
            assert len(file.statistics) == count
        assert max(found) < LONGEST_TURN_S / 2


@pytest.mark.parametrize("statistics", [False, True])
@pytest.mark.parametrize("use", [ask, explain_question, read_any])
async def test_other_tasks_go_on_while_stripes_are_chosen(
    use: Callable[[orcstream.OrcFile], Awaitable[None]], statistics: bool
) -> None:
    """What only depends on the stripes was added up for each column: 2 s for files of 30 KB."""
    data = bombs.stripe_statistics(10_000, 500) if statistics else bombs.stripes_of_columns(60_000, 1900)
    async with orcstream.open(bombs.wide_chunks(1, 64)) as file:
        with contextlib.suppress(orcstream.OrcError):
            await use(file)  # what is imported late is not counted
    async with orcstream.open(data) as file, turns() as found:
        with pytest.raises((orcstream.CorruptStripe, orcstream.Unsupported)):
            await use(file)
    assert max(found) < LONGEST_TURN_S


async def one_column(file: orcstream.OrcFile) -> None:
    await file.read(columns=["c0"], where=orcstream.col("c0") > 5)


async def explain_one_column(file: orcstream.OrcFile) -> None:
    await file.explain(columns=["c0"], where=orcstream.col("c0") > 5)


@pytest.mark.parametrize("use", [one_column, explain_one_column])
async def test_other_tasks_go_on_while_row_groups_are_chosen(
    use: Callable[[orcstream.OrcFile], Awaitable[None]],
) -> None:
    """The index of the column has 1 KB and half a million row groups: it held the loop for 1.4 s."""
    async with orcstream.open(bombs.wide_chunks(1, 64)) as file:
        await use(file)  # what is imported late is not counted
    async with orcstream.open(bombs.entries(2, 1 << 20)) as file, turns() as found:
        with contextlib.suppress(orcstream.OrcError):
            await use(file)
    assert max(found) < LONGEST_TURN_S


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a row index for each column, and statistics; pyarrow takes 10 GB to write such a file."""
    path = tmp_path_factory.mktemp("indexed") / "indexed.orc"
    column = pa.array(range(ROWS), pa.int32())
    table = pa.table({f"c{number}": column for number in range(20_000)})
    with orcstream.blocking.create(path, table.schema) as writer:
        writer.write(table)
    return path


async def verify(path: Path) -> None:
    async with orcstream.open(path) as file:
        assert (await file.verify()).faults == ()


async def row_index(path: Path) -> None:
    async with orcstream.open(path) as file:
        assert len(await file.row_index(0)) == 20_001


async def look(path: Path) -> None:
    assert (await orcstream.inspect.inspect(path)).problems == ()


async def data_set(path: Path) -> None:
    async with orcstream.dataset(path) as files:
        assert (await files.read()).num_rows == ROWS


@pytest.mark.parametrize("use", [verify, row_index, look, data_set])
async def test_other_tasks_go_on_while_tools_look(
    indexed: Path, use: Callable[[Path], Awaitable[None]]
) -> None:
    narrow = indexed.with_name("narrow.orc")
    orc.write_table(pa.table({"a": range(ROWS)}), narrow)
    with contextlib.suppress(AssertionError):  # it has one column
        await use(narrow)  # what is imported late is not counted
    async with turns() as found:
        await use(indexed)
    assert max(found) < LONGEST_TURN_S


async def rows_of(stream: orcstream.BatchStream | orcstream.TableStream) -> int:
    """With a step that is cancelled a little later each time, so that each of its parts is cancelled once."""
    rows, patience_s = 0, 0.0
    async with stream:
        while True:
            patience_s += 0.01
            with anyio.move_on_after(patience_s):
                batch = await anext(stream, None)
                if batch is None:
                    return rows
                rows += batch.num_rows


async def test_no_row_is_lost_where_putting_them_together_is_cancelled(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of thousands of columns a thread does it, which has begun or not: it held the loop for 0.3 s."""
    table = pa.table({"a": range(30_000)})
    for name in "abc":
        with orcstream.blocking.create(
            tmp_path / f"{name}.orc", table.schema, row_index_stride=1000
        ) as writer:
            writer.write(table)
    finish = Gathering.finish
    loop_thread = threading.get_ident()

    def slow(self: Gathering) -> Batch | None:
        if self.has_rows:
            assert threading.get_ident() != loop_thread
            time.sleep(0.1)
        return finish(self)

    monkeypatch.setattr(Gathering, "finish", slow)
    monkeypatch.setattr("orcstream.reader.engine.pipeline.AT_ONCE_COLUMNS", 0)
    where = orcstream.col("a").isin([10, 15_000, 29_999])
    async with orcstream.open(tmp_path / "a.orc") as file:
        assert await rows_of(file.batches(where=where)) == 3
    async with orcstream.dataset(tmp_path) as files:
        assert await rows_of(files.batches(where=where)) == 9


class Requests:
    """Which were sent."""

    def __init__(self) -> None:
        self.sent: list[RequestSpan] = []

    def on_request(self, span: RequestSpan) -> None:
        self.sent.append(span)

    def on_decode(self, span: DecodeSpan) -> None: ...


async def test_row_indexes_of_all_columns_are_one_request(indexed: Path) -> None:
    requests = Requests()
    async with orcstream.open(indexed, observer=requests) as file:
        before = len(requests.sent)
        assert len(await file.row_index(0)) == 20_001
    assert len(requests.sent) - before <= 2  # with the stripe's footer
