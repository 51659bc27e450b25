"""Opening a data set: the listing, and the columns.

Knows where the columns stand. The defaults of listing live here; those of opening files in `reader.opening`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Unpack, cast

import anyio.lowlevel

from orcstream._keywords import takes
from orcstream.codec.arrow.schema import schema_of
from orcstream.datasets.dataset import OrcDataset, Part
from orcstream.datasets.listing import FoundFile, Places, Split, find_files
from orcstream.datasets.reading import OpenFiles
from orcstream.errors import SchemaMismatch, UsageError, located
from orcstream.io.loop.tasks import Pending
from orcstream.io.loop.uncancelled import clean_up
from orcstream.reader.file import OrcFile
from orcstream.reader.opening import Opening, OpenKeywords, OpenOptions
from orcstream.schema.schema import Schema
from orcstream.schema.types import Kind
from orcstream.table.columns import PartitionColumns


class DatasetKeywords(OpenKeywords, total=False):
    """How a data set is opened."""

    pattern: str | None
    partitioning: str | None
    partition_schema: object
    schema: object


@takes(OpenKeywords, OpenOptions)
def dataset(
    url: Places | Split | Sequence[Split],
    *,
    pattern: str | None = None,
    partitioning: str | None = "hive",
    partition_schema: object = None,
    schema: object = None,
    **options: Unpack[OpenKeywords],
) -> OpeningDataset:
    """Open many files as one table.

    Either ``async with orcstream.dataset(url) as files``, or ``files = await orcstream.dataset(url)`` and, at
    the end, ``await files.aclose()``. `url` is a folder, a file, a pattern (``logs/*/part-{1,2}*.orc``), or
    several of these; or some splits that `OrcDataset.splits` answered. Of a folder, all files are read at any
    depth, but for those whose name, or that of a folder above, begins with ``_`` or ``.``, and those without
    bytes; with `pattern`, those whose name it matches.

    Folders named ``column=value`` are columns, as Hive and Spark write them: the last ones of the table;
    whole numbers, days or texts as their values look, or as `partition_schema` says. With
    ``partitioning=None``, folders are only folders.

    The columns are those of the file that was changed last; `schema` names them otherwise. Other files are
    read as that, by the rules of schema evolution: `open` and `OrcFile.batches` have the rest. The file that
    the columns were taken from stays open as long as the data set.

    Raises `FileNotFoundError` where there is no such file; `SchemaMismatch` where folders name different
    columns; `UsageError` for a transactional table (`orcstream.acid.open_table` opens it) and options that
    cannot be; and what `open` raises.
    """
    if partitioning not in ("hive", None):
        raise UsageError(f"partitioning must be 'hive' or None, not {partitioning!r}")
    asked = _Asked(
        pattern,
        partitioning is not None,
        None if partition_schema is None else schema_of(partition_schema),
        None if schema is None else schema_of(schema),
    )
    return OpeningDataset(url, asked, OpenOptions(**options))


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is said about the files of a data set."""

    pattern: str | None
    is_hive: bool
    partition_schema: Schema | None
    schema: Schema | None


class OpeningDataset(Pending[OrcDataset]):
    """A data set about to be opened: await it, or enter it."""

    made_by = "dataset"

    def __init__(self, url: Places | Split | Sequence[Split], asked: _Asked, options: OpenOptions) -> None:
        super().__init__()
        self._url = url
        self._asked = asked
        self._options = options

    async def _make(self) -> OrcDataset:
        splits = _splits_in(self._url)
        if splits is not None:
            return self._of_splits(splits)
        places = cast("Places", self._url)
        # With a schema no file is opened here, and nothing would find a folder that is named like a file.
        found = await self._found(places, guess=self._asked.schema is None)
        if self._asked.schema is not None:
            return self._dataset(found, self._asked.schema, None)
        newest = max(found, key=lambda file: (file.modified_s or 0.0, file.path))
        try:
            file = await Opening(newest.url, self._options, None)
        except FileNotFoundError:
            # A folder may be named like a file.
            found = await self._found(places, guess=False)
            if newest in found:
                raise
            newest = max(found, key=lambda file: (file.modified_s or 0.0, file.path))
            file = await Opening(newest.url, self._options, None)
        close = file.aclose
        try:
            made = self._dataset(found, file.schema, (newest.url, file))
            close = made.aclose
            # Thousands of columns were numbered in this turn of the loop, and a first read does so again.
            await anyio.lowlevel.checkpoint()
        except BaseException as error:
            await clean_up(error, close)
            raise
        return made

    async def _found(self, places: Places, *, guess: bool) -> list[FoundFile]:
        asked = self._asked
        storage_options = self._options.storage_options
        return await find_files(
            places, storage_options, pattern=asked.pattern, hive=asked.is_hive, guess=guess
        )

    def _dataset(
        self, found: Sequence[FoundFile], schema: Schema, kept: tuple[str, OrcFile] | None
    ) -> OrcDataset:
        with located(url=found[0].url):
            if schema.root.kind is not Kind.STRUCT:
                raise SchemaMismatch(f"the rows of a data set are structs, not {schema.root}")
            columns = PartitionColumns.of(
                dict.fromkeys(file.folders for file in found), self._asked.partition_schema
            )
        files = OpenFiles(self._options, kept)
        return OrcDataset([Part(file) for file in found], schema, columns, files)

    def _of_splits(self, splits: Sequence[Split]) -> OrcDataset:
        first = splits[0]
        if any(
            (one.file_schema, one.partition_schema) != (first.file_schema, first.partition_schema)
            for one in splits
        ):
            raise UsageError("splits that are read together have to be of one data set")
        parts = [
            Part(FoundFile(one.url, one.path, one.file_length, None, one.folders), one) for one in splits
        ]
        columns = PartitionColumns(first.partition_schema.names, first.partition_schema.root.children)
        schema = self._asked.schema or first.file_schema
        return OrcDataset(parts, schema, columns, OpenFiles(self._options, None))


def _splits_in(url: object) -> Sequence[Split] | None:
    if isinstance(url, Split):
        return [url]
    if isinstance(url, Sequence) and not isinstance(url, str) and url:
        splits = [one for one in url if isinstance(one, Split)]
        if len(splits) == len(url):
            return splits
        if splits:
            raise UsageError("splits are opened by themselves, and not together with paths")
    return None
