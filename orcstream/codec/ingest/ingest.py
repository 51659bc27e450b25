"""What users hand in to be written, as vectors of an ORC schema.

Knows the forms of data: Arrow capsules, dictionaries of numpy arrays, lists of rows. Must not know what
becomes of the vectors. What of them encoders may count on stands in `codec.ingest.fitting`. No form needs
a library: Arrow's objects are asked for capsules.

Contract. Columns go by name; one that the data lacks is null, one that the schema lacks is an error. Values
are taken exactly or not at all: integers and decimals may narrow where they fit, texts are never cut. Errors
are SchemaMismatch with the column's path in the message, its id in `column`, and in `row` the row of the
data, counted over all its batches. A batch is converted as a whole before anything of it is answered.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NoReturn, TypeVar

import numpy as np

from orcstream.codec.arrow._arrow_import import ArrowColumn, ArrowField, ArrowStream, import_array
from orcstream.codec.arrow.schema import arrow_schema_of, schema_of
from orcstream.codec.ingest.fitting import fit
from orcstream.codec.ingest.fitting_values import FLOAT_FORMATS, INTEGER_FORMATS
from orcstream.codec.ingest.python_values import struct_of, type_of, vector_of
from orcstream.codec.ingest.refusals import refuse
from orcstream.codec.vectors.column import (
    Array,
    Field,
    Mask,
    Vector,
    VectorOptions,
    field_of,
    pack,
    rows_bytes,
)
from orcstream.errors import OrcError, SchemaMismatch, SourceError, Unsupported, UsageError
from orcstream.schema.schema import Schema, numbered
from orcstream.schema.types import MAX_DEPTH, Kind, Type

T = TypeVar("T")

# A map takes two Arrow levels, and a dictionary's values one more.
_MOST_LEVELS = 2 * MAX_DEPTH + 1
# How a schema whose root is no struct names its only column, as batches do.
_ROOT_COLUMN = "value"
_HIDDEN = "its reason is not shown, because it may quote values that are encrypted or masked"


@dataclass(frozen=True, slots=True)
class IngestedRows:
    """Some rows of the data: a vector and its field for each column (one where the root is no struct).

    The fields' types are those of the schema; their formats say what the vectors are (timestamp units,
    dictionaries) and may change from one of these to the next.
    """

    fields: tuple[Field, ...]
    vectors: tuple[Vector, ...]
    row_count: int

    @property
    def size_bytes(self) -> int:
        """Bytes of the values; texts of a dictionary count as often as rows have them, about."""
        return sum(map(rows_bytes, self.fields, self.vectors))

    def slice(self, start: int, stop: int) -> IngestedRows:
        """The rows `start` up to `stop`, in the same memory."""
        if start == 0 and stop == self.row_count:
            return self
        vectors = tuple(vector.slice(start, stop) for vector in self.vectors)
        return IngestedRows(self.fields, vectors, stop - start)


class UserData:
    """Data in one of these forms; anything else is a UsageError.

    Objects with `__arrow_c_stream__` or `__arrow_c_array__` (of pyarrow, polars, pandas, duckdb, this
    package, …); a dictionary of numpy arrays (or lists) of one length by name; a list or tuple of rows:
    dictionaries, dataclasses, or tuples with a value for each field.

    With `hides_values`, errors leave out what other libraries say of the data: it may quote values.
    """

    def __init__(self, data: object, *, hides_values: bool = False) -> None:
        self._data = data
        self._hides_values = hides_values
        self._stream: ArrowStream | None = None
        self._arrays: dict[str, Array] | None = None
        if isinstance(data, type):
            _unknown(data)
        if hasattr(data, "__arrow_c_stream__") and not hasattr(data, "__arrow_c_array__"):
            self._stream = self._from_arrow(lambda: ArrowStream(data.__arrow_c_stream__(), _MOST_LEVELS))
        elif isinstance(data, Mapping):
            self._arrays = _arrays_of(data)
        elif not hasattr(data, "__arrow_c_array__") and not isinstance(data, list | tuple):
            _unknown(data)

    @property
    def is_nothing(self) -> bool:
        """Whether it is an empty list or dictionary: no rows, and no word of columns."""
        return isinstance(self._data, list | tuple | Mapping) and not self._data

    def schema(self) -> Schema:
        """The schema that the data asks for by itself, without reading a batch of a stream.

        Raises SchemaMismatch where there is none, such as for columns of nulls.
        """
        carried = getattr(self._data, "schema", None)
        if isinstance(carried, Schema):
            return carried
        if self._stream is not None:
            return arrow_schema_of(self._stream.field)
        if self.is_nothing:
            raise SchemaMismatch(f"the data is an empty {type(self._data).__name__}; give a schema")
        if self._arrays is not None:
            return _schema_of_arrays(self._arrays)
        if isinstance(self._data, list | tuple):
            return numbered(struct_of(self._data, ()))
        if hasattr(self._data, "__arrow_c_schema__"):
            return self._from_arrow(lambda: schema_of(self._data))
        return arrow_schema_of(self._array().field)

    def vectors(self, schema: Schema) -> Iterator[IngestedRows]:
        """The rows as vectors of the schema's types, a batch at a time.

        Data can be asked any number of times, a stream once. Raises, when asked for the batch, SchemaMismatch
        for what does not fit the schema, Unsupported (`vector_too_large`) for a row that no vector holds, and
        SourceError where an Arrow stream fails.
        """
        root = _root_field(schema)
        first_row = 0
        while blocks := self._next(root, schema, first_row):
            first_row += sum(block.row_count for block in blocks)
            blocks.reverse()
            while blocks:
                # Nothing here holds what was answered: its memory goes when the user lets go.
                yield blocks.pop()
            if self._stream is None:
                return

    def _next(self, root: Field, schema: Schema, first_row: int) -> list[IngestedRows]:
        if self._stream is not None:
            column = self._stream.read()
            return [] if column is None else _of_arrow(column, root, first_row)
        if self._arrays is not None:
            return _of_arrays(self._arrays, root)
        if isinstance(self._data, list | tuple):
            return [_of_rows(self._data, root, is_struct=schema.root.kind is Kind.STRUCT)]
        return _of_arrow(self._array(), root, first_row)

    def _array(self) -> ArrowColumn:
        data: Any = self._data

        def export() -> ArrowColumn:
            schema_capsule, array_capsule = data.__arrow_c_array__()
            return import_array(schema_capsule, array_capsule, _MOST_LEVELS)

        return self._from_arrow(export)

    def _from_arrow(self, export: Callable[[], T]) -> T:
        """What `export` returns; the library whose data it is may fail with exceptions of its own."""
        hidden: OrcError
        try:
            return export()
        except SourceError:
            if not self._hides_values:
                raise
            hidden = stream_failure()
        except (OrcError, MemoryError):
            raise
        except Exception as error:
            problem = f"the {type(self._data).__name__} cannot be exported as Arrow data"
            if not self._hides_values:
                raise SchemaMismatch(f"{problem}: {error}") from error
            hidden = SchemaMismatch(f"{problem}; {_HIDDEN}")
        raise hidden  # out here, so that the error that may have values does not come along


def stream_failure() -> SourceError:
    """The error of an Arrow stream whose own text is left out."""
    return SourceError(f"the Arrow stream failed; {_HIDDEN}")


class ReadyRows(UserData):
    """Rows that are vectors of the schema already."""

    def __init__(self, pieces: list[IngestedRows]) -> None:
        self._pieces = pieces

    def vectors(self, schema: Schema) -> Iterator[IngestedRows]:  # noqa: ARG002 - they are of it
        """The pieces, as they are."""
        yield from self._pieces


def _unknown(data: object) -> NoReturn:
    found = f"the class {data.__name__}" if isinstance(data, type) else f"a {type(data).__name__}"
    raise UsageError(
        "data is an object with __arrow_c_array__ or __arrow_c_stream__ (of pyarrow, polars, pandas, …), "
        f"a dictionary of numpy arrays, or a list of rows, not {found}"
    )


def _root_field(schema: Schema) -> Field:
    """The struct of the columns; a root that is none is its only column."""
    field = field_of("", schema.root, VectorOptions())
    if schema.root.kind is Kind.STRUCT:
        return field
    around = Type(Kind.STRUCT, (schema.root,), (_ROOT_COLUMN,), last_column_id=schema.root.last_column_id)
    return Field("", "+s", around, nullable=False, children=(replace(field, name=_ROOT_COLUMN),))


# --- Arrow -----------------------------------------------------------------------------------------


def _of_arrow(column: ArrowColumn, root: Field, first_row: int) -> list[IngestedRows]:
    if column.field.format != "+s":
        if root.type.field_names != (_ROOT_COLUMN,):
            raise SchemaMismatch("the data is one Arrow array and no struct of columns")
        around = ArrowField("+s", "", (), (column.field._replace(name=_ROOT_COLUMN),), None)
        child = column._replace(field=around.children[0])
        column = ArrowColumn(around, column.length, 0, (None,), (child,), None)
    return _in_parts(column, root, first_row)


def _in_parts(column: ArrowColumn, root: Field, first_row: int) -> list[IngestedRows]:
    """All of the rows at once, or in halves where a vector would become too large."""
    try:
        fitted, vector = fit(column, root, ())
    except SchemaMismatch as error:
        if error.row is not None:
            error.row += first_row
        raise
    except Unsupported as error:
        if error.reason != "vector_too_large" or column.length <= 1:
            raise
    else:
        if vector.null_count:
            raise SchemaMismatch("the data has rows that are null as a whole; give them null values instead")
        return [IngestedRows(fitted.children, vector.children, column.length)]
    half = column.length // 2
    rest = column._replace(offset=column.offset + half, length=column.length - half)
    return [
        *_in_parts(column._replace(length=half), root, first_row),
        *_in_parts(rest, root, first_row + half),
    ]


# --- numpy -----------------------------------------------------------------------------------------


def _arrays_of(data: Mapping[Any, Any]) -> dict[str, Array]:
    arrays: dict[str, Array] = {}
    for name, values in data.items():
        if not isinstance(name, str):
            raise UsageError(f"columns are named by text, not by {name!r:.80}")
        if isinstance(values, np.ndarray):
            arrays[name] = values
        elif isinstance(values, list | tuple):
            arrays[name] = _objects(values)
        else:
            raise UsageError(
                f"the column {name!r} is of type {type(values).__name__}, and no array; a row is written in "
                "a list: [{...}]"
            )
    lengths = {name: array.shape[0] if array.ndim else -1 for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        raise SchemaMismatch(f"the columns have different lengths: {str(lengths)[1:-1]:.300}")
    return arrays


def _objects(values: list[Any] | tuple[Any, ...]) -> Array:
    array = np.empty(len(values), object)
    for index, value in enumerate(values):
        array[index] = value
    return array


def _python_values(array: Array) -> list[Any]:
    values: list[Any] = np.ma.getdata(array).astype(object).tolist()
    mask: Any = np.ma.getmask(array)
    if mask is np.ma.nomask:
        return values
    return [None if hidden else value for value, hidden in zip(values, mask.tolist(), strict=True)]


def _schema_of_arrays(arrays: dict[str, Array]) -> Schema:
    types = []
    for name, array in arrays.items():
        if _holds_objects(array):
            types.append(type_of(_python_values(array), (name,)))
        else:
            held = _column_of(name, array, instants=False).field
            types += arrow_schema_of(ArrowField("+s", "", (), (held,), None)).root.children
    return numbered(Type(Kind.STRUCT, tuple(types), tuple(arrays)))


def _of_arrays(arrays: dict[str, Array], root: Field) -> list[IngestedRows]:
    """Arrays of objects are converted as a whole; all others go the way of Arrow's."""
    count = next((array.shape[0] for array in arrays.values() if array.ndim), 0)
    names = [child.name for child in root.children]
    if extra := [name for name in arrays if name not in names]:
        raise SchemaMismatch(f"the data has the column {extra[0]!r}, which the schema has not")
    if len(set(names)) < len(names):
        raise SchemaMismatch("the schema has a name twice, which a dictionary of arrays cannot give")
    fields, columns, held = [], [], {}
    for index, child in enumerate(root.children):
        array = arrays.get(child.name)
        if array is not None and _holds_objects(array) and array.ndim == 1:
            held[index] = vector_of(_python_values(array), child, (child.name,))
        elif array is not None:
            instants = child.type.kind is Kind.TIMESTAMP_INSTANT
            columns.append(_column_of(child.name, array, instants=instants))
            fields.append(columns[-1].field)
    around = ArrowField("+s", "", (), tuple(fields), None)
    blocks = _in_parts(ArrowColumn(around, count, 0, (None,), tuple(columns), None), root, 0)
    return [_with_columns(block, held, start) for block, start in zip(blocks, _starts(blocks), strict=True)]


def _starts(blocks: list[IngestedRows]) -> list[int]:
    return [sum(block.row_count for block in blocks[:index]) for index in range(len(blocks))]


def _with_columns(block: IngestedRows, held: dict[int, tuple[Field, Vector]], start: int) -> IngestedRows:
    fields, vectors = list(block.fields), list(block.vectors)
    for index, (field, vector) in held.items():
        fields[index], vectors[index] = field, vector.slice(start, start + block.row_count)
    return IngestedRows(tuple(fields), tuple(vectors), block.row_count)


# --- columns of one array ----------------------------------------------------------------------------

_FORMATS = {dtype: format_ for format_, dtype in {**INTEGER_FORMATS, **FLOAT_FORMATS}.items()}
_UNITS = {"s": "tss:", "ms": "tsm:", "us": "tsu:", "ns": "tsn:"}
_MOST = (1 << 63) - 1
_COARSE = {"h": 3600, "m": 60}  # in seconds


def _holds_objects(array: Array) -> bool:
    """Whether the values are Python objects (also where numpy keeps texts of any length)."""
    return array.dtype.kind in "OT"


def _column_of(name: str, array: Array, *, instants: bool) -> ArrowColumn:
    """The array as a column that shares its memory; `instants` says that its times are instants.

    Raises SchemaMismatch for arrays that are not of one dimension, and for dtypes that no column has.
    """
    if array.ndim != 1:
        refuse((name,), None, f"is an array of {array.ndim} dimensions")
    plain = np.asarray(np.ma.getdata(array))
    dtype = plain.dtype
    if dtype.names is not None or dtype.kind not in "biufMUS" or (dtype.itemsize > 8 and dtype.kind == "f"):
        refuse((name,), None, f"is an array of {dtype}, which no column type takes")
    mask = np.ma.getmask(array)
    valid: Mask | None = None if mask is np.ma.nomask else ~np.asarray(mask, np.bool_)
    if not dtype.isnative:
        plain = plain.astype(dtype.newbyteorder("="))
    if dtype.kind == "M":
        return _times(name, plain, valid, instants)
    if dtype.kind in "US":
        return _fixed_texts(name, plain, valid)
    if dtype.kind == "b":
        return _column(name, "b", len(plain), valid, (pack(np.ascontiguousarray(plain)),))
    return _column(name, _FORMATS[f"{dtype.kind}{dtype.itemsize}"], len(plain), valid, (_aligned(plain),))


def _column(name: str, format_: str, count: int, valid: Mask | None, buffers: tuple[Any, ...]) -> ArrowColumn:
    bitmap = None if valid is None else pack(valid)
    return ArrowColumn(ArrowField(format_, name, (), (), None), count, 0, (bitmap, *buffers), (), None)


def _aligned(array: Array) -> Array:
    return np.require(array, requirements=["C_CONTIGUOUS", "ALIGNED"])


def _times(name: str, array: Array, valid: Mask | None, instants: bool) -> ArrowColumn:
    unit, step = np.datetime_data(array.dtype)
    missing = np.isnat(array)
    if missing.any():
        valid = ~missing if valid is None else valid & ~missing
    if unit == "D" and step == 1:
        return _dates(name, array.view("i8"), valid)
    wanted = "s" if unit in _COARSE else unit
    if wanted not in _UNITS:
        refuse((name,), None, f"is an array of {array.dtype}; convert it to datetime64[ns] or datetime64[D]")
    factor = step * _COARSE.get(unit, 1)
    if factor != 1:  # numpy wraps around, or raises OverflowError from 2.5 on
        ticks, limit = array.astype("i8"), _MOST // factor
        bad = ((ticks > limit) | (ticks < -limit)) & ~missing
        if bad.any():
            refuse((name,), None, f"holds times that 64 bits of {wanted} do not", int(bad.argmax()))
    converted = array.astype(f"M8[{wanted}]")
    format_ = _UNITS[wanted] + ("UTC" if instants else "")
    return _column(name, format_, len(array), valid, (_aligned(converted).view("i8"),))


def _dates(name: str, days: Array, valid: Mask | None) -> ArrowColumn:
    narrow = days.astype("i4")
    bad = narrow != days
    if valid is not None:
        bad &= valid
    if bad.any():
        refuse((name,), None, "holds a date that 32 bits do not", int(bad.argmax()))
    return _column(name, "tdD", len(days), valid, (narrow,))


def _utf8(name: str, array: Array, valid: Mask | None) -> Array:
    encoded: Array | None = None
    # For numbers beyond Unicode, numpy raises SystemError.
    with suppress(UnicodeEncodeError, SystemError):
        encoded = np.char.encode(array, "utf-8")
    if encoded is not None:
        return encoded
    codes = _aligned(array).view("u4").reshape(len(array), -1)
    wrong = ((codes > sys.maxunicode) | ((codes >= 0xD800) & (codes <= 0xDFFF))).any(axis=1)
    if valid is not None:
        wrong &= valid
    if wrong.any():
        refuse((name,), None, "holds a text that is no Unicode", int(wrong.argmax()))
    return np.char.encode(np.where(True if valid is None else valid, array, ""), "utf-8")


def _fixed_texts(name: str, array: Array, valid: Mask | None) -> ArrowColumn:
    """Texts of one width, without the zeros at their ends: numpy takes these for padding, too."""
    format_ = "u" if array.dtype.kind == "U" else "z"
    if array.dtype.kind == "U":
        array = _utf8(name, array, valid)
    array = _aligned(array)
    count, width = len(array), array.dtype.itemsize
    lengths = np.char.str_len(array).astype("i8") if count else np.empty(0, "i8")
    offsets = np.zeros(count + 1, "i8")
    np.cumsum(lengths, out=offsets[1:])
    data = np.empty(0, "u1")
    if count and width:
        data = array.view("u1").reshape(count, width)[np.arange(width) < lengths[:, None]]
    return _column(name, format_.upper(), count, valid, (offsets, data))


# --- rows ------------------------------------------------------------------------------------------


def _of_rows(rows: list[Any] | tuple[Any, ...], root: Field, *, is_struct: bool) -> IngestedRows:
    values = rows if is_struct else [(value,) for value in rows]
    if is_struct and any(row is None for row in rows):
        row = next(index for index, value in enumerate(rows) if value is None)
        raise SchemaMismatch("the data has a row that is None", row=row)
    field, vector = vector_of(values, root, ())
    return IngestedRows(field.children, vector.children, len(rows))
