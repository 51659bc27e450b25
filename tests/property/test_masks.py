"""Masks against plain Python; in any slice and layout; and nothing of what was there is left."""

from __future__ import annotations

import calendar
import datetime
import hashlib
import re
import unicodedata
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from orcstream.codec.crypto import _mask
from orcstream.codec.crypto.masks import mask_of, mask_text, parse_mask
from orcstream.codec.crypto.redaction import _classes
from orcstream.codec.ingest.ingest import UserData
from orcstream.encryption import Mask
from orcstream.schema.schema import Schema
from tests.generators import strategies
from tests.generators.masks import buffers_of, column_of, masked
from tests.reference.types import T, parse
from tests.support import kernels

DEFAULTS = "Xx9$._\u00aa\u0903\u00b2\u06dd"
_CLASSES = ["Lu", "Ll", "Nd", "S", "P", "Z", "L", "M", "N", ""]
_TEXTS = st.lists(st.none() | st.text("aB9 +.\tÄßヅ\u0301½€𝄞😀", max_size=9), max_size=12)
_INDEX = st.integers(-9, 9)
_RANGES = st.lists(st.tuples(_INDEX, _INDEX), max_size=3, unique_by=lambda pair: pair[0])


def redacted(text: str, replacements: str, ranges: Sequence[tuple[int, int]]) -> str:
    """What the documentation says, one character at a time."""
    size = len(text.encode())
    out = ""
    for index, character in enumerate(text):
        category = unicodedata.category(character)
        place = next(i for i, name in enumerate(_CLASSES) if category.startswith(name))
        if category in ("Pi", "Pf"):
            place = 9
        kept = any((a if a >= 0 else size + a) <= index <= (b if b >= 0 else size + b) for a, b in ranges)
        out += character if kept or replacements[place] == "_" else replacements[place]
    return out


@given(_TEXTS, st.text("Zz_5é日😀", max_size=10), _RANGES)
def test_redacted_texts(texts: list[str | None], characters: str, ranges: list[tuple[int, int]]) -> None:
    mask = Mask("redact", (characters, "", ",".join(f"{a}:{b}" for a, b in ranges)))
    replacements = characters + DEFAULTS[len(characters) :]
    expected = [None if text is None else redacted(text, replacements, ranges) for text in texts]
    assert masked(parse("string"), mask, texts) == expected
    for length in (9, 20):
        assert masked(T("varchar", max_length=length), mask, texts) == expected


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_masking_twice_changes_nothing_more(text: str) -> None:
    (once,) = masked(parse("string"), "redact", [text])
    assert masked(parse("string"), "redact", [once]) == [once]


@given(st.lists(st.binary(max_size=200), max_size=20), st.integers(1, 80))
def test_digests(values: list[bytes], length: int) -> None:
    """At every length around those of SHA-256's chunks."""
    values += [b"x" * size for size in (0, 1, 54, 55, 56, 57, 63, 64, 65, 119, 120, 121, 128)]
    assert masked(parse("binary"), "sha256", values) == [hashlib.sha256(one).digest() for one in values]
    texts = [one.hex() for one in values]
    expected = [hashlib.sha256(text.encode()).hexdigest().upper() for text in texts]
    assert masked(parse("string"), "sha256", texts) == expected
    short = masked(T("varchar", max_length=length), "sha256", [text[:length] for text in texts])
    cut = [hashlib.sha256(text[:length].encode()).hexdigest().upper()[:length] for text in texts]
    assert short == cut


@given(
    st.lists(st.dates(datetime.date(1583, 1, 1)), min_size=1, max_size=20),
    st.none() | st.integers(1, 4000),
    st.none() | st.integers(1, 12),
    st.none() | st.integers(1, 31),
)
def test_dates(dates: list[datetime.date], year: int | None, month: int | None, day: int | None) -> None:
    """Days beyond the end of a month are those of the next."""
    assume(year is None or year > 1582)
    parts = " ".join("_" if part is None else str(part) for part in (year, month, day))
    epoch = datetime.date(1970, 1, 1).toordinal()
    expected = []
    for date in dates:
        y, m, d = year or date.year, month or date.month, day or date.day
        over = max(0, d - calendar.monthrange(y, m)[1])
        expected.append(datetime.date(y, m, d - over).toordinal() + over - epoch)
    days = [date.toordinal() - epoch for date in dates]
    assert masked(parse("date"), Mask("redact", ("", parts)), days) == expected


def test_years_before_the_first_stay_there() -> None:
    assert masked(parse("date"), Mask("redact", ("", "2000")), [-719_163, -719_162]) == [-1_449_647, 10_957]


_MASKS = [
    Mask("nullify"),
    Mask("sha256"),
    Mask("redact"),
    Mask("redact", ("Xx_",)),
    Mask("redact", ("Zz7", "_ _ _", "0:0,-1:-1")),
    Mask("redact", ("", "_ _ _ _ _ _")),
]


@given(
    st.sampled_from(_MASKS),
    strategies.schemas(strategies.EVERYTHING, unions=True, depth=3),
    st.integers(0, 1 << 32),
    st.data(),
)
def test_slices(mask: Mask, type_: T, seed: int, data: st.DataObject) -> None:
    """A row's mask does not depend on the rows around it."""
    rows: list[Any] = [*strategies.make_table(type_, 40, seed, strategies.Limits()).rows, None]
    field, vector = column_of(type_, rows)
    masking = mask_of(field.type, mask)
    whole = kernels.rows_of(type_, masking.apply(field, vector))
    start = data.draw(st.integers(0, len(rows)))
    stop = data.draw(st.integers(start, len(rows)))
    part = kernels.rows_of(type_, masking.apply(field, vector.slice(start, stop)))
    assert repr(part) == repr(whole[start:stop])


@given(_TEXTS, st.sampled_from(_MASKS), st.data())
def test_dictionaries(texts: list[str | None], mask: Mask, data: st.DataObject) -> None:
    """Entries are masked once; of few rows only their own."""

    def encoded(_: T, array: pa.Array) -> pa.Array:
        return array.dictionary_encode()

    assume(texts)
    type_ = parse("string")
    field, vector = column_of(type_, texts + texts, encoded)
    masking = mask_of(field.type, mask)
    assert vector.dictionary is not None
    start = data.draw(st.integers(0, vector.length))
    stop = data.draw(st.integers(start, vector.length))
    found = masking.apply(field, vector.slice(start, stop))
    assert found.dictionary is not None
    assert found.dictionary.length <= max(stop - start, 0)
    assert kernels.rows_of(type_, found) == masked(type_, mask, (texts + texts)[start:stop])


# --- nothing is left -------------------------------------------------------------------------------

NEEDLE = 0x5EC2_E7A1
HIDDEN = ["secret", "SECRET"]


def _secrets() -> dict[str, pa.Array]:
    """Arrays that hold secrets, also beneath nulls and in rows that are sliced off."""
    nulls = pa.py_buffer(bytes([0b10101010, 0b1]))
    numbers = np.full(10, NEEDLE, "i8")
    texts = pa.array(["secret", "SECRET"] * 5)
    halves = np.full(20, NEEDLE, "i4")

    def beneath(type_: pa.DataType, values: Any) -> pa.Array:
        return pa.Array.from_buffers(type_, 10, [nulls, pa.py_buffer(values.tobytes())])

    held = pa.Array.from_buffers(pa.string(), 10, [nulls, *texts.buffers()[1:]])
    indexes = pa.Array.from_buffers(
        pa.int32(), 10, [nulls, pa.py_buffer(np.tile([0, 1], 5).astype("i4").tobytes())]
    )
    return {
        "bigint": beneath(pa.int64(), numbers),
        "int": beneath(pa.int32(), halves[:10]),
        "double": beneath(pa.float64(), numbers),
        "date": beneath(pa.date32(), halves[:10]),
        "timestamp": beneath(pa.timestamp("ns"), numbers),
        "decimal(38,2)": beneath(pa.decimal128(38, 2), np.stack([numbers, np.zeros(10, "i8")], 1)),
        "string": held,
        "char(6)": held,
        "binary": held.cast(pa.binary()),
        "string ": pa.DictionaryArray.from_arrays(indexes, pa.array(HIDDEN)),
        "array<string>": pa.ListArray.from_arrays(pa.array(range(11), pa.int32()), held),
        "struct<a:string>": pa.StructArray.from_arrays([held], ["a"]),
    }


def _has_secret(buffers: Sequence[bytes]) -> bool:
    needle = NEEDLE.to_bytes(4, "little")
    return any(needle in one or re.search(b"secret", one, re.IGNORECASE) for one in buffers)


@pytest.mark.parametrize("text", list(_secrets()))
@pytest.mark.parametrize("mask", ["nullify", "redact", "sha256"])
def test_nothing_is_left(text: str, mask: str) -> None:
    """Neither in rows, nor beneath nulls, nor in memory around them."""
    schema = Schema.parse(f"struct<v:{text.strip()}>")
    (rows,) = UserData(pa.table({"v": _secrets()[text]})).vectors(schema)
    field, vector = rows.fields[0], rows.vectors[0]
    assert _has_secret(list(buffers_of(vector)))
    for part in (vector, vector.slice(0, 1), vector.slice(2, 7)):
        found = mask_of(field.type, parse_mask(mask)).apply(field, part)
        assert not _has_secret(list(buffers_of(found)))


@pytest.mark.parametrize("text", ["bigint", "int", "double", "date", "timestamp", "string"])
def test_nothing_is_left_beneath_nulls_of_what_is_kept(text: str) -> None:
    array = pa.Array.from_buffers(
        _secrets()[text].type, 10, [pa.py_buffer(bytes(2)), *_secrets()[text].buffers()[1:]]
    )
    (rows,) = UserData(pa.table({"v": array})).vectors(Schema.parse(f"struct<v:{text}>"))
    assert _has_secret(list(buffers_of(rows.vectors[0])))
    keeping = Mask("redact", ("_" * 10, "_ _ _ _ _ _"))
    found = mask_of(rows.fields[0].type, keeping).apply(rows.fields[0], rows.vectors[0])
    assert found.null_count == 10
    assert not _has_secret(list(buffers_of(found)))


# --- kernels ---------------------------------------------------------------------------------------


def _parts(data: bytes) -> list[bytes]:
    """Characters; a byte that begins none is one by itself."""
    pattern = rb"[\x00-\x7f]|[\xc0-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf7][\x80-\xbf]{3}|."
    found = re.findall(pattern, data, re.DOTALL)
    # Four bytes may say more than Unicode has.
    return [
        p
        for one in found
        for p in ([one] if len(one) < 4 or one < b"\xf4\x90" else [one[i : i + 1] for i in range(4)])
    ]


@given(st.binary(max_size=60), st.lists(st.integers(-1, 70), min_size=1, max_size=6), st.integers(0, 7))
def test_any_bytes(data: bytes, ends: list[int], first: int) -> None:
    """Offsets of any origin are refused, or are offsets; bytes of any origin are characters."""
    count = max(0, len(ends) - 1 - first)
    offsets = np.array(ends, "i4")
    ranges, keep = np.array([], "i8"), np.full(10, -1, "i8")
    rising = all(0 <= a <= b <= len(data) for a, b in zip(ends[first:-1], ends[first + 1 :], strict=True))
    if not rising:
        with pytest.raises(ValueError, match="offsets"):
            _mask.redact_texts(offsets, data, None, first, count, *_classes(), keep, ranges, False)
        with pytest.raises(ValueError, match="offsets"):
            _mask.digests(offsets, data, None, first, count, True, 64, False)
        return
    pieces = [data[a:b] for a, b in zip(ends[first:-1], ends[first + 1 :], strict=True)]
    _, out = _mask.redact_texts(offsets, data, None, first, count, *_classes(), keep, ranges, False)
    assert bytes(out) == b"".join(pieces)
    _, out = _mask.redact_texts(
        offsets, data, None, first, count, *_classes(), np.full(10, 0x1F600), ranges, False
    )
    assert bytes(out) == "😀".encode() * sum(len(_parts(piece)) for piece in pieces)
    _, out = _mask.digests(offsets, data, None, first, count, False, 0, False)
    assert bytes(out) == b"".join(hashlib.sha256(piece).digest() for piece in pieces)


def test_kernels_check_what_they_are_given() -> None:
    blocks, classes = _classes()
    keep, none = np.full(10, -1, "i8"), np.array([], "i8")
    offsets, data = np.array([0, 1], "i4"), b"a"
    wrong: list[tuple[Any, ...]] = [
        (offsets, data, None, 0, 2, blocks, classes, keep, none, False),
        (offsets, data, None, -1, 1, blocks, classes, keep, none, False),
        (offsets, data, b"", 0, 1, blocks, classes, keep, none, False),
        (offsets, data, None, 0, 1, blocks[1:], classes, keep, none, False),
        (offsets, data, None, 0, 1, blocks, classes[256:], keep, none, False),
        (offsets, data, None, 0, 1, blocks, np.full_like(classes, 10), keep, none, False),
        (offsets, data, None, 0, 1, blocks, classes, keep[1:], none, False),
        (offsets, data, None, 0, 1, blocks, classes, np.full(10, 0x110000), none, False),
        (offsets, data, None, 0, 1, blocks, classes, keep, np.array([1]), False),
    ]
    for arguments in wrong:
        with pytest.raises(ValueError):  # noqa: PT011 - of any kind
            _mask.redact_texts(*arguments)
    with pytest.raises(ValueError, match=r"\bdate\b"):
        _mask.redact_days(np.array([0]), 1, 13, 1)
    with pytest.raises(ValueError, match=r"\blength\b"):
        _mask.digests(offsets, data, None, 0, 1, True, -1, False)


def test_more_than_a_vector_holds() -> None:
    """Texts that grow beyond 2^31 bytes, and digests: refused before the memory is asked for."""
    data = bytes(1 << 20)
    offsets = np.tile(np.array([0, 1 << 20], "i4"), 600)[:1199]
    with pytest.raises(ValueError, match="offsets"):  # they fall
        _mask.redact_texts(
            offsets, data, None, 0, 1198, *_classes(), np.full(10, -1), np.array([], "i8"), False
        )
    huge = np.full(34_000_001, 0, "i4")
    with pytest.raises(OverflowError):
        _mask.digests(huge, b"", None, 0, 34_000_000, True, 64, False)
    big = np.array([0, 1 << 29], "i4")
    with pytest.raises(OverflowError):
        _mask.redact_texts(
            big,
            np.zeros(1 << 29, "u1"),
            None,
            0,
            1,
            *_classes(),
            np.full(10, 0x1F600),
            np.array([], "i8"),
            False,
        )


@given(
    st.text("Zz_5`,#é日😀", max_size=10), st.sampled_from(("", "2000", "_ 3 _", "1999 _ 7")), _RANGES, _TEXTS
)
def test_texts_of_masks(
    characters: str, parts: str, ranges: list[tuple[int, int]], texts: list[str | None]
) -> None:
    """Their text is one that is parsed, and makes the same."""
    mask = Mask("redact", (characters, parts, ",".join(f"{a}:{b}" for a, b in ranges)))
    again = parse_mask(mask_text(mask))
    type_ = T("string")
    assert masked(type_, again, texts) == masked(type_, mask, texts)
    days = [0, -800_000, 19_000]
    assert masked(T("date"), again, days) == masked(T("date"), mask, days)
    assert parse_mask(mask_text(again)) == again
