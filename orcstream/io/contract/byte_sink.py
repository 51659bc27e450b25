"""What a sink of bytes is: the contract that every store is brought to, and what prepares and commits files.

Knows parts, options, temporaries and what is left of them, and when a commit by requests is sent again.
Must not know any store, nor what the bytes mean.

A file is written in four steps. `write` appends; whole parts leave for the store while more is written.
`prepare` answers when all bytes are durable, and none visible: a `Prepared` is a value, may be pickled, and
may be committed by another task, loop, process or host. `commit` (in `io.sink`) makes the file visible,
whole and at once; an earlier file of that name is there until then. `abort`, or `discard` of what was
prepared, leaves nothing. Commit and discard may be repeated, also after they failed or were cancelled.

Errors of all sinks: `FileNotFoundError`, `PermissionError`, `FileExistsError` (with ``overwrite=False``),
`IsADirectoryError`, `Unsupported`, `UsageError`; `SinkError` for the rest.
"""

from __future__ import annotations

import errno
import os
import posixpath
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, Protocol, TypeVar, runtime_checkable
from uuid import uuid4

from orcstream._credentials import strip_credentials
from orcstream._keywords import check_options, options_of
from orcstream.byterange import ByteRange, BytesLike
from orcstream.errors import CommitUnknown, OrcError, RetriesExhausted, SinkError, UsageError
from orcstream.io.contract.byte_source import RetryPolicy
from orcstream.io.loop.clients import Lease

S = TypeVar("S", bound="State")
F = TypeVar("F", bound="MovedFile")

# Names of files may have 255 bytes on most file systems.
LONGEST_NAME_BYTES = 255
TEMPORARY = re.compile(r"\.(?P<name>.+)\.orcstream-[0-9a-f]{32}\.tmp", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """`part_bytes` in a part, at most `upload_cap` of them under way; `in_flight_bytes` in memory in all.

    One part is always admitted, whatever `in_flight_bytes` is. S3 takes no part below 5 MiB but the last, and
    no more than 10,000: parts grow once 1,500 of them were written. A failed request is sent again up to
    `retries` times; each attempt may take `timeout_s` seconds, plus one for each 64 KiB of its part, and an
    abort `abort_timeout_s` in all. S3 is given up earlier when it takes no byte of a part for
    `stall_timeout_s` seconds.
    `allow_non_atomic` also writes to stores that cannot make a file appear at once.
    """

    part_bytes: int = 8 << 20
    upload_cap: int = 8
    in_flight_bytes: int = 64 << 20
    retries: int = 5
    timeout_s: float = 60.0
    stall_timeout_s: float = 20.0
    abort_timeout_s: float = 30.0
    allow_non_atomic: bool = False

    def __post_init__(self) -> None:
        check_options(
            self,
            "sink_options",
            integers={"part_bytes": 1, "upload_cap": 1, "in_flight_bytes": 1, "retries": 0},
            numbers=("timeout_s", "stall_timeout_s", "abort_timeout_s"),
            flags=("allow_non_atomic",),
        )

    @classmethod
    def of(cls, value: SinkOptions | Mapping[str, Any] | None) -> SinkOptions:
        """The options as given by the user: themselves, a dictionary of their fields, or None."""
        return options_of(cls, "sink_options", value)


class State(Protocol):
    """What a store needs to commit or discard a prepared file; a value."""

    @property
    def remains(self) -> str:
        """The name of what lies in the store, for messages; empty for nothing."""


@dataclass(frozen=True, slots=True)
class MovedFile:
    """The state of a file that lies beside its target until the commit moves it there."""

    path: str
    temporary: str

    @property
    def remains(self) -> str:
        return self.temporary


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A file that is complete and durable, but not visible. A plain value: it holds nothing open.

    `url` is as it was given, credentials and all; `shown` may be printed. `length` is in bytes; `overwrite`
    says whether the commit may replace a file. `state` is the store's own: the
    name of a temporary, or the id of an upload and its parts.
    """

    url: str = field(repr=False)
    length: int
    overwrite: bool
    state: State

    @property
    def shown(self) -> str:
        """The URL without credentials."""
        return strip_credentials(self.url)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """What a writer that was killed left behind, of the file `url`.

    `kind` is ``temporary`` or ``upload``, `identity` the path of the one, or the id of the other.
    `age_s` is None where the store does not say.
    """

    url: str
    kind: Literal["temporary", "upload"]
    identity: str
    age_s: float | None


class ByteSink(Protocol):
    """One file in the making. Belongs to the loop it was opened in; one task at a time may write."""

    @property
    def url(self) -> str:
        """What the user named, without credentials."""

    @property
    def length(self) -> int:
        """The bytes written so far."""

    @property
    def held_bytes(self) -> int:
        """Memory taken by parts that are filled or under way."""

    async def write(self, data: BytesLike) -> None:
        """Append a copy of `data`; waits while too many bytes are under way.

        A failure of an earlier part is raised here. After an error or a cancellation only `abort` is left.
        """

    async def copy(self, source: str, range: ByteRange, fingerprint: str) -> bool:
        """Append `range` of another file of the store, which copies it by itself; False where it does not.

        `source` is reached with this sink's storage options, and must still be what had this `fingerprint`:
        else `SourceChanged`, here or later. After False nothing was appended: the caller writes the bytes.
        """

    async def prepare(self) -> Prepared:
        """Wait until everything is durable; may be called again."""

    async def abort(self) -> None:
        """Leave nothing behind and close. Not cancelled, bounded in time, may be called again.

        `SinkError` where the store would not let go: then `cleanup` finds the rest later.
        """

    async def aclose(self) -> None:
        """Give back what the sink holds; aborts what was not prepared."""


class Upload(Protocol):
    """What a store does for one sink. Each call may fail with `Transient` and be made again."""

    @property
    def retries_parts(self) -> bool:
        """Whether a part may be sent again after a failure."""

    async def begin(self) -> None: ...

    async def put(self, number: int, offset: int, data: bytes) -> None:
        """Part `number`, from 1, whose first byte is the file's byte `offset`."""

    async def finish(self, length: int) -> State:
        """Make everything durable; answers the state that `commit` needs."""

    async def discard(self) -> None:
        """Leave nothing, whatever was begun, finished or lost; called when no other call is under way."""

    @property
    def remains(self) -> str:
        """What a discard has still to remove, for messages; empty for nothing."""


@runtime_checkable
class CopyingUpload(Protocol):
    """An `Upload` of a store that makes parts of other files."""

    def can_copy(self, source: str, fingerprint: str) -> bool:
        """Whether `source` lies in the same store, and can be told from its later versions."""

    async def put_copy(self, number: int, source: str, range: ByteRange, fingerprint: str) -> None:
        """Part `number` from the store's own copy of `range`."""

    async def fetch(self, source: str, range: ByteRange, fingerprint: str) -> bytes:
        """What is too short for a part."""


class Store(Protocol):
    """One URL of a store, and what may be done there."""

    @property
    def part_cap(self) -> int | None:
        """How many parts a file may have."""

    @property
    def smallest_part_bytes(self) -> int: ...

    @property
    def upload_cap(self) -> int | None:
        """How many parts may be under way at once."""

    def new_upload(self, options: SinkOptions) -> Upload: ...

    async def commit(self, prepared: Prepared, options: SinkOptions) -> None: ...

    async def discard(self, prepared: Prepared) -> None: ...

    async def cleanup(self, older_than_s: float, *, containing: str, remove: bool) -> list[Leftover]:
        """Of what is so old, in seconds (0: of everything), what has this text in its path."""

    async def aclose(self) -> None: ...


def policy_of(options: SinkOptions) -> RetryPolicy:
    """How requests of a sink are sent again."""
    return RetryPolicy(retries=options.retries, timeout_s=options.timeout_s)


def temporary_name(name: str) -> str:
    """A hidden name beside `name` that no two writers share, and that `cleanup` knows again."""
    ending = f".orcstream-{uuid4().hex}.tmp"
    room = LONGEST_NAME_BYTES - len(ending) - 1
    shortened = os.fsdecode(os.fsencode(name)[:room])
    return f".{shortened}{ending}"


def is_temporary_of(candidate: str, name: str | None) -> bool:
    """Whether `candidate` is a temporary of the file `name`, or of any file."""
    match = TEMPORARY.fullmatch(candidate)
    if match is None or name is None:
        return match is not None
    room = LONGEST_NAME_BYTES - (len(candidate) - len(match["name"]))
    return match["name"] == os.fsdecode(os.fsencode(name)[:room])


def state_of(prepared: Prepared, kind: type[S], how: str) -> S:
    """The state of a file that was prepared by the store that is asked; `how` ends the error's sentence."""
    if not isinstance(prepared.state, kind):
        raise UsageError(f"this was not prepared {how}", url=prepared.shown)
    return prepared.state


def already_there(url: str) -> FileExistsError:
    return FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), url)


def no_parts_left(url: str, part_cap: int) -> SinkError:
    return SinkError(f"the file has more than {part_cap} parts: larger part_bytes are needed", url=url)


# --- stores that commit by requests ----------------------------------------------------------------


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
                reason = error.message if isinstance(error, OrcError) else error.strerror or str(error)
                raise self._unknown(state, reason) from error

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
