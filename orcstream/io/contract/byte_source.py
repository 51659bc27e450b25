"""What a source of bytes is: the contract that every store is brought to.

Knows ranges and fingerprints. Must not know any store, nor what the bytes mean.

A source is *pinned* to one version of its object by the first `fetch_suffix`, or by `pin` when the tail is
known from elsewhere. From then on no bytes of another version are handed out unnoticed: where the transport
can make requests conditional, `fetch` raises `SourceChanged`; elsewhere `verify` does, and bytes fetched
since the last `verify` are only as good as the next one.

Errors of all sources: `FileNotFoundError`, `PermissionError`, `ShortRead`, `SourceChanged`, `Unsupported`,
`UsageError`; `SourceError` for the rest, of which `Transient` ones are worth another attempt.
"""

from __future__ import annotations

import errno
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from orcstream._printable import printable
from orcstream.byterange import ByteRange, BytesLike, CostModel, RangeBuffer
from orcstream.errors import ShortRead, SourceChanged, SourceError
from orcstream.io.loop.clients import Lease

# HTTP statuses that another attempt may not meet; 509 and 52x are what content networks say of a store
# that is slow behind them.
TRANSIENT_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504, 509, 520, 521, 522, 523, 524})

# Called with what is there of an answer while the rest is on its way.
OnBytes: TypeAlias = Callable[[RangeBuffer], None]


@dataclass(frozen=True, slots=True)
class Suffix:
    """The last bytes of a file (`data`); all of it when it is shorter than what was asked for.

    `file_length` is in bytes.
    `fingerprint` is opaque text that tells versions of the object apart, empty where the store has none.
    """

    data: BytesLike
    file_length: int
    fingerprint: str


class ByteSource(Protocol):
    """One immutable object of a store, read by ranges."""

    @property
    def url(self) -> str:
        """What the user opened, without credentials."""

    @property
    def cost(self) -> CostModel:
        """What requests cost here."""

    @property
    def file_length(self) -> int | None:
        """Known once the source is pinned."""

    @property
    def fingerprint(self) -> str:
        """The fingerprint the source is pinned to; empty while it is not."""

    def pin(self, file_length: int, fingerprint: str) -> None:
        """Hold every later fetch to the object of this `file_length` (bytes) and `fingerprint`."""

    async def fetch_suffix(self, length: int) -> Suffix:
        """The last `length` bytes, with the length of the file; one request where the store can."""

    async def fetch(self, range: ByteRange, on_bytes: OnBytes | None = None) -> BytesLike:
        """Exactly the bytes of `range`, or an error; `ShortRead` when the file ends before.

        `on_bytes` is told of the first bytes before the last ones are there, now and then or never; never
        before it is known that they are of the pinned version. What it was told stays good, should the rest
        not come.
        """

    async def verify(self) -> None:
        """Raise `SourceChanged` if the object is no longer the pinned one; free where `fetch` checks."""

    async def aclose(self) -> None:
        """Give back what the source holds; may be called again."""


class Transient(SourceError):
    """A failure of the store that another attempt may not meet; leaves this package only as a cause.

    `retry_after_s` is how long the store asked to be left alone.
    """

    def __init__(self, message: str, *, url: str | None = None, retry_after_s: float = 0.0) -> None:
        super().__init__(message, url=url)
        self.retry_after_s = retry_after_s


@dataclass(slots=True)
class Pin:
    """The version of the object that a source is held to."""

    url: str
    file_length: int | None = None
    fingerprint: str = ""

    def set(self, file_length: int, fingerprint: str) -> None:
        """Pin for the first time, or compare with the pin; an unknown fingerprint matches any."""
        if self.file_length is not None:
            self.check(file_length, fingerprint)
        self.file_length = file_length
        self.fingerprint = fingerprint or self.fingerprint

    def check(self, file_length: int | None, fingerprint: str) -> None:
        """Compare what a response said of its object; None and empty are "it did not say"."""
        if None not in (file_length, self.file_length) and file_length != self.file_length:
            raise SourceChanged(
                f"the object had {self.file_length} bytes when it was opened and has {file_length} now",
                url=self.url,
            )
        if fingerprint and self.fingerprint and fingerprint != self.fingerprint:
            raise SourceChanged("the object was replaced since it was opened", url=self.url)


class PinnedSource:
    """What sources that are held to one version of their object have in common; part of a `ByteSource`."""

    def __init__(self, cost: CostModel, url: str) -> None:
        self.url = url
        self.cost = cost
        self._pin = Pin(url)

    @property
    def file_length(self) -> int | None:
        return self._pin.file_length

    @property
    def fingerprint(self) -> str:
        return self._pin.fingerprint

    def pin(self, file_length: int, fingerprint: str) -> None:
        self._pin.set(file_length, fingerprint)

    async def verify(self) -> None:
        """Nothing is to be done where each fetch checks."""


class LeasedSource(PinnedSource):
    """Of a store that is asked through a shared client."""

    def __init__(self, lease: Lease[Any], cost: CostModel, url: str) -> None:
        super().__init__(cost, url)
        self._lease = lease

    async def aclose(self) -> None:
        await self._lease.aclose()


class StatusSource(LeasedSource, ABC):
    """One path of a store that has to be asked for length and version apart from the bytes."""

    def __init__(self, lease: Lease[Any], path: str, cost: CostModel, url: str) -> None:
        self._path = path
        super().__init__(lease, cost, url)

    @abstractmethod
    async def fetch(self, range: ByteRange, on_bytes: OnBytes | None = None) -> BytesLike: ...

    @abstractmethod
    async def _ask(self) -> tuple[int, str]:
        """The length of the file now, and its fingerprint."""

    async def fetch_suffix(self, length: int) -> Suffix:
        check_length(length)
        file_length, fingerprint = await self._ask()
        self._pin.set(file_length, fingerprint)
        data = await self.fetch(ByteRange(max(0, file_length - length), file_length))
        return Suffix(data, file_length, fingerprint)

    async def verify(self) -> None:
        self._pin.check(*await self._ask())


def check_length(length: int) -> None:
    if length < 1:
        raise ValueError(f"a suffix of {length} bytes")


def short_read(range: ByteRange, what: str, url: str) -> ShortRead:
    return ShortRead(
        f"bytes {range.start} to {range.stop} were asked for, {what}", url=url, file_offset=range.start
    )


def no_such_file(url: str, reason: str = "") -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, _because(errno.ENOENT, reason), url)


def not_permitted(url: str, reason: str = "") -> PermissionError:
    return PermissionError(errno.EACCES, _because(errno.EACCES, reason), url)


def _because(number: int, reason: str) -> str:
    """The system's words, and what the store says of it where it does."""
    return f"{os.strerror(number)} ({printable(reason)})" if reason else os.strerror(number)


def retry_after_s(headers: Mapping[str, str]) -> float:
    """How long a server asks to be left alone; 0 where it does not say, or names a date."""
    after = next((value for name, value in headers.items() if name.lower() == "retry-after"), "")
    return float(after) if after.isascii() and after.isdigit() else 0.0
