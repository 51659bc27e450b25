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
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Self, TypedDict, TypeVar, Unpack

from orcstream.batch import Batch, BatchSchema, ReadResult
from orcstream.byterange import BytesLike
from orcstream.codec.compression import Compression
from orcstream.codec.metadata import RowIndex, StatisticsList
from orcstream.codec.structure import StripeFooter, StripeInformation
from orcstream.errors import UsageError
from orcstream.io import sink as io_sink
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
from orcstream.reader.planning import Columns, Where
from orcstream.schema import Schema
from orcstream.unlocking import EncryptedColumn
from orcstream.writer import creating as writer_creating
from orcstream.writer import ingester as writer_ingester
from orcstream.writer import ingesting as writer_ingesting
from orcstream.writer import merge as writer_merge
from orcstream.writer import writer as writer_writer
from orcstream.writer.creating import CreateOptions, Target
from orcstream.writer.ingester import IngestedFile
from orcstream.writer.writer import WriteResult

__all__ = [
    "BatchStream",
    "FileStream",
    "Ingester",
    "OrcFile",
    "OrcWriter",
    "cleanup",
    "commit",
    "create",
    "discard",
    "ingest",
    "merge",
    "open",
    "open_many",
    "read",
    "write",
]

T = TypeVar("T")
P = ParamSpec("P")

# How long Ctrl-C waits for what it has cancelled, and the end of the program for everything.
_STOP_TIMEOUT_S = 5.0


def _takes_as(other: Callable[P, object]) -> Callable[[Callable[..., T]], Callable[P, T]]:
    """Marks a function that takes what `other` takes: for type checkers, editors and `help`."""

    def mark(function: Callable[..., T]) -> Callable[P, T]:
        function.__signature__ = inspect.signature(other)  # type: ignore[attr-defined]
        return function

    return mark


def _method_as(
    other: Callable[Concatenate[Any, P], object],
) -> Callable[[Callable[..., T]], Callable[Concatenate[Any, P], T]]:
    """As `_takes_as`, of two methods."""
    return _takes_as(other)


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
        stop_s = self._loop.time() + _STOP_TIMEOUT_S
        # What is cancelled may begin something else.
        while (left := asyncio.all_tasks() - {asyncio.current_task()}) and self._loop.time() < stop_s:
            for task in left:
                task.cancel()
            await asyncio.wait(left, timeout=max(0.0, stop_s - self._loop.time()))

    def _begin(self, call: _Call[Any]) -> None:
        if not self._ending.is_set():  # else it is told when the loop has ended
            call.begin()

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
            self._loop.call_soon_threadsafe(self._begin, call)
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
        except GeneratorExit:  # the loop has ended without it, and has told the caller
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

    if not TYPE_CHECKING:  # or every name that is misspelt would be one

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

    @property
    def is_complete(self) -> bool:
        return self._inner.is_complete

    @_method_as(reader_file.OrcFile.batches)
    def batches(self, **options: Any) -> BatchStream:
        """`OrcFile.batches`: a stream to iterate with `for`."""
        return BatchStream(
            self._run(lambda: _made(lambda: self._inner.batches(**options))), self._loop_thread
        )

    @_method_as(reader_file.OrcFile.read)
    def read(self, **options: Any) -> ReadResult:
        """`OrcFile.read`."""
        return self._run(lambda: self._inner.read(**options))

    @_method_as(reader_file.OrcFile.take)
    def take(self, rows: Sequence[int], **options: Any) -> ReadResult:
        """`OrcFile.take`."""
        return self._run(lambda: self._inner.take(rows, **options))

    @_method_as(reader_file.OrcFile.explain)
    def explain(self, **options: Any) -> Explanation:
        """`OrcFile.explain`."""
        return self._run(lambda: self._inner.explain(**options))

    def refresh(self) -> int:
        """`OrcFile.refresh`."""
        return self._run(self._inner.refresh)

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

    @property
    def masked_columns(self) -> tuple[str, ...]:
        return self._inner.masked_columns

    def seek(self, row: int) -> None:
        """`BatchStream.seek`."""
        self._run(lambda: self._inner.seek(row))

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

    def add_user_metadata(self, metadata: Mapping[str, bytes | str]) -> None:
        """`OrcWriter.add_user_metadata`."""
        self._run(lambda: _made(lambda: self._inner.add_user_metadata(metadata)))

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


class Ingester(_Facade):
    """`orcstream.Ingester` without `await`: ``with ingest(...) as out``. Several threads may write.

    Files end by their age on the loop's thread, whether anything is called meanwhile or not.
    """

    _inner: writer_ingester.Ingester

    @property
    def schema(self) -> Schema | None:
        return self._inner.schema

    @property
    def row_count(self) -> int:
        return self._inner.row_count

    @property
    def files(self) -> tuple[IngestedFile, ...]:
        return self._inner.files

    @property
    def held_bytes(self) -> int:
        return self._inner.held_bytes

    def write(self, data: object) -> int:
        """`Ingester.write`."""
        return self._run(lambda: self._inner.write(data))

    def flush(self) -> None:
        """`Ingester.flush`."""
        self._run(self._inner.flush)

    def commit(self) -> tuple[IngestedFile, ...]:
        """`Ingester.commit`."""
        return self._run(self._inner.commit)

    def abort(self) -> None:
        """`Ingester.abort`."""
        self._run(self._inner.abort)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(lambda: self._inner.__aexit__(kind, error, trace))


@_takes_as(writer_creating.create)
def create(url: Target, schema: object = None, **options: Any) -> OrcWriter:
    """`orcstream.create`: use it as ``with ... as out``, or end with `commit` or `abort`."""
    loop_thread = _running()
    return OrcWriter(loop_thread.run(lambda: writer_creating.create(url, schema, **options)), loop_thread)


def write(url: Target, data: object, schema: object = None, **options: Unpack[CreateOptions]) -> WriteResult:
    """Create, `OrcWriter.write`, commit; `options` are those of `orcstream.create`."""

    async def work() -> WriteResult:
        async with writer_creating.create(url, schema, **options) as out:
            await out.write(data)
        return out.result

    return _running().run(work)


@_takes_as(writer_ingesting.ingest)
def ingest(url_template: str, schema: object = None, **options: Any) -> Ingester:
    """`orcstream.ingest`; `on_file` is called on the loop's thread and must not call this module."""
    loop_thread = _running()
    inner = loop_thread.run(lambda: writer_ingesting.ingest(url_template, schema, **options))
    return Ingester(inner, loop_thread)


@_takes_as(reader_opening.open)
def open(url: Url, **options: Any) -> OrcFile:  # noqa: A001 - the name users expect
    """`orcstream.open`: close the file, or use it as ``with ... as file``."""
    loop_thread = _running()
    return OrcFile(loop_thread.run(lambda: reader_opening.open(url, **options)), loop_thread)


class ReadOptions(TypedDict, total=False):
    """What `OrcFile.read` takes."""

    columns: Columns | None
    where: Where
    rows: range | None
    schema: object
    batch_rows: int
    memory_limit: int
    decode_threads: int | None
    row_numbers: bool
    timestamp_unit: str
    dictionaries: bool
    invalid_utf8: str
    case_sensitive: bool


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
    **options: Unpack[ReadOptions],
) -> ReadResult:
    """Open, `OrcFile.read` with the other `options` (`columns`, `where`, `rows`, …), close."""

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


@_takes_as(reader_many.open_many)
def open_many(urls: Urls, **options: Any) -> FileStream:
    """`orcstream.open_many`: ``for file in files``, best inside ``with ... as files``.

    `urls` is iterated, and `on_error` called, on the loop's thread: neither may call this module.
    """
    loop_thread = _running()
    files = loop_thread.run(lambda: _made(lambda: reader_many.open_many(urls, **options)))
    return FileStream(files, loop_thread)


def _awaited(call: Callable[P, Awaitable[T]], note: str = "") -> Callable[P, T]:
    """A function of the package that needs nothing but to be waited for."""

    @_takes_as(call)
    def work(*arguments: P.args, **options: P.kwargs) -> T:
        return _running().run(lambda: call(*arguments, **options))

    work.__name__ = work.__qualname__ = call.__name__
    work.__doc__ = f"`orcstream.{call.__name__}`{note}."
    return work


merge = _awaited(
    writer_merge.merge, "; `progress` is called on the loop's thread and must not call this module"
)
cleanup = _awaited(io_sink.cleanup)
commit = _awaited(io_sink.commit)
discard = _awaited(io_sink.discard)
