"""Points in time in TIMESTAMP columns, marked as Spark marks them, come back as they were."""

from __future__ import annotations

import io

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import orcstream
from orcstream.errors import SchemaMismatch
from orcstream.schema.schema import Schema
from orcstream.schema.types import FileColumn, Kind, Type

MARK = (("spark.sql.catalyst.type", "timestamp"),)
OVERLAP = 1_729_987_200_000_000  # 2024-10-27 00:00 UTC: the clocks of Berlin show the next two hours as one


def schema_of(attributes: tuple[tuple[str, str], ...]) -> Schema:
    column = Type(
        Kind.TIMESTAMP, column_id=FileColumn(1), last_column_id=FileColumn(1), attributes=attributes
    )
    return Schema(Type(Kind.STRUCT, (column,), ("t",), last_column_id=FileColumn(1)))


def written(values: list[int | None], attributes: tuple[tuple[str, str], ...], **options: str) -> bytes:
    target = io.BytesIO()
    table = pa.table({"t": pa.array(values, pa.timestamp("us", "UTC"))})
    orcstream.blocking.write(target, table, schema_of(attributes), lossy_timestamps=True, **options)  # type: ignore[arg-type]
    return target.getvalue()


# From 1000 to 3000, but for the days that the older calendar skips, and the second that files round.
TIMES = st.integers(-30_610_224_000_000_000, 32_503_680_000_000_000).filter(
    lambda one: not (-12_220_000_000_000_000 < one < -12_210_000_000_000_000 or -1_000_000 < one < 0)
)


@given(
    st.lists(st.none() | TIMES | st.integers(OVERLAP - 3600_000_000, OVERLAP + 7200_000_000), max_size=20),
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Africa/Monrovia"]),
    st.sampled_from(["proleptic", "hybrid"]),
)
@example([OVERLAP + hour * 1_800_000_000 for hour in range(6)], "Europe/Berlin", "proleptic")
def test_they_come_back(values: list[int | None], zone: str, calendar: str) -> None:
    data = written(values, MARK, timezone=zone, calendar=calendar)
    with orcstream.blocking.open(data, instants=True) as file:
        found = pa.table(file.read(timestamp_unit="us"))["t"].cast(pa.int64()).to_pylist()
    assert found == values


def test_columns_without_the_mark_take_none() -> None:
    with pytest.raises(SchemaMismatch, match=r"'t'.*\btimestamp\b"):
        written([0], ())
