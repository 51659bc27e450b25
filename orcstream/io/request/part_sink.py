"""The sink itself: cuts what is written into parts and sends them, several at a time, in bounded memory.

Knows parts, tasks and what may still be done after what. Must not know any store: that is an `Upload`'s.

Parts are sent by tasks of their own, so that a writer that is cancelled, or leaves its task group, takes no
half-sent part with it. A part that fails is told at the next `write` or `prepare`.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import anyio
import anyio.lowlevel

from orcstream.byterange import ByteRange, BytesLike
from orcstream.errors import OrcError, SinkError, SourceChanged, Unsupported, UsageError
from orcstream.io.contract.byte_sink import (
    CopyingUpload,
    Prepared,
    SinkOptions,
    Store,
    no_parts_left,
    policy_of,
)
from orcstream.io.contract.byte_source import RetryPolicy
from orcstream.io.loop.tasks import OneTask, Signal
from orcstream.io.loop.uncancelled import until_done, until_over
from orcstream.io.urls import shown_of

# Parts are of one size, which some stores want, until there are so many of them; from then on each is this
# fraction of what was written. 10,000 parts of 8 MiB and more are then 3.5 TB and not 80 GB.
GROWS_AFTER_PARTS = 1500
GROWS_BY_BYTES = 1 << 20
# What a store copies with one request: its answer has to come in time, and several are under way together.
COPIED_BYTES = 256 << 20
# What is fetched at once of what the store cannot copy.
FETCHED_BYTES = 4 << 20
# How many attempts, each of several requests, have room in the time for an abort.
ABORT_ATTEMPTS = 3


class PartSink:
    """A sink over any store; see `ByteSink`."""

    def __init__(
        self,
        url: str,
        store: Store,
        options: SinkOptions,
        *,
        overwrite: bool,
        policy: RetryPolicy | None = None,
    ) -> None:
        self._full_url = url
        self.url = shown_of(url)
        self._store = store
        self._options = options
        self._overwrite = overwrite
        self._policy = policy or policy_of(options)
        self._upload = store.new_upload(options)
        self._upload_cap = min(options.upload_cap, store.upload_cap or options.upload_cap)
        self._part: io.BytesIO | None = None
        self._reserved_bytes = 0  # for the part that is being filled
        self._part_count = 0
        self._length = 0
        self._sent_bytes = 0
        self._held_bytes = 0
        self._sending: dict[asyncio.Task[None], anyio.CancelScope] = {}
        self._sent = Signal()  # a part is on its way no more
        self._beginning = anyio.Lock()
        self._began = False
        self._failure: BaseException | None = None
        self._one_task = OneTask("two tasks use one sink", self.url)
        self._prepared: Prepared | None = None
        self._ending: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def length(self) -> int:
        return self._length

    @property
    def held_bytes(self) -> int:
        return self._held_bytes

    async def write(self, data: BytesLike) -> None:
        view = memoryview(data).cast("B")
        with self._using(appends=True):
            await self._append(view)
            await anyio.lowlevel.checkpoint_if_cancelled()

    async def copy(self, source: str, range: ByteRange, fingerprint: str) -> bool:
        with self._using(appends=True):
            upload = self._upload
            if not isinstance(upload, CopyingUpload) or not upload.can_copy(source, fingerprint):
                return False
            # A copy is a part of its own, and only the last part may be small: what stands before it is
            # filled up, and what would be small itself is fetched.
            least = self._store.smallest_part_bytes
            filled = self._part.tell() if self._part is not None else 0
            missing = max(0, least - filled) if filled else 0
            if range.length - missing < least:
                missing = range.length
            for piece in _pieces(range.start, range.start + missing, FETCHED_BYTES):
                data = await self._policy.run(
                    partial(upload.fetch, source, piece, fingerprint),
                    url=self.url,
                    byte_count=piece.length,
                )
                await self._append(memoryview(data))
            if missing < range.length:
                if self._part is not None:
                    await self._send()
                for piece in _pieces(range.start + missing, range.stop, COPIED_BYTES):
                    await self._send_copy(
                        partial(upload.put_copy, source=source, range=piece, fingerprint=fingerprint),
                        piece.length,
                    )
            return True

    async def prepare(self) -> Prepared:
        with self._using():
            if self._prepared is None:
                self._prepared = await self._prepare()
        return self._prepared

    async def abort(self) -> None:
        if self._closed and self._ending is None:
            return
        if self._ending is None:
            # A task of its own: it goes on should the one that waits for it be cancelled again.
            self._ending = asyncio.create_task(self._end())
        await until_done(self._ending)
        self._ending.result()

    async def aclose(self) -> None:
        if self._closed:
            return
        if self._prepared is None:
            await self.abort()
            return
        self._closed = True
        await until_over(self._store.aclose())

    @contextmanager
    def _using(self, *, appends: bool = False) -> Iterator[None]:
        if self._closed or self._ending is not None:
            raise UsageError("the sink is closed", url=self.url)
        with self._one_task:
            self._raise_failure()
            if appends and self._prepared is not None:
                raise UsageError("the file is prepared: nothing can be added", url=self.url)
            try:
                yield
            except BaseException as error:
                self._fail(error)
                raise

    async def _append(self, view: memoryview) -> None:
        while len(view):
            part = self._part if self._part is not None else await self._new_part()
            count = part.write(view[: self._reserved_bytes - part.tell()])
            self._length += count
            view = view[count:]
            if part.tell() == self._reserved_bytes:
                await self._send()

    def _raise_failure(self) -> None:
        if self._failure is None:
            return
        if isinstance(self._failure, Exception):
            raise sink_error(self._failure, self.url)
        raise SinkError("an earlier call was cancelled: the file can only be aborted", url=self.url)

    def _fail(self, error: BaseException) -> None:
        if self._failure is None:
            self._failure = error

    async def _new_part(self) -> io.BytesIO:
        """The next part to fill, once there is room for it."""
        part_bytes = self._part_bytes()
        while self._sending and self._held_bytes + part_bytes > self._options.in_flight_bytes:
            await self._sent.wait()
            self._raise_failure()
        self._check_part_count()
        self._held_bytes += part_bytes
        self._reserved_bytes = part_bytes
        self._part = io.BytesIO()
        return self._part

    def _check_part_count(self) -> None:
        if self._store.part_cap is not None and self._part_count >= self._store.part_cap:
            raise no_parts_left(self.url, self._store.part_cap)

    def _part_bytes(self) -> int:
        least = max(self._options.part_bytes, self._store.smallest_part_bytes)
        if self._store.part_cap is None or self._part_count < GROWS_AFTER_PARTS:
            return least
        grown = -(-self._length // (GROWS_AFTER_PARTS * GROWS_BY_BYTES)) * GROWS_BY_BYTES
        return max(least, grown)

    async def _send(self) -> None:
        """Hand the part that is being filled to a task, once it is its turn."""
        await self._wait_for_turn()
        part, self._part = self._part, None
        assert part is not None
        data = part.getvalue()  # without a copy, because the part is given up
        offset, self._sent_bytes = self._sent_bytes, self._sent_bytes + len(data)
        self._start(lambda number: self._upload.put(number, offset, data), len(data), self._reserved_bytes)

    async def _send_copy(self, put_copy: Callable[[int], Awaitable[None]], length: int) -> None:
        self._check_part_count()
        await self._wait_for_turn()
        self._sent_bytes += length
        self._length += length
        self._start(put_copy, 0, 0)

    async def _wait_for_turn(self) -> None:
        while len(self._sending) >= self._upload_cap:
            await self._sent.wait()
        self._raise_failure()

    def _start(self, put: Callable[[int], Awaitable[None]], sent_bytes: int, reserved_bytes: int) -> None:
        self._part_count += 1
        scope = anyio.CancelScope()
        task = asyncio.create_task(self._send_part(scope, partial(put, self._part_count), sent_bytes))
        self._sending[task] = scope

        def sent(done: asyncio.Task[None]) -> None:
            if done.cancelled():  # perhaps before it had begun, where a loop ends
                self._fail(SinkError("the sending of a part was cancelled", url=self.url))
            del self._sending[done]
            self._held_bytes -= reserved_bytes
            self._sent.notify()

        task.add_done_callback(sent)

    async def _send_part(
        self, scope: anyio.CancelScope, put: Callable[[], Awaitable[None]], sent_bytes: int
    ) -> None:
        with scope:
            try:
                await self._begin()
                if self._failure is not None:
                    return
                if self._upload.retries_parts:
                    await self._try(put, sent_bytes)
                else:
                    await put()
            except Exception as error:  # noqa: BLE001 - told to whoever writes next
                self._fail(error)
            except BaseException as error:
                self._fail(error)
                raise

    async def _begin(self) -> None:
        async with self._beginning:
            if not self._began and self._failure is None:
                await self._try(self._upload.begin)
                self._began = True

    async def _try(self, attempt: Callable[[], Awaitable[None]], byte_count: int = 0) -> None:
        await self._policy.run(attempt, url=self.url, byte_count=byte_count)

    async def _prepare(self) -> Prepared:
        # An empty file has one empty part, because an upload to S3 needs one.
        if self._part is None and self._part_count == 0:
            await self._new_part()
        if self._part is not None:
            await self._send()
        while self._sending:
            await self._sent.wait()
        self._raise_failure()
        try:
            state = await self._policy.run(lambda: self._upload.finish(self._length), url=self.url)
        except Exception as error:  # noqa: BLE001 - raised as what a writer is told
            failure = sink_error(error, self.url)
            raise failure from (error if failure is not error else error.__cause__)
        return Prepared(url=self._full_url, length=self._length, overwrite=self._overwrite, state=state)

    async def _end(self) -> None:
        self._closed = True
        self._fail(SinkError("the file was aborted", url=self.url))
        failure: Exception | None = None
        try:
            with anyio.move_on_after(self._options.abort_timeout_s) as limit:
                for scope in self._sending.values():
                    scope.cancel()
                while self._sending:
                    await self._sent.wait()
                policy = abort_policy_of(self._options, self._policy)
                await policy.run(self._upload.discard, url=self.url)
        except Exception as error:  # noqa: BLE001 - told below, once everything is closed
            failure = error
        finally:
            self._part = None
            self._held_bytes = 0
            await self._store.aclose()
        if limit.cancelled_caught or failure is not None:
            reason = str(failure) if failure else f"no end within {self._options.abort_timeout_s:g} s"
            raise SinkError(
                f"the abort failed ({reason}). {left_behind(self._upload.remains)}", url=self.url
            ) from failure


def _pieces(start: int, stop: int, most_bytes: int) -> list[ByteRange]:
    """About equal ones, so that none is too short for a part."""
    count = -(-(stop - start) // most_bytes)
    return [
        ByteRange(start + (stop - start) * at // count, start + (stop - start) * (at + 1) // count)
        for at in range(count)
    ]


def left_behind(remains: str) -> str:
    """A sentence for who has to look after it."""
    return f"What is left is not visible, and cleanup removes it: {remains or 'nothing that is known'}"


def abort_policy_of(options: SinkOptions, policy: RetryPolicy) -> RetryPolicy:
    """For an abort, which is more than one request: a request that hangs leaves time for another attempt."""
    return replace(policy, timeout_s=options.abort_timeout_s / ABORT_ATTEMPTS)


def sink_error(error: Exception, url: str) -> Exception:
    """A failure of a store as a writer tells it."""
    if isinstance(error, SinkError | SourceChanged | UsageError | Unsupported):
        return error.locate(url=url)
    if isinstance(error, OrcError):
        failure = SinkError(error.message, url=error.url or url)
        failure.__cause__ = error
        return failure
    if isinstance(error, FileNotFoundError | PermissionError | FileExistsError | IsADirectoryError):
        return error
    failure = SinkError(f"{type(error).__name__}: {error}", url=url)
    failure.__cause__ = error
    return failure
