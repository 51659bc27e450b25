"""Stores that commit by requests, most of which move a file from a hidden name beside its target.

Knows when a commit is sent again, what is known of one whose answer was lost, and which files are leftovers.
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
    State,
    state_of,
    temporary_name,
)
from orcstream.io.loop.clients import Lease
from orcstream.io.request.part_sink import policy_of

S = TypeVar("S", bound=State)
F = TypeVar("F", bound=MovedFile)


class CommittingStore(ABC, Generic[S]):
    """One URL of a store that commits by requests. Attempts keep `_unsettled` true to its comment."""

    part_cap: int | None = None
    smallest_part_bytes = 1
    upload_cap: int | None = None

    _kind: type[S]
    _how: str  # ends the error for what another store has prepared

    def __init__(self, lease: Lease[Any] | None, url: str) -> None:
        self._lease = lease
        self._url = url
        self._unsettled = False  # whether a commit was sent whose outcome is not known

    async def commit(self, prepared: Prepared, options: SinkOptions) -> None:
        """Make attempts; `CommitUnknown` where one that failed may have been carried out nevertheless."""
        state = state_of(prepared, self._kind, self._how)
        self._unsettled = False
        try:
            await policy_of(options).run(lambda: self._commit(state, prepared), url=self._url)
        except (RetriesExhausted, PermissionError) as error:
            if not self._unsettled:
                raise
            if not await self._is_carried_out(state):
                raise self._unknown(state, str(error)) from error

    async def aclose(self) -> None:
        if self._lease is not None:
            await self._lease.aclose()

    @abstractmethod
    async def _commit(self, state: S, prepared: Prepared) -> None:
        """One attempt, after others that may have been carried out."""

    async def _is_carried_out(self, state: S) -> bool:  # noqa: ARG002 - for who can
        """Whether one of the attempts was, as far as can be seen after the last one."""
        return False

    @staticmethod
    @abstractmethod
    def _sign_of(state: S) -> str:
        """When the file is there, in words."""

    def _unknown(self, state: S, reason: str) -> CommitUnknown:
        return CommitUnknown(
            f"the answer to the commit was lost ({reason}). The file is there if {self._sign_of(state)}; "
            "committing again, or discarding, settles it",
            url=self._url,
        )


@dataclass(frozen=True, slots=True)
class Temporary:
    """A temporary as a listing shows it; `modified_s` is None where the store does not say."""

    url: str
    path: str
    modified_s: float | None


class MovingStore(CommittingStore[F]):
    """One path of a store where a file lies beside its target until the commit moves it there."""

    upload_cap = 1  # a file is written from its first byte to its last

    def __init__(self, lease: Lease[Any] | None, path: str, url: str) -> None:
        super().__init__(lease, url)
        self._path = path

    @staticmethod
    def _sign_of(state: F) -> str:
        return f"{state.temporary} is not"

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
