"""Where the rows of a folder's files are, when small files are merged into larger ones.

Knows the names of merged files, those of a stream's writer and those of the job `compact`, and what the
records of both say of them (`merge_records`). Must not know what was read. A merged file counts from its
record on, and what it replaces up to it: readers see each row once, at each step of a compaction and after
one that was killed.

A batch reads the files that count. A stream names rows by the file that they were written to first: to it a
merged file holds, in their order, the rows of files that are there no more, and is no file of its own. A task
whose file was merged after the read was planned reads the same rows of the merged one.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from orcstream.io.loop.tasks import side_by_side
from orcstream.io.urls import name_of
from orcstream.spark.read.files import FileChoice, FoundFile, FoundFiles, find_files
from orcstream.spark.read.merge_records import (
    JOBS_FOLDER,
    LOG_FOLDER,
    Group,
    RecordedCompaction,
    Source,
    find_compactions,
    journal_of,
    read_plan,
)

_FILE: Final = re.compile(
    r"part-compact-(?:(?P<job>[0-9]{8})-(?P<token>[0-9a-f]{12})|(?P<query>[0-9A-Za-z-]+)-(?P<batch>[0-9]+))"
    r"-[0-9]{6}\..*",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class MergeId:
    """Of which compaction a merged file is: a query's after one of its batches, or a job's by its number.

    The `query` of a job is the token of its plan. `journal` is where there are records of it.
    """

    query: str
    batch: int
    journal: str


@dataclass(frozen=True, slots=True)
class Place:
    """Rows that were written as the file `name`: the whole of `file`, or the `rows` of a merged one.

    The name is the same however the folder's URL is spelled. `length` is in bytes, of a part of a merged file
    its share. `merge` is set where these are the rows of a merged file that there is no record of: what it
    holds is not known.
    """

    name: str
    file: FoundFile
    length: int
    rows: tuple[int, int] | None = None
    merge: MergeId | None = None


class _Move(NamedTuple):
    """The rows of `source` are those of the file `url` from `first_row` on."""

    source: Source
    url: str
    first_row: int


@dataclass(slots=True)
class Merges:
    """What the records below some folders say of merged files; each is read once."""

    roots: Sequence[str]
    storage_options: Mapping[str, Any]
    _plans: dict[str, Sequence[Group]] = field(default_factory=dict)  # by URL
    _counted: dict[str, tuple[str, Group]] = field(default_factory=dict)  # root and group, by the file's name
    _pending: set[str] = field(default_factory=set)  # names of files that do not count yet
    _moves: dict[str, list[_Move]] = field(default_factory=dict)  # by the source's name
    _journals: set[str] = field(default_factory=set)  # of the compactions that there are records of

    async def refresh(self, urls: Iterable[str] | None = None, *, only_open: bool = False) -> None:
        """Read what is new about the merged files among these; none, and no store is asked.

        To be called after the files were listed: their records come before they do. With `only_open`
        compactions that are over are left out: what they replaced is gone. Without `urls`, read all.
        """
        found = await self._compactions(urls)
        self._journals = {one.journal for one in found}
        planned = [one for one in found if not (only_open and one.is_over) and one.plan is not None]
        new = [url for one in planned if (url := one.plan) not in self._plans and url is not None]
        read = await side_by_side(new, lambda url: read_plan(url, self.storage_options))
        self._plans.update(zip(new, read, strict=True))
        self._plans = {url: self._plans[url] for one in planned if (url := one.plan) is not None}
        self._counted.clear()
        self._pending.clear()
        self._moves.clear()
        for one, groups in zip(planned, self._plans.values(), strict=True):
            for group in one.counted(groups):
                self._count(one, group)
            self._pending.update(one.name_of(group.target) for group in one.pending(groups))

    def _count(self, one: RecordedCompaction, group: Group) -> None:
        self._counted[one.name_of(group.target)] = one.root, group
        row = 0
        for source in group.sources:
            move = _Move(source, f"{one.root}/{group.target}", row)
            self._moves.setdefault(one.name_of(source.path), []).append(move)
            row += source.row_count

    async def _compactions(self, urls: Iterable[str] | None) -> Sequence[RecordedCompaction]:
        if urls is None:
            wanted = {(root, folder) for root in self.roots for folder in (LOG_FOLDER, JOBS_FOLDER)}
        else:
            roots = [(f"{name_of(f'{root}/').rstrip('/')}/", root) for root in self.roots]
            merged = [(name_of(url), id_.journal) for url in urls if (id_ := _id_of(url)) is not None]
            wanted = {
                (root, journal.partition("/")[0])
                for name, journal in merged
                for above, root in roots
                if name.startswith(above)
            }
        found = await side_by_side(
            sorted(wanted), lambda one: find_compactions(*one, storage_options=self.storage_options)
        )
        return [one for several in found for one in several]

    # --- a batch

    def counted(self, files: Sequence[FoundFile]) -> Sequence[FoundFile]:
        """The files that rows are to be read from, so that each is read once."""
        out = self._pending | self._replaced(files)
        return [file for file in files if name_of(file.url) not in out] if out else files

    def recorded(self, files: Iterable[FoundFile]) -> frozenset[str]:
        """The names of the merged files among these that records may lead to."""
        ids = ((file.url, _id_of(file.url)) for file in files)
        return frozenset(
            name_of(url) for url, id_ in ids if id_ is not None and id_.journal in self._journals
        )

    def _replaced(self, files: Iterable[FoundFile]) -> set[str]:
        """Names of files that a merged file among these has the rows of: they go in a moment."""
        merged = (name_of(file.url) for file in files if _id_of(file.url) is not None)
        found = [self._counted[name] for name in merged if name in self._counted]
        return {name_of(f"{root}/{source.path}") for root, group in found for source in group.sources}

    # --- another compaction

    def holds(self, url: str) -> tuple[Source, ...]:
        """What a merged file is recorded to have been merged from first; nothing for others."""
        found = self._counted.get(name_of(url))
        return () if found is None else found[1].originals

    # --- a stream

    def places(self, files: Sequence[FoundFile]) -> Iterator[Place]:
        """Where rows are; each name comes once."""
        moved = {part.name: part for _, parts in self.merged(files) for part in parts}
        for file in files:
            if _id_of(file.url) is None and (name := name_of(file.url)) not in moved:
                yield Place(name, file, file.length or 0)
        yield from moved.values()

    def merged(self, files: Sequence[FoundFile]) -> Iterator[tuple[str, Sequence[Place]]]:
        """The merged files among them that count, by name, and the parts of each."""
        replaced = self._replaced(files)
        for file in files:
            id_ = _id_of(file.url)
            if id_ is not None and (name := name_of(file.url)) not in replaced:
                yield name, self._parts(name, file, id_)

    def _parts(self, name: str, file: FoundFile, id_: MergeId) -> Sequence[Place]:
        """The parts of a merged file; none before it counts, and itself where nothing says what they are."""
        found = self._counted.get(name)
        if found is not None:
            return list(_parts(file, *found))
        if name in self._pending:
            return ()
        return (Place(name, file, file.length or 0, merge=id_),)

    # --- a task

    def move_of(self, url: str, length: int | None, fingerprint: str) -> _Move | None:
        """Where the rows of a file are that is gone, as far as records say so."""
        moves = [one for one in self._moves.get(name_of(url), ()) if _is_of(one.source, length, fingerprint)]
        # A name that several files had tells nothing.
        return moves[0] if len(moves) == 1 else None


@dataclass(slots=True)
class MovedRows:
    """Where the rows of files are that are no more. Records are looked for then, and read once by each task.

    `planned` are the names of merged files that the same read has as a whole: rows that went there are read
    there.
    """

    merges: Merges
    planned: frozenset[str] = frozenset()

    async def of(
        self, url: str, length: int | None, fingerprint: str, rows: tuple[int, int] | None
    ) -> tuple[str, tuple[int, int]] | None:
        """The file that has some rows now, or all, and which they are there; None where the read has them.

        Raises `LookupError` where no record says where they are.
        """
        if (move := self.merges.move_of(url, length, fingerprint)) is None:
            # Files may have been merged since the records were read.
            await self.merges.refresh()
            move = self.merges.move_of(url, length, fingerprint)
        if move is None:
            raise LookupError(url)
        if name_of(move.url) in self.planned:
            return None
        first, stop = rows or (0, move.source.row_count)
        return move.url, (move.first_row + first, move.first_row + stop)


async def find_counted(choice: FileChoice, storage_options: Mapping[str, Any]) -> FoundFiles:
    """The files of a choice that count. Raises what `find_files` does.

    Records are looked for where a merged file was found: one more listing then.
    """
    found = await find_files(choice, storage_options)
    merges = Merges(choice.roots, storage_options)
    await merges.refresh((file.url for file in found.files), only_open=True)
    files = merges.counted(found.files)
    return replace(found, files=files, merged=merges.recorded(files))


def _id_of(url: str) -> MergeId | None:
    match = _FILE.fullmatch(posixpath.basename(url))
    if match is None:
        return None
    if match["query"] is not None:
        batch = int(match["batch"])
        return MergeId(match["query"], batch, journal_of(match["query"], batch))
    return MergeId(match["token"], int(match["job"]), journal_of(None, int(match["job"])))


def _is_of(source: Source, length: int | None, fingerprint: str) -> bool:
    """Whether the file that was merged is the one that was planned, as far as both are known."""
    is_other = fingerprint and source.fingerprint and fingerprint != source.fingerprint
    lengths = {length, source.length} - {None}
    return not is_other and len(lengths) < 2


def _parts(file: FoundFile, root: str, group: Group) -> Iterator[Place]:
    total = sum(one.row_count for one in group.originals)
    row = 0
    for one in group.originals:
        name = name_of(f"{root}/{one.path}")
        length = (file.length or 0) * one.row_count // max(1, total)
        yield Place(name, file, length, (row, row + one.row_count), _id_of(name))
        row += one.row_count


def joined(places: Iterable[Place]) -> list[Place]:
    """Parts of one file that follow each other as one, so that it is opened once for them."""
    found: list[Place] = []
    for one in sorted(places, key=lambda place: (place.file.url, place.rows or (0, 0))):
        if one.rows is not None and one.rows[0] == one.rows[1]:
            continue
        last = found[-1] if found else None
        if last is None or one.rows is None or last.rows is None or last.file.url != one.file.url:
            found.append(one)
        elif last.rows[1] == one.rows[0]:
            rows = (last.rows[0], one.rows[1])
            found[-1] = Place(last.name, last.file, last.length + one.length, rows)
        else:
            found.append(one)
    return found
