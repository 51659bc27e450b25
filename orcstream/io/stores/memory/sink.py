"""Bytes that stay in memory: files of fsspec's ``memory://`` store, and buffers of the caller.

Knows `MemoryFileSystem`'s dictionary of files and `io.BytesIO`. What was prepared holds the bytes themselves,
so one that was pickled is committed to the memory of the process that commits. Nothing here blocks.
"""
# ruff: noqa: SLF001 - fsspec has no public name for the path of a URL

from __future__ import annotations

import io
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import anyio.lowlevel
from fsspec.implementations.memory import MemoryFile, MemoryFileSystem

from orcstream.errors import UsageError
from orcstream.io.contract.byte_sink import Leftover, Prepared, SinkOptions, already_there, state_of
from orcstream.io.urls import StoreUrl


@dataclass(frozen=True, slots=True)
class HeldBytes:
    """The bytes, in the parts they came in; `token` tells this file from others.

    `buffer` is where the caller wants them, and stays in the process of the caller.
    """

    parts: tuple[bytes, ...] = field(repr=False)
    token: str
    buffer: io.BytesIO | None = None
    remains = ""  # the memory goes with the value

    def __reduce__(self) -> tuple[Any, ...]:
        if self.buffer is not None:
            raise UsageError("a file that is written to a buffer can only be committed where the buffer is")
        return (HeldBytes, (self.parts, self.token))


class _Upload:
    retries_parts = False
    remains = ""

    def __init__(self, buffer: io.BytesIO | None) -> None:
        self._parts: dict[int, bytes] = {}
        self._buffer = buffer

    async def begin(self) -> None:
        await anyio.lowlevel.checkpoint()

    async def put(self, number: int, offset: int, data: bytes) -> None:  # noqa: ARG002 - of the contract
        await anyio.lowlevel.checkpoint()
        self._parts[number] = data

    async def finish(self, length: int) -> HeldBytes:  # noqa: ARG002
        await anyio.lowlevel.checkpoint()
        parts = tuple(self._parts[number] for number in sorted(self._parts))
        return HeldBytes(parts, uuid4().hex, self._buffer)

    async def discard(self) -> None:
        self._parts.clear()
        await anyio.lowlevel.checkpoint()


class _Store:
    """What both kinds share: nothing is ever left behind."""

    part_cap = None
    smallest_part_bytes = 1
    upload_cap = None

    def __init__(self, buffer: io.BytesIO | None = None) -> None:
        self._buffer = buffer

    def new_upload(self, options: SinkOptions) -> _Upload:  # noqa: ARG002 - of the contract
        return _Upload(self._buffer)

    async def discard(self, prepared: Prepared) -> None:  # noqa: ARG002
        await anyio.lowlevel.checkpoint()

    async def cleanup(self, *_: object, **__: object) -> list[Leftover]:
        await anyio.lowlevel.checkpoint()
        return []

    async def aclose(self) -> None:
        """Nothing is held."""


class MemoryStore(_Store):
    """One path of fsspec's memory store."""

    def __init__(self, target: StoreUrl) -> None:
        super().__init__()
        self._path = MemoryFileSystem._strip_protocol(target.url)
        self._url = target.shown

    async def commit(self, prepared: Prepared, options: SinkOptions) -> None:  # noqa: ARG002
        held = state_of(prepared, HeldBytes, "in memory")
        await anyio.lowlevel.checkpoint()
        filesystem = MemoryFileSystem()
        if not prepared.overwrite and filesystem.exists(self._path):
            earlier = filesystem.store.get(self._path)
            if getattr(earlier, "orcstream_token", None) == held.token:
                return  # committed before
            raise already_there(self._url)
        if filesystem.isdir(self._path):
            raise IsADirectoryError(self._url)
        file = MemoryFile(filesystem, self._path, b"".join(held.parts))
        file.orcstream_token = held.token
        filesystem.store[self._path] = file


class BufferStore(_Store):
    """A buffer of the caller: commit writes to it where it stands."""

    async def commit(self, prepared: Prepared, options: SinkOptions) -> None:  # noqa: ARG002
        held = state_of(prepared, HeldBytes, "in memory")
        await anyio.lowlevel.checkpoint()
        if held.buffer is None:
            raise UsageError("this was not prepared for a buffer", url=prepared.shown)
        held.buffer.write(b"".join(held.parts))


async def open_target(target: StoreUrl) -> MemoryStore:
    return MemoryStore(target)
