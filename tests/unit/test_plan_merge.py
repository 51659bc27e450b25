"""What is copied of files that are merged, and what their tails become, where files lack something.

The files are made here, by a builder that says whatever it is told; what is expected is what it was told.
"""

from __future__ import annotations

import asyncio
import io
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc

import orcstream
from orcstream import blocking
from orcstream.byterange import ByteRange
from orcstream.codec.metadata.structure import StatisticsList
from orcstream.errors import Unsupported, UsageError
from orcstream.plan.merge import merge as plan
from orcstream.plan.merge.merge import FileMerger
from orcstream.plan.merge.variants import OpenedStatistics
from orcstream.plan.tail import Tail, parse_stripe_statistics, plan_tail
from tests.reference import statistics, wire
from tests.reference.builder import FileBuilder, Options
from tests.reference.columns import add_stripe
from tests.reference.statistics import Statistics
from tests.support.read_sources import SAMPLE, sample, sample_rows

NOTHING_OPENED = OpenedStatistics(StatisticsList(()), ())


def made(
    stripes: int = 2, rows: int = 5, *, first: int = 0, pads: tuple[int, ...] = (), **options: Any
) -> bytes:
    builder = FileBuilder(SAMPLE, Options(**{"statistics": statistics.honest, **options}))
    for number in range(stripes):
        add_stripe(builder, sample_rows(first + number, rows))
        if number < len(pads):
            builder.pad(pads[number])
    return builder.build()


def tail_of(data: bytes) -> Tail:
    tail = plan_tail(memoryview(data), len(data))
    assert isinstance(tail, Tail)
    return tail


def merged(*files: bytes, **options: Any) -> bytes:
    """The result over the whole way, which puts the tail to the test."""

    async def run() -> bytes:
        buffer = io.BytesIO()
        await orcstream.merge(files, buffer, **options)
        return buffer.getvalue()

    return asyncio.run(run())


def rows_of(data: bytes, **options: Any) -> list[tuple[Any, ...]]:
    async def run() -> list[tuple[Any, ...]]:
        async with orcstream.open(data) as file:
            return [tuple(row.values()) for row in (await file.read(**options)).to_pylist()]

    return asyncio.run(run())


def stripe_bounds(data: bytes) -> list[tuple[Any, Any] | None]:
    """Of column 1, by stripe."""
    tail = tail_of(data)
    section = data[tail.metadata_range.start : tail.metadata_range.stop]
    found = [one.get(1) for one in parse_stripe_statistics(tail, section)]
    return [(one.minimum, one.maximum) if one is not None else None for one in found]


# --- what is copied --------------------------------------------------------------------------------


def test_stripes_side_by_side_are_one_range() -> None:
    tail = tail_of(made(4))
    merger = FileMerger({})
    stop = tail.footer.stripes[-1].range.stop
    assert merger.add(tail, (), NOTHING_OPENED) == [ByteRange(3, stop)]
    assert (merger.length, merger.row_count, merger.stripe_count) == (stop, 20, 4)


def test_padding_is_left_out() -> None:
    padded, plain = made(3, pads=(100, 0, 7)), made(3)
    tail = tail_of(padded)
    one, two, three = (stripe.range for stripe in tail.footer.stripes)
    assert FileMerger({}).add(tail, (), NOTHING_OPENED) == [one, ByteRange(two.start, three.stop)]
    assert merged(padded, padded) == merged(plain, plain)


def test_stripes_keep_the_order_of_their_rows() -> None:
    """Wherever they lie in the file."""
    tail = tail_of(made(3))
    stripes = [stripe.range for stripe in tail.footer.stripes]
    footer = tail.footer
    shuffled = (footer.stripes[2], footer.stripes[0], footer.stripes[1])
    tail = replace(tail, footer=replace(footer, stripes=shuffled))
    assert FileMerger({}).add(tail, (), NOTHING_OPENED) == [
        stripes[2],
        ByteRange(stripes[0].start, stripes[1].stop),
    ]


def test_files_without_stripes() -> None:
    empty = made(0)
    assert rows_of(merged(empty, empty)) == []
    assert rows_of(merged(empty, made(1), empty)) == rows_of(made(1))
    assert tail_of(merged(empty, made(2))).footer.statistics == tail_of(made(2)).footer.statistics
    assert tail_of(merged(empty, made(1), empty)).footer.row_count == 5


def test_one_file_is_the_same_file_again() -> None:
    data = merged(made(3, pads=(9,)))
    assert rows_of(data) == rows_of(made(3))
    assert merged(data) == data


def test_files_without_bytes_are_left_out() -> None:
    result = blocking.merge([b"", made(1), b""], path := io.BytesIO())
    assert result.row_count == 5
    assert [one.reason for one in result.skipped] == ["empty", "empty"]
    assert len(result.files) == 1
    assert rows_of(path.getvalue()) == rows_of(made(1))
    with pytest.raises(UsageError, match="<bytes>"):
        merged(b"", b"")


# --- statistics ------------------------------------------------------------------------------------


def test_stripe_statistics_are_kept_and_prune() -> None:
    data = merged(made(2), made(2, first=2))
    values: list[list[Any]] = [[row[0] for row in sample_rows(number, 5)] for number in range(4)]
    assert stripe_bounds(data) == [(min(one), max(one)) for one in values]
    wanted = [row for number in range(4) for row in sample_rows(number, 5) if row[0] == values[2][3]]
    assert rows_of(data, where=orcstream.col("a") == values[2][3]) == wanted


def test_stripe_statistics_end_with_the_first_gap() -> None:
    """As readers understand a list that is too short."""
    without = made(2, first=2, statistics=None)
    data = merged(made(2), without, made(1, first=4))
    assert len(stripe_bounds(data)) == 2
    expected = [row for number in range(5) for row in sample_rows(number, 5)]
    assert rows_of(data) == expected
    for row in expected:
        assert row in rows_of(data, where=orcstream.col("a") == row[0])


@pytest.mark.parametrize(
    "second",
    [statistics.of_nothing, lambda *_: b"", lambda *_: wire.message((10, 1))],
    ids=["no value and no null", "nothing", "no count"],
)
def test_statistics_that_are_not_known_are_not_claimed(second: Statistics) -> None:
    """A count that is missing would read as no values: some readers take that for nulls only."""
    data = merged(made(2), made(2, first=2, statistics=second))
    assert len(tail_of(data).footer.statistics) == 0
    assert len(stripe_bounds(data)) == 4
    assert len(rows_of(data, where=orcstream.col("a") >= 0)) == 20


def test_a_field_that_was_not_counted() -> None:
    """Only one column's statistics are those of a writer that did not count (HIVE-20604)."""

    def mixed(type_: Any, found: Any) -> bytes:
        return (statistics.of_nothing if type_.kind == "string" else statistics.honest)(type_, found)

    assert len(tail_of(merged(made(1), made(1, statistics=mixed))).footer.statistics) == 0


def test_only_nulls_are_known() -> None:
    def nulls(type_: Any, found: Any) -> bytes:
        count = 0 if type_.kind == "string" else len(found)
        return wire.message((1, count), (10, int(not count)))

    found = tail_of(merged(made(1), made(1, statistics=nulls))).footer.statistics.get(2)
    assert found is not None
    assert (found.value_count, found.has_null, found.maximum) == (5, True, "row 4")


@pytest.mark.parametrize("order", [1, -1])
def test_bounds_that_are_no_numbers(order: int) -> None:
    """ORC C++ records NaN where it met one first, whatever came after it: what others know does not help."""

    def recorded(type_: Any, found: Any) -> bytes:
        if type_.kind != "double":
            return statistics.honest(type_, found)
        bounds = wire.message((1, math.nan), (2, math.nan), (3, math.nan))
        return wire.message((1, len(found)), (3, bounds), (10, 0))

    files = [made(1), made(1, first=1, statistics=recorded)][::order]
    found = tail_of(merged(*files)).footer.statistics.get(3)
    assert found is not None
    assert [str(found.minimum), str(found.maximum), str(found.sum)] == ["nan"] * 3


def test_statistics_of_different_kinds() -> None:
    def odd(type_: Any, found: Any) -> bytes:
        if type_.kind != "int":
            return statistics.honest(type_, found)
        return statistics.honest(SAMPLE.children[1], list(map(str, found)))

    assert len(tail_of(merged(made(1), made(1, statistics=odd))).footer.statistics) == 0


def test_numbers_beyond_their_fields() -> None:
    def huge(type_: Any, found: Any) -> bytes:
        return wire.message((1, (1 << 64) - 1), (10, 0))

    assert len(tail_of(merged(*[made(1, statistics=huge)] * 2)).footer.statistics) == 0


def test_the_file_metadata_stay_short_enough_to_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    one = len(made(1)) * 3
    monkeypatch.setattr(plan, "METADATA_CAP_BYTES", one)
    data = merged(*[made(1)] * 50)
    assert 0 < len(stripe_bounds(data)) < 50
    assert tail_of(data).metadata_range.length <= one
    assert len(rows_of(data)) == 250


def test_a_footer_that_nobody_would_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "MESSAGE_CAP_BYTES", 500)
    with pytest.raises(Unsupported) as caught:
        merged(*[made(1)] * 50)
    assert caught.value.reason == "metadata_too_large"


# --- what else the tail says -----------------------------------------------------------------------


def test_the_tail_is_that_of_the_files() -> None:
    options: dict[str, Any] = {
        "writer": 4,
        "writer_version": 6,
        "version": (0, 11),
        "calendar": 2,
        "stride": 3,
    }
    options |= {"block_size": 1000, "compression": 1}
    tail = tail_of(merged(made(**options), made(**{**options, "block_size": 5000}), made(**options)))
    postscript, footer = tail.postscript, tail.footer
    assert (postscript.writer_version, postscript.version, postscript.compression) == (6, (0, 11), 1)
    assert postscript.compression_block_size == 5000
    assert (footer.writer, footer.calendar, footer.row_index_stride) == (4, 2, 3)


@pytest.mark.parametrize(
    ("versions", "expected"),
    [(("1", "1"), "1"), (("1", "2"), None), (("1", None, "1"), None), ((None, "1"), None)],
)
def test_no_software_is_named_that_did_not_write_all(
    versions: tuple[str | None, ...], expected: str | None
) -> None:
    data = merged(*(made(software=None if one is None else one) for one in versions))
    assert tail_of(data).footer.software_version == expected


def user_metadata(**values: bytes) -> list[wire.Field]:
    return wire.repeated(5, [wire.message((1, name.encode()), (2, value)) for name, value in values.items()])


def test_user_metadata() -> None:
    files = [
        made(footer_extra=user_metadata(a=b"1", b=b"\xff")),
        made(footer_extra=user_metadata(c=b"", a=b"1")),
    ]
    assert tail_of(merged(*files)).footer.user_metadata == {"a": b"1", "b": b"\xff", "c": b""}
    files.append(made(footer_extra=user_metadata(a=b"2")))
    with pytest.raises(UsageError, match="'a'"):
        merged(*files)
    ours = tail_of(merged(*files, user_metadata={"a": "3", "d": b"4"})).footer.user_metadata
    assert ours == {"a": b"3", "b": b"\xff", "c": b"", "d": b"4"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"compression": 1}, r"\bcompression\b.*\bZLIB\b.*\bNONE\b"),
        ({"writer_version": 8}, r"\bwriter version\b.*\b8\b.*\b9\b"),
        ({"stride": 7}, r"\brow index stride\b.*\b7\b.*\b0\b"),
        ({"calendar": 1}, r"\bJULIAN_GREGORIAN\b.*\bPROLEPTIC_GREGORIAN\b"),
        ({"writer": 1, "writer_version": 6}, r"\bwriter\b.*\b1\b.*\b0\b"),
    ],
)
def test_errors_say_what_differs(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=rf"{message}.*\bskip_incompatible=True\b"):
        merged(made(), made(**change))


def test_blocks_that_no_writer_makes() -> None:
    with pytest.raises(Unsupported) as caught:
        merged(made(compression=1, block_size=1 << 23))
    assert caught.value.reason == "block_size"


@pytest.mark.parametrize(
    "call",
    [
        lambda: merged(),
        lambda: blocking.merge("one.orc", io.BytesIO()),
        lambda: blocking.merge(Path("one.orc"), io.BytesIO()),  # type: ignore[arg-type]
        lambda: blocking.merge(made(), io.BytesIO()),  # type: ignore[arg-type]
        lambda: blocking.merge([None], io.BytesIO()),  # type: ignore[list-item]
        lambda: merged(made(), user_metadata={"a": 1}),
        lambda: merged(made(), user_metadata={1: "a"}),
        lambda: merged(made(), io_options={"parts": 1}),
        lambda: merged(made(), sink_options={"parts": 1}),
        lambda: blocking.merge([made()], 5),  # type: ignore[arg-type]
    ],
)
def test_wrong_calls(call: Callable[[], object]) -> None:
    with pytest.raises(UsageError):
        call()


def test_arrow_reads_it(tmp_path: Path) -> None:
    (tmp_path / "a.orc").write_bytes(sample())
    blocking.merge([tmp_path / "a.orc", sample()], tmp_path / "b.orc")
    table = orc.read_table(tmp_path / "a.orc")
    assert orc.read_table(tmp_path / "b.orc").equals(pa.concat_tables([table, table]))


def test_results_hide_credentials(tmp_path: Path) -> None:
    file = orcstream.SkippedFile("https://me:secret@example.org/a.orc", "schema", "it differs")
    assert "secret" not in f"{file!r} {file.shown}"
    assert file.shown.endswith("example.org/a.orc")
