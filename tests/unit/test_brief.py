"""Small files whose bytes came with their tails: read in one go, and as the long way reads them."""

from __future__ import annotations

import asyncio
import io
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import hypothesis
import pyarrow as pa
import pytest
from hypothesis import strategies as st
from pyarrow import orc

import orcstream
from orcstream import col
from orcstream.errors import OrcError, UsageError
from orcstream.io.loop import system, uncancelled
from orcstream.io.loop.tasks import Supervisor
from orcstream.reader import brief, planned, planning
from orcstream.reader.engine.decoding import DecodeQueue
from orcstream.reader.engine.session import DecodeSpan, ReadStatistics, RequestSpan
from tests.support import hostile
from tests.support.effort import share

MOST = 64
ROWS = 3000


@contextmanager
def way(is_short: bool) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(planning, "_MOST_AT_HAND", MOST if is_short else -1)
        yield


def table() -> pa.Table:
    rng = random.Random(3)
    return pa.table(
        {
            "n": pa.array(range(ROWS), pa.int64()),
            "m": pa.array([None if row % 7 == 0 else row % 50 for row in range(ROWS)], pa.int32()),
            "t": pa.array([None if row % 11 == 0 else f"text {rng.randrange(40)}" for row in range(ROWS)]),
            "l": pa.array([[row] * (row % 3) for row in range(ROWS)], pa.list_(pa.int16())),
        }
    )


def made(path: Path, stripe_rows: int, **options: Any) -> Path:
    with orcstream.blocking.create(path, table().schema, **options) as out:
        for first in range(0, ROWS, stripe_rows):
            out.write(table().slice(first, stripe_rows))
            out.end_stripe()
    assert path.stat().st_size < 60_000
    return path


@pytest.fixture(scope="module", params=["one stripe", "many stripes", "uncompressed"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    options: dict[str, dict[str, Any]] = {
        "one stripe": {"stripe_rows": ROWS, "row_index_stride": 1000, "blooms": ["n", "t"]},
        "many stripes": {"stripe_rows": 700},
        "uncompressed": {"stripe_rows": ROWS, "compression": "none"},
    }
    return made(tmp_path_factory.mktemp("brief") / "a.orc", **options[request.param])


class Observer:
    """What was told, but for times."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.ended: list[ReadStatistics | None] = []

    def begin(self, operation: str, url: str) -> Observer:
        self.told.append((operation, url))
        return self

    def on_request(self, span: RequestSpan) -> None:
        self.told.append((span.wave, span.range))

    def on_decode(self, span: DecodeSpan) -> None:
        self.told.append((span.stripe, span.column_id, span.row_count))

    def end(self, statistics: ReadStatistics | None, error: BaseException | None) -> None:
        assert error is None or isinstance(error, OrcError)
        self.ended.append(statistics)


def plain(statistics: ReadStatistics) -> ReadStatistics:
    return replace(statistics, batch_count=0, wait_s=0.0, decode_s=0.0, peak_fetched_bytes=0)


async def read(path: Path | bytes, is_short: bool, **options: Any) -> tuple[Any, ...]:
    """All that comes of it: rows, the sizes of batches, figures, and what an observer was told."""
    observer = Observer()
    with way(is_short):
        async with (
            orcstream.open(path, observer=observer) as file,
            file.batches(decode_threads=1, **options) as stream,
        ):
            batches = [batch async for batch in stream]
            running = type(stream._running).__name__
            rows = [row for batch in batches for row in batch.to_pylist()]
            assert running == ("BriefRead" if is_short else "Reading")
            decoded = sorted(one for one in observer.told if len(one) == 3)
            others = sorted((one for one in observer.told if len(one) == 2), key=str)
            # How large rows are is measured while they are decoded, which tells where a small limit cuts.
            tight = options.get("memory_limit") == 1 << 16
            sizes = [] if tight else [batch.num_rows for batch in batches]
            result = rows, sizes, plain(stream.stats), others, {one[:2] for one in decoded}
    assert len(observer.ended) == 2
    return (*result, plain(observer.ended[1] or ReadStatistics()))


WHERES = (
    None,
    col("n") == 1234,
    col("n") > 5000,
    (col("n") > 700) & (col("m") == 3),
    col("t") == "text 7",
    col("m").is_null(),
)


@hypothesis.settings(max_examples=share(120))
@hypothesis.given(
    where=st.sampled_from(WHERES),
    columns=st.sampled_from((None, ["n"], ["t", "m"], [], ["l"])),
    rows=st.sampled_from((None, range(10), range(690, 2100), range(2999, 3000), range(0))),
    batch_rows=st.sampled_from((1, 64, 1000, 65_536)),
    row_numbers=st.booleans(),
    memory_limit=st.sampled_from((1 << 16, 1 << 20, 1 << 28)),
)
async def test_both_ways_say_the_same(path: Path, batch_rows: int, **options: Any) -> None:
    if batch_rows == 1 and options["rows"] is None:
        batch_rows = 7
    given = {"batch_rows": batch_rows, **options}
    assert await read(path, True, **given) == await read(path, False, **given)


async def test_both_ways_refuse_the_same(path: Path) -> None:
    data = path.read_bytes()
    rng = random.Random(9)
    outcomes = set()
    for _ in range(share(400)):
        damaged = hostile.mutate(data, rng)
        found: list[int | str] = []
        for is_short in (True, False):
            with way(is_short):
                try:
                    async with orcstream.open(damaged) as file:
                        found.append((await file.read(memory_limit=1 << 24)).num_rows)
                except OrcError as error:
                    found.append(f"{type(error).__name__}: {error}")
        assert found[0] == found[1]
        outcomes.add(type(found[0]))
    assert outcomes == {int, str}


async def test_it_takes_no_task_and_no_thread(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("not for so little")

    with way(is_short=True):
        async with orcstream.open(path) as file:
            monkeypatch.setattr(Supervisor, "start_soon", refuse)
            monkeypatch.setattr(uncancelled, "call_on_thread", refuse)
            turns = 0

            async def count() -> None:
                nonlocal turns
                while True:
                    await asyncio.sleep(0)
                    turns += 1

            counting = asyncio.create_task(count())
            assert (await file.read(columns=["n", "m", "t"])).num_rows == ROWS
            counting.cancel()
            # A checkpoint for each batch, and one for the end.
            assert turns <= 12


async def test_what_takes_longer_is_for_a_thread(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And of a step that is cancelled no row is lost."""
    monkeypatch.setattr(brief, "_AT_ONCE_VALUES", 0)
    calls = 0
    real = system.call_on_thread

    def counted(work: Any) -> None:
        nonlocal calls
        calls += 1
        real(work)

    monkeypatch.setattr(uncancelled, "call_on_thread", counted)
    rows: list[Any] = []
    with way(is_short=True):
        async with orcstream.open(path) as file, file.batches(batch_rows=100, where=col("n") >= 0) as stream:
            before, at = calls, 0
            while True:
                at += 1
                with anyio.CancelScope() as scope:
                    if at % 2:
                        asyncio.get_running_loop().call_soon(scope.cancel)
                    try:
                        rows += (await anext(stream)).to_pylist()
                    except StopAsyncIteration:
                        break
    assert calls - before > 10
    assert [row["n"] for row in rows] == list(range(ROWS))


async def steps(data: bytes, is_short: bool, **options: Any) -> list[Any]:
    """What each step gives, failures included; some more than there are."""
    found: list[Any] = []
    with way(is_short):
        async with orcstream.open(data) as file:
            stream = file.batches(decode_threads=1, **options)
            for _ in range(40):
                try:
                    found.append((await anext(stream)).to_pylist())
                except StopAsyncIteration:
                    found.append("end")
                    break
                except OrcError as error:
                    found.append(str(error))
    return found


async def test_a_failure_after_rows_is_raised() -> None:
    """The rows before it were given, and then the end."""
    rows = [
        {"k": row, "s": "9999-01-01 00:00:00" if row == 2000 else "2020-01-01 00:00:00"}
        for row in range(3000)
    ]
    data = io.BytesIO()
    with orcstream.blocking.create(data, "struct<k:bigint,s:string>") as out:
        out.write(rows)
    options: dict[str, Any] = {
        "schema": "struct<k:bigint,s:timestamp>",
        "where": col("k").isin(list(range(0, 3000, 10))),
        "batch_rows": 1000,
    }
    for is_short in (True, False):
        found = await steps(data.getvalue(), is_short, **options)
        assert "does not fit" in found[-1]
        assert found[-1] == found[-2]


async def test_a_filter_that_keeps_nothing_holds_nobody_up(tmp_path: Path) -> None:
    """30,000 batches of one row were filtered in one step: 1.5 s."""
    orc.write_table(pa.table({"n": [row % 2 for row in range(30_000)]}), tmp_path / "a.orc")
    late = 0.0

    async def watch() -> None:
        nonlocal late
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0)
            late = max(late, time.perf_counter() - before)

    with way(is_short=True):
        async with orcstream.open(tmp_path / "a.orc") as file:
            watching = asyncio.create_task(watch())
            assert (await file.read(where=col("n") == 3, batch_rows=1)).num_rows == 0
            watching.cancel()
    assert late < 0.5


async def test_a_step_that_is_cancelled_counts_nothing_twice(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planned, "_MANY_STATISTICS", 0)
    monkeypatch.setattr(brief, "_AT_ONCE_VALUES", 0)
    expected = await read(path, True, where=col("n") > 2500)
    with way(is_short=True):
        async with orcstream.open(path) as file, file.batches(where=col("n") > 2500) as stream:
            for at in range(200):
                with anyio.CancelScope() as scope:
                    if at % 2:
                        asyncio.get_running_loop().call_later(0.0002 * (at % 9), scope.cancel)
                    if await anext(stream, None) is None:
                        break
            assert plain(stream.stats) == expected[2]


@pytest.mark.parametrize("closes_the_file", [False, True])
async def test_closing_waits_for_the_thread(
    path: Path, closes_the_file: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(brief, "_AT_ONCE_VALUES", 0)
    begun, go_on, over = threading.Event(), threading.Event(), threading.Event()
    work = DecodeQueue.work

    def slow(self: DecodeQueue) -> None:
        begun.set()
        assert go_on.wait(60)
        work(self)
        over.set()

    monkeypatch.setattr(DecodeQueue, "work", slow)
    with way(is_short=True):
        file = await orcstream.open(path)
        stream = file.batches()
        step = asyncio.ensure_future(anext(stream))
        assert await asyncio.to_thread(begun.wait, 60)
        asyncio.get_running_loop().call_later(0.05, go_on.set)
        await (file if closes_the_file else stream).aclose()
        assert over.is_set()
        with pytest.raises(UsageError):
            await step
        await file.aclose()


@pytest.mark.parametrize("on_a_thread", [False, True])
async def test_a_file_that_is_closed_ends_it(
    path: Path, on_a_thread: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(brief, "_AT_ONCE_VALUES", 0 if on_a_thread else 1 << 16)
    observer = Observer()
    with way(is_short=True):
        file = await orcstream.open(path, observer=observer)
        stream = file.batches(batch_rows=100)
        await anext(stream)
        assert len(observer.ended) == 1
        await file.aclose()
        assert len(observer.ended) == 2
        with pytest.raises(UsageError, match=r"\bclosed while it was read\b"):
            await anext(stream)
        late = await orcstream.open(path)
        unread = late.batches()
        await late.aclose()
        with pytest.raises(UsageError, match=r"\bthe file is closed\b"):
            await anext(unread)


async def test_seeking_and_taking(path: Path) -> None:
    with way(is_short=True):
        async with orcstream.open(path) as file:
            async with file.batches(columns=["n"], batch_rows=5) as stream:
                for row in (2990, 0, 1500):
                    await stream.seek(row)
                    assert (await anext(stream)).to_pylist()[0] == {"n": row}
            taken = await file.take([2999, 0, 2999], columns=["n"])
            assert [row["n"] for row in taken.to_pylist()] == [2999, 0, 2999]


async def test_a_file_of_another_program(tmp_path: Path) -> None:
    orc.write_table(table(), tmp_path / "theirs.orc", compression="zstd")
    expected = table().to_pylist()
    rows, *_ = await read(tmp_path / "theirs.orc", True)
    assert rows == expected
