"""Records that outlive a driver: small JSON files in one folder below a target.

Knows how a record is written and read: it is there whole or not at all, and one that must not be replaced is
written by one of several drivers. Must not know what records say.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from orcstream.io.folders import list_files
from orcstream.spark import written
from orcstream.spark.commit_records import read_record
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
        return await read_record(url, self.target.storage_options)

    async def remove(self, names: list[str]) -> None:
        """Those that are gone already are no failure."""
        await written.remove_paths(self.target, [f"{self.folder}/{name}" for name in names])
