"""Option `where`: the rows of every query on a DataFrame, whatever was asked of it before."""

from __future__ import annotations

import datetime
import operator
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import hypothesis
import pyarrow as pa
import pytest
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql import types as spark_types
from pyspark.sql.types import StructField, StructType

import orcstream
from orcstream.errors import ColumnNotFound, OrcError, SchemaMismatch, UsageError
from orcstream.spark.read.reading import reader_of, schema_of
from orcstream.spark.read.where import Where
from orcstream.spark.stream.reading import stream_reader_of

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
DAY = datetime.date(2024, 2, 29)
CLOCK = datetime.datetime.fromisoformat("2024-02-29 12:00:00")
TIME = CLOCK.replace(tzinfo=datetime.UTC)
types = {
    "boolean": spark_types.BooleanType(),
    "int": spark_types.IntegerType(),
    "bigint": spark_types.LongType(),
    "double": spark_types.DoubleType(),
    "string": spark_types.StringType(),
    "decimal(9,2)": spark_types.DecimalType(9, 2),
    "date": spark_types.DateType(),
    "timestamp": spark_types.TimestampType(),
    "timestamp_ntz": spark_types.TimestampNTZType(),
}
# By column: Spark's type, and values with how option `where` spells them.
VALUES: dict[str, tuple[str, dict[Any, str]]] = {
    "flag": ("boolean", {True: "true", False: "false"}),
    "number": ("int", {-5: "-5", 0: "0", 100: "100"}),
    "big": ("bigint", {-(1 << 63): str(-(1 << 63)), 7: "7"}),
    "real": ("double", {-0.5: "-0.5", 1.5: "1.5", 1e300: "1e300"}),
    "text": ("string", {"": "''", "a'b": "'a''b'", "ä": "'ä'", "𝄞": "'𝄞'"}),
    "money": ("decimal(9,2)", {Decimal("-1.50"): "-1.5", Decimal("1.01"): "1.01"}),
    "day": ("date", {DAY: "date '2024-02-29'", DAY + datetime.timedelta(1): "date '2024-03-01'"}),
    "time": (
        "timestamp",
        {
            TIME: "timestamp '2024-02-29 13:00:00'",  # in Berlin
            TIME.replace(microsecond=1): "timestamp '2024-02-29T12:00:00.000001Z'",
            datetime.datetime(2024, 3, 4, 23, tzinfo=datetime.UTC): "date '2024-03-05'",
        },
    ),
    "clock": (
        "timestamp_ntz",
        {CLOCK: "timestamp '2024-02-29 12:00:00'", CLOCK.replace(hour=0): "date '2024-02-29'"},
    ),
}
# The same points in time where no zone is named.
IN_UTC = {
    "timestamp '2024-02-29 13:00:00'": "timestamp '2024-02-29 12:00:00Z'",
    "date '2024-03-05'": "timestamp '2024-03-04 23:00:00Z'",
}
SCHEMA = StructType([StructField(name, types[type_]) for name, (type_, _) in VALUES.items()])
SIGNS = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def rank(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


@st.composite
def conditions(draw: st.DrawFn) -> tuple[str, Any]:
    """A predicate as text, and what SQL says of it for a row: true, false or None."""
    name = draw(st.sampled_from(sorted(VALUES)))
    spelled = VALUES[name][1]
    kind = draw(st.sampled_from(["compare", "in", "null"]))
    if kind == "null":
        return f"{name} is null", lambda row: row[name] is None
    if kind == "in":
        some = draw(st.lists(st.sampled_from(list(spelled)), min_size=1, max_size=2))
        text = f"{name} in ({', '.join(spelled[one] for one in some)})"
        return text, lambda row: None if row[name] is None else row[name] in some
    sign = draw(st.sampled_from(["=", "<>"] if name == "flag" else sorted(SIGNS)))
    value = draw(st.sampled_from(list(spelled)))

    def compared(row: Any) -> bool | None:
        return None if row[name] is None else bool(SIGNS[sign](rank(row[name]), rank(value)))

    return f"{name} {sign} {spelled[value]}", compared


def combined(parts: Any) -> Any:
    def negated(one: tuple[str, Any]) -> tuple[str, Any]:
        return f"not ({one[0]})", lambda row: None if (it := one[1](row)) is None else not it

    def joined(word: str, one: tuple[str, Any], other: tuple[str, Any]) -> tuple[str, Any]:
        decides = word == "or"

        def truth(row: Any) -> bool | None:
            found = {one[1](row), other[1](row)}
            return decides if decides in found else None if None in found else not decides

        return f"({one[0]}) {word} ({other[0]})", truth

    return st.builds(negated, parts) | st.builds(joined, st.sampled_from(["and", "or"]), parts, parts)


predicates = st.recursive(conditions(), combined, max_leaves=4)
rows = st.fixed_dictionaries(
    {name: st.sampled_from([*spelled, None]) for name, (_, spelled) in VALUES.items()}
)


def test_predicates_can_be_pickled() -> None:
    where = Where.of("flag and not number in (1, 2) or day is null", SCHEMA, "UTC", case_sensitive=False)
    assert repr(pickle.loads(pickle.dumps(where))) == repr(where)


@hypothesis.given(predicates, rows, st.sets(st.sampled_from(sorted(VALUES))))
def test_values_of_folders_answer_as_those_of_rows_do(asked: Any, row: Any, in_folders: set[str]) -> None:
    """What folders leave of a predicate is true of the same rows; all folders decide it."""
    text, truth = asked
    where = Where.of(text, SCHEMA, "Europe/Berlin", case_sensitive=False)
    left = where.narrowed({name: row[name] for name in sorted(in_folders)})
    if isinstance(left, bool):
        assert left == (truth(row) is True)
    decided = where.narrowed({name: row[name] for name in VALUES})
    assert decided is (truth(row) is True)


PLAIN = "flag:boolean,number:int,big:bigint,real:double,text:string,money:decimal(9,2),day:date"
# How files hold times: as what they are, as numbers, as what a clock showed in UTC, not at all.
FORMS = {
    "instants": f"{PLAIN},time:timestamp with local time zone,clock:timestamp",
    "numbers": f"{PLAIN},time:timestamp with local time zone,clock:bigint",
    "clocks": f"{PLAIN},time:timestamp",
    "neither": PLAIN,
}


@hypothesis.given(predicates, st.lists(rows, min_size=1, max_size=8), st.sampled_from(sorted(FORMS)))
def test_rows_are_those_that_match(tmp_path_factory: Any, asked: Any, table: list[Any], form: str) -> None:
    text, truth = asked
    names = [part.split(":")[0] for part in FORMS[form].split(",") if ":" in part]
    path = tmp_path_factory.mktemp("t") / "t.orc"
    with orcstream.blocking.create(str(path), f"struct<{FORMS[form]}>") as out:
        out.write([tuple(_stored(row[name], name, form) for name in names) for row in table])
    options = {"path": str(path), "where": text}
    if form == "clocks":
        for spelled, in_utc in IN_UTC.items():
            options["where"] = options["where"].replace(spelled, in_utc)
    else:
        options["timezone"] = "Europe/Berlin"
    reader = reader_of(SCHEMA, options)
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    found = pa.Table.from_batches(batches).to_pylist() if batches else []
    there = [{name: row[name] if name in names else None for name in VALUES} for row in table]
    assert found == [row for row in there if truth(row) is True]


def _stored(value: Any, name: str, form: str) -> Any:
    if form == "numbers" and name == "clock" and value is not None:
        return (value.replace(tzinfo=datetime.UTC) - EPOCH) // datetime.timedelta(microseconds=1)
    return value.replace(tzinfo=None) if form == "clocks" and name == "time" and value else value


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("id like 'x'", UsageError, "option where: .*starts with"),
        ("other = 1", ColumnNotFound, "option where: .*other.*option columns"),
        ("id = 'x'", SchemaMismatch, "id"),
        ("time > timestamp '2024-01-01 00:00:00.000000001'", UsageError, "microseconds"),
        ("", UsageError, "empty"),
    ],
)
def test_predicates_that_cannot_be(tmp_path: Path, text: str, error: type[OrcError], message: str) -> None:
    path = str(tmp_path / "t.orc")
    with orcstream.blocking.create(path, "struct<id:int,time:timestamp>") as out:
        out.write([(1, CLOCK)])
    schema = schema_of({"path": path})
    for ask in (
        lambda: schema_of({"path": path, "where": text}),
        lambda: reader_of(schema, {"path": path, "where": text}),
        lambda: stream_reader_of(schema, {"path": str(tmp_path), "where": text}),
    ):
        with pytest.raises(error, match=message):
            ask()


def test_streams_have_it_too(tmp_path: Path) -> None:
    for part in ("a", "b"):
        (tmp_path / f"part={part}").mkdir()
        with orcstream.blocking.create(str(tmp_path / f"part={part}" / "t.orc"), "struct<id:int>") as out:
            out.write([(row,) for row in range(9)])
    options = {"path": str(tmp_path), "where": "id >= 7 and part <> 'b' or id = 1"}
    reader = stream_reader_of(
        StructType([StructField("id", types["int"]), StructField("part", types["string"])]), options
    )
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    found = [batch for part in reader.partitions(start, end) for batch in reader.read(part)]
    rows = pa.Table.from_batches(found).to_pylist()
    assert sorted((row["part"], row["id"]) for row in rows) == [("a", 1), ("a", 7), ("a", 8), ("b", 1)]


# --- a session of Spark ------------------------------------------------------------------------------

QUESTIONS = """
    number in (1, 2) | not number in (1, 2) | text = '1' | flag = false | flag | money > 10.005
    day between date'2024-01-05' and date'2024-01-08' | time = timestamp'2024-01-03 00:00:00'
    time >= date'2024-01-03' | clock < timestamp'2024-01-03 00:00:00' | clock = date'2024-01-05'
    inner.x > 15 and number < 90 | part in (0, 1) and number > 50 | part is null | part = 1 or number < 5
    not (part = 1 or number < 5) | real > 10 and real < 1000 | inner is null
"""


@pytest.fixture(scope="module")
def table(spark: SparkSession, tmp_path_factory: Any) -> str:
    path = str(tmp_path_factory.mktemp("where") / "t")
    spark.range(0, 100, 1, 1).selectExpr(
        "id",
        "if(id % 9 = 0, null, cast(id as int)) as number",
        "if(id % 9 = 1, null, if(id % 10 = 2, double('NaN'), id / 4)) as real",
        "if(id % 9 = 2, null, cast(id as string)) as text",
        "if(id % 9 = 3, null, id % 2 = 0) as flag",
        "if(id % 9 = 4, null, cast(id * 0.335 as decimal(9, 3))) as money",
        "if(id % 9 = 5, null, date_add(date'2024-01-01', cast(id as int) % 10)) as day",
        "if(id % 9 = 6, null, timestamp'2024-01-01 00:00:00' + make_dt_interval(0, cast(id as int))) as time",
        "if(id % 9 = 8, null, timestamp_ntz'2024-01-01' + make_dt_interval(cast(id as int))) as clock",
        "if(id % 9 = 7, null, named_struct('x', id)) as inner",
        "if(id % 3 = 2, null, id % 3) as part",
    ).write.partitionBy("part").orc(path)
    return path


def test_rows_are_those_of_sparks_filter(spark: SparkSession, table: str) -> None:
    questions = [one.strip() for line in QUESTIONS.strip().splitlines() for one in line.split("|")]
    native = spark.read.orc(table)
    counted = [functions.expr(f"count_if({one})").alias(f"q{at}") for at, one in enumerate(questions)]
    expected = dict(zip(questions, native.agg(*counted).first() or (), strict=True))
    assert all(0 < count < 100 for count in expected.values()), expected
    ours = spark.read.format("orcstream")
    assert {one: ours.option("where", one).load(table).count() for one in questions} == expected


FILTERS = st.sampled_from(
    ["id < 10", "id >= 90", "part = 1", "number is null or id = 3", "flag", "text like '1%'", "true"]
)


def ask(frame: DataFrame, query: tuple[Any, ...]) -> Any:
    match query:
        case ("filter", one):
            return sorted(row.id for row in frame.filter(one).select("id").collect())
        case ("union", one, other):
            return sorted(r.id for r in frame.filter(one).union(frame.filter(other)).select("id").collect())
        case ("join", how, one, other):
            left, right = frame.filter(one).select("id"), frame.filter(other).select("id")
            return sorted(row.id for row in left.join(right, "id", how).collect())
        case ("subquery", one):
            frame.createOrReplaceTempView("asked")
            text = f"select id from asked where id not in (select id from asked where {one})"
            return sorted(row.id for row in frame.sparkSession.sql(text).collect())
    raise AssertionError(query)


queries = st.one_of(
    st.tuples(st.just("filter"), FILTERS),
    st.tuples(st.just("union"), FILTERS, FILTERS),
    st.tuples(
        st.just("join"), st.sampled_from(["inner", "left_anti", "left_semi", "full"]), FILTERS, FILTERS
    ),
    st.tuples(st.just("subquery"), FILTERS),
)


@hypothesis.settings(max_examples=10, deadline=None)
@hypothesis.given(
    st.sampled_from([None, "id < 50", "part = 1 or flag"]), st.lists(queries, min_size=2, max_size=4)
)
def test_a_frame_can_be_asked_any_number_of_times(
    spark: SparkSession, table: str, where: str | None, asked: list[Any]
) -> None:
    """One DataFrame, one sequence of queries, against Spark's own source."""
    reader = spark.read.format("orcstream")
    ours = (reader if where is None else reader.option("where", where)).load(table)
    native = spark.read.orc(table) if where is None else spark.read.orc(table).filter(where)
    for query in asked:
        assert ask(ours, query) == ask(native, query), query
