"""The same names without `await`, for scripts and notebooks.

    with orcstream.blocking.open("t.orc") as file:
        for batch in file.batches(columns=["id"]):
            ...

Knows an event loop on a thread of its own, which starts with the first call and ends with the program; each
call hands it a coroutine and waits. So this works where a loop is running already, as in a notebook, and from
any thread. Ctrl-C cancels what is under way and waits until it has stopped. After a fork the child makes a
loop of its own; what was opened before belongs to the parent. Must not know how anything is read: what has
no explicit method here is passed on (`_Facade`), so that new methods of the asynchronous classes are there.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from orcstream.batch import Batch, BatchSchema, ReadResult
from orcstream.byterange import BytesLike
from orcstream.codec.compression import Compression
from orcstream.codec.metadata import RowIndex, StatisticsList
from orcstream.codec.structure import StripeFooter, StripeInformation
from orcstream.errors import UsageError
from orcstream.io.byte_sink import Prepared
from orcstream.io.keys import KeyProvider
from orcstream.io.options import IoOptions
from orcstream.plan.tail import Tail
from orcstream.reader import file as reader_file
from orcstream.reader import many as reader_many
from orcstream.reader import opening as reader_opening
from orcstream.reader import stream as reader_stream
from orcstream.reader.explain import Explanation
from orcstream.reader.file import FileStatistics
from orcstream.reader.many import Urls
from orcstream.reader.opening import Url
from orcstream.schema import Schema
from orcstream.unlocking import EncryptedColumn
from orcstream.writer import creating as writer_creating
from orcstream.writer import merge as writer_merge
from orcstream.writer import writer as writer_writer
from orcstream.writer.creating import Target
from orcstream.writer.merge import MergeResult
from orcstream.writer.writer import WriteResult

__all__ = [
    "BatchStream",
    "FileStream",
    "OrcFile",
    "OrcWriter",
    "create",
    "merge",
    "open",
    "open_many",
    "read",
    "write",
]

T = TypeVar("T")

# How long Ctrl-C waits for what it has cancelled, and the end of the program for everything.
_STOP_TIMEOUT_S = 5.0


class _LoopThread:
    """An event loop on a daemon thread, of one process."""

    def __init__(self) -> None:
        self.process_id = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._ending = asyncio.Event()
        self._pending: set[Future[Any]] = set()
        self._thread = threading.Thread(target=self._run, name="orcstream loop", daemon=True)
        self._thread.start()
        # Worker threads of the loop are no daemons, and the interpreter waits for those before it runs exit
        # handlers; a thread like them, which waits for the main thread alone, is in time to end them.
        threading.Thread(target=self._end_with_program, name="orcstream end").start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._live())
        finally:
            self._loop.close()
            # Calls that came too late to be run must not wait for ever.
            for future in list(self._pending):
                if not future.done():
                    future.set_exception(UsageError("the program is ending"))

    async def _live(self) -> None:
        await self._ending.wait()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=_STOP_TIMEOUT_S)

    def _end_with_program(self) -> None:
        threading.main_thread().join()
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join(2 * _STOP_TIMEOUT_S)

    def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """The result of a coroutine that is made and run on the loop."""
        if os.getpid() != self.process_id:
            raise UsageError("this was opened before the process was forked; open it again in the child")
        if threading.current_thread() is self._thread:
            raise UsageError("orcstream.blocking cannot be called by what its own event loop runs")
        future: Future[T] = Future()
        call = _Call(work, future)
        self._pending.add(future)
        future.add_done_callback(self._pending.discard)
        try:
            self._loop.call_soon_threadsafe(call.begin)
        except RuntimeError:
            raise UsageError("the program is ending") from None
        try:
            return future.result()
        except BaseException:
            if not future.done():  # not the call has failed, but waiting: Ctrl-C
                with suppress(RuntimeError):
                    self._loop.call_soon_threadsafe(call.cancel)
                with suppress(BaseException):
                    future.result(_STOP_TIMEOUT_S)
            raise


class _Call(Generic[T]):
    """One coroutine on its way; `begin` and `cancel` are called on the loop."""

    def __init__(self, work: Callable[[], Awaitable[T]], future: Future[T]) -> None:
        self._work = work
        self._future = future
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="orcstream call")

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        try:
            result = await self._work()
        except asyncio.CancelledError:
            self._future.set_exception(UsageError("the call was cancelled"))
            raise
        except BaseException as error:  # noqa: BLE001 - raised to the caller, whatever it is
            self._future.set_exception(error)
        else:
            self._future.set_result(result)


_loop_thread: _LoopThread | None = None
# The parents' loops. Closing one in a child would take its descriptors out of the epoll both share.
_parents: list[_LoopThread] = []
_lock = threading.Lock()


def _running() -> _LoopThread:
    global _loop_thread  # noqa: PLW0603 - one for the process
    with _lock:
        if _loop_thread is None:
            _loop_thread = _LoopThread()
        return _loop_thread


def _forget() -> None:
    global _loop_thread, _lock
    if _loop_thread is not None:
        _parents.append(_loop_thread)
    _loop_thread, _lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forget)


async def _made(make: Callable[[], T]) -> T:
    """What must be made while the loop runs, though nothing is waited for."""
    return make()


class _Facade:
    """Passes on what has no method here: asynchronous methods block, everything else is as it is."""

    def __init__(self, inner: Any, loop_thread: _LoopThread) -> None:
        self._inner = inner
        self._loop_thread = loop_thread

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "aclose":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        @functools.wraps(found)
        def call(*arguments: Any, **options: Any) -> Any:
            if inspect.iscoroutinefunction(found):
                return self._facade_of(self._run(lambda: found(*arguments, **options)))
            return self._facade_of(self._run(lambda: _made(lambda: found(*arguments, **options))))

        return call

    def __dir__(self) -> list[str]:
        names = {name for name in dir(self._inner) if not name.startswith("_") and name != "aclose"}
        return sorted({*super().__dir__(), *names})

    def __repr__(self) -> str:
        return repr(self._inner)

    def _run(self, work: Callable[[], Awaitable[T]]) -> T:
        return self._loop_thread.run(work)

    def _facade_of(self, found: Any) -> Any:
        if isinstance(found, reader_stream.BatchStream):
            return BatchStream(found, self._loop_thread)
        return found

    def close(self) -> None:
        """`aclose` of the asynchronous class; may be called again."""
        self._run(self._inner.aclose)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class OrcFile(_Facade):
    """`orcstream.OrcFile` without `await`; from any thread."""

    _inner: reader_file.OrcFile

    @property
    def url(self) -> str:
        return self._inner.url

    @property
    def tail(self) -> Tail:
        return self._inner.tail

    @property
    def schema(self) -> Schema:
        return self._inner.schema

    @property
    def row_count(self) -> int:
        return self._inner.row_count

    @property
    def stripes(self) -> tuple[StripeInformation, ...]:
        return self._inner.stripes

    @property
    def compression(self) -> Compression:
        return self._inner.compression

    @property
    def user_metadata(self) -> Mapping[str, bytes]:
        return self._inner.user_metadata

    @property
    def statistics(self) -> FileStatistics:
        return self._inner.statistics

    @property
    def encrypted_columns(self) -> tuple[EncryptedColumn, ...]:
        return self._inner.encrypted_columns

    def batches(self, **options: Any) -> BatchStream:
        """`OrcFile.batches`: a stream to iterate with `for`."""
        return BatchStream(
            self._run(lambda: _made(lambda: self._inner.batches(**options))), self._loop_thread
        )

    def read(self, **options: Any) -> ReadResult:
        """`OrcFile.read`."""
        return self._run(lambda: self._inner.read(**options))

    def explain(self, **options: Any) -> Explanation:
        """`OrcFile.explain`."""
        return self._run(lambda: self._inner.explain(**options))

    def stripe_footer(self, stripe: int) -> StripeFooter:
        """`OrcFile.stripe_footer`."""
        return self._run(lambda: self._inner.stripe_footer(stripe))

    def row_index(self, stripe: int) -> Mapping[int, RowIndex]:
        """`OrcFile.row_index`."""
        return self._run(lambda: self._inner.row_index(stripe))

    def stripe_statistics(self) -> tuple[StatisticsList, ...]:
        """`OrcFile.stripe_statistics`."""
        return self._run(self._inner.stripe_statistics)


class BatchStream(_Facade, Iterator[Batch]):
    """`orcstream.BatchStream` without `await`: ``for batch in stream``."""

    _inner: reader_stream.BatchStream

    @property
    def schema(self) -> Schema:
        return self._inner.schema

    @property
    def batch_schema(self) -> BatchSchema:
        return self._inner.batch_schema

    @property
    def stats(self) -> reader_stream.ReadStatistics:
        return self._inner.stats

    def __next__(self) -> Batch:
        batch = self._run(lambda: anext(self._inner, None))
        if batch is None:
            raise StopIteration
        return batch

    def __arrow_c_schema__(self) -> object:
        return self._inner.__arrow_c_schema__()


class FileStream(_Facade, Iterator[OrcFile]):
    """`orcstream.FileStream` without `await`: ``for file in files``."""

    _inner: reader_many.FileStream

    def __next__(self) -> OrcFile:
        file = self._run(lambda: anext(self._inner, None))
        if file is None:
            raise StopIteration
        return OrcFile(file, self._loop_thread)


class OrcWriter(_Facade):
    """`orcstream.OrcWriter` without `await`: ``with create(...) as out``, which ends the file."""

    _inner: writer_writer.OrcWriter

    @property
    def url(self) -> str:
        return self._inner.url

    @property
    def schema(self) -> Schema | None:
        return self._inner.schema

    @property
    def row_count(self) -> int:
        return self._inner.row_count

    @property
    def stripe_count(self) -> int:
        return self._inner.stripe_count

    @property
    def size_bytes(self) -> int:
        return self._inner.size_bytes

    @property
    def held_bytes(self) -> int:
        return self._inner.held_bytes

    @property
    def is_ended(self) -> bool:
        return self._inner.is_ended

    @property
    def result(self) -> WriteResult:
        return self._inner.result

    def write(self, data: object) -> int:
        """`OrcWriter.write`."""
        return self._run(lambda: self._inner.write(data))

    def end_stripe(self) -> None:
        """`OrcWriter.end_stripe`."""
        self._run(self._inner.end_stripe)

    def flush(self) -> None:
        """`OrcWriter.flush`."""
        self._run(self._inner.flush)

    def prepare(self) -> Prepared:
        """`OrcWriter.prepare`."""
        return self._run(self._inner.prepare)

    def commit(self) -> WriteResult:
        """`OrcWriter.commit`."""
        return self._run(self._inner.commit)

    def abort(self) -> None:
        """`OrcWriter.abort`."""
        self._run(self._inner.abort)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(lambda: self._inner.__aexit__(kind, error, trace))


def create(url: Target, schema: object = None, **options: Any) -> OrcWriter:
    """`orcstream.create`: use it as ``with ... as out``, or end with `commit` or `abort`."""
    loop_thread = _running()
    return OrcWriter(loop_thread.run(lambda: writer_creating.create(url, schema, **options)), loop_thread)


def write(url: Target, data: object, schema: object = None, **options: Any) -> WriteResult:
    """Create, `OrcWriter.write`, commit; `options` are those of `orcstream.create`."""

    async def work() -> WriteResult:
        async with writer_creating.create(url, schema, **options) as out:
            await out.write(data)
        return out.result

    return _running().run(work)


def open(url: Url, **options: Any) -> OrcFile:  # noqa: A001 - the name users expect
    """`orcstream.open`: close the file, or use it as ``with ... as file``."""
    loop_thread = _running()
    return OrcFile(loop_thread.run(lambda: reader_opening.open(url, **options)), loop_thread)


def read(
    url: Url,
    *,
    storage_options: Mapping[str, Any] | None = None,
    io_options: IoOptions | Mapping[str, Any] | None = None,
    keys: KeyProvider | None = None,
    require_keys: Iterable[str] | bool = False,
    tail: Tail | BytesLike | None = None,
    follow: bool = False,
    poll_s: float = 1.0,
    timezone: str | None = None,
    default_timezone: str = "UTC",
    calendar: str = "auto",
    **options: Any,
) -> ReadResult:
    """Open, `OrcFile.read` with the other `options`, close."""

    async def work() -> ReadResult:
        opening = reader_opening.open(
            url,
            storage_options=storage_options,
            io_options=io_options,
            keys=keys,
            require_keys=require_keys,
            tail=tail,
            follow=follow,
            poll_s=poll_s,
            timezone=timezone,
            default_timezone=default_timezone,
            calendar=calendar,
        )
        async with opening as file:
            return await file.read(**options)

    return _running().run(work)


def open_many(urls: Urls, **options: Any) -> FileStream:
    """`orcstream.open_many`: ``for file in files``, best inside ``with ... as files``.

    `urls` is iterated, and `on_error` called, on the loop's thread: neither may call this module.
    """
    loop_thread = _running()
    files = loop_thread.run(lambda: _made(lambda: reader_many.open_many(urls, **options)))
    return FileStream(files, loop_thread)


def merge(urls: Iterable[Url], target: Target, **options: Any) -> MergeResult:
    """`orcstream.merge`; `progress` is called on the loop's thread and must not call this module."""
    return _running().run(lambda: writer_merge.merge(urls, target, **options))
