"""What pyarrow and pyorc read and write, in neutral form. Both wrap the C++ implementation of ORC.

pyorc gets converters of our own: its default ones cut nanoseconds and know no years beyond Python's. It shows
neither a union's tag nor whether a map held a key twice.
"""

from __future__ import annotations

import zoneinfo
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyorc
from pyarrow import orc

from tests.reference import compare
from tests.reference.columnwise import Conversion
from tests.reference.types import T
from tests.reference.values import EXACT, NANOS

UTC = zoneinfo.ZoneInfo("UTC")


def pyarrow_rows(path: Path, type_: T) -> list[object]:
    return compare.table_rows(type_, orc.read_table(path))


class _Timestamp:
    @staticmethod
    def from_orc(seconds: int, nanoseconds: int, _zone: object) -> int:
        return seconds * NANOS + nanoseconds

    @staticmethod
    def to_orc(value: int, _zone: object) -> tuple[int, int]:
        return value // NANOS, value % NANOS


class _Day:
    @staticmethod
    def from_orc(days: int) -> int:
        return days

    @staticmethod
    def to_orc(value: int) -> int:
        return value


CONVERTERS: dict[Any, Any] = {
    pyorc.TypeKind.TIMESTAMP: _Timestamp,
    pyorc.TypeKind.TIMESTAMP_INSTANT: _Timestamp,
    pyorc.TypeKind.DATE: _Day,
}


def pyorc_rows(path: Path, type_: T) -> list[object]:
    with path.open("rb") as file:
        reader = pyorc.Reader(file, converters=CONVERTERS, timezone=UTC)
        return _FROM_PYORC.convert(type_, list(reader))


def pyorc_rows_from(path: Path, type_: T, first: int, count: int) -> list[object]:
    """Up to `count` rows of these columns from row `first` on, which the C++ reader seeks by the row indexes.

    Within a row group it cannot skip texts without a dictionary (0.12: "lastBuffer_ is null").
    """
    with path.open("rb") as file:
        names = list(type_.names)
        reader = pyorc.Reader(file, column_names=names, converters=CONVERTERS, timezone=UTC)
        reader.seek(first)
        return _FROM_PYORC.convert(type_, reader.read(count))


class _FromPyorc(Conversion):
    def pairs(self, value: Any, /) -> list[Any]:
        return list(value.items())

    def tagged(self, _: Any, /) -> tuple[int, Any]:
        raise AssertionError("pyorc does not tell a union's tag")

    def leaf(self, type_: T, /) -> Callable[[Any], object] | None:
        if type_.kind == "decimal":
            assert type_.scale is not None
            unit = Decimal(1).scaleb(-type_.scale)
            return lambda value: Decimal(value).quantize(unit, context=EXACT)
        return (lambda text: text.rstrip(" ")) if type_.kind == "char" else None


_FROM_PYORC = _FromPyorc()


def to_pyorc(type_: T, value: Any) -> Any:
    """A neutral value as pyorc's writer takes it."""
    if value is None:
        return None
    if type_.kind == "struct":
        return tuple(to_pyorc(t, v) for t, v in zip(type_.children, value, strict=True))
    if type_.kind == "array":
        return [to_pyorc(type_.children[0], item) for item in value]
    if type_.kind == "map":
        key, item = type_.children
        return {to_pyorc(key, k): to_pyorc(item, v) for k, v in value}
    return value


def write_pyorc(
    path: Path, type_: T, rows: Sequence[object], *, timezone: zoneinfo.ZoneInfo = UTC, **options: Any
) -> None:
    with path.open("wb") as file:
        writer = pyorc.Writer(file, str(type_), converters=CONVERTERS, timezone=timezone, **options)
        for row in rows:
            writer.write(to_pyorc(type_, row))
        writer.close()
