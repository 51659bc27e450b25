"""Masks: parameters, what is refused, and each difference from ORC Java that docs/masks.md lists."""

from __future__ import annotations

import hashlib
import unicodedata
from decimal import Decimal

import pytest

from orcstream.codec.crypto.masks import data_mask, mask_of, parse_mask
from orcstream.codec.metadata.structure import DataMask
from orcstream.encryption import Mask
from orcstream.errors import UsageError
from orcstream.file.zones import load_zone
from orcstream.schema.schema import Schema
from orcstream.schema.types import FileColumn
from tests.generators.masks import column_of, masked
from tests.reference.types import T, parse

STRING = Schema.parse("string").root


@pytest.mark.parametrize(
    ("mask", "problem"),
    [
        (Mask("hide"), "'hide'.*'nullify', 'redact' and 'sha256'"),
        (Mask(""), "''.*'nullify', 'redact' and 'sha256'"),
        (Mask("Redact"), "'Redact'.*'nullify', 'redact' and 'sha256'"),
        (Mask("nullify", ("x",)), r"'nullify'.*\bparameters\b"),
        (Mask("sha256", ("",)), r"'sha256'.*\bparameters\b"),
        (Mask("redact", ("", "", "", "")), r"\b3 parameters\b.*\b4\b"),
        (Mask("redact", ("Xx9$._abcde",)), r"'Xx9\$\._abcde'.*\b10\b"),
        (Mask("redact", ("\ud800",)), r"'\\ud800'"),
        (Mask("redact", ("", "4001")), r"\b4000\b.*'4001'"),
        (Mask("redact", ("", "_ 13")), r"\b12\b.*'13'"),
        (Mask("redact", ("", "_ _ 32")), r"\b31\b.*'32'"),
        (Mask("redact", ("", "_ _ _ 24")), r"\b23\b.*'24'"),
        (Mask("redact", ("", "_ _ _ _ 60")), r"\b59\b.*'60'"),
        (Mask("redact", ("", "_ _ _ _ _ 60")), r"\b59\b.*'60'"),
        (Mask("redact", ("", "x")), r"\b4000\b.*'x'"),
        (Mask("redact", ("", "-1")), r"\b4000\b.*''"),
        (Mask("redact", ("", " 2000")), r"\b4000\b.*''"),
        (Mask("redact", ("", "9" * 5000)), r"\b4000\b.*'999"),
        (Mask("redact", ("", "_ _ _ _ _ _ _")), r"'_ _ _ _ _ _ _'.*\b7\b"),
        (Mask("redact", ("", "", "1")), r"\branges\b.*'1'"),
        (Mask("redact", ("", "", "1:2:3")), r"\branges\b.*'1:2:3'"),
        (Mask("redact", ("", "", "1:2,")), r"\branges\b.*'1:2,'"),
        (Mask("redact", ("", "", "a:b")), r"\branges\b.*'a:b'"),
        (Mask("redact", ("", "", "1:99999999999")), r"\branges\b.*'1:99999999999'"),
    ],
)
def test_refusals(mask: Mask, problem: str) -> None:
    """Whatever the type: a mask means something or not."""
    for type_ in (STRING, Schema.parse("binary").root, Schema.parse("struct<a:int>").root):
        with pytest.raises(UsageError, match=problem):
            mask_of(type_, mask)


def test_a_mask_is_its_own_text() -> None:
    mask = Mask("redact", ("Xx",))
    assert parse_mask(mask) is mask


def test_what_files_say() -> None:
    columns = [FileColumn(3), FileColumn(7)]
    assert data_mask(Mask("redact", ("Xx", " 1 ")), columns) == DataMask("redact", ("Xx", " 1 "), (3, 7))  # type: ignore[arg-type]
    assert data_mask(Mask(), ()) == DataMask("nullify", (), ())


@pytest.mark.parametrize("name", ["redact", "sha256", "nullify"])
@pytest.mark.parametrize("text", ["geometry(OGC:CRS84)", "geography(OGC:CRS84,SPHERICAL)"])
def test_shapes_become_null(name: str, text: str) -> None:
    """Java refuses them."""
    around = T("struct", (T("binary"),), ("value",))
    field, vector = column_of(around.children[0], [b"POINT", None])
    shape = Schema.parse(text).root
    found = mask_of(shape, Mask(name)).apply(type(field)("value", "z", shape), vector)
    assert found.null_count == found.length == 2
    assert found.buffers[2] is not None
    assert not memoryview(found.buffers[2]).nbytes


@pytest.mark.parametrize("value", ["\u07ff", "\uffff", "\U0010ffff", "a\u07ffb\uffff\U0010ffff"])
def test_kept_characters_are_written_right(value: str) -> None:
    """Java writes the last characters of two and three bytes in one more, and fails at the very last one."""
    assert masked(parse("string"), Mask("redact", ("_" * 10,)), [value]) == [value]
    kept = masked(parse("string"), Mask("redact", ("_" * 9 + value[-1],)), ["\x01"])
    assert kept == [value[-1]]


def test_digests_of_binaries_are_of_their_values() -> None:
    """Java hashes the whole array that a value stands in."""
    values = [b"", b"abc", b"\0" * 1000]
    found = masked(parse("binary"), Mask("sha256"), [*values, None])
    assert found == [*(hashlib.sha256(value).digest() for value in values), None]


@pytest.mark.parametrize("length", [1, 63, 64, 65, 200])
def test_digests_of_chars(length: int) -> None:
    """Java hashes the blanks at their end, too, and pads with a NUL at the very end."""
    expected = hashlib.sha256(b"ab").hexdigest().upper()[:length]
    assert masked(T("char", max_length=length), Mask("sha256"), ["ab "[:length]]) == [
        hashlib.sha256(b"a").hexdigest().upper()[:1] if length == 1 else expected
    ]
    (found,) = masked(T("char", max_length=length), Mask("redact", ("aaaaaa",)), ["A "[:length]])
    assert found.rstrip() == "a"


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [("tinyint", -128, 25), ("smallint", 12_345, 99_999 - (1 << 17)), ("int", 2_000_000_000, 1_410_065_407)],
)
def test_integers_keep_the_bits_of_their_type(kind: str, value: int, expected: int) -> None:
    """Java writes numbers that the type does not hold, or those of as many bits without a sign."""
    bits = {"tinyint": 8, "smallint": 16, "int": 32}[kind]
    assert expected % (1 << bits) == int("9" * len(str(abs(value)))) * (-1 if value < 0 else 1) % (1 << bits)
    assert masked(parse(kind), "redact", [value]) == [expected]


@pytest.mark.parametrize("digit", ["#", "७", "²", "X"])
def test_decimals_have_a_digit_always(digit: str) -> None:
    """Where the replacement is no ASCII digit, Java's writer fails."""
    number = {"७": "77.7", "²": "22.2"}.get(digit, "99.9")
    found = masked(parse("decimal(9,2)"), Mask("redact", (f"Xx{digit}",)), [Decimal("12.50")])
    assert found == [Decimal(number)]


def test_decimals_beyond_their_type_are_null() -> None:
    """Java writes 9.99 as decimal(2,2)."""
    values = [Decimal("0.25"), Decimal("-0.01"), Decimal(0), None]
    assert masked(parse("decimal(2,2)"), "redact", values) == [None] * 4
    assert masked(parse("decimal(2,2)"), Mask("redact", ("Xx9", "", "0:0")), values[:1]) == [Decimal("0.99")]
    assert masked(parse("decimal(2,2)"), Mask("redact", ("Xx0",)), values[:1]) == [Decimal(0)]


@pytest.mark.parametrize(
    ("value", "parts", "expected"),
    [
        (-9_223_372_036_854_775_808, "", -9_223_372_036 * 10**9),
        (0, "3000", 9_223_372_036 * 10**9),
        (0, "0", -9_223_372_036 * 10**9),
    ],
)
def test_times_beyond_nanoseconds(value: int, parts: str, expected: int) -> None:
    """Java's vectors count milliseconds."""
    for text in ("timestamp", "timestamp with local time zone"):
        assert masked(parse(text), Mask("redact", ("", parts)), [value]) == [expected]


def test_kept_seconds_before_1970() -> None:
    """Java's writer makes it the second after, since a fraction is left in one of two places."""
    found = masked(parse("timestamp"), Mask("redact", ("", "_ _ _ _ 0 _")), [-1_500_000_000])
    assert found == [-3542 * 10**9]


def test_null_structs_stay_null() -> None:
    """Java's masks forget them."""
    type_ = parse("struct<a:string>")
    for name in ("redact", "sha256"):
        assert masked(type_, name, [None, (None,)]) == [None, (None,)]


def test_clocks_are_those_of_a_zone_that_is_given() -> None:
    """And not of the machine's."""
    type_, midnight = parse("timestamp with local time zone"), 1_700_000_000 * 10**9
    day = Mask("redact", ("", "_ _ _"))
    assert masked(type_, day, [midnight]) == [1_699_920_000 * 10**9]
    berlin = masked(type_, day, [midnight], load_zone("Europe/Berlin"))
    assert berlin == [1_699_916_400 * 10**9]


def test_skipped_times() -> None:
    """The last half hour of 1981 did not exist in Singapore, and no file of that zone holds a time in it."""
    parts = Mask("redact", ("", "_ 12 31 23 45 0"))
    found = masked(parse("timestamp"), parts, [350_000_000 * 10**9], load_zone("Asia/Singapore"))
    assert found == [(378_691_200 + 900) * 10**9]


def test_characters_beyond_the_planes_that_are_looked_at() -> None:
    """Nothing but what the last class stands for."""
    looked_at = {*range(0x40000), *range(0xE0000, 0xE1000)}
    rest = [chr(point) for point in range(0x110000) if point not in looked_at]
    assert {unicodedata.category(one) for one in rest} <= {"Cn", "Co"}


def test_double_digits_are_the_fewest() -> None:
    """2^-44 is 5.684341886080802E-14; Java before 19 writes 5.6843418860808015E-14."""
    kept = Mask("redact", ("Xx7", "", "0:0,-3:-1"))
    assert masked(parse("double"), kept, [2.0**-44, 4.5]) == [5.777777777777777e-14, 4.5]


def test_an_empty_vector() -> None:
    for text in ("string", "array<int>", "struct<a:string>", "uniontype<int,string>", "map<string,int>"):
        field, vector = column_of(parse(text), [None])
        for name in ("redact", "sha256", "nullify"):
            found = mask_of(field.type, Mask(name)).apply(field, vector.slice(0, 0))
            assert found.length == 0
