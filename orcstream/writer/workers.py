"""What of a writer goes on side by side: threads that encode the columns of a stripe, and the outflow.

Knows threads, one compressor for each, and the task that hands finished stripes on to where the bytes go.
Must not know what is encoded, nor any sink. A round is one task for each column; rounds
follow one another, and none is left before all of its tasks are over, so a column is never touched by two
threads. The columns that took longest come first. A thread does its part of a round in one call, which needs
no lock of the interpreter.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from functools import cache, partial
from typing import TYPE_CHECKING, TypeVar

import anyio

from orcstream.codec.encode._column import Round, Task
from orcstream.codec.streams._packers import Packer
from orcstream.codec.streams.compression import Compressor
from orcstream.errors import UsageError
from orcstream.io.loop.system import call_on_thread, in_forked_children
from orcstream.io.loop.tasks import Signal
from orcstream.io.loop.uncancelled import end_task, run_in_thread

if TYPE_CHECKING:
    from typing_extensions import Buffer


T = TypeVar("T")

# Threads of the process that join in rounds at once. Rounds go on without more.
_MOST_HELPERS = 64


class Workers:
    """At most `count` threads at once. `busy_s` is the time of all of them together.

    Several writers of one loop may share them: their rounds follow one another.
    """

    def __init__(self, count: int, new_compressor: Callable[[], Compressor | None]) -> None:
        self._limiter = anyio.CapacityLimiter(count)
        self._lock = anyio.Lock()
        self._compressors = [new_compressor() for _ in range(count)]
        self._costs: list[float] = []
        self.busy_s = 0.0

    async def run(self, function: Callable[[], T]) -> T:
        """Call a function on a thread; it is waited for, cancelled or not."""
        return await run_in_thread(function, limiter=self._limiter)

    async def alone(self, function: Callable[[Compressor | None], T]) -> T:
        """Call ``function(compressor)`` on a thread while there is no round; waited for as in `run`."""
        async with self._lock:
            return await self.run(lambda: function(self._compressors[0]))

    async def round(self, make: Callable[[], Sequence[Task]], then: Callable[[Compressor | None], T]) -> T:
        """Carry out the tasks that `make` answers, one for each column; the answer of ``then(compressor)``.

        Both are called on a thread, which also does its part of the tasks: the loop is woken once. The first
        failure is raised once all threads have stopped.
        """
        async with self._lock:
            return await self.run(lambda: self._carry_out(make, then))

    def _carry_out(self, make: Callable[[], Sequence[Task]], then: Callable[[Compressor | None], T]) -> T:
        tasks = make()
        order: Iterable[int] = range(len(tasks))
        if len(self._costs) == len(tasks):
            order = sorted(order, key=self._costs.__getitem__, reverse=True)
        shared = Round([tasks[column] for column in order])
        own, *others = self._compressors[: max(1, len(tasks))]
        helping = [_help(shared, other) for other in others]
        shared.run(_packer_of(own))
        for state in helping:
            if state is not None and not state.cancel():  # it has begun
                state.result()
        shared.check()
        self._costs = [task.seconds for task in tasks]
        self.busy_s += sum(self._costs)
        return then(own)


def _help(shared: Round, compressor: Compressor | None) -> Future[None] | None:
    """Ask a further thread to join. Return a future to cancel before it begins; None without a thread."""
    helpers = _helpers()
    if not helpers.acquire(blocking=False):
        return None
    try:
        helping: Future[None] = Future()
        call_on_thread(partial(_join, helping, shared, _packer_of(compressor), helpers))
    except RuntimeError:  # no thread can be started
        helpers.release()
        return None
    except BaseException:
        helpers.release()
        raise
    return helping


def _join(
    helping: Future[None], shared: Round, packer: Packer | None, helpers: threading.BoundedSemaphore
) -> None:
    try:
        if not helping.set_running_or_notify_cancel():
            return
        try:
            shared.run(packer)
        except BaseException as error:  # noqa: BLE001 - raised by the thread that asked
            helping.set_exception(error)
        else:
            helping.set_result(None)
    finally:
        helpers.release()
        del helping, shared  # the error and this frame would hold each other


@cache
def _helpers() -> threading.BoundedSemaphore:
    """What lets threads help."""
    return threading.BoundedSemaphore(_MOST_HELPERS)


# A child has none of the threads.
in_forked_children(_helpers.cache_clear)


def _packer_of(compressor: Compressor | None) -> Packer | None:
    return None if compressor is None else compressor.packer


class Outflow:
    """Finished stripes on their way to an outlet, while the next one is encoded: one piece after the other.

    `left_bytes` are those that are being written and not written yet. For one task at a time. A
    failure is raised to whoever waits next.
    """

    def __init__(self, write: Callable[[memoryview], Awaitable[None]]) -> None:
        self._write_piece = write
        self._task: asyncio.Task[None] | None = None
        self._failure: BaseException | None = None
        self._progress = Signal()
        self.left_bytes = 0
        self._next_bytes = 0

    @property
    def held_bytes(self) -> int:
        """All that was handed over and not written yet."""
        return self.left_bytes + self._next_bytes

    async def start(self, pieces: Iterator[Buffer], size: int) -> None:
        """Write pieces of `size` bytes in all, once those before them are written."""
        self._next_bytes = size
        try:
            await self.wait()
        finally:
            self._next_bytes = 0
        self.left_bytes = size
        self._task = asyncio.create_task(self._write(pieces), name="orcstream outflow")
        self._task.add_done_callback(self._done)

    async def wait(self, most_left: int = 0) -> None:
        """Wait until at most so many bytes are left; raises what went wrong meanwhile."""
        while self.left_bytes > most_left and self._failure is None:
            await self._progress.wait()
        if self._failure is not None:
            raise self._failure

    async def stop(self) -> None:
        """End the task, whatever is left, and wait for it; nothing can be written any more."""
        if self._failure is None:
            self._failure = UsageError("the file is aborted")
            self._progress.notify()
        if self._task is not None:
            await end_task(self._task)

    def _done(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():  # perhaps before it had begun, where a loop ends
            self._failure = self._failure or UsageError("the writing was cancelled: the file is incomplete")
            self._progress.notify()

    async def _write(self, pieces: Iterator[Buffer]) -> None:
        try:
            for piece in pieces:
                data = memoryview(piece)
                await self._write_piece(data)
                self.left_bytes -= data.nbytes
                self._progress.notify()
        except BaseException as error:
            self._failure = self._failure or error
            if not isinstance(error, Exception):
                raise
        finally:
            self._progress.notify()
