"""Opening a file: the source, the first wave, and what the user says about the file's times.

Knows how the tail is fetched. The defaults of opening live here; those of reading in `reader.file`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, TypeAlias

from orcstream.byterange import ByteRange, BytesLike, RangeBuffer
from orcstream.errors import OrcError, UsageError
from orcstream.io.options import IoOptions
from orcstream.io.retry import RetryPolicy
from orcstream.io.source import open_source
from orcstream.plan.tail import Need, Tail, plan_tail
from orcstream.reader.file import OrcFile
from orcstream.reader.session import Session
from orcstream.reader.stripes import FileTimes
from orcstream.zones import load_zone

__all__ = ["OpenOptions", "Opening", "Url", "open"]

Url: TypeAlias = str | os.PathLike[str] | BytesLike

_CALENDARS = ("auto", "proleptic", "hybrid")

_logger = logging.getLogger("orcstream")


def open(  # noqa: A001  # the name users expect
    url: Url,
    *,
    storage_options: Mapping[str, Any] | None = None,
    io_options: IoOptions | Mapping[str, Any] | None = None,
    tail: Tail | BytesLike | None = None,
    timezone: str | None = None,
    default_timezone: str = "UTC",
    calendar: str = "auto",
) -> Opening:
    """Open an ORC file.

    Either ``async with orcstream.open(url) as file``, or ``file = await orcstream.open(url)`` and, at the
    end, ``await file.aclose()``.

    `url` is a path, any URL that fsspec knows, or the bytes of a file. `storage_options` go to fsspec
    untouched; `io_options` (`IoOptions` or a dictionary) tune requests. TIMESTAMP values are wall clock
    of the zone that each stripe names; `default_timezone` stands in where none is named, `timezone`
    overrides it. `calendar` says in which calendar days before 1582-10-15 are stored: "proleptic",
    "hybrid", or "auto" (what the file says; where it is silent, hybrid for ORC Java's files and
    proleptic for others', as their writers do).

    With `tail`, which is the `tail` of the same URL opened before, or its `to_bytes`, nothing is read. Should
    the object be another one meanwhile, the first step that reads raises `SourceChanged`; where the store
    has no fingerprints (some web servers; bytes), only the length of the file is compared.

    Raises `FileNotFoundError`, `PermissionError`, `NotOrcFile`, `CorruptTail`, `Unsupported`, `SourceError`;
    `UsageError` for options that cannot be, and for a `tail` that was damaged.
    """
    options = OpenOptions.of(storage_options, io_options, timezone, default_timezone, calendar)
    return Opening(url, options, tail)


@dataclass(frozen=True, slots=True)
class OpenOptions:
    """What opening is told besides the URL, checked."""

    storage_options: Mapping[str, Any] | None
    io_options: IoOptions
    times: FileTimes

    @classmethod
    def of(
        cls,
        storage_options: Mapping[str, Any] | None,
        io_options: IoOptions | Mapping[str, Any] | None,
        timezone: str | None,
        default_timezone: str,
        calendar: str,
    ) -> OpenOptions:
        if calendar not in _CALENDARS:
            raise UsageError(f"calendar must be one of {', '.join(_CALENDARS)}, not {calendar!r}")
        for name in (timezone, default_timezone):
            if name is not None:
                load_zone(name)
        times = FileTimes(timezone, default_timezone, calendar)
        return cls(storage_options, IoOptions.of(io_options), times)


class Opening:
    """An open under way: await it, or enter it."""

    def __init__(self, url: Url, options: OpenOptions, tail: Tail | BytesLike | None) -> None:
        self._url = url
        self._options = options
        self._tail = tail if tail is None or isinstance(tail, Tail) else Tail.from_bytes(tail)
        self._file: OrcFile | None = None

    def __await__(self) -> Generator[Any, None, OrcFile]:
        return self._open().__await__()

    async def __aenter__(self) -> OrcFile:
        self._file = await self._open()
        return self._file

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            await self._file.aclose()

    async def _open(self) -> OrcFile:
        options = self._options
        source = await open_source(
            self._url, storage_options=options.storage_options, io_options=options.io_options
        )
        session = Session(source, RetryPolicy.of(options.io_options))
        try:
            if self._tail is None:
                tail, cached = await _read_tail(session)
            else:
                tail, cached = _known_tail(session, self._tail)
        except BaseException as error:
            await session.aclose()
            if isinstance(error, OrcError):
                error.locate(url=source.url)
            raise
        if not tail.postscript.version_is_known:
            version = ".".join(str(part) for part in tail.postscript.version)
            _logger.warning("%s is of a later format version, %s; it is read like 0.12", source.url, version)
        return OrcFile(session, tail, cached, options.times)


def _known_tail(session: Session, tail: Tail) -> tuple[Tail, RangeBuffer]:
    """No wave: the source is held to the object that the tail is of."""
    session.source.pin(tail.file_length, tail.fingerprint)
    held = tail.held
    return tail, RangeBuffer(ByteRange(tail.file_length - len(held), tail.file_length), held)


async def _read_tail(session: Session) -> tuple[Tail, RangeBuffer]:
    """The first wave: one suffix read, and one more when the guess was too small."""
    suffix = await session.fetch_suffix(session.source.cost.tail_bytes)
    data = memoryview(suffix.data)
    planned = plan_tail(data, suffix.file_length)
    while isinstance(planned, Need):
        (more,) = await session.fetch([planned.range])
        await session.source.verify()
        data = memoryview(b"".join([more.view(more.range), data]))
        planned = plan_tail(data, suffix.file_length)
    start = suffix.file_length - len(data)
    planned = replace(planned, fingerprint=session.source.fingerprint)
    return planned, RangeBuffer(ByteRange(start, suffix.file_length), data)
