"""Rows of CSV, JSON lines and Parquet, by pyarrow where it is installed.

The only module that uses pyarrow, which it imports when there is something to convert. Must not know what
becomes of the rows. Contract: a block or row group is in memory at a time; types are decided before the first
row is read, from the first block or from a schema; errors say which row it is, as far as pyarrow does. What
CSV and JSON mean does not depend on pyarrow: `cli_rows` reads the same values.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NoReturn

import orcstream
from orcstream.cli_discretion import Discretion
from orcstream.cli_input import Input
from orcstream.cli_rows import ADVICE, CsvOptions, Rows, check_csv_schema, unique_names
from orcstream.cli_values import binary
from orcstream.schema import Kind, Schema, Type, decimal_shape

__all__ = ["arrow_csv_rows", "arrow_json_rows", "has_pyarrow", "parquet_rows", "reads_json"]

_LEAST_BLOCK_BYTES = 1 << 20
_MOST_BATCH_ROWS = 1 << 16
_CSV_ROW = re.compile(r"In CSV column #(?P<column>\d+): (?:Row #(?P<row>\d+): )?(?P<what>.*)", re.DOTALL)
_CSV_RECORD = re.compile(r"CSV parse error: Row #(?P<row>\d+): (?P<what>.*)", re.DOTALL)
_CSV_WIDTH = re.compile(r"Expected \d+ columns, got \d+")
_CSV_KIND = re.compile(r"CSV conversion error to ([\w()\[\], ]+):")
_JSON_ROW = re.compile(r"(.*) in row (\d+)", re.DOTALL)
_STRADDLES = "straddling object"
# What pyarrow's JSON takes with a type given; texts become times afterwards, at the top level.
_JSON_KINDS = frozenset(
    {
        *(Kind.BOOLEAN, Kind.BYTE, Kind.SHORT, Kind.INT, Kind.LONG, Kind.FLOAT, Kind.DOUBLE),
        *(Kind.STRING, Kind.CHAR, Kind.VARCHAR, Kind.STRUCT, Kind.LIST),
    }
)
_FROM_TEXTS = frozenset({Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT, Kind.DATE, Kind.BINARY})


def has_pyarrow() -> bool:
    try:
        import pyarrow as pa
    except ImportError:
        return False
    return bool(pa)


def reads_json(schema: Schema | None) -> bool:
    """Whether pyarrow's JSON can read a file in blocks, as these types."""
    from pyarrow import json

    if not hasattr(json, "open_json"):
        return False
    if schema is None:
        return True
    root = schema.root
    return root.kind is Kind.STRUCT and all(
        child.kind in _FROM_TEXTS or all(kind in _JSON_KINDS for kind in _kinds(child))
        for child in root.children
    )


def _kinds(type_: Type) -> Iterator[Kind]:
    yield type_.kind
    for child in type_.children:
        yield from _kinds(child)


# --- CSV ---------------------------------------------------------------------------------------------------


def arrow_csv_rows(
    source: Input,
    options: CsvOptions,
    schema: Schema | None,
    block_bytes: int,
    discretion: Discretion,
) -> Rows | None:
    """The rows of a CSV file; None where it is so small that there is nothing to learn from it."""
    from pyarrow import csv

    block = max(_LEAST_BLOCK_BYTES, block_bytes)
    # The first block decides on types, and what comes after it must not look like the end of the file.
    head = source.head(2 * block)
    if not head.strip(b"\r\n"):
        return None
    if len(head) < 2 * block and not head.endswith((b"\n", b"\r")):
        head += b"\n"
        source.replace_head(head)
    read = csv.ReadOptions(
        # Only then are rows counted.
        use_threads=False,
        block_size=block,
        column_names=list(options.names) or None,
        autogenerate_column_names=not options.names and not options.has_header,
        skip_rows_after_names=1 if options.names and options.has_header else 0,
    )
    parse = csv.ParseOptions(delimiter=options.delimiter, newlines_in_values=True)
    nulls: dict[str, Any] = {
        "null_values": list(options.nulls),
        "strings_can_be_null": True,
        "quoted_strings_can_be_null": False,
    }
    failed = _CsvErrors(source.shown, discretion, 2 if options.has_header else 1)
    probe = failed.guard(lambda: csv.open_csv(io.BytesIO(head), read, parse, csv.ConvertOptions(**nulls)))
    if len(probe.schema) == 1:
        # An empty line is a record then.
        parse.ignore_empty_lines = False
        probe = failed.guard(lambda: csv.open_csv(io.BytesIO(head), read, parse, csv.ConvertOptions(**nulls)))
    names = failed.names = unique_names(probe.schema.names, source.shown)
    if schema is None:
        types = {field.name: _csv_type(field.type) for field in probe.schema}
        wanted, decided = names, _arrow_schema(types)
    else:
        check_csv_schema(schema, names, source.shown)
        wanted, decided = list(schema.names), schema
        types = dict(zip(wanted, map(_parsed_type, schema.root.children), strict=True))
    convert = csv.ConvertOptions(column_types=types, include_columns=wanted, **nulls)
    reader = failed.guard(lambda: csv.open_csv(source, read, parse, convert))
    return Rows(decided, _with_types(_csv_batches(reader, failed), schema, source.shown, discretion))


def _csv_batches(reader: Any, failed: _CsvErrors) -> Iterator[Any]:
    while (batch := failed.guard(lambda: next(reader, None))) is not None:
        yield batch


class _CsvErrors:
    """pyarrow's errors in ours: rows count from 0, without the header."""

    def __init__(self, shown: str, discretion: Discretion, first: int) -> None:
        self.names: list[str] = []
        self._shown = shown
        self._told = discretion.told
        self._first = first

    def guard(self, call: Callable[[], Any]) -> Any:
        import pyarrow as pa

        try:
            return call()
        except (pa.ArrowException, UnicodeDecodeError) as error:
            self._fail(str(error), error)

    def _fail(self, text: str, error: Exception) -> NoReturn:
        if _STRADDLES in text:
            _too_long(self._shown, error)
        if "UTF8" in text or "utf-8" in text:
            problem = "the text is not UTF-8"
            raise orcstream.FormatError(self._told(f"{problem}: {text}", problem), url=self._shown) from error
        if found := _CSV_ROW.fullmatch(text):
            problem = f"{self._about_column(int(found['column']), found['what'])}; {ADVICE}"
            raise orcstream.SchemaMismatch(problem, url=self._shown, row=self._row(found["row"])) from error
        if found := _CSV_RECORD.fullmatch(text):
            width = _CSV_WIDTH.match(found["what"])
            problem = self._told(found["what"], width[0] if width else "this is no CSV")
            raise orcstream.FormatError(problem, url=self._shown, row=self._row(found["row"])) from error
        raise orcstream.FormatError(self._told(text, "this is no CSV"), url=self._shown) from error

    def _about_column(self, index: int, what: str) -> str:
        name = self.names[index] if index < len(self.names) else None
        shown = f"the column number {index}" if name is None else f"the column {name!r}"
        kind = _CSV_KIND.match(what)
        wanted = kind[1] if kind else "its type"
        return self._told(f"{shown}: {what}", f"{shown} holds something else than {wanted}", name)

    def _row(self, number: str | None) -> int | None:
        return None if number is None else max(0, int(number) - self._first)


def _too_long(shown: str, error: Exception) -> NoReturn:
    text = "a row is longer than the blocks that are read; give a larger --memory-limit"
    raise orcstream.UsageError(text, url=shown) from error


def _csv_type(guessed: Any) -> Any:
    """What a guess of pyarrow becomes: a type that ORC has, and that takes what is likely to come later."""
    import pyarrow as pa

    if pa.types.is_timestamp(guessed) and guessed.unit == "s":
        return pa.timestamp("us", guessed.tz)
    if pa.types.is_null(guessed) or pa.types.is_time(guessed) or pa.types.is_binary(guessed):
        return pa.string()
    return guessed


# --- JSON --------------------------------------------------------------------------------------------------


def arrow_json_rows(
    source: Input, schema: Schema | None, block_bytes: int, discretion: Discretion
) -> Rows | None:
    """The rows of a file with one JSON object on each line; None where there is nothing to learn from it."""
    import pyarrow as pa
    from pyarrow import json

    block = max(_LEAST_BLOCK_BYTES, block_bytes)
    head = source.head(2 * block)
    if not head.strip():
        return None
    read = json.ReadOptions(use_threads=False, block_size=block)
    failed = _JsonErrors(source.shown, discretion)
    if schema is None:
        probe = failed.guard(lambda: json.open_json(io.BytesIO(head), read))
        try:
            given = pa.schema([pa.field(field.name, _json_type(field.type)) for field in probe.schema])
        except RecursionError as error:
            raise orcstream.FormatError("the values are nested too deep", url=source.shown) from error
        parse = json.ParseOptions(explicit_schema=given, unexpected_field_behavior="error")
        decided: Any = given
    else:
        types = dict(zip(schema.names, map(_parsed_type, schema.root.children), strict=True))
        parse = json.ParseOptions(explicit_schema=_arrow_schema(types), unexpected_field_behavior="ignore")
        decided = schema
    reader = failed.guard(lambda: json.open_json(source, read, parse))
    return Rows(decided, _with_types(_json_batches(reader, failed), schema, source.shown, discretion))


def _json_batches(reader: Any, failed: _JsonErrors) -> Iterator[Any]:
    while (batch := failed.guard(lambda: next(reader, None))) is not None:
        failed.first_row += batch.num_rows
        yield batch


class _JsonErrors:
    """pyarrow's errors in ours; it counts the rows of a block."""

    def __init__(self, shown: str, discretion: Discretion) -> None:
        self.first_row = 0
        self._shown = shown
        self._told = discretion.told

    def guard(self, call: Callable[[], Any]) -> Any:
        import pyarrow as pa

        try:
            return call()
        except (pa.ArrowException, UnicodeDecodeError) as error:
            self._fail(str(error).removeprefix("JSON parse error: "), error)

    def _fail(self, text: str, error: Exception) -> NoReturn:
        if _STRADDLES in text:
            _too_long(self._shown, error)
        if found := _JSON_ROW.fullmatch(text):
            row = self.first_row + int(found[2])
            if "changed from" not in text:
                problem = self._told(f"this is no JSON: {found[1]}", "this is no JSON")
                raise orcstream.FormatError(problem, url=self._shown, row=row) from error
            raise orcstream.SchemaMismatch(f"{found[1]}; {ADVICE}", url=self._shown, row=row) from error
        if "unexpected field" in text:
            problem = f"a row after row {self.first_row} has a field that the first rows lack; {ADVICE}"
            raise orcstream.SchemaMismatch(problem, url=self._shown) from error
        where = f"in the rows from row {self.first_row} on"
        if "Failed to convert" in text:
            problem = self._told(text, "a value does not fit the schema")
            raise orcstream.SchemaMismatch(f"{where}: {problem}; {ADVICE}", url=self._shown) from error
        problem = self._told(text, "this is no JSON")
        raise orcstream.FormatError(f"{where}: {problem}", url=self._shown) from error


def _json_type(guessed: Any) -> Any:
    """What a guess of pyarrow becomes: texts stay texts, and what is always null is one."""
    import pyarrow as pa

    if pa.types.is_struct(guessed):
        return pa.struct([pa.field(field.name, _json_type(field.type)) for field in guessed])
    if pa.types.is_list(guessed):
        return pa.list_(_json_type(guessed.value_type))
    if pa.types.is_null(guessed) or pa.types.is_timestamp(guessed):
        return pa.string()
    return guessed


# --- Parquet -----------------------------------------------------------------------------------------------


def parquet_rows(file: Any, schema: Schema | None, shown: str, memory_bytes: int, *, is_local: bool) -> Rows:
    """The rows of a Parquet file, a row group after the other."""
    import pyarrow as pa
    from pyarrow import parquet

    def guard(call: Callable[[], Any]) -> Any:
        try:
            return call()
        except pa.ArrowException as error:
            raise orcstream.FormatError(f"no Parquet that pyarrow reads: {error}", url=shown) from error

    # What lies on disk is read as it is needed; elsewhere a row group's bytes are asked for side by side.
    found = guard(
        lambda: parquet.ParquetFile(
            file,
            pre_buffer=not is_local,
            buffer_size=1 << 20 if is_local else 0,
            arrow_extensions_enabled=False,
        )
    )
    columns: list[str] | None = None
    if schema is not None:
        columns = list(schema.names)
        if missing := [name for name in columns if name not in found.schema_arrow.names]:
            known = ", ".join(found.schema_arrow.names[:20])
            text = f"the file has no column {missing[0]!r}, only {known}"
            raise orcstream.ColumnNotFound(text, url=shown)

    def batches() -> Iterator[Any]:
        for index in range(found.num_row_groups):
            group = found.metadata.row_group(index)
            each = max(1, group.total_byte_size // max(1, group.num_rows))
            count = max(1, min(_MOST_BATCH_ROWS, memory_bytes // each))
            part = found.iter_batches(count, row_groups=[index], columns=columns, use_threads=False)
            take: Callable[[], Any] = partial(next, part, None)
            while (batch := guard(take)) is not None:
                yield batch

    return Rows(found.schema_arrow if schema is None else schema, batches())


# --- types -------------------------------------------------------------------------------------------------


def _arrow_schema(types: dict[str, Any]) -> Any:
    import pyarrow as pa

    return pa.schema(list(types.items()))


def _parsed_type(type_: Type) -> Any:
    """As what a type of ORC is parsed; times and bytes come from texts, in `_with_types`."""
    import pyarrow as pa

    match type_.kind:
        case Kind.STRUCT:
            children = map(_parsed_type, type_.children)
            return pa.struct(list(zip(type_.field_names, children, strict=True)))
        case Kind.LIST:
            return pa.list_(_parsed_type(type_.children[0]))
        case Kind.DECIMAL:
            return pa.decimal128(*decimal_shape(type_))
    return {
        Kind.BOOLEAN: pa.bool_(),
        Kind.BYTE: pa.int8(),
        Kind.SHORT: pa.int16(),
        Kind.INT: pa.int32(),
        Kind.LONG: pa.int64(),
        Kind.FLOAT: pa.float32(),
        Kind.DOUBLE: pa.float64(),
    }.get(type_.kind, pa.string())


def _with_types(
    batches: Iterator[Any], schema: Schema | None, shown: str, discretion: Discretion
) -> Iterator[Any]:
    """The batches, with dates, times and bytes where a schema has them."""
    children = () if schema is None else schema.root.children
    types = {index: child for index, child in enumerate(children) if child.kind in _FROM_TEXTS}
    first_row = 0
    for batch in batches:
        for index, type_ in types.items():
            name = batch.schema.names[index]
            convert = _as_bytes if type_.kind is Kind.BINARY else _as_times
            batch = batch.set_column(
                index, name, convert(batch.column(index), name, type_, first_row, shown, discretion)
            )
        yield batch
        first_row += batch.num_rows


def _as_times(texts: Any, name: str, type_: Type, first_row: int, shown: str, discretion: Discretion) -> Any:
    import pyarrow as pa
    from pyarrow import compute

    zone = "UTC" if type_.kind is Kind.TIMESTAMP_INSTANT else None
    # Microseconds reach further, nanoseconds are finer; a column's values share one.
    kinds = [pa.date32()] if type_.kind is Kind.DATE else [pa.timestamp(unit, zone) for unit in ("us", "ns")]
    for kind in kinds:
        try:
            return compute.cast(texts, kind)
        except pa.ArrowInvalid:
            continue
    for row, text in enumerate(texts):
        try:
            compute.cast(text, kinds[-1])
        except pa.ArrowInvalid:
            _refuse(text.as_py(), name, type_, first_row + row, shown, discretion)
    raise orcstream.SchemaMismatch(
        f"the column {name!r} holds times too far apart for nanoseconds; {ADVICE}", url=shown
    )


def _as_bytes(texts: Any, name: str, type_: Type, first_row: int, shown: str, discretion: Discretion) -> Any:
    import pyarrow as pa

    found: list[bytes | None] = []
    for row, text in enumerate(texts.to_pylist()):
        try:
            found.append(None if text is None else binary(text))
        except ValueError:
            _refuse(text, name, type_, first_row + row, shown, discretion)
    return pa.array(found, pa.binary())


def _refuse(text: str, name: str, type_: Type, row: int, shown: str, discretion: Discretion) -> NoReturn:
    problem = discretion.told(
        f"the column {name!r} holds {text!r:.60} and is {type_}",
        f"the column {name!r} holds something else than {type_}",
        name,
    )
    raise orcstream.SchemaMismatch(f"{problem}; {ADVICE}", url=shown, row=row) from None
