"""A table's directory as one reader sees it: listed, sorted into partitions, narrowed to a snapshot.

Knows how a listing becomes a snapshot, and the little files beside the rows. Must not know rows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from orcstream.acid.at_once import at_once
from orcstream.errors import located
from orcstream.io.folders import ListedFile, list_folder
from orcstream.io.options import IoOptions
from orcstream.io.source import open_source
from orcstream.plan.acid import (
    METADATA_FILE,
    AcidFile,
    Partition,
    PartitionListing,
    list_partitions,
    plan_snapshot,
    uncertain_bases,
)
from orcstream.plan.acid_names import AcidDirectory
from orcstream.plan.write_ids import WriteIds

__all__ = ["TableListing", "TableSnapshot", "list_table"]

_AT_ONCE = 16
_MOST_METADATA_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class TableListing:
    """What lies in a table's directory: `partitions` by path, `files` by path.

    `compacted` are bases that a compaction made although their names do not say so.
    """

    url: str
    partitions: Mapping[str, PartitionListing]
    files: Mapping[str, ListedFile]
    compacted: frozenset[tuple[str, AcidDirectory]]

    def snapshot(
        self, write_ids: WriteIds, transactions: WriteIds, *, history_is_whole: bool = False
    ) -> TableSnapshot:
        """What a reader of these write ids reads."""
        with located(url=self.url):
            partitions = tuple(
                plan_snapshot(
                    listing,
                    write_ids,
                    transactions,
                    compacted={directory for of, directory in self.compacted if of == path},
                    history_is_whole=history_is_whole,
                )
                for path, listing in sorted(self.partitions.items())
            )
        return TableSnapshot(self, write_ids, transactions, partitions)


@dataclass(frozen=True, slots=True)
class TableSnapshot:
    """A table as of some write ids."""

    listing: TableListing
    write_ids: WriteIds
    transactions: WriteIds
    partitions: tuple[Partition, ...]

    def url_of(self, file: AcidFile) -> str:
        """What opens a file."""
        return self.listing.files[file.path].url

    def versioned(self, partition: Partition) -> frozenset[AcidDirectory]:
        """The directories of a partition that are known to be of Hive 3 or later."""
        return frozenset(self.listing.partitions[partition.path].versioned)


async def list_table(url: str, shown: str, storage_options: Mapping[str, Any] | None) -> TableListing:
    """List a table's directory.

    Raises `FileNotFoundError` where there is none, and what `list_folder` raises.
    """
    found = await list_folder(url, storage_options=storage_options)
    files = {file.path: file for file in found.files}
    lengths = {path: file.length for path, file in files.items()}
    partitions = list_partitions(lengths, found.empty_folders)
    asked = [(path, base) for path, listing in partitions.items() for base in uncertain_bases(listing)]
    compacted: set[tuple[str, AcidDirectory]] = set()

    async def look(one: tuple[str, AcidDirectory]) -> None:
        path = "/".join(part for part in (one[0], one[1].name, METADATA_FILE) if part)
        if await _says_compacted(files[path], storage_options):
            compacted.add(one)

    await at_once(asked, look, _AT_ONCE)
    return TableListing(shown, partitions, files, frozenset(compacted))


async def _says_compacted(file: ListedFile, storage_options: Mapping[str, Any] | None) -> bool:
    """Whether a base's file says that a compaction made it; what cannot be read says nothing."""
    if not 0 < file.length <= _MOST_METADATA_BYTES:
        return False
    source = await open_source(file.url, storage_options=storage_options, io_options=IoOptions())
    try:
        data = bytes((await source.fetch_suffix(file.length)).data)
    finally:
        await source.aclose()
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and found.get("dataFormat") == "compacted"
