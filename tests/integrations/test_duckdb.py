"""DuckDB over ORC: answers are those of DuckDB over a pyarrow table, and only what a query needs is read."""

from __future__ import annotations

import datetime
import gc
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orcstream import UsageError, col
from orcstream.errors import ColumnNotFound
from orcstream.integrations.duckdb import scan_orc
from tests.integrations.samples import POOLS, as_orc, sample
from tests.support.servers import RangeServer, range_server

__all__ = ["range_server"]

TABLE = sample()
DATA = as_orc(TABLE)
# --- answers ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """With two views of the same rows: `ours` and `theirs`."""
    path = tmp_path_factory.mktemp("orc") / "t.orc"
    path.write_bytes(DATA)
    with duckdb.connect() as found:
        scan_orc(path, connection=found).create_view("ours")
        found.register("theirs", TABLE)
        yield found


def literal(value: Any, type_: Any) -> str:
    if isinstance(value, bytes):
        return "'" + "".join(f"\\x{byte:02x}" for byte in value) + "'::BLOB"
    if isinstance(value, bool | int):
        return str(value).lower()
    if isinstance(value, float):
        return f"'{value}'::{'FLOAT' if type_ == pa.float32() else 'DOUBLE'}"
    if isinstance(value, Decimal):
        return f"{value:f}::DECIMAL({type_.precision}, {type_.scale})"
    if isinstance(value, datetime.datetime):
        return f"'{value.isoformat(' ')}'::{'TIMESTAMP' if value.tzinfo is None else 'TIMESTAMPTZ'}"
    if isinstance(value, datetime.date):
        return f"DATE '{value}'"
    return "'" + value.replace("'", "''") + "'"


@st.composite
def conditions(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from(sorted(POOLS)))
    type_, pool = POOLS[name]
    pool = [value for value in pool if value != "z\0"]  # no literal of SQL
    column = name
    if name in ("number", "text") and draw(st.booleans()):
        column = f"place.{name}"
    values = [
        literal(value, type_) for value in draw(st.lists(st.sampled_from(pool), min_size=2, max_size=3))
    ]
    comparison = f"{column} {draw(st.sampled_from(['=', '<>', '<', '<=', '>', '>=']))} {values[0]}"
    choices = [
        *[comparison] * 4,
        f"{column} in ({', '.join(values)})",
        f"{column} not in ({', '.join(values)}, null)",
        f"{column} between {values[0]} and {values[1]}",
        f"{column} is null",
        f"{column} is not null",
        f"{column} is distinct from {values[0]}",
    ]
    if name == "text":
        choices += [f"{column} like 'a%'", f"starts_with({column}, 'a')", f"length({column}) = 1"]
    return draw(st.sampled_from(choices))


def _joined(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds(lambda a, b: f"({a} and {b})", parts, parts),
        st.builds(lambda a, b: f"({a} or {b})", parts, parts),
        st.builds(lambda a: f"(not {a})", parts),
    )


@given(condition=st.recursive(conditions(), _joined, max_leaves=5))
def test_rows_are_those_of_a_table(connection: Any, condition: str) -> None:
    query = f"select id from {{}} where {condition} order by id"
    ours, theirs = (connection.sql(query.format(one)).fetchall() for one in ("ours", "theirs"))
    assert ours == theirs


def test_all_columns_as_they_are(connection: Any) -> None:
    ours, theirs = (
        connection.sql(f"select * from {one} order by id").to_arrow_table() for one in ("ours", "theirs")
    )
    assert ours.schema == theirs.schema
    assert str(ours.to_pylist()) == str(theirs.to_pylist())  # as text, since a NaN is not equal to itself


# --- what is read ----------------------------------------------------------------------------------

PLAN = {"adaptive": False}
LARGE = pa.table(
    {
        "id": pa.array(range(40_000)),
        "group": pa.array([row // 10_000 for row in range(40_000)]),
        "text": pa.array([f"{row * 7919 % 40_009:08}" * 4 for row in range(40_000)]),
        "amount": pa.array([row * 0.37 for row in range(40_000)]),
    }
)


@pytest.fixture
def url(range_server: RangeServer) -> str:
    return range_server.serve("large.orc", as_orc(LARGE, stripe_size=200_000, compression="uncompressed"))


def bytes_asked(server: RangeServer) -> int:
    """Of all requests since the last call."""
    total = 0
    for text in server.ranges_asked:
        start, stop = text.removeprefix("bytes=").split("-")
        total += int(stop) - int(start) + 1 if start else int(stop)
    server.requests.clear()
    return total
