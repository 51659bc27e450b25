"""Filters as pyarrow writes them (`pyarrow.compute.Expression`), as predicates for `where=`.

Knows which of pyarrow's comparisons mean exactly what ours do, nulls and NaNs included; of all others nothing
is asked. pyarrow shows nowhere what an expression consists of. What it pickles of one says it: an Arrow file
of the literals, whose metadata spell calls and columns in order. Must not know who asks, or read anything.

Contract: every row that the filter is true of is one that `Asked.where` is true of, and where `is_exact`, no
other. Whatever cannot be understood is not exact, and never an error.
"""

from __future__ import annotations

import ctypes
import math
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from orcstream import Expr, UsageError, col


@dataclass(frozen=True, slots=True)
class Asked:
    """What of a filter can be asked of files.

    `where` is None where nothing can. `columns` are the top-level columns that the whole filter is about, for
    who evaluates it on rows; None where they cannot be known.
    """

    where: Expr | None
    is_exact: bool
    columns: frozenset[str] | None


class _NotOurs(Exception):
    """A part of a filter that has no exact form here."""


class _Column(NamedTuple):
    path: tuple[str, ...]


class _Literal(NamedTuple):
    scalar: Any


@dataclass(frozen=True, slots=True)
class _Options:
    """Options of a call: a struct scalar with a field for each."""

    fields: Any


@dataclass(frozen=True, slots=True)
class _Call:
    name: str
    arguments: tuple[_Node, ...]
    options: _Options | None


_Node: TypeAlias = _Column | _Literal | _Call


def as_where(filter_: pc.Expression, schema: pa.Schema) -> Asked:
    """The filter, of rows of `schema`, as far as it can be asked."""
    try:
        root = _parsed(filter_)
    except (_NotOurs, pa.ArrowException):
        return Asked(None, is_exact=False, columns=None)
    found: Expr | None = None
    is_exact = True
    for part in _conjuncts(root):
        try:
            one = _expression(part, schema)
            found = one if found is None else found & one
        except (_NotOurs, UsageError, RecursionError):
            is_exact = False
    return Asked(found, is_exact, frozenset(column.path[0] for column in _columns(root)))


def _conjuncts(root: _Node) -> Iterator[_Node]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if isinstance(node, _Call) and node.name == "and_kleene":
            waiting += reversed(node.arguments)
        else:
            yield node


def _columns(root: _Node) -> Iterator[_Column]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if isinstance(node, _Column):
            yield node
        elif isinstance(node, _Call):
            waiting += node.arguments


# --- what an expression consists of ----------------------------------------------------------------


def _parsed(filter_: pc.Expression) -> _Node:
    _, (pickled,) = filter_.__reduce__()
    with pa.ipc.open_file(pickled) as file:
        literals = file.get_batch(0)
    words = iter(_metadata(literals.schema))
    levels: list[list[Any]] = [[]]
    for word, value in words:
        if word == "call":
            levels.append([])
        elif word == "end":
            parts = levels.pop()
            options = parts.pop() if parts and isinstance(parts[-1], _Options) else None
            levels[-1].append(_Call(value, tuple(parts), options))
        elif word == "literal":
            levels[-1].append(_Literal(literals.column(int(value))[0]))
        elif word == "options":
            levels[-1].append(_Options(literals.column(int(value))[0]))
        elif word == "field_ref":
            levels[-1].append(_Column((value,)))
        elif word == "nested_field_ref":
            levels[-1].append(_Column(tuple(next(words)[1] for _ in range(int(value)))))
        else:
            raise _NotOurs(word)
    ((root,),) = levels
    found: _Node = root
    return found


# Of a struct ArrowSchema: format, name, metadata.
_METADATA_AT: Final = 2
_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def _metadata(schema: pa.Schema) -> Iterator[tuple[str, str]]:
    """Keys and values in their order, which `Schema.metadata`, a dictionary, does not have."""
    capsule = schema.__arrow_c_schema__()
    struct = ctypes.cast(_pointer_of(capsule, b"arrow_schema"), ctypes.POINTER(ctypes.c_void_p))
    at = struct[_METADATA_AT] or 0

    def number() -> int:
        nonlocal at
        at += 4
        return ctypes.c_int32.from_address(at - 4).value

    def text() -> str:
        nonlocal at
        length = number()
        at += length
        return ctypes.string_at(at - length, length).decode()

    for _ in range(number() if at else 0):
        yield text(), text()


# --- what it asks ----------------------------------------------------------------------------------

_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "equal": operator.eq,
    "not_equal": operator.ne,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
}
# What `is_in` makes of nulls: they match a null among the values.
_MATCH: Final = 0


def _expression(node: _Node, schema: pa.Schema) -> Expr:
    match node:
        case _Call("and_kleene", (left, right)):
            return _expression(left, schema) & _expression(right, schema)
        case _Call("or_kleene", (left, right)):
            return _expression(left, schema) | _expression(right, schema)
        case _Call("invert", (part,)):
            return ~_expression(part, schema)
        case _Call("is_valid", (_Column(path),)):
            _type_of(path, schema)
            return col(path).is_not_null()
        case _Call("is_null", (_Column(path),), _Options(fields)):
            if fields["nan_is_null"].as_py() and pa.types.is_floating(_type_of(path, schema)):
                raise _NotOurs
            return col(path).is_null()
        case _Call("is_in", (_Column(path),), _Options(fields)):
            found, has_null = _membership(path, fields, schema)
            # Of a null, pyarrow's answer is never null.
            return found | col(path).is_null() if has_null else found & col(path).is_not_null()
        case _Call(
            "if_else",
            (
                _Call("is_valid", (_Column(tested),)),
                _Call("is_in", (_Column(path),), _Options(fields)),
                _Literal(otherwise),
            ),
        ) if tested == path and not otherwise.is_valid:
            return _membership(path, fields, schema)[0]
        case _Call(name, (_Column(path), _Literal(scalar))) if name in _COMPARISONS:
            return _comparison(name, path, scalar, schema)
        case _Column(path) if pa.types.is_boolean(_type_of(path, schema)):
            return col(path)
    raise _NotOurs


def _comparison(name: str, path: tuple[str, ...], scalar: Any, schema: pa.Schema) -> Expr:
    type_ = _type_of(path, schema)
    if pa.types.is_boolean(type_) and name not in ("equal", "not_equal"):
        raise _NotOurs
    found = _COMPARISONS[name](col(path), _value(scalar, type_))
    assert isinstance(found, Expr)
    return found


def _membership(path: tuple[str, ...], options: Any, schema: pa.Schema) -> tuple[Expr, bool]:
    """Whether the column is one of the values, null where it is null; and whether a null is among them."""
    type_ = _type_of(path, schema)
    values = options["value_set"].values
    if options["null_matching_behavior"].as_py() != _MATCH:
        raise _NotOurs
    # Values of another type are brought to the column's, or the column to theirs, which may round.
    if values.type != type_ and not _are_both(pa.types.is_integer, values.type, type_):
        raise _NotOurs
    literals = [_value(value, type_) for value in values if value.is_valid]
    if pa.types.is_floating(type_) and any(math.isnan(value) or value == 0 for value in literals):
        raise _NotOurs  # pyarrow compares their bits
    return col(path).isin(literals), values.null_count > 0


def _type_of(path: tuple[str, ...], schema: pa.Schema) -> pa.DataType:
    index = schema.get_field_index(path[0])
    if index < 0:  # none of this name, or several
        raise _NotOurs
    type_ = schema.field(index).type
    for name in path[1:]:
        index = type_.get_field_index(name) if pa.types.is_struct(type_) else -1
        if index < 0:
            raise _NotOurs
        type_ = type_.field(index).type
    if pa.types.is_union(type_):  # has nulls of its own kind
        raise _NotOurs
    return type_


def _value(scalar: Any, type_: pa.DataType) -> Any:
    """The literal as our columns of the type are compared with it, where pyarrow compares the same."""
    given = scalar.type
    if not scalar.is_valid:
        raise _NotOurs
    if _are_both(pa.types.is_timestamp, given, type_):
        return _time(scalar, type_)
    if _are_both(_is_text, given, type_) or _are_both(_is_binary, given, type_):
        return scalar.as_buffer().to_pybytes()
    is_number = pa.types.is_integer(given) and pa.types.is_decimal(type_)
    if is_number or any(_are_both(kind, given, type_) for kind in _KINDS):
        return scalar.as_py()
    return _refuse(given, type_)


_KINDS: Final = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_date32,
)


def _are_both(kind: Callable[[pa.DataType], bool], left: pa.DataType, right: pa.DataType) -> bool:
    return kind(left) and kind(right)


def _is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_))


def _is_binary(type_: pa.DataType) -> bool:
    return bool(pa.types.is_binary(type_) or pa.types.is_large_binary(type_))


def _time(scalar: Any, type_: pa.DataType) -> np.datetime64:
    """Points in time on both sides, or a clock's on both."""
    if (scalar.type.tz is None) != (type_.tz is None):
        _refuse(scalar.type, type_)
    return np.datetime64(scalar.value, scalar.type.unit)


def _refuse(given: pa.DataType, type_: pa.DataType) -> NoReturn:
    raise _NotOurs(f"{given} with {type_}")
