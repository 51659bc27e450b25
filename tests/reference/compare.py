"""Neutral values out of Arrow data, and exact comparison of neutral values.

The neutral form is the one of `tests.reference`. Comparison follows the type: floating point
values by their bits (every NaN equals every other), decimals by value and scale, timestamps to the
nanosecond, unions by tag. Nothing is approximate; a difference is told by its path.
"""

from __future__ import annotations

import array
import math
import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import chain
from typing import Any

import pyarrow as pa

from tests.reference.columnwise import Conversion
from tests.reference.types import T, Union

UNIT_NANOS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}

_FORMS: dict[str, type] = {
    "float": float,
    "double": float,
    "decimal": Decimal,
    "struct": tuple,
    "array": list,
    "map": list,
    "uniontype": Union,
}


class Printed(float):
    """A 32-bit float that some program printed with seven digits: it stands for all that print the same."""


def difference(type_: T, actual: object, expected: object, path: str = "value") -> str | None:
    """The first difference in words, or None."""
    if actual is None or expected is None:
        return None if actual is expected else f"{path}: {actual!r} is not {expected!r}"
    kind = type_.kind
    if kind in ("float", "double"):
        return _float_difference(actual, expected, path)
    if kind == "decimal":
        same = isinstance(actual, Decimal) and actual.as_tuple() == _decimal(expected).as_tuple()
        return None if same else f"{path}: {actual!r} is not {expected!r}"
    if kind == "struct":
        assert isinstance(actual, tuple) and isinstance(expected, tuple), path
        pairs = zip(type_.children, type_.names, actual, expected, strict=True)
        found = (difference(t, a, e, f"{path}.{name}") for t, name, a, e in pairs)
        return next(filter(None, found), None)
    if kind == "uniontype":
        assert isinstance(actual, Union) and isinstance(expected, Union), path
        if actual.tag != expected.tag:
            return f"{path}: tag {actual.tag} is not {expected.tag}"
        return difference(type_.children[actual.tag], actual.value, expected.value, f"{path}<{actual.tag}>")
    if kind in ("array", "map"):
        assert isinstance(actual, list) and isinstance(expected, list), path
        if len(actual) != len(expected):
            return f"{path}: {len(actual)} items, not {len(expected)}"
        item = type_.children[0]
        if kind == "map":
            item = T("struct", type_.children, ("key", "value"))
        found = (
            difference(item, a, e, f"{path}[{i}]")
            for i, (a, e) in enumerate(zip(actual, expected, strict=True))
        )
        return next(filter(None, found), None)
    same = type(actual) is type(expected) and actual == expected
    return None if same else f"{path}: {_short(actual)} is not {_short(expected)}"


def _decimal(value: object) -> Decimal:
    assert isinstance(value, Decimal), value
    return value


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) < 200 else f"{text[:150]}... ({len(text)} characters)"


def _float_difference(actual: object, expected: object, path: str) -> str | None:
    assert isinstance(actual, float) and isinstance(expected, float), path
    both_nan = math.isnan(actual) and math.isnan(expected)
    if both_nan or struct.pack("<d", actual) == struct.pack("<d", expected):
        return None
    if isinstance(expected, Printed) and f"{actual:.7g}" == f"{expected:.7g}":
        return None
    return f"{path}: {actual!r} is not {expected!r}"


def assert_same_rows(type_: T, actual: Sequence[object], expected: Sequence[object]) -> None:
    """Fail with the first row that differs."""
    if len(actual) == len(expected) and _surely_same(type_, actual, expected):
        return
    found = zip(actual, expected, strict=False)
    for row, (a, e) in enumerate(found):
        text = difference(type_, a, e, f"row {row}")
        assert text is None, text
    assert len(actual) == len(expected), f"{len(actual)} rows, not {len(expected)}"


def _surely_same(type_: T, actual: Sequence[Any], expected: Sequence[Any]) -> bool:
    """Whether `difference` would find none, told column by column; False where only it can say.

    Most of what is compared is the same, and value by value that takes two to four times as long.
    """
    forms = list(map(type, actual))
    if forms != list(map(type, expected)):
        return False
    found = set(forms)
    if type(None) in found:
        found.remove(type(None))
        actual = [value for value in actual if value is not None]
        expected = [value for value in expected if value is not None]
    kind = type_.kind
    if kind in _FORMS and not found <= {_FORMS[kind]}:
        return False
    if kind in ("float", "double"):
        return array.array("d", actual).tobytes() == array.array("d", expected).tobytes()
    if kind == "decimal":
        return list(map(str, actual)) == list(map(str, expected))  # sign, digits and exponent
    if kind == "struct":
        return _surely_same_fields(type_, actual, expected)
    if kind in ("array", "map"):
        if list(map(len, actual)) != list(map(len, expected)):
            return False
        item = T("struct", type_.children, ("key", "value")) if kind == "map" else type_.children[0]
        return _surely_same(item, list(chain.from_iterable(actual)), list(chain.from_iterable(expected)))
    if kind == "uniontype":
        tags = [value.tag for value in actual]
        if tags != [value.tag for value in expected]:
            return False
        parts = [
            [[value.value for value in values if value.tag == tag] for values in (actual, expected)]
            for tag in range(len(type_.children))
        ]
        return sum(len(part) for part, _ in parts) == len(actual) and all(
            _surely_same(child, *part) for child, part in zip(type_.children, parts, strict=True)
        )
    return actual == expected


def _surely_same_fields(type_: T, actual: Sequence[Any], expected: Sequence[Any]) -> bool:
    count = len(type_.children)
    if not {*map(len, actual), *map(len, expected)} <= {count}:
        return False
    if not actual or len(type_.names) != count:
        return not actual
    columns = zip(type_.children, zip(*actual, strict=True), zip(*expected, strict=True), strict=True)
    return all(_surely_same(child, *pair) for child, *pair in columns)


def arrow_shaped(type_: T, values: Sequence[Any], unit: str = "ns") -> list[Any]:
    """Values as Arrow can hold them: a null union is a null in child 0; timestamps cut to `unit`."""
    return _ArrowShape(UNIT_NANOS[unit]).convert(type_, values)


class _ArrowShape(Conversion):
    def __init__(self, nanos: int) -> None:
        self._nanos = nanos

    def null(self, type_: T, /) -> object:
        return Union(0, self.null(type_.children[0])) if type_.kind == "uniontype" else None

    def leaf(self, type_: T, /) -> Callable[[Any], object] | None:
        nanos = self._nanos
        if nanos == 1 or not type_.kind.startswith("timestamp"):
            return None
        return lambda value: value // nanos * nanos


def table_rows(type_: T, table: pa.Table) -> list[object]:
    """A table's rows in neutral form; a root that is no struct is the table's only column."""
    if type_.kind != "struct":
        (column,) = table.columns
        return column_values(type_, column)
    columns = [column_values(t, c) for t, c in zip(type_.children, table.columns, strict=True)]
    return list(zip(*columns, strict=True)) if columns else [() for _ in range(table.num_rows)]


def column_values(type_: T, column: pa.ChunkedArray) -> list[object]:
    out: list[object] = []
    for chunk in column.chunks:
        out += array_values(type_, chunk)
    return out


def array_values(type_: T, array: pa.Array) -> list[object]:
    """An array's values in neutral form, read without Python's dates and times, which hold less."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    kind = type_.kind
    if kind == "struct":
        # Not `flatten()`: it pushes the struct's nulls into unions, which have none, and aborts the process.
        fields = [array_values(t, array.field(i)) for i, t in enumerate(type_.children)]
        rows: list[object] = list(zip(*fields, strict=True)) if fields else [()] * len(array)
        return [row if valid else None for row, valid in zip(rows, array.is_valid().to_pylist(), strict=True)]
    if kind in ("array", "map"):
        return _list_values(type_, array)
    if kind == "uniontype":
        children = [array_values(t, array.field(i)) for i, t in enumerate(type_.children)]
        # Not `type_codes` and `offsets`: of a slice they begin where the whole array does.
        tags = _numbers(array, 1, pa.int8())
        offsets = _numbers(array, 2, pa.int32()) if array.type.mode == "dense" else range(len(array))
        return [Union(tag, children[tag][at]) for tag, at in zip(tags, offsets, strict=True)]
    if kind.startswith("timestamp"):
        factor = UNIT_NANOS[array.type.unit]
        numbers = array.view(pa.int64()).to_pylist()
        return [None if number is None else number * factor for number in numbers]
    if kind == "date":
        return list(array.view(pa.int32()).to_pylist())
    if kind == "char":
        return [None if text is None else text.rstrip(" ") for text in array.to_pylist()]
    return list(array.to_pylist())


def _numbers(array: pa.Array, buffer: int, type_: pa.DataType) -> list[int]:
    """A buffer of an array, as far as its rows go."""
    buffers = [None, array.buffers()[buffer]]
    found: list[int] = pa.Array.from_buffers(type_, len(array), buffers, offset=array.offset).to_pylist()
    return found


def _list_values(type_: T, array: pa.Array) -> list[object]:
    if type_.kind == "map":
        keys, values = (
            array_values(t, a) for t, a in zip(type_.children, (array.keys, array.items), strict=True)
        )
        items: list[object] = list(zip(keys, values, strict=True))
    else:
        items = array_values(type_.children[0], array.values)
    offsets = array.offsets.to_pylist()
    valid = array.is_valid().to_pylist()
    return [items[offsets[i] : offsets[i + 1]] if valid[i] else None for i in range(len(array))]
