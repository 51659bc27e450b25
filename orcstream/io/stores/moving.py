"""Stores where a file lies under a hidden name beside its target until the commit moves it there.

Knows when a move is sent again, and what is known of one whose answers were lost. Must not know how a store
moves files.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from orcstream.errors import CommitUnknown, RetriesExhausted
from orcstream.io.contract.byte_sink import MovedFile, SinkOptions
from orcstream.io.loop.clients import Lease
from orcstream.io.request.part_sink import policy_of

__all__ = ["MovingStore"]


class MovingStore:
    """What such stores share. Their attempts keep `_unsettled` true to its comment."""

    part_cap = None
    smallest_part_bytes = 1
    upload_cap = 1  # a file is written from its first byte to its last

    def __init__(self, lease: Lease[Any], path: str, url: str) -> None:
        self._lease = lease
        self._path = path
        self._url = url
        self._unsettled = False  # whether a move was sent whose outcome is not known

    async def _settle(
        self, attempt: Callable[[], Awaitable[None]], file: MovedFile, options: SinkOptions
    ) -> None:
        """Make attempts to move the file; `CommitUnknown` where it may have been moved by one that failed."""
        self._unsettled = False
        try:
            await policy_of(options).run(attempt, url=self._url)
        except RetriesExhausted as error:
            if not self._unsettled:
                raise
            raise CommitUnknown(
                f"the answer to the move was lost; the file is there if {file.temporary} is not; committing "
                "again, or discarding, settles it",
                url=self._url,
            ) from error

    async def aclose(self) -> None:
        await self._lease.aclose()
