"""Files of the Java writer read as other types: every pair of types, judged by Java's own schema evolution.

Where the two differ on purpose the docstring of `codec.convert.rules` says why; values of that
sort are left out of the pools here and stand in tests of their own.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import anyio
import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from orcstream.codec.convert.rules import ConvertOptions
from orcstream.codec.vectors.column import VectorOptions
from orcstream.errors import SchemaMismatch
from orcstream.file.zones import load_zone
from orcstream.plan.projection import project
from orcstream.schema.schema import Schema
from tests.generators import evolving
from tests.generators.conversion_values import DECIMALS, DOUBLES, NUMBERS, TEXTS, TIMES
from tests.reference import compare, java_orc
from tests.reference.types import T, Union, parse
from tests.support.effort import share

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("java")]

INSTANT = "timestamp with local time zone"
DAYS = [0, 1, -1, 59, 11016, 18321, -719_162, -141_428, -141_427, 2_932_896, 2_932_897, 2**31 - 1]
POOLS: dict[str, list[Any]] = {
    "boolean": [True, False],
    "tinyint": [n for n in NUMBERS if -128 <= n < 128],
    "smallint": [n for n in NUMBERS if -(2**15) <= n < 2**15],
    "int": [n for n in NUMBERS if -(2**31) <= n < 2**31],
    "bigint": NUMBERS,
    "float": [float(np.float32(d)) for d in DOUBLES if not 3.5e38 < abs(d) < float("inf")],
    "double": DOUBLES,
    "decimal(38,10)": [Decimal(text) for text in DECIMALS],
    "decimal(10,2)": [Decimal(text) for text in ("0", "1.5", "-1.55", "127.99", "99999999.99", "-0.01")],
    "string": TEXTS,
    "varchar(40)": [text for text in TEXTS if len(text) <= 40],
    "char(36)": [text.rstrip(" ") for text in TEXTS if len(text) <= 36],
    "binary": [b"", b"a", b"ab\xff\x00", bytes(range(256))],
    "date": DAYS,
    "timestamp": TIMES,
    INSTANT: TIMES,
    "array<int>": [[1]],
    "map<int,int>": [[(1, 2)]],
    "struct<x:int>": [(1,)],
}  # fmt: skip
TARGETS = [
    *POOLS, "decimal(5,2)", "decimal(38,38)", "decimal(38,0)", "char(3)", "varchar(3)", "varchar(400)",
    "uniontype<int,string>",
]  # fmt: skip
# Java's own check lets these pass, and its readers fail on them.
JAVA_FAILS = {("binary", "date")}


def root(text: str) -> T:
    return T("struct", (parse(text),), ("a",))


def zone_of(name: str) -> Any:
    try:
        return load_zone(name)
    except Exception:  # noqa: BLE001 - whatever it is, that is no zone
        return None


def ours(path: Path, target: T, unit: str = "ns", *, dictionaries: bool = False) -> list[object]:
    options = ConvertOptions(VectorOptions(unit, dictionaries), zone_of=zone_of)
    return anyio.run(lambda: evolving.read_as(path, target, options.vectors, options=options))


def expected(target: T, rows: Iterable[object], unit: str = "ns") -> list[object]:
    """What Java says, in 32 bits for FLOAT and cut to the unit."""
    out: list[object] = []
    for row in rows:
        assert isinstance(row, tuple)
        if target.children[0].kind == "float" and row[0] is not None:
            with np.errstate(over="ignore"):
                row = (float(np.float32(row[0])),)
        out.append(row)
    return compare.arrow_shaped(target, out, unit)


def suits(target: str, value: Any) -> bool:
    """Whether Java gives what it means.

    Its times wrap or throw beyond 64 bits of milliseconds. Before Java 19 Double.toString gave some numbers
    more digits than they need, which may make another decimal.
    """
    if target.startswith(("decimal", "char", "varchar")) and isinstance(value, float) and abs(value) < 1e300:
        return float(f"{value:.15g}") == value
    numeric = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    return not (numeric and target.startswith("timestamp") and abs(value) > 9e15)


def assert_same(source: str, target: T, actual: list[object], wanted: list[object]) -> None:
    if source in ("float", "double") and target.children[0].kind == "string":
        # Before Java 19 Double.toString gave more digits than needed for some numbers.
        for a, w in zip(actual, wanted, strict=True):
            assert isinstance(a, tuple) and isinstance(w, tuple)
            assert a == w or (float(a[0]) == float(w[0]) and len(a[0]) < len(w[0])), (a, w)
    else:
        compare.assert_same_rows(target, actual, wanted)


@pytest.mark.sampled
@pytest.mark.parametrize("threshold", ["0", "1"], ids=["direct", "dictionary"])
@pytest.mark.parametrize("source", POOLS)
def test_every_pair(tmp_path: Path, source: str, threshold: str) -> None:
    if threshold == "1" and source not in ("string", "varchar(40)", "char(36)"):
        threshold = "0.8"
    for number, target in enumerate(TARGETS):
        values = [value for value in POOLS[source] if suits(target, value)]
        if threshold == "1":
            values = values * 3
            random.Random(number).shuffle(values)
        if parse(source).kind == parse(target).kind == "map":
            continue
        check_pair(
            tmp_path / f"{number}.orc", source, target, [None, *values, None, *values[::-1]], threshold
        )


def check_pair(path: Path, source: str, target: str, values: list[Any], threshold: str) -> None:
    options = {"orc.dictionary.key.threshold": threshold}
    java_orc.write(path, root(source), [(value,) for value in values], options=options)
    try:
        java = java_orc.read_as(path, root(target))
    except Exception as error:  # noqa: BLE001 - py4j's, which wraps what Java throws
        message = str(getattr(error, "java_exception", error))
        if parse(target).kind == "binary" and threshold == "1":
            assert "stripe 0 footer" in message
            return  # the bytes of a dictionary's text are beyond Java
        assert "IllegalEvolution" in message or (source, target) in JAVA_FAILS, (source, target, message)
        schemas = [Schema.parse(str(root(text))) for text in (source, target)]
        with pytest.raises(SchemaMismatch, match="'a"):
            project(schemas[0], read_schema=schemas[1])
        return
    time = target.startswith("timestamp") or source.startswith("timestamp")
    for unit in ("ms", "s") if time else ("ns",):
        if source.startswith("timestamp") and unit == "s":
            continue  # conversions see what was decoded
        wanted = expected(root(target), java, unit)
        if source.startswith("timestamp"):
            whole = [value is None or value % 10**6 == 0 for value in values]
        else:
            whole = [True] * len(values)
        for dictionaries in (False, True):
            actual = ours(path, root(target), unit, dictionaries=dictionaries)
            assert len(actual) == len(wanted)
            pairs = [(a, w) for a, w, ok in zip(actual, wanted, whole, strict=True) if ok]
            assert_same(source, root(target), [a for a, _ in pairs], [w for _, w in pairs])


@pytest.mark.parametrize(
    "target", ["double", "decimal(38,10)", "string", "varchar(22)", "bigint", INSTANT, "date"]
)
@pytest.mark.parametrize("source", ["timestamp", INSTANT])
def test_nanoseconds(tmp_path: Path, source: str, target: str) -> None:
    values = [(value,) for value in TIMES if abs(value) < 2**63 and (value >= 0 or value % 10**9 == 0)]
    path = tmp_path / "times.orc"
    java_orc.write(path, root(source), values)
    actual = ours(path, root(target))
    compare.assert_same_rows(root(target), actual, java_orc.read_as(path, root(target)))


FILE = parse(
    "struct<a:int,s:struct<x:int,y:string,z:struct<deep:bigint>>,l:array<struct<p:int,q:string>>,"
    "m:map<int,struct<v:int>>,u:uniontype<int,struct<k:int>>,last:string>"
)
ROWS: list[object] = [
    (1, (2, "y", (3,)), [(4, "q"), None], [(5, (6,)), (7, None)], Union(0, 8), "end"),
    (None, None, None, None, Union(1, (9,)), None),
    (None, (None, None, None), [], [], Union(1, None), ""),
    (10, (11, "w", (None,)), [(None, None), (12, "13")], [(14, (None,))], Union(0, None), "x"),
]


@pytest.mark.parametrize(
    "text",
    [
        "struct<last:string,a:bigint>",
        "struct<new:int,a:string,other:struct<x:int,u:uniontype<int,string>,l:array<int>,m:map<int,int>>>",
        "struct<s:struct<z:struct<other:int,deep:string>,new:string,x:double>,a:int>",
        "struct<s:struct<new:string>>",
        "struct<s:struct<z:struct<>>>",
        "struct<l:array<struct<q:int,new:date,p:string>>>",
        "struct<m:map<string,struct<new:int,v:bigint>>>",
        "struct<m:map<bigint,struct<>>>",
        "struct<u:uniontype<string,struct<new:int,k:decimal(5,2)>>>",
        "struct<>",
    ],
)
def test_nested(tmp_path: Path, text: str) -> None:
    path = tmp_path / "nested.orc"
    java_orc.write(path, FILE, ROWS)
    target = parse(text)
    wanted = compare.arrow_shaped(target, java_orc.read_as(path, target))
    for dictionaries in (False, True):
        compare.assert_same_rows(target, ours(path, target, dictionaries=dictionaries), wanted)


def test_names_missing_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "old.orc"
    java_orc.write(path, parse("struct<_col0:int,_col1:struct<_col0:int,b:int>>"), [(1, (2, 3))])
    for text in ("struct<x:bigint,y:struct<b:int,_col0:int>,z:int>", "struct<x:int>"):
        wanted = java_orc.read_as(path, parse(text))
        assert wanted[0][0] == 1  # type: ignore[index]
        compare.assert_same_rows(parse(text), ours(path, parse(text)), wanted)


# --- values near limits ---------------------------------------------------------------------------


def check_values(path: Path, source: str, target: str, values: list[Any]) -> None:
    java_orc.write(path, root(source), [(value,) for value in values])
    wanted = expected(root(target), java_orc.read_as(path, root(target)))
    assert_same(source, root(target), ours(path, root(target)), wanted)


def near(limits: list[int]) -> st.SearchStrategy[int]:
    return st.tuples(st.sampled_from(limits), st.integers(-2, 2)).map(sum)


@st.composite
def number_texts(draw: st.DrawFn) -> str:
    """Texts of numbers, right and wrong, with many digits."""
    digits = st.text("0459", max_size=45) | st.text("9", max_size=40) | st.text("0123456789", max_size=5)
    text = draw(st.sampled_from(["", "-", "+", " ", " -"])) + draw(digits)
    if draw(st.booleans()):
        text += "." + draw(digits)
    if draw(st.booleans()):
        text += draw(st.sampled_from("eE")) + draw(st.sampled_from(["", "-", "+"]))
        text += str(draw(st.integers(0, 50)))
    return text + draw(st.sampled_from(["", "", " ", "x"]))


@hypothesis.settings(max_examples=share(15))
@hypothesis.given(
    texts=st.lists(number_texts(), min_size=100, max_size=200),
    target=st.sampled_from(
        ["decimal(38,10)", "decimal(38,0)", "decimal(38,38)", "decimal(5,2)", "double", "bigint"]
    ),
)
def test_texts_of_numbers(tmp_path_factory: pytest.TempPathFactory, texts: list[str], target: str) -> None:
    check_values(tmp_path_factory.mktemp("texts") / "a.orc", "string", target, texts)


@hypothesis.settings(max_examples=share(15))
@hypothesis.given(
    units=st.lists(
        st.integers(-(10**38) + 1, 10**38 - 1)
        | near([s * 10**p + h for s in (1, -1) for p in range(1, 38) for h in (0, 5)]),
        min_size=50,
        max_size=100,
    ),
    scales=st.tuples(st.integers(0, 38), st.integers(1, 38), st.integers(0, 38)),
    other=st.sampled_from(["decimal", "tinyint", "bigint", "double", "float", "string", "boolean"]),
)
def test_decimals(
    tmp_path_factory: pytest.TempPathFactory, units: list[int], scales: tuple[int, int, int], other: str
) -> None:
    scale, precision, target_scale = scales
    target = f"decimal({precision},{min(precision, target_scale)})" if other == "decimal" else other
    values = [Decimal(unit).scaleb(-scale) for unit in units if abs(unit) < 10**38]
    path = tmp_path_factory.mktemp("decimals") / "a.orc"
    check_values(path, f"decimal(38,{scale})", target, values)


@hypothesis.settings(max_examples=share(15))
@hypothesis.given(
    doubles=st.lists(
        st.floats() | st.integers(-(2**60), 2**60).map(float) | near([2**k for k in range(64)]).map(float),
        min_size=50,
        max_size=100,
    ),
    target=st.sampled_from(
        ["string", "decimal(38,10)", "decimal(10,9)", "bigint", "smallint", "boolean", "float"]
    ),
)
def test_doubles(tmp_path_factory: pytest.TempPathFactory, doubles: list[float], target: str) -> None:
    doubles = [number for number in doubles if suits(target, number)]
    check_values(tmp_path_factory.mktemp("doubles") / "a.orc", "double", target, doubles)


@hypothesis.settings(max_examples=share(10))
@hypothesis.given(
    numbers=st.lists(near([s * 2**k for s in (1, -1) for k in range(63)]), min_size=50, max_size=100),
    target=st.sampled_from(
        ["tinyint", "int", "string", "decimal(18,0)", "decimal(10,9)", "double", "float", "char(4)"]
    ),
)
def test_integers(tmp_path_factory: pytest.TempPathFactory, numbers: list[int], target: str) -> None:
    check_values(tmp_path_factory.mktemp("integers") / "a.orc", "bigint", target, numbers)
