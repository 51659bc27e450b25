"""Opening a file: the source, the first wave, and what the user says about the file's times; and many files.

Knows what an open file is made of. The defaults of opening live here; those of reading in `reader.options`.
Of many files, tails are read side by side, and the files come as they are opened. Each URL is asked for only
when its turn has come, so there may be any number of them.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypedDict, Unpack, cast

import anyio

from orcstream._credentials import strip_credentials
from orcstream._keywords import takes
from orcstream._printable import logger_of
from orcstream.byterange import BytesLike, RangeBuffer
from orcstream.encryption import KeyProvider, check_provider
from orcstream.errors import OrcError, UsageError, located
from orcstream.file.unlocking import KeyRing, UnlockedFile, known_tail, read_tail, required_keys
from orcstream.file.zones import FileTimes, load_zone
from orcstream.io.contract.byte_source import ByteSource, IoOptions, RetryPolicy
from orcstream.io.loop.clients import Client, Lease, keep_clients
from orcstream.io.loop.tasks import Pending, Running, Signal, Stream, Supervisor
from orcstream.io.loop.uncancelled import until_over
from orcstream.io.urls import cost_of, open_source
from orcstream.plan.tail import Tail
from orcstream.reader.engine.session import Observer, Session, Watch, check_observer, watched
from orcstream.reader.file import OrcFile

if TYPE_CHECKING:
    from orcstream.io.growing_source import GrowingSource
    from orcstream.reader.following import Following


Url: TypeAlias = str | os.PathLike[str] | BytesLike

_CALENDARS = ("auto", "proleptic", "hybrid")

_logger = logger_of("orcstream.reader")


class StoreKeywords(TypedDict, total=False):
    """What stores and key stores need."""

    storage_options: Mapping[str, Any] | None
    io_options: IoOptions | Mapping[str, Any] | None
    keys: KeyProvider | None
    require_keys: Iterable[str] | bool


class OpenKeywords(StoreKeywords, total=False):
    """How files are opened."""

    timezone: str | None
    default_timezone: str
    calendar: str
    instants: bool
    observer: Observer | None


class FileKeywords(OpenKeywords, total=False):
    """How one file is opened."""

    tail: Tail | BytesLike | None
    follow: bool
    poll_s: float


@dataclass(frozen=True, kw_only=True)
class OpenOptions:
    """What opening is told besides the URL, checked.

    Parameters
    ----------
    storage_options : mapping
        The `storage_options` go to fsspec untouched.
    io_options : IoOptions or mapping
        The `io_options` tune requests.
    keys : KeyProvider
        Opens encrypted columns with these `keys` (`orcstream.io.keys`). A column is read from the first of
        its encrypted forms whose key the provider hands out. Where it refuses, what the column's mask left is
        read instead, and `encrypted_columns` of the file and `masked_columns` of its batches say so. A
        provider that cannot be reached is an error in any case. It stays the caller's to close.
    require_keys : iterable of str or bool
        The names of keys that must be available, True for all: with `require_keys`, `KeyUnavailable` is
        raised where one is refused, and `UsageError` where a file has encrypted columns, but none with a key
        of that name.
    timezone : str
        TIMESTAMP values are wall clock of `timezone`, not of the zone that each stripe names.
    default_timezone : str
        TIMESTAMP values are wall clock of `default_timezone` where a stripe names no zone.
    calendar : {"auto", "proleptic", "hybrid"}
        The `calendar` in which days before 1582-10-15 are stored. With "auto", what the file says; where it
        says nothing, hybrid for ORC Java's files and proleptic for others', as their writers do.
    instants : bool
        With `instants`, TIMESTAMP values are points in time in UTC: those at which the writer's clock showed
        them, each of an hour that it showed twice.
    observer : ReadObserver
        The `observer` is notified of each request of the file and its streams, and of each step of the
        decoders, with the time it took; a `ReadTracer` also of which of them belong to one open or read.

    """

    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)  # may have secrets
    io_options: IoOptions | Mapping[str, Any] | None = None
    keys: KeyProvider | None = None
    require_keys: Iterable[str] | bool = False
    timezone: str | None = None
    default_timezone: str = "UTC"
    calendar: str = "auto"
    instants: bool = False
    observer: Observer | None = None
    io: IoOptions = field(init=False)
    times: FileTimes = field(init=False)
    required_keys: Sequence[str] | bool = field(init=False)

    def __post_init__(self) -> None:
        if self.calendar not in _CALENDARS:
            raise UsageError(f"calendar must be one of {', '.join(_CALENDARS)}, not {self.calendar!r}")
        for name in (self.timezone, self.default_timezone):
            if name is not None:
                load_zone(name)
        times = FileTimes(self.timezone, self.default_timezone, self.calendar, instants=bool(self.instants))
        object.__setattr__(self, "times", times)
        object.__setattr__(self, "required_keys", required_keys(self.require_keys))
        if self.keys is not None:
            check_provider(self.keys, "keys")
        if self.observer is not None:
            check_observer(self.observer)
        object.__setattr__(self, "io", IoOptions.of(self.io_options))


@takes(OpenKeywords, OpenOptions)
def open(  # noqa: A001  # the name users expect
    url: Url,
    *,
    tail: Tail | BytesLike | None = None,
    follow: bool = False,
    poll_s: float = 1.0,
    **given: Unpack[OpenKeywords],
) -> Opening:
    """Open an ORC file.

    Either ``async with orcstream.open(url) as file``, or ``file = await orcstream.open(url)`` and, at the
    end, ``await file.aclose()``.

    `url` is a path, any URL that fsspec knows, or the bytes of a file.

    With `tail`, which is the `tail` of the same URL opened before, or its `to_bytes`, nothing is read. Should
    the object be another one meanwhile, the first step that reads raises `SourceChanged`; where the store
    has no fingerprints (some web servers; bytes), only the length of the file is compared.

    With `follow`, the file may still be being written (`create` with ``growing=True``, or Hive's streaming
    ingest): it is read up to its writer's last flush, and looked at again every `poll_s` seconds. `batches`
    then waits for rows that are yet to come, and ends when the writer has ended the file; everything else is
    about the rows that were seen last, and `refresh` looks for more. Opening waits for the first flush. Bound
    any of this by a timeout of your own: a writer that was killed ends nothing.

    Raises `FileNotFoundError`, `PermissionError`, `NotOrcFile`, `CorruptTail` (for a key, too, that has the
    right name and length and is another one, where encrypted statistics show it), `Unsupported`,
    `SourceError`, `KeyUnavailable`; `UsageError` for options that cannot be, and for a `tail` that was
    damaged.
    """
    options = OpenOptions(**given)
    if not follow:
        return Opening(url, options, tail)
    if tail is not None:
        raise UsageError("a file that is followed is opened without tail: it will have others")
    if type(poll_s) not in (int, float) or not poll_s > 0:
        raise UsageError(f"poll_s must be a number of seconds above 0, not {poll_s!r}")
    from orcstream.io.growing_source import flush_length_url

    flush_length_url(url)
    return Opening(url, options, None, poll_s)


class Opening(Pending[OrcFile]):
    """An open under way: await it, or enter it."""

    made_by = "open"

    def __init__(
        self, url: Url, options: OpenOptions, tail: Tail | BytesLike | None, poll_s: float | None = None
    ) -> None:
        super().__init__()
        self._url = url
        self._options = options
        self._tail = tail if tail is None or isinstance(tail, Tail) else Tail.from_bytes(tail)
        self._poll_s = poll_s  # where the file is followed

    async def _make(self) -> OrcFile:
        observer = self._options.observer
        with watched(None if observer is None else Watch(observer, "open", _shown(self._url))) as watch:
            return await self._open(watch)

    async def _open(self, watch: Watch | None) -> OrcFile:
        growing = self._growing() if self._poll_s is not None else None
        source = growing or await self._open_source()
        options = self._options
        session = Session(source, RetryPolicy.of(options.io), options.observer, options.io.remembered_bytes)
        try:
            with session.opening(watch), located(url=source.url):
                following = await self._following(session, growing)
                tail, cached = following.seen if following is not None else await self._first_wave(session)
                ring = KeyRing(self._options.keys, self._options.required_keys)
                unlocked = await UnlockedFile.unlocked(tail, ring)
        except BaseException:
            await session.aclose()
            raise
        if not tail.postscript.version_is_known:
            version = ".".join(str(part) for part in tail.postscript.version)
            _logger.warning("%s is of a later format version, %s; it is read like 0.12", source.url, version)
        return OrcFile(session, unlocked, cached, self._options.times, ring, following)

    async def _following(self, session: Session, growing: GrowingSource | None) -> Following | None:
        """Where the file is followed, once there is something to be read."""
        if growing is None or self._poll_s is None:
            return None
        from orcstream.reader.following import Following

        following = Following(session, growing, self._poll_s)
        await following.first()
        return following

    async def _first_wave(self, session: Session) -> tuple[Tail, RangeBuffer]:
        return await read_tail(session) if self._tail is None else known_tail(session, self._tail)

    async def _open_source(self, url: Url | None = None) -> ByteSource:
        options = self._options
        return await open_source(
            self._url if url is None else url,
            storage_options=options.storage_options,
            io_options=options.io,
        )

    def _growing(self) -> GrowingSource:
        from orcstream.io.growing_source import GrowingSource, flush_length_url

        lengths_url = flush_length_url(self._url)
        options = self._options.io
        return GrowingSource(
            strip_credentials(os.fspath(cast("str", self._url))),
            cost_of(self._url, options),
            self._open_source,
            lambda: self._open_source(lengths_url),
            RetryPolicy.of(options),
        )


def _shown(url: Url) -> str:
    """As the source of it will be called."""
    return strip_credentials(os.fspath(url)) if isinstance(url, str | os.PathLike) else "<bytes>"


Urls: TypeAlias = Iterable[Url] | AsyncIterable[Url]
OnError: TypeAlias = Callable[[Url, Exception], object]


@takes(OpenKeywords, OpenOptions)
def open_many(
    urls: Urls,
    *,
    concurrency: int | None = None,
    ordered: bool = False,
    tails: Mapping[Any, Tail | BytesLike] | None = None,
    on_error: OnError | None = None,
    **options: Unpack[OpenKeywords],
) -> FileStream:
    """Open many files at once; each has to be closed by who takes it.

        async with orcstream.open_many(urls) as files:
            async for file in files:
                async with file:
                    ...

    `urls` may be any iterable, asynchronous or not. The files come as they are opened, or with `ordered` in
    the order of `urls`. At most `concurrency` files are being opened or opened and not yet taken; by default
    as many as requests are good for the kind of store of the first URL. `tails` are those of files opened
    before, by URL: such a file is opened without a request. A file that cannot be opened ends the stream
    with its error; with `on_error`, that is called instead (with the URL as given, and the error), at the
    step that would have raised, and the stream goes on.

    Raises what `open` raises, at the step that would have given the file.

    Leaving the block, or dropping the object, closes what was not taken. Several tasks may take files.
    """
    if isinstance(urls, str | bytes | bytearray | memoryview | os.PathLike):
        raise UsageError("open_many takes several URLs; use open for one")
    if not isinstance(urls, Iterable | AsyncIterable):
        raise UsageError(f"urls must be iterable, not {type(urls).__name__}")
    if concurrency is not None and (type(concurrency) is not int or concurrency < 1):
        raise UsageError(f"concurrency must be at least 1, not {concurrency!r}")
    opening = OpenOptions(**options)
    return FileStream(lambda: _ManyOpens(urls, opening, concurrency, ordered, tails or {}), on_error)


def open_each(urls: Iterable[Url], options: OpenOptions, tails: Mapping[Any, Tail]) -> FileStream:
    """`open_many` in the order of the URLs, with options that are checked already."""
    return FileStream(lambda: _ManyOpens(urls, options, None, True, tails), None)


class _ManyOpens(Running):
    """The running part of a `FileStream`."""

    name, owner = "orcstream open_many", "stream"

    def __init__(
        self,
        urls: Urls,
        options: OpenOptions,
        concurrency: int | None,
        ordered: bool,
        tails: Mapping[Any, Tail | BytesLike],
    ) -> None:
        super().__init__()
        self._urls = urls
        self._options = options
        self._concurrency = concurrency
        self._ordered = ordered
        self._tails = tails
        self.tasks = Supervisor("orcstream files")
        self._stopping = False
        self._changed = Signal()  # for the task that opens and for consumers
        self._ready: dict[int, tuple[Url, OrcFile | Exception]] = {}  # by number, in the order they came
        self._next = 0  # the number to be taken next, where the order counts
        self._pending_count = 0  # being opened, or not yet taken

    # --- tasks -------------------------------------------------------------------------------------

    async def _work(self) -> None:
        # Or a file that is closed before the next one is opened takes their client along.
        clients = keep_clients()
        urls: _Urls | None = None
        try:
            urls = _Urls(self._urls)
            await self._open_all(urls)
        except (asyncio.CancelledError, GeneratorExit):  # `stop`, or the loop is ending
            self._stopping = True
            raise
        finally:
            await until_over(self._close(urls, clients))

    async def _close(self, urls: _Urls | None, clients: Lease[Client]) -> None:
        if self._stopping:
            await self._close_ready()
        if urls is not None:
            await urls.aclose()
        await clients.aclose()

    def _end(self) -> None:
        self._changed.notify()

    async def _open_all(self, urls: _Urls) -> None:
        async with anyio.create_task_group() as tasks:
            number = most = 0
            while True:
                # One at a time, and only when there is a place for it.
                try:
                    found = await urls.next()
                except Exception as error:  # noqa: BLE001 - the files before it come first
                    self._error = error
                    return
                if not found:
                    return
                if number == 0:
                    most = self._concurrency or self._cap_for(found[0])
                self._pending_count += 1
                tasks.start_soon(self._open, number, found[0], name="orcstream open")
                number += 1
                while self._pending_count >= most:
                    await self._changed.wait()

    def _cap_for(self, url: Url) -> int:
        try:
            return cost_of(url, self._options.io).request_cap
        except UsageError:  # its own opening says so
            return 1

    async def _open(self, number: int, url: Url) -> None:
        try:
            file = await Opening(url, self._options, self._tail_of(url))
        except Exception as error:  # noqa: BLE001 - raised or handed to `on_error` where it would be taken
            if isinstance(error, OrcError) and isinstance(url, str | os.PathLike):
                error.locate(url=os.fspath(url))
            self._ready[number] = (url, error)
        else:
            self._ready[number] = (url, file)
        self._changed.notify()

    def _tail_of(self, url: Url) -> Tail | BytesLike | None:
        return self._tails.get(url) if isinstance(url, str | bytes | os.PathLike) else None

    async def _close_ready(self) -> None:
        while self._ready:
            _, (_, opened) = self._ready.popitem()
            if isinstance(opened, OrcFile):
                await opened.aclose()

    # --- the consumer's side -----------------------------------------------------------------------

    async def next(self) -> tuple[Url, OrcFile | Exception] | None:
        """What was opened, or why it could not be; None at the end."""
        while not self._stopping:
            number = self._next if self._ordered else next(iter(self._ready), self._next)
            taken = self._ready.pop(number, None)
            if taken is not None:
                self._next = number + 1
                self._pending_count -= 1
                self._changed.notify()
                return taken
            if self._finished.is_set():
                if self._error is not None:
                    raise self._error
                return None
            await self._changed.wait()
        return None

    def stop(self) -> None:
        """End all opens; what was not taken is closed."""
        self._stopping = True
        super().stop()
        self._changed.notify()

    async def wait_stopped(self) -> None:
        await until_over(self._wait_stopped())

    async def _wait_stopped(self) -> None:
        await self.tasks.end()
        await self._close_ready()


class _Urls:
    """Iterates what may be iterable in either way."""

    def __init__(self, urls: Urls) -> None:
        self._later: AsyncIterator[Url] | None = None
        if isinstance(urls, AsyncIterable):
            self._later = aiter(urls)
        else:
            self._now = iter(urls)

    async def next(self) -> list[Url]:
        """One, or none at the end."""
        if self._later is None:
            for url in self._now:
                return [url]
        else:
            async for url in self._later:
                return [url]
        return []

    async def aclose(self) -> None:
        """End a generator that was not asked for everything."""
        close = getattr(self._later, "aclose", None)
        if close is not None:
            with suppress(Exception):  # nobody is there any more whom it would concern
                await close()


class FileStream(Stream[OrcFile, _ManyOpens]):
    """Files as they are opened: ``async for file in files``, best inside ``async with ... as files``."""

    def __init__(self, make: Callable[[], _ManyOpens], on_error: OnError | None) -> None:
        super().__init__(None, None)
        self._make = make  # when the loop runs
        self._on_error = on_error

    def _start(self) -> _ManyOpens:
        if self._running is None:
            self._running = self._make()
        self._running.start(self._running.tasks)
        return self._running

    async def _next(self) -> OrcFile | None:
        opens = self._start()
        while (taken := await opens.next()) is not None:
            url, opened = taken
            if isinstance(opened, OrcFile):
                return opened
            if self._on_error is None:
                raise opened
            self._on_error(url, opened)
        if self._failure is not None:  # of another task's step
            raise self._failure
        return None

    async def __aenter__(self) -> Self:
        self._start()
        return self
