"""Where the rows of a folder's files are, when a stream's writer merges small ones into larger ones.

Knows the names of merged files, and what the writer's records say of them (`commit_records`). Must not know
what was read. Readers name rows by the file that they were written to first: a merged file holds, in their
order, the rows of files that are there no more, and is no file of its own.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from orcstream.errors import Unsupported
from orcstream.io.folders import list_files
from orcstream.io.urls import local_path, protocol_of, strip_credentials
from orcstream.spark.commit_records import LOG_FOLDER, Group, group_of, read_record
from orcstream.spark.files import FoundFile
from orcstream.spark.small_files import side_by_side

__all__ = ["MergeId", "Merges", "Place", "joined"]

_FILE: Final = re.compile(r"part-compact-([0-9A-Za-z-]+)-([0-9]+)-([0-9]{3})\..*", re.ASCII)
_RECORD: Final = re.compile(
    r"([0-9A-Za-z-]+)/([0-9]{20})(?:-([0-9]{3})\.merged|\.compaction)\.json", re.ASCII
)


@dataclass(frozen=True, slots=True)
class MergeId:
    """A merged file: of which query, after which of its batches, which of several; None for all of them."""

    query: str
    batch: int
    number: int | None


@dataclass(frozen=True, slots=True)
class Place:
    """Rows that were written as the file `name`: the whole of `file`, or the `rows` of a merged one.

    The name is the same however the folder's URL is spelled. `length` is in bytes, of a part of a merged file
    its share. `merge` is set for a merged file that there is no record of: what it holds is not known.
    """

    name: str
    file: FoundFile
    length: int
    rows: tuple[int, int] | None = None
    merge: MergeId | None = None


@dataclass(slots=True)
class Merges:
    """The records below some folders; each is read once."""

    roots: Sequence[str]
    storage_options: Mapping[str, Any]
    _groups: dict[str, Group] = field(default_factory=dict)  # by the record's URL
    _ids: dict[MergeId, str] = field(default_factory=dict)  # those that there are now

    async def refresh(self) -> None:
        """Read what is new. To be called after the files were listed: their records come before they do."""
        self._ids.clear()
        for root in self.roots:
            for record in await self._listed(f"{root.rstrip('/')}/{LOG_FOLDER}"):
                match = _RECORD.fullmatch(record.path)
                if match is None:
                    continue
                number = None if match[3] is None else int(match[3])
                self._ids[MergeId(match[1], int(match[2]), number)] = record.url
        urls = [url for id_, url in self._ids.items() if id_.number is not None]
        new = [url for url in urls if url not in self._groups]
        records = await side_by_side(new, lambda url: read_record(url, self.storage_options))
        self._groups.update(zip(new, map(group_of, records), strict=True))
        self._groups = {url: self._groups[url] for url in urls}

    async def _listed(self, url: str) -> Sequence[Any]:
        try:
            return await list_files(url, storage_options=self.storage_options)
        except FileNotFoundError:
            return ()
        except Unsupported as error:
            if error.reason != "no_listing":
                raise
            return ()

    def places(self, files: Sequence[FoundFile]) -> Iterator[Place]:
        """Where rows are; each name comes once."""
        moved = {part.name: part for _, parts in self.merged(files) for part in parts}
        for file in files:
            name = _name(file.url)
            # What was merged goes in a moment, if it is there still.
            if _id_of(file) is None and name not in moved:
                yield Place(name, file, file.length or 0)
        yield from moved.values()

    def merged(self, files: Iterable[FoundFile]) -> Iterator[tuple[str, Sequence[Place]]]:
        """The merged files among them that count, by name, and the parts of each."""
        for file in files:
            id_ = _id_of(file)
            if id_ is not None:
                yield _name(file.url), self._parts(file, id_)

    def _parts(self, file: FoundFile, id_: MergeId) -> Sequence[Place]:
        """The parts of a merged file; none before it counts, and itself where nothing says what they are."""
        group = self._groups.get(self._ids.get(id_, ""))
        if group is not None and file.url.endswith(f"/{group.target}"):
            return list(_parts(file, group))
        if group is None and MergeId(id_.query, id_.batch, None) in self._ids:
            return ()
        return (Place(_name(file.url), file, file.length or 0, merge=id_),)


def _name(url: str) -> str:
    """One for ``/x`` and ``file:///x``, and one for ``s3://`` and ``s3a://``; no credentials."""
    protocol = protocol_of(url)
    if protocol in ("file", "local"):
        return os.path.abspath(local_path(url))  # noqa: PTH100 - paths of text, many of them
    clean = strip_credentials(url)
    return f"s3{clean[3:]}" if protocol == "s3a" else clean


def _id_of(file: FoundFile) -> MergeId | None:
    match = _FILE.fullmatch(posixpath.basename(file.url))
    return None if match is None else MergeId(match[1], int(match[2]), int(match[3]))


def _parts(file: FoundFile, group: Group) -> Iterator[Place]:
    root = file.url.removesuffix(group.target)
    total = sum(one.row_count for one in group.sources)
    row = 0
    for one in group.sources:
        length = (file.length or 0) * one.row_count // max(1, total)
        yield Place(_name(f"{root}{one.path}"), file, length, (row, row + one.row_count))
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
