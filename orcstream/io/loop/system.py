"""What the system gives this process: cores, children that are forked from it, and threads.

Must not know loops, or what becomes of any of them.

All loops share the threads, which are made as needed. Those of a loop would end with it: a program that calls
`asyncio.run` for each read would make new ones for each. A thread that was idle for ten seconds ends. How
many there are at once is for the limiters of those who call.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final, TypeAlias

Call: TypeAlias = Callable[[], None]

THREAD_NAME: Final = "orcstream worker"
_IDLE_S = 10.0
_ROOT = Path("/")


def in_forked_children(function: Callable[[], object]) -> None:
    """Call a function in each child that is forked from now on; there are none on some systems."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=function)


def core_count() -> int:
    """The cores that this process may use: by its affinity, and by the quota of its control group."""
    affine = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _own_quota()
    return affine if quota is None else max(1, min(affine, round(quota)))


@cache
def _own_quota() -> float | None:
    return cpu_quota(_ROOT)


def cpu_quota(root: Path) -> float | None:
    """How many cores the process's control groups give it, as they are found below `root`; None for all.

    A group has no more than those that it belongs to. Version 2 says it in ``cpu.max``, version 1 in two
    files.
    """
    found: list[float] = []
    for folder in _groups(root):
        quota = _quota_in(folder)
        if quota is not None:
            found.append(quota)
    return min(found, default=None)


def _groups(root: Path) -> Iterator[Path]:
    """The folders of the process's groups, and of those that they belong to."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:  # another system, or one without them
        return
    for line in lines:
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if controllers and "cpu" not in controllers.split(","):
            continue
        top = root / "sys/fs/cgroup" / controllers
        group = top / path.strip("/")
        # Within a container, the path may be that of the host, and its own group the top.
        around = [parent for parent in group.parents if parent.is_relative_to(top)]
        yield from dict.fromkeys((group, *around, top))


def _quota_in(folder: Path) -> float | None:
    try:
        if (folder / "cpu.max").exists():
            quota, period = (folder / "cpu.max").read_text().split()
        else:
            quota = (folder / "cpu.cfs_quota_us").read_text()
            period = (folder / "cpu.cfs_period_us").read_text()
        cores = float(quota) / float(period)
    except (OSError, ValueError, ZeroDivisionError):  # "max" is no number
        return None
    return cores if cores > 0 else None  # -1 is no quota


# --- threads ---------------------------------------------------------------------------------------


class _Worker:
    """A thread, and what it is to call."""

    def __init__(self, call: Call) -> None:
        self.calls: SimpleQueue[Call | None] = SimpleQueue()
        self.calls.put(call)
        # A daemon, since an idle one must not keep the interpreter from ending. Calls are waited for at exit.
        self.thread = threading.Thread(target=self._run, name=THREAD_NAME, daemon=True)
        _workers.add(self)
        try:
            self.thread.start()
        except BaseException:
            _workers.discard(self)
            raise

    def _run(self) -> None:
        while (call := self._next()) is not None:
            call()
            del call  # and what it holds
            _idle.append(self)
        _workers.discard(self)

    def _next(self) -> Call | None:
        try:
            return self.calls.get(timeout=_IDLE_S)
        except Empty:
            pass
        try:
            _idle.remove(self)
        except ValueError:  # a call is on its way
            return self.calls.get()
        return None


# The one that was idle last goes first: its memory is warm, and the others can end.
_idle: list[_Worker] = []
_workers: set[_Worker] = set()
in_forked_children(_idle.clear)
in_forked_children(_workers.clear)


def _wait_for_calls() -> None:
    """Wait until no call is under way, those that their loops have left behind included."""
    for worker in list(_workers):
        worker.calls.put(None)
        worker.thread.join()


atexit.register(_wait_for_calls)


def call_on_thread(call: Call) -> None:
    """Make a call, which must not raise, on a thread."""
    try:
        worker = _idle.pop()
    except IndexError:
        _Worker(call)
    else:
        worker.calls.put(call)
