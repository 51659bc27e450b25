"""Vectors of one type made of those of another: nested types, nulls, dictionaries, zones, limits."""

from __future__ import annotations

import datetime
import functools
import zoneinfo
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from orcstream.batch import Column
from orcstream.codec.convert.conversion import transform_of
from orcstream.codec.convert.rules import ConvertOptions
from orcstream.codec.vectors.column import Vector, VectorOptions, field_of, nulls_of
from orcstream.errors import Unsupported
from orcstream.file.zones import load_zone
from orcstream.schema.schema import Schema
from orcstream.schema.types import Type
from tests.generators.arrow_vectors import vector_from
from tests.support.effort import pairs

INSTANT = "timestamp with local time zone"


def typed(text: str) -> Type:
    return Schema.parse(text).root


def converted(array: pa.Array, source: str, target: str, options: ConvertOptions | None = None) -> pa.Array:
    options = options or ConvertOptions()
    convert = transform_of(typed(source), typed(target), options)
    vector = vector_from(array)
    return as_arrow(vector if convert is None else convert(vector), target, options.vectors)


def as_arrow(vector: Vector, text: str, options: VectorOptions) -> pa.Array:
    array = pa.array(Column(field_of("a", typed(text), options), vector))
    array.validate(full=True)
    return array


def naive(*parts: int) -> datetime.datetime:
    return datetime.datetime(*parts)  # type: ignore[arg-type]  # noqa: DTZ001 - a wall clock


EVERY_TYPE = [
    "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "char(3)", "varchar(3)",
    "binary", "decimal(10,2)", "date", "timestamp", INSTANT, "array<int>", "map<string,array<int>>",
    "struct<>", "geometry",
    "struct<a:int,b:struct<c:string>>", "uniontype<string,int>", "array<uniontype<int,string>>",
    "uniontype<uniontype<struct<x:int>,int>,string>",
]  # fmt: skip


@pytest.mark.parametrize("dictionaries", [False, True])
@pytest.mark.parametrize("count", [0, 1, 9, 70_000])
@pytest.mark.parametrize("text", EVERY_TYPE)
def test_null_vectors(text: str, count: int, dictionaries: bool) -> None:
    options = VectorOptions("us", dictionaries)
    array = as_arrow(nulls_of(field_of("", typed(text), options), count), text, options)
    assert len(array) == count
    assert array.to_pylist() == [None] * count
    if not text.startswith("uniontype"):
        assert array.null_count == count


@pytest.mark.parametrize("text", EVERY_TYPE)
def test_the_same_type_needs_nothing(text: str) -> None:
    assert transform_of(typed(text), typed(text)) is None


def test_structs_share_what_stays() -> None:
    rows = [{"a": 1, "b": "x", "c": {"d": 5}}, None, {"a": None, "b": None, "c": None}]
    array = pa.array(
        rows, pa.struct([("a", pa.int32()), ("b", pa.string()), ("c", pa.struct([("d", pa.int8())]))])
    )
    source, target = (
        "struct<a:int,b:string,c:struct<d:tinyint>>",
        "struct<c:struct<new:date,d:tinyint>,n:int,b:string>",
    )
    vector = vector_from(array)
    convert = transform_of(typed(source), typed(target))
    assert convert is not None
    made = convert(vector)
    assert made.children[2] is vector.children[1]
    assert made.children[0].children[1] is vector.children[2].children[0]
    assert as_arrow(made, target, VectorOptions()).to_pylist() == [
        {"c": {"new": None, "d": 5}, "n": None, "b": "x"},
        None,
        {"c": None, "n": None, "b": None},
    ]


def test_slices() -> None:
    rows: list[Any] = [{"a": i, "l": [str(i)] * (i % 3), "m": [(str(i), i)]} for i in range(40)]
    rows[20] = {"a": None, "l": None, "m": None}
    type_ = pa.struct(
        [("a", pa.int32()), ("l", pa.list_(pa.string())), ("m", pa.map_(pa.string(), pa.int32()))]
    )
    array = pa.array(rows, type_)[11:33]
    source = "struct<a:int,l:array<string>,m:map<string,int>>"
    made = converted(array, source, "struct<n:int,m:map<int,boolean>,l:array<bigint>,a:string>")
    wanted: list[Any] = [
        {"n": None, "m": [(i, True)], "l": [i] * (i % 3), "a": str(i)} for i in range(11, 33)
    ]
    wanted[20 - 11] = {"n": None, "m": None, "l": None, "a": None}
    assert made.to_pylist() == wanted


@pytest.mark.parametrize("start", [0, 1, 7, 8, 13])
@pytest.mark.parametrize(
    ("type_", "source", "target", "change"),
    [
        (pa.bool_(), "boolean", "int", int),
        (pa.bool_(), "boolean", "string", lambda v: "TRUE" if v else "FALSE"),
        (pa.int64(), "bigint", "boolean", bool),
        (pa.string(), "string", "boolean", lambda v: bool(int(v))),
        (pa.string(), "string", "decimal(5,1)", lambda v: Decimal(f"{v}.0")),
        (pa.decimal128(10, 1), "decimal(10,1)", "int", int),
        (pa.date32(), "date", "string", str),
        (pa.timestamp("us"), "timestamp", "date", lambda v: v.date()),
    ],
)
def test_offsets(type_: pa.DataType, source: str, target: str, start: int, change: Any) -> None:
    values: list[Any] = [None if i % 5 == 0 else i % 4 for i in range(30)]
    kind = str(type_)
    if kind == "bool":
        values = [v if v is None else v > 1 for v in values]
    elif kind == "string":
        values = [v if v is None else str(v) for v in values]
    elif kind.startswith(("date", "timestamp")):
        values = [v if v is None else naive(2020, 2, 27 + v % 3, 10) for v in values]
    options = ConvertOptions(VectorOptions("us"))
    array = pa.array(values, type_)
    wanted = [v if v is None else change(v) for v in array.to_pylist()][start:28]
    assert converted(array[start:28], source, target, options).to_pylist() == wanted


class TestDictionaries:
    OPTIONS = ConvertOptions(VectorOptions("us", dictionaries=True))

    def test_entries_are_converted_once(self) -> None:
        array = pa.array(["12", None, "x", "12", "300"]).dictionary_encode()
        convert = transform_of(typed("string"), typed("smallint"), self.OPTIONS)
        assert convert is not None
        vector = vector_from(array)
        for part, wanted in ((vector, [12, None, None, 12, 300]), (vector.slice(2, 5), [None, 12, 300])):
            assert as_arrow(convert(part), "smallint", VectorOptions()).to_pylist() == wanted

    @pytest.mark.parametrize("target", ["boolean", "tinyint", "decimal(5,0)", "double", "bigint"])
    def test_one_entry(self, target: str) -> None:
        array = pa.array(["1"] * 20 + [None]).dictionary_encode()
        assert converted(array, "string", target, self.OPTIONS).to_pylist() == [1] * 20 + [None]

    def test_no_entry(self) -> None:
        array = pa.array([None, None], pa.string()).dictionary_encode()
        for target in ("boolean", "decimal(3,1)", "binary", "varchar(3)"):
            assert converted(array, "string", target, self.OPTIONS).to_pylist() == [None, None]

    def test_dictionaries_of_different_stripes(self) -> None:
        convert = transform_of(typed("string"), typed("int"), self.OPTIONS)
        assert convert is not None
        for text in ("7", "8", "9"):
            vector = vector_from(pa.array([text, text]).dictionary_encode())
            assert as_arrow(convert(vector), "int", VectorOptions()).to_pylist() == [int(text)] * 2

    def test_texts_keep_their_indexes(self) -> None:
        array = pa.array(["abcd", None, "e", "abcd"]).dictionary_encode()
        made = converted(array, "string", "varchar(2)", self.OPTIONS)
        assert made.indices.to_pylist() == [0, None, 1, 0]
        assert made.to_pylist() == ["ab", None, "e", "ab"]

    def test_numbers_become_dictionaries(self) -> None:
        made = converted(pa.array([1, None, -5]), "bigint", "string", self.OPTIONS)
        assert made.to_pylist() == ["1", None, "-5"]

    def test_bytes_are_gathered(self) -> None:
        array = pa.array(["ab", None, "c", "ab"]).dictionary_encode()[1:]
        assert converted(array, "string", "binary", self.OPTIONS).to_pylist() == [None, b"c", b"ab"]


class TestTexts:
    def test_char_is_padded_by_characters(self) -> None:
        array = pa.array(["a", "€€€€", "ab  ", "a  b", "", None])
        made = converted(array, "string", "char(3)")
        assert made.to_pylist() == ["a  ", "€€€", "ab ", "a  ", "   ", None]

    def test_char_loses_its_blanks(self) -> None:
        array = pa.array(["a  ", "   ", None])
        for target in ("string", "varchar(9)"):
            assert converted(array, "char(3)", target).to_pylist() == ["a", "", None]
        assert converted(array, "char(3)", "char(4)").to_pylist() == ["a   ", "    ", None]

    def test_what_fits_shares_its_memory(self) -> None:
        vector = vector_from(pa.array(["ab", "€€"]))
        for source, target in (
            ("varchar(2)", "string"),
            ("string", "varchar(2)"),
            ("varchar(2)", "varchar(7)"),
        ):
            convert = transform_of(typed(source), typed(target))
            assert convert is not None
            assert convert(vector) is vector

    def test_bytes_that_are_no_text(self) -> None:
        options = ConvertOptions(VectorOptions(invalid_utf8="binary"))
        array = pa.array([b"\xff\xfe\x80\x80", b"\x80\x80", b"a\xe2\x82"], pa.binary())
        assert converted(array, "string", "varchar(1)", options).to_pylist() == [b"\xff", b"\x80\x80", b"a"]
        assert converted(array, "string", "int", options).to_pylist() == [None] * 3

    def test_more_than_a_vector_holds(self) -> None:
        array = pa.array(["a", "b"])
        with pytest.raises(Unsupported) as caught:
            converted(array, "string", "char(2147483647)")
        assert caught.value.reason == "converted_text_too_long"

    def test_long_texts(self) -> None:
        array = pa.array(["1" * 100_000 + ".5", "0." + "3" * 50_000, "9" * 200])
        assert converted(array, "string", "double").to_pylist() == [float("inf"), 0.3333333333333333, 1e200]
        assert converted(array, "string", "decimal(10,3)").to_pylist() == [None, Decimal("0.333"), None]


class TestWhereJavaDiffers:
    """Each on purpose: Java takes digits of any script, wraps days, rounds nothing to 32 bits."""

    def test_only_ascii_digits(self) -> None:
        assert converted(pa.array(["\uff11", "\u0661", "1"]), "string", "bigint").to_pylist() == [
            None,
            None,
            1,
        ]

    def test_days_do_not_wrap(self) -> None:
        array = pa.array(["+5881580-07-11", "+5881580-07-12", "-5877641-06-22", "+999999999-12-31"])
        days = converted(array, "string", "date").cast(pa.int32()).to_pylist()
        assert days == [2**31 - 1, None, None, None]

    def test_floats_have_32_bits(self) -> None:
        array = pa.array(["0.1", "1e39", "16777217"])
        assert converted(array, "string", "float").to_pylist() == [
            0.10000000149011612,
            float("inf"),
            16777216.0,
        ]


@functools.cache
def shown(name: str) -> tuple[list[datetime.datetime], ...]:
    """Instants of many years, what clocks of a zone show then, and what instants those stand for."""
    start = datetime.datetime(1975, 1, 1, tzinfo=datetime.UTC)
    # Every 1000 minutes: a clock that moves is hit from both sides within each week.
    instants = [start + datetime.timedelta(minutes=1000 * i) for i in range(35_000)]
    clocks = [instant.astimezone(zoneinfo.ZoneInfo(name)) for instant in instants]
    return instants, clocks, [clock.replace(fold=0).astimezone(datetime.UTC) for clock in clocks]


class TestTimes:
    """Where Java errs, wraps or cannot say: the values are Python's or those of java.time's documentation."""

    def test_years_of_the_java_formats(self) -> None:
        days = pa.array([-719_529, -719_529 - 365, -719_528, 2**31 - 1, -(2**31)], pa.int32()).view(
            pa.date32()
        )
        made = converted(days, "date", "string")
        assert made.to_pylist() == [
            "-0001-12-31",
            "-0002-12-31",
            "0000-01-01",
            "+5881580-07-11",
            "-5877641-06-23",
        ]
        assert converted(made, "string", "date").equals(days)

    def test_days_before_1970_are_the_clocks(self) -> None:
        array = pa.array([-1, -86_400_000_000_001, -86_400_000_000_000]).view(pa.timestamp("ns"))
        wanted = [datetime.date(1969, 12, 31), datetime.date(1969, 12, 30), datetime.date(1969, 12, 31)]
        assert converted(array, "timestamp", "date").to_pylist() == wanted

    def test_doubles_just_below_1970(self) -> None:
        made = converted(pa.array([-0.0004, -0.0005, -0.0006]), "double", "timestamp")
        assert made.cast(pa.int64()).to_pylist() == [0, 0, -1_000_000]

    @pytest.mark.parametrize(
        ("array", "source"),
        [
            (pa.array([2**40]), "bigint"),
            (pa.array([1e11]), "double"),
            (pa.array([Decimal(2**40)], pa.decimal128(20, 0)), "decimal(20,0)"),
            (pa.array(["2500-01-01 00:00:00"]), "string"),
            (pa.array([2**30], pa.int32()).view(pa.date32()), "date"),
        ],
    )
    def test_times_beyond_the_unit(self, array: pa.Array, source: str) -> None:
        with pytest.raises(Unsupported) as caught:
            converted(array, source, "timestamp")
        assert caught.value.reason == "timestamp_out_of_range"
        assert len(converted(array, source, "timestamp", ConvertOptions(VectorOptions("s")))) == 1

    def test_times_of_more_than_nine_digits_of_years(self) -> None:
        seconds = pa.array(
            [31_556_889_832_780_799, 31_556_889_832_780_800, -31_557_014_135_596_800, -(2**62)]
        )
        made = converted(
            seconds.view(pa.timestamp("s")), "timestamp", "string", ConvertOptions(VectorOptions("s"))
        )
        assert made.to_pylist() == ["+999999999-12-31 23:59:59", None, "-999999999-01-01 00:00:00", None]

    @pytest.mark.parametrize(
        ("name", "unit"),
        pairs(
            ["Europe/Berlin", "America/Los_Angeles", "Asia/Kolkata", "Australia/Lord_Howe"],
            ["s", "ms", "us", "ns"],
        ),
    )
    def test_wall_clocks_and_instants_meet_in_a_zone(self, name: str, unit: str) -> None:
        instants, clocks, wanted = shown(name)
        options = ConvertOptions(VectorOptions(unit), zone=load_zone(name))
        made = converted(pa.array(instants, pa.timestamp(unit, "UTC")), INSTANT, "timestamp", options)
        assert made.to_pylist() == [clock.replace(tzinfo=None) for clock in clocks]
        back = converted(made, "timestamp", INSTANT, options)
        assert back.to_pylist() == wanted
        texts = converted(pa.array(instants[:200], pa.timestamp(unit, "UTC")), INSTANT, "string", options)
        assert texts.to_pylist() == [f"{clock.replace(tzinfo=None)} {name}" for clock in clocks[:200]]

    def test_clocks_that_were_never_shown(self) -> None:
        zone = zoneinfo.ZoneInfo("Europe/Berlin")
        clock = naive(2019, 3, 31, 2, 30)
        options = ConvertOptions(VectorOptions("us"), zone=load_zone("Europe/Berlin"))
        made = converted(pa.array([clock]), "timestamp", INSTANT, options).to_pylist()
        assert made == [clock.replace(tzinfo=zone).astimezone(datetime.UTC)]

    def test_zones_far_ahead(self) -> None:
        options = ConvertOptions(VectorOptions("s"), zone=load_zone("Europe/Berlin"))
        clock = naive(2919, 7, 1, 12)  # 900 years on: the rules of 2019 and 2119 hold
        made = converted(pa.array([clock], pa.timestamp("s")), "timestamp", INSTANT, options).to_pylist()
        assert made == [datetime.datetime(2919, 7, 1, 10, tzinfo=datetime.UTC)]

    def test_without_a_zone_it_is_utc(self) -> None:
        vector = vector_from(pa.array([0, 1]).view(pa.timestamp("ns")))
        for source, target in (("timestamp", INSTANT), (INSTANT, "timestamp")):
            convert = transform_of(typed(source), typed(target))
            assert convert is not None
            assert convert(vector) is vector

    def test_zones_of_texts(self) -> None:
        texts = pa.array([f"2019-07-01 12:00:00 {zone}" for zone in ("Europe/Berlin", "Asia/Tokyo", "UTC")])
        asked: list[str] = []

        def zone_of(name: str) -> Any:
            asked.append(name)
            return load_zone(name)

        options = VectorOptions("us")
        utc = datetime.datetime(2019, 7, 1, 12, tzinfo=datetime.UTC)
        hour = datetime.timedelta(hours=1)
        alone = converted(texts, "string", INSTANT, ConvertOptions(options)).to_pylist()
        assert alone == [None, None, utc]
        zoned = ConvertOptions(options, zone=load_zone("Asia/Tokyo"))
        assert converted(texts, "string", INSTANT, zoned).to_pylist() == [None, utc - 9 * hour, utc]
        every = ConvertOptions(options, zone_of=zone_of)
        assert converted(texts, "string", INSTANT, every).to_pylist() == [utc - 2 * hour, utc - 9 * hour, utc]
        assert asked == ["Europe/Berlin", "Asia/Tokyo"]
