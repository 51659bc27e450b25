"""Records that outlive a driver: small JSON files in one folder below a target.

Knows how a record is written and read: it is there whole or not at all, and one that must not be replaced is
written by one of several drivers. Must not know what records say.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from orcstream.errors import FormatError, Unsupported
from orcstream.io.folder import retried
from orcstream.io.folders import list_files
from orcstream.io.source import open_source
from orcstream.spark import written
from orcstream.spark.target import Target

__all__ = ["Records"]

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Records:
    """The records of one folder; `folder` is its path below the target."""

    target: Target
    folder: str

    async def names(self) -> set[str]:
        """Those that there are, by one listing."""
        try:
            found = await list_files(
                self.target.url_of(self.folder), storage_options=self.target.storage_options
            )
        except FileNotFoundError:
            return set()
        return {one.path for one in found if one.path.endswith(".json")}

    async def put(self, name: str, record: dict[str, Any], *, overwrite: bool = False) -> None:
        """Write one; `FileExistsError` where there is one and it is not to be replaced."""
        data = json.dumps({"version": _VERSION, **record}, ensure_ascii=False, indent=1).encode()
        await written.put(self.target, f"{self.folder}/{name}", data, overwrite=overwrite)

    async def get(self, name: str) -> dict[str, Any]:
        """Read one. `FileNotFoundError` where there is none, `FormatError` where it is no record."""
        url = self.target.url_of(f"{self.folder}/{name}")
        data = await retried(lambda: _read(url, self.target), url)
        try:
            record = dict(json.loads(data))
        except (ValueError, TypeError) as error:
            raise FormatError(f"this is no record of a job: {error}", url=url) from None
        if record.get("version") != _VERSION:
            raise Unsupported(
                f"the record is of version {record.get('version')}; a later orcstream has written it",
                reason="log_version",
                url=url,
            )
        return record

    async def remove(self, names: list[str]) -> None:
        """Those that are gone already are no failure."""
        await written.remove_paths(self.target, [f"{self.folder}/{name}" for name in names])


async def _read(url: str, target: Target) -> bytes:
    source = await open_source(url, storage_options=target.storage_options, io_options=None)
    try:
        found = await source.fetch_suffix(1 << 20)
        if found.file_length > len(found.data):
            found = await source.fetch_suffix(found.file_length)
        return bytes(found.data)
    finally:
        await source.aclose()
