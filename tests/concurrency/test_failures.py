"""What a consumer meets when something fails: the rows before it, then the error itself, each time again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

import orcstream
from orcstream.byterange import ByteRange, BytesLike
from orcstream.errors import (
    CorruptStripe,
    FormatError,
    OrcError,
    ShortRead,
    SourceChanged,
    SourceError,
    Unsupported,
)
from orcstream.reader.engine.decoding import DecodeQueue
from orcstream.reader.engine.fetching import Fetcher
from tests.support.faulty import FaultySource
from tests.support.read_sources import (
    Leftovers,
    ProbeSource,
    cost_of,
    open_over,
    opened,
    probe,
    sample,
    sample_rows,
)

STRIPES, PER_STRIPE = 12, 20
DATA = sample(STRIPES, PER_STRIPE)
ROWS = [row for stripe in range(STRIPES) for row in sample_rows(stripe, PER_STRIPE)]
Row = tuple[Any, ...]


async def read_until_error(source: ProbeSource) -> tuple[list[Row], Exception | None]:
    """All rows that come before an error; what holds after any error is checked here."""
    left = Leftovers(source)
    rows: list[Row] = []
    error: Exception | None = None
    try:
        file = await open_over(source)
    except Exception as caught:  # noqa: BLE001
        await left.check()
        return rows, caught
    stream = file.batches()
    try:
        await collect(stream, rows)
    except Exception as caught:  # noqa: BLE001
        error = caught
        await left.settle(1)  # nothing goes on that nobody could be given
        with pytest.raises(type(caught)) as again:
            await anext(stream)
        assert again.value is caught  # noqa: PT017
        source.on_request = lambda _: None
        assert [tuple(row.values()) for row in (await file.read()).to_pylist()] == ROWS
    await file.aclose()
    await left.check()
    return rows, error


async def collect(stream: orcstream.BatchStream, rows: list[Row]) -> None:
    async for batch in stream:
        rows += [tuple(row.values()) for row in batch.to_pylist()]


def fail_from(number: int, error: Exception, *, only: bool) -> Callable[[int], None]:
    def on_request(found: int) -> None:
        if found == number or (found > number and not only):
            raise error

    return on_request


@pytest.mark.parametrize("only", [True, False], ids=["one", "all-later"])
async def test_a_store_that_fails_at_any_request(*, only: bool) -> None:
    source = probe(DATA)
    rows, error = await read_until_error(source)
    assert (rows, error) == (ROWS, None)
    total = source.request_count
    delivered = []
    for number in range(total):
        source = probe(DATA, on_request=fail_from(number, SourceError("it is down"), only=only))
        rows, error = await read_until_error(source)
        assert type(error) is SourceError
        assert error.url == source.url
        assert rows == ROWS[: len(rows)]
        assert len(rows) < len(ROWS)
        delivered.append(len(rows))
    assert max(delivered) == len(ROWS) - PER_STRIPE


@pytest.mark.parametrize(
    "error", [FileNotFoundError(2, "gone"), PermissionError(13, "no"), ZeroDivisionError()]
)
async def test_what_is_not_ours_passes_through(error: Exception) -> None:
    for number in range(0, 20, 3):
        source = probe(DATA, on_request=fail_from(number, error, only=True))
        _, caught = await read_until_error(source)
        assert caught is error


async def test_rows_before_a_failed_prefetch_come_out() -> None:
    """The error is there long before the consumer is."""
    source = probe(DATA)
    await read_until_error(source)
    last = source.request_count - 1
    source = probe(DATA, on_request=fail_from(last, SourceError("it is down"), only=True))
    async with opened(source) as file, file.batches() as stream:
        rows = []
        for _ in range(STRIPES - 1):
            batch = await anext(stream)
            rows += [tuple(row.values()) for row in batch.to_pylist()]
        assert rows == ROWS[: len(rows)]
        assert source.request_count == last + 1
        with pytest.raises(SourceError, match="down"):
            await anext(stream)


async def test_an_answer_of_the_wrong_length() -> None:
    def cut(data: BytesLike) -> BytesLike:
        return bytes(data)[:-1]

    def extended(data: BytesLike) -> BytesLike:
        return bytes(data) + b"\0"

    for spoil in (cut, extended):
        for number in range(1, 20):
            source = FaultySource(probe(DATA), [*[None] * number, spoil])
            async with await open_over(source) as file:
                with pytest.raises(SourceError) as caught:
                    await file.read()
            assert isinstance(caught.value.__cause__ or caught.value, ShortRead)
            assert caught.value.url == source.url


async def test_an_object_that_is_replaced() -> None:
    class Replaced(FaultySource):
        verify_count = 0

        async def verify(self) -> None:
            self.verify_count += 1
            if self.verify_count > 10:
                raise SourceChanged("replaced", url=self.url)

    source = Replaced(probe(DATA), [])
    rows: list[Row] = []
    async with await open_over(source) as file:
        stream = file.batches()
        with pytest.raises(SourceChanged):
            await collect(stream, rows)
    assert rows == ROWS[: len(rows)]
    assert len(rows) < len(ROWS)


async def damaged(at: Sequence[ByteRange], number: int) -> bytes:
    data = bytearray(DATA)
    one = at[number]
    data[one.start : one.stop] = b"\xff" * one.length
    return bytes(data)


@pytest.mark.parametrize("stripe", [0, 1, 5, 11])
async def test_a_damaged_stripe_footer(stripe: int) -> None:
    async with orcstream.open(DATA) as file:
        data = await damaged([one.footer_range for one in file.stripes], stripe)
    rows, error = await read_damaged(data)
    assert isinstance(error, CorruptStripe)
    assert error.stripe == stripe
    assert rows == ROWS[: stripe * PER_STRIPE]


@pytest.mark.parametrize("stripe", [0, 1, 5, 11])
async def test_damaged_data(stripe: int) -> None:
    async with orcstream.open(DATA) as file:
        ranges = [ByteRange(one.range.start, one.footer_range.start) for one in file.stripes]
    rows, error = await read_damaged(await damaged(ranges, stripe))
    assert isinstance(error, FormatError)
    assert (error.stripe, error.url) == (stripe, probe().url)
    assert error.column in (1, 2)
    assert rows == ROWS[: stripe * PER_STRIPE]


async def read_damaged(data: bytes) -> tuple[list[Row], OrcError | None]:
    source = probe(data)
    rows: list[Row] = []
    async with opened(source) as file:
        try:
            await collect(file.batches(), rows)
        except OrcError as error:
            return rows, error
    return rows, None


async def test_a_worker_that_runs_out_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def out_of_memory(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(DecodeQueue, "_decode", out_of_memory)
    source = probe(DATA)
    left = Leftovers(source)
    async with opened(source) as file:
        with pytest.raises(Unsupported, match=r"\bmemory_limit=") as caught:
            await file.read()
        assert caught.value.reason == "out_of_memory"
        assert caught.value.url == file.url
        await left.settle(1)
    await left.check()


async def test_a_fault_of_our_own_is_no_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of ours should fail outside of a request or a decoder; if it does, the user sees it plainly."""

    def broken(*_: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(Fetcher, "_ask", broken)
    source = probe(DATA, cost_of())
    left = Leftovers(source)
    async with opened(source) as file:
        with pytest.raises(RuntimeError, match="broken"):
            await file.read()
        await left.settle(1)
    await left.check()
