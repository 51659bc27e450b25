"""Which files a data set is of: paths, patterns, folders, or splits that share it out.

Knows what is left out (files without bytes), and which folders name values. Must not know how places are
listed (`table.files`), nor what is in the files, nor how they are read.

Errors: `FileNotFoundError` for a path that is not there, or a pattern that nothing matches; `UsageError` for
a transactional table, whose files are not its rows; what listing raises.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from orcstream.errors import UsageError
from orcstream.io.folders import is_pattern_url, name_matcher
from orcstream.io.loop.tasks import side_by_side
from orcstream.io.urls import kind_of, shown_of
from orcstream.plan.acid.names import is_table_file
from orcstream.schema.schema import Schema
from orcstream.table.files import PlacedFile, distinct, files_at, unlisted

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
    be a folder. Of an item of a list, a path that exists is that path, whatever characters it has.
    """
    is_one = isinstance(places, str | os.PathLike)
    urls = [os.fspath(one) for one in ([places] if isinstance(places, str | os.PathLike) else places)]
    if not urls:
        raise UsageError("which files? a path, a pattern, a folder, or some of these")

    async def placed(url: str) -> list[PlacedFile]:
        is_pattern = is_pattern_url(url)
        is_like_file = url.lower().endswith(".orc") and kind_of(url) not in ("file", "local")
        if guess and is_like_file and not is_pattern:
            return [unlisted(url)]
        return await files_at(url, storage_options, is_pattern=is_pattern, may_be_name=not is_one)

    found = await side_by_side(urls, placed)
    # Of more folders more values are known.
    files = distinct((one for several in found for one in several), lambda one: one.path.count("/"))
    matcher = None if pattern is None else name_matcher(pattern)
    wanted = [
        one
        for one in files
        if one.listed.length != 0 and (matcher is None or matcher.fullmatch(one.path.rpartition("/")[2]))
    ]
    if not wanted:
        shown = ", ".join(shown_of(url) for url in urls)
        raise FileNotFoundError(f"there are no files in {shown}" + (f" like {pattern}" if pattern else ""))
    return [_partitioned(one, hive=hive) for one in wanted]


def _partitioned(one: PlacedFile, *, hive: bool) -> FoundFile:
    file, folders = one.listed, one.path.split("/")[:-1]
    if any(_TRANSACTIONS.match(folder) for folder in folders) or is_table_file(file.url):
        raise UsageError("this is a transactional table: open it with orcstream.acid.open_table(url)")
    named = "/".join(folder for folder in folders if "=" in folder) if hive else ""
    length = None if file.length < 0 else file.length
    return FoundFile(file.url, one.path, length, file.modified_s, named)


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
