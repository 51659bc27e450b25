"""Where rows went whose file was merged into another after a read was planned.

Knows that records say which rows of a merged file were written to which file. Must not know how rows are
read. Records are looked for when a file is found to be gone, and read once by each task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from orcstream.io.loop.tasks import side_by_side
from orcstream.io.urls import name_of
from orcstream.log.records import parsing, read_record
from orcstream.spark.compact.commit_records import JOBS_FOLDER, LOG_FOLDER, Group, Source
from orcstream.spark.compact.merge_records import Compaction, find_compactions, groups_in
from orcstream.spark.read.planning import Piece


@dataclass(frozen=True, slots=True)
class _Move:
    """The rows of `source` are those of the file `url` from `first_row` on."""

    source: Source
    url: str
    first_row: int


@dataclass(slots=True)
class MovedRows:
    """What the records below some folders say of files that are no more.

    `planned` are the names of merged files that the same read has as a whole: rows that went there are read
    there.
    """

    roots: Sequence[str]
    storage_options: Mapping[str, Any]
    planned: frozenset[str] = frozenset()
    _moves: dict[str, list[_Move]] | None = field(default=None)  # by the source's name

    async def of(self, piece: Piece) -> Piece | None:
        """The same rows in another file; None where the read has them already.

        Raises `LookupError` where no record says where they are.
        """
        if (move := self._move(piece)) is None:
            # Files may have been merged since the records were read.
            self._moves = await _read_moves(self.roots, self.storage_options)
            move = self._move(piece)
        if move is None:
            raise LookupError(piece.url)
        if name_of(move.url) in self.planned:
            return None
        first, stop = piece.rows or (0, move.source.row_count)
        rows = (move.first_row + first, move.first_row + stop)
        return replace(piece, url=move.url, length=None, fingerprint="", rows=rows)

    def _move(self, piece: Piece) -> _Move | None:
        found = [one for one in (self._moves or {}).get(name_of(piece.url), ()) if _is_of(one.source, piece)]
        # A name that several files had tells nothing.
        return found[0] if len(found) == 1 else None


def _is_of(source: Source, piece: Piece) -> bool:
    """Whether the file that was merged is the one that was planned, as far as both are known."""
    is_other = piece.fingerprint and source.fingerprint and piece.fingerprint != source.fingerprint
    lengths = {piece.length, source.length} - {None}
    return not is_other and len(lengths) < 2


async def _read_moves(roots: Sequence[str], options: Mapping[str, Any]) -> dict[str, list[_Move]]:
    places = [(root, folder) for root in roots for folder in (LOG_FOLDER, JOBS_FOLDER)]
    listed = await side_by_side(places, lambda one: find_compactions(*one, storage_options=options))
    compactions = [one for several in listed for one in several]
    read = await side_by_side(compactions, lambda one: _merged_groups(one, options))
    moves: dict[str, list[_Move]] = {}
    for compaction, groups in zip(compactions, read, strict=True):
        for group in groups:
            row = 0
            for source in group.sources:
                move = _Move(source, f"{compaction.root}/{group.target}", row)
                moves.setdefault(compaction.name_of(source.path), []).append(move)
                row += source.row_count
    return moves


async def _merged_groups(compaction: Compaction, options: Mapping[str, Any]) -> Sequence[Group]:
    """The groups of which there is a merged file that counts."""
    try:
        if not compaction.is_job:
            urls = compaction.merged.values()
            read = [groups_in(url, await read_record(url, options)) for url in urls]
            return [group for groups in read for group in groups]
        if compaction.plan is None:
            return ()
        planned = groups_in(compaction.plan, await read_record(compaction.plan, options))
        found = []
        for number, url in compaction.merged.items():
            record = await read_record(url, options)
            with parsing(url):
                if record["how"] != "left":
                    found.append(planned[number])
    except FileNotFoundError:  # forgotten meanwhile
        return ()
    return found
