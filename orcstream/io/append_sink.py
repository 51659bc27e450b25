"""Files that grow where everybody sees them, and say how far they may be read.

Knows local paths; `io.stores.memory.append` knows fsspec's ``memory://`` and `io.stores.hdfs.append`
HDFS. Must not know what the bytes mean.

A writer that is killed leaves the file and its lengths (`io.contract.append_file`): up to the last flush
it can be read. `cut` ends a file there: it is shortened to what was flushed, or removed where nothing
was.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import anyio.lowlevel

from orcstream._credentials import strip_credentials
from orcstream.byterange import BytesLike
from orcstream.errors import Unsupported, UsageError
from orcstream.io.contract.append_file import (
    FLUSH_LENGTH,
    GATHERED_BYTES,
    LENGTH_BYTES,
    NO_LENGTH,
    AppendFile,
)
from orcstream.io.contract.byte_sink import SinkOptions, already_there
from orcstream.io.loop.tasks import OneTask
from orcstream.io.loop.uncancelled import until_over
from orcstream.io.options import plain_options
from orcstream.io.stores.local.calls import in_thread
from orcstream.io.stores.local.system import WRITE_ONLY, sync_data, sync_folder, write_at
from orcstream.io.urls import NATIVE_HDFS, is_our_hdfs, local_path, protocol_of

_CLOSED = "the sink is closed"


class AppendSink:
    """One growing file, for one task at a time. After an error it can only be cut or closed."""

    def __init__(self, url: str, file: AppendFile) -> None:
        self.url = url
        self._file = file
        self._gathered = bytearray()
        self._written_bytes = 0
        self._state = ""  # why nothing can be done any more
        self._one_task = OneTask("two tasks use one sink", url)
        # Held by the call under way: the end waits for it, or both would be at the file.
        self._lock = anyio.Lock()

    @property
    def length(self) -> int:
        """The bytes written so far, flushed or not."""
        return self._written_bytes + len(self._gathered)

    @property
    def held_bytes(self) -> int:
        """Memory taken by what was not sent yet."""
        return len(self._gathered)

    async def write(self, data: BytesLike) -> None:
        """Append a copy of `data`. Readers may see it before it is flushed, and must not go by it."""
        await self._run(lambda: self._write(memoryview(data).cast("B")))

    async def flush(self) -> None:
        """Everything written so far is durable when this returns, and its length is in the side file."""
        await self._run(self._flush)

    async def finish(self) -> None:
        """Make everything durable, and remove the side file: the file is complete. Then close."""
        await self._run(self._finish)
        await self.aclose()

    async def cut(self) -> None:
        """End the file at its last flush, whatever failed before, and close. Nothing stays where none was.

        Waits for a call of another task. Not cancelled, and may be called again; does nothing to a file that
        was finished or closed.
        """
        self._state = self._state or "the file is being ended"
        await until_over(self._cut())

    async def _cut(self) -> None:
        async with self._lock:
            if self._state != _CLOSED:
                try:
                    await self._file.cut()
                finally:
                    await self._close()

    async def aclose(self) -> None:
        """Give back what is held; the file stays, perhaps without what was not flushed."""
        self._state = self._state or "the file is being ended"
        await until_over(self._close_locked())

    async def _close_locked(self) -> None:
        async with self._lock:
            await self._close()

    async def _close(self) -> None:
        self._state = _CLOSED
        self._gathered.clear()
        await self._file.aclose()

    async def _run(self, work: Callable[[], Awaitable[None]]) -> None:
        if self._state:
            raise UsageError(self._state, url=self.url)
        with self._one_task:
            self._lock.acquire_nowait()
            try:
                await work()
            except BaseException:
                self._state = "an earlier call failed or was cancelled: what was flushed stays"
                raise
            finally:
                self._lock.release()

    async def _write(self, view: memoryview) -> None:
        self._gathered += view
        if len(self._gathered) >= self._file.gathered_bytes:
            await self._append()
        else:
            await anyio.lowlevel.checkpoint()

    async def _append(self) -> None:
        data = bytes(self._gathered)
        self._gathered.clear()
        offset, self._written_bytes = self._written_bytes, self._written_bytes + len(data)
        await self._file.append(data, offset)

    async def _flush(self) -> None:
        if self._gathered:
            await self._append()
        await self._file.flush(self._written_bytes)

    async def _finish(self) -> None:
        await self._flush()
        await self._file.finish()


class _LocalFile:
    gathered_bytes = GATHERED_BYTES

    def __init__(self, path: str, url: str) -> None:
        self._path = os.path.realpath(path)  # the process may change its folder
        self._lengths_path = self._path + FLUSH_LENGTH
        self._url = url
        self._descriptor = -1
        self._lengths = -1
        self._lengths_bytes = 0
        self._flushed_bytes = -1

    async def begin(self) -> None:
        try:
            await in_thread(self._begin, self._url)
        except asyncio.CancelledError:
            if self._descriptor >= 0:  # it was made nevertheless
                await until_over(self.cut())
            raise

    async def append(self, data: bytes, offset: int) -> None:
        await in_thread(lambda: write_at(self._descriptor, data, offset), self._url)

    async def flush(self, length: int) -> None:
        def work() -> None:
            sync_data(self._descriptor)
            write_at(self._lengths, length.to_bytes(LENGTH_BYTES, "big"), self._lengths_bytes)
            sync_data(self._lengths)
            self._lengths_bytes += LENGTH_BYTES
            self._flushed_bytes = length

        await in_thread(work, self._url)

    async def finish(self) -> None:
        def work() -> None:
            self._close_lengths()  # Windows does not remove what is open
            Path(self._lengths_path).unlink(missing_ok=True)
            sync_folder(self._path)

        await in_thread(work, self._url)

    async def cut(self) -> None:
        def work() -> None:
            if self._flushed_bytes < 0:
                self._close()
                Path(self._path).unlink(missing_ok=True)
            else:
                os.ftruncate(self._descriptor, self._flushed_bytes)
                os.fsync(self._descriptor)
            self._close_lengths()
            Path(self._lengths_path).unlink(missing_ok=True)
            sync_folder(self._path)

        await in_thread(work, self._url)

    async def aclose(self) -> None:
        await in_thread(self._close, self._url)

    def _begin(self) -> None:
        try:
            # Alone, as the one that made the file, before the lengths are touched.
            self._descriptor = os.open(self._path, WRITE_ONLY | os.O_CREAT | os.O_EXCL, 0o666)
            self._lengths = os.open(self._lengths_path, WRITE_ONLY | os.O_CREAT, 0o666)
            whole_bytes = os.fstat(self._lengths).st_size // LENGTH_BYTES * LENGTH_BYTES
            write_at(self._lengths, NO_LENGTH, whole_bytes)
            self._lengths_bytes = whole_bytes + LENGTH_BYTES
            sync_folder(self._path)
        except FileExistsError:
            raise already_there(self._url) from None
        except BaseException:
            made = {self._lengths_path: self._lengths, self._path: self._descriptor}
            self._close()
            for path in [path for path, descriptor in made.items() if descriptor >= 0]:
                Path(path).unlink(missing_ok=True)
            raise

    def _close(self) -> None:
        self._close_lengths()
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _close_lengths(self) -> None:
        descriptor, self._lengths = self._lengths, -1
        if descriptor >= 0:
            os.close(descriptor)


def check_appendable(
    url: str | os.PathLike[str], *, storage_options: Mapping[str, Any] | None = None
) -> None:
    """Raise `Unsupported` (reason ``no_append``) for stores whose files cannot grow where they are read."""
    text = os.fspath(url)
    kind, options = protocol_of(text), plain_options(storage_options)
    if kind in ("file", "local", "memory"):
        return
    if kind in NATIVE_HDFS:
        raise Unsupported(
            "hdfs-native can neither append safely nor read the last block of a file that is still open: "
            "grow the file over webhdfs://, and follow it over either",
            reason="no_append",
            url=text,
        )
    if not is_our_hdfs(kind, options):
        raise Unsupported(
            f"{kind} has no files that grow where they are read: local paths, WebHDFS and memory:// have",
            reason="no_append",
            url=text,
        )


async def open_append_sink(
    url: str | os.PathLike[str],
    *,
    storage_options: Mapping[str, Any] | None = None,
    sink_options: SinkOptions | Mapping[str, Any] | None = None,
) -> AppendSink:
    """A new file that grows in place: at a path, over WebHDFS or in ``memory://``.

    `FileExistsError` where there is one: what others may be reading is not written anew. `Unsupported` with
    the reason ``no_append`` for every other store.
    """
    check_appendable(url, storage_options=storage_options)
    text = os.fspath(url)
    shown = strip_credentials(text)
    kind = protocol_of(text)
    file: AppendFile
    if kind in ("file", "local"):
        file = _LocalFile(local_path(text), shown)
    elif kind == "memory":
        from orcstream.io.stores.memory.append import InMemoryFile

        file = InMemoryFile(text, FLUSH_LENGTH, shown)
    else:
        from orcstream.io.stores.hdfs.append import open_hdfs_file

        options = plain_options(storage_options)
        file = await open_hdfs_file(text, FLUSH_LENGTH, options, SinkOptions.of(sink_options), shown)
    try:
        await file.begin()
    except BaseException:
        await until_over(file.aclose())
        raise
    return AppendSink(shown, file)
