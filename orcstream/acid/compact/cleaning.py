"""Removing what no reader can need any more: what others stand in for, and what was given up.

Knows what is obsolete, since when, and who might still read it. Must not know how it became so. A directory
goes only when what stands in for it has been there for some time, and no transaction is open that began
before. It is said in the table's log before anything is removed, so that readers of the past are told, and
not shown less.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from orcstream._keywords import check_seconds
from orcstream.acid.snapshot import TableListing, TableSnapshot
from orcstream.acid.transactions.contract import Transactions
from orcstream.acid.view import TableView
from orcstream.io.folders import remove_files, remove_folders
from orcstream.plan.acid.names import AcidDirectory
from orcstream.plan.acid.snapshot import Partition


@dataclass(frozen=True, slots=True)
class Cleaned:
    """What was removed of the table at `url`, or would be: `directories` and `files`, by paths below it.

    They had `removed_bytes`. `kept` are obsolete, and some reader may still need them.
    """

    url: str
    directories: tuple[str, ...]
    files: tuple[str, ...]
    removed_bytes: int
    kept: tuple[str, ...]


async def clean(
    table: TableView, transactions: Transactions, *, older_than_s: float, remove: bool
) -> Cleaned:
    """See `AcidTable.clean`."""
    check_seconds("older_than_s", older_than_s, may_be_0=True, url=table.url)
    seen = await transactions.snapshot()
    view = (await table.seen(seen)).snapshot
    before = time.time() - older_than_s
    gone: list[str] = []
    kept: list[str] = []
    originals: list[str] = []
    for partition in view.partitions:
        for directory in (*partition.obsolete, *partition.aborted):
            path = _path(partition, directory)
            may_go = _is_settled(view, partition, directory, before)
            (gone if may_go else kept).append(path)
        names = [file.path for file in partition.obsolete_originals]
        if partition.base is not None and _is_settled_by(view, partition, partition.base, before):
            originals += names
        else:
            kept += names
    files = [*_files_below(view.listing, gone), *originals]
    if remove and (files or gone):
        await transactions.removing(gone)
        options = table.storage_options
        await remove_files(table.place, files, storage_options=options)
        await remove_folders(table.place, gone, storage_options=options)
    size = sum(view.listing.files[path].length for path in files)
    return Cleaned(table.url, tuple(gone), tuple(originals), size, tuple(kept))


def _path(partition: Partition, directory: AcidDirectory) -> str:
    return f"{partition.path}/{directory.name}" if partition.path else directory.name


def _files_below(listing: TableListing, directories: Iterable[str]) -> list[str]:
    prefixes = tuple(f"{path}/" for path in directories)
    return [path for path in listing.files if path.startswith(prefixes)] if prefixes else []


def _is_settled(view: TableSnapshot, partition: Partition, directory: AcidDirectory, before: float) -> bool:
    """Whether nobody can need a directory that is obsolete or was given up."""
    if directory in partition.aborted:
        return _newest(view.listing, [_path(partition, directory)]) <= before
    stands_in = _stand_in(partition, directory)
    return stands_in is not None and _is_settled_by(view, partition, stands_in, before)


def _stand_in(partition: Partition, directory: AcidDirectory) -> AcidDirectory | None:
    """What is read in its place."""
    last = directory.last_write_id
    if partition.base is not None and last <= partition.base.last_write_id:
        return partition.base
    for one in partition.deltas:
        if one.first_write_id <= directory.first_write_id and last <= one.last_write_id:
            return one
    return None


def _is_settled_by(
    view: TableSnapshot, partition: Partition, stands_in: AcidDirectory, before: float
) -> bool:
    """Whether what stands in for something is old enough, and older than all transactions that are open."""
    open_ids = view.seen.transactions.open
    since = stands_in.last_write_id if stands_in.is_overwrite else stands_in.visibility
    if any(one < since for one in open_ids):
        return False
    # A compaction is committed after its last file, in whatever partition that is.
    made = [_path(partition, stands_in)]
    if stands_in.visibility:
        made = [
            _path(other, one)
            for other in view.partitions
            for one in (*((other.base,) if other.base else ()), *other.deltas)
            if one.visibility == stands_in.visibility
        ]
    return _newest(view.listing, made) <= before


def _newest(listing: TableListing, directories: Iterable[str]) -> float:
    """When the last file of some directories was written, in seconds from 1970; never, where nobody knows."""
    times = [listing.files[path].modified_s for path in _files_below(listing, directories)]
    known = [one for one in times if one is not None]
    return max(known, default=0.0) if len(known) == len(times) else float("inf")
