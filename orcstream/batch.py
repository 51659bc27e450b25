"""Batches: rows of some columns in Arrow-shaped memory, and the ways out of them.

Knows vectors, fields and the schema of a read; hands them to Arrow consumers through the PyCapsule protocol
without copying, and to Python as numpy arrays, lists and pandas frames. Must not know files, stripes or
I/O. A batch never changes and may be used from any thread.

A file whose root type is no struct has one column, named `value`: Arrow's record batches are structs.
Two things of ORC have no place in Arrow: null keys of maps are refused at the export (`to_pylist` gives
them), and a null union is a null in the union's child 0.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any, NoReturn, overload

import numpy as np

from orcstream.batch_values import has_duplicates, to_numpy, to_pylist
from orcstream.codec.arrow._arrow_c import export_array, export_schema, export_stream, export_vectors
from orcstream.codec.vectors._selection import count_nulls
from orcstream.codec.vectors.column import Array, Field, Vector, nulls_of
from orcstream.errors import ColumnNotFound, Unsupported, UsageError
from orcstream.schema.schema import Schema, numbered
from orcstream.schema.types import Kind, Type

ROOT_COLUMN = "value"


class BatchSchema:
    """What all batches of one read share: made once from the root's field.

    `schema` describes the columns that were read, numbered anew; `root` is their Arrow struct. `masked` are
    the dotted names of what was read as a mask left it.
    """

    __slots__ = ("_positions", "has_unions", "is_struct", "map_columns", "masked", "root", "schema")

    def __init__(self, root: Field, masked: tuple[str, ...] = ()) -> None:
        self.masked = masked
        self.schema = numbered(root.type)
        self.is_struct = root.type.kind is Kind.STRUCT
        if not self.is_struct:
            root = Field("", "+s", root.type, nullable=False, children=(replace(root, name=ROOT_COLUMN),))
        self.root = root
        kinds = {type_.kind for type_ in self.schema.types}
        self.has_unions = Kind.UNION in kinds
        self.map_columns: tuple[int, ...] = ()
        if Kind.MAP in kinds:
            self.map_columns = tuple(i for i, field in enumerate(root.children) if _contains(field, "+m"))
        self._positions: dict[str, int | None] = {}
        for index, field in enumerate(root.children):
            self._positions[field.name] = None if field.name in self._positions else index

    @property
    def fields(self) -> tuple[Field, ...]:
        """One field for each column."""
        return self.root.children

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names."""
        return tuple(field.name for field in self.fields)

    def position(self, column: str | int) -> int:
        """Where a column stands, by its name or index (negative ones count from the end)."""
        if isinstance(column, str):
            if column not in self._positions:
                raise ColumnNotFound(f"no column {column!r} was read; there are {', '.join(self.names)}")
            index = self._positions[column]
            if index is None:
                raise UsageError(f"several columns are named {column!r}; take one by its index")
            return index
        if not -len(self.fields) <= column < len(self.fields):
            raise ColumnNotFound(f"no column {column}: {len(self.fields)} columns were read")
        return column % len(self.fields)

    def __arrow_c_schema__(self) -> object:
        return export_schema(self.root)


class Column:
    """One column of a batch; Arrow consumers take it as an array."""

    __slots__ = ("_field", "_vector")

    def __init__(self, field: Field, vector: Vector) -> None:
        self._field = field
        self._vector = vector

    @property
    def name(self) -> str:
        """The column's name."""
        return self._field.name

    @property
    def type(self) -> Type:
        """The column's ORC type, with the column ids of the file."""
        return self._field.type

    def __arrow_c_schema__(self) -> object:
        return export_schema(self._field)

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        """The values' own type, whatever is requested: consumers cast."""
        _refuse_null_keys(self._field, self._vector, self._field.name)
        return export_array(self._field, self._vector)

    def to_numpy(self) -> Array:
        """The values as an array; see `Batch.to_numpy`."""
        return to_numpy(self._field, self._vector)

    def to_pylist(self) -> list[Any]:
        """The values as Python objects; see `Batch.to_pylist`."""
        return to_pylist(self._field, self._vector)

    def __len__(self) -> int:
        return self._vector.length

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Column cannot be pickled: pickle pyarrow.array(column), or column.to_numpy()")

    def __repr__(self) -> str:
        return f"<Column {self.name!r}: {len(self)} x {_shortened(str(self.type))}>"


class _Rows:
    """Rows in memory, and what their schema says of them."""

    __slots__ = ("_schema",)

    def __init__(self, schema: BatchSchema) -> None:
        self._schema = schema

    @property
    def schema(self) -> Schema:
        """The ORC types of the columns that were read."""
        return self._schema.schema

    @property
    def batch_schema(self) -> BatchSchema:
        """The Arrow fields of the columns that were read."""
        return self._schema

    @property
    def num_columns(self) -> int:
        """How many columns there are."""
        return len(self._schema.fields)

    def to_pandas(self) -> Any:
        """A `pandas.DataFrame`; through pyarrow where it is installed, which keeps more types."""
        return _to_pandas(self, self._schema)

    def __arrow_c_schema__(self) -> object:
        return export_schema(self._schema.root)


class Batch(_Rows):
    """Consecutive rows of a file. `to_arrow` and `polars.DataFrame(batch)` copy nothing."""

    __slots__ = ("_num_rows", "_vectors")

    def __init__(self, schema: BatchSchema, vectors: tuple[Vector, ...], num_rows: int) -> None:
        self._schema = schema  # each batch is made here: what the base would do costs a call
        self._vectors = vectors
        self._num_rows = num_rows

    @property
    def num_rows(self) -> int:
        """How many rows there are, also where no column was asked for."""
        return self._num_rows

    @property
    def masked_columns(self) -> tuple[str, ...]:
        """Dotted names of the encrypted columns whose key was not had: they hold what their masks left."""
        return self._schema.masked

    @property
    def vectors(self) -> tuple[Vector, ...]:
        """The columns' memory, which other batches may share."""
        return self._vectors

    def to_arrow(self) -> Any:
        """A `pyarrow.RecordBatch`, without a copy.

        Raises
        ------
        ImportError
            pyarrow is not installed.

        """
        return _pyarrow().record_batch(self)

    def column(self, column: str | int) -> Column:
        """One column, by name or index."""
        index = self._schema.position(column)
        return Column(self._schema.fields[index], self._vectors[index])

    def slice(self, start: int, stop: int | None = None) -> Batch:
        """Rows `start` up to `stop`, as Python slices count them, sharing this batch's memory."""
        start, stop, _ = slice(start, stop).indices(self._num_rows)
        stop = max(start, stop)
        vectors = tuple(vector.slice(start, stop) for vector in self._vectors)
        return Batch(self._schema, vectors, stop - start)

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        """A struct of the columns in their own types, whatever is requested: consumers cast."""
        return export_array(self._schema.root, _root_vector(self._schema, self))

    @overload
    def to_numpy(self) -> dict[str, Array]: ...
    @overload
    def to_numpy(self, column: str | int) -> Array: ...
    def to_numpy(self, column: str | int | None = None) -> dict[str, Array] | Array:
        """One array for each column by name, or the one of `column`.

        Numbers and timestamps are read-only views of the batch's memory; booleans and dates are converted;
        with nulls all these are `numpy.ma.MaskedArray`. Other types are arrays of objects, nulls None.
        """
        if column is not None:
            return self.column(column).to_numpy()
        _refuse_duplicates(self._schema)
        return {
            field.name: to_numpy(field, vector)
            for field, vector in zip(self._schema.fields, self._vectors, strict=True)
        }

    def to_pylist(self) -> list[Any]:
        """One dictionary for each row (where the root is no struct: one value), nulls as None.

        Values are bool, int, float, str, bytes, Decimal, date, datetime (with UTC for instants), list,
        dict, a list of (key, value) tuples for maps and `UnionValue` for unions. A date or time that
        Python's types cannot hold exactly is a `numpy.datetime64`.
        """
        if not self._schema.is_struct:
            return self.column(0).to_pylist()
        return to_pylist(self._schema.root, Vector(self._num_rows, (None,), 0, 0, self._vectors))

    def __len__(self) -> int:
        return self._num_rows

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Batch cannot be pickled: pickle batch.to_arrow(), or batch.to_numpy()")

    def __repr__(self) -> str:
        return f"<Batch of {self._num_rows} rows: {_shortened(str(self.schema))}>"


class ReadResult(_Rows):
    """All rows of a read, as its batches. `to_arrow` and `polars.DataFrame(result)` copy nothing.

    The Arrow stream may be asked for any number of times. Without rows there may be no batches, and all
    ways out still give the columns.
    """

    __slots__ = ("_batches",)

    def __init__(self, schema: BatchSchema, batches: Iterable[Batch]) -> None:
        super().__init__(schema)
        self._batches = tuple(batches)

    @property
    def batches(self) -> tuple[Batch, ...]:
        """The batches, in row order."""
        return self._batches

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return sum(batch.num_rows for batch in self._batches)

    def to_arrow(self) -> Any:
        """A `pyarrow.Table`, without a copy.

        `pyarrow.table(result)` is the same, and imports pandas where it is installed: 0.2 s, once.

        Raises
        ------
        ImportError
            pyarrow is not installed.

        """
        return _pyarrow().RecordBatchReader.from_stream(self).read_all()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Structs of the columns in their own types, whatever is requested: consumers cast."""
        # All at once: an error that a consumer's pull meets would arrive as text only, and each pull that
        # runs Python takes the interpreter's lock.
        return export_vectors(
            self._schema.root, [_root_vector(self._schema, batch) for batch in self._batches]
        )

    @overload
    def to_numpy(self) -> dict[str, Array]: ...
    @overload
    def to_numpy(self, column: str | int) -> Array: ...
    def to_numpy(self, column: str | int | None = None) -> dict[str, Array] | Array:
        """As `Batch.to_numpy`; the arrays of several batches are joined, which copies."""
        if column is not None:
            return self._joined(self._schema.position(column))
        _refuse_duplicates(self._schema)
        return {name: self._joined(index) for index, name in enumerate(self._schema.names)}

    def _joined(self, index: int) -> Array:
        arrays = [batch.column(index).to_numpy() for batch in self._batches]
        if not arrays:
            field = self._schema.fields[index]
            return to_numpy(field, nulls_of(field, 0))
        if len(arrays) == 1:
            return arrays[0]
        masked = any(isinstance(array, np.ma.MaskedArray) for array in arrays)
        concatenate: Callable[[list[Array]], Array] = np.ma.concatenate if masked else np.concatenate
        return concatenate(arrays)

    def to_pylist(self) -> list[Any]:
        """As `Batch.to_pylist`, over all batches."""
        return [row for batch in self._batches for row in batch.to_pylist()]

    def __len__(self) -> int:
        return self.num_rows

    def __reduce__(self) -> NoReturn:
        raise TypeError("a ReadResult cannot be pickled: pickle result.to_arrow(), or result.to_numpy()")

    def __repr__(self) -> str:
        return (
            f"<ReadResult of {self.num_rows} rows in {len(self._batches)} batches: "
            f"{_shortened(str(self.schema))}>"
        )


def stream_capsule(schema: BatchSchema, pull: Callable[[], Batch | None]) -> object:
    """An Arrow stream of the batches that `pull` answers, on the consumer's thread, until it answers None."""

    def next_vector() -> Vector | None:
        batch = pull()
        return None if batch is None else _root_vector(schema, batch)

    return export_stream(schema.root, next_vector)


def _root_vector(schema: BatchSchema, batch: Batch) -> Vector:
    """The batch as one struct, fit for export."""
    for index in schema.map_columns:
        field = schema.fields[index]
        _refuse_null_keys(field, batch.vectors[index], field.name)
    return Vector(batch.num_rows, (None,), 0, 0, batch.vectors)


def _refuse_null_keys(field: Field, vector: Vector, column: str) -> None:
    """All keys count that the vector holds, also other rows': pyarrow ends the process on any null key."""
    if field.format == "+m":
        keys = vector.children[0].children[0]
        is_union = field.children[0].children[0].format.startswith("+ud:")
        validity = None if is_union or keys.null_count == 0 else keys.buffers[0]
        if validity is not None and count_nulls(validity, keys.offset, keys.length):
            raise Unsupported(
                f"column {column!r} holds a map with a null key (in this batch, or near it in the file), "
                "which Arrow forbids; leave the column out, or take its values with to_pylist()",
                reason="null_map_key",
            )
    for child_field, child in zip(field.children, vector.children, strict=True):
        _refuse_null_keys(child_field, child, column)


def _refuse_duplicates(schema: BatchSchema) -> None:
    if has_duplicates(schema.fields):
        raise Unsupported(
            "several columns share a name, which a dictionary cannot hold; take them by index",
            reason="duplicate_names",
        )


def _pyarrow() -> Any:
    try:
        return importlib.import_module("pyarrow")
    except ImportError as error:
        raise ImportError("to_arrow() needs pyarrow: pip install pyarrow") from error


def _to_pandas(data: Any, schema: BatchSchema) -> Any:
    try:
        pandas: Any = importlib.import_module("pandas")
    except ImportError as error:
        raise ImportError("to_pandas() needs pandas: pip install pandas") from error
    # pyarrow has no pandas form of unions, and only pyarrow converts without copying through objects.
    if not schema.has_unions:
        with suppress(ImportError):
            return data.to_arrow().to_pandas()
    return pandas.DataFrame(data.to_numpy(), index=pandas.RangeIndex(data.num_rows))


def _contains(field: Field, format_: str) -> bool:
    return field.format.startswith(format_) or any(_contains(child, format_) for child in field.children)


def _shortened(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."
