"""Records that outlive a program: small JSON files in one folder.

Knows how a record is written and read: it is there whole or not at all, and one that must not be replaced is
written by one of several programs. Must not know what records say.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from orcstream.errors import FormatError, Unsupported
from orcstream.io import small_files
from orcstream.io.contract.folder import ListedFile
from orcstream.io.folders import list_files, remove_files

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Records:
    """The records of the folder `url`."""

    url: str = field(repr=False)
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)
    sink_options: Any = field(default=None, repr=False)

    async def listed(self) -> list[ListedFile]:
        """Those that there are, by one listing; none where there is no folder."""
        try:
            found = await list_files(self.url, storage_options=self.storage_options)
        except FileNotFoundError:
            return []
        return [one for one in found if one.path.endswith(".json")]

    async def names(self) -> set[str]:
        """The names of those that there are."""
        return {one.path for one in await self.listed()}

    async def put(self, name: str, record: Mapping[str, Any], *, overwrite: bool = False) -> None:
        """Write one; `FileExistsError` where there is one and it is not to be replaced."""
        data = json.dumps({"version": _VERSION, **record}, ensure_ascii=False, indent=1).encode()
        await small_files.put(
            self.url_of(name),
            data,
            overwrite=overwrite,
            storage_options=self.storage_options,
            sink_options=self.sink_options,
        )

    async def get(self, name: str) -> dict[str, Any]:
        """Read one. `FileNotFoundError` where there is none, `FormatError` where it is no record."""
        return await read_record(self.url_of(name), self.storage_options)

    async def remove(self, names: Iterable[str]) -> None:
        """Those that are gone already are no failure."""
        found = list(names)
        if found:
            await remove_files(self.url, found, storage_options=self.storage_options)

    def url_of(self, name: str) -> str:
        """The URL of one."""
        return f"{self.url.rstrip('/')}/{name}"


async def read_record(url: str, storage_options: Mapping[str, Any] | None) -> dict[str, Any]:
    """A record of any kind. Raises `FormatError`, and `Unsupported` for later versions."""
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
