"""Merging while stores fail, change, answer in any order, and while nobody waits for it any more."""

from __future__ import annotations

import io
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import orc

import orcstream
from orcstream.byterange import ByteRange
from orcstream.errors import (
    CommitUnknown,
    CorruptStripe,
    RetriesExhausted,
    ShortRead,
    SourceChanged,
    SourceError,
)
from orcstream.io.contract.byte_sink import ByteSink
from orcstream.io.contract.byte_source import Transient
from orcstream.io.loop.clients import leased_clients
from orcstream.io.request.part_sink import PartSink
from orcstream.io.sink import commit, open_sink
from orcstream.io.stores.memory.source import BytesSource
from orcstream.writer import merge as module
from tests.generators.footers import DAMAGES, with_footer
from tests.servers.s3_proxy import S3_KINDS
from tests.servers.sink_stores import SinkStore, make_store
from tests.support.effort import STEP
from tests.support.errors import because
from tests.support.faulty import FaultySource
from tests.support.read_sources import Leftovers, ProbeSource, cost_of, sample, sample_rows

FILES = {f"probe://bucket/{number}.orc": sample(2 + number, 20) for number in range(3)}
ROWS = [row for number in range(3) for stripe in range(2 + number) for row in sample_rows(stripe, 20)]
# The tails need a second request, each stripe several.
COST = cost_of(tail_bytes=100)
SMALL: dict[str, Any] = {"io_options": {"part_bytes": 200, "retries": 0}}


class Bucket:
    """Opens sources over `FILES`, whose requests are numbered together."""

    def __init__(
        self, on_request: Callable[[int], None] = lambda _: None, turns: Callable[[int], int] = lambda _: 1
    ) -> None:
        self.sources: list[ProbeSource] = []
        self.count = 0
        self.most_open = 0
        self._on_request = on_request
        self._turns = turns

    async def open(self, url: str, **_: object) -> ProbeSource:
        source = ProbeSource(BytesSource(FILES[url], COST, url), on_request=self._number, turns=self._turns)
        self.sources.append(source)
        return source

    def _number(self, _: int) -> None:
        number, self.count = self.count, self.count + 1
        self.most_open = max(self.most_open, sum(source.open_count for source in self.sources))
        self._on_request(number)

    @asynccontextmanager
    async def checked(self) -> AsyncIterator[None]:
        """Nothing is left of what is done inside."""
        left = Leftovers()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "open_source", self.open)
            yield
        await left.check()
        for source in self.sources:
            assert source.open_count == 0
            assert source.close_count >= 1
        assert leased_clients() == 0


async def rows_of(path: Path) -> list[tuple[Any, ...]]:
    async with orcstream.open(path) as file:
        return [tuple(row.values()) for row in (await file.read()).to_pylist()]


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Path]:
    """A folder in which there must be nothing but the target."""
    yield tmp_path / "all.orc"
    assert {path.name for path in tmp_path.iterdir()} <= {"all.orc"}


async def test_answers_in_any_order(target: Path) -> None:
    for seed in range(20):
        rng = random.Random(seed)
        bucket = Bucket(turns=lambda _, rng=rng: rng.randint(1, 30))  # type: ignore[misc]
        async with bucket.checked():
            result = await orcstream.merge(FILES, target, **SMALL)
        assert result.files == tuple(FILES)
        assert await rows_of(target) == ROWS
        assert bucket.most_open > 3


async def test_a_commit_whose_answer_is_lost_is_made_again(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = 2

    async def losing(*arguments: Any, **options: Any) -> None:
        nonlocal lost
        await commit(*arguments, **options)
        if lost:
            lost -= 1
            raise CommitUnknown("the answer was lost")

    monkeypatch.setattr(module, "commit", losing)
    async with Bucket().checked():
        await orcstream.merge(FILES, target, **SMALL)
    assert lost == 0
    assert await rows_of(target) == ROWS


async def count_requests(target: Path) -> int:
    bucket = Bucket()
    async with bucket.checked():
        await orcstream.merge(FILES, target, **SMALL)
    return bucket.count


def _at(number: int, act: Callable[[], None]) -> Callable[[int], None]:
    return lambda found: act() if found == number else None


async def test_a_store_that_fails_at_any_request(target: Path) -> None:
    total = await count_requests(target)
    assert total > 20
    target.write_bytes(b"earlier")
    for number in range(0, total, STEP):
        failure = SourceError("it is down")

        def fail(failure: Exception = failure) -> None:
            raise failure

        bucket = Bucket(_at(number, fail))
        async with bucket.checked():
            with pytest.raises(SourceError, match="down") as caught:
                await orcstream.merge(FILES, target, **SMALL)
        assert caught.value is failure
        assert failure.url in FILES
        assert target.read_bytes() == b"earlier"


async def test_cancelled_by_a_scope_at_any_request(target: Path) -> None:
    total = await count_requests(target)
    target.write_bytes(b"earlier")
    for number in range(0, total, STEP):
        scope = anyio.CancelScope()
        bucket = Bucket(_at(number, scope.cancel))
        async with bucket.checked():
            with scope:
                await orcstream.merge(FILES, target, **SMALL)
        assert scope.cancelled_caught, number
        assert target.read_bytes() == b"earlier"


async def test_cancelled_at_any_time(target: Path) -> None:
    """Also between requests: while parts are sent, and while the file is prepared and committed."""
    start_s = time.perf_counter()
    await count_requests(target)
    duration_s = time.perf_counter() - start_s
    outcomes = set()
    for step in range(0, 150, STEP):
        target.unlink(missing_ok=True)
        async with Bucket().checked():
            with anyio.move_on_after(duration_s * step / 75) as limit:
                await orcstream.merge(FILES, target, **SMALL)
        outcomes.add(limit.cancelled_caught)
        if target.exists():
            assert await rows_of(target) == ROWS
        else:
            assert limit.cancelled_caught
        assert [path.name for path in target.parent.iterdir()] in ([], ["all.orc"])
    assert outcomes == {True, False}


@pytest.mark.parametrize("committed", [False, True])
async def test_cancelled_around_the_commit(
    target: Path, monkeypatch: pytest.MonkeyPatch, *, committed: bool
) -> None:
    scope = anyio.CancelScope()

    async def cancelling(*arguments: Any, **options: Any) -> None:
        if committed:
            await commit(*arguments, **options)
        scope.cancel()
        await anyio.lowlevel.checkpoint()

    monkeypatch.setattr(module, "commit", cancelling)
    async with Bucket().checked():
        with scope:
            await orcstream.merge(FILES, target, **SMALL)
    assert scope.cancelled_caught
    assert target.exists() == committed


async def test_failed_requests_are_sent_again(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orcstream.io.contract.byte_source.FIRST_WAIT_S", 0.001)
    faults: list[Any] = [Transient("busy"), None, lambda data: bytes(data)[:-1], Transient("busy")]
    opened: list[FaultySource] = []

    async def open_source(url: str, **_: object) -> FaultySource:
        opened.append(FaultySource(BytesSource(FILES[url], COST, url), faults))
        return opened[-1]

    monkeypatch.setattr(module, "open_source", open_source)
    await orcstream.merge(FILES, target, io_options={"part_bytes": 200, "retries": 2})
    assert await rows_of(target) == ROWS
    faults[:] = [None, Transient("busy")]
    with pytest.raises(RetriesExhausted, match="busy"):
        await orcstream.merge(FILES, target, **SMALL)
    faults[:] = [lambda data: bytes(data)[:-1]]
    opened.clear()
    with pytest.raises(SourceError) as caught:
        await orcstream.merge(FILES, target, **SMALL)
    assert isinstance(caught.value.__cause__, ShortRead)


async def test_what_is_fetched_waits_for_the_target(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No more is held than the limit, however slow the target is."""
    limit, part = 2000, 200
    monkeypatch.setattr(module, "IN_FLIGHT_BYTES", limit)
    bucket = Bucket()
    ahead: list[int] = []

    class Slow:
        def __init__(self, sink: ByteSink) -> None:
            self._sink = sink
            self._tails = bucket.count

        def __getattr__(self, name: str) -> Any:
            return getattr(self._sink, name)

        async def write(self, data: bytes) -> None:
            for _ in range(50):
                await anyio.lowlevel.checkpoint()
            ahead.append((bucket.count - self._tails) * part - self._sink.length)
            await self._sink.write(data)

    async def slow_sink(*arguments: Any, **options: Any) -> Slow:
        return Slow(await open_sink(*arguments, **options))

    monkeypatch.setattr(module, "open_sink", slow_sink)
    async with bucket.checked():
        await orcstream.merge(FILES, target, **SMALL)
    assert await rows_of(target) == ROWS
    # Pieces at the end of a file are shorter than a part.
    assert limit // 2 < max(ahead) <= limit + len(FILES) * part


async def test_progress(target: Path) -> None:
    seen: list[tuple[int, int]] = []
    async with Bucket().checked():
        result = await orcstream.merge(FILES, target, progress=lambda *found: seen.append(found), **SMALL)
    done = [one for one, _ in seen]
    assert done == sorted(set(done))
    assert seen[-1][0] == seen[-1][1] == sum(stripe.range.length for stripe in (await stripes_of(target)))
    assert {total for _, total in seen} == {seen[-1][1]}
    assert result.length == target.stat().st_size


async def stripes_of(path: Path) -> Any:
    async with orcstream.open(path) as file:
        return file.stripes


async def test_a_progress_that_fails(target: Path) -> None:
    def fail(*_: int) -> None:
        raise ZeroDivisionError

    async with Bucket().checked():
        with pytest.raises(ZeroDivisionError):
            await orcstream.merge(FILES, target, progress=fail, **SMALL)
    assert not target.exists()


# --- real stores -----------------------------------------------------------------------------------

KINDS = ["local", "memory", *S3_KINDS]
DATA = list(FILES.values())


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> SinkStore:
    return make_store(request.param, tmp_path)


async def merge_in(store: SinkStore, names: list[str], **options: Any) -> orcstream.MergeResult:
    return await orcstream.merge(
        [store.url_of(name) for name in names],
        store.url_of("all.orc"),
        storage_options=store.options,
        sink_options=store.tuned(),
        io_options={"retries": 0},
        **options,
    )


async def test_within_a_store(store: SinkStore) -> None:
    for number, one in enumerate(DATA):
        store.put(f"{number}.orc", one)
    result = await merge_in(store, ["0.orc", "1.orc", "2.orc"])
    data = store.seen("all.orc")
    assert data is not None
    assert result.length == len(data)
    async with orcstream.open(data) as file:
        assert [tuple(row.values()) for row in (await file.read()).to_pylist()] == ROWS
    # Onto one of the files themselves.
    twice = await merge_in(store, ["all.orc", "all.orc"])
    assert twice.row_count == 2 * len(ROWS)
    with pytest.raises(FileExistsError):
        await merge_in(store, ["0.orc"], overwrite=False)
    assert store.left() == []
    assert leased_clients() == 0


@pytest.mark.parametrize("name", ["0.orc", "2.orc"])
async def test_a_file_that_is_replaced_after_its_tail_was_read(
    store: SinkStore, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, data in enumerate(DATA):
        store.put(f"{number}.orc", data)

    async def replaced(*arguments: Any, **options: Any) -> Any:
        store.put(name, bytes(DATA[int(name[0])][:-1]) + b"\x00")
        return await open_sink(*arguments, **options)

    monkeypatch.setattr(module, "open_sink", replaced)
    with pytest.raises(SourceChanged) as caught:
        await merge_in(store, ["0.orc", "1.orc", "2.orc"])
    assert name in str(caught.value.url)
    assert store.seen("all.orc") is None
    assert store.left() == []
    assert leased_clients() == 0


async def test_a_target_that_cannot_be(tmp_path: Path) -> None:
    async with Bucket().checked():
        with pytest.raises(FileNotFoundError):
            await orcstream.merge(FILES, tmp_path / "none" / "all.orc", **SMALL)
    with pytest.raises(orcstream.Unsupported, check=because("read_only_store")):
        await orcstream.merge([DATA[0]], "https://example.org/all.orc")
    assert list(tmp_path.iterdir()) == []


async def test_hundreds_of_files(target: Path) -> None:
    files = [sample(1, 1 + number % 7) for number in range(300)]
    result = await orcstream.merge(files, target)
    expected = [row for number in range(300) for row in sample_rows(0, 1 + number % 7)]
    assert await rows_of(target) == expected
    assert (result.stripe_count, len(result.files)) == (300, 300)


# --- copies that a store makes ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", S3_KINDS)
@pytest.mark.parametrize("limit", [1 << 20, 1 << 30], ids=["by the store", "through here"])
async def test_long_ranges_are_copied_by_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, limit: int
) -> None:
    store = make_store(kind, tmp_path)
    monkeypatch.setattr(module, "STORE_COPY_BYTES", limit)
    numbers = np.random.default_rng(1).integers(0, 1 << 62, 1_600_000)
    orc.write_table(pa.table({"n": numbers}), tmp_path / "large.orc", compression="uncompressed")
    orc.write_table(pa.table({"n": numbers[:10]}), tmp_path / "small.orc", compression="uncompressed")
    names = ["large.orc", "small.orc", "large.orc", "large.orc", "small.orc"]
    for name in names[:2]:
        store.put(name, (tmp_path / name).read_bytes())
    copied: list[int] = []
    copy = PartSink.copy

    async def counting(sink: PartSink, source: str, range: ByteRange, fingerprint: str) -> bool:
        copied.append(range.length)
        return await copy(sink, source, range, fingerprint)

    monkeypatch.setattr(PartSink, "copy", counting)
    result = await merge_in(store, names)
    assert (sum(copied) > 3 * 12_000_000) == (limit == 1 << 20)
    data = store.seen("all.orc")
    assert data is not None
    assert len(data) == result.length
    async with orcstream.open(data) as file:
        table = pa.table(await file.read())
    expected = np.concatenate([numbers if name == "large.orc" else numbers[:10] for name in names])
    assert np.array_equal(table.column("n").to_numpy(), expected)
    assert store.left() == []


@pytest.mark.parametrize("kind", S3_KINDS)
async def test_a_file_that_is_replaced_before_the_store_copies_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    store = make_store(kind, tmp_path)
    monkeypatch.setattr(module, "STORE_COPY_BYTES", 1 << 20)
    numbers = np.random.default_rng(1).integers(0, 1 << 62, 1_600_000)
    orc.write_table(pa.table({"n": numbers}), tmp_path / "large.orc", compression="uncompressed")
    data = (tmp_path / "large.orc").read_bytes()
    store.put("large.orc", data)

    async def replaced(*arguments: Any, **options: Any) -> Any:
        store.put("large.orc", data[:-1] + b"\x00")
        return await open_sink(*arguments, **options)

    monkeypatch.setattr(module, "open_sink", replaced)
    with pytest.raises(SourceChanged) as caught:
        await merge_in(store, ["large.orc", "large.orc"])
    assert "large.orc" in str(caught.value.url)
    assert store.seen("all.orc") is None
    assert store.left() == []
    assert leased_clients() == 0


@pytest.mark.parametrize("kind", S3_KINDS)
@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_store_copies_no_stripe_with_a_damaged_footer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, damage: str
) -> None:
    store = make_store(kind, tmp_path)
    monkeypatch.setattr(module, "STORE_COPY_BYTES", 1 << 20)
    numbers = np.random.default_rng(1).integers(0, 1 << 62, 800_000)
    buffer = io.BytesIO()
    async with orcstream.create(buffer, "struct<n:bigint>", compression="none", stripe_bytes=1 << 20) as out:
        await out.write({"n": numbers})
    data = buffer.getvalue()
    store.put("sound.orc", data)
    store.put("broken.orc", with_footer(data, 3, DAMAGES[damage]))
    with pytest.raises(CorruptStripe) as caught:
        await orcstream.merge(
            [store.url_of("sound.orc"), store.url_of("broken.orc")],
            store.url_of("all.orc"),
            storage_options=store.options,
            sink_options=store.tuned(),
        )
    assert (caught.value.url, caught.value.stripe) == (store.url_of("broken.orc"), 3)
    assert store.seen("all.orc") is None
