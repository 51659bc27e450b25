"""What ORC can be asked of a predicate of polars.

Knows how polars words expressions (its JSON, which may change from version to version: what is not understood
is not asked) and where its comparisons differ from ours. Must not know files.

What is asked may keep more rows than the predicate, never fewer. Of parts joined by "and", those that are
understood are asked; within "or" and "not", all have to be. Comparisons are asked where both sides are of
one kind, so that polars converts neither: numbers with numbers that the column's type holds exactly, texts
with texts, days with days, times with times of the same kind. NaN is larger than every number in polars, and
equal to itself; here it is neither, so "greater" is asked as "not less or equal".
"""

from __future__ import annotations

import datetime
import io
import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

import numpy as np
import polars as pl
from polars.exceptions import PolarsError

from orcstream import Expr, Schema, col
from orcstream.schema.types import Kind, Type

_INTEGERS: Final = frozenset({Kind.BYTE, Kind.SHORT, Kind.INT, Kind.LONG})
_FLOATS: Final = frozenset({Kind.FLOAT, Kind.DOUBLE})
_KINDS: Final[Mapping[type, tuple[Kind, ...]]] = {
    bool: (Kind.BOOLEAN,),
    str: (Kind.STRING, Kind.VARCHAR),
    bytes: (Kind.BINARY,),
    datetime.date: (Kind.DATE,),
}
_MIRRORED: Final = {"Lt": "Gt", "LtEq": "GtEq", "Gt": "Lt", "GtEq": "LtEq", "Eq": "Eq", "NotEq": "NotEq"}
_COMPARED: Final[Mapping[str, Callable[[Any, Any], Expr]]] = {
    "Eq": lambda column, value: column == value,
    "NotEq": lambda column, value: column != value,
    "Lt": lambda column, value: column < value,
    "LtEq": lambda column, value: column <= value,
    "Gt": lambda column, value: ~(column <= value),
    "GtEq": lambda column, value: ~(column < value),
}


class _NotUnderstoodError(Exception):
    """A part that cannot be asked."""


def pushed_down(predicate: pl.Expr, schema: Schema) -> Expr | None:
    """What can be asked of files; None where that is nothing."""
    try:
        return _some_of(json.loads(predicate.meta.serialize(format="json")), schema)
    except (ValueError, PolarsError, RecursionError):  # polars nests chains of | as deep as they are long
        return None


def _some_of(node: Any, schema: Schema) -> Expr | None:
    """A part of a predicate, or less than it says."""
    binary = _named(node, "BinaryExpr")
    if binary is not None and binary.get("op") in ("And", "LogicalAnd"):
        found = [one for side in ("left", "right") if (one := _some_of(binary[side], schema)) is not None]
        return None if not found else found[0] if len(found) == 1 else found[0] & found[1]
    try:
        return _all_of(node, schema)
    except (_NotUnderstoodError, KeyError, TypeError, ValueError, IndexError, AttributeError, PolarsError):
        return None  # a wording of another version is one of these, too


def _all_of(node: Any, schema: Schema) -> Expr:
    """A part of a predicate, exactly."""
    binary = _named(node, "BinaryExpr")
    if binary is not None:
        op, left, right = binary["op"], binary["left"], binary["right"]
        if op in ("And", "LogicalAnd"):
            return _all_of(left, schema) & _all_of(right, schema)
        if op in ("Or", "LogicalOr"):
            return _all_of(left, schema) | _all_of(right, schema)
        return _comparison(op, left, right, schema)
    function = _named(node, "Function")
    if function is not None:
        return _function(function["function"], function["input"], schema)
    path = _path(node)
    if path is not None and _type_of(path, schema).kind is Kind.BOOLEAN:
        return col(path) == True  # noqa: E712 - an expression
    raise _NotUnderstoodError


def _comparison(op: str, left: Any, right: Any, schema: Schema) -> Expr:
    path = _path(left)
    if path is None:
        path, right, op = _path(right), left, _MIRRORED[op]
    if path is None or op not in _COMPARED:
        raise _NotUnderstoodError
    (value,) = _values(right)
    return _COMPARED[op](col(path), _held(value, _type_of(path, schema)))


def _function(function: Any, inputs: list[Any], schema: Schema) -> Expr:
    boolean = _named(function, "Boolean")
    if boolean == "Not":
        return ~_all_of(inputs[0], schema)
    path = _path(inputs[0])
    if path is None:
        raise _NotUnderstoodError
    if boolean == "IsNull":
        return col(path).is_null()
    if boolean == "IsNotNull":
        return col(path).is_not_null()
    type_ = _type_of(path, schema)
    if (one_of := _named(boolean, "IsIn")) is not None:
        held = [_held(value, type_) for value in _values(inputs[1], several=True)]
        if one_of.get("nulls_equal") or not held:
            raise _NotUnderstoodError
        return col(path).isin(held)
    if (between := _named(boolean, "IsBetween")) is not None and between.get("closed") == "Both":
        low, high = (_held(value, type_) for one in inputs[1:] for value in _values(one))
        return col(path).between(low, high)
    if _named(function, "StringExpr") == "StartsWith" and type_.kind in (Kind.STRING, Kind.VARCHAR):
        (prefix,) = _values(inputs[1])
        return col(path).starts_with(_held(prefix, type_))
    raise _NotUnderstoodError


# --- what an expression consists of ----------------------------------------------------------------


def _named(node: Any, name: str) -> Any:
    return node.get(name) if isinstance(node, dict) and len(node) == 1 else None


def _path(node: Any) -> tuple[str, ...] | None:
    """The column, or the field of structs, that an expression is; None where it is another one."""
    column = _named(node, "Column")
    if isinstance(column, str):
        return (column,)
    function = _named(node, "Function")
    if function is not None:
        field = _named(_named(function["function"], "StructExpr"), "FieldByName")
        above = _path(function["input"][0])
        if isinstance(field, str) and above is not None:
            return (*above, field)
    return None


def _type_of(path: tuple[str, ...], schema: Schema) -> Type:
    return schema[path]


def _values(node: Any, *, several: bool = False) -> list[Any]:
    """The values of a literal, as Python has them; times as numpy has them."""
    if _named(node, "Literal") is None:
        raise _NotUnderstoodError
    literal = pl.Expr.deserialize(io.BytesIO(json.dumps(node).encode()), format="json")
    series = pl.select(literal).to_series()
    if several and isinstance(series.dtype, pl.List):
        series = series.explode()  # a list of values is one literal
    if isinstance(series.dtype, pl.Datetime):
        unit, marked = series.dtype.time_unit, series.dtype.time_zone is not None
        return [
            # In its own unit: not all times have a number of nanoseconds in 64 bits.
            None if one is None else _Time(np.datetime64(one, unit), has_zone=marked)
            for one in series.to_physical().to_list()
        ]
    return series.to_list()


class _Time:
    """A time on the wall clock or in UTC."""

    def __init__(self, time: np.datetime64, *, has_zone: bool) -> None:
        self.time = time
        self.has_zone = has_zone


def _held(value: Any, type_: Type) -> Any:
    """A value as the column's type compares it; raises where polars would convert one of both."""
    kind = type_.kind
    if isinstance(value, _Time):
        if kind is (Kind.TIMESTAMP_INSTANT if value.has_zone else Kind.TIMESTAMP):
            return value.time
    elif isinstance(value, int | float) and not isinstance(value, bool):
        if (kind in _INTEGERS and isinstance(value, int)) or (kind in _FLOATS and _is_exact(value, kind)):
            return value
    elif isinstance(value, Decimal):
        if kind is Kind.DECIMAL and round(value, type_.scale) == value:
            return value
    elif kind in _KINDS.get(type(value), ()):
        return value
    raise _NotUnderstoodError


def _is_exact(value: float, kind: Kind) -> bool:
    """Whether the column's type has this number; NaN, which is compared in another way, counts as none."""
    held = float(value)
    if kind is Kind.FLOAT:
        with np.errstate(over="ignore"):
            held = float(np.float32(held))
    return held == value
