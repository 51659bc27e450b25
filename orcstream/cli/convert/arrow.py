"""Rows of CSV, JSON lines and Parquet, by pyarrow where it is installed.

The only module that uses pyarrow, which it imports when there is something to convert. Must not know what
becomes of the rows. Contract: a block or row group is in memory at a time; errors say which row it is. CSV
and JSON mean what `cli.convert.rows` says: it decides types, and reads each block in which a value is not
written plainly, since libraries differ about those.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import orcstream
from orcstream.cli.convert.input import Input, Origin
from orcstream.cli.convert.rows import (
    CSV_END,
    OPEN_QUOTE,
    CsvOptions,
    Head,
    Rows,
    convert_columns,
    convert_lines,
    csv_columns,
    json_rows,
)
from orcstream.cli.convert.values import binary
from orcstream.schema.schema import Schema
from orcstream.schema.types import Kind, Type, decimal_shape

if TYPE_CHECKING:
    from typing_extensions import Buffer

_MOST_BATCH_ROWS = 1 << 16
_CSV_RECORD = re.compile(r"CSV parse error: Row #(?P<row>\d+): (?P<what>.*)", re.DOTALL)
_CSV_WIDTH = re.compile(r"Expected (\d+) columns, got (\d+)")
_STRADDLES = "straddling object"
_WHOLE = frozenset({Kind.BYTE, Kind.SHORT, Kind.INT, Kind.LONG})
_FLOATING = frozenset({Kind.FLOAT, Kind.DOUBLE})
_TEXT = frozenset({Kind.STRING, Kind.CHAR, Kind.VARCHAR})
# What pyarrow's JSON takes with a type given; texts become times afterwards, at the top level.
_JSON_KINDS = _WHOLE | _FLOATING | _TEXT | {Kind.BOOLEAN, Kind.STRUCT, Kind.LIST}
_FROM_TEXTS = frozenset({Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT, Kind.DATE, Kind.BINARY})
# Integers below these have a double, or a float, of their own.
_LARGE_FLOAT = 1e38
_EXACT = {Kind.DOUBLE: 2.0**53, Kind.FLOAT: 2.0**24}
# How values are written of which no two libraries think differently.
_DAY = r"(?:[1-9][0-9]{3}|0[1-9][0-9]{2})-[0-9]{2}-[0-9]{2}"
_CLOCK = r"[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?"
_PLAIN_WHOLE = r"^-?[0-9]{1,18}$"
_PLAIN_NUMBER = r"^-?[0-9]{1,40}(?:\.[0-9]{1,40})?(?:[eE][+-]?[0-9]{1,2})?$"
_PLAIN_DECIMAL = r"^-?[0-9]+(?:\.[0-9]+)?$"
_PLAIN_TIMES = {
    Kind.DATE: f"^{_DAY}$",
    Kind.TIMESTAMP: f"^{_DAY}{_CLOCK}$",
    Kind.TIMESTAMP_INSTANT: f"^{_DAY}{_CLOCK}(?:Z|[+-][01][0-9]:[0-5][0-9])$",
}
_TRUE, _FALSE = ("true", "True", "TRUE", "1"), ("false", "False", "FALSE", "0")


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
    origin: Origin,
) -> Rows | None:
    """The rows of a CSV file; None where there are none."""
    import pyarrow as pa
    from pyarrow import csv

    columns = csv_columns(source, options, schema, origin)
    if columns is None:
        return None
    names, schema = columns
    read = csv.ReadOptions(
        # Only then are rows counted.
        use_threads=False,
        block_size=origin.longest,
        column_names=names,
        skip_rows_after_names=1 if options.has_header else 0,
    )
    parse = csv.ParseOptions(
        delimiter=options.delimiter,
        newlines_in_values=True,
        # An empty line is a record where there is one column.
        ignore_empty_lines=len(names) > 1,
    )
    convert = csv.ConvertOptions(
        column_types=dict.fromkeys(schema.names, pa.string()),
        include_columns=list(schema.names),
        null_values=list(options.nulls),
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    failed = _CsvErrors(origin, 2 if options.has_header else 1)
    ended = _Ended(source, options.delimiter.join([CSV_END] * len(names)))
    reader = failed.guard(lambda: csv.open_csv(ended, read, parse, convert))
    return Rows(schema, _csv_batches(reader, failed, schema, origin))


class _Ended(io.RawIOBase):
    """A source with one more line."""

    def __init__(self, source: Input, line: str) -> None:
        self._source = source
        self._rest = f"{line}\n".encode()
        self._last = b"\n"
        self._is_over = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:
        view = memoryview(buffer).cast("B")
        if not self._is_over:
            count = self._source.readinto(buffer)
            if count:
                self._last = bytes(view[count - 1 : count])
                return count
            self._is_over = True
            if self._last not in b"\r\n":
                self._rest = b"\n" + self._rest
        data, self._rest = self._rest[: len(view)], self._rest[len(view) :]
        view[: len(data)] = data
        return len(data)


def _csv_batches(reader: Any, failed: _CsvErrors, schema: Schema, origin: Origin) -> Iterator[Any]:
    import pyarrow as pa

    first_row = 0
    ended = False
    while (batch := failed.guard(lambda: next(reader, None))) is not None:
        if batch.num_rows and batch.column(0)[-1].as_py() == CSV_END:
            ended, batch = True, batch.slice(0, batch.num_rows - 1)
        columns = [
            _typed(texts, type_) for texts, type_ in zip(batch.columns, schema.root.children, strict=True)
        ]
        if all(column is not None for column in columns):
            yield pa.RecordBatch.from_arrays(columns, list(schema.names))
        else:
            texts = (column.to_pylist() for column in batch.columns)
            yield convert_columns(texts, schema, first_row, origin)
        first_row += batch.num_rows
    if not ended:
        raise origin.wrong(OPEN_QUOTE)


class _CsvErrors:
    """pyarrow's errors in ours; rows count from 0, without the header."""

    def __init__(self, origin: Origin, first: int) -> None:
        self._origin = origin
        self._first = first

    def guard(self, call: Callable[[], Any]) -> Any:
        import pyarrow as pa

        try:
            return call()
        except (pa.ArrowException, UnicodeDecodeError) as error:
            self._fail(str(error), error)

    def _fail(self, text: str, error: Exception) -> NoReturn:
        if _STRADDLES in text:
            raise self._origin.too_long() from error
        if "UTF8" in text or "utf-8" in text:
            problem = "the text is not UTF-8"
            raise self._origin.wrong(self._origin.told(f"{problem}: {text}", problem)) from error
        if found := _CSV_RECORD.fullmatch(text):
            row = max(0, int(found["row"]) - self._first)
            if width := _CSV_WIDTH.match(found["what"]):
                problem = f"the number of fields is {width[2]}, and that of columns {width[1]}"
            else:
                problem = self._origin.told(found["what"], "this is no CSV")
            raise self._origin.wrong(problem, row) from error
        raise self._origin.wrong(self._origin.told(text, "this is no CSV")) from error


# --- texts -------------------------------------------------------------------------------------------------


def _typed(texts: Any, type_: Type) -> Any:
    """The values of texts; None where one is not plainly of the type, for `cli.convert.rows` to judge."""
    import pyarrow as pa

    try:
        return _plain(texts, type_)
    except (pa.ArrowInvalid, ValueError):
        return None


def _plain(texts: Any, type_: Type) -> Any:
    import pyarrow as pa
    from pyarrow import compute

    kind = type_.kind
    if kind in _TEXT:
        return texts
    if kind is Kind.BINARY:
        return pa.array([None if text is None else binary(text) for text in texts.to_pylist()], pa.binary())
    if kind is Kind.BOOLEAN:
        is_true = compute.is_in(texts, pa.array(_TRUE))
        known = compute.or_kleene(is_true, compute.is_in(texts, pa.array(_FALSE)))
        return compute.if_else(compute.is_valid(texts), is_true, None) if _all(known, texts) else None
    pattern, target = _PLAIN_WHOLE, _arrow_type(type_)
    if kind in _FLOATING:
        pattern = _PLAIN_NUMBER
    elif kind is Kind.DECIMAL:
        pattern = _PLAIN_DECIMAL
    elif kind in _PLAIN_TIMES:
        pattern = _PLAIN_TIMES[kind]
    if not _all(compute.match_substring_regex(texts, pattern), texts):
        return None
    if kind is Kind.FLOAT:  # rounded twice, as from rows
        doubles = compute.cast(texts, pa.float64())
        if not _all(compute.less(compute.abs(doubles), _LARGE_FLOAT), texts):
            return None
        return compute.cast(doubles, target, safe=False)
    return compute.cast(texts, target)


def _all(found: Any, texts: Any) -> bool:
    """Whether this holds for all texts that are no nulls."""
    from pyarrow import compute

    missing = compute.and_(compute.invert(compute.fill_null(found, False)), compute.is_valid(texts))
    return not compute.any(missing, min_count=0).as_py()


# --- JSON --------------------------------------------------------------------------------------------------


def arrow_json_rows(source: Input, schema: Schema | None, origin: Origin) -> Rows | None:
    """The rows of a file with one JSON object on each line; None where there is nothing to learn from it."""
    if not source.head(origin.longest).strip():
        return None
    decided = schema
    if decided is None:
        with Head(source) as head:
            decided = json_rows(head, None, origin).schema
    return Rows(decided, _json_batches(source, schema, decided, origin))


def _json_batches(source: Input, given: Schema | None, decided: Schema, origin: Origin) -> Iterator[Any]:
    row, line = 0, 1
    for block in _blocks(source, origin):
        lines = block.splitlines()
        count = sum(1 for text in lines if text.strip())
        batch = _parsed(block, count, decided, is_open=given is not None)
        if batch is not None:
            yield batch
        else:
            yield from convert_lines(block, given, line, row, origin)
        row, line = row + count, line + len(lines)


def _blocks(source: Input, origin: Origin) -> Iterator[bytes]:
    """Whole lines, some at a time."""
    rest = b""
    raw = io.BufferedReader(source, 1 << 18)
    while data := raw.read(origin.longest):
        end = data.rfind(b"\n") + 1
        if end:
            yield rest + data[:end]
            rest = data[end:]
        else:
            rest += data
        if len(rest) > origin.longest:
            raise origin.too_long()
    if rest:
        yield rest


def _parsed(block: bytes, count: int, schema: Schema, *, is_open: bool) -> Any:
    """The rows of a block; None where Python's json may see something else in it."""
    import pyarrow as pa
    from pyarrow import compute, json

    fields = [
        pa.field(name, _arrow_type(type_, _json_leaf))
        for name, type_ in zip(schema.names, schema.root.children, strict=True)
    ]
    parse = json.ParseOptions(
        explicit_schema=pa.schema(fields), unexpected_field_behavior="ignore" if is_open else "error"
    )
    read = json.ReadOptions(use_threads=False, block_size=len(block) + 1)
    try:
        block.decode()
        table = json.read_json(pa.BufferReader(block), read, parse).combine_chunks()
    except (pa.ArrowException, UnicodeDecodeError):
        return None
    if table.num_rows != count:
        return None  # objects that share a line, or go on in the next one
    columns = []
    for column, type_ in zip(table.columns, schema.root.children, strict=True):
        found = column.combine_chunks()
        if type_.kind in _FROM_TEXTS:
            found = _typed(found, type_)
        elif not _is_exact(found, type_):
            return None
        if found is None:
            return None
        columns.append(compute.cast(found, _arrow_type(type_), safe=False))
    return pa.RecordBatch.from_arrays(columns, list(schema.names))


def _is_exact(values: Any, type_: Type) -> bool:
    """Whether no number may have been an integer that was rounded, too large a number, or an integer's -0."""
    import numpy as np
    from pyarrow import compute

    if type_.kind in _FLOATING:
        numbers = compute.drop_null(values).to_numpy()
        is_small = np.abs(numbers) < _EXACT[type_.kind]  # and no NaN, which pyarrow takes
        return bool((is_small & ((numbers != 0) | ~np.signbit(numbers))).all())
    children = values.flatten() if type_.kind is Kind.STRUCT else [values.flatten()] if type_.children else []
    return all(map(_is_exact, children, type_.children))


# --- Parquet -----------------------------------------------------------------------------------------------


@contextmanager
def system_pool() -> Iterator[None]:
    """Meanwhile pyarrow takes memory from the system: its own pools keep up to 100 MB that nobody uses."""
    import pyarrow as pa

    before = pa.default_memory_pool()
    pa.set_memory_pool(pa.system_memory_pool())
    try:
        yield
    finally:
        pa.set_memory_pool(before)


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


def _leaf(type_: Type) -> Any:
    """The type of Arrow that values of a plain type are written from."""
    import pyarrow as pa

    if type_.kind is Kind.DECIMAL:
        return pa.decimal128(*decimal_shape(type_))
    return {
        Kind.BOOLEAN: pa.bool_(),
        Kind.BYTE: pa.int8(),
        Kind.SHORT: pa.int16(),
        Kind.INT: pa.int32(),
        Kind.LONG: pa.int64(),
        Kind.FLOAT: pa.float32(),
        Kind.DOUBLE: pa.float64(),
        Kind.DATE: pa.date32(),
        Kind.TIMESTAMP: pa.timestamp("us"),
        Kind.TIMESTAMP_INSTANT: pa.timestamp("us", "UTC"),
        Kind.BINARY: pa.binary(),
    }.get(type_.kind, pa.string())


def _json_leaf(type_: Type) -> Any:
    """As what pyarrow's JSON reads a plain type: numbers as doubles, times and bytes as texts."""
    import pyarrow as pa

    if type_.kind is Kind.FLOAT:
        return pa.float64()
    return pa.string() if type_.kind in _FROM_TEXTS else _leaf(type_)


def _arrow_type(type_: Type, leaf: Callable[[Type], Any] = _leaf) -> Any:
    """The type of Arrow of the same shape, with `leaf` for plain types."""
    import pyarrow as pa

    match type_.kind:
        case Kind.STRUCT:
            children = (_arrow_type(child, leaf) for child in type_.children)
            return pa.struct(list(zip(type_.field_names, children, strict=True)))
        case Kind.LIST:
            return pa.list_(_arrow_type(type_.children[0], leaf))
    return leaf(type_)
