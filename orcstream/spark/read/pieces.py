"""Reading pieces of files in a task: opened ahead, held to what was planned, answered as Spark's batches.

Knows what executors are told (`ReadPlan`). Must not know how files were found or shared out.

Errors are the package's own, with the file's URL and the column's name in their text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import types as spark
from pyspark.sql.datasource import InputPartition

from orcstream import Expr, OrcFile, blocking
from orcstream._credentials import strip_credentials
from orcstream._printable import logger_of
from orcstream.errors import FormatError, OrcError, SourceChanged, located
from orcstream.io.loop.uncancelled import called
from orcstream.reader.file import plans_long
from orcstream.reader.options import MICROSECONDS, MatchKeywords
from orcstream.schema.schema import Schema
from orcstream.schema.types import dotted_names
from orcstream.spark.access import Access, run
from orcstream.spark.read.shaping import FileForm, Shape, form_of

if TYPE_CHECKING:
    from orcstream.spark.read.files import FoundFile
    from orcstream.spark.read.merged_files import MovedRows
    from orcstream.spark.read.where import Where

_logger = logger_of("orcstream.spark")
# The file being read, and the next.
_OPEN_AT_ONCE = 2
# Files of other tables need no closer look.
_EVENT_COLUMN_COUNT = 6
# So often rows are looked for that are merged again and again.
_MOST_MOVES = 100


@dataclass(frozen=True, slots=True)
class Faults:
    """Which files that cannot be read are left out: damaged ones, and those that are gone."""

    corrupt: bool = False
    missing: bool = False

    @property
    def any(self) -> bool:
        return self.corrupt or self.missing

    def on_error(self, url: Any, error: Exception) -> None:
        """Raises what is not to be passed over."""
        if isinstance(error, FileNotFoundError) and self.missing:
            _logger.warning("%s is gone and left out", strip_credentials(url))
        elif isinstance(error, FormatError) and self.corrupt:
            _logger.warning("the rest of a damaged file is left out: %s", error)
        else:
            raise error


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of a file, or all of them where `rows` is None.

    The file is held to its `length` and `fingerprint`, where these are known: else they are None and empty.
    `weight` is its size in bytes. `texts` are what its folders name.
    """

    url: str
    length: int | None
    fingerprint: str
    weight: int
    rows: tuple[int, int] | None = None
    texts: tuple[str | None, ...] = ()


class ReadPartition(InputPartition):
    """What one task reads, and the columns that folders name.

    `merged` are names of merged files that this read has as a whole, those in the folders of the pieces.
    """

    def __init__(
        self,
        pieces: Sequence[Piece],
        partition_names: tuple[str, ...] = (),
        merged: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(None)
        self.pieces = tuple(pieces)
        self.partition_names = partition_names
        self.merged = merged

    def __repr__(self) -> str:
        return f"<ReadPartition of {len(self.pieces)} pieces, {sum(one.weight for one in self.pieces)} bytes>"


@dataclass(frozen=True)
class ReadPlan:
    """What executors are told of a read. Values only."""

    schema: spark.StructType
    access: Access
    faults: Faults
    where: Where | None
    case_sensitive: bool
    timezone: str | None
    memory_limit: int
    batch_rows: int
    roots: tuple[str, ...]


class TaskReader:
    """What is left of a reader on an executor: tables and streams are read in the same way there."""

    def __init__(self, plan: ReadPlan) -> None:
        self._plan = plan

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """See `DataSourceReader`."""
        if not isinstance(partition, ReadPartition):  # where there are none, Spark makes one
            return iter(())
        reader = PieceReader(self._plan, partition.partition_names)
        return reader.batches(partition.pieces, partition.merged)


class PieceReader:
    """Reads pieces by one plan. Columns of its schema that `partition_names` has too are those of folders."""

    def __init__(self, plan: ReadPlan, partition_names: tuple[str, ...]) -> None:
        self._plan = plan
        # Spark's own times are microseconds.
        self._matching: MatchKeywords = {**MICROSECONDS, "case_sensitive": plan.case_sensitive}
        positions = {self._folded(name): at for at, name in enumerate(partition_names)}
        # By the column's name in the schema: which of the folders' values it is.
        self._in_folders = {
            field.name: positions[self._folded(field.name)]
            for field in plan.schema.fields
            if self._folded(field.name) in positions
        }
        self._in_files = spark.StructType(
            [field for field in plan.schema.fields if field.name not in self._in_folders]
        )
        # By what folders name: what is left to ask of the rows below them.
        self._left: dict[tuple[str | None, ...], Expr | bool] = {}

    def _folded(self, name: str) -> str:
        return name if self._plan.case_sensitive else name.lower()

    # --- planning ----------------------------------------------------------------------------------

    def folder_matches(self, file: FoundFile) -> bool:
        """Whether rows below the folders of a file can match."""
        return self._asked(file.texts, file.url) is not False

    def asks_rows(self, file: FoundFile) -> bool:
        """Whether the folders of a file leave it open which of its rows match."""
        return not isinstance(self._asked(file.texts, file.url), bool)

    async def look(self, opened: OrcFile, file: FoundFile) -> Sequence[int]:
        """The stripes of a file that may have rows to be read."""
        with _named(opened.schema):
            # Other files are opened meanwhile.
            ask = partial(self._question, opened.schema, file)
            form, where = await called(ask, is_large=plans_long(opened))
            if where is None:
                return range(len(opened.stripes))
            return await opened.matching_stripes(where, schema=form.schema, **self._matching)

    def _question(self, stored: Schema, file: FoundFile) -> tuple[FileForm, Expr | None]:
        form = self._form(stored)
        return form, self._where(form, file.texts, file.url)

    def _asked(self, texts: tuple[str | None, ...], url: str) -> Expr | bool:
        """What is left of the predicate where folders name these texts."""
        if self._plan.where is None:
            return True
        if texts not in self._left:
            self._left[texts] = self._plan.where.narrowed(self._values(texts, url))
        return self._left[texts]

    def _where(self, form: FileForm, texts: tuple[str | None, ...], url: str) -> Expr | None:
        """What to ask of the rows of a file that is to be read."""
        asked = self._asked(texts, url)
        if isinstance(asked, bool):
            return None
        from orcstream.spark.read.where import fitted

        return fitted(asked, form.schema.root, case_sensitive=self._plan.case_sensitive)

    # --- reading -----------------------------------------------------------------------------------

    def batches(
        self, pieces: Sequence[Piece], planned: frozenset[str] = frozenset()
    ) -> Iterator[pa.RecordBatch]:
        """The rows of some pieces.

        Those of a file that was merged since are read from the merged one, or not at all where that is among
        `planned`, the merged files that are read as a whole.
        """
        plan = self._plan
        # The pieces of a stream are planned without a look at what its folders name.
        pieces = [one for one in pieces if self._asked(one.texts, one.url) is not False]
        options = run(self._open_options)
        coming = iter(pieces)
        gone: list[tuple[Piece, FileNotFoundError]] = []

        @cache
        def moved() -> MovedRows:
            from orcstream.spark.read.merged_files import Merges, MovedRows

            return MovedRows(Merges(plan.roots, plan.access.storage_options), planned)

        def skip(url: Any, error: Exception) -> None:
            if isinstance(error, FileNotFoundError):
                gone.append((next(coming), error))
                return
            plan.faults.on_error(url, error)
            next(coming)

        urls = [piece.url for piece in pieces]
        opening = blocking.open_many(urls, ordered=True, concurrency=_OPEN_AT_ONCE, on_error=skip, **options)
        with opening as files:
            for opened in files:
                piece, count = next(coming), 0
                try:
                    for batch in self._of_file(opened, piece, options):
                        yield batch
                        count += batch.num_rows
                except FileNotFoundError as error:
                    yield from self._moved(piece, count, error, moved, options)
        for piece, missing in gone:
            yield from self._moved(piece, 0, missing, moved, options)

    def _moved(
        self,
        piece: Piece,
        done: int,
        error: FileNotFoundError,
        moved: Callable[[], MovedRows],
        options: dict[str, Any],
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a piece whose file is gone, but for the first `done` of them, which were read before.

        A merged file has the same rows in the same order, so a predicate is true of the same ones.
        """
        for _ in range(_MOST_MOVES):
            try:
                found = run(partial(moved().of, piece.url, piece.length, piece.fingerprint, piece.rows))
            except LookupError:
                break
            if found is None:
                return
            url, rows = found
            piece, count = replace(piece, url=url, length=None, fingerprint="", rows=rows), 0
            try:
                with blocking.open(piece.url, **options) as opened:
                    for batch in self._of_file(opened, piece, options):
                        first = min(batch.num_rows, max(0, done - count))
                        count += batch.num_rows
                        if first < batch.num_rows:
                            yield batch.slice(first)
            except FileNotFoundError:
                done = max(done, count)
            else:
                return
        if not self._plan.faults.missing:
            raise FileNotFoundError(
                f"{error}; it was there when the read was planned, and no record says which file has its "
                "rows now: the table was overwritten, or compacted so often that the records are gone; make "
                "the DataFrame again (spark.read...load), REFRESH TABLE does not help"
            ) from error
        self._plan.faults.on_error(piece.url, error)

    def _of_file(
        self, opened: blocking.OrcFile, piece: Piece, options: dict[str, Any]
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a piece from its file."""
        with self._in_form(opened, piece, options) as (file, form):
            try:
                yield from self._rows(file, form, piece)
            except FormatError as error:
                self._plan.faults.on_error(piece.url, error)

    async def _open_options(self) -> dict[str, Any]:
        zone = self._plan.timezone
        times: dict[str, Any] = {"instants": True} if zone is None else {"default_timezone": zone}
        return {**await self._plan.access.open_options(), **times}

    @contextmanager
    def _in_form(
        self, opened: blocking.OrcFile, piece: Piece, options: dict[str, Any]
    ) -> Iterator[tuple[blocking.OrcFile, FileForm]]:
        """The file as it is to be read; opened again, without a request, where its times are others."""
        with opened:
            _hold(opened, piece)
            refuse_events(opened)
            with _named(opened.schema):
                form = self._form(opened.schema)
                if form.instants == (self._plan.timezone is None):
                    yield opened, form
                    return
                others = {**options, "instants": form.instants}
                with blocking.open(piece.url, tail=opened.tail, **others) as again:
                    yield again, form

    def _rows(self, file: blocking.OrcFile, form: FileForm, piece: Piece) -> Iterator[pa.RecordBatch]:
        plan = self._plan
        with located(url=file.url):
            shape = Shape(plan.schema, self._values(piece.texts, piece.url))
        stream = file.batches(
            schema=form.schema,
            where=self._where(form, piece.texts, piece.url),
            rows=None if piece.rows is None else range(*piece.rows),
            batch_rows=plan.batch_rows,
            memory_limit=plan.memory_limit,
            **self._matching,
        )
        with stream:
            for batch in stream:
                if batch.num_rows:
                    with located(url=file.url):
                        shaped = shape.batch(batch)
                    yield shaped

    def _form(self, stored: Schema) -> FileForm:
        plan = self._plan
        return form_of(
            self._in_files,
            stored,
            case_sensitive=plan.case_sensitive,
            has_zone=plan.timezone is not None,
        )

    def _values(self, texts: Sequence[str | None], url: str) -> dict[str, Any]:
        """What the folders of a file say, by the columns' names."""
        if not self._in_folders:
            return {}
        from orcstream.spark.read.partitions import typed_value

        zone = self._plan.timezone or "UTC"
        return {
            name: typed_value(texts[at], self._plan.schema[name].dataType, zone, url)
            for name, at in self._in_folders.items()
        }


def _hold(file: blocking.OrcFile, piece: Piece) -> None:
    """The file must be the one that was planned."""
    tail = file.tail
    other = piece.fingerprint and tail.fingerprint and piece.fingerprint != tail.fingerprint
    if other or (piece.length is not None and piece.length != tail.file_length):
        raise SourceChanged(
            "the file was replaced after the read was planned; make the DataFrame again (spark.read...load), "
            "or restart the stream: Spark plans a DataFrame only once",
            url=file.url,
        )


def refuse_events(file: OrcFile | blocking.OrcFile) -> None:
    """Raise `UsageError` for a file of events, wherever it lies: it would be read as nulls."""
    if len(file.schema.root.children) != _EVENT_COLUMN_COUNT:
        return
    from orcstream.plan.acid.names import event_columns

    if event_columns(file.schema) is not None:
        from orcstream.spark.read.files import transactional

        raise transactional(file.url)


@contextmanager
def _named(schema: Schema) -> Iterator[None]:
    """Errors that leave the block name their column, which they know by its number in the file."""
    try:
        yield
    except OrcError as error:
        if error.column is not None and 0 < error.column < schema.column_count:
            name = dotted_names(schema.root)[error.column]
            if name not in error.message:
                error.message = f"column {name!r}: {error.message}"
        raise
