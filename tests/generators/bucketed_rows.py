"""Rows that tell whether tables are bucketed as Hive does it: each has a value in one column; all types."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

import orcstream

__all__ = ["COLUMNS", "VALUES", "rows", "write_rows"]

_EPOCH = datetime.date(1970, 1, 1)


def _days(*texts: str) -> list[int]:
    return [(datetime.date.fromisoformat(text) - _EPOCH).days for text in texts]


_SECONDS = [
    days * 86_400 for days in _days("0001-01-01", "1582-10-04", "1582-10-15", "1969-12-31", "9999-12-31")
]
# Of each type Arrow's, and values at the edges of what is hashed. Hive reads fractions of the second before
# 1970 as those after it, whoever wrote them; so there is none. Instants it does not have in ORC.
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "boolean": (pa.bool_(), [True, False]),
    "tinyint": (pa.int8(), [-128, -1, 0, 1, 127]),
    "smallint": (pa.int16(), [-32768, -1, 0, 255, 256, 32767]),
    "int": (pa.int32(), [-(1 << 31), -1, 0, 65536, (1 << 31) - 1]),
    "bigint": (pa.int64(), [-(1 << 63), -1, 0, 1 << 32, (1 << 63) - 1]),
    "float": (pa.float32(), [0.0, -0.0, -1.5, float("nan"), float("inf"), float("-inf"), 1e-45, 3.4e38, 0.1]),
    "double": (
        pa.float64(),
        [0.0, -0.0, -1.5, float("nan"), float("inf"), float("-inf"), 5e-324, 1e308, 0.1],
    ),
    "string": (pa.string(), ["", "a", "ab", "abc", "abcd", "aé", "日本語", "ab  ", "ÿÿÿ", "a long text"]),
    "varchar(12)": (pa.string(), ["", "a  ", "é", "a long text"]),
    "char(12)": (pa.string(), ["", "a  ", "é", "  ", "a long text"]),
    "binary": (pa.binary(), [b"", b"a", b"ab", b"abc", b"abcdef", b"\xff\xfe\xfd", b"a long text"]),
    "date": (pa.date32(), _days("0001-01-01", "1582-10-04", "1582-10-15", "1969-12-31", "1970-01-01")),
    "timestamp": (
        pa.timestamp("us"),
        [
            *(seconds * 10**6 for seconds in (*_SECONDS, 0, (1 << 31) - 1, 1 << 31, -(1 << 31))),
            *(1, 999_999, 1_709_210_096_123_456, 100_000, 253_402_300_799_999_999),
        ],
    ),
    "decimal(18,4)": (
        pa.decimal128(18, 4),
        [
            Decimal(text)
            for text in ("0", "1", "-1", "1.5", "100", "-0.0001", "12.8", "25.5", "25.6", "99999999999999")
        ],
    ),
    "decimal(38,18)": (
        pa.decimal128(38, 18),
        [Decimal(text) for text in ("0", "-1.5", "100", "12345678901234567890.123456789012345678")],
    ),
    "decimal(38,0)": (
        pa.decimal128(38, 0),
        [Decimal(text) for text in ("127", "128", "-128", "-129", "10000000000", "-" + 38 * "9")],
    ),
    "array<string>": (pa.list_(pa.string()), [["a", None, "é"], [""], []]),
    "struct<x:int,y:string>": (
        pa.struct([("x", pa.int32()), ("y", pa.string())]),
        [{"x": 1, "y": "a"}, {"x": None, "y": "b"}],
    ),
}
COLUMNS = {"n": "int", **{f"c{at}": name for at, name in enumerate(VALUES)}}
"""Name and type of each column; all but the first say which bucket a row is in."""


def rows() -> pa.RecordBatch:
    """A row for each value, its other columns null; one without any; one with the first of all."""
    total = sum(len(values) for _, values in VALUES.values())
    columns: dict[str, pa.Array] = {"n": pa.array(range(total + 2), pa.int32())}
    before = 0
    for name, (type_, values) in zip(list(COLUMNS)[1:], VALUES.values(), strict=True):
        padded = [None] * before + values + [None] * (total - before - len(values) + 1) + values[:1]
        columns[name] = pa.array(padded, type_)
        before += len(values)
    return pa.record_batch(columns)


def write_rows(path: Path) -> None:
    """A plain file of them."""
    schema = ",".join(f"{name}:{type_}" for name, type_ in COLUMNS.items())
    with orcstream.blocking.create(str(path), f"struct<{schema}>", lossy_timestamps=True) as out:
        out.write(rows())
