"""Python values as vectors of the types of an ORC schema, and the type that holds some Python values.

Knows which Python objects each type takes (those that `Batch.to_pylist` gives, and a few more). Must not know
rows' files nor Arrow. Works value by value: for data in Arrow or numpy there is `codec.ingest.fitting`.
Contract as there: what does not fit exactly is a SchemaMismatch with path and row, with one exception:
FLOAT takes any `float`, rounded, since Python has no other.
"""

from __future__ import annotations

import datetime
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from decimal import Context, Decimal
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, cast

import numpy as np

from orcstream.codec.ingest.refusals import Path, refuse, row_of, too_large
from orcstream.codec.vectors.column import (
    DTYPES,
    MAX_VECTOR_BYTES,
    Field,
    Vector,
    as_buffer,
    nested,
    nulls_where,
    pack,
)
from orcstream.errors import SchemaMismatch, Unsupported
from orcstream.schema.types import (
    FLOATS,
    INT64,
    INTEGERS,
    MAX_DEPTH,
    MAX_PRECISION,
    TEXTS,
    TIMES,
    Kind,
    Type,
    decimal_shape,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer

_Values: TypeAlias = Sequence[Any]
_Fitted: TypeAlias = tuple[Field, Vector]

_FLOAT_MAX = float(np.finfo("f4").max)
_EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - a wall clock
_EPOCH_UTC = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_FIRST_DAY = datetime.date(1970, 1, 1).toordinal()
_MICROSECOND = datetime.timedelta(microseconds=1)
_UNIT_NANOS = {
    "s": 10**9,
    "ms": 10**6,
    "us": 1000,
    "ns": 1,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
    "D": 86400 * 10**9,
}
# Arrow's letters, and nanoseconds.
_TICKS = (("u", 1000), ("n", 1), ("m", 10**6), ("s", 10**9))
_EXACT = Context(prec=100)
_LAST_TAG = 127  # of Arrow's unions, whose tags are bytes with a sign


def vector_of(values: _Values, field: Field, path: Path) -> _Fitted:
    """A vector of the values, None where they are null; `field` is `field_of` the type."""
    kind = field.type.kind
    # NaT of numpy and pandas is a null, too; it alone is not equal to itself and no number.
    values = [None if _is_null(value) else value for value in values]
    if kind is Kind.STRUCT:
        return _structs(values, field, path)
    if kind in (Kind.LIST, Kind.MAP):
        return _lists(values, field, path)
    if kind is Kind.UNION:
        return _unions(values, field, path)
    if kind in TIMES:
        return _timestamps(values, field, path)
    if kind in DTYPES:
        return field, _leaf(values, (np.array(_each(values, field, path, 0), DTYPES[kind]),))
    if kind is Kind.BOOLEAN:
        return field, _leaf(values, (pack(np.array(_each(values, field, path, False), np.bool_)),))
    if kind is Kind.DECIMAL:
        words = b"".join(n.to_bytes(16, "little", signed=True) for n in _each(values, field, path, 0))
        return field, _leaf(values, (words,))
    texts = _each(values, field, path, b"")
    return field, _leaf(values, (_offsets(map(len, texts), "bytes of text"), b"".join(texts)))


def _is_null(value: object) -> bool:
    if value is None:
        return True
    if isinstance(value, np.datetime64):
        return bool(np.isnat(value))
    # pandas' NaT is a datetime of no year.
    return isinstance(value, datetime.datetime) and value.year != value.year


def _each(values: _Values, field: Field, path: Path, null: Any) -> list[Any]:
    convert = converter(field.type)
    found = []
    for row, value in enumerate(values):
        if value is None:
            found.append(null)
            continue
        try:
            found.append(convert(value))
        except (TypeError, ValueError, ArithmeticError) as error:
            why = str(error) or f"which {field.type} does not take"
            refuse(path, field.type, f"holds {value!r:.100}: {why}", row)
    return found


def converter(type_: Type) -> Callable[[Any], Any]:
    """What turns a value of a type without children into what vectors hold; raises where it does not fit."""
    kind = type_.kind
    if kind in INTEGERS:
        limits = np.iinfo(DTYPES[kind])
        return lambda value: _whole(value, int(limits.min), int(limits.max), type_)
    if kind in FLOATS:
        return _narrow_float if kind is Kind.FLOAT else _float
    if kind is Kind.DECIMAL:
        precision, scale = decimal_shape(type_)
        return lambda value: _unscaled(value, precision, scale)
    if kind in (Kind.BINARY, Kind.GEOMETRY, Kind.GEOGRAPHY):
        return _bytes
    if kind in TEXTS:
        return lambda value: _text(value, type_)
    return {Kind.BOOLEAN: _boolean, Kind.DATE: _day}[kind]


def _leaf(values: _Values, buffers: tuple[Any, ...], children: tuple[Vector, ...] = ()) -> Vector:
    valid = np.fromiter((value is not None for value in values), np.bool_, len(values))
    bitmap, nulls = nulls_where(valid)
    return Vector(len(values), (bitmap, *buffers), nulls, children=children)


def _offsets(lengths: Iterable[int], what: str) -> Buffer:
    ends = np.array([0, *accumulate(lengths)], "i8")
    if ends[-1] > MAX_VECTOR_BYTES:
        raise too_large(f"{ends[-1]} {what}")
    return as_buffer(ends.astype("i4"))


# --- single values ---------------------------------------------------------------------------------


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise TypeError("this is no bool")
    return bool(value)


def _whole(value: Any, least: int, most: int, type_: Type) -> int:
    if isinstance(value, bool | np.bool_):
        raise TypeError("this is a bool and no integer")
    number = operator.index(value)
    if not least <= number <= most:
        raise ValueError(f"{type_} holds {least} to {most}")
    return number


def _float(value: Any) -> float:
    if isinstance(value, bool | np.bool_) or not isinstance(value, float | int | np.floating | np.integer):
        raise TypeError("this is no float")
    number = float(value)
    if not isinstance(value, float | np.floating) and int(number) != value:
        raise ValueError("a float holds this only rounded")
    return number


def _narrow_float(value: Any) -> float:
    number = _float(value)
    if math.isfinite(number) and abs(number) > _FLOAT_MAX:
        raise ValueError("this is too large for a float of 32 bits")
    if isinstance(value, int | np.integer) and float(np.float32(number)) != number:
        raise ValueError("a float of 32 bits holds this only rounded")
    return number


def _unscaled(value: Any, precision: int, scale: int) -> int:
    if isinstance(value, bool | np.bool_) or not isinstance(value, Decimal | int | np.integer):
        raise TypeError("this is neither Decimal nor int")
    exact = value if isinstance(value, Decimal) else Decimal(int(value))
    if not exact.is_finite():
        raise ValueError("decimals are finite")
    if exact and exact.adjusted() >= precision - scale:
        raise ValueError(f"there are more than {precision - scale} digits before the point")
    digits = len(exact.as_tuple().digits)
    if exact and (digits > _EXACT.prec or exact.adjusted() < -scale):
        raise ValueError(f"there are more than {scale} digits behind the point")
    scaled = exact.scaleb(scale, _EXACT) if exact else Decimal(0)
    if scaled != int(scaled):
        raise ValueError(f"there are more than {scale} digits behind the point")
    return int(scaled)


def _bytes(value: Any) -> bytes:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise TypeError("this is not bytes")
    return bytes(value)


def _text(value: Any, type_: Type) -> bytes:
    if not isinstance(value, str):
        raise TypeError("this is no str")
    most = type_.max_length
    if most is not None and len(value) > most:
        if type_.kind is not Kind.CHAR or len(value.rstrip(" ")) > most:
            raise ValueError(f"{type_} takes {most} characters and not {len(value)}")
        return value.rstrip(" ").encode()
    return value.encode()


def _day(value: Any) -> int:
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return value.toordinal() - _FIRST_DAY
    if isinstance(value, np.datetime64):
        days, rest = divmod(_numpy_nanos(value), _UNIT_NANOS["D"])
        if rest or not -(1 << 31) <= days < 1 << 31:
            raise ValueError("this is no date")
        return days
    raise TypeError("this is no date")


def _numpy_nanos(value: np.datetime64) -> int:
    unit, step = np.datetime_data(value.dtype)
    if unit not in _UNIT_NANOS:
        raise ValueError(f"its unit {unit!r} is not known here")
    return int(value.astype("i8")) * step * _UNIT_NANOS[unit]


def _nanos(value: Any, instant: bool) -> int:
    if isinstance(value, np.datetime64):
        return _numpy_nanos(value)
    if not isinstance(value, datetime.datetime):
        raise TypeError("this is no datetime")
    if instant != (value.tzinfo is not None):
        raise TypeError("an instant has a tzinfo" if instant else "a timestamp without zone has no tzinfo")
    since = value - (_EPOCH_UTC if instant else _EPOCH)
    # pandas' times count nanoseconds apart.
    return since // _MICROSECOND * 1000 + int(getattr(value, "nanosecond", 0))


def _timestamps(values: _Values, field: Field, path: Path) -> _Fitted:
    """In microseconds; in nanoseconds or seconds where these are not enough."""
    instant = field.type.kind is Kind.TIMESTAMP_INSTANT
    nanos = []
    for row, value in enumerate(values):
        try:
            nanos.append(0 if value is None else _nanos(value, instant))
        except (TypeError, ValueError) as error:
            refuse(path, field.type, f"holds {value!r:.100}: {error}", row)
    unit, size = next((found for found in _TICKS if _fits(nanos, found[1])), ("", 1))
    if not unit:
        refuse(path, field.type, "holds times too far apart for one unit of 64 bits")
    ticks = np.array([number // size for number in nanos], "i8")
    return replace(field, format=f"ts{unit}:{'UTC' if instant else ''}"), _leaf(values, (ticks,))


def _fits(nanos: list[int], size: int) -> bool:
    return all(number % size == 0 and number // size in INT64 for number in nanos)


# --- columns with children -------------------------------------------------------------------------


def _rows_as_columns(rows: _Values, names: tuple[str, ...], type_: Type, path: Path) -> list[list[Any]]:
    """The values of each field: of those that have names by name (else None), of others in order."""
    width = len(names)
    known = frozenset(names)
    columns: list[list[Any]] = [[] for _ in names]
    for row, value in enumerate(rows):
        named = _named_values(value)
        if named is not None:
            if len(named) > width or not known.issuperset(named):
                extra = next((name for name in named if name not in known), None)
                refuse(path, type_, f"has the field {extra!r}, which the schema has not", row)
            found = [named.get(name) for name in names]
        elif value is None:
            found = [None] * width
        elif isinstance(value, tuple | list):
            if len(value) != width:
                refuse(path, type_, f"has {len(value)} values and not {width}", row)
            found = list(value)
        else:
            refuse(path, type_, f"holds {_kind(value)}, which is neither dict nor tuple", row)
        for column, item in zip(columns, found, strict=True):
            column.append(item)
    return columns


def _kind(value: object) -> str:
    """What a value is: values with parts may have encrypted ones, so errors do not show them."""
    return f"a value of the type {type(value).__name__}"


def _named_values(row: Any) -> Mapping[Any, Any] | None:
    """The values by name of a mapping, a dataclass or a named tuple; None of anything else."""
    if type(row) is tuple:
        return None
    if isinstance(row, Mapping):
        return row
    if isinstance(row, tuple):
        return dict(zip(row._fields, row, strict=True)) if hasattr(row, "_fields") else None
    if is_dataclass(row) and not isinstance(row, type):
        return {item.name: getattr(row, item.name) for item in fields(row)}
    return None


def _structs(values: _Values, field: Field, path: Path) -> _Fitted:
    names = field.type.field_names
    if len(set(names)) < len(names) and any(isinstance(value, Mapping) for value in values):
        refuse(path, field.type, "has names twice, so its rows have to be tuples")
    columns = _rows_as_columns(values, names, field.type, path)
    pairs = zip(columns, field.children, strict=True)
    field, children = nested(field, (vector_of(held, one, (*path, one.name)) for held, one in pairs))
    return field, _leaf(values, (), children)


def _lists(values: _Values, field: Field, path: Path) -> _Fitted:
    is_map = field.type.kind is Kind.MAP
    lists: list[Sequence[Any]] = []
    for row, value in enumerate(values):
        if value is None:
            lists.append(())
        elif is_map and isinstance(value, Mapping):
            lists.append(list(value.items()))
        elif isinstance(value, list | tuple | np.ndarray):
            lists.append(cast("Sequence[Any]", value))
        else:
            refuse(path, field.type, f"holds {_kind(value)}, which {field.type!s:.100} does not take", row)
    owners = [row for row, items in enumerate(lists) for _ in range(len(items))]
    items = [item for part in lists for item in part]
    offsets = _offsets(map(len, lists), "items of lists")
    fit, below = (_entries, path) if is_map else (vector_of, (*path, "_elem"))
    with row_of(owners.__getitem__):
        field, children = nested(field, [fit(items, field.children[0], below)])
    return field, _leaf(values, (offsets,), children)


def _entries(pairs: _Values, field: Field, path: Path) -> _Fitted:
    for index, pair in enumerate(pairs):
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            refuse(path, field.type, f"holds a map with {_kind(pair)}, which is no pair", index)
        if pair[0] is None:
            refuse(path, field.type, "holds a map with a null key", index)
    sides = zip(field.children, ("_key", "_value"), strict=True)
    held = (
        vector_of([pair[at] for pair in pairs], one, (*path, step)) for at, (one, step) in enumerate(sides)
    )
    field, children = nested(field, held)
    return field, _leaf(pairs, (), children)


def _unions(values: _Values, field: Field, path: Path) -> _Fitted:
    """Pairs of tag and value, such as `UnionValue`; a null is a null of child 0."""
    width = len(field.children)
    tags = np.zeros(len(values), "i1")
    places = np.zeros(len(values), "i4")
    held: list[list[Any]] = [[] for _ in field.children]
    owners: list[list[int]] = [[] for _ in field.children]
    for row, value in enumerate(values):
        tag: Any = -1
        item: Any = None
        if value is None:
            tag = 0
        elif isinstance(value, tuple) and len(value) == 2:
            tag, item = value
        if isinstance(tag, bool) or not isinstance(tag, int) or not 0 <= tag < width:
            refuse(
                path,
                field.type,
                f"holds {_kind(value)}, which is no pair of a tag below {width} and a value",
                row,
            )
        if tag > _LAST_TAG:
            refuse(path, field.type, f"holds the tag {tag}; Arrow has tags up to {_LAST_TAG}", row)
        tags[row], places[row] = tag, len(held[tag])
        held[tag].append(item)
        owners[tag].append(row)
    fitted = []
    for tag, child in enumerate(field.children):
        with row_of(owners[tag].__getitem__):
            fitted.append(vector_of(held[tag], child, (*path, f"_union_{tag}")))
    field, children = nested(field, fitted)
    return field, Vector(len(values), (as_buffer(tags), as_buffer(places)), 0, children=children)


# --- the type of values ----------------------------------------------------------------------------

# The first of these that all values have; bool is an int, and datetime a date.
_SCALARS: tuple[tuple[Kind, Any], ...] = (
    (Kind.BOOLEAN, bool | np.bool_),
    (Kind.LONG, int | np.integer),
    (Kind.DOUBLE, float | int | np.floating | np.integer),
    (Kind.STRING, str),
    (Kind.BINARY, bytes | bytearray | memoryview),
)


def type_of(values: _Values, path: Path) -> Type:
    """The type that takes all the values, its columns without numbers.

    Raises SchemaMismatch where there is none: values of several kinds, or nothing but nulls.
    """
    if len(path) > MAX_DEPTH:
        raise Unsupported(
            f"the column {path[0]!r} holds values that are nested deeper than {MAX_DEPTH} levels",
            reason="schema_too_deep",
        )
    present = [value for value in values if not _is_null(value)]
    if not present:
        _no_type(path, "holds nothing but nulls")
    has_bools = any(isinstance(value, bool | np.bool_) for value in present)
    for kind, classes in _SCALARS:
        if all(isinstance(value, classes) for value in present) and (kind is Kind.BOOLEAN or not has_bools):
            return Type(kind)
    if all(isinstance(value, Decimal | int) for value in present) and not has_bools:
        return _decimal_type(present, path)
    if all(isinstance(value, datetime.datetime | np.datetime64) for value in present):
        zoned = {isinstance(value, datetime.datetime) and value.tzinfo is not None for value in present}
        if len(zoned) == 1:
            return Type(Kind.TIMESTAMP_INSTANT if zoned.pop() else Kind.TIMESTAMP)
    elif all(
        isinstance(value, datetime.date) and not isinstance(value, datetime.datetime) for value in present
    ):
        return Type(Kind.DATE)
    elif all(
        isinstance(value, Mapping) or (is_dataclass(value) and not isinstance(value, type))
        for value in present
    ):
        return struct_of(present, path)
    elif all(isinstance(value, list | np.ndarray) for value in present):
        return Type(Kind.LIST, (type_of([item for value in present for item in value], (*path, "_elem")),))
    kinds = ", ".join(sorted({type(value).__name__ for value in present})[:5])
    return _no_type(path, f"holds values that no one type takes ({kinds})")


def struct_of(rows: _Values, path: Path) -> Type:
    """The struct of rows that have names, its columns without numbers."""
    held: list[Mapping[Any, Any]] = []
    for row in rows:
        named = _named_values(row)
        if named is None:
            _no_type(path, f"has rows without names, such as {_kind(row)}")
        held.append(named)
    names = list(dict.fromkeys(name for row in held for name in row))
    if not all(isinstance(name, str) for name in names):
        _no_type(path, "has names that are not str")
    types = (type_of([row.get(name) for row in held], (*path, name)) for name in names)
    return Type(Kind.STRUCT, tuple(types), tuple(names))


def _decimal_type(values: _Values, path: Path) -> Type:
    scale = whole = 0
    for value in values:
        exact = Decimal(value)
        if not exact.is_finite():
            _no_type(path, "holds a decimal that is infinite or no number")
        exponent = exact.as_tuple().exponent
        assert isinstance(exponent, int)
        scale = max(scale, -exponent)
        whole = max(whole, exact.adjusted() + 1 if exact else 0)
    if whole + scale > MAX_PRECISION:
        _no_type(path, f"holds decimals of {whole + scale} digits, and there are at most {MAX_PRECISION}")
    return Type(Kind.DECIMAL, precision=MAX_PRECISION, scale=scale)


def _no_type(path: Path, problem: str) -> NoReturn:
    subject = f"the column {'.'.join(path)!r}" if path else "the data"
    raise SchemaMismatch(f"{subject} {problem}; give a schema")
