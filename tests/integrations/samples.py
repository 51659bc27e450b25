"""A table with a column of each type that filters ask about, and what is worth asking about each.

Values repeat, and there are nulls in each column; NaN, both zeros and the ends of ranges are among them.
"""

from __future__ import annotations

import datetime
import io
import math
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyarrow import orc

ROWS = 3000
STRIDE = 500
UTC = datetime.UTC
_WHEN = datetime.datetime(2024, 2, 28, 12, 30, 1, 250_000)  # noqa: DTZ001  # a wall clock
_MICRO = datetime.timedelta(microseconds=1)

POOLS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "flag": (pa.bool_(), [True, False]),
    "tiny": (pa.int8(), [-128, -1, 0, 1, 127]),
    "number": (pa.int32(), [-(2**31), -7, 0, 7, 2**31 - 1]),
    "long": (pa.int64(), [-(2**63), -1, 0, 2**53 + 1, 2**63 - 1]),
    "single": (pa.float32(), [math.nan, -math.inf, -0.0, 0.0, 0.5, 0.10000000149011612, math.inf]),
    "real": (pa.float64(), [math.nan, -math.inf, -0.0, 0.0, 0.1, 1.5, 2.0**53, math.inf]),
    "text": (pa.string(), ["", "a", "ab", "b", "z\0", "ä", "𝄞"]),
    "raw": (pa.binary(), [b"", b"\0", b"a", b"\xff"]),
    "day": (pa.date32(), [datetime.date(1500, 1, 1), datetime.date(1970, 1, 1), datetime.date(2024, 2, 29)]),
    "wall": (pa.timestamp("us"), [_WHEN, _WHEN + _MICRO, _WHEN.replace(year=1969), _WHEN.replace(year=2200)]),
    "moment": (
        pa.timestamp("us", "UTC"),
        [one.replace(tzinfo=UTC) for one in (_WHEN, _WHEN - _MICRO, _WHEN.replace(year=1950))],
    ),
    "price": (pa.decimal128(9, 2), [Decimal("-1.50"), Decimal("0.00"), Decimal("1.00"), Decimal("1.01")]),
    "wide": (pa.decimal128(38, 4), [Decimal(10**33).scaleb(0), Decimal("0.0001"), Decimal("-3.0000")]),
}


def sample() -> pa.Table:
    """Column `id` numbers the rows. Values come a few at a time, so that row groups differ."""
    rng = random.Random(7)
    columns: dict[str, pa.Array] = {"id": pa.array(range(ROWS))}
    for name, (type_, pool) in POOLS.items():
        values: list[Any] = []
        while len(values) < ROWS:
            some = rng.sample([*pool, None], 2)
            values += [rng.choice(some) for _ in range(STRIDE // 2)]
        columns[name] = pa.array(values[:ROWS], type_)
    columns["place"] = pa.StructArray.from_arrays(
        [columns["number"], columns["text"]],
        ["number", "text"],
        mask=pa.array([rng.random() < 0.2 for _ in range(ROWS)]),
    )
    columns["many"] = pa.array([None if one % 7 == 0 else [one] * (one % 3) for one in range(ROWS)])
    return pa.table(columns)


def as_orc(table: pa.Table, **options: Any) -> bytes:
    """The bytes of a file."""
    out = io.BytesIO()
    orc.write_table(table, out, row_index_stride=STRIDE, **options)
    return out.getvalue()
