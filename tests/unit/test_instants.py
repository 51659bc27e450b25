"""TIMESTAMP columns as points in time: both passes of an hour shown twice, and local mean time."""

from __future__ import annotations

import datetime
import io
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

import orcstream
from orcstream import blocking, col
from orcstream.schema.schema import Schema
from orcstream.schema.types import FileColumn, Kind, Type
from tests.support.kernels import packaged_zones

__all__ = ["packaged_zones"]

pytestmark = pytest.mark.usefixtures("packaged_zones")
UTC = datetime.UTC
HOUR = datetime.timedelta(hours=1)


# Spark's mark of a TIMESTAMP that is a point in time: such a column takes what has a zone.
_MARK = (("spark.sql.catalyst.type", "timestamp"),)
_TIME = Type(Kind.TIMESTAMP, attributes=_MARK, column_id=FileColumn(1), last_column_id=FileColumn(1))
MARKED = Schema(Type(Kind.STRUCT, (_TIME,), ("t",), last_column_id=FileColumn(1)))


def written(values: list[datetime.datetime], zone: str, calendar: str = "proleptic") -> bytes:
    target = io.BytesIO()
    with blocking.create(target, MARKED, timezone=zone, calendar=calendar) as out:
        out.write(pa.record_batch({"t": pa.array(values, pa.timestamp("us", tz="UTC"))}))
    return target.getvalue()


def naive(values: list[datetime.datetime]) -> list[datetime.datetime]:
    return [value.astimezone(UTC).replace(tzinfo=None) for value in values]


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC"])
def test_every_hour_of_a_year(zone: str) -> None:
    start = datetime.datetime(2024, 1, 1, tzinfo=UTC)
    values = [start + number * HOUR / 2 for number in range(366 * 48)]
    found = blocking.read(written(values, zone), timestamp_unit="us", instants=True)
    assert pa.table(found)["t"].to_pylist() == naive(values)


@pytest.mark.parametrize("calendar", ["proleptic", "hybrid"])
def test_local_mean_time_is_that_of_the_clock(calendar: str) -> None:
    """Stored are clocks by the rules of Java's older calendars, which know no mean time."""
    zone = ZoneInfo("Europe/Berlin")
    clocks = [datetime.datetime(year, 2, 28, 12, tzinfo=zone) for year in (1400, 1750, 1890, 1899, 1950)]
    target = io.BytesIO()
    with blocking.create(target, "struct<t:timestamp>", timezone="Europe/Berlin", calendar=calendar) as out:
        out.write([(clock.replace(tzinfo=None),) for clock in clocks])
    found = blocking.read(target.getvalue(), timestamp_unit="us", instants=True)
    assert pa.table(found)["t"].to_pylist() == naive(clocks)


async def test_predicates_ask_about_points_in_time() -> None:
    start = datetime.datetime(2024, 10, 26, tzinfo=UTC)
    values = [start + number * HOUR / 4 for number in range(400)]
    asked = naive([values[120]])[0]
    async with orcstream.open(written(values, "America/New_York"), instants=True) as file:
        found = await file.read(where=col("t") >= asked, timestamp_unit="us")
        assert found.num_rows == 280
        assert await file.matching_stripes(col("t") >= asked) == (0,)
        assert await file.matching_stripes(col("t") > asked + 1000 * HOUR) == ()
