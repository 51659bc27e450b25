"""Local files: what operating systems do each in its own way, and reading on threads or, if cached, at once.

Knows what Windows and macOS lack, and what stands in for it there. What a system has is looked for by the
call's name, not by its own, so that what stands in can be tried on any. Reads go to any place of a file,
into fresh memory, on worker threads; little that is cached is read at once. Never maps files: a file that
is truncated under a mapping kills the process, where a short pread is an error. The descriptor is held from
open to close, so a file that is renamed away or removed stays readable; each read compares size, time of
modification and inode with what the path names then, or with the open file where it names nothing any more.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias, TypeVar

import anyio
import anyio.lowlevel

from orcstream._buffer import Buffer
from orcstream.byterange import ByteRange, BytesLike, CostModel
from orcstream.errors import OrcError, ShortRead, SinkError, SourceError
from orcstream.io.contract.byte_source import (
    OnBytes,
    PinnedSource,
    Suffix,
    check_length,
    no_such_file,
    not_permitted,
    short_read,
)
from orcstream.io.loop.uncancelled import run_in_thread, until_over
from orcstream.io.urls import StoreUrl, local_path

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


# --- reading ---------------------------------------------------------------------------------------

T = TypeVar("T")
# Reads a range of a descriptor, of the file at a URL; None where that would take waiting for a disk.
_Reading: TypeAlias = Callable[[int, ByteRange, str], BytesLike | None]

# Copying so little takes no longer than the way to a thread and back.
_AT_ONCE_BYTES = 1 << 17


class _OpenFile:
    """A descriptor. It is closed with the last that knows it, should nobody be left to close it."""

    def __init__(self, path: str) -> None:
        self.descriptor = -1
        self.descriptor = os.open(path, READ_ONLY)
        mode = os.fstat(self.descriptor).st_mode
        if not stat.S_ISREG(mode):
            self.close()
            if stat.S_ISDIR(mode):
                raise SourceError("a folder, not a file; list it, and give its files to open_many")
            raise SourceError("not a regular file")
        # Where it can be told, looking at times and lengths takes no waiting either, nor does closing.
        self.tells_cached = tells_cached(self.descriptor)

    def close(self) -> None:
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()


class LocalSource(PinnedSource):
    """A file held open. Closing waits for the reads under way, or another file could get their descriptor."""

    def __init__(
        self, path: str, file: _OpenFile, limiter: anyio.CapacityLimiter, cost: CostModel, url: str
    ) -> None:
        self._path = path
        self._file = file
        self._is_closed = False
        self._limiter = limiter
        super().__init__(cost, url)

    async def fetch_suffix(self, length: int) -> Suffix:
        check_length(length)

        def read(reading: _Reading) -> Suffix | None:
            status = os.fstat(self._file.descriptor)
            start = max(0, status.st_size - length)
            data = reading(self._file.descriptor, ByteRange(start, status.st_size), self.url)
            return None if data is None else Suffix(data, status.st_size, fingerprint_of(status))

        suffix = await self._read(read, length)
        self._pin.set(suffix.file_length, suffix.fingerprint)
        return suffix

    async def fetch(self, range: ByteRange, on_bytes: OnBytes | None = None) -> BytesLike:  # noqa: ARG002 - whole at once
        def read(reading: _Reading) -> BytesLike | None:
            try:
                data = reading(self._file.descriptor, range, self.url)
            except ShortRead:
                # A file that is another one, or was cut, stays so: no attempt can help.
                self._check(os.fstat(self._file.descriptor))
                raise
            if data is not None:
                # On the same way to a thread: another would cost more than the bytes do.
                self._check(self._look())
            return data

        return await self._read(read, range.length)

    async def _read(self, work: Callable[[_Reading], T | None], length: int) -> T:
        """What `work` reads: at once where that is little and takes no waiting, else on a thread."""
        if length <= _AT_ONCE_BYTES and self._file.tells_cached:
            await anyio.lowlevel.checkpoint()
            with _told(self.url, SourceError):
                found = work(_read_cached)
            if found is not None:
                return found

        def read() -> T:
            data = work(_read)
            assert data is not None
            return data

        return await in_thread(read, self.url, SourceError, limiter=self._limiter)

    def _look(self) -> os.stat_result:
        try:
            return Path(self._path).stat()
        except FileNotFoundError:
            return os.fstat(self._file.descriptor)

    def _check(self, status: os.stat_result) -> None:
        self._pin.check(status.st_size, fingerprint_of(status))

    async def aclose(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        if self._file.tells_cached and not self._limiter.borrowed_tokens:
            with _told(self.url, SourceError):
                self._file.close()
            return
        await until_over(self._close())

    async def _close(self) -> None:
        # All tokens: no read is under way.
        for _ in range(int(self._limiter.total_tokens) - 1):
            await self._limiter.acquire_on_behalf_of(object())
        await in_thread(self._file.close, self.url, SourceError, limiter=self._limiter)


def _read(descriptor: int, range: ByteRange, url: str) -> BytesLike:
    # Into recycled memory: fresh pages cost more than copying a cached file.
    data = memoryview(Buffer(range.length))
    stop = range.start + read_at(descriptor, data, range.start)
    if stop < range.stop:
        raise short_read(range, f"the file ends at {stop}", url)
    return data


def _read_cached(descriptor: int, range: ByteRange, url: str) -> BytesLike | None:  # noqa: ARG001 - as `_read`
    data = memoryview(Buffer(range.length))
    return data if read_cached(descriptor, data, range.start) else None


def fingerprint_of(status: os.stat_result) -> str:
    """What tells a file from others that have its name."""
    return f"{status.st_size} {status.st_mtime_ns} {status.st_ino}"


async def open_target(target: StoreUrl) -> LocalSource:
    path, cost = local_path(target.url), target.cost
    limiter = anyio.CapacityLimiter(cost.request_cap)
    file = await in_thread(lambda: _OpenFile(path), target.shown, SourceError, limiter=limiter)
    return LocalSource(path, file, limiter, cost, target.shown)


async def in_thread(
    work: Callable[[], T],
    url: str,
    kind: type[SourceError | SinkError] = SinkError,
    *,
    limiter: anyio.CapacityLimiter | None = None,
) -> T:
    """What `work` returns, called on a thread; its errors are about the file at `url`.

    `kind` is that of failures of the system, by reading or writing.
    """
    with _told(url, kind):
        return await run_in_thread(work, limiter=limiter)


@contextmanager
def _told(url: str, kind: type[SourceError | SinkError]) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise no_such_file(url) from None
    except PermissionError:
        raise not_permitted(url) from None
    except OrcError as error:
        error.locate(url=url)
        raise
    except (FileExistsError, IsADirectoryError):
        raise
    except OSError as error:
        done = "read" if kind is SourceError else "written"
        raise kind(f"the file cannot be {done}: {error.strerror or error}", url=url) from error
