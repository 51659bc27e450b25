"""What an open file runs on: its source, the supervisor task that owns all its tasks, and who watches them.

Knows life times, what is measured of a read (stripes, columns, waves), and which spans of time belong
together. Must not know how a file is read, nor how spans are shown. The session does not know the file
object: dropping that one stops this one. An observer is handed to `open` and carried down once; without one,
nothing is recorded.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from functools import partial
from typing import Protocol, TypeAlias, runtime_checkable
from weakref import WeakSet

import anyio

from orcstream._buffer import release_retained, trim
from orcstream._printable import logger_of
from orcstream.byterange import ByteRange, RangeBuffer
from orcstream.codec.metadata.structure import StripeFooter
from orcstream.errors import UsageError
from orcstream.io.contract.byte_source import ByteSource, RetryPolicy, Suffix
from orcstream.io.loop.tasks import Running, Supervisor, TaskStarter, keep_alive
from orcstream.io.loop.uncancelled import until_done, until_over
from orcstream.io.request.scheduler import FetchReport, FetchScheduler

_logger = logger_of("orcstream.reader")


# --- what was done, measured -----------------------------------------------------------------------


@dataclass(slots=True)
class PrunedRows:
    """How many rows were not read, by what proved that they do not match; and how many were read in vain."""

    by_file: int = 0
    by_stripe: int = 0
    by_row_group: int = 0
    by_bloom: int = 0
    filtered: int = 0


@dataclass(frozen=True, slots=True)
class ReadStatistics:
    """What a stream has done so far, measured.

    `row_count` rows in `batch_count` batches were delivered, of `stripe_count` stripes.
    `rows_pruned_by_file`, `rows_pruned_by_stripe`, `rows_pruned_by_row_group` and `rows_pruned_by_bloom`
    are rows of the file that statistics or bloom filters showed to have no match, by what showed it
    first; `rows_filtered` were looked at and had none. `request_count` requests were sent, `retry_count`
    of them again after a failure and `hedge_count` a second time beside a slow one; `bytes_wanted` were
    needed, `bytes_read` asked for, with the gaps between. `hop_count` is how often the store's latency
    was paid in full, `wait_s` how long the consumer waited for batches, `decode_s` how long workers
    decoded (of all threads together), `peak_fetched_bytes` the most that was fetched and not yet
    decompressed at one time. Opening the file is not in these figures. Two can be added.
    """

    row_count: int = 0
    batch_count: int = 0
    stripe_count: int = 0
    request_count: int = 0
    retry_count: int = 0
    hedge_count: int = 0
    hop_count: int = 0
    bytes_wanted: int = 0
    bytes_read: int = 0
    rows_pruned_by_file: int = 0
    rows_pruned_by_stripe: int = 0
    rows_pruned_by_row_group: int = 0
    rows_pruned_by_bloom: int = 0
    rows_filtered: int = 0
    wait_s: float = 0.0
    decode_s: float = 0.0
    peak_fetched_bytes: int = 0

    def __add__(self, other: ReadStatistics) -> ReadStatistics:
        """Of two reads together."""
        sums = {
            one.name: getattr(self, one.name) + getattr(other, one.name)
            for one in fields(self)
            if one.name != "peak_fetched_bytes"
        }
        return ReadStatistics(
            **sums, peak_fetched_bytes=max(self.peak_fetched_bytes, other.peak_fetched_bytes)
        )


@dataclass(frozen=True, slots=True)
class RequestSpan:
    """One request, from its first attempt to its last byte, or to the failure that nobody tries again.

    `wave` is why it was sent, in the words of `Explanation.waves`: ``tail``, ``statistics``, ``control``,
    ``index``, ``predicate``, ``data``, and ``rest`` for what follows a predicate; ``metadata`` for what tools
    ask of a file. `range` are its bytes of the file. `start_s` and `stop_s` are seconds of
    `time.perf_counter`. It took `attempt_count` attempts; `error` is what kept the bytes away, None where
    they are there.
    """

    wave: str
    range: ByteRange
    start_s: float
    stop_s: float
    attempt_count: int = 1
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class DecodeSpan:
    """What one thread did at a stretch: decompressing and decoding rows of one top-level column of a stripe.

    `stripe` counts from 0, `column_id` is the file's. `row_count` is 0 where the bytes for a whole step were
    not there yet. `start_s` and `stop_s` are seconds of `time.perf_counter`.
    """

    stripe: int
    column_id: int
    row_count: int
    start_s: float
    stop_s: float


@runtime_checkable
class ReadObserver(Protocol):
    """Is told of each span when it is over.

    Both must return soon and raise nothing: the read waits for them, and fails with what they raise.
    """

    def on_request(self, span: RequestSpan) -> None:
        """Called on the event loop; not for requests that were cancelled."""

    def on_decode(self, span: DecodeSpan) -> None:
        """Called on a decoding thread, of which there may be several."""


class TracedRead(ReadObserver, Protocol):
    """An observer of one operation, which is told of its end, once and last."""

    def end(self, statistics: ReadStatistics | None, error: BaseException | None) -> None:
        """Called on the event loop. `statistics` are those of a read; `error` is what it failed with."""


@runtime_checkable
class ReadTracer(Protocol):
    """Is told which spans belong together: those of one open, one read, or one look at metadata."""

    def begin(self, operation: str, url: str) -> TracedRead:
        """Called in the context of who asks for it (`contextvars`), when the first request is about to be.

        `operation` is ``open``, ``read`` (a stream up to its end, or to the next `seek`) or ``metadata``
        (what tools ask for). `url` is without credentials.
        """


Observer: TypeAlias = ReadObserver | ReadTracer


def check_observer(observer: object) -> None:
    """Raises UsageError for what can be told nothing."""
    if observer is not None and not isinstance(observer, ReadObserver | ReadTracer):
        raise UsageError(
            "observer= takes an object with on_request and on_decode (ReadObserver), or with begin "
            f"(ReadTracer), not {type(observer).__name__}"
        )


class Watch:
    """One operation, told to an observer of either kind; `begin` comes before all else."""

    def __init__(self, observer: Observer, operation: str, url: str) -> None:
        self._observer = observer
        self._operation = operation
        self._url = url
        self._told: ReadObserver | None = None
        self._traced: TracedRead | None = None

    def begin(self) -> None:
        if isinstance(self._observer, ReadTracer):
            self._told = self._traced = self._observer.begin(self._operation, self._url)
        else:
            self._told = self._observer

    def on_request(self, span: RequestSpan) -> None:
        assert self._told is not None
        self._told.on_request(span)

    def on_decode(self, span: DecodeSpan) -> None:
        assert self._told is not None
        self._told.on_decode(span)

    def end(self, statistics: ReadStatistics | None = None, error: BaseException | None = None) -> None:
        """Nothing more will be told. May be called again, and of what never began."""
        traced, self._traced = self._traced, None
        if traced is not None:
            try:
                traced.end(statistics, error)
            except Exception:
                # The work is done, and nobody waits for it who could be told.
                _logger.exception("an observer of %s failed", self._url)


@contextmanager
def watched(watch: Watch | None) -> Iterator[Watch | None]:
    """An operation that lasts as long as the block, and fails with it."""
    if watch is None:
        yield None
        return
    watch.begin()
    try:
        yield watch
    except BaseException as error:
        watch.end(error=error)
        raise
    watch.end()


# --- what a file said ------------------------------------------------------------------------------


# What an entry takes besides its bytes, about.
_ENTRY_BYTES = 500


class Remembered:
    """Stripe footers and indexes, as they stand in the file, and parsed footers: those that were used last.

    Encrypted indexes stay encrypted. Parsed footers hold no values.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._lock = threading.Lock()  # large stripes are started on threads
        self._bytes: dict[ByteRange, memoryview] = {}  # the one that was used last comes last
        self._footers: dict[ByteRange, StripeFooter] = {}  # of some that are there

    def get(self, wanted: ByteRange) -> memoryview | None:
        """The bytes of exactly this range, where they are known."""
        with self._lock:
            found = self._bytes.pop(wanted, None)
            if found is not None:
                self._bytes[wanted] = found
            return found

    def has(self, wanted: ByteRange) -> bool:
        """Whether they are known."""
        return wanted in self._bytes

    def put(self, range: ByteRange, data: memoryview) -> memoryview:
        """Keep a copy, but of what is larger than a quarter of the limit; answers what was given."""
        if 4 * range.length <= self._limit:
            with self._lock:
                if range not in self._bytes:
                    self._bytes[range] = memoryview(bytes(data))
                    self._grow(range.length + _ENTRY_BYTES)
        return data

    def footer(self, range: ByteRange) -> StripeFooter | None:
        """The footer that was parsed of these bytes."""
        return self._footers.get(range)

    def put_footer(self, range: ByteRange, footer: StripeFooter) -> StripeFooter:
        """Keep a footer whose bytes are kept; answers it."""
        with self._lock:
            size = _size_of(footer)
            if 4 * size <= self._limit and range in self._bytes and range not in self._footers:
                self._footers[range] = footer
                self._grow(size)
        return footer

    def _grow(self, size: int) -> None:
        self._size += size
        while self._size > self._limit:
            oldest = next(iter(self._bytes))
            del self._bytes[oldest]
            self._size -= oldest.length + _ENTRY_BYTES
            footer = self._footers.pop(oldest, None)
            if footer is not None:
                self._size -= _size_of(footer)


def _size_of(footer: StripeFooter) -> int:
    """What a parsed footer takes, about."""
    return 200 * (len(footer.streams) + len(footer.encodings))


# --- sessions --------------------------------------------------------------------------------------

# Memory that a read leaves for the next one goes back to the system when no file was open for so long.
IDLE_S = 10.0

_open_sessions: WeakSet[Session] = WeakSet()


class _Idle:
    """Stands for the time since the last file was closed."""

    since = object()


def _trim(since: object) -> None:
    """Free the pool, and have the C library return it to the system, if no file was opened `since`."""
    if _open_sessions or since is not _Idle.since:
        return
    release_retained()
    # It takes longer than a loop may be held up, and does not need the interpreter's lock.
    threading.Thread(target=trim, name="orcstream trim", daemon=True).start()


class Session:
    """The source of one open file and its tasks."""

    def __init__(
        self,
        source: ByteSource,
        retry: RetryPolicy,
        observer: Observer | None = None,
        remembered_bytes: int = 0,
    ) -> None:
        self.source = source
        self.retry = retry
        self.remembered_bytes = remembered_bytes
        self._observer = observer
        self._opening: Watch | None = None
        self.suffix_count = 0
        self.closing = anyio.Event()
        self._loop = asyncio.get_running_loop()
        self._tasks = Supervisor()
        # Its requests belong to one operation or another, and so are labelled with it.
        told = None if observer is None else _tell_of_label
        self._scheduler = FetchScheduler(source, self.tasks, retry=retry, on_finished=told)
        self._closed = False
        self._closer: asyncio.Task[None] | None = None
        self._reads: set[Running] = set()  # that have no task
        _open_sessions.add(self)

    @property
    def tasks(self) -> TaskStarter:
        """Takes tasks until the session is closed."""
        return self._tasks

    # --- requests ----------------------------------------------------------------------------------

    def watch(self, operation: str) -> Watch | None:
        """For the observer of the file, where there is one."""
        return None if self._observer is None else Watch(self._observer, operation, self.source.url)

    @contextmanager
    def opening(self, watch: Watch | None) -> Iterator[None]:
        """All requests within the block are those of opening the file, which is watched."""
        self._opening = watch
        yield
        self._opening = None

    def scheduler(self, tasks: TaskStarter, watch: Watch | None) -> FetchScheduler:
        """Sends requests of one read of this file."""
        told = None if watch is None else partial(_tell, watch)
        return FetchScheduler(self.source, tasks, retry=self.retry, on_finished=told)

    async def fetch_suffix(self, length: int) -> Suffix:
        self.suffix_count += 1
        with self._operation() as watch:
            return await self._scheduler.fetch_suffix(length, ("tail", watch))

    async def fetch(self, ranges: list[ByteRange], wave: str = "tail") -> list[RangeBuffer]:
        """Some ranges, concurrently."""
        if not ranges:
            return []
        with self._operation() as watch:
            tickets = [self._scheduler.submit(range_, 0, label=(wave, watch)) for range_ in ranges]
            try:
                return [
                    RangeBuffer(range_, await ticket.wait())
                    for range_, ticket in zip(ranges, tickets, strict=True)
                ]
            finally:
                for ticket in tickets:
                    ticket.cancel()

    @contextmanager
    def _operation(self) -> Iterator[Watch | None]:
        """That which is under way; else what is asked of the file is one by itself."""
        if self._opening is not None:
            yield self._opening
            return
        with watched(self.watch("metadata")) as watch:
            yield watch

    # --- life time ---------------------------------------------------------------------------------

    @property
    def is_closed(self) -> bool:
        return self._closed

    def end_with(self, read: Running) -> None:
        """Stop a read that has no task when the session closes, and wait for it."""
        self._reads.add(read)

    def forget(self, read: Running) -> None:
        """The read has ended."""
        self._reads.discard(read)

    def request_stop(self) -> None:
        """From any thread: end all tasks and close the source, without waiting for it."""
        self._closed = True
        with suppress(RuntimeError):  # the loop is closed, and its tasks with it
            self._loop.call_soon_threadsafe(self._begin_close)

    async def aclose(self) -> None:
        """End all tasks, close the source, and wait for both."""
        closer = self._begin_close()
        await until_done(closer)

    def _begin_close(self) -> asyncio.Task[None]:
        self._closed = True
        self.closing.set()
        reads = list(self._reads)
        for read in reads:
            read.stop()
        if self._closer is None:
            self._closer = self._loop.create_task(self._close(reads), name="orcstream close")
            keep_alive(self._closer)
        return self._closer

    async def _close(self, reads: Sequence[Running]) -> None:
        try:
            self._scheduler.close()
            await self._tasks.end()
            for read in reads:
                await read.wait_stopped()
        finally:
            await until_over(self.source.aclose())
            _open_sessions.discard(self)
            if not _open_sessions:
                _Idle.since = object()
                self._loop.call_later(IDLE_S, _trim, _Idle.since)


def _tell(watch: Watch, report: FetchReport, wave: str | None = None) -> None:
    watch.on_request(
        RequestSpan(
            wave or report.label,
            report.range,
            report.start_s,
            report.stop_s,
            report.attempt_count,
            report.error,
        )
    )


def _tell_of_label(report: FetchReport) -> None:
    wave, watch = report.label
    _tell(watch, report, wave)
