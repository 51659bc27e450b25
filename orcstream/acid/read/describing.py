"""What lies in a table's directory, directory by directory, and what it is to one reader.

Knows how counts of rows and deletes are had without reading either. Must not know how this is printed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from orcstream.acid.read.event_file import DELETE, EventFile
from orcstream.acid.snapshot import TableSnapshot
from orcstream.io.loop.tasks import side_by_side
from orcstream.io.loop.uncancelled import until_over
from orcstream.plan.acid.names import AcidDirectory, DirectoryKind
from orcstream.plan.acid.snapshot import AcidFile, Partition
from orcstream.reader.file import OrcFile

DirectoryState: TypeAlias = Literal["read", "obsolete", "aborted", "not visible"]


@dataclass(frozen=True, slots=True)
class DirectoryDescription:
    """A directory of a table, as one reader sees it; `name` is None for original files.

    `partition` is the path of its partition, `kind` what its rows are to others', `state` whether this reader
    reads it: ``read``, ``obsolete``, ``aborted`` or ``not visible``. `file_count` files have `size_bytes`.
    Its events are of the write ids `first_write_id` to `last_write_id`; a base has no first one. `row_count`
    are events with rows, `delete_count` deletes, both of all transactions; None where files were not opened.
    """

    partition: str
    name: str | None
    kind: DirectoryKind | None
    first_write_id: int | None
    last_write_id: int
    state: DirectoryState
    file_count: int
    size_bytes: int
    row_count: int | None
    delete_count: int | None


OpenFile: TypeAlias = Callable[[AcidFile], Awaitable[OrcFile]]


async def describe(
    snapshot: TableSnapshot, open_file: OpenFile, *, count: bool
) -> tuple[DirectoryDescription, ...]:
    """Every directory, partition by partition; to count, the tail of every file is read."""
    groups = [
        (partition, directory, files)
        for partition in snapshot.partitions
        for directory, files in _groups(snapshot, partition)
    ]
    files = [file for _, _, some in groups for file in some] if count else []

    async def counted(file: AcidFile) -> tuple[int, int]:
        orc = await open_file(file)
        try:
            return await _counts(EventFile(file, orc))
        finally:
            await until_over(orc.aclose())

    found = await side_by_side(files, counted)
    counts = {file.path: pair for file, pair in zip(files, found, strict=True)}
    return tuple(_described(*group, counts, count=count) for group in groups)


def _groups(
    snapshot: TableSnapshot, partition: Partition
) -> Iterator[tuple[AcidDirectory | None, list[AcidFile]]]:
    listing = snapshot.listing.partitions[partition.path]
    if listing.originals:
        yield None, listing.originals
    yield from sorted(listing.files.items(), key=lambda item: item[0].order)


async def _counts(file: EventFile) -> tuple[int, int]:
    """Events with rows, and deletes."""
    rows = file.orc.row_count
    directory = file.file.directory
    if directory is not None and directory.kind is DirectoryKind.DELETE_DELTA:
        return 0, rows
    if file.has_only_inserts or file.columns is None:
        return rows, 0
    # Of the kind before Hive 3, where a delta holds both.
    deletes = 0
    async with file.orc.batches(columns=[(file.columns.operation,)]) as stream:
        async for batch in stream:
            deletes += int((batch.to_numpy(0) == DELETE).sum())
    return rows - deletes, deletes


def _described(
    partition: Partition,
    directory: AcidDirectory | None,
    files: Iterable[AcidFile],
    counts: dict[str, tuple[int, int]],
    *,
    count: bool,
) -> DirectoryDescription:
    some = list(files)
    return DirectoryDescription(
        partition=partition.path,
        name=None if directory is None else directory.name,
        kind=None if directory is None else directory.kind,
        first_write_id=None if directory is None or directory.is_base else directory.first_write_id,
        last_write_id=0 if directory is None else directory.last_write_id,
        state=_state(partition, directory),
        file_count=len(some),
        size_bytes=sum(file.length for file in some),
        row_count=sum(counts[file.path][0] for file in some) if count else None,
        delete_count=sum(counts[file.path][1] for file in some) if count else None,
    )


def _state(partition: Partition, directory: AcidDirectory | None) -> DirectoryState:
    if directory is None:
        return "read" if partition.base is None else "obsolete"
    if directory == partition.base or directory in partition.deltas:
        return "read"
    if directory in partition.obsolete:
        return "obsolete"
    return "aborted" if directory in partition.aborted else "not visible"
