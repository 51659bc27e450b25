"""Snapshots of Hive's transactional tables: which directories and files a reader of some write ids reads.

Which transactions a reader sees is a `WriteIds`: all up to a high watermark, but those that are open or
were aborted; Hive has a text form of it (`ValidReaderWriteIdList.java`, `ValidReadTxnList.java`). Knows
Hive's rules (`AcidUtils.getAcidState`): the newest base whose history is closed, the deltas above it, wider
ones instead of those inside them. Must not know stores, files' contents, nor rows. Pure functions over
paths.

Paths are relative to the table, with ``/`` between their parts. What stands between the table and the
directories of events is the partition: folders as `country=DE`, at any depth.
"""

from __future__ import annotations

import functools
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from orcstream.errors import Unsupported, UsageError
from orcstream.plan.acid.names import (
    FLUSH_LENGTH_SUFFIX,
    AcidDirectory,
    DirectoryKind,
    bucket_of,
    copy_of,
    is_hidden,
    parse_directory,
)

_MOST = (1 << 63) - 1

Share: TypeAlias = Literal["all", "some", "none"]


@dataclass(frozen=True, slots=True)
class WriteIds:
    """The write ids that are visible: those up to `high_watermark` that are neither `open` nor `aborted`.

    `WriteIds(7)` is the table as of write id 7. `open` and `aborted` are kept sorted and distinct. The same
    form says which transactions are visible, for the directories that carry a compaction's.
    """

    high_watermark: int = _MOST
    open: tuple[int, ...] = ()
    aborted: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name in ("open", "aborted"):
            object.__setattr__(self, name, _ids(name, getattr(self, name)))
        mark = self.high_watermark
        if type(mark) is not int or not 0 <= mark <= _MOST:
            raise UsageError(f"a high watermark is an integer of 0 to 2^63 - 1, not {mark!r}")
        both = set(self.open).intersection(self.aborted)
        if both:
            raise UsageError(f"the write id {min(both)} is said to be open, and to be aborted")

    @classmethod
    def of(cls, value: WriteIds | int | str | None) -> WriteIds:
        """As users give a `value`: the ids themselves, the highest one, Hive's text, or None for all."""
        if isinstance(value, WriteIds):
            return value
        if value is None:
            return cls()
        if isinstance(value, str):
            return cls.parse(value)
        return cls(value)

    @classmethod
    def parse(cls, text: str) -> WriteIds:
        """The ids of Hive's `text` form: ``database.table:7:5:5,6:3``, or of transactions without the table.

        The parts are the high watermark, the least id that is open, the open ids and the aborted ones. Raises
        `UsageError` for any other text.
        """
        parts = text.split(":")
        if not parts[0].isdigit():  # the table
            parts = parts[1:]
        try:
            mark, _, opened, aborted = (*parts, *[""] * (4 - len(parts)))
            return cls(_number(mark), _listed(opened), _listed(aborted))
        except ValueError as error:
            raise UsageError(
                f"{text!r} is no list of write ids ({error}); it looks like 'default.orders:7:5:5,6:3'"
            ) from None

    def __str__(self) -> str:
        least = min(self.open, default=_MOST)
        return f"{self.high_watermark}:{least}:{_text(self.open)}:{_text(self.aborted)}"

    def is_visible(self, write_id: int) -> bool:
        """Whether rows of `write_id` are there."""
        return write_id <= self.high_watermark and not (
            _count(self.open, write_id, write_id) or _count(self.aborted, write_id, write_id)
        )

    def is_aborted(self, write_id: int) -> bool:
        """Whether it is known to have been given up."""
        return _count(self.aborted, write_id, write_id) > 0

    def visible(self, first: int, last: int) -> Share:
        """Whether all ids from `first` to `last`, both included, are visible, or some, or none."""
        known = min(last, self.high_watermark)
        beyond = max(0, last - max(first - 1, self.high_watermark))
        hidden = beyond + _count(self.open, first, known) + _count(self.aborted, first, known)
        return _share(last - first + 1 - hidden, last - first + 1)

    def aborted_of(self, first: int, last: int) -> Share:
        """Whether all ids from `first` to `last`, both included, were aborted, or some, or none."""
        return _share(_count(self.aborted, first, last), last - first + 1)

    def has_open_up_to(self, write_id: int) -> bool:
        """Whether an id up to this one is open, or above the high watermark: not all history is known."""
        return write_id > self.high_watermark or bisect_right(self.open, write_id) > 0

    def has_open(self, first: int, last: int) -> bool:
        """Whether an id from `first` to `last`, both included, is open, or above the high watermark."""
        return last > self.high_watermark or _count(self.open, first, last) > 0

    @property
    def hidden(self) -> tuple[int, ...]:
        """The ids up to the high watermark that are not visible, sorted."""
        return tuple(sorted(one for one in (*self.open, *self.aborted) if one <= self.high_watermark))


def _ids(name: str, given: Iterable[int]) -> tuple[int, ...]:
    if not isinstance(given, Iterable):
        raise UsageError(f"{name} write ids are several integers, not {given!r}")
    found = tuple(given)
    for one in found:
        if type(one) is not int or not 0 < one <= _MOST:
            raise UsageError(f"{name} write ids are integers of 1 to 2^63 - 1, not {one!r}")
    return tuple(sorted(set(found)))


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit()):  # Python's own takes other digits, and underscores
        raise ValueError(f"{text!r} is no number")
    return int(text)


def _listed(text: str) -> tuple[int, ...]:
    return tuple(_number(part) for part in text.split(",")) if text else ()


def _text(ids: tuple[int, ...]) -> str:
    return ",".join(map(str, ids))


def _count(ids: tuple[int, ...], first: int, last: int) -> int:
    return max(0, bisect_right(ids, last) - bisect_left(ids, first))


def _share(count: int, total: int) -> Share:
    return "none" if count == 0 else "all" if count == total else "some"


METADATA_FILE = "_metadata_acid"
VERSION_FILE = "_orc_acid_version"


@dataclass(frozen=True, slots=True)
class AcidFile:
    """A file of rows: `directory` is None for original files, from before the table was transactional.

    `bucket` is None where the name does not say it. A file that `is_growing` may be read up to what its side
    file says. `path` is relative to the table, `length` in bytes.
    """

    path: str
    length: int
    directory: AcidDirectory | None
    bucket: int | None
    is_growing: bool = False

    @property
    def copy(self) -> int:
        """Which file of its bucket and name it is."""
        return copy_of(self.path.rpartition("/")[2])

    @property
    def is_of_events(self) -> bool:
        """By its name; files that are loaded, or of tables that only take inserts, have others."""
        return self.path.rpartition("/")[2].startswith("bucket_")


@dataclass(slots=True)
class PartitionListing:
    """What lies in one partition: directories with their files, and original files."""

    path: str
    files: dict[AcidDirectory, list[AcidFile]] = field(default_factory=dict)
    originals: list[AcidFile] = field(default_factory=list)
    # Bases with a file that says whether a compaction made them.
    described: set[AcidDirectory] = field(default_factory=set)
    # Directories with a file that says the version of their events, which only Hive 3 and later make.
    versioned: set[AcidDirectory] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition as its readers see it: its `path`, and the `base` and `deltas` that are read.

    `inserts` are the files that hold rows: of the base or the original files, and of the deltas, in
    Hive's order; `deletes` the files of delete deltas. `obsolete` are directories that no reader of this
    snapshot or a later one needs, `obsolete_originals` such files, from before the table was
    transactional, and `aborted` those whose transactions were all aborted; both may be removed once no
    reader of an earlier one is left.
    """

    path: str
    base: AcidDirectory | None
    deltas: tuple[AcidDirectory, ...]
    inserts: tuple[AcidFile, ...]
    deletes: tuple[AcidFile, ...]
    obsolete: tuple[AcidDirectory, ...]
    aborted: tuple[AcidDirectory, ...]
    obsolete_originals: tuple[AcidFile, ...] = ()


def list_partitions(lengths: Mapping[str, int], folders: Iterable[str] = ()) -> dict[str, PartitionListing]:
    """Files by path, with their lengths, sorted into partitions; hidden ones are left out.

    Of the side file of one that grows, the length is what it says: 0 for nothing yet. `folders` are those
    without files, as far as the store has such: an empty base hides all that is older.
    """
    found: dict[str, PartitionListing] = {}

    place_of = functools.cache(_place_of)  # of thousands of files in hundreds of folders

    def listing_of(path: str) -> PartitionListing:
        return found.setdefault(path, PartitionListing(path))

    for path in sorted(lengths):
        above, _, name = path.rpartition("/")
        place = place_of(above)
        if place is not None:
            _add_file(listing_of(place[0]), place[1], path, name, lengths)
    for path in sorted(folders):
        place = _place_of(path)
        if place is not None and place[1] is not None:
            listing_of(place[0]).files.setdefault(place[1], [])
    return {path: listing for path, listing in found.items() if listing.files or listing.originals}


def _place_of(path: str) -> tuple[str, AcidDirectory | None] | None:
    """The partition and the directory of what lies in a folder; None in hidden ones."""
    folders = path.split("/") if path else []
    if any(map(is_hidden, folders)):
        return None
    depth = next((i for i, folder in enumerate(folders) if "=" not in folder), len(folders))
    directory = next(filter(None, map(parse_directory, folders[depth:])), None)
    return "/".join(folders[:depth]), directory


def _add_file(
    listing: PartitionListing,
    directory: AcidDirectory | None,
    path: str,
    name: str,
    lengths: Mapping[str, int],
) -> None:
    if directory is not None:
        listing.files.setdefault(directory, [])
        if name == METADATA_FILE:
            listing.described.add(directory)
        elif name == VERSION_FILE:
            listing.versioned.add(directory)
    if is_hidden(name) or name.endswith(FLUSH_LENGTH_SUFFIX):
        return
    flushed = lengths.get(path + FLUSH_LENGTH_SUFFIX)
    if flushed == 0:
        return  # its writer has not flushed yet: there are no rows
    if directory is None and not lengths[path]:
        return  # an empty bucket of Hive's
    file = AcidFile(path, lengths[path], directory, bucket_of(name), flushed is not None)
    (listing.originals if directory is None else listing.files[directory]).append(file)


def uncertain_bases(listing: PartitionListing) -> list[AcidDirectory]:
    """The bases whose names do not say whether a compaction made them, and which have a file that does."""
    return sorted(
        (one for one in listing.described if one.is_base and not one.visibility), key=lambda one: one.order
    )


def plan_snapshot(
    listing: PartitionListing,
    write_ids: WriteIds,
    transactions: WriteIds,
    *,
    compacted: Collection[AcidDirectory] = (),
    history_is_whole: bool = False,
) -> Partition:
    """What a reader reads who sees these write ids, and directories of these transactions.

    `compacted` are the bases that a compaction made although their names do not say so. Where a compaction
    has swallowed history that this reader needs, `Unsupported` (``history_is_gone``) is raised, as Hive does,
    even if the directories it was in should still be there; `history_is_whole` says that they are.
    """
    seen = _Seen.of(listing, write_ids, transactions, compacted)
    base = seen.base(write_ids, compacted, history_is_whole=history_is_whole)
    chosen = seen.deltas_above(base, write_ids)
    originals = sorted(listing.originals, key=lambda file: file.path)
    inserts = _files(listing, (one for one in chosen if one.kind is DirectoryKind.DELTA))
    deletes = _files(listing, (one for one in chosen if one.kind is DirectoryKind.DELETE_DELTA))
    return Partition(
        listing.path,
        base,
        tuple(chosen),
        (*(originals if base is None else _files(listing, [base])), *inserts),
        tuple(deletes),
        tuple(sorted(seen.obsolete, key=lambda one: one.order)),
        tuple(sorted(seen.aborted, key=lambda one: one.order)),
        () if base is None else tuple(originals),
    )


@dataclass(slots=True)
class _Seen:
    """The directories of a partition, by what they are to one reader."""

    bases: list[AcidDirectory] = field(default_factory=list)
    deltas: list[AcidDirectory] = field(default_factory=list)
    aborted: list[AcidDirectory] = field(default_factory=list)
    obsolete: list[AcidDirectory] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        listing: PartitionListing,
        write_ids: WriteIds,
        transactions: WriteIds,
        compacted: Collection[AcidDirectory],
    ) -> _Seen:
        seen = cls()
        for one in listing.files:
            if one.visibility and not transactions.is_visible(one.visibility):
                if transactions.is_aborted(one.visibility):
                    seen.aborted.append(one)
            elif one.is_base:
                is_overwrite = not one.visibility and one not in compacted
                aborted = is_overwrite and write_ids.is_aborted(one.last_write_id)
                (seen.aborted if aborted else seen.bases).append(one)
            elif write_ids.aborted_of(one.first_write_id, one.last_write_id) == "all":
                seen.aborted.append(one)
            elif write_ids.visible(one.first_write_id, one.last_write_id) != "none":
                seen.deltas.append(one)
        # The newest first; of two of one write id the one that a compaction made of the other.
        seen.bases.sort(key=lambda one: (one.last_write_id, one.visibility), reverse=True)
        return seen

    def base(
        self, write_ids: WriteIds, compacted: Collection[AcidDirectory], *, history_is_whole: bool
    ) -> AcidDirectory | None:
        """The newest one that serves the reader; those below it are obsolete."""
        swallowed: AcidDirectory | None = None
        for at, one in enumerate(self.bases):
            is_compacted = one.visibility > 0 or one in compacted
            if _is_valid(one, write_ids, is_compacted=is_compacted):
                self.obsolete += self.bases[at + 1 :]
                return one
            swallowed = one if is_compacted else swallowed
        if swallowed is not None and not history_is_whole:
            raise Unsupported(
                f"readers as of write id {write_ids.high_watermark} need history that {swallowed.name} has "
                f"swallowed; read the table as of write id {swallowed.last_write_id} or later",
                reason="history_is_gone",
            )
        return None

    def deltas_above(self, base: AcidDirectory | None, write_ids: WriteIds) -> list[AcidDirectory]:
        """Those to be read; those that wider ones or the base stand in for are obsolete."""
        chosen: list[AcidDirectory] = []
        reached = 0 if base is None else max(base.last_write_id, 0)
        has_statements = False
        for delta in sorted(self.deltas, key=lambda one: one.order):
            if delta.last_write_id > reached:
                if write_ids.visible(reached + 1, delta.last_write_id) != "none":
                    chosen.append(delta)
                    reached = delta.last_write_id
                    has_statements = delta.statement >= 0
            elif (delta.last_write_id == reached and has_statements) or _is_twin(delta, chosen):
                chosen.append(delta)
            else:
                self.obsolete.append(delta)
        return chosen


def _is_valid(base: AcidDirectory, write_ids: WriteIds, *, is_compacted: bool) -> bool:
    """A compaction's base serves whom all of its history is closed to; an overwrite's is like a delta."""
    if base.last_write_id < 0:
        return True  # of what was there before the first write id
    if is_compacted:
        return not write_ids.has_open_up_to(base.last_write_id)
    return write_ids.is_visible(base.last_write_id)


def _is_twin(delta: AcidDirectory, chosen: Sequence[AcidDirectory]) -> bool:
    """Whether it and the last one chosen are inserts and deletes of one range, made together."""
    return bool(chosen) and chosen[-1].order[:-1] == delta.order[:-1] and chosen[-1].kind is not delta.kind


def _files(listing: PartitionListing, directories: Iterable[AcidDirectory]) -> list[AcidFile]:
    return [file for one in directories for file in listing.files[one]]
