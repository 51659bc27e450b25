"""DuckDB over ORC: answers are those of DuckDB over a pyarrow table, and only what a query needs is read."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import orcstream
from orcstream import UsageError, col
from orcstream.integrations.duckdb import scan_orc
from tests.integrations.samples import POOLS, as_orc, sample
from tests.integrations.traffic import LARGE, LARGE_DATA, PLAN, bytes_asked
from tests.servers.loopback import RangeServer, range_server

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


def literal(value: Any, type_: Any) -> Any:
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


@pytest.fixture
def url(range_server: RangeServer) -> str:
    return range_server.serve("large.orc", LARGE_DATA)


def engine_bytes(server: RangeServer, url: str, **reading: Any) -> int:
    """What the engine itself asks for, without what opening asks for."""
    with orcstream.blocking.dataset(url, **PLAN) as files:
        server.requests.clear()
        files.read(timestamp_unit="us", **reading)
        return bytes_asked(server)


QUERIES: list[tuple[str, dict[str, Any]]] = [
    ("sum(amount)", {"columns": ["amount"]}),
    (
        "max(text) from trips where id between 20000 and 20010",
        {"columns": ["text"], "where": col("id").between(20_000, 20_010)},
    ),
    (
        "max(text) from trips where id in (1, 39999)",
        {"columns": ["text"], "where": col("id").isin([1, 39_999])},
    ),
    (
        'max(text) from trips where id > 5 and "group" = 3',
        {"columns": ["text"], "where": (col("id") > 5) & (col("group") == 3)},
    ),
    ("max(id) from trips where amount < 10", {"columns": ["id"], "where": col("amount") < 10}),
]


@pytest.mark.parametrize(("query", "reading"), QUERIES, ids=[query for query, _ in QUERIES])
def test_no_more_is_read_than_the_engine_would(
    range_server: RangeServer, url: str, query: str, reading: dict[str, Any]
) -> None:
    with duckdb.connect() as connection:
        trips = scan_orc(url, connection=connection, **PLAN)
        range_server.requests.clear()
        query = query if "from" in query else f"{query} from trips"
        found = connection.sql(f"select {query}").fetchall()
        assert found == connection.sql(f"select {query.replace('trips', 'LARGE')}").fetchall()
        assert trips.columns == LARGE.column_names
    theirs = bytes_asked(range_server)
    assert theirs == engine_bytes(range_server, url, **reading)
    assert theirs * 3 < len(LARGE_DATA)


def test_making_one_reads_no_rows(range_server: RangeServer, url: str) -> None:
    with duckdb.connect() as connection:
        relation = scan_orc(url, connection=connection, io_options={"tail_bytes": 4096})
        assert relation.columns == LARGE.column_names
        relation.filter("id > 5").project("text")
        assert bytes_asked(range_server) < 3 * 4096


def test_limit_ends_the_read(range_server: RangeServer, url: str) -> None:
    with duckdb.connect() as connection:
        relation = scan_orc(url, connection=connection, memory_limit=300_000, **PLAN)
        range_server.requests.clear()
        assert relation.limit(5).project("id").fetchall() == [(row,) for row in range(5)]
        some = bytes_asked(range_server)
        assert len(relation.fetchall()) == LARGE.num_rows
        assert some * 3 < bytes_asked(range_server)


def test_where_is_for_what_is_not_handed_down(range_server: RangeServer, url: str) -> None:
    where = col("amount") > 14_000  # NaN is above all numbers to DuckDB, so it looks itself
    with duckdb.connect() as connection:
        relation = scan_orc(url, connection=connection, where=where, **PLAN)
        range_server.requests.clear()
        expected = sum(amount > 14_000 for amount in LARGE["amount"].to_pylist())
        assert relation.aggregate("count(amount)").fetchall() == [(expected,)]
        assert bytes_asked(range_server) == engine_bytes(range_server, url, columns=["amount"], where=where)
        assert relation.filter("id < 39990").aggregate("max(id)").fetchall() == [(39_989,)]
    with duckdb.connect() as connection:
        relation = scan_orc(url, connection=connection, where=[("id", "in", [3, 4])])
        assert relation.project("id").fetchall() == [(3,), (4,)]


# --- as DuckDB is used -----------------------------------------------------------------------------


def test_default_connection_variables_and_joins(url: str) -> None:
    trips = scan_orc(url)
    few = duckdb.sql("select id, text from trips where id < 3")
    assert few is not None
    both = duckdb.sql("select trips.id, few.text from trips join few using (id) order by 1")
    assert both is not None
    assert both.fetchall() == [(row, LARGE["text"][row].as_py()) for row in range(3)]
    assert trips.filter("id = 7").fetchall() == trips.filter("id = 7").fetchall()


def test_folders(tmp_path: Any) -> None:
    for day in ("2024-05-01", "2024-05-02"):
        (tmp_path / f"day={day}").mkdir()
        (tmp_path / f"day={day}" / "t.orc").write_bytes(DATA)
    with duckdb.connect() as connection:
        relation = scan_orc(tmp_path, connection=connection)
        found = relation.filter("day = date '2024-05-02' and id < 3").project("id, day").fetchall()
        assert found == [(row, datetime.date(2024, 5, 2)) for row in range(3)]


def test_errors_have_their_text(tmp_path: Any) -> None:
    path = tmp_path / "t.orc"
    path.write_bytes(LARGE_DATA[:3] + bytes(400_000) + LARGE_DATA[400_003:])
    with duckdb.connect() as connection:
        relation = scan_orc(path, connection=connection)
        with pytest.raises(duckdb.Error, match=r"t\.orc"):
            relation.fetchall()
        path.write_bytes(DATA)
        with pytest.raises(duckdb.Error, match="SourceChanged"):
            relation.fetchall()


def test_what_cannot_be(tmp_path: Any) -> None:
    with pytest.raises(FileNotFoundError):
        scan_orc(tmp_path / "nothing.orc")
    (tmp_path / "t.orc").write_bytes(DATA)
    with pytest.raises(UsageError, match="idd"):
        scan_orc(tmp_path / "t.orc", where=col("idd") == 1)
    with pytest.raises(UsageError, match="timestamp_unit"):
        scan_orc(tmp_path / "t.orc", timestamp_unit="days")
