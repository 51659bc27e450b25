"""Bytes that are in memory already: given by the caller, or in fsspec's ``memory://`` store.

Knows `MemoryFileSystem`'s dictionary of files. Nothing here blocks, so there are no threads.
"""
# ruff: noqa: SLF001 - fsspec has no public name for the path of a URL

from __future__ import annotations

from typing import Any

import anyio.lowlevel

from orcstream.byterange import ByteRange, BytesLike, CostModel
from orcstream.io.contract.byte_source import (
    OnBytes,
    PinnedSource,
    Suffix,
    check_length,
    no_such_file,
    short_read,
)
from orcstream.io.urls import StoreUrl


class BytesSource(PinnedSource):
    """Bytes of the caller, handed out without copying; the caller must leave them as they are."""

    def __init__(self, data: BytesLike, cost: CostModel, url: str = "<bytes>") -> None:
        self._data = memoryview(data).cast("B").toreadonly()
        super().__init__(cost, url)

    async def fetch_suffix(self, length: int) -> Suffix:
        check_length(length)
        await anyio.lowlevel.checkpoint()
        self._pin.set(len(self._data), "")
        return Suffix(self._data[max(0, len(self._data) - length) :], len(self._data), "")

    async def fetch(self, range: ByteRange, on_bytes: OnBytes | None = None) -> BytesLike:  # noqa: ARG002 - whole at once
        await anyio.lowlevel.checkpoint()
        if range.stop > len(self._data):
            self._pin.check(len(self._data), "")
            raise short_read(range, f"the file has {len(self._data)}", self.url)
        return self._data[range.start : range.stop]

    async def verify(self) -> None:
        await anyio.lowlevel.checkpoint()
        self._pin.check(len(self._data), "")

    async def aclose(self) -> None:
        await anyio.lowlevel.checkpoint()


class MemoryFileSource(PinnedSource):
    """A file of fsspec's memory store, which is one dictionary for the whole process.

    A file that is written again is a new entry or has a new time of modification, so each fetch checks.
    """

    def __init__(self, store: dict[str, Any], path: str, cost: CostModel, url: str) -> None:
        self._store = store
        self._path = path
        super().__init__(cost, url)

    async def fetch_suffix(self, length: int) -> Suffix:
        check_length(length)
        await anyio.lowlevel.checkpoint()
        file = self._look_up()
        data, file_length = _copy(file, -length, None)
        self._pin.set(file_length, _fingerprint(file))
        return Suffix(data, file_length, _fingerprint(file))

    async def fetch(self, range: ByteRange, on_bytes: OnBytes | None = None) -> BytesLike:  # noqa: ARG002 - whole at once
        await anyio.lowlevel.checkpoint()
        file = self._look_up()
        data, file_length = _copy(file, range.start, range.stop)
        self._pin.check(file_length, _fingerprint(file))
        if range.stop > file_length:
            raise short_read(range, f"the file has {file_length}", self.url)
        return data

    async def verify(self) -> None:
        await anyio.lowlevel.checkpoint()
        file = self._look_up()
        self._pin.check(_copy(file, 0, 0)[1], _fingerprint(file))

    async def aclose(self) -> None:
        await anyio.lowlevel.checkpoint()

    def _look_up(self) -> Any:
        try:
            return self._store[self._path]
        except KeyError:
            raise no_such_file(self.url) from None


async def open_target(target: StoreUrl) -> MemoryFileSource:
    from fsspec.implementations.memory import MemoryFileSystem

    path = MemoryFileSystem._strip_protocol(target.url)
    return MemoryFileSource(MemoryFileSystem.store, path, target.cost, target.shown)


def _copy(file: Any, start: int, stop: int | None) -> tuple[bytes, int]:
    # A copy, because a view of the file would forbid its owner to write to it.
    with file.getbuffer() as view:
        if start < 0:
            start = max(0, len(view) + start)
        return bytes(view[start:stop]), len(view)


def _fingerprint(file: Any) -> str:
    return str(file.modified.timestamp())
