"""What jobs that only look at files have in common: which files there are, and how they are shared out.

Must not know what is looked for.

With a journal, each unit's answer is kept as a record, by what the unit is of: a job that was killed and is
started again looks at the others only.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Final

from orcstream import OrcFile, open_many
from orcstream._keywords import check_integer
from orcstream.errors import FormatError, OrcError, SourceChanged, Unsupported
from orcstream.spark.access import Access, run
from orcstream.spark.jobs.distributing import Distribute
from orcstream.spark.read.files import FileChoice
from orcstream.spark.read.merge_records import JOBS_FOLDER
from orcstream.spark.read.merged_files import find_counted
from orcstream.spark.write.target import Folder, records_of

_FILES_AT_ONCE: Final = 100


@dataclass(frozen=True, slots=True)
class Piece:
    """Some stripes of a file, or all of it where `stripes` is None; where it cannot be opened, why."""

    url: str
    length: int
    fingerprint: str
    stripes: tuple[int, int] | None = None
    error: str = ""
    modified_s: float | None = None

    @property
    def is_told_from_others(self) -> bool:
        """Whether the file would be seen to be another, were it replaced."""
        return bool(self.fingerprint) or self.modified_s is not None


def found_pieces(
    distribute: Distribute, paths: Sequence[str], access: Access, *, piece_bytes: int
) -> list[Piece]:
    """All files of some paths that count; those larger than `piece_bytes` by their stripes."""
    check_integer("piece_bytes", piece_bytes, 1)
    choice = FileChoice(tuple(paths), recursive=True, with_events=True)
    found = run(partial(find_counted, choice, access.storage_options)).files
    pieces = [Piece(one.url, one.length or 0, one.version, modified_s=one.modified_s) for one in found]
    large = [one for one in pieces if one.length > piece_bytes or not one.length]
    chunks = [large[at : at + _FILES_AT_ONCE] for at in range(0, len(large), _FILES_AT_ONCE)]
    cut = distribute("looking at large files", chunks, partial(_cut, access, piece_bytes))
    by_url = {one.url: several for chunk in cut for one, several in chunk}
    return [piece for one in pieces for piece in by_url.get(one.url, [one])]


def _cut(access: Access, piece_bytes: int, files: Sequence[Piece]) -> list[tuple[Piece, list[Piece]]]:
    return run(partial(_cut_all, access, piece_bytes, files))


async def _cut_all(
    access: Access, piece_bytes: int, files: Sequence[Piece]
) -> list[tuple[Piece, list[Piece]]]:
    coming = iter(files)
    found: list[tuple[Piece, list[Piece]]] = []

    def skip(_: Any, error: Exception) -> None:
        if not isinstance(error, FormatError | Unsupported | FileNotFoundError):
            raise error
        one = next(coming)
        text = error.message if isinstance(error, OrcError) else str(error)
        found.append((one, [replace(one, error=text)]))

    urls = [one.url for one in files]
    async with open_many(urls, ordered=True, on_error=skip, **await access.open_options()) as opened:
        async for file in opened:
            async with file:
                one, tail = next(coming), file.tail
                sizes = [stripe.index_length + stripe.data_length for stripe in file.stripes]
                ranges = _ranges(sizes, piece_bytes)
                whole = len(ranges) < 2
                found.append(
                    (
                        one,
                        [
                            replace(
                                one,
                                length=tail.file_length,
                                fingerprint=tail.fingerprint,
                                stripes=None if whole else cut,
                            )
                            for cut in ranges or [(0, 0)]
                        ],
                    )
                )
    return found


def _ranges(sizes: Sequence[int], most: int) -> list[tuple[int, int]]:
    """Stripes that follow each other, as many together as `most` bytes hold."""
    found: list[tuple[int, int]] = []
    held = 0
    for number, size in enumerate(sizes):
        if not found or held + size > most:
            found.append((number, number + 1))
            held = size
        else:
            found[-1] = (found[-1][0], number + 1)
            held += size
    return found


def hold(file: OrcFile, piece: Piece) -> None:
    """Raise `SourceChanged` where the file is another one than was found."""
    if piece.fingerprint and file.tail.fingerprint not in ("", piece.fingerprint):
        raise SourceChanged("the file was replaced while it was looked at", url=file.url)


# --- units -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Looking:
    """What is looked for: `look` answers of a piece, as values of JSON; `label` names the job.

    Small files are looked at several by one task, up to `piece_bytes`. With a `journal`, `look` is not asked
    again of files that are the same, and read with the same keys.
    """

    label: str
    look: Callable[[Access, Piece], Mapping[str, Any]]
    access: Access
    piece_bytes: int
    journal: Folder | None = None

    def through(
        self, distribute: Distribute, paths: Sequence[str]
    ) -> tuple[list[Piece], list[Mapping[str, Any]]]:
        """The pieces of all files of some paths, and what `look` answers of each."""
        pieces = found_pieces(distribute, paths, self.access, piece_bytes=self.piece_bytes)
        units: list[list[Piece]] = []
        held = 0
        for piece in pieces:
            if units and held + piece.length <= self.piece_bytes and len(units[-1]) < _FILES_AT_ONCE:
                units[-1].append(piece)
                held += piece.length
            else:
                units.append([piece])
                held = piece.length
        answers = distribute(self.label, units, self._unit)
        return pieces, [one for several in answers for one in several]

    def _unit(self, pieces: Sequence[Piece]) -> list[Mapping[str, Any]]:
        if self.journal is None or not all(piece.is_told_from_others for piece in pieces):
            return [self.look(self.access, piece) for piece in pieces]
        records = records_of(self.journal, JOBS_FOLDER)
        # Without keys, less of a file is seen.
        text = json.dumps([self.label, self.access.keys, [asdict(piece) for piece in pieces]])
        name = f"looked-{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"
        try:
            kept: list[Mapping[str, Any]] = run(partial(records.get, name))["answers"]
        except FileNotFoundError:
            kept = [self.look(self.access, piece) for piece in pieces]
            run(partial(records.put, name, {"answers": kept}))
        return kept
