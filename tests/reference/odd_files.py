"""Legal files that no usual writer makes, but that exist or may: each with its rows.

Made with the builder; `accepted_by` names readers of others that give the same rows (tests ask them), so that
these files are not just our own opinion.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from . import byte_rle, compression, rle_v1, rle_v2
from .builder import FileBuilder, Options, Stream
from .columns import Encoder, add_stripe, make_file
from .reader import DATA, DICTIONARY_DATA, DICTIONARY_V2, DIRECT, DIRECT_V2, LENGTH, PRESENT
from .types import T, Union, parse

JAVA_AND_CPP = ("java", "pyorc")


@dataclass(frozen=True)
class OddFile:
    type_: T
    rows: list[Any]
    data: bytes
    accepted_by: tuple[str, ...] = JAVA_AND_CPP
    options: dict[str, Any] = field(default_factory=dict)


FILES: dict[str, Callable[[], OddFile]] = {}


def odd(function: Callable[[], OddFile]) -> Callable[[], OddFile]:
    FILES[function.__name__] = function
    return function


NUMBERS = parse("struct<n:bigint>")
MIXED = parse("struct<n:int,s:string,l:array<smallint>,t:timestamp>")


def mixed_rows(count: int = 50) -> list[Any]:
    rng = random.Random(1)
    return [
        (
            None if i % 7 == 3 else rng.randint(-(2**31), 2**31 - 1),
            None if i % 5 == 2 else "x" * (i % 9),
            None if i % 11 == 5 else [rng.randint(-99, 99) for _ in range(i % 4)],
            None if i % 13 == 6 else i * 86_400_123_456_789,
        )
        for i in range(count)
    ]


@odd
def zones_differ_by_stripe() -> OddFile:
    """Merged files: each stripe has the zone of the machine that wrote it."""
    type_ = parse("struct<t:timestamp,i:timestamp with local time zone>")
    rows = [(i * 10**15 + 250_000_000, i * 10**15 + 1) for i in range(-20, 20)]
    builder = FileBuilder(type_)
    for zone in ("UTC", "America/Los_Angeles", "Asia/Shanghai", "GMT"):
        add_stripe(builder, rows, Encoder(zone=zone))
    return OddFile(type_, rows * 4, builder.build(), ("java",))


def _with(options: Options, accepted_by: tuple[str, ...] = JAVA_AND_CPP) -> OddFile:
    rows = mixed_rows()
    return OddFile(MIXED, rows, make_file(MIXED, rows, options=options), accepted_by)


@odd
def no_magic_in_the_postscript() -> OddFile:
    return _with(Options(magic=False))


@odd
def no_version() -> OddFile:
    return _with(Options(version=None))


@odd
def no_block_size() -> OddFile:
    return _with(Options(compression=compression.ZLIB, block_size=None))


@odd
def no_compression_field() -> OddFile:
    return _with(Options(compression=None), ("java",))


@odd
def no_writer_at_all() -> OddFile:
    return _with(Options(writer=None, writer_version=None, stride=None))


@odd
def chunks_stored_as_they_are() -> OddFile:
    return _with(Options(compression=compression.ZLIB, original_chunks=True))


@odd
def tiny_chunks() -> OddFile:
    """Runs, numbers and strings straddle chunk borders everywhere."""
    return _with(Options(compression=compression.ZLIB, block_size=7))


@odd
def unknown_fields() -> OddFile:
    extra: list[Any] = [(200, 7), (201, b"later")]
    return _with(Options(footer_extra=extra, postscript_extra=extra))


@odd
def no_rows() -> OddFile:
    return OddFile(MIXED, [], FileBuilder(MIXED).build())


@odd
def stripes_without_rows() -> OddFile:
    builder = FileBuilder(MIXED)
    for count in (0, 3, 0, 0, 4, 0):
        add_stripe(builder, mixed_rows(count))
    return OddFile(MIXED, mixed_rows(3) + mixed_rows(4), builder.build(), ("java",))


@odd
def padded_stripes() -> OddFile:
    builder = FileBuilder(MIXED)
    for size in (1, 4000, 0):
        builder.pad(size)
        add_stripe(builder, mixed_rows(20))
    builder.pad(100)
    return OddFile(MIXED, mixed_rows(20) * 3, builder.build())


@odd
def streams_in_any_order() -> OddFile:
    builder = FileBuilder(MIXED)
    encoder = Encoder()
    encoder.column(MIXED, 0, mixed_rows())
    random.Random(3).shuffle(encoder.streams)
    builder.stripe(50, encoder.streams, encoder.encoding_list())
    return OddFile(MIXED, mixed_rows(), builder.build())


@odd
def present_where_nothing_is_null() -> OddFile:
    rows: list[Any] = [(i, str(i), [i], i) for i in range(100)]
    return OddFile(MIXED, rows, make_file(MIXED, rows, Encoder(present=True)))


@odd
def root_with_nulls() -> OddFile:
    """A PRESENT stream of the root: a null row has nulls in all its columns."""
    rows = [None if i % 3 == 1 else (i, f"row {i}") for i in range(30)]
    type_ = parse("struct<n:int,s:string>")
    return OddFile(type_, [row or (None, None) for row in rows], make_file(type_, rows), ())


@odd
def no_columns() -> OddFile:
    type_ = T("struct")
    return OddFile(type_, [()] * 12, make_file(type_, [()] * 12), ())


def _root(text: str, rows: Sequence[Any]) -> OddFile:
    type_ = parse(text)
    return OddFile(type_, list(rows), make_file(type_, rows), ("java",))


@odd
def root_is_a_number() -> OddFile:
    return _root("bigint", [1, None, -5, 2**63 - 1])


@odd
def root_is_a_list() -> OddFile:
    return _root("array<string>", [["a", None], None, [], ["b"] * 20])


@odd
def root_is_a_map() -> OddFile:
    return _root("map<string,int>", [[("k", 1), ("l", None)], None, []])


@odd
def root_is_a_union() -> OddFile:
    rows = [Union(0, 1), Union(1, "x"), Union(0, None)]
    return _root("uniontype<int,string>", rows)


@odd
def null_unions() -> OddFile:
    type_ = parse("struct<u:uniontype<int,string,array<int>>>")
    rows = [
        (Union(0, 7),),
        (None,),
        (Union(1, "x"),),
        (Union(1, None),),
        (Union(2, [1, 2]),),
        (Union(2, None),),
    ] * 9
    return OddFile(type_, rows, make_file(type_, rows), ("java",))


@odd
def dictionary_not_sorted() -> OddFile:
    type_ = parse("struct<s:string>")
    rows = [(word,) for word in ("b", "a", "c", None, "a", "", "ü")] * 40
    return OddFile(type_, rows, make_file(type_, rows, Encoder(dictionary=True, sort_dictionary=False)))


@odd
def dictionary_with_words_twice() -> OddFile:
    type_ = parse("struct<s:string>")
    builder = FileBuilder(type_)
    streams = [
        Stream(DATA, 1, rle_v2.encode([0, 1, 2, 3], signed=False)),
        Stream(DICTIONARY_DATA, 1, b"abab"),
        Stream(LENGTH, 1, rle_v2.encode([1, 1, 1, 1], signed=False)),
    ]
    builder.stripe(4, streams, [(DIRECT, 0), (DICTIONARY_V2, 4)])
    return OddFile(type_, [("a",), ("b",), ("a",), ("b",)], builder.build())


def _all_null(streams: list[Stream], encoding: tuple[int, int]) -> OddFile:
    type_ = parse("struct<s:string>")
    builder = FileBuilder(type_)
    present = Stream(PRESENT, 1, byte_rle.encode_booleans([False] * 20))
    builder.stripe(20, [present, *streams], [(DIRECT, 0), encoding])
    return OddFile(type_, [(None,)] * 20, builder.build(), ())


@odd
def empty_dictionary_with_streams() -> OddFile:
    streams = [Stream(kind, 1, b"") for kind in (DATA, DICTIONARY_DATA, LENGTH)]
    return _all_null(streams, (DICTIONARY_V2, 0))


@odd
def empty_dictionary_without_streams() -> OddFile:
    return _all_null([], (DICTIONARY_V2, 0))


@odd
def all_null_without_data() -> OddFile:
    return _all_null([], (DIRECT_V2, 0))


@odd
def scale_of_each_decimal() -> OddFile:
    """Stored scales differ from the type's and from value to value."""
    type_ = parse("struct<d:decimal(20,4)>")
    texts = ("1.5000", "-2.0000", "0.0000", "1234567.8900", "-0.0100", "99.0000")
    rows = [(Decimal(text),) for text in texts] * 30
    stored = {0: 1, 1: 0, 2: 9, 3: 2, 4: 6, 5: 0}
    encoder = Encoder(scales=lambda row, _: stored[row % 6])
    return OddFile(type_, rows, make_file(type_, rows, encoder), ("pyorc",))


@odd
def versions_of_runs_by_column() -> OddFile:
    """Version 1 in a 0.12 file; the encoding kind decides, not the file's version."""
    rows = mixed_rows()
    return OddFile(MIXED, rows, make_file(MIXED, rows, Encoder(version=1), Options(version=(0, 12))))


@odd
def a_thousand_columns() -> OddFile:
    names = tuple(f"c{i}" for i in range(1000))
    type_ = T("struct", tuple(T(("int", "string", "double")[i % 3]) for i in range(1000)), names)
    row = [(i, f"v{i}", i / 4)[i % 3] for i in range(1000)]
    rows = [tuple(row), tuple([None] * 1000), tuple(row[::1])]
    return OddFile(type_, rows, make_file(type_, rows, options=Options(compression=compression.ZLIB)))


@odd
def rows_of_a_megabyte() -> OddFile:
    type_ = parse("struct<n:int,s:string,b:binary>")
    rows = [(i, chr(97 + i) * 1_000_000, bytes(1_000_000)) for i in range(12)]
    return OddFile(type_, rows, make_file(type_, rows, options=Options(compression=compression.ZLIB)))


@odd
def deep_nesting() -> OddFile:
    type_: T = T("int")
    value: Any = 5
    for _ in range(30):
        type_, value = T("array", (type_,)), [value]
    root = T("struct", (type_,), ("deep",))
    rows: list[Any] = [(value,), (None,), ([],)]
    return OddFile(root, rows, make_file(root, rows))


def _forms(name: str, pairs: Sequence[tuple[bytes, list[int]]], encoding: int) -> OddFile:
    """Runs in a row; every run's values are known."""
    data = b"".join(run for run, _ in pairs)
    numbers = [number for _, run in pairs for number in run]
    builder = FileBuilder(NUMBERS, Options(compression=compression.ZLIB, block_size=33))
    builder.stripe(len(numbers), [Stream(DATA, 1, data)], [(DIRECT, 0), (encoding, 0)])
    return OddFile(NUMBERS, [(number,) for number in numbers], builder.build())


@odd
def every_direct_width() -> OddFile:
    rng = random.Random(5)
    pairs = []
    for width in rle_v2.WIDTHS:
        for count in (1, 2, 7, 512):
            numbers = [rng.randint(-(1 << width - 1), (1 << width - 1) - 1) for _ in range(count)]
            pairs.append((rle_v2.direct(numbers, signed=True, width=width), numbers))
    return _forms("direct", pairs, DIRECT_V2)


@odd
def every_delta_width() -> OddFile:
    rng = random.Random(6)
    pairs = []
    for width in (0, *rle_v2.WIDTHS[1:]):
        for count in (2, 3, 9, 512):
            for sign in (1, -1):
                most = min((1 << width) - 1, (1 << 62) // count)
                first = sign * rng.randint(1, 1000)
                steps = [first] + [
                    first if not width else sign * rng.randint(0, most) for _ in range(count - 2)
                ]
                numbers = [rng.randint(-1000, 1000)]
                for step in steps:
                    numbers.append(numbers[-1] + step)
                pairs.append((rle_v2.delta(numbers, signed=True, width=width), numbers))
    pairs.append((rle_v2.delta([77], signed=True), [77]))  # runs of one value occur
    return _forms("delta", pairs, DIRECT_V2)


@odd
def every_short_repeat() -> OddFile:
    pairs = []
    for size in range(1, 9):
        for count in range(3, 11):
            number = (1 << 8 * size - 2) - 5
            pairs.append(
                (rle_v2.short_repeat(number, count, signed=True, width_bytes=size), [number] * count)
            )
            pairs.append((rle_v2.short_repeat(-number, count, signed=True, width_bytes=8), [-number] * count))
    return _forms("short repeat", pairs, DIRECT_V2)


@odd
def many_patched_bases() -> OddFile:
    """Widths of base, values, gaps and patches; gaps above 255; a negative base; patches at both ends."""
    rng = random.Random(7)
    pairs = []
    for width in (1, 2, 3, 7, 8, 13, 24, 32, 40):
        for patch_width in (1, 4, 9, 16, 21):
            for base in (0, 2000, -2000, -(1 << 40)):
                count = rng.choice((20, 300, 512))
                numbers = [base + rng.randrange(1 << width) for _ in range(count)]
                numbers[5] = base
                for at in {0, 9, count - 1}:
                    numbers[at] = base + (
                        rng.randrange(1 << width) | rng.randrange(1, 1 << patch_width) << width
                    )
                run = rle_v2.patched_base(numbers, base=base, width=width, patch_width=patch_width)
                pairs.append((run, numbers))
    return _forms("patched base", pairs, DIRECT_V2)


@odd
def version_1_forms() -> OddFile:
    pairs = []
    for delta in (-128, -1, 0, 1, 127):
        for length in (3, 4, 130):
            for base in (0, -5, 2**40, -(2**62)):
                numbers = [base + i * delta for i in range(length)]
                pairs.append((rle_v1.run(base, delta, length, signed=True), numbers))
    rng = random.Random(8)
    for count in (1, 2, 128):
        numbers = [rng.randint(-(2**63), 2**63 - 1) for _ in range(count)]
        pairs.append((rle_v1.literals(numbers, signed=True), numbers))
    return _forms("version 1", pairs, DIRECT)


@odd
def smallints_stored_too_wide() -> OddFile:
    """A known writer leaves 16 bits in a wider number: 62463 is -3073."""
    type_ = parse("struct<s:smallint,i:int>")
    builder = FileBuilder(type_)
    streams = [
        Stream(DATA, 1, rle_v2.direct([62463, 65535, -1, 5], signed=True)),
        Stream(DATA, 2, rle_v2.direct([2**32 - 1, 2**31, -(2**31), 5], signed=True)),
    ]
    builder.stripe(4, streams, [(DIRECT, 0), (DIRECT_V2, 0), (DIRECT_V2, 0)])
    rows = [(-3073, -1), (-1, -(2**31)), (-1, -(2**31)), (5, 5)]
    return OddFile(type_, rows, builder.build(), ())


@odd
def negative_fractions() -> OddFile:
    """What pyarrow writes for times before 1970: the second is cut toward zero, the fraction negative."""
    type_ = parse("struct<t:timestamp>")
    builder = FileBuilder(type_)
    streams = [
        Stream(DATA, 1, rle_v2.direct([-1_420_070_400, -1_420_070_401], signed=True)),
        Stream(5, 1, rle_v2.direct([-5 << 3 | 7, -5 << 3 | 4], signed=False)),
    ]
    builder.stripe(2, streams, [(DIRECT, 0), (DIRECT_V2, 0)])
    return OddFile(type_, [(-500_000_000,), (-1_000_500_000,)], builder.build(), ("pyorc",))
