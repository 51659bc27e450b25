"""What a source of bytes is: the contract that every store is brought to, and how requests are sent.

Knows ranges, fingerprints, attempts, waits and what users tune of them (`IoOptions`). Must not know any
store, nor what the bytes mean.

A source is *pinned* to one version of its object by the first `fetch_suffix`, or by `pin` when the tail is
known from elsewhere. From then on no bytes of another version are handed out unnoticed: where the transport
can make requests conditional, `fetch` raises `SourceChanged`; elsewhere `verify` does, and bytes fetched
since the last `verify` are only as good as the next one.

Errors of all sources: `FileNotFoundError`, `PermissionError`, `ShortRead`, `SourceChanged`, `Unsupported`,
`UsageError`; `SourceError` for the rest, of which `Transient` ones are worth another attempt. `RetryPolicy`
makes it; it sleeps and draws by functions that come in, so that tests need neither.
"""

from __future__ import annotations

import errno
import math
import os
import random
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias, TypeVar

import anyio
import anyio.lowlevel

from orcstream._credentials import strip_text
from orcstream._keywords import check_options, options_of
from orcstream._printable import logger_of, printable
from orcstream.byterange import ByteRange, BytesLike, CostModel, RangeBuffer
from orcstream.errors import (
    CommitUnknown,
    OrcError,
    RetriesExhausted,
    ShortRead,
    SourceChanged,
    SourceError,
    UsageError,
)
from orcstream.io.loop.clients import Lease

_logger = logger_of("orcstream.io")

T = TypeVar("T")

# HTTP statuses that another attempt may not meet; 509 and 52x are what content networks say of a store
# that is slow behind them.
TRANSIENT_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504, 509, 520, 521, 522, 523, 524})

# A store that lost the answer to a commit is asked so often what became of it.
COMMIT_ATTEMPTS = 3

FIRST_WAIT_S = 0.1
LONGEST_WAIT_S = 10.0
# Bytes a second of one connection among several that share a slow line: what moves so fast is waited for.
SLOWEST_BANDWIDTH = 64 << 10

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


# --- how requests are sent -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class IoOptions:
    """How the user tunes reading from a store; None means what suits the kind of source.

    `request_cap` requests at once, `part_bytes` in the longest, `tail_bytes` in the first. Of an open file up
    to `remembered_bytes` of stripe footers and indexes are kept, those that were used last: what is read of
    the same stripes again does not ask for them.

    A failed request is sent again up to `retries` times. An attempt is given up when nothing arrives for
    `stall_timeout_s` seconds (S3, HTTP and WebHDFS), and when it is not over after `timeout_s` seconds, plus
    one for each 64 KiB that are asked for.
    Which gaps are read and how long parts are follows from the store's latency and bandwidth: measured while
    reading, unless `adaptive` is False (then a read's requests are the same each time), or as named by
    `latency_s` (seconds for one request) and `bandwidth` (bytes a second, all connections together).
    With `hedge`, a request that takes longer than 99 in 100 like it did is sent a second time, at most one
    in 100; the first answer counts.
    """

    request_cap: int | None = None
    retries: int = 5
    timeout_s: float = 60.0
    stall_timeout_s: float = 10.0
    part_bytes: int | None = None
    tail_bytes: int | None = None
    adaptive: bool = True
    hedge: bool = False
    latency_s: float | None = None
    bandwidth: float | None = None
    remembered_bytes: int = 2 << 20

    def __post_init__(self) -> None:
        check_options(
            self,
            "io_options",
            integers={
                "request_cap": 1,
                "part_bytes": 1,
                "tail_bytes": 1,
                "retries": 0,
                "remembered_bytes": 0,
            },
            numbers=("timeout_s", "stall_timeout_s", "latency_s", "bandwidth"),
            flags=("adaptive", "hedge"),
            may_be_none=("request_cap", "part_bytes", "tail_bytes", "latency_s", "bandwidth"),
        )
        if max(self.latency_s or 0, self.bandwidth or 0) == math.inf:
            raise UsageError("io_options: latency_s and bandwidth must be finite")

    @classmethod
    def of(cls, value: IoOptions | Mapping[str, Any] | None) -> IoOptions:
        """The options as given by the user: themselves, a dictionary of their fields, or None."""
        return options_of(cls, "io_options", value)

    def tune(self, cost: CostModel) -> CostModel:
        """`cost` with what the user decided; what the user names is not measured."""
        named = self.latency_s is not None or self.bandwidth is not None
        return replace(
            cost,
            request_cap=self.request_cap or cost.request_cap,
            part_bytes=self.part_bytes or cost.part_bytes,
            tail_bytes=self.tail_bytes or cost.tail_bytes,
            latency_s=cost.latency_s if self.latency_s is None else self.latency_s,
            bandwidth=self.bandwidth or cost.bandwidth,
            adaptive=cost.adaptive and self.adaptive and not named,
        )


def is_transient(error: Exception) -> bool:
    """Whether another attempt may succeed. A missing file stays missing and a refusal stays a refusal."""
    if isinstance(error, Transient | ShortRead):
        return True
    return isinstance(error, TimeoutError | ConnectionError) and not isinstance(error, OrcError)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Up to `retries` further attempts, each at most `limit_s` long, waits doubling from 0.1 to 10 s.

    Of each wait, half is fixed and half is drawn, so that requests that failed together do not return
    together. A store that names a time to wait gets it, up to the longest wait. `hedge` says whether the
    scheduler may send a second request beside one that is slow (`io.request.estimate`).
    """

    retries: int
    timeout_s: float
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep
    draw: Callable[[], float] = random.random
    hedge: bool = False

    @classmethod
    def of(cls, options: IoOptions) -> RetryPolicy:
        return cls(retries=options.retries, timeout_s=options.timeout_s, hedge=options.hedge)

    def limit_s(self, byte_count: int) -> float:
        """How long an attempt that moves so many bytes may take."""
        return self.timeout_s + byte_count / SLOWEST_BANDWIDTH

    async def run(
        self,
        attempt: Callable[[], Awaitable[T]],
        *,
        url: str,
        byte_count: int = 0,
        on_retry: Callable[[], None] | None = None,
    ) -> T:
        """The result of the first attempt that succeeds; `RetriesExhausted` from the last failure."""
        failure_count = 0
        limit_s = self.limit_s(byte_count)
        while True:
            try:
                with anyio.fail_after(limit_s):
                    return await attempt()
            except Exception as error:
                if not is_transient(error):
                    raise
                if failure_count == self.retries:
                    reason = str(error).removeprefix(f"{printable(url)}: ")
                    reason = reason or f"no answer within {_shown(limit_s)} s"
                    times = "once" if failure_count == 0 else f"{failure_count + 1} times"
                    raise RetriesExhausted(f"a request failed {times}, at last: {reason}", url=url) from error
                wait_s = self._wait_s(failure_count, error)
                _logger.info(
                    "%s: attempt %d failed, the next is in %.1f s: %s",
                    url,
                    failure_count + 1,
                    wait_s,
                    strip_text(str(error)) or "no answer in time",
                )
            failure_count += 1
            if on_retry is not None:
                on_retry()
            await self.sleep(wait_s)

    def _wait_s(self, failure_count: int, error: Exception) -> float:
        wait_s = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(failure_count, 30))
        wait_s *= 0.5 + 0.5 * self.draw()
        asked_s = error.retry_after_s if isinstance(error, Transient) else 0.0
        return max(wait_s, min(asked_s, LONGEST_WAIT_S))


async def retry_commit(commit: Callable[[], Awaitable[T]]) -> T:
    """Commit, and again where the answer was lost: a repeated commit finds out what became of the first."""
    for _ in range(COMMIT_ATTEMPTS - 1):
        try:
            return await commit()
        except CommitUnknown:
            await anyio.lowlevel.checkpoint()
    return await commit()


def _shown(seconds: float) -> str:
    return f"{seconds:.3g}" if seconds < 100 else f"{seconds:,.0f}"
