"""A source and a sink of somebody else: over a dictionary, made from the protocols alone.

Tests break them in one way each; unbroken they keep the contracts.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from orcstream import Leftover, Prepared
from orcstream.errors import ShortRead, SinkError, SourceChanged, UsageError
from orcstream.testing import ByteRange, CostModel, RangeBuffer, SinkStore, SourceStore, Suffix

__all__ = ["OwnSink", "OwnSinkStore", "OwnSource", "OwnSourceStore", "Shelf", "Ticket"]

PIECES = 4


@dataclass
class Shelf:
    """The store: visible files with the number of their version, and what is hidden."""

    files: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    hidden: dict[str, bytes] = field(default_factory=dict)
    denied: set[str] = field(default_factory=set)
    versions: int = 0
    open_count: int = 0

    def put(self, name: str, data: bytes) -> None:
        self.versions += 1
        self.files[name] = (data, self.versions)


class OwnSource:
    def __init__(self, shelf: Shelf, url: str) -> None:
        self.shelf = shelf
        self.url = url
        self.cost = CostModel.memory()
        self.file_length: int | None = None
        self.fingerprint = ""
        self.is_open = True
        shelf.open_count += 1

    def pin(self, file_length: int, fingerprint: str) -> None:
        self.file_length, self.fingerprint = file_length, fingerprint

    async def look(self) -> tuple[bytes, str]:
        await asyncio.sleep(0)
        name = self.url.removeprefix("own://")
        if name in self.shelf.denied:
            raise PermissionError(13, "not permitted", self.url)
        if name not in self.shelf.files:
            raise FileNotFoundError(2, "no such file", self.url)
        data, version = self.shelf.files[name]
        return data, str(version)

    def check(self, file_length: int, fingerprint: str) -> None:
        if self.file_length not in (None, file_length) or self.fingerprint not in ("", fingerprint):
            raise SourceChanged("the file was replaced", url=self.url)

    async def fetch_suffix(self, length: int) -> Suffix:
        if length < 1:
            raise ValueError(f"a suffix of {length} bytes")
        data, fingerprint = await self.look()
        self.check(len(data), fingerprint)
        self.pin(len(data), fingerprint)
        return Suffix(data[max(0, len(data) - length) :], len(data), fingerprint)

    async def fetch(self, range: ByteRange, on_bytes: Any = None) -> bytes:
        data, fingerprint = await self.look()
        self.check(len(data), fingerprint)
        if range.stop > len(data):
            raise ShortRead(f"the file ends at {len(data)}", url=self.url)
        for number in (1, 2, 3):
            piece = ByteRange(range.start, range.start + range.length * number // PIECES)
            if on_bytes is not None:
                on_bytes(RangeBuffer(piece, data[piece.start : piece.stop]))
            await asyncio.sleep(0)
        return data[range.start : range.stop]

    async def verify(self) -> None:
        data, fingerprint = await self.look()
        self.check(len(data), fingerprint)

    async def aclose(self) -> None:
        self.shelf.open_count -= self.is_open
        self.is_open = False


class OwnSourceStore(SourceStore):
    answers_in_pieces = True
    kind: type[OwnSource] = OwnSource

    def __init__(self) -> None:
        self.shelf = Shelf()

    def url_of(self, name: str) -> str:
        return f"own://{name}"

    async def open(self, url: str) -> OwnSource:
        return self.kind(self.shelf, url)

    async def put(self, name: str, data: bytes) -> None:
        self.shelf.put(name, data)

    async def remove(self, name: str) -> bool:
        return self.shelf.files.pop(name, None) is not None

    async def forbid(self, name: str) -> bool:
        self.shelf.denied.add(name)
        return True

    def held(self) -> list[str]:
        return ["a source"] * self.shelf.open_count


@dataclass(frozen=True)
class Ticket:
    """What a prepared file is known by."""

    name: str
    remains: str


class OwnSink:
    part_bytes = 100

    def __init__(self, shelf: Shelf, url: str, overwrite: bool) -> None:
        self.shelf, self.url, self.overwrite = shelf, url, overwrite
        self.name = url.removeprefix("own://")
        shelf.versions += 1
        self.hidden = f"{self.name}~{shelf.versions}"
        self.length = self.held_bytes = 0
        self.prepared: Prepared | None = None
        self.is_broken = self.is_closed = False

    async def write(self, data: Any) -> None:
        self.need_open()
        if self.prepared is not None:
            raise UsageError("nothing can be added to a prepared file")
        if self.name in self.shelf.denied:
            raise PermissionError(13, "not permitted", self.url)
        self.is_broken = True  # until it is through
        for start in range(0, len(data), self.part_bytes):
            part = bytes(data[start : start + self.part_bytes])
            await asyncio.sleep(0)
            self.shelf.hidden[self.hidden] = self.shelf.hidden.get(self.hidden, b"") + part
            self.length += len(part)
        self.is_broken = False

    async def copy(self, source: str, range: ByteRange, fingerprint: str) -> bool:  # noqa: ARG002 - it cannot
        return False

    async def prepare(self) -> Prepared:
        self.need_open()
        if self.prepared is None:
            self.is_broken = True
            await asyncio.sleep(0)
            self.shelf.hidden.setdefault(self.hidden, b"")
            self.prepared = Prepared(
                url=self.url,
                length=self.length,
                overwrite=self.overwrite,
                state=Ticket(self.name, self.hidden),
            )
            self.is_broken = False
        return self.prepared

    async def abort(self) -> None:
        self.is_closed = True
        self.shelf.hidden.pop(self.hidden, None)

    async def aclose(self) -> None:
        if self.prepared is None:
            await self.abort()
        self.is_closed = True

    def need_open(self) -> None:
        if self.is_closed:
            raise UsageError("the sink is closed")
        if self.is_broken:
            raise SinkError("an earlier call failed: the file can only be aborted")


class OwnSinkStore(SinkStore):
    part_bytes = 300
    kind: type[OwnSink] = OwnSink

    def __init__(self) -> None:
        self.shelf = Shelf()
        self.committed: dict[str, str] = {}

    def url_of(self, name: str) -> str:
        return f"own://{name}"

    async def put(self, name: str, data: bytes) -> None:
        self.shelf.put(name, data)

    async def seen(self, name: str) -> bytes | None:
        return self.shelf.files.get(name, (None, 0))[0]

    async def left(self) -> list[str]:
        return sorted(self.shelf.hidden)

    async def open(self, url: str, *, overwrite: bool = True) -> OwnSink:
        return self.kind(self.shelf, url, overwrite)

    async def commit(self, prepared: Prepared) -> None:
        ticket = prepared.state
        assert isinstance(ticket, Ticket)
        await asyncio.sleep(0)
        if self.committed.get(ticket.name) == ticket.remains and ticket.remains not in self.shelf.hidden:
            return
        if not prepared.overwrite and ticket.name in self.shelf.files:
            raise FileExistsError(17, "there is a file", prepared.shown)
        if ticket.remains not in self.shelf.hidden:
            raise SinkError("what was prepared is gone", url=prepared.shown)
        self.shelf.put(ticket.name, self.shelf.hidden.pop(ticket.remains))
        self.committed[ticket.name] = ticket.remains

    async def discard(self, prepared: Prepared) -> None:
        self.shelf.hidden.pop(prepared.state.remains, None)

    async def cleanup(self, url: str, *, older_than_s: float, remove: bool = True) -> list[Leftover]:
        name = url.removeprefix("own:/").removeprefix("/")  # empty for the folder
        found = [one for one in sorted(self.shelf.hidden) if not name or one.startswith(f"{name}~")]
        if older_than_s:
            return []
        for one in found if remove else ():
            del self.shelf.hidden[one]
        return [Leftover(url=url, kind="temporary", identity=one, age_s=None) for one in found]

    async def forbid(self, name: str) -> bool:
        self.shelf.denied.add(name)
        return True
