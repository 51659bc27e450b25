"""Beginning an ingest: what the user says, checked before anything is opened.

The defaults of ingesting live here; those of the files in `writer.creating`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Unpack

from orcstream._keywords import check_integer, check_seconds, unexpected
from orcstream.codec.arrow.schema import schema_of
from orcstream.errors import UsageError
from orcstream.io.loop.tasks import Pending
from orcstream.schema.schema import Schema
from orcstream.writer.budget import DEFAULT_MEMORY_LIMIT, LEAST_MEMORY_LIMIT
from orcstream.writer.creating import Creating, create
from orcstream.writer.ingested import IngestedFile, IngestOptions
from orcstream.writer.ingester import Ingester
from orcstream.writer.options import FileOptions, WriteOptions
from orcstream.writer.partitions import Partitioner
from orcstream.writer.template import UrlTemplate

_WRITERS = 4


def ingest(
    url_template: str,
    schema: object = None,
    *,
    partition_by: Sequence[str] | None = None,
    keep_partition_columns: bool = False,
    max_bytes: int = 256 << 20,
    max_rows: int | None = None,
    max_age_s: float | None = None,
    flush_deadline_s: float | None = None,
    memory_limit: int = DEFAULT_MEMORY_LIMIT,
    max_open_files: int = 64,
    on_file: Callable[[IngestedFile], object] | None = None,
    overwrite: bool = False,
    growing: bool = False,
    prepare_only: bool = False,
    **create_options: Unpack[FileOptions],
) -> Ingesting:
    """Write rows that arrive over time to many files.

    Either ``async with orcstream.ingest(template, schema) as out: await out.write(rows)``, which commits what
    is open at the end of the block, and aborts it when an exception leaves the block; or
    ``out = await orcstream.ingest(template, schema)`` and, at the end, ``await out.commit()`` or
    ``await out.abort()``. Each file appears whole or not at all; those that were committed stay.

    `schema` is that of the data, partition columns included; without it, that of the first data.
    `url_template` names the files: ``s3://bucket/events/date={date}/part-{number:05}-{uuid}.orc``. There are
    ``{number}``, which counts on from the largest one in the folder, ``{uuid}``, and columns, by whose values
    the rows are partitioned. With `partition_by` and no column in the template, folders ``name=value`` are
    put before the last segment. Values are escaped as Hive does, with ``__HIVE_DEFAULT_PARTITION__`` for
    nulls. The files have the partition columns only with `keep_partition_columns`.

    - A file ends with the rows that make it about `max_bytes` long, with its `max_rows`, and at the age of
      `max_age_s` seconds, counted from its first row, also when no more rows come.
    - `flush_deadline_s`: so many seconds after a row was written, at the latest, its commit begins; with
      `growing` its flush, and the file goes on.
    - `memory_limit`: bytes for all that waits, is encoded and is on its way. Where the open files need more
      than half of it, or are more than `max_open_files`, the one that got no rows for longest is committed.
    - `on_file`: called with one `IngestedFile` after the other, in the order of commits, and awaited where it
      is asynchronous. Files of a partition are committed in the order of their rows. What it raises ends the
      ingest; it must not end it otherwise, nor wait for its `flush`.
    - `overwrite`: whether a file that is there already may be replaced.
    - `prepare_only`: files are made durable and stay invisible. The caller commits or discards what
      `IngestedFile.prepared` says, also after an error or an abort: `files` has all of them.
    - `create_options`: those of `create`, for each file.

    Raises `UsageError` for what cannot be, and `KeyUnavailable` for keys that are not there or refused.
    """
    names = FileOptions.__annotations__
    if not create_options.keys() <= names.keys():
        raise UsageError(f"ingest() got {unexpected(create_options, names)}")
    check_integer("max_bytes", max_bytes, 1)
    check_integer("max_open_files", max_open_files, 1)
    check_integer("memory_limit", memory_limit, _WRITERS * LEAST_MEMORY_LIMIT)
    if max_rows is not None:
        check_integer("max_rows", max_rows, 1)
    for name, seconds in (("max_age_s", max_age_s), ("flush_deadline_s", flush_deadline_s)):
        if seconds is not None:
            check_seconds(name, seconds)
    if growing and prepare_only:
        raise UsageError("files that grow are visible from the start: prepare_only cannot be kept")
    template = UrlTemplate.parse(url_template, partition_by)

    def new_file(url: str, file_schema: Schema | None) -> Creating:
        return create(
            url,
            file_schema,
            memory_limit=memory_limit // _WRITERS,
            overwrite=overwrite or template.is_unique,
            growing=growing,
            **create_options,
        )

    first = new_file("file:///", None)
    _check_secrets(first.options, template.columns)
    found = None if schema is None else schema_of(schema)
    if found is not None:
        file_schema = Partitioner(found, template, keep=keep_partition_columns).file_schema
        first = new_file("file:///", file_schema)
    options = IngestOptions(
        template=template,
        keep_partition_columns=keep_partition_columns,
        max_bytes=max_bytes,
        max_rows=max_rows,
        max_age_s=max_age_s,
        flush_deadline_s=flush_deadline_s,
        memory_limit=memory_limit,
        max_open_files=max_open_files,
        on_file=on_file,
        new_file=new_file,
        growing=growing,
        prepare_only=prepare_only,
        overwrite=overwrite,
        storage_options=create_options.get("storage_options"),
        hides_values=first.options.hides_values,
    )
    return Ingesting(options, found, first)


class Ingesting(Pending[Ingester]):
    """An ingest about to begin: await it, or enter it."""

    made_by = "ingest"

    def __init__(self, options: IngestOptions, schema: Schema | None, first: Creating) -> None:
        super().__init__()
        self._options = options
        self._schema = schema
        self._first = first

    async def _make(self) -> Ingester:
        await self._first.check_keys()
        return Ingester(self._options, self._schema)


def _check_secrets(options: WriteOptions, partition_columns: Sequence[str]) -> None:
    for what, names in (("encrypted", options.encrypted_names), ("masked", options.masks or ())):
        for column in partition_columns:
            if {column, (column,)} & set(names):
                raise UsageError(
                    f"the column {column!r} cannot be {what}: partition columns are not in the files but in "
                    "their names, in the clear"
                )
