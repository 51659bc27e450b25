"""Values of an ingest: its options, and the files that it committed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from orcstream.io.contract.byte_sink import Prepared
from orcstream.schema.schema import Schema
from orcstream.writer.creating import Creating
from orcstream.writer.template import UrlTemplate


@dataclass(frozen=True, slots=True)
class IngestedFile:
    """A file that was committed: its `url`, `row_count`, `stripe_count` and `length` in bytes.

    `partition` has the values of its partition columns by name.

    `low_water` counts rows in the order in which `write` took them: the first `low_water` rows are all in
    committed files. A source that starts again there loses no row.

    With `prepare_only` it is not committed: `prepared` is for `commit` or `discard`.
    """

    url: str
    partition: Mapping[str, Any]
    row_count: int
    stripe_count: int
    length: int
    prepared: Prepared | None = None
    low_water: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestOptions:
    """What `ingest` was told, checked. `new_file` makes a file of a URL and a schema."""

    template: UrlTemplate
    keep_partition_columns: bool
    max_bytes: int
    max_rows: int | None
    max_age_s: float | None
    flush_deadline_s: float | None
    memory_limit: int
    max_open_files: int
    on_file: Callable[[IngestedFile], object] | None
    new_file: Callable[[str, Schema], Creating]
    growing: bool
    prepare_only: bool
    overwrite: bool
    storage_options: Mapping[str, Any] | None
    hides_values: bool
