"""Opening many files: their tails are read side by side, and the files come as they are opened.

Knows how many opens may be under way and how many files wait to be taken; how one is opened is known by
`reader.opening`. As for a file, the tasks belong to a supervisor task and never to the consumer's, the
object the user holds is not known to it, and dropping that object stops it. Each URL is asked for only when
its turn has come, so there may be any number of them.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Self, TypeAlias, Unpack

import anyio

from orcstream._keywords import takes
from orcstream.byterange import BytesLike
from orcstream.errors import OrcError, UsageError
from orcstream.io.loop.clients import Client, Lease, keep_clients
from orcstream.io.loop.tasks import Running, Signal, Stream
from orcstream.io.loop.uncancelled import until_over
from orcstream.io.source import cost_of
from orcstream.plan.tail import Tail
from orcstream.reader.engine.supervisor import Supervisor
from orcstream.reader.file import OrcFile
from orcstream.reader.opening import Opening, OpenKeywords, OpenOptions, Url

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
