"""Life times of files and streams: whoever opens, leaves, drops or closes, nothing is left behind."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import anyio.lowlevel
import pytest

import orcstream
from orcstream.errors import Unsupported, UsageError
from orcstream.reader.file import OrcFile
from tests.support.read_sources import (
    NEVER,
    Decodes,
    Leftovers,
    counted_workers,
    open_over,
    opened,
    probe,
    sample,
    sample_rows,
)

ROWS = [row for stripe in range(5) for row in sample_rows(stripe, 40)]


async def rows_of(stream: orcstream.BatchStream) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) async for batch in stream for row in batch.to_pylist()]


async def test_open_in_one_task_close_in_another() -> None:
    source = probe()
    left = Leftovers(source)
    entered = opened(source)
    file = await asyncio.create_task(entered.__aenter__())
    stream = await asyncio.create_task(begin(file))
    rows = await asyncio.create_task(rows_of(stream))
    assert rows == ROWS[40:]
    await asyncio.create_task(entered.__aexit__(None, None, None))
    await left.check()


async def begin(file: OrcFile) -> orcstream.BatchStream:
    stream = await file.batches().__aenter__()
    assert (await anext(stream)).num_rows == 40
    return stream


async def test_await_open_and_aclose(tmp_path: Path) -> None:
    path = tmp_path / "t.orc"
    path.write_bytes(sample())
    left = Leftovers()
    file = await orcstream.open(path)
    assert await rows_of(file.batches()) == ROWS
    await file.aclose()
    await file.aclose()
    await left.check()


async def test_the_same_opening_as_a_block(tmp_path: Path) -> None:
    left = Leftovers()
    async with orcstream.open(sample()) as file:
        assert file.row_count == 200
    await left.check()
    with pytest.raises(UsageError, match="closed"):
        file.batches()
    with pytest.raises(UsageError, match="closed"):
        await file.row_index(0)
    with pytest.raises(UsageError, match="closed"):
        await file.explain()


def only_first(number: int) -> int:
    """The tail, all footers and the first stripe's data arrive, nothing else ever does."""
    return 1 if number < 6 else NEVER


def only_tail(number: int) -> int:
    return 1 if number < 1 else NEVER


async def test_leaving_the_block_early_stops_all_requests_at_once() -> None:
    source = probe(turns=only_first)
    left = Leftovers(source)
    async with opened(source) as file:
        async with file.batches() as stream:
            await anext(stream)
            await left.wait_open(3)
        assert source.open_count == 0
        assert len(left.tasks()) <= 1  # the file's, which ends in a turn or two
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
    await left.check()


async def test_a_loop_left_early_is_reaped_with_its_stream() -> None:
    source = probe()
    left = Leftovers(source)
    async with opened(source) as file:
        async for batch in file.batches():
            assert batch.num_rows == 40
            break
        await left.settle(1)
    await left.check()


async def test_a_stream_never_started_leaves_nothing() -> None:
    source = probe()
    left = Leftovers(source)
    async with opened(source) as file:
        stream = file.batches()
        assert not left.tasks()
        del stream
        async with file.batches():
            pass
        unused = file.batches()
        await unused.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(unused)
    await left.check()
    assert source.request_count == 1  # the tail


async def test_a_dropped_file_ends_when_its_last_stream_does() -> None:
    source = probe()
    left = Leftovers(source)
    stream = (await open_over(source)).batches()
    gc.collect()
    assert await rows_of(stream) == ROWS
    assert source.close_count == 0
    del stream
    await left.check()


async def test_two_tasks_on_one_stream() -> None:
    source = probe(turns=lambda _: 5)
    async with opened(source) as file, file.batches() as stream:
        first = asyncio.create_task(anext_of(stream))
        await anyio.lowlevel.checkpoint()
        with pytest.raises(UsageError, match=r"\btasks\b") as caught:
            await anext(stream)
        assert caught.value.url == source.url
        # Nothing is lost for the one that was first.
        assert (await first).num_rows == 40
        assert await rows_of(stream) == ROWS[40:]


async def anext_of(stream: orcstream.BatchStream) -> orcstream.Batch:
    return await anext(stream)


async def test_several_streams_of_one_file_at_once() -> None:
    source = probe(turns=lambda number: number % 3)
    left = Leftovers(source)
    async with opened(source) as file:
        streams = [file.batches(batch_rows=count) for count in (1, 7, 40, 1000)]
        assert await asyncio.gather(*map(rows_of, streams)) == [ROWS] * 4
    await left.check()


async def test_closing_the_file_under_a_consumer_that_waits() -> None:
    source = probe(turns=only_tail)
    left = Leftovers(source)
    async with opened(source) as file:
        reading = asyncio.create_task(rows_of(file.batches()))
        await left.wait_open()
        await file.aclose()
        with pytest.raises(UsageError, match="closed"):
            await reading
    await left.check()


async def test_closing_the_file_between_two_batches() -> None:
    source = probe()
    left = Leftovers(source)
    async with opened(source) as file:
        stream = file.batches()
        fresh = file.batches()
        await anext(stream)
        await file.aclose()
        for one in (stream, stream, fresh, fresh):
            with pytest.raises(UsageError, match="closed") as caught:
                await anext(one)
            assert caught.value.url == source.url
        await stream.aclose()
    await left.check()


async def test_closing_a_stream_under_a_consumer_that_waits() -> None:
    source = probe(turns=only_tail)
    left = Leftovers(source)
    async with opened(source) as file:
        stream = file.batches()
        reading = asyncio.create_task(rows_of(stream))
        await left.wait_open()
        await stream.aclose()
        with pytest.raises(UsageError, match="closed"):
            await reading
        source.turns = lambda _: 1
        assert await rows_of(file.batches()) == ROWS


@pytest.mark.parametrize("request_of", [lambda file: file.stripe_footer(0), lambda file: file.explain()])
async def test_closing_the_file_under_its_other_requests(
    request_of: Callable[[OrcFile], Coroutine[Any, Any, object]],
) -> None:
    source = probe(turns=only_tail)
    left = Leftovers(source)
    async with opened(source) as file:
        asking = asyncio.create_task(request_of(file))
        await left.wait_open()
        await file.aclose()
        with pytest.raises(UsageError):
            await asking
    await left.check()


async def test_no_worker_decodes_once_the_stream_is_left() -> None:
    data = sample(3, 4000)
    with counted_workers() as active:
        async with orcstream.open(data) as file:
            for threads in (1, 2, 4):
                async with file.batches(batch_rows=16, decode_threads=threads) as stream:
                    await anext(stream)
                assert active[0] == 0
        assert active[1] >= 1


@pytest.mark.parametrize("threads", [1, 2, 4])
async def test_decode_threads(threads: int) -> None:
    decodes = Decodes()
    with counted_workers() as active:
        async with orcstream.open(sample(3, 2000), observer=decodes) as file:
            rows = await rows_of(file.batches(batch_rows=100, decode_threads=threads))
    assert rows == [row for stripe in range(3) for row in sample_rows(stripe, 2000)]
    assert 1 <= decodes.at_once() <= threads
    assert active[1] <= threads + 1  # one of them waits


def test_a_loop_that_ends_with_the_file_open(tmp_path: Path) -> None:
    path = tmp_path / "t.orc"
    path.write_bytes(sample())
    kept: list[object] = []

    async def leave() -> None:
        file = await orcstream.open(path)
        stream = file.batches()
        await anext(stream)
        kept.extend([file, stream])

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asyncio.run(leave())
        kept.clear()
        gc.collect()


def test_a_loop_that_is_closed_under_the_file(caplog: pytest.LogCaptureFixture) -> None:
    kept: list[object] = []

    async def leave() -> None:
        file = await orcstream.open(sample())
        stream = file.batches()
        await anext(stream)
        kept.extend([file, stream])

    loop = asyncio.new_event_loop()
    loop.run_until_complete(leave())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stop(loop)
        kept.clear()
        gc.collect()
    assert not caplog.records


def stop(loop: asyncio.AbstractEventLoop) -> None:
    """What `asyncio.run` does at its end."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


def test_without_asyncio_opening_says_so() -> None:
    """As it would run on trio: no loop of asyncio is running."""
    opening = orcstream.open(sample()).__await__()
    with pytest.raises(Unsupported) as caught:
        next(opening)
    assert caught.value.reason == "trio"
