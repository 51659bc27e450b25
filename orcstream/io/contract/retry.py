"""When a failed request is sent again, and when not.

Knows attempts, waits and which failures pass. Must not know any store: sources say `Transient` where
another attempt may help. Sleeping and chance come in as functions, so that tests need neither.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

import anyio
import anyio.lowlevel

from orcstream._credentials import strip_text
from orcstream._printable import logger_of, printable
from orcstream.errors import CommitUnknown, OrcError, RetriesExhausted, ShortRead
from orcstream.io.contract.byte_source import Transient
from orcstream.io.options import IoOptions

T = TypeVar("T")

_logger = logger_of("orcstream.io")

# A store that lost the answer to a commit is asked so often what became of it.
COMMIT_ATTEMPTS = 3
FIRST_WAIT_S = 0.1
LONGEST_WAIT_S = 10.0
# Bytes a second of one connection among several that share a slow line: what moves so fast is waited for.
SLOWEST_BANDWIDTH = 64 << 10


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
