"""Known answers of corpus files whose origins have them in words: as code, from the manifest's text.

Functions without arguments answer the columns they know, by name, in neutral form (`...` stands for a value
that the answer does not give; lists may end early); `check_` functions look at the rows themselves. What an
answer leaves out is judged by the reference reader.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa

Columns = dict[str, Sequence[object]]


def _wall(year: int, month: int, day: int, *clock: int, nanos: int = 0) -> int:
    hour, minute, second = (*clock, 0, 0, 0)[:3]
    seconds = _day(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second
    return seconds * 10**9 + nanos


def _day(year: int, month: int, day: int) -> int:
    return datetime.date(year, month, day).toordinal() - 719_163


def customer_demographics() -> pa.Table:
    """TPC-DS customer_demographics: the digits of the row number in mixed radix."""
    words: tuple[Sequence[object], ...] = (
        ("M", "F"),
        ("M", "S", "D", "W", "U"),
        ("Primary", "Secondary", "College", "2 yr Degree", "4 yr Degree", "Advanced Degree", "Unknown"),
        tuple(range(500, 10_001, 500)),
        ("Good", "Low Risk", "High Risk", "Unknown"),
        tuple(range(7)),
        tuple(range(7)),
        tuple(range(7)),
    )
    rows = np.arange(1_920_800)
    columns = [pa.array(rows + 1, pa.int32())]
    rest = rows
    for values in words:
        kind = pa.string() if isinstance(values[0], str) else pa.int32()
        columns.append(pa.array(values, kind).take(pa.array(rest % len(values))))
        rest = rest // len(values)
    return pa.table(columns, names=[f"_col{i}" for i in range(9)])


def masked_columns() -> Columns:
    digest = "841626795E7D351555B835A002E3BF10669DE9B81C95A3D59E10865AC37EA7C3"
    return {"ssn": [None], "email": [digest], "name": ["Dongjoon Hyun"]}


def dst_read_in_los_angeles() -> Columns:
    return {"_col0": [_wall(2014, 1, 1, 12, 34, 56), _wall(2014, 6, 6, 12, 34, 56)]}


def shanghai_before_epoch() -> Columns:
    return {"ts": [_wall(1970, 1, 1, 5, 51, 26, nanos=883_873_000)]}


def date_extremes() -> Columns:
    return {"d": [_day(1, 1, 1), ..., ..., _day(9999, 12, 31)]}


def hive2_around_1582() -> Columns:
    """Written as the 4th, 5th, 6th, 15th, 16th; the calendar has no 5th and 6th: they became 15th, 16th."""
    return {"d": [_day(1582, 10, day) for day in (4, 15, 16, 15, 16)]}


def year_1300() -> Columns:
    return {"ts": [_wall(1300, 1, 1)]}


def year_1200() -> Columns:
    return {"dt": [_day(1200, 1, 1)]}


def local_timezone() -> Columns:
    return {"id": [1], "user": ["Alex"], "action": ["view"], "event_time": [_wall(2020, 1, 1, 8)]}


def paimon_complex() -> Columns:
    at = _wall(1970, 1, 1, 0, 2, 3, nanos=123_123_000)
    return {"f4": [at, at, 0]}


def paimon_cast_timestamp() -> Columns:
    """The peers disagree about row 0: the instant is before the epoch, so a second is taken off."""
    return {"ts_milli": [1_000_000, 3_000_000, 5_000_000]}


def paimon_precisions() -> Columns:
    names = ("sec", "milli", "micro", "nano")
    fractions = (10**9, 10**6, 10**3, 1)
    local: Columns = {f"ts_{name}": [value] for name, value in zip(names, fractions, strict=True)}
    instants: Columns = {f"ts_tz_{name}": [2 * value] for name, value in zip(names, fractions, strict=True)}
    return {**local, **instants}


def check_narrowed_smallint(rows: Sequence[object]) -> None:
    """62463 is stored first; the type has 16 bits and the file's statistics say -32768 to 32767."""
    items = [item for row in rows if isinstance(row, tuple) for item in row[0] or ()]
    numbers = [number for item in items for number in item if number is not None]
    assert items[0][0] == -3073
    assert (min(numbers), max(numbers)) == (-32768, 32767)


_DOTNET = re.compile(
    r"Random=(-?\d+), RandomInRange=(-?\d+), Incrementing=(-?\d+), SetNumber=(-?\d+), Dec=([-\d.]+), "
    r"Timestamp=(\d\d)/(\d\d)/(\d{4}) (\d\d):(\d\d):(\d\d)\.(\d{7})"
)


def check_dotnet(rows: Sequence[object]) -> None:
    """The column Str spells out the other columns of its row (12-hour clock without its half of the day)."""
    for number, row in enumerate(rows):
        assert isinstance(row, tuple)
        found = _DOTNET.fullmatch(row[10])
        assert found, row[10]
        assert row[:4] == tuple(int(found[i]) for i in range(1, 5)), row
        assert row[4] is None and row[8] is None, row
        assert row[5] == number / (row[3] + 1), row
        assert row[6] == float(np.float32(number / (row[3] + 1))), row
        assert row[7] == Decimal(found[5]), row
        month, day, year, hour, minute, second, ticks = map(int, found.groups()[5:])
        stamp = _wall(year, month, day, hour % 12, minute, second, nanos=ticks * 100)
        assert row[9] in (stamp, stamp + 12 * 3600 * 10**9), row
        assert row[11] == f"SetNumber={row[3]}", row
    assert len(rows) == 80_000
