"""What a write to Spark's data source is told, as one value that goes to every task.

Knows the names of the options of a write and what they stand for in `orcstream.ingest` and `create`. Must not
know how rows are written or committed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

import pyspark
from pyspark.sql.types import (
    ArrayType,
    DataType,
    MapType,
    StructType,
    TimestampNTZType,
    TimestampType,
    YearMonthIntervalType,
)

from orcstream import Encrypt, Schema
from orcstream.errors import ColumnNotFound, Unsupported, UsageError
from orcstream.schema.schema import find_column, numbered
from orcstream.schema.types import Kind, Type
from orcstream.spark.access import Access
from orcstream.spark.options import Options
from orcstream.spark.read.partitions import zone_named
from orcstream.spark.read.shaping import orc_schema

N = TypeVar("N", int, float)

# As Spark's own writer says which version of it has written a file.
VERSION_KEY: Final = "org.apache.spark.version"
_TIMES: Final = (TimestampType, TimestampNTZType)
_TEXTS: Final = ("compression", "encoding_strategy", "file_version", "calendar")
_SIZES: Final = ("block_bytes", "stripe_bytes")
_TRUTHS: Final = ("original_blooms", "lossy_timestamps")
_NUMBERS: Final[Mapping[str, type[int | float]]] = {
    "compression_level": int,
    "row_index_stride": int,
    "encode_threads": int,
    "dictionary_threshold": float,
}
# As in Spark's own options `orc.encrypt` and `orc.mask`: a key, or a mask, and columns.
_HIDING = re.compile(r"\s*([^:;]+):([^;]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePlan:
    """What tasks and the driver have to know; can be pickled. `file_options` are those of `create`."""

    url: str
    schema: Schema
    partition_by: tuple[str, ...]
    max_bytes: int
    max_rows: int | None
    memory_limit: int
    file_options: Mapping[str, Any]
    access: Access
    # Partition columns of times, which become texts in a zone.
    spelled: tuple[str, ...] = ()
    spelled_in: str = "UTC"

    @property
    def storage_options(self) -> Mapping[str, Any]:
        """How the store is reached."""
        return self.access.storage_options

    @property
    def sink_options(self) -> Mapping[str, Any] | None:
        """How files are sent."""
        found: Mapping[str, Any] | None = self.file_options.get("sink_options")
        return found

    @property
    def suffix(self) -> str:
        """How names of files end: as Spark's own do."""
        compression = self.file_options.get("compression", "zstd")
        return ".orc" if compression == "none" else f".{compression}.orc"

    def url_of(self, path: str) -> str:
        """The URL of a file below the target."""
        return f"{self.url.rstrip('/')}/{path}"


def write_plan(schema: StructType, options: Options) -> WritePlan:
    """The options that batches and streams share; `options.finish` is left to the caller.

    Raises `UsageError` for what cannot be, and `Unsupported` for columns that no ORC file has.
    """
    url = options.text("path")
    options.refuse_catalog(url)
    assert url is not None
    if not schema.fields:
        raise UsageError("there are no columns to write; an ORC file of none has no rows")
    _check_reachable(schema, ())
    columns = orc_schema(schema)
    partition_by = tuple(_real(columns, name) for name in options.names("partition_by") or ())
    if len(set(partition_by)) < len(partition_by):
        raise UsageError(f"option partition_by names a column twice: {', '.join(partition_by)}")
    spelled = tuple(name for name in partition_by if isinstance(schema[name].dataType, _TIMES))
    spelled_in = options.text("timezone") or "UTC"  # as folders are read
    if spelled:
        zone_named(spelled_in)  # so that an unknown zone fails here, and not in a task
    max_rows = options.count("max_records_per_file", 0, least=0)
    return WritePlan(
        url=url,
        schema=_with_texts(columns, spelled),
        partition_by=partition_by,
        max_bytes=options.size("max_bytes_per_file", 256 << 20),
        max_rows=max_rows or None,
        memory_limit=options.size("memory_limit", 256 << 20),
        file_options=_file_options(columns, options),
        access=Access.of(options),
        spelled=spelled,
        spelled_in=spelled_in,
    )


def _with_texts(schema: Schema, names: tuple[str, ...]) -> Schema:
    """The schema with texts for some columns."""
    root = schema.root
    pairs = zip(root.field_names, root.children, strict=True)
    children = tuple(Type(Kind.STRING) if name in names else child for name, child in pairs)
    return numbered(replace(root, children=children))


def _check_reachable(type_: DataType, path: tuple[str, ...]) -> None:
    """Spark hands Arrow to Python, and pyarrow has no intervals of months."""
    if isinstance(type_, YearMonthIntervalType):
        raise Unsupported(
            f"{'.'.join(path)} is {type_.simpleString()}, which Spark hands to no Python writer; cast it",
            reason="type_in_spark",
        )
    if isinstance(type_, StructType):
        for part in type_.fields:
            _check_reachable(part.dataType, (*path, part.name))
    elif isinstance(type_, ArrayType):
        _check_reachable(type_.elementType, (*path, "element"))
    elif isinstance(type_, MapType):
        _check_reachable(type_.keyType, (*path, "key"))
        _check_reachable(type_.valueType, (*path, "value"))


def _file_options(schema: Schema, options: Options) -> dict[str, Any]:
    found: dict[str, Any] = {name: options.text(name) for name in _TEXTS}
    found |= {name: options.size(name, 0) or None for name in _SIZES}
    found |= {name: options.truth(name) for name in _TRUTHS}
    found |= {name: _number(options, name, kind) for name, kind in _NUMBERS.items()}
    found["compression"] = _compression(found["compression"])
    found["timezone"] = options.text("timezone") or _local_zone()
    found["blooms"] = _blooms(schema, options)
    found["encrypt"], found["masks"] = _hidden(schema, options)
    metadata = _mapping(options, "user_metadata")
    found["user_metadata"] = {VERSION_KEY: pyspark.__version__, **metadata}
    found["sink_options"] = _mapping(options, "sink_options") | options.below("sink")
    return {name: value for name, value in found.items() if value not in (None, {}, [])}


def _compression(text: str | None) -> str | None:
    """Spark knows another name for none."""
    return None if text is None else {"uncompressed": "none"}.get(text.lower(), text.lower())


def _number(options: Options, name: str, kind: Callable[[str], N]) -> N | None:
    text = options.text(name)
    try:
        return None if text is None else kind(text)
    except ValueError:
        raise UsageError(f"option {name} is a number, not {text!r}") from None


def _mapping(options: Options, name: str) -> dict[str, Any]:
    found = options.json(name)
    if found is not None and not isinstance(found, dict):
        raise UsageError(f"option {name} is a JSON object")
    return dict(found or {})


def _blooms(schema: Schema, options: Options) -> dict[str, float] | list[str] | None:
    text = options.text("blooms")
    if text is not None and text.lstrip().startswith("{"):
        return {_real(schema, name): share for name, share in _mapping(options, "blooms").items()}
    return [_real(schema, name) for name in options.names("blooms") or ()]


def _hidden(schema: Schema, options: Options) -> tuple[list[Encrypt], dict[str, str]]:
    """Columns to encrypt, each with its mask; and those of which only what a mask leaves is written."""
    masks = {column: mask for mask, column in _hiding(schema, options, "masks", "mask")}
    found = []
    for key, column in _hiding(schema, options, "encrypt", "key"):
        found.append(Encrypt(key, [column], masks.pop(column, "nullify")))
    return found, masks


def _hiding(schema: Schema, options: Options, name: str, what: str) -> Iterator[tuple[str, str]]:
    """Keys or masks with the column of each: from text, from JSON, and from `name.COLUMN`."""
    text = options.text(name) or ""
    if text.lstrip().startswith(("{", "[")):
        yield from _hiding_of_json(schema, name, what, options.json(name))
    elif text.strip():
        for part in text.split(";"):
            match = _HIDING.fullmatch(part)
            if match is None:
                raise UsageError(f"option {name} is {what.upper()}:COLUMN,COLUMN;… or JSON, not {text!r}")
            yield from ((match[1], _real(schema, column.strip())) for column in match[2].split(","))
    for column, value in _flat(options.below(name)):
        yield str(value), _real(schema, column)


def _hiding_of_json(schema: Schema, name: str, what: str, given: Any) -> Iterator[tuple[str, str]]:
    entries = [given] if isinstance(given, dict) and "columns" in given else given
    if isinstance(entries, dict):
        yield from ((str(value), _real(schema, column)) for column, value in entries.items())
        return
    for entry in entries:
        if not _is_entry(entry, what):
            raise UsageError(f'option {name} is a JSON list of {{"{what}": …, "columns": […]}}')
        yield from ((entry[what], _real(schema, column)) for column in entry["columns"])


def _is_entry(entry: Any, what: str) -> bool:
    if not isinstance(entry, dict) or set(entry) != {what, "columns"}:
        return False
    columns = entry["columns"]
    return isinstance(columns, list) and all(isinstance(one, str) for one in [entry[what], *columns])


def _flat(found: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in found.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


def _real(schema: Schema, name: str) -> str:
    """A column by its name in any case, as Spark finds columns; that it has in the file."""
    try:
        find_column(schema.root, name)
    except ColumnNotFound:
        type_: Type = schema.root
        steps = []
        for at in find_column(schema.root, name, case_sensitive=False):
            steps.append(type_.field_names[at] if type_.field_names else "")
            type_ = type_.children[at]
        return ".".join(steps) if all(steps) else name
    return name


def _local_zone() -> str:
    """The zone of this host, which is the JVM's where nobody told it otherwise; UTC where it has no name."""
    named = os.environ.get("TZ", "").lstrip(":")
    if named:
        return named
    _, found, zone = os.path.realpath("/etc/localtime").partition("/zoneinfo/")
    if found:
        return zone
    text = Path("/etc/timezone")
    return text.read_text().strip() if text.is_file() else "UTC"
