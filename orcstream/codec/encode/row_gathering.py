"""Single rows put together, so that many of them are made vectors at once.

Knows which Python values every column takes without a doubt. Must not know vectors. Contract: rows that `add`
takes fit the schema, whatever other rows they come to stand with, and are not changed by what becomes of the
objects they came in. Others it leaves alone: `UserData` says whether they fit.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from orcstream.codec.encode.options import EncodeOptions
from orcstream.codec.ingest.python_values import converter
from orcstream.codec.vectors.times import UTC
from orcstream.schema.schema import Schema
from orcstream.schema.types import Kind, Type

_Test: TypeAlias = Callable[[Any], bool]

_BITS = {Kind.BYTE: 8, Kind.SHORT: 16, Kind.INT: 32, Kind.LONG: 64}
_TEXTS = (Kind.STRING, Kind.CHAR, Kind.VARCHAR)
_FLOAT_MAX = float.fromhex("0x1.fffffep+127")
_EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - a wall clock
_EPOCH_UTC = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
# What a row takes besides its texts, for each of its values.
_VALUE_BYTES = 16
_MOST_ROWS = 64


class RowGatherer:
    """`rows` are those that were added, as tuples; they take about `size_bytes`.

    `longest` is how long a text of some columns, by name, may be to be taken here; these hold no NUL.
    """

    def __init__(self, schema: Schema, options: EncodeOptions, longest: Mapping[str, int]) -> None:
        self.rows: list[tuple[Any, ...]] = []
        self.size_bytes = 0
        root = schema.root
        self._names = root.field_names
        self._known = frozenset(self._names)
        tests = [_test_of(type_, options, longest.get(name)) for name, type_ in _columns(root)]
        self._tests = [test for test in tests if test is not None]
        self._texts = [at for at, type_ in enumerate(root.children) if type_.kind in (*_TEXTS, Kind.BINARY)]
        # Values with parts that somebody may change afterwards are no matter for it.
        self._takes = len(self._tests) == len(self._known) == len(root.children) > 0

    def add(self, rows: object) -> bool:
        """Take a short list of rows, all or none of them; false where they are no matter for this."""
        if not self._takes or type(rows) is not list or len(rows) > _MOST_ROWS:
            return False
        found = []
        for row in rows:
            values = self._values(row)
            if values is None:
                return False
            found.append(values)
        self.rows += found
        for values in found:
            self.size_bytes += _VALUE_BYTES * len(values)
            for at in self._texts:
                self.size_bytes += len(values[at] or b"")
        return True

    def take(self) -> tuple[Sequence[tuple[Any, ...]], int]:
        """The rows so far, and about how much they take; it begins anew."""
        taken = self.rows, self.size_bytes
        self.rows, self.size_bytes = [], 0
        return taken

    def _values(self, row: object) -> tuple[Any, ...] | None:
        if type(row) is dict:
            if not self._known.issuperset(row):
                return None
            values = tuple([row.get(name) for name in self._names])
        elif type(row) is tuple and len(row) == len(self._names):
            values = row
        else:
            return None
        for value, test in zip(values, self._tests, strict=True):
            if value is not None and not test(value):
                return None
        return values


def _columns(root: Type) -> list[tuple[str, Type]]:
    return list(zip(root.field_names, root.children, strict=False)) if root.kind is Kind.STRUCT else []


def _test_of(type_: Type, options: EncodeOptions, longest: int | None) -> _Test | None:
    """Whether a value fits beyond doubt; None for types of which none does."""
    kind = type_.kind
    plain_times = options.zone is UTC and not options.hybrid
    if kind in _BITS:
        limit = 1 << (_BITS[kind] - 1)
        return lambda value: type(value) is int and -limit <= value < limit
    if kind in _TEXTS:
        most = min(limit for limit in (type_.max_length, longest, 1 << 30) if limit is not None)
        if longest is not None:  # a part of a path
            return lambda value: (
                type(value) is str and len(value) <= most and "\0" not in value and _is_unicode(value)
            )
        return lambda value: type(value) is str and len(value) <= most and _is_unicode(value)
    if kind is Kind.DECIMAL:
        return _converts(converter(type_))
    if kind is Kind.TIMESTAMP and plain_times:
        return lambda value: type(value) is datetime.datetime and value.tzinfo is None and value >= _EPOCH
    if kind is Kind.TIMESTAMP_INSTANT and plain_times:
        return _is_instant
    if kind is Kind.DATE and not options.hybrid:
        return lambda value: type(value) is datetime.date
    return _TESTS.get(kind)


def _is_unicode(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair
        return False
    return True


def _is_instant(value: Any) -> bool:
    return type(value) is datetime.datetime and value.tzinfo is not None and value >= _EPOCH_UTC


def _converts(convert: Callable[[Any], Any]) -> _Test:
    def test(value: Any) -> bool:
        try:
            convert(value)
        except (TypeError, ValueError, ArithmeticError):
            return False
        return True

    return test


_TESTS: dict[Kind, _Test] = {
    Kind.BOOLEAN: lambda value: value is True or value is False,
    Kind.DOUBLE: lambda value: type(value) is float,
    Kind.FLOAT: lambda value: type(value) is float and (not math.isfinite(value) or abs(value) <= _FLOAT_MAX),
    Kind.BINARY: lambda value: type(value) is bytes,
}
