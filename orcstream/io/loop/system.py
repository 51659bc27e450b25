"""What the system gives this process: its cores, and children that are forked from it.

Knows the system's ways to say it. Must not know what becomes of either.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

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
