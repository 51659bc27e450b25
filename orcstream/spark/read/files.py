"""Which files a read is of: paths, patterns and folders as Spark's own file sources understand them.

Knows what is left out (files without bytes, and what options say), and which folders name values
(`partitions`). Must not know how places are listed (`table.files`), nor what is in the files.

Errors: `FileNotFoundError` for a path that is not there, or a pattern that nothing matches; `UsageError` for
a transactional table; what listing raises.
"""

from __future__ import annotations

import datetime
import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as spark

from orcstream._credentials import strip_credentials
from orcstream.errors import UsageError
from orcstream.io.folders import expanded, is_pattern, name_matcher, split_pattern
from orcstream.io.loop.tasks import side_by_side
from orcstream.spark.options import Options
from orcstream.spark.read.partitions import (
    PartitionPath,
    common_columns,
    inferred_type,
    parse_folders,
    zone_named,
)
from orcstream.table.files import PlacedFile, distinct, files_at

if TYPE_CHECKING:
    from orcstream.io.contract.folder import ListedFile


@dataclass(frozen=True, slots=True)
class FileChoice:
    """What a user says about which files; taken from options.

    `with_events` is for those that look at files as such: it allows those of transactional tables.
    """

    paths: tuple[str, ...]
    base_path: str | None = None
    recursive: bool = False
    name_pattern: str | None = None
    modified_before_s: float | None = None
    modified_after_s: float | None = None
    ignore_missing: bool = False
    case_sensitive: bool = False
    timezone: str = "UTC"
    with_events: bool = False

    @classmethod
    def of(cls, options: Options, *, case_sensitive: bool, timezone: str) -> FileChoice:
        return cls(
            _paths(options),
            base_path=options.text("basePath"),
            recursive=options.truth("recursiveFileLookup"),
            name_pattern=options.text("pathGlobFilter"),
            modified_before_s=_time(options, "modifiedBefore", timezone),
            modified_after_s=_time(options, "modifiedAfter", timezone),
            ignore_missing=options.truth("ignoreMissingFiles"),
            case_sensitive=case_sensitive,
            timezone=timezone,
        )

    @property
    def roots(self) -> tuple[str, ...]:
        """The folders below which files are, and may have been written by streams and merged by jobs."""
        if self.base_path is not None:
            return (self.base_path.rstrip("/"),)
        patterns = [one for path in self.paths for one in expanded(path)]
        return tuple(dict.fromkeys(split_pattern(one)[0].rstrip("/") for one in patterns))


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file to read. `length` is None where the store cannot say it without opening; `version` may be empty.

    `texts` are the values that its folders name, one for each of the table's partition columns. `modified_s`
    counts seconds from 1970, and is None where the store does not say.
    """

    url: str
    length: int | None
    version: str
    texts: tuple[str | None, ...] = ()
    modified_s: float | None = None


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """The files of a read, in the order of their paths, and the columns that their folders name.

    `merged` are the names of those that were merged from others, as records say that there still are.
    """

    files: Sequence[FoundFile]
    partition_names: tuple[str, ...] = ()
    merged: frozenset[str] = frozenset()

    def partition_fields(self) -> list[spark.StructField]:
        """The columns with the types that the folders' texts have in common."""
        distinct: list[set[str | None]] = [set() for _ in self.partition_names]
        for file in self.files:
            for seen, text in zip(distinct, file.texts, strict=True):
                seen.add(text)
        named = zip(self.partition_names, distinct, strict=True)
        return [spark.StructField(name, inferred_type(seen)) for name, seen in named]


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A file; from `root` on `folders` may name values, the last `depth` of them below the given path."""

    listed: ListedFile
    root: str
    folders: tuple[str, ...]
    depth: int

    @property
    def folder(self) -> str:
        return "/".join([self.root.rstrip("/"), *self.folders])


async def find_files(choice: FileChoice, storage_options: Mapping[str, Any] | None = None) -> FoundFiles:
    """All files of a choice. Paths are listed side by side; no file is opened."""

    async def placed(path: str) -> list[PlacedFile]:
        try:
            return await files_at(path, storage_options, is_pattern=is_pattern(path))
        except FileNotFoundError:
            if choice.ignore_missing:
                return []
            raise

    listed = [one for several in await side_by_side(choice.paths, placed) for one in several]
    if not choice.with_events:
        _refuse_transactional(listed)
    # Of two paths that have a file, that whose folders name more values counts, or the nearer.
    files = distinct(listed, lambda one: _rank(_based(one, choice)))
    return _partitioned([_based(one, choice) for one in files if _is_wanted(one.listed, choice)], choice)


def _rank(one: _Candidate) -> tuple[int, int]:
    return sum("=" in name for name in one.folders), -one.depth


def _refuse_transactional(files: Iterable[PlacedFile]) -> None:
    """Files of a transactional table are events of its rows, and its directories no partitions."""
    from orcstream.plan.acid.names import is_table_file

    for one in files:
        if is_table_file(one.listed.url):
            raise transactional(one.listed.url)


def transactional(url: str) -> UsageError:
    """The error for a file of a transactional table."""
    return UsageError(
        "this file is part of a transactional table, whose files hold inserts and deletes, not the rows; "
        "read the table with orcstream.acid.open_table(url), and pass the rows to spark.createDataFrame",
        url=url,
    )


# --- choosing --------------------------------------------------------------------------------------


def _based(one: PlacedFile, choice: FileChoice) -> _Candidate:
    """With the folders in which values are looked for: those below `basePath` where it is given."""
    base = choice.base_path
    if base is None:
        return _Candidate(one.listed, one.place, one.folders, len(one.folders))
    above, whole = base.rstrip("/"), one.place.rstrip("/")
    if whole != above and not whole.startswith(above + "/"):
        shown = [strip_credentials(url) for url in (one.place, base)]
        raise UsageError(f"the path {shown[0]!r} is not below basePath, {shown[1]!r}")
    between = tuple(name for name in whole[len(above) :].split("/") if name)
    return _Candidate(one.listed, above, between + one.folders, len(one.folders))


def _is_wanted(file: ListedFile, choice: FileChoice) -> bool:
    name = posixpath.basename(file.path)
    if not file.length:
        return False
    if choice.name_pattern is not None and not name_matcher(choice.name_pattern).fullmatch(name):
        return False
    modified = file.modified_s
    if modified is None:
        return choice.modified_before_s is None and choice.modified_after_s is None
    before, after = choice.modified_before_s, choice.modified_after_s
    return (before is None or modified < before) and (after is None or modified > after)


# --- values in folders -----------------------------------------------------------------------------


def _partitioned(candidates: list[_Candidate], choice: FileChoice) -> FoundFiles:
    if choice.recursive:
        return FoundFiles([_found(one, ()) for one in candidates])
    parsed: dict[str, PartitionPath] = {}
    for one in candidates:
        if one.folder not in parsed:
            parsed[one.folder] = parse_folders(one.root, one.folders)
    names = common_columns(parsed.items(), case_sensitive=choice.case_sensitive)
    if not names:
        # Folders that name nothing are not looked into, unless recursiveFileLookup says so.
        return FoundFiles([_found(one, ()) for one in candidates if not one.depth])
    values = ((one, parsed[one.folder].texts) for one in candidates)
    return FoundFiles([_found(one, texts) for one, texts in values if texts], names)


def _found(one: _Candidate, texts: tuple[str | None, ...]) -> FoundFile:
    listed = one.listed
    length = None if listed.length < 0 else listed.length
    return FoundFile(listed.url, length, listed.version, texts, listed.modified_s)


# --- options ---------------------------------------------------------------------------------------


def _paths(options: Options) -> tuple[str, ...]:
    """Spark gives one path as `path`, several as a JSON list, `paths`."""
    one, several = options.text("path"), options.names("paths")
    paths = [*([one] if one is not None else []), *(several or ())]
    options.refuse_catalog(paths)
    return tuple(paths)


def _time(options: Options, name: str, timezone: str) -> float | None:
    text = options.text(name)
    if text is None:
        return None
    try:
        time = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"option {name} is a time, as 2020-06-01T13:00:00, not {text!r}") from None
    return (time if time.tzinfo else time.replace(tzinfo=zone_named(timezone))).timestamp()
