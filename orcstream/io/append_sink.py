"""Files that grow where everybody sees them, and say how far they may be read.

Must not know how any store appends, nor what the bytes mean.

A writer that is killed leaves the file and its lengths (`io.contract.append_file`): up to the last flush
it can be read. `cut` ends a file there: it is shortened to what was flushed, or removed where nothing
was.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio.lowlevel

from orcstream.byterange import BytesLike
from orcstream.errors import Unsupported, UsageError
from orcstream.io.contract.append_file import AppendFile
from orcstream.io.contract.byte_sink import SinkOptions
from orcstream.io.loop.tasks import OneTask
from orcstream.io.loop.uncancelled import until_over
from orcstream.io.urls import NATIVE_HDFS, StoreUrl

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


def check_appendable(
    url: str | os.PathLike[str], *, storage_options: Mapping[str, Any] | None = None
) -> StoreUrl:
    """Raise `Unsupported` (reason ``no_append``) for stores whose files cannot grow where they are read."""
    target = StoreUrl.of(url, storage_options)
    if target.kind in NATIVE_HDFS:
        raise Unsupported(
            "hdfs-native can neither append safely nor read the last block of a file that is still open: "
            "grow the file over webhdfs://, and follow it over either",
            reason="no_append",
            url=target.shown,
        )
    if target.store not in ("local", "memory", "hdfs"):
        raise Unsupported(
            f"{target.kind} has no files that grow where they are read: local paths, WebHDFS and memory:// "
            "have",
            reason="no_append",
            url=target.shown,
        )
    return target


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
    target = check_appendable(url, storage_options=storage_options)
    file: AppendFile = await target.open("append", SinkOptions.of(sink_options))
    try:
        await file.begin()
    except BaseException:
        await until_over(file.aclose())
        raise
    return AppendSink(target.shown, file)
