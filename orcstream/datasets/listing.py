"""Which files a data set is of: paths, patterns, folders, or splits that share it out.

Knows names: what is left out (hidden ones and files without bytes), and which folders
name values. Must not know what is in the files, nor how they are read.

Errors: `FileNotFoundError` for a path that is not there, or a pattern that nothing matches; `UsageError` for
a transactional table, whose files are not its rows; what listing raises.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from orcstream._credentials import strip_credentials
from orcstream.errors import Unsupported, UsageError
from orcstream.io import globs
from orcstream.io.contract.folder import ListedFile
from orcstream.io.folders import list_files
from orcstream.io.loop.tasks import side_by_side
from orcstream.io.source import kind_of
from orcstream.plan.acid.names import is_table_file
from orcstream.schema.schema import Schema

Places: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

_TRANSACTIONS: Final = re.compile(r"(base|delta|delete_delta)_[0-9]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file to read. `path` is what follows the folder or pattern that it was found by.

    `length` is None where only opening the file says it; `modified_s` counts seconds from 1970, and is None
    where the store does not say. `folders` are those that name values, as ``country=DE/day=2024-05-01``.
    """

    url: str = field(repr=False)
    path: str
    length: int | None = None
    modified_s: float | None = None
    folders: str = ""


async def find_files(
    places: Places,
    storage_options: Mapping[str, Any] | None,
    *,
    pattern: str | None,
    hive: bool,
    guess: bool = True,
) -> list[FoundFile]:
    """All files of some places, each once, place by place and in the order of their paths.

    With `guess`, a URL of a store that ends with ``.orc`` is taken for a file, which spares a request; it may
    be a folder.
    """
    if isinstance(places, str | os.PathLike):
        urls, below = [os.fspath(places)], _below
    else:
        urls, below = [os.fspath(one) for one in places], _existing_or_below
    if not urls:
        raise UsageError("which files? a path, a pattern, a folder, or some of these")
    matcher = None if pattern is None else globs.name_matcher(pattern)
    found = await side_by_side(urls, lambda url: below(url, storage_options, guess=guess))
    files: dict[str, FoundFile] = {}
    for file in (file for some in found for file in some):
        known = files.setdefault(_same(file.url), file)
        if file.path.count("/") > known.path.count("/"):  # more of its folders' values are known
            files[_same(file.url)] = file
    wanted = [
        file
        for file in files.values()
        if matcher is None or matcher.fullmatch(posixpath.basename(file.path)) is not None
    ]
    if not wanted:
        shown = ", ".join(strip_credentials(url) for url in urls)
        raise FileNotFoundError(f"there are no files in {shown}" + (f" like {pattern}" if pattern else ""))
    return [_partitioned(file, hive=hive) for file in wanted]


def _same(url: str) -> str:
    """One text for all ways to write a local path."""
    if kind_of(url) not in ("file", "local"):
        return url
    return os.path.abspath(url.partition("://")[2] if "://" in url else url)  # noqa: PTH100 - links stay


async def _existing_or_below(url: str, options: Mapping[str, Any] | None, *, guess: bool) -> list[FoundFile]:
    """Of an item of a list: a path that exists is that path, although it has the characters of a pattern."""
    if not globs.is_pattern_url(url):
        return await _below(url, options, guess=guess)
    try:
        listed = await list_files(url, storage_options=options)
    except FileNotFoundError:
        return await _matching(url, options)
    return [_found(file) for file in listed if _is_wanted(file)]


async def _below(url: str, options: Mapping[str, Any] | None, *, guess: bool) -> list[FoundFile]:
    if globs.is_pattern_url(url):
        return await _matching(url, options)
    if guess and url.lower().endswith(".orc") and kind_of(url) not in ("file", "local"):
        return [FoundFile(url, posixpath.basename(url))]
    try:
        listed = await list_files(url, storage_options=options)
    except Unsupported as error:
        if error.reason != "no_listing":
            raise
        return [FoundFile(url, posixpath.basename(url))]
    return [_found(file) for file in listed if _is_wanted(file)]


async def _matching(pattern: str, options: Mapping[str, Any] | None) -> list[FoundFile]:
    shapes: dict[str, list[list[re.Pattern[str]]]] = {}  # by the folder that is listed
    for one in globs.expanded(pattern):
        root, parts = globs.split_pattern(one)
        shapes.setdefault(root, []).append([globs.name_matcher(part) for part in parts])
    base, _ = globs.split_pattern(pattern)
    found: list[FoundFile] = []
    for root, several in shapes.items():
        try:
            listed = await list_files(root, storage_options=options)
        except FileNotFoundError:  # another alternative may be there
            continue
        above = _between(base, root)
        found += [
            replace(_found(file), path=_joined(above, file.path))
            for file in listed
            if _is_wanted(file) and any(_fits(file, matchers) for matchers in several)
        ]
    if not found:
        raise FileNotFoundError(
            f"nothing matches {strip_credentials(pattern)!r}; if this is a name and not a pattern, "
            "put it into a list, or put a backslash before each special character"
        )
    return found


def _between(base: str, root: str) -> str:
    """The folders of an alternative, below the one that its pattern begins with."""
    if root == base:
        return ""
    return root if base == "." else root[len(base) :].lstrip("/")


def _joined(above: str, path: str) -> str:
    """`path` below `above`, which may be the file itself."""
    return above if posixpath.basename(above) == path else posixpath.join(above, path)


def _fits(file: ListedFile, matchers: Sequence[re.Pattern[str]]) -> bool:
    """Whether a pattern matches a file, or a folder that it is below."""
    names = file.path.split("/")
    if len(names) < len(matchers):
        return False
    return all(m.fullmatch(name) for m, name in zip(matchers, names, strict=False))


def _found(file: ListedFile) -> FoundFile:
    return FoundFile(file.url, file.path, file.length, file.modified_s)


def _is_wanted(file: ListedFile) -> bool:
    return file.length != 0 and not globs.is_hidden(file.path)


def _partitioned(file: FoundFile, *, hive: bool) -> FoundFile:
    folders = file.path.split("/")[:-1]
    if any(_TRANSACTIONS.match(folder) for folder in folders) or is_table_file(file.url):
        raise UsageError("this is a transactional table: open it with orcstream.acid.open_table(url)")
    named = "/".join(folder for folder in folders if "=" in folder) if hive else ""
    return FoundFile(file.url, file.path, file.length, file.modified_s, named)


DEFAULT_SPLIT_BYTES = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Rows of one file of a data set: ``orcstream.dataset(split)`` reads them, in any process.

    A plain value that may be pickled. It holds neither credentials nor keys, except for what the URL has
    of them: whoever opens it names `storage_options=` and `keys=` again. `weight_bytes` is what its rows
    have in the file, about; `folders`, `file_schema` and `partition_schema` are what has to be known of
    the data set to read them, `file_length` (bytes) and `fingerprint` what the file is held to.
    `row_count` counts them before any `where=`. A file that is another one by then is `SourceChanged`.
    """

    url: str = field(repr=False)
    path: str
    rows: range
    weight_bytes: int
    folders: str
    file_schema: Schema = field(repr=False)
    partition_schema: Schema = field(repr=False)
    file_length: int = field(repr=False)
    fingerprint: str = field(repr=False)

    @property
    def row_count(self) -> int:
        """How many rows it has, before any `where=`."""
        return len(self.rows)
