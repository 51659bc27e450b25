"""Which files a read is of: paths, patterns and folders as Spark's own file sources understand them.

Knows what is left out (names that begin with ``_`` or ``.``, files without bytes), and which folders name
values (`partitions`). Must not know what is in the files.

Errors: `FileNotFoundError` for a path that is not there, or a pattern that nothing matches; `UsageError` for
a transactional table; what listing raises.
"""

from __future__ import annotations

import datetime
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as spark

from orcstream._credentials import strip_credentials
from orcstream.errors import Unsupported, UsageError
from orcstream.io import globs
from orcstream.io.loop.tasks import side_by_side
from orcstream.spark.options import Options
from orcstream.spark.read.partitions import (
    PartitionPath,
    common_columns,
    inferred_type,
    parse_folders,
    zone_named,
)

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
        patterns = [one for path in self.paths for one in globs.expanded(path)]
        return tuple(dict.fromkeys(globs.split_pattern(one)[0].rstrip("/") for one in patterns))


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


@dataclass(slots=True)
class _Candidate:
    listed: ListedFile
    root: str  # from where on folders may name values
    folders: list[str]
    depth: int  # how many of the folders are below the path that was given

    @property
    def folder(self) -> str:
        return "/".join([self.root.rstrip("/"), *self.folders])


async def find_files(choice: FileChoice, storage_options: Mapping[str, Any] | None = None) -> FoundFiles:
    """All files of a choice. Paths are listed side by side; no file is opened."""
    found = await side_by_side(choice.paths, lambda path: _below(path, choice, storage_options))
    if not choice.with_events:
        _refuse_transactional(one for several in found for one in several)
    return _partitioned(
        _distinct(one for several in found for one in several if _is_wanted(one, choice)), choice
    )


def _distinct(candidates: Iterable[_Candidate]) -> list[_Candidate]:
    """Each file once: of two paths that have it, by the one whose folders name more values, or the nearer."""

    def rank(one: _Candidate) -> tuple[int, int]:
        return (sum("=" in name for name in one.folders), -one.depth)

    found: dict[str, _Candidate] = {}
    for one in candidates:
        earlier = found.get(one.listed.url)
        if earlier is None or rank(one) >= rank(earlier):
            found[one.listed.url] = one
    return list(found.values())


def _refuse_transactional(candidates: Iterable[_Candidate]) -> None:
    """Files of a transactional table are events of its rows, and its directories no partitions."""
    from orcstream.plan.acid.names import is_table_file

    for one in candidates:
        if is_table_file(one.listed.url):
            raise transactional(one.listed.url)


def transactional(url: str) -> UsageError:
    """The error for a file of a transactional table."""
    return UsageError(
        "this file is part of a transactional table, whose files hold inserts and deletes, not the rows; "
        "read the table with orcstream.acid.open_table(url), and pass the rows to spark.createDataFrame",
        url=url,
    )


# --- listing ---------------------------------------------------------------------------------------


async def _below(path: str, choice: FileChoice, options: Mapping[str, Any] | None) -> list[_Candidate]:
    if not globs.is_pattern(path):
        return await _plain(path, choice, options)
    candidates: list[_Candidate] = []
    for pattern in globs.expanded(path):
        root, parts = globs.split_pattern(pattern)
        if not parts:
            found = await _plain(pattern, choice, options)
        else:
            matchers = [globs.name_matcher(part) for part in parts]
            listed = await _listed(root, choice, options)
            found = [one for file in listed if (one := _matched(root, file, matchers, choice)) is not None]
        candidates += found
    if not candidates and not choice.ignore_missing:
        raise FileNotFoundError(f"nothing matches {strip_credentials(path)!r}")
    return candidates


async def _plain(path: str, choice: FileChoice, options: Mapping[str, Any] | None) -> list[_Candidate]:
    listed = await _listed(path, choice, options)
    if len(listed) == 1 and listed[0].url == path:  # a file
        return [_Candidate(listed[0], *_based(posixpath.dirname(path), [], choice))]
    return [
        _Candidate(file, *_based(path, file.path.split("/")[:-1], choice))
        for file in listed
        if not globs.is_hidden(file.path)
    ]


async def _listed(path: str, choice: FileChoice, options: Mapping[str, Any] | None) -> list[ListedFile]:
    from orcstream.io.contract.folder import ListedFile
    from orcstream.io.folders import list_files

    try:
        return await list_files(path, storage_options=options)
    except FileNotFoundError:
        if choice.ignore_missing:
            return []
        raise
    except Unsupported as error:
        if error.reason != "no_listing":
            raise
        return [ListedFile(path, posixpath.basename(path), -1, "", None)]


def _matched(
    root: str, file: ListedFile, matchers: Sequence[re.Pattern[str]], choice: FileChoice
) -> _Candidate | None:
    """A file that a pattern matches, or that is below a folder that it matches."""
    names = file.path.split("/")
    if len(names) < len(matchers):
        return None
    if not all(m.fullmatch(name) for m, name in zip(matchers, names, strict=False)):
        return None
    below = names[len(matchers) :]
    if globs.is_hidden(file.path):
        return None
    is_file = not below
    place = posixpath.join(root, *(names[:-1] if is_file else names[: len(matchers)]))
    return _Candidate(file, *_based(place, below[:-1], choice))


def _based(root: str, folders: list[str], choice: FileChoice) -> tuple[str, list[str], int]:
    """Where values of folders are looked for, and the folders: those below `basePath` where it is given.

    And how many of these are below the path that was given, `root`.
    """
    base = choice.base_path
    if base is None:
        return root, folders, len(folders)
    above, whole = base.rstrip("/"), root.rstrip("/")
    if whole != above and not whole.startswith(above + "/"):
        shown = [strip_credentials(one) for one in (root, base)]
        raise UsageError(f"the path {shown[0]!r} is not below basePath, {shown[1]!r}")
    return above, [name for name in whole[len(above) :].split("/") if name] + folders, len(folders)


def _is_wanted(one: _Candidate, choice: FileChoice) -> bool:
    file = one.listed
    name = posixpath.basename(file.path)
    if not file.length:
        return False
    if choice.name_pattern is not None and not globs.name_matcher(choice.name_pattern).fullmatch(name):
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
