"""Column decoders: random nested columns give the same values whatever the steps, budgets and pieces.

Streams come from the reference encoder and go through `build_columns`, as a stripe's do. Vectors are read
back by `kernels.rows_of`, which knows the Arrow layout only.
"""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from orcstream.codec.decode._column import ColumnDecoder, Turn
from orcstream.codec.metadata.structure import EncodingKind, StreamKind
from orcstream.codec.vectors.column import VectorOptions, vector_bytes
from orcstream.errors import CorruptStream, FormatError, OrcError, Unsupported
from tests.generators import strategies
from tests.reference import byte_rle, compare, rle_v1, rle_v2
from tests.reference.columns import Encoder
from tests.reference.types import T, Union, parse
from tests.support.effort import share
from tests.support.kernels import Column, rows_of

pytestmark = pytest.mark.usefixtures("simd")

ALL = strategies.schemas(strategies.EVERYTHING, unions=True, depth=4, plain_names=True)
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "version": st.sampled_from((1, 2)),
        "dictionary": st.booleans(),
        "present": st.booleans(),
        "sort_dictionary": st.booleans(),
    },
)


def encoded(type_: T, rows: list[Any], vectors: VectorOptions | None = None, **options: Any) -> Column:
    encoder = Encoder(**options)
    encoder.column(type_, 0, rows)
    return Column(type_, encoder.streams, encoder.encoding_list(), vectors=vectors)


def nulled(table: strategies.Table, seed: int) -> list[Any]:
    """The rows with null structs among them: children have no entries there."""
    rng = random.Random(seed)
    share = rng.choice((0, 0, 0.1, 0.9, 1))
    return [None if rng.random() < share else row for row in table.rows]


@hypothesis.settings(max_examples=share(120))
@hypothesis.given(
    table=strategies.tables(ALL), options=OPTIONS, seed=st.integers(0, 1 << 32), dictionaries=st.booleans()
)
def test_steps_budgets_and_pieces(
    table: strategies.Table, options: dict[str, Any], seed: int, dictionaries: bool
) -> None:
    rng = random.Random(seed)
    rows = nulled(table, seed)[:400]
    vectors = VectorOptions(dictionaries=dictionaries)
    column = encoded(table.type_, rows, vectors, **options)
    expected = compare.arrow_shaped(table.type_, rows)
    whole = column.open()
    whole.feed_all()
    assert whole.ready(len(rows), 1 << 30) == len(rows)
    assert not whole.turn.dry
    compare.assert_same_rows(table.type_, rows_of(table.type_, whole.decoder.take_rows(len(rows))), expected)

    parts = column.open(zlib=rng.random() < 0.5, rng=rng)
    found: list[object] = []
    budget = rng.choice((200, 2000, 1 << 20))
    while len(found) < len(rows):
        count = min(rng.choice((1, 3, 50, 1000)), len(rows) - len(found))
        got = parts.ready(count, budget)
        assert 0 <= got <= count
        if got == 0:
            assert parts.turn.dry or budget < 1 << 30, "neither bytes nor budget are missing"
            if not parts.feed_starved():
                budget *= 2
            continue
        if rng.random() < 0.3:
            parts.feed_starved()  # what was answered stays true
        got = rng.randint(1, got)
        found += rows_of(table.type_, parts.decoder.take_rows(got))
    compare.assert_same_rows(table.type_, found, expected)


@hypothesis.settings(max_examples=share(60))
@hypothesis.given(
    type_=strategies.leaves(strategies.EVERYTHING), seed=st.integers(0, 1 << 32), options=OPTIONS
)
def test_parents_without_a_row(type_: T, seed: int, options: dict[str, Any]) -> None:
    """A child's rows are its parents': nulls of both come out as nulls, and take no entries."""
    table = strategies.make_table(T("struct", (type_,), ("a",)), 300, seed, strategies.Limits())
    rng = random.Random(seed)
    inner = T("struct", (table.type_,), ("s",))
    rows: list[Any] = [
        None if rng.random() < 0.2 else (None if rng.random() < 0.3 else row,) for row in table.rows
    ]
    opened = encoded(inner, rows, **options).open()
    opened.feed_all()
    found: list[object] = []
    while len(found) < len(rows):
        got = opened.ready(min(70, len(rows) - len(found)), 1 << 30)
        vector = opened.decoder.take_rows(got)
        child = vector.children[0].children[0]
        own = rows_of(type_, child)
        assert child.length == got
        assert child.null_count == sum(value is None for value in own)
        found += rows_of(inner, vector)
    compare.assert_same_rows(inner, found, rows)


NULL_UNIONS = [
    None,
    Union(0, 5),
    Union(1, "a"),
    None,
    Union(0, None),
    Union(1, None),
    Union(0, -7),
    None,
    Union(1, "ß"),
    Union(1, ""),
]


@pytest.mark.parametrize("step", [1, 2, 3, 10])
def test_null_unions(step: int) -> None:
    type_ = parse("uniontype<int,string>")
    opened = encoded(type_, NULL_UNIONS).open()
    opened.feed_all()
    found: list[object] = []
    while len(found) < len(NULL_UNIONS):
        got = opened.ready(min(step, len(NULL_UNIONS) - len(found)), 1 << 20)
        vector = opened.decoder.take_rows(got)
        assert vector.null_count == 0
        assert len(vector.buffers) == 2
        found += rows_of(type_, vector)
    assert found == [Union(0, None) if value is None else value for value in NULL_UNIONS]


@pytest.mark.parametrize("text", ["string", "array<int>", "map<int,string>", "struct<a:string,b:array<int>>"])
def test_a_row_larger_than_the_budget(text: str) -> None:
    """Nothing can be had, no stream is called dry, and a larger budget helps."""
    type_ = parse(text)
    large: dict[str, Any] = {
        "string": "x" * 5000,
        "array<int>": list(range(2000)),
        "map<int,string>": [(number, "y" * 5) for number in range(900)],
        "struct<a:string,b:array<int>>": ("z" * 3000, list(range(900))),
    }
    small: dict[str, Any] = {
        "string": "x",
        "array<int>": [1],
        "map<int,string>": [(1, "y")],
        "struct<a:string,b:array<int>>": ("z", []),
    }
    rows = [small[text], large[text], small[text]]
    opened = encoded(type_, rows).open()
    opened.feed_all()
    assert opened.ready(3, 1000) == 1
    assert not opened.turn.dry
    first = rows_of(type_, opened.decoder.take_rows(1))
    assert opened.ready(2, 1000) == 0
    assert not opened.turn.dry
    assert opened.ready(2, 1 << 20) == 2
    assert first + rows_of(type_, opened.decoder.take_rows(2)) == rows


@pytest.mark.parametrize(
    "text", ["bigint", "int", "decimal(20,3)", "boolean", "timestamp", "string", "array<int>"]
)
def test_budgets_hold(text: str) -> None:
    """What is taken is no larger than a small multiple of the budget that it was made ready for."""
    type_ = parse(text)
    table = strategies.make_table(T("struct", (type_,), ("a",)), 3000, 5, strategies.Limits())
    rows = [row[0] for row in table.rows]
    opened = encoded(type_, rows).open()
    opened.feed_all()
    left = len(rows)
    while left:
        got = opened.ready(left, 4096)
        if got == 0:
            got = opened.ready(1, 1 << 30)
            opened.decoder.take_rows(got)
        else:
            assert vector_bytes(opened.decoder.take_rows(got)) <= 4 * 4096
        left -= got


def test_starved_streams_are_named() -> None:
    type_ = parse("struct<a:int,b:string>")
    opened = encoded(type_, [(number, str(number)) for number in range(100)] + [None]).open()
    names = {(1, "DATA"), (0, "PRESENT"), (2, "LENGTH"), (2, "DATA")}
    assert {(stream.column, stream.kind) for stream in opened.decoder.streams()} == names
    for wanted in ((0, "PRESENT"), (1, "DATA"), (2, "LENGTH"), (2, "DATA")):
        assert opened.ready(101, 1 << 20) == 0 or wanted == (2, "DATA")
        assert wanted in opened.dry()
        opened.feed(*wanted)
    assert opened.ready(101, 1 << 20) == 101
    assert not opened.turn.dry


# --- dictionaries ---

WORDS = ["b", "a", "", None, "b", "ß" * 20, "a", None, "", "long enough to be copied the other way"]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("dictionary", [False, True])
@pytest.mark.parametrize("output", [False, True])
def test_dictionary_and_direct(version: int, dictionary: bool, output: bool) -> None:
    type_ = parse("string")
    column = encoded(
        type_, WORDS * 30, VectorOptions(dictionaries=output), version=version, dictionary=dictionary
    )
    opened = column.open()
    opened.feed_all()
    assert opened.ready(300, 1 << 20) == 300
    vector = opened.decoder.take_rows(300)
    assert (vector.dictionary is not None) is output
    assert rows_of(type_, vector) == WORDS * 30


def test_a_dictionary_without_entries() -> None:
    for streams in (True, False):
        column = encoded(parse("string"), [None] * 5, dictionary=True)
        if not streams:
            column.streams = [stream for stream in column.streams if stream.kind == StreamKind.PRESENT]
        opened = column.open()
        opened.feed_all()
        assert opened.ready(5, 1000) == 5
        assert rows_of(parse("string"), opened.decoder.take_rows(5)) == [None] * 5


def dictionary_of(lengths: bytes, data: bytes, indexes: bytes, size: int, **turn: Any) -> Any:
    column = Column(parse("string"), [], [(EncodingKind.DICTIONARY_V2, size)])
    column.put(0, StreamKind.LENGTH, lengths)
    column.put(0, StreamKind.DICTIONARY_DATA, data)
    column.put(0, StreamKind.DATA, indexes)
    opened = column.open(**turn)
    opened.feed_all()
    return opened


def lengths_of(*lengths: int) -> bytes:
    return rle_v2.direct(lengths, signed=False)


@pytest.mark.parametrize("limit", [1 << 20, (1 << 31) - 1, 1 << 33, 1 << 40])
def test_dictionary_lengths_that_wrap(limit: int) -> None:
    """Together they are 2^64, which 64 bits take for 0; the first entry would lie outside the data."""
    lengths = lengths_of((1 << 62) + 1000, 1 << 62, 1 << 62, (1 << 62) - 1000)
    opened = dictionary_of(lengths, b"", lengths_of(0), 4, dictionary_limit=limit)
    with pytest.raises(Unsupported) as caught:
        opened.ready(1, 1 << 20)
    assert (caught.value.reason, caught.value.column) == ("dictionary_too_large", 0)


@pytest.mark.parametrize("size", [1 << 29, (1 << 31) - 1])
def test_dictionary_sizes_are_not_believed(size: int) -> None:
    opened = dictionary_of(lengths_of(1), b"a", lengths_of(0), size, dictionary_limit=1 << 20)
    with pytest.raises(Unsupported) as caught:
        opened.ready(1, 1 << 20)
    assert caught.value.reason == "dictionary_too_large"


@pytest.mark.parametrize("index", [2, 255, 1 << 31, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])
def test_indexes_beyond_the_dictionary(index: int) -> None:
    opened = dictionary_of(lengths_of(1, 1), b"ab", lengths_of(1, 0, index, 0), 2)
    with pytest.raises(CorruptStream, match=r"\b2 entries\b.*\bdictionary\b") as caught:
        opened.ready(4, 1 << 20)
    assert (caught.value.column, caught.value.stream_kind, caught.value.row) == (0, "DATA", 2)


def test_negative_dictionary_lengths() -> None:
    opened = dictionary_of(lengths_of(3, 1 << 63), b"abc", lengths_of(0), 2)
    with pytest.raises(CorruptStream, match=r"\bnegative\b") as caught:
        opened.ready(1, 1 << 20)
    assert (caught.value.column, caught.value.stream_kind) == (0, "LENGTH")


# --- text ---

MALFORMED = {
    "continuation alone": b"\x80",
    "last continuation alone": b"\xbf",
    "overlong of two": b"\xc0\x80",
    "overlong of two, highest": b"\xc1\xbf",
    "overlong of three": b"\xe0\x9f\xbf",
    "overlong of four": b"\xf0\x8f\xbf\xbf",
    "first surrogate": b"\xed\xa0\x80",
    "last surrogate": b"\xed\xbf\xbf",
    "beyond U+10FFFF": b"\xf4\x90\x80\x80",
    "lead f5": b"\xf5\x80\x80\x80",
    "lead of five": b"\xf8\x88\x80\x80\x80",
    "lead of six": b"\xfc\x84\x80\x80\x80\x80",
    "fe": b"\xfe",
    "ff": b"\xff",
    "two cut": b"\xc3",
    "three cut": b"\xe2\x82",
    "four cut": b"\xf0\x9f\x98",
    "two without continuation": b"\xc3a",
    "three without second": b"\xe2a\xac",
    "three without third": b"\xe2\x82a",
    "four without second": b"\xf0a\x98\x80",
    "four without third": b"\xf0\x9fa\x80",
    "four without fourth": b"\xf0\x9f\x98a",
}
WELL_FORMED = [
    "",
    "\0",
    "\x7f",
    "\x80",
    "\u07ff",
    "\u0800",
    "\ud7ff",
    "\ue000",
    "\uffff",
    "\U00010000",
    "\U0010ffff",
]


@pytest.mark.parametrize("name", MALFORMED)
@pytest.mark.parametrize("dictionary", [False, True])
def test_malformed_text(name: str, dictionary: bool) -> None:
    bad = MALFORMED[name]
    with pytest.raises(UnicodeDecodeError):
        bad.decode()
    rows = [b"ascii only, more than thirty-two bytes of it", "ß€😀".encode(), b"x" + bad, b"\xbf\x80"]
    column = encoded(parse("string"), rows, dictionary=dictionary, sort_dictionary=False)
    opened = column.open()
    opened.feed_all()
    with pytest.raises(FormatError, match=r"\bUTF-8\b.*\binvalid_utf8=") as caught:
        opened.decoder.take_rows(opened.ready(4, 1 << 20))
    assert caught.value.column == 0
    if not dictionary:
        assert caught.value.row == 2
    assert 'invalid_utf8="binary"' in caught.value.message
    plain = encoded(parse("string"), rows, VectorOptions(invalid_utf8="binary"), dictionary=dictionary).open()
    plain.feed_all()
    assert plain.ready(4, 1 << 20) == 4
    assert rows_of(parse("binary"), plain.decoder.take_rows(4)) == rows


@pytest.mark.parametrize("dictionaries", [False, True])
def test_the_row_of_malformed_text(dictionaries: bool) -> None:
    """Rows count, nulls among them, in whatever form texts are handed out."""
    rows = [None, b"a", None, None, b"\xc3", b"b"]
    opened = encoded(parse("string"), rows, VectorOptions(dictionaries=dictionaries)).open()
    opened.feed_all()
    with pytest.raises(FormatError) as caught:
        opened.decoder.take_rows(opened.ready(6, 1 << 20))
    assert caught.value.row == 4


@pytest.mark.parametrize("dictionary", [False, True])
def test_text_is_judged_string_by_string(dictionary: bool) -> None:
    """Bytes that are UTF-8 only together are not, each for itself."""
    opened = encoded(parse("string"), [b"\xc3", b"\x9f"], dictionary=dictionary).open()
    opened.feed_all()
    with pytest.raises(FormatError, match=r"\bUTF-8\b.*\binvalid_utf8="):
        opened.decoder.take_rows(opened.ready(2, 1 << 20))


@hypothesis.settings(max_examples=share(300))
@hypothesis.given(
    rows=st.lists(
        st.one_of(st.text(max_size=40).map(str.encode), st.binary(max_size=6), st.sampled_from(WELL_FORMED)),
        min_size=1,
        max_size=8,
    )
)
def test_text_as_python_judges_it(rows: list[bytes | str]) -> None:
    stored = [row if isinstance(row, bytes) else row.encode() for row in rows]
    bad = next((row for row, data in enumerate(stored) if not _is_text(data)), None)
    opened = encoded(parse("string"), stored).open()
    opened.feed_all()
    count = opened.ready(len(stored), 1 << 20)
    if bad is None:
        assert rows_of(parse("string"), opened.decoder.take_rows(count)) == [data.decode() for data in stored]
    else:
        with pytest.raises(FormatError) as caught:
            opened.decoder.take_rows(count)
        assert caught.value.row == bad


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


# --- corrupt streams, and what they claim ---


@pytest.mark.parametrize("text", ["string", "binary", "array<int>", "map<int,int>"])
@pytest.mark.parametrize("version", [1, 2])
def test_lengths_are_not_believed(text: str, version: int) -> None:
    type_ = parse(text)
    for lengths in ([1 << 62] * 4, [(1 << 63) - 1], [1 << 60, 1 << 31], [(1 << 31) - 1] * 3):
        encode = rle_v1.literals if version == 1 else rle_v2.direct
        column = encoded(type_, [], version=version)
        column.put(0, StreamKind.LENGTH, encode(lengths, signed=False))
        opened = column.open()
        opened.feed_all()
        assert opened.ready(len(lengths), 1 << 20) == 0
        assert not opened.turn.dry


@pytest.mark.parametrize("text", ["string", "binary", "array<int>", "map<int,int>"])
def test_negative_lengths(text: str) -> None:
    column = encoded(parse(text), [])
    column.put(0, StreamKind.LENGTH, rle_v2.direct([0, 0, 1 << 63], signed=False))
    opened = column.open()
    opened.feed_all()
    with pytest.raises(CorruptStream, match=r"\bnegative\b") as caught:
        opened.ready(3, 1 << 20)
    assert (caught.value.column, caught.value.stream_kind) == (0, "LENGTH")


@pytest.mark.parametrize("tag", [2, 127, 128, 255])
def test_tags_beyond_the_children(tag: int) -> None:
    column = encoded(parse("uniontype<int,int>"), [])
    column.put(0, StreamKind.DATA, byte_rle.literals([0, tag]))
    column.put(1, StreamKind.DATA, rle_v2.direct([1], signed=True))
    opened = column.open()
    opened.feed_all()
    with pytest.raises(CorruptStream, match=r"\b2 children\b") as caught:
        opened.ready(2, 1 << 20)
    assert (caught.value.column, caught.value.stream_kind, caught.value.row) == (0, "DATA", 1)


@pytest.mark.parametrize(
    ("text", "row", "kinds"),
    [
        ("struct<a:int>", (5,), ["DATA"]),
        ("struct<a:boolean>", (True,), ["DATA"]),
        ("struct<a:double>", (1.5,), ["DATA"]),
        ("struct<a:string>", ("abc",), ["LENGTH", "DATA"]),
        ("struct<a:timestamp>", (1,), ["DATA", "SECONDARY"]),
        ("struct<a:array<int>>", ([1],), ["LENGTH"]),
        ("struct<a:uniontype<int>>", (Union(0, 1),), ["DATA"]),
    ],
)
def test_streams_that_are_missing_or_short(text: str, row: Any, kinds: list[str]) -> None:
    type_ = parse(text)
    for kind in kinds:
        for keep in (0, 1):
            column = encoded(type_, [row] * 40)
            data = column.data(1, StreamKind[kind])
            column.put(1, StreamKind[kind], data[: keep * len(data) // 2])
            opened = column.open()
            opened.feed_all()
            with pytest.raises(CorruptStream, match=r" \d+ (value|byte)") as caught:
                opened.ready(40, 1 << 20)
            assert (caught.value.column, caught.value.stream_kind) == (1, kind)


def test_what_no_column_of_its_type_can_hold() -> None:
    decimal = encoded(parse("decimal(3,1)"), [])
    decimal.put(0, StreamKind.DATA, b"\x02\xd0\x0f")  # 1 and 1000
    decimal.put(0, StreamKind.SECONDARY, rle_v2.direct([1, 1], signed=True))
    seconds = encoded(parse("timestamp"), [])
    seconds.put(0, StreamKind.DATA, rle_v2.direct([1, 1 << 62], signed=True))
    seconds.put(0, StreamKind.SECONDARY, rle_v2.direct([0, 0], signed=False))
    nanos = encoded(parse("timestamp"), [])
    nanos.put(0, StreamKind.DATA, rle_v2.direct([1, 1], signed=True))
    nanos.put(0, StreamKind.SECONDARY, rle_v2.direct([0, 10**9 << 3], signed=False))
    cases: list[tuple[Column, type[OrcError], str]] = [
        (decimal, CorruptStream, "DATA"),
        (seconds, Unsupported, "DATA"),
        (nanos, CorruptStream, "SECONDARY"),
    ]
    for column, error, kind in cases:
        opened = column.open()
        opened.feed_all()
        with pytest.raises(error) as caught:
            opened.decoder.take_rows(opened.ready(2, 1 << 20))
        assert (caught.value.column, caught.value.stream_kind) == (0, kind)


@hypothesis.settings(max_examples=share(250))
@hypothesis.given(
    table=strategies.tables(ALL), options=OPTIONS, seed=st.integers(0, 1 << 32), dictionaries=st.booleans()
)
def test_damaged_columns(
    table: strategies.Table, options: dict[str, Any], seed: int, dictionaries: bool
) -> None:
    """Only the errors that are promised, and no more rows than were asked for."""
    rng = random.Random(seed)
    rows = nulled(table, seed)[:200]
    column = encoded(table.type_, rows, VectorOptions(dictionaries=dictionaries), **options)
    for stream in rng.sample(column.streams, min(len(column.streams), rng.randint(1, 3))):
        data = bytearray(stream.data)
        for _ in range(rng.randint(0, 5)):
            if data:
                data[rng.randrange(len(data))] = rng.randrange(256)
        stream.data = rng.choice(
            (bytes(data), rng.randbytes(rng.randint(0, 200)), bytes(data[: len(data) // 2]))
        )
    opened = column.open(dictionary_limit=1 << 20, rng=rng)
    opened.feed_all()
    left = len(rows)
    try:
        for _ in range(200):
            if not left:
                break
            got = opened.ready(left, rng.choice((500, 100_000)))
            assert 0 <= got <= left
            assert opened.decoder.take_rows(got).length == got
            left -= got
    except (FormatError, Unsupported):
        pass


def test_decoders_that_are_asked_for_nothing() -> None:
    type_ = parse("struct<a:int,b:string,c:array<int>,d:uniontype<int>,e:map<int,int>,f:boolean>")
    opened = encoded(type_, []).open()
    opened.feed_all()
    for budget in (0, 1, 1 << 30):
        assert opened.ready(0, budget) == 0
    vector = opened.decoder.take_rows(0)
    assert isinstance(opened.decoder, ColumnDecoder)
    assert isinstance(opened.turn, Turn)
    assert rows_of(type_, vector) == []
    assert all(vector_bytes(child) <= 8 for child in vector.children)


@pytest.mark.parametrize("dictionaries", [False, True])
def test_rows_without_a_string_do_not_wait_for_the_dictionary(dictionaries: bool) -> None:
    """None of its rows are needed, so nothing of it may be missed."""
    type_ = parse("array<string>")
    rows: list[Any] = [[], [], None, ["a"]]
    opened = encoded(type_, rows, VectorOptions(dictionaries=dictionaries), dictionary=True).open()
    opened.feed(0, "PRESENT")
    opened.feed(0, "LENGTH")
    assert opened.ready(4, 1 << 20) == 3
    assert (1, "LENGTH") in opened.dry()
    assert rows_of(type_, opened.decoder.take_rows(3)) == rows[:3]
    opened.feed_all()
    assert opened.ready(1, 1 << 20) == 1
    assert rows_of(type_, opened.decoder.take_rows(1)) == rows[3:]


CLAIMS = """
import resource
from orcstream.errors import OrcError, Unsupported
from tests.property.test_decoders import dictionary_of, encoded, lengths_of
from tests.reference import rle_v2
from tests.reference.types import parse
from orcstream.codec.metadata.structure import StreamKind

size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + (96 << 20), resource.RLIM_INFINITY))
tried = 0
for claim in (1 << 31, 1 << 40, 1 << 60, 1 << 62, (1 << 63) - 1):
    for text in ("string", "binary", "array<int>", "map<int,string>", "array<array<array<boolean>>>"):
        for lengths in ([claim], [claim] * 4, [1, claim]):
            column = encoded(parse(text), [])
            column.put(0, StreamKind.LENGTH, rle_v2.direct(lengths, signed=False))
            opened = column.open()
            opened.feed_all()
            try:
                opened.decoder.take_rows(opened.ready(len(lengths), 1 << 20))
            except OrcError:
                pass
            tried += 1
for entries in (1 << 18, 1 << 20, 1 << 29, (1 << 31) - 1, (1 << 62) - 1):
    for lengths in (lengths_of(1), lengths_of(1 << 62, 1 << 62), b""):
        opened = dictionary_of(lengths, b"a", lengths_of(0), entries, dictionary_limit=1 << 20)
        try:
            opened.ready(1, 1 << 20)
        except OrcError:
            tried += 1
for text in ("bigint", "boolean", "decimal(38,2)", "timestamp", "string", "struct<a:int,b:struct<c:double>>"):
    opened = encoded(parse(text), []).open()
    for rows in (1 << 31, 1 << 62, (1 << 63) - 1):
        try:
            opened.ready(rows, 1 << 20)
        except OrcError:
            pass
        tried += 1
try:
    bytearray(128 << 20)
except MemoryError:
    print(tried)
"""


def test_no_memory_by_claims() -> None:
    """Under a limit on address space, which the last lines show to work, no claim ends in a `MemoryError`."""
    root = Path(__file__).parents[2]
    found = subprocess.run(
        [sys.executable, "-c", CLAIMS], cwd=root, capture_output=True, text=True, check=False, timeout=60
    )
    assert found.returncode == 0, found.stderr
    assert int(found.stdout) == 75 + 15 + 18
