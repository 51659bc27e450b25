"""A file that somebody may still be writing, read up to where its writer says that it is complete.

Knows the lengths that a writer keeps beside its file (`io.contract.append_file`; Hive's streaming ingest
has the same): 8 bytes each, big-endian, the last whole one valid; none, or one of 0, when nothing is
valid yet; no such file when the file itself is complete, whatever its length. Must not know what the
bytes mean.

A file that grows is not held to one size and time of modification. What tells it from another one of its
name is that bytes once valid never change: the last ones before each length are kept and compared with what
stands there now, when the file is looked at again and when `verify` is called. A file that is complete is
held to its version as any other source.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeAlias

from orcstream.byterange import ByteRange, BytesLike, CostModel
from orcstream.errors import ShortRead, SourceChanged, SourceError, Unsupported, UsageError
from orcstream.io.contract.append_file import FLUSH_LENGTH, LENGTH_BYTES, last_length
from orcstream.io.contract.byte_source import ByteSource, OnBytes, RetryPolicy, Suffix
from orcstream.io.loop.uncancelled import until_over
from orcstream.io.urls import READ_ONLY, kind_of, text_of

_Open: TypeAlias = Callable[[], Awaitable[ByteSource]]

# What is compared; a footer's counts and statistics are in it.
ENDING_BYTES = 4096


def flush_length_url(url: object) -> str:
    """Where the lengths of a file are."""
    if isinstance(url, bytes | bytearray | memoryview):
        raise UsageError("bytes in memory do not grow; follow a file by its path or URL")
    text = text_of(url, "text or a path")
    if kind_of(text) in READ_ONLY:
        raise Unsupported("files are followed on file systems, not here", reason="follow")
    return text + FLUSH_LENGTH


@dataclass(slots=True)
class _Opened:
    """A source that is closed when the last of those who use it is done."""

    source: ByteSource
    user_count: int = 1

    async def leave(self) -> None:
        self.user_count -= 1
        if not self.user_count:
            await until_over(self.source.aclose())


@dataclass(slots=True, eq=False, weakref_slot=True)
class GrowingSource:
    """A `ByteSource` whose `file_length` is where the file is valid up to; `refresh` looks again.

    `open_file` and `open_lengths` open the file and its lengths as they are then. `version` counts how often
    the file was found longer, or complete; while it is 0 there is nothing to read.
    """

    url: str
    cost: CostModel
    _open_file: _Open
    _open_lengths: _Open
    _retry: RetryPolicy
    _opened: _Opened | None = field(default=None, init=False)
    _length: int | None = field(default=None, init=False)
    _ending: tuple[ByteRange, bytes] | None = field(default=None, init=False)
    _saw_empty: bool = field(default=False, init=False)
    _is_closed: bool = field(default=False, init=False)
    is_complete: bool = field(default=False, init=False)
    version: int = field(default=0, init=False)

    # --- the file as it is now

    async def refresh(self) -> None:
        """Look at the lengths again: `version` says whether there was more than the last time.

        Raises `SourceChanged` where another file has taken its place, `FileNotFoundError` where there is
        none. May be called again after a failure or a cancellation, which can come when `version` has
        changed already.
        """
        if self.is_complete:
            return
        length = await self._retry.run(self._valid_length, url=self.url)
        before = self._length or 0
        if length == before:
            return
        if length is not None and length < before:
            raise SourceChanged(f"the file was valid up to {before}, and is up to {length} now", url=self.url)
        opened = _Opened(await self._open_file())
        try:
            is_new = await self._retry.run(lambda: self._take(opened.source, length), url=self.url)
        except BaseException:
            await opened.leave()
            raise
        if not is_new:
            await opened.leave()
            return
        if self._is_closed:
            await opened.leave()
            raise SourceError("the file was closed", url=self.url)
        earlier, self._opened = self._opened, opened
        self._length, self.is_complete = length, length is None
        self.version += 1
        if earlier is not None:
            await earlier.leave()

    async def _valid_length(self) -> int | None:
        """The last length there is, 0 before the first; None where nobody keeps any."""
        try:
            lengths = await self._open_lengths()
        except FileNotFoundError:
            return None
        try:
            suffix = await lengths.fetch_suffix(2 * LENGTH_BYTES - 1)
        except FileNotFoundError:
            return None
        finally:
            await until_over(lengths.aclose())
        data = bytes(suffix.data)
        return last_length(data[(len(data) - suffix.file_length) % LENGTH_BYTES :])

    async def _take(self, source: ByteSource, length: int | None) -> bool:
        """Whether the file can be read up to `length` (None: as it is) from now on."""
        if length is None and self._ending is None and not self._saw_empty:
            # A writer makes its file before it makes the lengths: one that is empty may get them yet.
            suffix = await source.fetch_suffix(1)
            self._saw_empty = suffix.file_length == 0
            return not self._saw_empty
        await self._compare(source)
        return True

    async def _compare(self, source: ByteSource) -> None:
        if self._ending is None:
            return
        where, ending = self._ending
        found: BytesLike = b""
        with suppress(ShortRead):
            found = await source.fetch(where)
        if bytes(found) != ending:
            raise SourceChanged("another file has taken the place of the one that was followed", url=self.url)

    # --- as a source

    @property
    def file_length(self) -> int | None:
        if self._length is None and self._opened is not None:
            return self._opened.source.file_length
        return self._length

    @property
    def fingerprint(self) -> str:
        return self._opened.source.fingerprint if self._opened is not None and self.is_complete else ""

    def pin(self, file_length: int, fingerprint: str) -> None:  # noqa: ARG002 - of the contract
        raise UsageError("a tail of another time says nothing about a file that grows", url=self.url)

    async def fetch_suffix(self, length: int) -> Suffix:
        opened = self._current()
        if self.is_complete:
            return await opened.source.fetch_suffix(length)
        stop = self._length or 0
        where = ByteRange(max(0, stop - length), stop)
        data = await self.fetch(where)
        start = max(where.start, stop - ENDING_BYTES)
        self._ending = ByteRange(start, stop), bytes(memoryview(data)[start - where.start :])
        return Suffix(data, stop, "")

    async def fetch(self, range: ByteRange, on_bytes: OnBytes | None = None) -> BytesLike:
        opened = self._current()
        opened.user_count += 1
        try:
            # Of a file that grows, `verify` says whose bytes they were, and only afterwards.
            return await opened.source.fetch(range, on_bytes if self.is_complete else None)
        finally:
            await opened.leave()

    async def verify(self) -> None:
        opened = self._current()
        if self.is_complete:
            await opened.source.verify()
            return
        opened.user_count += 1
        try:
            await self._compare(opened.source)
        finally:
            await opened.leave()

    async def aclose(self) -> None:
        self._is_closed = True
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.leave()

    def _current(self) -> _Opened:
        if self._opened is None:
            raise SourceError("nothing of the file can be read yet, or any more", url=self.url)
        return self._opened
