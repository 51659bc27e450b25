"""Where the rows of a folder's files are, when small files are merged into larger ones.

Knows the names of merged files, those of a stream's writer and those of the job `compact`, and what the
records of both say of them (`merge_records`). Must not know what was read. A merged file counts from its
record on, and what it replaces up to it: readers see each row once, at each step of a compaction and after
one that was killed.

A batch reads the files that count. A stream names rows by the file that they were written to first: to it a
merged file holds, in their order, the rows of files that are there no more, and is no file of its own.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from orcstream.io.loop.tasks import side_by_side
from orcstream.io.urls import name_of
from orcstream.log.records import read_record
from orcstream.spark.compact.commit_records import JOBS_FOLDER, LOG_FOLDER, Group, Source
from orcstream.spark.compact.merge_records import Compaction, find_compactions, groups_in
from orcstream.spark.read.files import FileChoice, FoundFile, FoundFiles, find_files

_FILE: Final = re.compile(
    r"part-compact-(?:(?P<query>[0-9A-Za-z-]+)-(?P<batch>[0-9]+)-[0-9]{3,5}"
    r"|(?P<job>[0-9]{8})-(?P<token>[0-9a-f]{12})-[0-9]{6})\..*",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class MergeId:
    """Of which compaction a merged file is: a query's after one of its batches, or a job's by its number.

    The `query` of a job is the token of its plan. `folder` is where there are records of it.
    """

    query: str
    batch: int
    folder: str

    @property
    def key(self) -> tuple[str, int]:
        """As that of `Compaction`."""
        return ("compact" if self.folder == JOBS_FOLDER else self.query), self.batch


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


@dataclass(slots=True)
class Merges:
    """What the records below some folders say of merged files; each is read once."""

    roots: Sequence[str]
    storage_options: Mapping[str, Any]
    _records: dict[str, Sequence[Group]] = field(default_factory=dict)  # by URL
    _counted: dict[str, tuple[str, Group]] = field(default_factory=dict)  # root and group, by the file's name
    _pending: set[str] = field(default_factory=set)  # names of files that do not count yet
    _keys: set[tuple[str, int]] = field(default_factory=set)  # the compactions that there are records of

    async def refresh(self, urls: Iterable[str], *, only_open: bool = False) -> None:
        """Read what is new about the merged files among these; none, and no store is asked.

        To be called after the files were listed: their records come before they do. With `only_open`
        compactions that are over are left out: what they replaced is gone.
        """
        found = await self._compactions(urls)
        self._keys = {one.key for one in found}
        if only_open:
            found = [one for one in found if not one.is_over]
        needed = [url for one in found for url in one.needed]
        new = [url for url in needed if url not in self._records]
        records = await side_by_side(new, lambda url: read_record(url, self.storage_options))
        self._records.update(zip(new, map(groups_in, new, records), strict=True))
        self._records = {url: self._records[url] for url in needed}
        self._counted.clear()
        self._pending.clear()
        for one in found:
            for group in one.counted(self._records):
                self._counted[one.name_of(group.target)] = one.root, group
            self._pending.update(one.name_of(group.target) for group in one.pending(self._records))

    async def _compactions(self, urls: Iterable[str]) -> Sequence[Compaction]:
        roots = [(f"{name_of(f'{root}/').rstrip('/')}/", root) for root in self.roots]
        merged = [(name_of(url), id_.folder) for url in urls if (id_ := _id_of(url)) is not None]
        wanted = {
            (root, folder) for name, folder in merged for above, root in roots if name.startswith(above)
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
        return frozenset(name_of(url) for url, id_ in ids if id_ is not None and id_.key in self._keys)

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
        return MergeId(match["query"], int(match["batch"]), LOG_FOLDER)
    return MergeId(match["token"], int(match["job"]), JOBS_FOLDER)


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
