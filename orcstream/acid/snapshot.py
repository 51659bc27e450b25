"""A table's directory as one reader sees it: listed, sorted into partitions, narrowed to a snapshot.

Knows how a listing becomes a snapshot, and the little files beside the rows. Must not know rows.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

from orcstream.acid.transactions.contract import Snapshot
from orcstream.errors import Unsupported, located
from orcstream.io import small_files
from orcstream.io.contract.append_file import FLUSH_LENGTH, last_length
from orcstream.io.contract.folder import ListedFile
from orcstream.io.folders import list_folder
from orcstream.io.loop.tasks import side_by_side
from orcstream.plan.acid.names import NO_STATEMENT, AcidDirectory, parse_directory
from orcstream.plan.acid.snapshot import (
    METADATA_FILE,
    AcidFile,
    Partition,
    PartitionListing,
    WriteIds,
    list_partitions,
    plan_snapshot,
    uncertain_bases,
)

_MOST_METADATA_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class TableListing:
    """What lies in a table's directory: `partitions` by path, `files` by path. `shown` has no credentials.

    `compacted` are bases that a compaction made although their names do not say so.
    """

    url: str
    shown: str
    partitions: Mapping[str, PartitionListing]
    files: Mapping[str, ListedFile]
    compacted: frozenset[tuple[str, AcidDirectory]]

    def has(self, path: str) -> bool:
        """Whether there is a file of this path."""
        return path in self.files

    def stands_in_for(self, file: AcidFile) -> bool:
        """Whether a compaction or an overwrite has made something in the place of a file."""
        folder = file.path.rpartition("/")[0]
        path = folder if file.directory is None else folder.rpartition("/")[0]
        listing = self.partitions.get(path)
        return listing is not None and any(_covers(one, file.directory) for one in listing.files)

    def _are_there(self, path: str, written: frozenset[str]) -> bool:
        listing = self.partitions.get(path)
        there = set() if listing is None else {one.name for one in listing.files}
        return all(one.rpartition("/")[2] in there for one in written)

    def snapshot(self, seen: Snapshot) -> TableSnapshot:
        """What a reader reads. Raises `Unsupported` (``history_is_gone``) where some of it was removed."""
        write_ids, transactions, known = seen.write_ids, seen.transactions, seen.directories
        compacted: dict[str, set[AcidDirectory]] = {}
        for path, directory in self.compacted:
            compacted.setdefault(path, set()).add(directory)
        with located(url=self.shown):
            partitions = tuple(
                plan_snapshot(
                    listing,
                    write_ids,
                    transactions,
                    compacted=compacted.get(path, set()),
                    history_is_whole=known is not None and self._is_whole(path, seen),
                )
                for path, listing in sorted(self.partitions.items())
            )
            if known is not None:
                _check_complete(partitions, known)
                _check_stood_in(partitions, seen)
        return TableSnapshot(self, seen, partitions)

    def _is_whole(self, path: str, seen: Snapshot) -> bool:
        ranges, mark = seen.removed.get(path, ()), seen.write_ids.high_watermark
        written = (seen.directories or {}).get(path, frozenset())
        return not any(first <= mark for first, _ in ranges) and self._are_there(path, written)


@dataclass(frozen=True, slots=True)
class TableSnapshot:
    """A table as of some write ids."""

    listing: TableListing
    seen: Snapshot
    partitions: tuple[Partition, ...]

    @property
    def write_ids(self) -> WriteIds:
        """Which rows are seen."""
        return self.seen.write_ids

    def url_of(self, file: AcidFile) -> str:
        """What opens a file."""
        return self.listing.files[file.path].url

    def only(self, partition: Partition) -> TableSnapshot:
        """What is needed to read some of the files of one partition, and nothing else."""
        listing = self.listing
        files = {one.path: listing.files[one.path] for one in (*partition.inserts, *partition.deletes)}
        mine = PartitionListing(partition.path, versioned=listing.partitions[partition.path].versioned)
        narrow = replace(listing, partitions={partition.path: mine}, files=files, compacted=frozenset())
        part = replace(partition, obsolete=(), aborted=(), obsolete_originals=())
        return TableSnapshot(narrow, replace(self.seen, directories=None), (part,))

    def versioned(self, partition: Partition) -> frozenset[AcidDirectory]:
        """The directories of a partition that are known to be of Hive 3 or later."""
        return frozenset(self.listing.partitions[partition.path].versioned)


def _covers(wider: AcidDirectory, directory: AcidDirectory | None) -> bool:
    """Whether a directory holds what another one did; None are original files."""
    if directory is None or wider == directory:
        return directory is None and wider.is_base
    is_kind = wider.is_base or (wider.kind is directory.kind and _is_compacted(wider))
    return (
        is_kind
        and wider.first_write_id <= directory.first_write_id
        and directory.last_write_id <= wider.last_write_id
    )


def _check_complete(partitions: Iterable[Partition], known: Mapping[str, frozenset[str]]) -> None:
    """Whether all that was written is read, from where it was written or from what stands in for it."""
    read = {one.path: _reading_in(one) for one in partitions}
    for path, written in known.items():
        is_read = read.get(path, _reads_nothing)
        for name in sorted(written):
            directory = parse_directory(name.rpartition("/")[2])
            if directory is not None and not is_read(directory):
                raise _gone(name)


def _check_stood_in(partitions: Iterable[Partition], seen: Snapshot) -> None:
    """Whether there is something in the place of what was removed: not so below a base that is not read."""
    read = {one.path: one for one in partitions}
    for path, ranges in seen.removed.items():
        for first, last in ranges:
            missing = _not_stood_in(first, min(last, seen.write_ids.high_watermark), read.get(path))
            if missing:
                raise _gone(f"what write id {missing} wrote{' in ' if path else ''}{path}")


def _not_stood_in(first: int, last: int, partition: Partition | None) -> int:
    """The first of some write ids that neither base nor compacted delta holds; 0 where there is none."""
    if partition is not None:
        base = partition.base
        first = first if base is None else max(first, base.last_write_id + 1)
        for one in partition.deltas:
            if _is_compacted(one) and one.first_write_id <= first <= one.last_write_id:
                first = one.last_write_id + 1
    return first if first <= last else 0


def _gone(what: str) -> Unsupported:
    return Unsupported(
        f"{what} was removed, which these write ids need; read the table as it is now",
        reason="history_is_gone",
    )


def _reading_in(partition: Partition) -> Callable[[AcidDirectory], bool]:
    """Whether a directory is read, or something that stands in for it; there may be thousands of each."""
    deltas = frozenset(partition.deltas)
    wide = sorted((one.first_write_id, one.last_write_id) for one in deltas if _is_compacted(one))
    firsts = [first for first, _ in wide]
    reached = list(accumulate((last for _, last in wide), max))  # by those that begin up to there
    base = None if partition.base is None else partition.base.last_write_id

    def is_read(directory: AcidDirectory) -> bool:
        last = directory.last_write_id
        if directory in deltas or (base is not None and last <= base):
            return True
        at = bisect_right(firsts, directory.first_write_id)
        return at > 0 and last <= reached[at - 1]

    return is_read


def _reads_nothing(_: AcidDirectory) -> bool:
    return False


def _is_compacted(delta: AcidDirectory) -> bool:
    """Whether it stands in for others; one of a batch holds several write ids as well, of one statement."""
    return delta.statement == NO_STATEMENT


def check_still_there(snapshot: TableSnapshot, now: TableListing) -> None:
    """Raise `Unsupported` (``history_is_gone``) where a later listing lacks files that a snapshot needs."""
    for partition in snapshot.partitions:
        for file in (*partition.inserts, *partition.deletes):
            if not now.has(file.path):
                raise Unsupported(
                    f"{file.path} was removed since the table was opened; open it again",
                    reason="history_is_gone",
                    url=now.shown,
                )


async def list_table(url: str, shown: str, storage_options: Mapping[str, Any] | None) -> TableListing:
    """List a table's directory.

    Raises `FileNotFoundError` where there is none, and what `list_folder` raises.
    """
    found = await list_folder(url, storage_options=storage_options)
    files = {file.path: file for file in found.files}
    lengths = {path: file.length for path, file in files.items()}
    lengths |= await _flushed_lengths(files, storage_options)
    partitions = list_partitions(lengths, found.empty_folders)
    asked = [(path, base) for path, listing in partitions.items() for base in uncertain_bases(listing)]
    compacted: set[tuple[str, AcidDirectory]] = set()

    async def look(one: tuple[str, AcidDirectory]) -> None:
        path = "/".join(part for part in (one[0], one[1].name, METADATA_FILE) if part)
        if await _says_compacted(files[path], storage_options):
            compacted.add(one)

    await side_by_side(asked, look)
    return TableListing(url, shown, partitions, files, frozenset(compacted))


async def _flushed_lengths(
    files: Mapping[str, ListedFile], storage_options: Mapping[str, Any] | None
) -> dict[str, int]:
    """What the side files of files that grow say, by the paths of the side files."""
    found: dict[str, int] = {}

    async def look(path: str) -> None:
        try:
            data = await small_files.get(files[path].url, storage_options=storage_options)
        except FileNotFoundError:
            return  # the file has been completed meanwhile
        found[path] = last_length(data)

    await side_by_side([path for path in files if path.endswith(FLUSH_LENGTH)], look)
    return found


async def _says_compacted(file: ListedFile, storage_options: Mapping[str, Any] | None) -> bool:
    """Whether a base's file says that a compaction made it; what cannot be read says nothing."""
    if not 0 < file.length <= _MOST_METADATA_BYTES:
        return False
    data = await small_files.get(file.url, storage_options=storage_options)
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and found.get("dataFormat") == "compacted"
