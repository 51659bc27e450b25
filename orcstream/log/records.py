"""The records of a log: small JSON files in one folder, written where there is none, read back, numbered.

Knows how a record is written and read: it is there whole or not at all, and of several programs that write
one of the same name one is first. Must not know what records say.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

from orcstream.errors import FormatError, Unsupported
from orcstream.io import small_files
from orcstream.io.contract.folder import ListedFile
from orcstream.io.folders import list_files, remove_files

T = TypeVar("T")

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Records:
    """The records of the folder `url`."""

    url: str = field(repr=False)
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)
    sink_options: Any = field(default=None, repr=False)

    async def listed(self) -> list[ListedFile]:
        """The files of the folder, by one listing; none where there is no folder."""
        try:
            return await list_files(self.url, storage_options=self.storage_options)
        except FileNotFoundError:
            return []

    async def put(self, name: str, record: Mapping[str, Any], *, overwrite: bool = True) -> None:
        """Write a record; `FileExistsError` with ``overwrite=False`` where there is one."""
        data = json.dumps({"version": _VERSION, **record}, ensure_ascii=False, indent=1).encode()
        await self.put_bytes(name, data, overwrite=overwrite)

    async def put_first(self, name: str, record: Mapping[str, Any]) -> bool:
        """Write a record that is never replaced; false where another writer was first."""
        try:
            await self.put(name, record, overwrite=False)
        except FileExistsError:
            return False
        return True

    async def put_bytes(self, name: str, data: bytes, *, overwrite: bool) -> None:
        """Write a file that is no JSON, under the same rules."""
        await small_files.put(
            self.url_of(name),
            data,
            overwrite=overwrite,
            storage_options=self.storage_options,
            sink_options=self.sink_options,
        )

    async def get(self, name: str) -> dict[str, Any]:
        """Read a record. `FileNotFoundError` where there is none, `FormatError` where it is no record."""
        return await read_record(self.url_of(name), self.storage_options)

    async def get_bytes(self, name: str) -> bytes:
        """Read a file that is no JSON."""
        return await small_files.get(self.url_of(name), storage_options=self.storage_options)

    async def read(self, name: str, parse: Callable[[Mapping[str, Any]], T]) -> T:
        """Read and parse a record. `FormatError` where `parse` finds that it is damaged."""
        record = await self.get(name)
        with parsing(self.url_of(name)):
            return parse(record)

    async def remove(self, names: Iterable[str]) -> None:
        """Remove records; those that are gone already are no failure."""
        found = list(names)
        if found:
            await remove_files(self.url, found, storage_options=self.storage_options)

    def url_of(self, name: str) -> str:
        """The URL of a record."""
        return f"{self.url.rstrip('/')}/{name}"


@dataclass(slots=True)
class KnownRecords:
    """The records of a folder as one listing had them, with the changes since.

    `pattern` matches their names; its groups `number` and `kind` say which record it is.
    """

    records: Records
    pattern: re.Pattern[str]
    names: set[str] = field(default_factory=set)

    @classmethod
    async def open(cls, records: Records, pattern: re.Pattern[str]) -> Self:
        """With one listing."""
        found = [one.path for one in await records.listed()]
        return cls(records, pattern, {name for name in found if pattern.fullmatch(name)})

    def numbers(self, kind: str) -> list[int]:
        """The numbers of the records of one kind."""
        return [int(match["number"]) for match in self.matches() if match["kind"] == kind]

    def matches(self) -> Iterator[re.Match[str]]:
        """The names, each as the pattern matches it."""
        return filter(None, map(self.pattern.fullmatch, self.names))

    async def put(self, name: str, record: Mapping[str, Any]) -> None:
        """Write a record, in place of the one that is there."""
        await self.records.put(name, record)
        self.names.add(name)

    async def put_first(self, name: str, record: Mapping[str, Any]) -> bool:
        """Write a record that is never replaced; false where another writer was first."""
        is_first = await self.records.put_first(name, record)
        self.names.add(name)
        return is_first

    async def put_bytes(self, name: str, data: bytes) -> None:
        """Write a file that is no JSON, in place of the one that is there."""
        await self.records.put_bytes(name, data, overwrite=True)
        self.names.add(name)

    async def remove(self, names: Iterable[str]) -> None:
        """Remove records; those that are gone already are no failure."""
        found = list(names)
        await self.records.remove(found)
        self.names.difference_update(found)


async def read_record(url: str, storage_options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Read a record of any kind. Raises `FormatError`, and `Unsupported` for later versions."""
    data = await small_files.get(url, storage_options=storage_options)
    try:
        record = dict(json.loads(data))
    except (ValueError, TypeError, RecursionError) as error:
        raise FormatError(f"this is no record of a log: {error}", url=url) from None
    if record.get("version") != _VERSION:
        raise Unsupported(
            f"the record is of version {record.get('version')}; a later orcstream has written it",
            reason="log_version",
            url=url,
        )
    return record


@contextmanager
def parsing(url: str) -> Iterator[None]:
    """Turn errors about the contents of a record into a `FormatError` that names it."""
    try:
        yield
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        said = error if isinstance(error, ValueError) else repr(error)
        raise FormatError(f"the record is damaged: {said}", url=url) from None
