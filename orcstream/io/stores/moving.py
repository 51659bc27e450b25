"""Stores where a file lies under a hidden name beside its target until the commit moves it there.

Knows when a move is sent again, what is known of one whose answers were lost, and which files are leftovers.
Must not know how a store moves, lists or removes files.
"""

from __future__ import annotations

import posixpath
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from orcstream.errors import CommitUnknown, RetriesExhausted
from orcstream.io.contract.byte_sink import (
    Leftover,
    MovedFile,
    Prepared,
    SinkOptions,
    state_of,
    temporary_name,
)
from orcstream.io.loop.clients import Lease
from orcstream.io.request.part_sink import policy_of

F = TypeVar("F", bound=MovedFile)


@dataclass(frozen=True, slots=True)
class Temporary:
    """A temporary as a listing shows it; `modified_s` is None where the store does not say."""

    url: str
    path: str
    modified_s: float | None


class MovingStore(ABC, Generic[F]):
    """One path of such a store. Attempts to commit keep `_unsettled` true to its comment."""

    part_cap = None
    smallest_part_bytes = 1
    upload_cap = 1  # a file is written from its first byte to its last

    _kind: type[F]
    _how: str  # ends the error for what another store has prepared

    def __init__(self, lease: Lease[Any] | None, path: str, url: str) -> None:
        self._lease = lease
        self._path = path
        self._url = url
        self._unsettled = False  # whether a move was sent whose outcome is not known

    async def commit(self, prepared: Prepared, options: SinkOptions) -> None:
        """Make attempts to move the file; `CommitUnknown` where it may have been moved by one that failed."""
        file = state_of(prepared, self._kind, self._how)
        self._unsettled = False
        try:
            await policy_of(options).run(lambda: self._commit(file, prepared), url=self._url)
        except RetriesExhausted as error:
            if not self._unsettled:
                raise
            raise CommitUnknown(
                f"the answer to the move was lost; the file is there if {file.temporary} is not; committing "
                "again, or discarding, settles it",
                url=self._url,
            ) from error

    async def discard(self, prepared: Prepared) -> None:
        await self._remove(state_of(prepared, self._kind, self._how).temporary)

    async def cleanup(self, older_than_s: float, *, containing: str, remove: bool) -> list[Leftover]:
        found = []
        for one in sorted(await self._temporaries(), key=lambda one: one.path):
            age_s = None if one.modified_s is None else max(0.0, time.time() - one.modified_s)
            if containing not in one.path or (age_s or 0.0) < older_than_s:
                continue
            if remove:
                await self._remove(one.path)
            found.append(Leftover(url=one.url, kind="temporary", identity=one.path, age_s=age_s))
        return found

    async def aclose(self) -> None:
        if self._lease is not None:
            await self._lease.aclose()

    @abstractmethod
    async def _commit(self, file: F, prepared: Prepared) -> None:
        """One attempt to move the file, which another attempt may have moved already."""

    @abstractmethod
    async def _remove(self, path: str) -> None:
        """Remove a temporary; one that is gone is no failure."""

    @abstractmethod
    async def _temporaries(self) -> list[Temporary]:
        """The temporaries of the file, or all of them below the path if it is a folder."""


def temporary_beside(path: str) -> str:
    """A new temporary's path in the folder of `path`."""
    folder, name = posixpath.split(path)
    return posixpath.join(folder, temporary_name(name))
