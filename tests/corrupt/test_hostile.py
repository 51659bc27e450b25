"""Hand-made hostile files: each lies in one place, and is refused for it by the error that says so.

One row a lie: the file, the class of the error, a part of its text. A refusal comes quickly and takes no
memory worth naming; the file that truly holds what it claims (600 MB in 25 KB) is read, in bounded
memory.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import orcstream
from orcstream.errors import (
    CorruptStream,
    CorruptStripe,
    CorruptTail,
    FormatError,
    NotOrcFile,
    OrcError,
    Unsupported,
)
from tests.reference import byte_rle, compression, rle_v1, rle_v2, wire
from tests.reference.builder import FileBuilder, Options, Stream
from tests.reference.columns import Encoder, make_file
from tests.reference.reader import (
    DATA,
    DICTIONARY_DATA,
    DICTIONARY_V2,
    DIRECT,
    DIRECT_V2,
    LENGTH,
    PRESENT,
    SECONDARY,
)
from tests.reference.types import T, parse
from tests.reference.varint import write_varint
from tests.support import hostile

GROWTH_BYTES = 300 << 20


def signed(*numbers: int) -> bytes:
    return rle_v2.encode(numbers, signed=True)


def unsigned(*numbers: int) -> bytes:
    return rle_v2.encode(numbers, signed=False)


def one(
    text: str,
    rows: int,
    streams: list[tuple[int, bytes]],
    encoding: tuple[int, int] = (DIRECT_V2, 0),
    **more: Any,
) -> bytes:
    """A file of one column; its streams by kind. `more` are encodings of columns below it."""
    type_ = parse(f"struct<x:{text}>")
    below = [(DIRECT_V2, 0)] * (len(type_.flatten()) - 2)
    builder = FileBuilder(type_, Options(**more))
    builder.stripe(rows, [Stream(kind, 1, data) for kind, data in streams], [(DIRECT, 0), encoding, *below])
    return builder.build()


def tail_of(types: list[bytes]) -> bytes:
    return FileBuilder(T("struct"), Options(types=types)).build()


def type_message(kind: int, children: list[int], names: list[str]) -> bytes:
    return wire.message((1, kind), (2, children or None), *wire.repeated(3, names))


def with_postscript(*fields: wire.Field) -> bytes:
    rows = [(i,) for i in range(10)]
    return make_file(parse("struct<x:int>"), rows, options=Options(postscript_extra=list(fields)))


def stripe_at(offset: int, index: int, data: int, footer: int, rows: int) -> bytes:
    """A footer whose only stripe is somewhere else."""
    place: list[wire.Field] = [(1, offset), (2, index), (3, data), (4, footer), (5, rows)]
    extra: list[wire.Field] = [(3, wire.message(*place))]
    return FileBuilder(parse("struct<x:int>"), Options(footer_extra=extra, row_count=rows)).build()


def stream_of(kind: int, column: int, length: int) -> bytes:
    """A stripe footer that names one stream of any length."""
    stream = wire.message((1, kind), (2, column), (3, length))
    encoding = wire.message((1, DIRECT_V2))
    footer = wire.message((1, stream), (2, encoding), (2, encoding))
    builder = FileBuilder(parse("struct<x:int>"))
    builder.stripe(10, [Stream(DATA, 1, signed(*range(10)))], [], footer=footer)
    return builder.build()


def deep_types(levels: int) -> bytes:
    lists = [type_message(10, [level + 1], []) for level in range(1, levels)]
    return tail_of([type_message(12, [1], ["x"]), *lists, type_message(3, [], [])])


def bomb(kind: int) -> bytes:
    """A chunk that decompresses to a thousand times the block size."""
    plain = bytes(64 << 20)
    packed = compression.deflate(plain)
    chunk = compression.header(len(packed), original=False) + packed
    builder = FileBuilder(parse("struct<x:binary>"), Options(compression=kind, block_size=65_536))
    streams = [Stream(DATA, 1, chunk, framed=True), Stream(LENGTH, 1, unsigned(len(plain)))]
    builder.stripe(1, streams, [(DIRECT, 0), (DIRECT_V2, 0)])
    return builder.build()


Lie = tuple[Callable[[], bytes], type[OrcError], str]
LIES: dict[str, Lie] = {
    "no_orc_at_all": (lambda: b"PAR1" * 100, NotOrcFile, ""),
    "only_the_magic": (lambda: b"ORC", NotOrcFile, ""),
    "length_of_postscript_only": (lambda: b"\xff" * 10, NotOrcFile, ""),
    "footer_longer_than_the_file": (lambda: with_postscript((1, 1 << 40)), CorruptTail, "tail"),
    "metadata_longer_than_the_file": (lambda: with_postscript((5, 1 << 62)), FormatError, ""),
    "unknown_compression": (lambda: with_postscript((2, 77)), Unsupported, "77"),
    "block_size_of_a_terabyte": (lambda: with_postscript((2, 1), (3, 1 << 40)), OrcError, ""),
    "block_size_zero": (lambda: with_postscript((2, 1), (3, 0)), FormatError, ""),
    "type_is_its_own_child": (lambda: tail_of([type_message(12, [0], ["x"])]), CorruptTail, ""),
    "types_in_a_circle": (
        lambda: tail_of([type_message(12, [1], ["x"]), type_message(10, [2], []), type_message(10, [1], [])]),
        CorruptTail,
        "",
    ),
    "child_that_is_not_there": (lambda: tail_of([type_message(12, [9], ["x"])]), CorruptTail, ""),
    "child_of_two_parents": (
        lambda: tail_of([type_message(12, [1, 1], ["x", "y"]), type_message(3, [], [])]),
        CorruptTail,
        "",
    ),
    "map_of_one_child": (
        lambda: tail_of([type_message(12, [1], ["x"]), type_message(11, [2], []), type_message(3, [], [])]),
        CorruptTail,
        "",
    ),
    "ten_thousand_levels": (lambda: deep_types(10_000), OrcError, ""),
    "stripe_beyond_the_file": (lambda: stripe_at(1 << 50, 0, 10, 10, 5), FormatError, ""),
    "stripe_offsets_overflow": (lambda: stripe_at((1 << 64) - 8, 0, 10, 10, 5), FormatError, ""),
    "stripe_larger_than_the_file": (lambda: stripe_at(3, 0, 1 << 62, 1 << 62, 5), FormatError, ""),
    "rows_without_end": (
        lambda: one("int", (1 << 62), [(DATA, signed(1, 2, 3))]),
        FormatError,
        "",
    ),
    "stream_longer_than_its_stripe": (lambda: stream_of(DATA, 1, 1 << 40), CorruptStripe, ""),
    "stream_of_negative_length": (lambda: stream_of(DATA, 1, (1 << 64) - 5), CorruptStripe, ""),
    "stream_of_no_column": (lambda: stream_of(DATA, 99, 1), CorruptStripe, ""),
    "too_few_encodings": (lambda: one("int", 3, [(DATA, signed(1, 2, 3))], (DIRECT, 0)), CorruptStream, ""),
    "no_data": (lambda: one("int", 3, []), CorruptStream, ""),
    "data_too_short": (lambda: one("int", 5, [(DATA, signed(1, 2, 3))]), CorruptStream, ""),
    "present_too_short": (
        lambda: one(
            "int", 500, [(PRESENT, byte_rle.encode_booleans([True] * 8)), (DATA, signed(*range(500)))]
        ),
        CorruptStream,
        "PRESENT",
    ),
    "present_without_data": (
        lambda: one("int", 8, [(PRESENT, byte_rle.encode_booleans([True] * 8))]),
        FormatError,
        "",
    ),
    "lengths_beyond_the_data": (
        lambda: one("string", 2, [(DATA, b"ab"), (LENGTH, unsigned(1, 5))]),
        CorruptStream,
        "",
    ),
    "negative_length": (
        lambda: one("string", 2, [(DATA, b"ab"), (LENGTH, unsigned(3, -1))]),
        CorruptStream,
        "",
    ),
    "length_of_an_exabyte": (
        lambda: one("string", 1, [(DATA, b"ab"), (LENGTH, unsigned(1 << 60))]),
        OrcError,
        "",
    ),
    "list_of_an_exabyte": (lambda: one("array<int>", 1, [(LENGTH, unsigned(1 << 60))]), OrcError, ""),
    "lists_that_overflow_together": (
        lambda: one("array<int>", 4, [(LENGTH, unsigned(*[(1 << 63) - 1] * 4))]),
        OrcError,
        "",
    ),
    "negative_list": (lambda: one("array<int>", 1, [(LENGTH, unsigned(-1))]), CorruptStream, ""),
    "index_beyond_the_dictionary": (
        lambda: one(
            "string",
            3,
            [(DATA, unsigned(0, 1, 2)), (LENGTH, unsigned(1, 1)), (DICTIONARY_DATA, b"ab")],
            (DICTIONARY_V2, 2),
        ),
        CorruptStream,
        "",
    ),
    "negative_index": (
        lambda: one(
            "string",
            2,
            [(DATA, unsigned(0, -1)), (LENGTH, unsigned(1, 1)), (DICTIONARY_DATA, b"ab")],
            (DICTIONARY_V2, 2),
        ),
        CorruptStream,
        "",
    ),
    "dictionary_of_four_billion": (
        lambda: one(
            "string", 1, [(DATA, unsigned(0)), (LENGTH, unsigned(1))], (DICTIONARY_V2, (1 << 32) - 1)
        ),
        OrcError,
        "",
    ),
    "dictionary_words_overflow": (
        lambda: one(
            "string",
            1,
            [(DATA, unsigned(0)), (LENGTH, unsigned(*[(1 << 62)] * 4)), (DICTIONARY_DATA, b"ab")],
            (DICTIONARY_V2, 4),
        ),
        OrcError,
        "",
    ),
    "no_such_union_child": (
        lambda: one("uniontype<int,string>", 1, [(DATA, byte_rle.encode([2]))], (DIRECT, 0)),
        CorruptStream,
        "tag",
    ),
    "negative_union_tag": (
        lambda: one("uniontype<int,string>", 1, [(DATA, byte_rle.encode([255]))], (DIRECT, 0)),
        CorruptStream,
        "tag",
    ),
    "nanoseconds_beyond_a_second": (
        lambda: one("timestamp", 1, [(DATA, signed(5)), (SECONDARY, unsigned(1_000_000_000 << 3))]),
        CorruptStream,
        "nanosecond",
    ),
    "varint_without_end": (
        lambda: one("bigint", 1, [(DATA, b"\xff" + b"\xff" * 50)], (DIRECT, 0)),
        CorruptStream,
        "",
    ),
    "decimal_of_300_digits": (
        lambda: one("decimal(38,0)", 1, [(DATA, write_varint(10**300)), (SECONDARY, signed(0))]),
        FormatError,
        "",
    ),
    "decimal_scale_of_a_billion": (
        lambda: one("decimal(38,0)", 1, [(DATA, b"\x02"), (SECONDARY, signed(-1_000_000_000))]),
        FormatError,
        "",
    ),
    "patches_wider_than_a_number": (
        lambda: one("bigint", 3, [(DATA, bytes((0x80 | 31 << 1, 2, 0x1F, 0xE1, 0)) + bytes(100))]),
        CorruptStream,
        "",
    ),
    "text_that_is_no_utf8": (
        lambda: one("string", 3, [(DATA, b"ok\xffok"), (LENGTH, unsigned(2, 1, 2))]),
        FormatError,
        "UTF-8",
    ),
    "text_cut_inside_a_character": (
        lambda: one("string", 2, [(DATA, "ü".encode()), (LENGTH, unsigned(1, 1))]),
        FormatError,
        "UTF-8",
    ),
    "chunk_beyond_its_block": (lambda: bomb(compression.ZLIB), FormatError, ""),
    "chunk_beyond_its_stream": (
        lambda: stored_chunk(compression.header(5000, original=True) + b"abc"),
        FormatError,
        "",
    ),
}


def stored_chunk(chunk: bytes) -> bytes:
    builder = FileBuilder(parse("struct<x:int>"), Options(compression=compression.ZLIB))
    builder.stripe(10, [Stream(DATA, 1, chunk, framed=True)], [(DIRECT, 0), (DIRECT_V2, 0)])
    return builder.build()


@pytest.mark.anyio
@pytest.mark.timeout(30)
@pytest.mark.parametrize("name", LIES)
async def test_lies(tmp_path: Path, name: str) -> None:
    make, error, text = LIES[name]
    path = tmp_path / f"{name}.orc"
    path.write_bytes(make())
    before = hostile.peak_bytes()
    with pytest.raises(error) as caught:
        async with orcstream.open(str(path)) as file:
            await file.read()
    assert isinstance(caught.value, (FormatError, Unsupported))
    assert text.lower() in str(caught.value).lower()
    assert caught.value.url is not None and name in caught.value.url
    assert hostile.peak_bytes() - before < GROWTH_BYTES


@pytest.mark.anyio
async def test_bad_text_says_where_and_can_be_binary(tmp_path: Path) -> None:
    path = tmp_path / "text.orc"
    path.write_bytes(LIES["text_that_is_no_utf8"][0]())
    async with orcstream.open(str(path)) as file:
        with pytest.raises(FormatError) as caught:
            await file.read()
        assert (caught.value.stripe, caught.value.column, caught.value.row) == (0, 1, 1)
        found = await file.read(invalid_utf8="binary")
    assert found.to_pylist() == [{"x": b"ok"}, {"x": b"\xff"}, {"x": b"ok"}]


@pytest.mark.anyio
async def test_small_file_of_much_data(tmp_path: Path) -> None:
    """75 million numbers in a few kilobytes of runs: all of them come, and never all at once."""
    count = 75_000_000
    runs = rle_v1.run(7, 0, 130, signed=True) * (count // 130) + rle_v1.literals(
        [7] * (count % 130), signed=True
    )
    options = Options(compression=compression.ZLIB, block_size=256 * 1024)
    builder = FileBuilder(parse("struct<x:bigint>"), options)
    builder.stripe(count, [Stream(DATA, 1, runs)], [(DIRECT, 0), (DIRECT, 0)])
    path = tmp_path / "runs.orc"
    path.write_bytes(builder.build())
    assert path.stat().st_size < 25_000
    before = hostile.peak_bytes()
    rows = total = 0
    async with (
        orcstream.open(str(path)) as file,
        file.batches(memory_limit=64 << 20, batch_rows=65_536) as stream,
    ):
        async for batch in stream:
            rows += batch.num_rows
            total += int(batch.to_numpy()["x"].sum())
    assert (rows, total) == (count, 7 * count)
    grown = hostile.peak_bytes() - before
    assert grown < 200 << 20, f"{grown >> 20} MiB"


@pytest.mark.anyio
async def test_dictionary_larger_than_the_budget(tmp_path: Path) -> None:
    words = [f"{i:0>400}" for i in range(40_000)]  # 16 MB
    rows = [(word,) for word in words]
    path = tmp_path / "words.orc"
    path.write_bytes(make_file(parse("struct<s:string>"), rows, Encoder(dictionary=True)))
    async with orcstream.open(str(path)) as file:
        with pytest.raises(Unsupported) as caught:
            await file.read(memory_limit=4 << 20)
        assert caught.value.reason == "dictionary_too_large"
        assert "memory_limit" in caught.value.message
        assert len((await file.read(memory_limit=256 << 20)).to_pylist()) == len(rows)


@pytest.mark.anyio
async def test_statistics_that_are_no_message_are_findings(tmp_path: Path) -> None:
    """`verify` names the column and goes on."""
    metadata = wire.message((1, wire.message((1, b"\xff"), (1, b"\xff"))))
    builder = FileBuilder(parse("struct<x:int>"), Options(metadata=metadata))
    builder.stripe(3, [Stream(DATA, 1, signed(1, 2, 3))], [(DIRECT, 0), (DIRECT_V2, 0)])
    path = tmp_path / "statistics.orc"
    path.write_bytes(builder.build())
    async with orcstream.open(str(path)) as file:
        found = await file.verify()
    assert {(fault.kind, fault.stripe, fault.column) for fault in found.faults} == {
        ("unreadable", 0, ""),
        ("unreadable", 0, "x"),
    }
    assert found.row_count == 3
