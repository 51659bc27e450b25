"""Growing files in fsspec's ``memory://``.

Knows `MemoryFileSystem`'s dictionary of files. A file that somebody reads cannot change its size: what was
appended is seen from the flush on, as another file of the same name. Nothing here blocks.
"""
# ruff: noqa: SLF001 - fsspec has no public name for the path of a URL

from __future__ import annotations

import anyio.lowlevel
from fsspec.implementations.memory import MemoryFile, MemoryFileSystem

from orcstream.io.contract.append_file import FLUSH_LENGTH, GATHERED_BYTES, LENGTH_BYTES, NO_LENGTH
from orcstream.io.contract.byte_sink import SinkOptions, already_there
from orcstream.io.urls import StoreUrl


class InMemoryFile:
    """One growing file and its lengths; see `io.contract.append_file`."""

    gathered_bytes = GATHERED_BYTES

    def __init__(self, target: StoreUrl) -> None:
        self._path = MemoryFileSystem._strip_protocol(target.url)
        self._lengths_path = self._path + FLUSH_LENGTH
        self._url = target.shown
        self._content = bytearray()
        self._lengths = bytearray(NO_LENGTH)
        self._is_flushed = False

    async def begin(self) -> None:
        await anyio.lowlevel.checkpoint()
        if MemoryFileSystem().exists(self._path):
            raise already_there(self._url)
        _show(self._lengths_path, self._lengths)
        _show(self._path, self._content)

    async def append(self, data: bytes, offset: int) -> None:
        await anyio.lowlevel.checkpoint()
        self._content[offset:] = data

    async def flush(self, length: int) -> None:
        await anyio.lowlevel.checkpoint()
        self._lengths += length.to_bytes(LENGTH_BYTES, "big")
        self._is_flushed = True
        _show(self._path, self._content)
        _show(self._lengths_path, self._lengths)

    async def finish(self) -> None:
        await anyio.lowlevel.checkpoint()
        MemoryFileSystem.store.pop(self._lengths_path, None)

    async def cut(self) -> None:
        if not self._is_flushed:
            MemoryFileSystem.store.pop(self._path, None)
        await self.finish()

    async def aclose(self) -> None:
        """Nothing is held."""


def _show(path: str, content: bytearray) -> None:
    filesystem = MemoryFileSystem()
    filesystem.store[path] = MemoryFile(filesystem, path, bytes(content))


async def open_target(target: StoreUrl, options: SinkOptions) -> InMemoryFile:  # noqa: ARG001 - of HDFS
    return InMemoryFile(target)
