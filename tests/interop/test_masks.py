"""Masks as ORC Java's: the same values, character by character; and where they are not, why."""

from __future__ import annotations

import unicodedata
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from py4j.protocol import Py4JJavaError

from orcstream.codec.crypto.masks import parse_mask
from orcstream.encryption import Mask
from orcstream.errors import UsageError
from orcstream.file.zones import load_zone
from tests.generators import strategies
from tests.generators.masks import comparable, masked
from tests.reference import java_orc
from tests.reference.types import T, Union, parse

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("java")]

LEAST, MOST = -(1 << 63), (1 << 63) - 1
_STEPS = [s * (10**n + d) for n in range(19) for s in (1, -1) for d in (-1, 0, 1)]
_EDGES = [LEAST, LEAST + 1, MOST, MOST - 1, 0, 1 << 31, -(1 << 31), 127, -128, 32767, -32768]
_TEXTS = [
    "",
    "Abc xyZ",
    "tel. +49 (30) 1234-5678",
    "Ärger überß ǅ ʰ ª",
    "日本語 العربية हिन्दी",
    "٣५Ⅷ½²①",
    "a\u0301\u20dd\u0903",
    "€$+<^`¨©",
    "_-()«»“”!",
    "\u00a0\u2028\u2029\t\n\0\x7f\u200b\ue000\ufffd",
    "😀𝄞𐐀𐐨𝟗\U000e0041\U0010fffd",
    "trailing  ",
]
_DAYS = [
    *(0, 1, -1, 59, 60, 19_782, 11_016, -141_427, -141_438, -141_700, -171_531, -719_162, -719_163, -719_529),
    *(-800_000, -1_500_000, 2_932_896, 30_000_000, -30_000_000),
]
_SECONDS = [0, 1, -1, 86_399, 86_400, -86_401, 951_782_400, 4_000_000_000, -5_000_000_000, -9_214_000_000]
_TIMES = [second * 10**9 + nano for second in _SECONDS for nano in (0, 1, 123_456_789)]
_DOUBLES = [
    *(0.0, -0.0, 1.0, 9.999, -12.5, 0.1, 1e-5, 1e300, 1e307, 9.9e307, 1.7976931348623157e308, 5e-324, 1e-308),
    *(2.2250738585072014e-308, 123456.789, float("inf"), float("-inf"), float("nan")),
]
_FLOATS = [float(np.float32(one)) for one in (0.0, 1.5, -0.1, 3.4028234663852886e38, 1e-45, 9.9e37, 16777216)]
_DECIMALS = ["0", "1", "-1", "12.5", "-0.05", "9.99", "100", "-99.9", "0.01"]

VALUES: dict[str, list[Any]] = {
    "boolean": [True, False],
    "tinyint": [*range(-128, 128)],
    "smallint": [n for n in (*_STEPS, *_EDGES) if -32768 <= n <= 32767],
    "int": [n for n in (*_STEPS, *_EDGES) if -(1 << 31) <= n < 1 << 31],
    "bigint": [n for n in (*_STEPS, *_EDGES) if LEAST <= n <= MOST],
    "float": _FLOATS,
    "double": _DOUBLES,
    "string": _TEXTS,
    "varchar(9)": [text[:9] for text in _TEXTS],
    "char(12)": [text[:12].rstrip() for text in _TEXTS],
    "binary": [b"", b"abc", bytes(range(256))],
    "date": _DAYS,
    "timestamp": _TIMES,
    "timestamp with local time zone": _TIMES,
    "decimal(5,2)": [Decimal(text) for text in _DECIMALS],
    "decimal(18,0)": [Decimal(n) for n in (0, 7, -10**17, 10**18 - 1)],
    "decimal(38,10)": [Decimal(text) for text in (*_DECIMALS, "9" * 28, "-" + "1" * 28 + ".0000000001")],
    "decimal(38,38)": [Decimal(text) for text in ("0", "0.1", "-0." + "1" * 38)],
    "decimal(3,3)": [Decimal(text) for text in ("0", "0.125", "-0.1")],
    "array<string>": [[], ["Ab1", None], ["x"]],
    "array<binary>": [[b"a", None], []],
    "map<string,int>": [[("Kk1", 5), ("b", None)], []],
    "map<int,date>": [[(5, 17_000)]],
    "struct<a:int,b:struct<c:string,d:binary>>": [(5, ("Xy", b"z")), (None, None), (-77, (None, b""))],
    "uniontype<string,int>": [Union(0, "Ab"), Union(1, 44), Union(1, None)],
}  # fmt: skip
PARAMETERS: list[tuple[str, ...]] = [
    (),
    ("",),
    ("Yy5",),
    ("XX0",),
    ("__1",),
    ("aA_@",),
    ("_" * 10,),
    ("€ß٣日ö 😀\u0301Ⅷ\x01",),
    ("Xx#",),
    ("Xx७",),
    ("Xx²",),
    ("Xx七",),
    ("Xx\uf96b",),
    ("", "2000"),
    ("", "_ _ _"),
    ("", "_ _ _ _ _ _"),
    ("", "0 0 0"),
    ("", "1582 10 10 23 59 59"),
    ("", "_,_,31;12"),
    ("", "_ 2 _ _ _ _"),
    ("", "1500 2 29"),
    ("", "1900"),
    ("", "4000 12 31 12 0 0"),
    ("", "_ 3 0 _ 30 _"),
    ("", "_ _ _ _ _ 7"),
    ("", "_year 5 _ 13"),
    ("", " ", "0:1"),
    ("", "", "0:2,-2:-1"),
    ("", "", "-1:-1"),
    ("", "", "1:1,1:3, 5:5 "),
    ("", "", "3:1"),
    ("", "", "+0:0,-99:-98,99:100"),
    ("Xx4", "1970 _ _", "1:2"),
    ("Xx0", "", "0:0"),
    ("Xx#", "", "0:1"),
    ("Xx-", "", "1:9"),
    ("Xx+", "", "1:9"),
    ("XxE", "", "0:1,3:3"),
    ("Xxd", "", "0:2"),
    ("Xx ", "", "0:1"),
    ("Xx७", "", "0:0"),
    ("Xx²", "", "0:0"),
    ("Xx_", "", "0:0"),
]


def check(type_: T, mask: Mask, rows: list[Any], zone: str = "UTC") -> None:
    ours = masked(type_, mask, rows, load_zone(zone))
    theirs = java_orc.mask(type_, mask.name, mask.parameters, rows, zone=zone)
    for row, one, other in zip(rows, ours, theirs, strict=True):
        found, expected = comparable(type_, one), comparable(type_, other)
        assert found == expected, f"{mask} of {type_} in {zone}: {row!r} -> {one!r}, not {other!r}"


def is_like_java(type_: T, mask: Mask, value: Any) -> bool:
    """Whether it is none of the differences that docs/masks.md lists."""
    digit = mask.parameters[0][2:3] if mask.parameters else ""
    if type_.kind == "decimal" and digit and not (digit.isascii() and digit.isdigit()) and digit != "_":
        return False  # Java's writer fails
    if type_.kind.startswith("timestamp"):
        return fits_nanoseconds(mask)
    if mask.parameters[2:] and type_.kind in ("float", "double"):
        # Java before 19 writes some numbers with more digits than they need.
        return str(java_orc.java_class("java.lang.Double").toString(value)) == shortest(value)
    return True


def fits_nanoseconds(mask: Mask) -> bool:
    year = mask.parameters[1].split(" ")[0] if len(mask.parameters) > 1 else ""
    return not year.isdigit() or 1678 <= int(year) <= 2261


def shortest(value: float) -> str:
    """The text of a number with the fewest digits, in Java's form."""
    if value != value or value in (float("inf"), float("-inf")):  # noqa: PLR0124
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[repr(value)]
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int)
    figures = "".join(map(str, digits)).rstrip("0") or "0"
    place = len(digits) + exponent - 1 if value else 0
    if -3 <= place < 7:
        whole = figures[: place + 1].ljust(place + 1, "0") if place >= 0 else "0"
        rest = figures[place + 1 :] if place >= 0 else "0" * (-place - 1) + figures
        text = f"{whole}.{rest or '0'}"
    else:
        text = f"{figures[0]}.{figures[1:] or '0'}E{place}"
    return "-" * sign + text


@pytest.mark.parametrize("text", VALUES)
def test_nothing_but_nulls(text: str) -> None:
    check(parse(text), Mask("nullify"), [*VALUES[text], None])


@pytest.mark.parametrize("text", [text for text in VALUES if "binary" not in text])
def test_digests(text: str) -> None:
    """Of binaries Java hashes the memory around them, too."""
    check(parse(text), Mask("sha256"), [*VALUES[text], None])


@pytest.mark.parametrize("text", VALUES)
def test_redaction_of_every_type(text: str) -> None:
    type_ = parse(text)
    for parameters in PARAMETERS:
        mask = Mask("redact", parameters)
        rows = [row for row in VALUES[text] if is_like_java(type_, mask, row)]
        check(type_, mask, [*rows, None])


def test_every_character() -> None:
    """The class of each code point that Java's edition of Unicode and Python's both have."""
    points = [point for point in range(0x110000) if not 0xD800 <= point < 0xE000]
    letters = "ABCDEFGHIJ"
    rows = ["".join(map(chr, points[at : at + 4096])) for at in range(0, len(points), 4096)]
    mask = Mask("redact", (letters,))
    ours = "".join(masked(T("string"), mask, rows))
    theirs = "".join(java_orc.mask(T("string"), mask.name, mask.parameters, rows))  # type: ignore[arg-type]
    assert set(ours) == set(letters)
    differing = [point for point, one, other in zip(points, ours, theirs, strict=True) if one != other]
    character = java_orc.java_class("java.lang.Character")
    known = [point for point in differing if unicodedata.category(chr(point)) != "Cn"]
    assert not [hex(point) for point in known if character.getType(point) != character.UNASSIGNED]


@given(data=st.data(), texts=st.lists(st.text(max_size=12), min_size=1, max_size=20))
def test_any_text_and_parameters(data: st.DataObject, texts: list[str]) -> None:
    odd = "\u07ff\uffff\U0010ffff"  # ORC Java writes these wrongly, or fails
    character = java_orc.java_class("java.lang.Character")
    newer = [one for one in set("".join(texts)) if character.getType(ord(one)) == character.UNASSIGNED]
    texts = [text for text in texts if not set(text) & {*odd, *newer}]
    characters = data.draw(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters=odd), max_size=10)
    )
    check(parse("string"), Mask("redact", (characters, "", data.draw(_RANGES))), texts)


_INDEX = st.integers(-12, 12)
_RANGES = st.lists(st.tuples(_INDEX, _INDEX), max_size=3).map(
    lambda pairs: ",".join(f"{a}:{b}" for a, b in pairs)
)
_PART = st.sampled_from(["_", "0", "1", "2", "10", "12"])
_YEARS = st.sampled_from(["_", "1700", "1999", "2000", "2200"])
_REDACT = st.tuples(
    st.sampled_from(["", "Zz0", "Uu7", "Ee_", "Öö3#"]),
    st.tuples(_YEARS, _PART, _PART, _PART, _PART, _PART).map(" ".join),
    _RANGES,
)
_LIMITS = strategies.Limits(first_day=-141_000)


@given(
    strategies.schemas(strategies.EVERYTHING, unions=True, depth=3),
    st.integers(0, 1 << 32),
    st.sampled_from([Mask("nullify"), Mask("sha256"), Mask("redact")]),
)
def test_nested_types(type_: T, seed: int, mask: Mask) -> None:
    if mask.name == "sha256" and "binary" in type_.walk_kinds():
        mask = Mask("redact")
    check(type_, mask, [*strategies.make_table(type_, 60, seed, _LIMITS).rows, None])


@given(st.data())
def test_numbers_and_times_under_any_parameters(data: st.DataObject) -> None:
    mask = Mask("redact", data.draw(_REDACT))
    kinds = ("bigint", "tinyint", "double", "date", "timestamp", "decimal", "varchar")
    types = strategies.structs(strategies.leaves(kinds), most=7, plain_names=True)
    table = strategies.make_table(data.draw(types), 30, data.draw(st.integers(0, 1 << 32)), _LIMITS)
    for index, type_ in enumerate(table.type_.children):
        column = [row[index] for row in table.rows]
        rows = [row for row in column if row is not None and is_like_java(type_, mask, row)]
        check(type_, mask, [*rows, None])


ZONES = (
    "Europe/Berlin",
    "America/Los_Angeles",
    "Asia/Singapore",
    "Pacific/Apia",
    "America/Sao_Paulo",
    "Africa/Monrovia",
)
CLOCKS = [
    (),
    ("", "_ _ _ _ _ _"),
    ("", "_ 3 28 2 30 0"),
    ("", "_ 11 3 1 30 _"),
    ("", "2011 12 30 _ _ _"),
    ("", "_ _ _ 0"),
    ("", "_ _ _ _ _ _5"),
    ("", "_ _ _ _ 30 _"),
    ("", "1981 12 31 23 45 0"),
]


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("text", ["timestamp", "timestamp with local time zone"])
def test_clocks_of_zones(zone: str, text: str) -> None:
    """Also at and around their changes: times shown twice, times never shown."""
    # Before the islands crossed the date line, Java's vectors of wall clocks do not hold what they are given.
    first = 1_325_240_000 if zone == "Pacific/Apia" else 0
    changes = [int(change) for change in load_zone(zone).transitions if first < change < 2e9][-80:]
    seconds = [change + step for change in changes for step in (-7200, -1800, -1, 0, 1800, 3600, 7200)]
    type_ = parse(text)
    if type_.kind == "timestamp":
        seconds = [
            wall
            for wall in {second + offset for second in seconds for offset in (0, 3600)}
            if shown(wall, zone)
        ]
    rows = [second * 10**9 + 5 for second in [*seconds, -9_000_000_000, 9_000_000_000]]
    for parameters in CLOCKS:
        check(type_, Mask("redact", parameters), rows, zone)


def shown(wall: int, zone: str) -> bool:
    """Whether the zone's clocks show that time, and once: Java's vectors hold one of two instants."""
    rules = load_zone(zone)
    instants = {wall - int(offset) for offset in rules.offsets}
    index = {instant: np.searchsorted(rules.transitions, instant, side="right") for instant in instants}
    return sum(instant + int(rules.offsets[index[instant]]) == wall for instant in instants) == 1


TEXTS = (
    "nullify",
    "redact",
    "redact,Xx9",
    "redact,`X#$ ,:;`,`_ 1 1`,`0:1,-1:-1`",
    "redact,`a``b`",
    "`sha256`",
    "a_1,é,日本,_",
    "x,`\n`",
)


@pytest.mark.parametrize("text", TEXTS)
def test_texts_of_masks(text: str) -> None:
    found = parse_mask(text)
    assert (found.name, found.parameters) == java_orc.parse_mask(text)


@pytest.mark.parametrize(
    "text", ["", "redact,", ",x", "redact,``", "redact,`x", "redact;x", "redact x", "redact,#", "a²"]
)
def test_texts_that_are_no_mask(text: str) -> None:
    with pytest.raises(UsageError):
        parse_mask(text)
    with pytest.raises(Py4JJavaError):
        java_orc.parse_mask(text)


def test_every_digit() -> None:
    """The number that a replacement of digits stands for."""
    character = java_orc.java_class("java.lang.Character")
    points = [point for point in range(0x20000) if unicodedata.numeric(chr(point), -1) >= 0]
    rows = [1, 123]
    for point in points[:: max(1, len(points) // 60)]:
        if character.getType(point) != character.UNASSIGNED:
            check(parse("bigint"), Mask("redact", ("Xx" + chr(point),)), rows)
            check(parse("bigint"), Mask("redact", ("Xx" + chr(point), "", "0:0")), rows)
