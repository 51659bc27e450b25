"""Rows of CSV and JSON by Python's own modules, some thousand rows at a time: what such texts mean.

Knows how rows lie in texts. Must not know what becomes of them. Contract: `Rows` with the schema, and batches
for `OrcWriter.write`. Without a schema the first batch decides; a later row that does not fit is
SchemaMismatch with its number. No row of more than `longest` characters is held. `cli.convert.arrow`
reads the same faster.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import orcstream
from orcstream.cli.convert.input import Input, Origin
from orcstream.cli.convert.values import (
    FLAT_TEXTS,
    finite,
    from_json,
    from_text,
    json_type,
    text_type,
)
from orcstream.schema.schema import Schema, numbered
from orcstream.schema.types import Kind, Type

if TYPE_CHECKING:
    from typing_extensions import Buffer

ADVICE = "give --schema with types that take every row"
_BATCH_ROWS = 10_000
_BATCH_CHARACTERS = 1 << 20
_READ_CHARACTERS = 1 << 20
# `-Infinity`, and what an escape may have.
_LONGEST_WORD = 16
# A field of CSV and what ends it, as Python's csv reads them, which does not say what was quoted.
_MOST_FIELD_CHARACTERS = 1 << 30

# A last record, which is none if the file ends within quotes.
CSV_END = "\0the end\0"
OPEN_QUOTE = "the file ends within a quoted field"

T = TypeVar("T")
_Sized = tuple[T, int]


class Rows(NamedTuple):
    """`schema` is anything that `create` takes; `batches` are for `OrcWriter.write`."""

    schema: Any
    batches: Iterator[Any]


@dataclass(frozen=True, slots=True)
class CsvOptions:
    """How a CSV file is written."""

    delimiter: str = ","
    has_header: bool = True
    names: tuple[str, ...] = ()
    nulls: tuple[str, ...] = field(default=("",))


def _unique_names(names: Iterable[str], origin: Origin) -> list[str]:
    """The names of columns. Raises UsageError where one comes twice."""
    found: dict[str, None] = {}
    for name in names:
        if name in found:
            raise orcstream.UsageError(
                f"two columns are named {name!r}: give --column-names", url=origin.shown
            )
        found[name] = None
    return list(found)


def _check_csv_schema(schema: Schema, names: list[str], origin: Origin) -> None:
    """Raises where a schema cannot be that of a CSV file with these columns."""
    root = schema.root
    known_names = frozenset(names)
    if root.kind is not Kind.STRUCT:
        raise orcstream.UsageError(f"the schema has no columns: {schema}", url=origin.shown)
    for name, type_ in zip(root.field_names, root.children, strict=True):
        if type_.kind not in FLAT_TEXTS:
            raise orcstream.UsageError(f"CSV holds no {type_} (the column {name!r})", url=origin.shown)
        if name not in known_names:
            known = ", ".join(names[:20])
            raise orcstream.ColumnNotFound(f"the file has no column {name!r}, only {known}", url=origin.shown)


class Head(io.RawIOBase):
    """A source that is looked into: what was read of it comes again when this is closed."""

    def __init__(self, source: Input) -> None:
        self._source = source
        self._taken = bytearray()

    def head(self, size: int) -> bytes:
        """As that of the source."""
        return self._source.head(size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:
        count = self._source.readinto(buffer)
        self._taken += memoryview(buffer)[:count]
        return count

    def close(self) -> None:
        if not self.closed:
            self._source.replace_head(bytes(self._taken) + self._source.head(0))
        super().close()


def _text_of(source: Input | Head) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BufferedReader(source, 1 << 18), encoding="utf-8", newline="")


def _lines(text: io.TextIOBase, origin: Origin) -> Iterator[str]:
    while line := text.readline(origin.longest + 1):
        if len(line) > origin.longest:
            raise origin.too_long()
        yield line


def _chunks(rows: Iterator[_Sized[T]]) -> Iterator[list[T]]:
    """Some rows at a time, of those that come with the number of their characters."""
    chunk: list[T] = []
    size = 0
    for row, characters in rows:
        chunk.append(row)
        size += characters
        if len(chunk) >= _BATCH_ROWS or size >= _BATCH_CHARACTERS:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _guarded(rows: Iterator[T], origin: Origin) -> Iterator[T]:
    try:
        yield from rows
    except UnicodeDecodeError as error:
        text = "the text is not UTF-8"
        raise origin.wrong(origin.told(f"{text}: {error}", text)) from error


# --- CSV ---------------------------------------------------------------------------------------------------


def csv_rows(source: Input, options: CsvOptions, schema: Schema | None, origin: Origin) -> Rows:
    """The rows of a CSV file, by Python's csv."""
    found = _csv_start(source, options, schema, origin)
    if found is None:
        return _no_rows(schema, origin)
    names, schema, lists = found
    return Rows(schema, _converted(lists, names, schema, origin))


def csv_columns(
    source: Input, options: CsvOptions, schema: Schema | None, origin: Origin
) -> tuple[list[str], Schema] | None:
    """The names of all columns of a CSV file, and the schema; None where it has no rows. Nothing is read."""
    with Head(source) as head:
        found = _csv_start(head, options, schema, origin)
        if found is None:
            return None
        names, schema, lists = found
        return (names, schema) if next(lists)[0] else None


def _csv_start(
    source: Input | Head, options: CsvOptions, schema: Schema | None, origin: Origin
) -> tuple[list[str], Schema, Iterator[list[list[str | None]]]] | None:
    """Names, schema and columns of texts, some rows at a time."""
    records = _guarded(_records(source, options, origin), origin)
    first = next(records, None)
    if first is None:
        return None
    names = list(options.names) or (
        [text or "" for text in first[0]] if options.has_header else [f"f{n}" for n in range(len(first[0]))]
    )
    names = _unique_names(names, origin)
    if not options.has_header:
        records = chain([first], records)
    elif len(first[0]) != len(names):
        _wrong_width(first[0], names, origin, None)
    lists = _columns(records, names, origin)
    head: list[list[str | None]] = next(lists, [[] for _ in names])
    if schema is None:
        types = [text_type(text for text in column if text is not None) for column in head]
        schema = numbered(Type(Kind.STRUCT, tuple(types), tuple(names)))
    _check_csv_schema(schema, names, origin)
    return names, schema, chain([head], lists)


def _no_rows(schema: Schema | None, origin: Origin) -> Rows:
    if schema is None:
        raise orcstream.UsageError(
            "the file is empty: nothing says what its columns are; give --schema", url=origin.shown
        )
    return Rows(schema, iter(()))


def _records(source: Input | Head, options: CsvOptions, origin: Origin) -> Iterator[_Sized[list[str | None]]]:
    """The fields of each record, None for nulls."""
    taken: list[str] = []

    def lines() -> Iterator[str]:
        size = 0
        for line in _lines(_text_of(source), origin):
            size = len(line) if not taken else size + len(line)
            if size > origin.longest:
                raise origin.too_long()
            taken.append(line)
            yield line
        yield CSV_END

    csv.field_size_limit(_MOST_FIELD_CHARACTERS)
    nulls = frozenset(options.nulls)
    narrow: bool | None = None
    number = 0
    try:
        for record in csv.reader(lines(), delimiter=options.delimiter):
            if not taken and record == [CSV_END]:
                return
            number += 1
            text = "".join(taken)
            taken.clear()
            if narrow is None:
                narrow = len(options.names or record) == 1
            if record and record[-1].endswith(CSV_END):
                raise origin.wrong(OPEN_QUOTE)
            if not record and not narrow:
                continue  # an empty line, which is a record where there is one column
            yield _with_nulls(record or [""], text, nulls, options.delimiter), len(text)
    except csv.Error as error:
        raise origin.wrong(f"record {number + 1} is no CSV: {error}") from error


def _with_nulls(record: list[str], text: str, nulls: frozenset[str], delimiter: str) -> list[str | None]:
    """A field is null where it says so without quotes."""
    if nulls.isdisjoint(record):
        return list(record)
    plain = [True] * len(record)
    if '"' in text:
        end = re.escape(delimiter)
        field_ = re.compile(rf'("(?:[^"]|"")*"[^{end}\r\n]*|[^{end}\r\n]*)(?:{end}|\r?\n|\r|$)')
        starts = [found[1].startswith('"') for found in field_.finditer(text)]
        plain = [not start for start in starts[: len(record)]]
    return [None if alone and value in nulls else value for value, alone in zip(record, plain, strict=True)]


def _columns(
    records: Iterator[_Sized[list[str | None]]], names: list[str], origin: Origin
) -> Iterator[list[list[str | None]]]:
    first_row = 0
    for chunk in _chunks(records):
        for row, record in enumerate(chunk, first_row):
            if len(record) != len(names):
                _wrong_width(record, names, origin, row)
        yield [list(column) for column in zip(*chunk, strict=True)]
        first_row += len(chunk)


def _wrong_width(record: list[Any], names: list[str], origin: Origin, row: int | None) -> None:
    text = f"the number of fields is {len(record)}, and that of columns {len(names)}"
    raise origin.wrong(text, row)


def _converted(
    lists: Iterator[list[list[str | None]]],
    names: list[str],
    schema: Schema,
    origin: Origin,
) -> Iterator[dict[str, list[Any]]]:
    places = {name: index for index, name in enumerate(names)}
    indexes = [places[name] for name in schema.names]
    first_row = 0
    for columns in lists:
        texts = [columns[index] for index in indexes]
        yield convert_columns(texts, schema, first_row, origin)
        first_row += len(columns[0]) if columns else 0


def convert_columns(
    columns: Iterable[list[str | None]], schema: Schema, first_row: int, origin: Origin
) -> dict[str, list[Any]]:
    """The values of texts, by column of the schema. Raises SchemaMismatch."""
    root = schema.root
    batch: dict[str, list[Any]] = {}
    for name, type_, texts in zip(root.field_names, root.children, columns, strict=True):
        convert = from_text(type_)
        try:
            batch[name] = [None if text is None else convert(text) for text in texts]
        except ValueError:
            row, text, why = _culprit(texts, convert)
            problem = origin.told(
                f"the column {name!r} holds {text!r:.60} and is {type_}: {why}",
                f"the column {name!r} holds something else than {type_}",
                name,
            )
            raise origin.unfit(f"{problem}; {ADVICE}", first_row + row) from None
    return batch


def _culprit(values: list[Any], convert: Callable[[Any], Any]) -> tuple[int, Any, str]:
    for row, value in enumerate(values):
        try:
            if value is not None:
                convert(value)
        except ValueError as error:
            return row, value, str(error)
    raise AssertionError("all of them fit")


# --- JSON --------------------------------------------------------------------------------------------------


def json_rows(source: Input | Head, schema: Schema | None, origin: Origin) -> Rows:
    """The objects of a JSON file, by Python's json: one on each line, or all of them in one array."""
    decoder = _decoder(schema)
    text = _text_of(source)
    is_array = source.head(_READ_CHARACTERS).lstrip().startswith(b"[")
    objects = (
        _of_array(text, decoder, origin) if is_array else _of_lines(_lines(text, origin), decoder, origin, 1)
    )
    chunks = _chunks(_guarded(objects, origin))
    first = next(chunks, None)
    if first is None:
        return _no_rows(schema, origin)
    chunks = chain([first], chunks)
    if schema is not None:
        return Rows(schema, _fitted(chunks, schema, origin, 0))
    try:
        return Rows(numbered(json_type(first, "")), chunks)
    except orcstream.Unsupported as error:
        error.locate(url=origin.shown)
        raise
    except ValueError as error:
        raise origin.unfit(f"{error}: {ADVICE}") from None


def convert_lines(
    block: bytes,
    schema: Schema | None,
    first_line: int,
    first_row: int,
    origin: Origin,
) -> Iterator[list[Any]]:
    """The objects of some lines of JSON, as `json_rows` would go on with them."""
    text = io.TextIOWrapper(io.BytesIO(block), encoding="utf-8", newline="")
    objects = _of_lines(text, _decoder(schema), origin, first_line)
    chunks = _chunks(_guarded(objects, origin))
    return chunks if schema is None else _fitted(chunks, schema, origin, first_row)


def _decoder(schema: Schema | None) -> json.JSONDecoder:
    exact = schema is not None and any(type_.kind is Kind.DECIMAL for type_ in schema.types)
    return json.JSONDecoder(parse_float=Decimal if exact else finite, parse_constant=_no_constant)


def _no_constant(text: str) -> None:
    raise ValueError(f"JSON has no {text}")


def _fitted(
    chunks: Iterator[list[Any]], schema: Schema, origin: Origin, first_row: int
) -> Iterator[list[Any]]:
    try:
        convert = from_json(schema.root)
    except ValueError as error:
        raise orcstream.UsageError(str(error), url=origin.shown) from None
    for chunk in chunks:
        try:
            found = [convert(value) for value in chunk]
        except ValueError:
            row, _, why = _culprit(chunk, convert)
            problem = origin.told(why, "the object does not fit the schema")
            raise origin.unfit(f"{problem}; {ADVICE}", first_row + row) from None
        yield found
        first_row += len(chunk)


def _of_lines(
    lines: Iterable[str], decoder: json.JSONDecoder, origin: Origin, first: int
) -> Iterator[_Sized[Any]]:
    for number, line in enumerate(lines, first):
        if not line.strip():
            continue
        try:
            value = decoder.decode(line)
        except (ValueError, RecursionError) as error:
            raise origin.wrong(f"line {number} is no JSON: {error}") from error
        yield _object(value, f"line {number}", origin), len(line)


def _of_array(text: io.TextIOWrapper, decoder: json.JSONDecoder, origin: Origin) -> Iterator[_Sized[Any]]:
    """The items of an array, of which no more than the next is in memory."""
    space = re.compile(r"\s*")
    data, place, count = _sure(text, "", 0), 0, 0
    place = space.match(data).end() + 1  # type: ignore[union-attr]  # it matches nothing, too
    while True:
        data, place = _skipped(text, data, place, space)
        if data.startswith("]", place):
            data, place = _skipped(text, data, place + 1, space)
            if place < len(data):
                raise origin.wrong("something follows the array")
            return
        if count:
            if not data.startswith(",", place):
                raise origin.wrong(f"item {count} is not followed by a comma or ]")
            data, place = _skipped(text, data, place + 1, space)
        step = _READ_CHARACTERS
        while True:
            try:
                value, end = decoder.raw_decode(data, place)
                break
            except RecursionError as error:
                raise origin.wrong(f"item {count + 1} is nested too deep") from error
            except ValueError as error:
                if _is_sure(error, data):
                    raise origin.wrong(f"item {count + 1} is no JSON: {error}") from error
                if len(data) - place > origin.longest + _READ_CHARACTERS:
                    raise origin.too_long() from None
                more = text.read(min(step, origin.longest))
                if not more:
                    raise origin.wrong(f"item {count + 1} is no JSON: {error}") from error
                data, place, step = data[place:] + more, 0, step * 2
        count += 1
        yield _object(value, f"item {count}", origin), end - place
        place = end


def _is_sure(error: ValueError, data: str) -> bool:
    """Whether it would be an error whatever follows the data."""
    if not isinstance(error, json.JSONDecodeError):
        return True
    return not error.msg.startswith("Unterminated") and error.pos < len(data) - _LONGEST_WORD


def _skipped(text: io.TextIOWrapper, data: str, place: int, space: re.Pattern[str]) -> tuple[str, int]:
    """What comes after blanks; more is read where nothing is left."""
    while (place := space.match(data, place).end()) == len(data):  # type: ignore[union-attr]
        data, place = text.read(_READ_CHARACTERS), 0
        if not data:
            break
    return data, place


def _sure(text: io.TextIOWrapper, data: str, place: int) -> str:
    while not data[place:].strip() and (more := text.read(_READ_CHARACTERS)):
        data += more
    return data


def _object(value: Any, where: str, origin: Origin) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise origin.wrong(f"{where} is no object")
    return value
