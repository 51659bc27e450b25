"""The error tree, sorted by blame: you, the file, the format's limits here, the keys, the world.

Knows nothing of the rest of the package but how URLs are shown. Every error carries where it
happened as attributes (`url`, `stripe`, `column`, `stream_kind`, `file_offset`; None where unknown), so
programs never parse messages. Inner layers raise with what they know; outer layers add the rest with
`OrcError.locate`, which never overwrites a value that is already there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self, TypedDict, Unpack

from orcstream._credentials import strip_credentials
from orcstream._printable import printable_lines

__all__ = [
    "ColumnNotFound",
    "CommitFailed",
    "CommitUnknown",
    "CorruptStream",
    "CorruptStripe",
    "CorruptTail",
    "FormatError",
    "KeyUnavailable",
    "NotOrcFile",
    "OrcError",
    "RetriesExhausted",
    "SchemaMismatch",
    "ShortRead",
    "SinkError",
    "SourceChanged",
    "SourceError",
    "Unsupported",
    "UsageError",
]


class Place(TypedDict, total=False):
    """Where an error happened: the attributes of `OrcError` with these names."""

    url: str | None
    stripe: int | None
    column: int | None
    stream_kind: str | None
    row: int | None
    file_offset: int | None


class OrcError(Exception):
    """Base of all errors of this package.

    Attributes: `message`, and the place: `url` (whatever was given, without credentials), `stripe`
    (0-based), `column` (column id of the file's schema), `stream_kind` (the specification's name, e.g.
    ``"DATA"``), `row` (0-based row of the file) and `file_offset` (bytes).
    """

    def __init__(self, message: str, **place: Unpack[Place]) -> None:
        super().__init__(message)
        self.message = message
        self.url: str | None = None
        self.stripe: int | None = None
        self.column: int | None = None
        self.stream_kind: str | None = None
        self.row: int | None = None
        self.file_offset: int | None = None
        self.locate(**place)

    def locate(self, **place: Unpack[Place]) -> Self:
        """Fill in what is not known yet of the place; answers the error itself.

        `place` has values of `url`, `stripe`, `column`, `stream_kind`, `row` and `file_offset`.
        """
        known = vars(self)
        for name, value in place.items():
            if name not in Place.__annotations__:
                raise TypeError(f"{type(self).__name__} has no {name!r}")
            if known[name] is None and value is not None:
                known[name] = strip_credentials(str(value)) if name == "url" else value
        return self

    def __str__(self) -> str:
        parts = {
            "stripe": self.stripe,
            "column": self.column,
            "stream": self.stream_kind,
            "row": self.row,
            "file offset": self.file_offset,
        }
        place = ", ".join(f"{name} {value}" for name, value in parts.items() if value is not None)
        text = f"{self.message} ({place})" if place else self.message
        return printable_lines(f"{self.url}: {text}" if self.url else text)

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions pickle by their positional arguments; the place lives in __dict__.
        return (_rebuild, (type(self), self.message, dict(self.__dict__)))


@contextmanager
def located(**place: Unpack[Place]) -> Iterator[None]:
    """Errors that leave the block say where they happened: the keywords of `OrcError.locate`.

    Memory that the system refuses is an error of ours, too.
    """
    try:
        yield
    except MemoryError as error:
        raise out_of_memory(error).locate(**place) from error
    except OrcError as error:
        error.locate(**place)
        raise


def out_of_memory(error: MemoryError) -> OrcError:
    """What is raised where the system has no memory left."""
    size = f" for {error}" if str(error) else ""
    return Unsupported(
        f"the process has no memory left{size}; lower memory_limit=, or give it more", reason="out_of_memory"
    )


def _rebuild(cls: type[OrcError], message: str, state: dict[str, object]) -> OrcError:
    error = cls.__new__(cls)
    Exception.__init__(error, message)
    error.__dict__.update(state)
    return error


class UsageError(OrcError, ValueError):
    """The call cannot be carried out as asked: the caller has to change it."""


class ColumnNotFound(UsageError):
    """A column name that the file's schema does not have."""


class SchemaMismatch(UsageError):
    """Data or a requested schema that does not fit the file's schema."""


class FormatError(OrcError):
    """The bytes are not what the ORC specification allows."""


class NotOrcFile(FormatError):
    """The object is no ORC file at all."""


class CorruptTail(FormatError):
    """Postscript, file footer or file metadata are damaged."""


class CorruptStripe(FormatError):
    """A stripe footer or its index is damaged, or contradicts the file footer."""


class CorruptStream(FormatError):
    """A stream's bytes cannot be decompressed or decoded."""


class Unsupported(OrcError, NotImplementedError):
    """Legal ORC that this package (or this call's options) cannot deliver.

    `reason` is machine-readable (lower-case words joined by underscores); the message names the option
    that helps, where one does.
    """

    def __init__(self, message: str, *, reason: str, **place: Unpack[Place]) -> None:
        super().__init__(message, **place)
        self.reason = reason


class KeyUnavailable(OrcError, PermissionError):
    """Real data of an encrypted column was demanded and its key cannot be had."""


class SourceError(OrcError, OSError):
    """The store failed while reading."""


class ShortRead(SourceError):
    """The store answered with fewer or more bytes than were asked for."""


class SourceChanged(SourceError):
    """The object is no longer the one that was opened."""


class RetriesExhausted(SourceError):
    """A request failed as often as the policy allows; the last failure is the cause."""


class SinkError(OrcError, OSError):
    """The store failed while writing."""


class CommitUnknown(SinkError):
    """The commit was sent and its outcome is not known."""


class CommitFailed(SinkError):
    """The commit was refused; nothing appeared."""
