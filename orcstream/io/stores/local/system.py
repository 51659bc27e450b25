"""What operating systems do each in its own way: reading and writing at a place, flushing, counting cores.

Knows what Windows and macOS lack, and what stands in for it there. Must not know what is read or written.
What a system has is looked for by the call's name, not by its own, so that what stands in can be tried on
any.
"""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

# Not for programs that are started, and on Windows without translation of what looks like the end of a line.
_OWN = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOINHERIT", 0) | getattr(os, "O_BINARY", 0)
WRITE_ONLY = os.O_WRONLY | _OWN
# Not blocking, or opening a named pipe would wait for a writer. It changes nothing for files.
READ_ONLY = os.O_RDONLY | _OWN | getattr(os, "O_NONBLOCK", 0)

# Where a descriptor has to be moved first, no two threads may do so at once. Some descriptors share a lock.
_MOVING = tuple(threading.Lock() for _ in range(64))


def read_at(descriptor: int, view: memoryview, offset: int) -> int:
    """Fill `view` from `offset` on; answers how many bytes there were, fewer at the end of the file only."""
    done = 0
    while done < len(view):  # Linux answers at most 2 GiB at once
        count = _read_some(descriptor, view[done:], offset + done)
        if count == 0:
            break
        done += count
    return done


def tells_cached(descriptor: int) -> bool:
    """Whether `read_cached` is of use: on Linux file systems of disks know what takes no waiting."""
    if not hasattr(os, "RWF_NOWAIT"):
        return False
    try:
        os.preadv(descriptor, [bytearray(1)], 0, os.RWF_NOWAIT)
    except OSError as error:
        return error.errno == errno.EAGAIN
    return True


def read_cached(descriptor: int, view: memoryview, offset: int) -> bool:
    """Fill `view` if that takes no waiting for a disk; whether it is filled. See `tells_cached`."""
    try:
        return os.preadv(descriptor, [view], offset, os.RWF_NOWAIT) == len(view)
    except BlockingIOError:
        return False


def write_at(descriptor: int, data: bytes | memoryview, offset: int) -> None:
    """Write all of it."""
    with memoryview(data) as view:
        done = 0
        while done < len(view):  # Linux takes at most 2 GiB at once
            done += _write_some(descriptor, view[done:], offset + done)


def _read_some(descriptor: int, view: memoryview, offset: int) -> int:
    if hasattr(os, "preadv"):
        return os.preadv(descriptor, [view], offset)
    with _MOVING[descriptor % len(_MOVING)]:
        os.lseek(descriptor, offset, os.SEEK_SET)
        data = os.read(descriptor, len(view))
    view[: len(data)] = data
    return len(data)


def _write_some(descriptor: int, view: memoryview, offset: int) -> int:
    if hasattr(os, "pwrite"):
        return os.pwrite(descriptor, view, offset)
    with _MOVING[descriptor % len(_MOVING)]:
        os.lseek(descriptor, offset, os.SEEK_SET)
        return os.write(descriptor, view)


def sync_data(descriptor: int) -> None:
    """What was written is on the disk; times of the file need not be, where the system tells them apart."""
    if hasattr(os, "fdatasync"):
        os.fdatasync(descriptor)
    else:
        os.fsync(descriptor)


def sync_folder(path: str) -> None:
    """The name of the file at `path` is on the disk. Windows has no such call."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(Path(path).parent, READ_ONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # not every file system knows this for folders
            raise
    finally:
        os.close(descriptor)


def set_mode(descriptor: int, mode: int) -> None:
    """Permissions of an open file. Windows has none but that to write, which a new file has."""
    if hasattr(os, "fchmod"):
        os.fchmod(descriptor, mode)


def core_count() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
