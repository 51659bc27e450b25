"""Growing files on this machine."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from orcstream.io.contract.append_file import FLUSH_LENGTH, GATHERED_BYTES, LENGTH_BYTES, NO_LENGTH
from orcstream.io.contract.byte_sink import SinkOptions, already_there
from orcstream.io.loop.uncancelled import until_over
from orcstream.io.stores.local.source import WRITE_ONLY, in_thread, sync_data, sync_folder, write_at
from orcstream.io.urls import StoreUrl, local_path


class GrowingLocalFile:
    """One growing file and its lengths; see `io.contract.append_file`."""

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


async def open_target(target: StoreUrl, options: SinkOptions) -> GrowingLocalFile:  # noqa: ARG001 - of HDFS
    return GrowingLocalFile(local_path(target.url), target.shown)
