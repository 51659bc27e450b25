"""Parts of the reader by themselves: the budget, guesses of row sizes, explanations, what options allow."""

from __future__ import annotations

import io
import platform
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Any
from weakref import WeakSet

import anyio
import numpy as np
import pytest

import orcstream
from orcstream._buffer import retained_bytes
from orcstream.byterange import ByteRange, CostModel
from orcstream.codec.decode._column import Turn
from orcstream.codec.metadata.structure import StreamKind
from orcstream.codec.streams.compression import Compression
from orcstream.codec.vectors.column import VectorOptions
from orcstream.errors import ColumnNotFound, Unsupported, UsageError
from orcstream.file.unlocking import KeyRing, UnlockedFile
from orcstream.file.zones import FileTimes
from orcstream.reader import planned
from orcstream.reader.engine import session
from orcstream.reader.engine.budget import ChunkRoom, Lease, MemoryBudget, Shares
from orcstream.reader.engine.decoding import DecodeQueue
from orcstream.reader.engine.jobs import Job
from orcstream.reader.engine.pruning import Pruner
from orcstream.reader.engine.runs import ColumnRun, RowSizes, StreamPiece, StripeRun, windows_of
from orcstream.reader.engine.stripes import StripeStarter, StripeWork
from orcstream.reader.explain import Explanation, Wave
from tests.reference import rle_v2
from tests.reference.builder import FileBuilder, Options, Stream
from tests.reference.columns import Encoder, make_file
from tests.reference.reader import DATA as DATA_KIND
from tests.reference.reader import DICTIONARY_DATA, DICTIONARY_V2, DIRECT, LENGTH
from tests.reference.statistics import honest
from tests.reference.types import T
from tests.support.read_sources import sample

DATA = sample(3, 20)


def budget_of(limit: int = 1 << 20) -> tuple[MemoryBudget, list[int]]:
    calls: list[int] = []
    budget = MemoryBudget(limit, ChunkRoom(limit), lambda: calls.append(1))
    return budget, calls


def test_leases_give_back_when_they_are_dropped() -> None:
    budget, calls = budget_of()
    lease = budget.lend(1000)
    other = budget.lend(24)
    assert (budget.fetched, budget.peak_fetched, calls) == (1024, 1024, [])
    del lease
    assert (budget.fetched, budget.peak_fetched, calls) == (24, 1024, [1])
    del other
    assert budget.fetched == 0


def test_what_fits() -> None:
    budget, _ = budget_of()
    assert budget.fits(1 << 40)  # when nothing is held, or a read could not go on
    lease = budget.lend(1)
    assert budget.fits(budget.fetch_limit - 1)
    assert not budget.fits(budget.fetch_limit)
    del lease


def test_shares_stay_within_the_limit() -> None:
    for limit in (1 << 16, 10**6, 1 << 40):
        shares = Shares(limit)
        assert shares.fetch_limit + shares.decode_limit < limit
        assert 0 < 2 * shares.window_bytes <= shares.fetch_limit
        assert 0 < 3 * shares.decoded_window_bytes <= shares.decode_limit


@pytest.mark.parametrize("limit", [0, -1, (1 << 16) - 1, 1e9, "1 GB", None, True])
def test_limits_that_are_none(limit: Any) -> None:
    with pytest.raises(UsageError, match="memory_limit"):
        Shares(limit)


def test_leases_dropped_on_many_threads() -> None:
    budget, calls = budget_of()
    shares = [[budget.lend(number) for number in range(500)] for _ in range(4)]
    threads = [threading.Thread(target=share.clear) for share in shares]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert budget.fetched == 0
    assert len(calls) == 2000


def test_a_lease_that_dies_while_another_is_lent() -> None:
    """The garbage collector may run anywhere, in the middle of `lend` too."""
    budget, _ = budget_of()
    dying = [budget.lend(100)]

    class Collected(int):
        def __radd__(self, other: int) -> int:
            dying.clear()
            return other + int(self)

    done: list[Lease] = []
    thread = threading.Thread(target=lambda: done.append(budget.lend(Collected(24))), daemon=True)
    thread.start()
    thread.join(10)
    assert not dying
    assert done, "locked by itself"
    assert budget.fetched == 24


def test_sizes_are_believed_quickly_and_forgotten_slowly() -> None:
    sizes = RowSizes(2)
    assert (sizes.is_measured(0), sizes.row()) == (False, 0)
    sizes.measure(0, 800, 100)
    sizes.measure(1, 100, 100)
    assert (sizes.of(0), sizes.row()) == (8, 9)
    sizes.measure(0, 6400, 100)
    assert sizes.of(0) == 64
    sizes.measure(0, 0, 100)
    assert sizes.of(0) == 48


def test_an_explanation_is_text_for_people() -> None:
    explained = Explanation(
        url="s3://bucket/t.orc",
        columns="struct<a:int>",
        row_count=1_234_567,
        selected_row_count=30_000,
        rows_pruned_by_file=0,
        rows_pruned_by_stripe=1_000_000,
        rows_pruned_by_row_group=204_567,
        rows_pruned_by_bloom=0,
        predicate_first=True,
        stripe_count=3,
        window_count=4,
        waves=(
            Wave("tail", 1, 500, 65_536),
            Wave("control", 0, 300, 0),
            Wave("data", 12, 9_000_000, 9_100_000),
        ),
    )
    assert (explained.hop_count, explained.request_count) == (2, 13)
    assert (explained.bytes_wanted, explained.bytes_read) == (9_000_800, 9_165_536)
    assert str(explained).splitlines() == [
        "s3://bucket/t.orc",
        "  reads     struct<a:int>",
        "  rows      30,000 of 1,234,567",
        "  from      3 stripes, in 4 windows",
        "  pruned    1,000,000 by stripe statistics, 204,567 by row group statistics",
        "  order     the predicate's columns first, the others where a row matches",
        "  hops      2",
        "  wave             requests          wanted            read",
        "  tail                    1             500          65,536",
        "  control                 0             300               0",
        "  data                   12       9,000,000       9,100,000",
        "  total                  13       9,000,800       9,165,536",
    ]


@pytest.mark.parametrize(
    "options",
    [
        {"batch_rows": 0},
        {"batch_rows": 1.5},
        {"batch_rows": True},
        {"decode_threads": 0},
        {"memory_limit": 1000},
        {"timestamp_unit": "h"},
        {"invalid_utf8": "ignore"},
    ],
    ids=str,
)
async def test_options_that_mean_nothing(options: dict[str, Any]) -> None:
    async with orcstream.open(DATA) as file:
        with pytest.raises(UsageError, match=next(iter(options))):
            file.batches(**options)
        with pytest.raises(UsageError, match=next(iter(options))):
            await file.read(**options)


async def test_row_numbers_need_a_name_of_their_own() -> None:
    buffer = io.BytesIO()
    async with orcstream.create(buffer, "struct<row_number:int,a:int>") as out:
        await out.write([(1, 2)])
    async with orcstream.open(buffer.getvalue()) as file:
        with pytest.raises(UsageError, match="columns="):
            file.batches(row_numbers=True)
        found = await file.read(columns=["a"], row_numbers=True)
    assert found.to_pylist() == [{"a": 2, "row_number": 0}]


async def test_columns_that_are_not_there() -> None:
    async with orcstream.open(DATA) as file:
        for ask in (file.batches, file.explain, file.read):
            with pytest.raises(ColumnNotFound) as caught:
                await ask(columns=["a", "nope"])  # type: ignore[misc]
            assert caught.value.url == file.url
        with pytest.raises(ColumnNotFound):
            file.batches(columns=["A"])
        rows = await file.read(columns=["D", "A"], case_sensitive=False)
    assert list(rows.to_pylist()[0]) == ["d", "a"]


async def test_parts_that_are_not_there() -> None:
    async with orcstream.open(DATA) as file:
        for stripe in (-1, 3):
            with pytest.raises(UsageError, match="3"):
                await file.stripe_footer(stripe)
            with pytest.raises(UsageError, match="3"):
                await file.row_index(stripe)


@pytest.mark.parametrize("batch_rows", [1, 7, 20, 1000])
async def test_batches_end_with_their_stripe(batch_rows: int) -> None:
    async with orcstream.open(DATA) as file:
        lengths = [batch.num_rows async for batch in file.batches(batch_rows=batch_rows)]
        stream = file.batches(columns=["s"])
        assert str(stream.schema) == "struct<s:string>"
        assert [field.name for field in stream.batch_schema.fields] == ["s"]
        assert "3 stripes" in repr(file)
    stripe = [batch_rows] * (20 // batch_rows) + ([20 % batch_rows] if 20 % batch_rows else [])
    assert lengths == stripe * 3


async def test_dictionaries_of_later_stripes_wait_for_room() -> None:
    """Each fits the budget, two do not; and bytes of the first stripe are late."""
    builder = FileBuilder(T("struct", (T("string"),), ("a",)))
    runs = [rle_v2.direct([0] * 512, signed=False, width=8) for _ in range(4)]
    for _ in range(2):
        streams = [
            Stream(DATA_KIND, 1, b"".join(runs)),
            Stream(DICTIONARY_DATA, 1, b"w" * 30_000),
            Stream(LENGTH, 1, rle_v2.encode([0, 30_000], signed=False)),
        ]
        builder.stripe(4 * 512, streams, [(DIRECT, 0), (DICTIONARY_V2, 2)])
    queue, budget, stripes, data = await queue_of(builder.build(), 1 << 16)
    (indexes,) = (feed for feed in stripes[0].feeds if feed.cursor.kind is StreamKind.DATA)
    (whole,) = indexes.pieces
    cut = whole.range.start + len(runs[0])
    late = StreamPiece(indexes, ByteRange(cut, whole.range.stop), 0)
    whole.range = ByteRange(whole.range.start, cut)
    indexes.pieces.append(late)
    for feed in (feed for stripe in stripes for feed in stripe.feeds):
        arrive(queue, feed.pieces[0], data)
    queue.work()
    assert [len(stripe.waiting) for stripe in stripes] == [0, 1]
    assert 30_000 < budget.dictionaries < 31_000
    assert not queue.has_work()
    arrive(queue, late, data)
    assert deliver_all(queue) == [(0, 2048), (1, 2048)]
    assert (budget.dictionaries, budget.decoded) == (0, 0)


async def test_dictionaries_of_one_stripe_share_the_room() -> None:
    type_ = T("struct", (T("string"), T("string")), ("a", "b"))
    rows = [("v" * 20_000, "w" * 20_000), ("v", "w")]
    data = make_file(type_, rows, Encoder(dictionary=True))
    queue, budget, stripes, view = await queue_of(data, 1 << 16)
    for feed in stripes[0].feeds:
        arrive(queue, feed.pieces[0], view)
    with pytest.raises(Unsupported, match="memory_limit") as caught:
        deliver_all(queue)
    assert caught.value.reason == "dictionary_too_large"
    assert budget.dictionaries <= budget.dictionary_limit


async def test_rows_that_turn_large_while_a_narrow_column_is_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows far ahead end where that column stands; what is decoded up to there has to fit nevertheless."""
    size = 50_000
    small = 3029  # a window ends there; the first is short, for rows are guessed to be large
    texts = ["x"] * small + ["z" * size] * 60 + ["x"] * 3000
    rows = [(number * 7 % 1000, text) for number, text in enumerate(texts)]
    data = make_file(T("struct", (T("int"), T("string")), ("n", "text")), rows, Encoder())
    queue, budget, stripes, view = await queue_of(data, 1 << 20, batch_rows=500)
    number, text = stripes[0].runs
    late = [*cut_stream(number, 0.65), *cut_stream(text, small)]
    for piece in [piece for feed in stripes[0].feeds for piece in feed.pieces if piece not in late]:
        arrive(queue, piece, view)
    assert deliver_all(queue) == [(0, small)]
    assert number.row > small + 60
    decode = DecodeQueue._decode  # where a worker is without the lock

    def meanwhile(queue: DecodeQueue, jobs: Sequence[Job], turn: Turn) -> Any:
        if text.row == small + 1 and any(job.run is text for job in jobs):
            other = threading.Thread(target=queue.work)
            other.start()
            other.join()
        return decode(queue, jobs, turn)

    monkeypatch.setattr(DecodeQueue, "_decode", meanwhile)
    for piece in late:
        arrive(queue, piece, view)
    delivered, peak = small, 0
    while delivered < len(rows):
        queue.work()
        peak = max(peak, budget.decoded)
        delivery = queue.deliver()
        assert delivery is not None
        delivered += delivery.row_count
    assert peak <= budget.decode_limit + 2 * size


def cut_stream(run: ColumnRun, at: float) -> list[StreamPiece]:
    """Ends the first piece of a column's data there, counted in bytes or as a part; the pieces after that."""
    (feed,) = (feed for feed in run.feeds if feed.cursor.kind is StreamKind.DATA)
    first = feed.pieces[0]
    cut = first.range.start + int(at * first.range.length if at < 1 else at)
    feed.pieces.insert(1, StreamPiece(feed, ByteRange(cut, first.range.stop), 0))
    first.range = ByteRange(first.range.start, cut)
    return list(feed.pieces)[1:]


async def test_windows_wait_for_what_they_are_made_of() -> None:
    """While rows of one column are guessed, the others open few windows: short ones make short batches."""
    rows = [(number, "word") for number in range(30_000)]
    data = make_file(T("struct", (T("int"), T("string")), ("n", "text")), rows, Encoder())
    queue, budget, stripes, view = await queue_of(data, 1 << 20)
    (text,) = (run for run in stripes[0].runs if run.index == 1)
    for feed in stripes[0].feeds:
        if feed.run is not text:
            arrive(queue, feed.pieces[0], view)
    queue.work()
    assert budget.decoded < budget.decode_limit
    assert 1 < len(stripes[0].bounds) <= 4
    for feed in text.feeds:
        arrive(queue, feed.pieces[0], view)
    assert deliver_all(queue) == [(0, len(rows))]


async def queue_of(
    data: bytes, limit: int, batch_rows: int = 1 << 16
) -> tuple[DecodeQueue, MemoryBudget, list[StripeRun], memoryview]:
    """All stripes of a file under decoding, with no bytes yet."""
    budget = MemoryBudget(limit, ChunkRoom(limit), lambda: None)
    async with orcstream.open(data) as file:
        unlocked = UnlockedFile(file.tail, KeyRing())
        starter = StripeStarter(unlocked, file.schema.root, VectorOptions(), FileTimes(None, "UTC", "auto"))
        stripes: list[StripeRun] = []
        for number, information in enumerate(file.stripes):
            footer = memoryview(data)[information.footer_range.start : information.footer_range.stop]
            stripe = starter.start(StripeWork(number, information), footer, {})
            assert stripe is not None
            stripes.append(stripe)
    queue = DecodeQueue(
        compression=Compression.NONE,
        batch_rows=batch_rows,
        column_count=len(file.schema.names),
        budget=budget,
        on_progress=lambda: None,
    )
    for stripe in stripes:
        for window in windows_of(stripe, budget, CostModel.memory()):
            for piece in window:
                piece.feed.pieces.append(piece)
        queue.add(stripe)
    return queue, budget, stripes, memoryview(data)


def deliver_all(queue: DecodeQueue) -> list[tuple[int, int]]:
    """Rows by stripe, as far as they come."""
    found: dict[int, int] = {}
    while True:
        queue.work()
        delivery = queue.deliver()
        if delivery is None:
            return sorted(found.items())
        number = delivery.stripe.number
        found[number] = found.get(number, 0) + delivery.row_count


def arrive(queue: DecodeQueue, piece: StreamPiece, data: memoryview) -> None:
    queue.arrive(piece, [data[piece.range.start : piece.range.stop]], None)


@pytest.mark.parametrize("many", [True, False])
async def test_where_statistics_of_stripes_are_looked_at(many: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a thread where there are many: they would keep the loop for a microsecond each."""
    looked: list[bool] = []
    stripes = Pruner.stripes

    def look(pruner: Pruner, statistics: Any) -> Any:
        looked.append(threading.current_thread() is threading.main_thread())
        return stripes(pruner, statistics)

    monkeypatch.setattr(Pruner, "stripes", look)
    monkeypatch.setattr(planned, "_MANY_STATISTICS", 1 if many else 1 << 14)
    async with orcstream.open(DATA) as file:
        rows = await file.read(where=~orcstream.col(file.schema.root.field_names[0]).is_null())
        assert rows.num_rows == file.row_count
    assert looked == [not many]


async def test_memory_left_behind_goes_back_when_nothing_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "IDLE_S", 0.0)
    monkeypatch.setattr(session, "_open_sessions", WeakSet())
    type_ = T("struct", (T("bigint"),), ("a",))
    data = make_file(type_, [(value,) for value in range(20_000)])
    async with orcstream.open(data) as file:
        await file.read()
        async with orcstream.open(data) as other:
            await other.read()
        await anyio.sleep(0.01)
        assert retained_bytes() > 0
    await anyio.sleep(0.01)
    assert retained_bytes() == 0


async def test_the_c_library_is_asked_for_its_memory_on_a_thread_and_not_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trimmed: list[bool] = []
    monkeypatch.setattr(session, "IDLE_S", 0.2)
    monkeypatch.setattr(session, "_open_sessions", WeakSet())
    data = make_file(T("struct", (T("bigint"),), ("a",)), [(1,)])
    monkeypatch.setattr(
        session, "trim", lambda: trimmed.append(threading.current_thread() is threading.main_thread())
    )
    for _ in range(3):
        async with orcstream.open(data) as file:
            await file.read()
        await anyio.sleep(0.01)
    await anyio.sleep(0.5)
    assert trimmed == [False]


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries keep nothing back")
def test_freed_memory_is_returned_to_the_system() -> None:
    """Blocks below glibc's threshold for maps, with one in use behind them, stay in the process else."""
    program = """
from orcstream._buffer import Buffer, release_retained, trim
from tests.memory.child import status_bytes
held = [Buffer(100_000) for _ in range(2000)]
for one in held:
    memoryview(one)[:] = bytes(100_000)
last = held.pop()
full = status_bytes("VmRSS")
held.clear()
release_retained()
kept = full - status_bytes("VmRSS")
trim()
print(kept < 50_000_000 and full - status_bytes("VmRSS") > 150_000_000)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "True\n"


async def test_statistics_by_name_leave_out_what_no_name_leads_to() -> None:
    """Two columns of one name, and what is below them, though the names there differ."""
    lists = T("struct", (T("array", (T("int"),)), T("map", (T("int"), T("int"))), T("int")), ("l", "l", "i"))
    rows = [([1], [(2, 3)], 4)]
    async with orcstream.open(make_file(lists, rows, options=Options(statistics=honest))) as file:
        assert list(dict(file.statistics)) == ["i"]


@pytest.mark.parametrize(
    "mask", [[False, True], np.array([False, True]), [0, True], [np.bool_(True)]], ids=str
)
async def test_take_refuses_masks(mask: Any) -> None:
    async with orcstream.open(DATA) as file:
        with pytest.raises(UsageError, match="flatnonzero"):
            await file.take(mask)
        assert (await file.take(np.flatnonzero([False, True]).tolist())).num_rows == 1
