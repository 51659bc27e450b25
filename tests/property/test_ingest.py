"""Arrow arrays of every layout as vectors: what pyarrow says of the array is what it says of our batch.

Arrays come encoded, sliced and nested in each other, with values under their nulls that nobody may see.
"""

# ruff: noqa: DTZ001 - wall clock times have no zone
from __future__ import annotations

import datetime
import decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orcstream.codec.ingest.ingest import UserData
from orcstream.codec.vectors.column import Field, Vector
from orcstream.errors import SchemaMismatch
from orcstream.schema.schema import Schema
from tests.generators.arrow_vectors import batch_of, patient

_TEXT = st.text("aß€😀 ", max_size=14)
_BINARY = st.binary(max_size=14)
_DAYS = st.dates(datetime.date(1900, 1, 1), datetime.date(2200, 1, 1))
_TIMES = st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2200, 1, 1)).map(
    lambda time: time.replace(microsecond=0)
)


def _integers(bits: int, signed: bool) -> st.SearchStrategy[int]:
    return (
        st.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else st.integers(0, (1 << bits) - 1)
    )


def _decimals(digits: int, scale: int) -> st.SearchStrategy[decimal.Decimal]:
    most = 10**digits - 1
    return st.integers(-most, most).map(lambda n: decimal.Decimal(n).scaleb(-scale, decimal.Context(prec=80)))


LEAVES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int8(): _integers(8, True),
    pa.int16(): _integers(16, True),
    pa.int32(): _integers(32, True),
    pa.int64(): _integers(64, True),
    pa.uint8(): _integers(8, False),
    pa.uint16(): _integers(16, False),
    pa.uint32(): _integers(32, False),
    pa.float16(): st.floats(width=16, allow_nan=False),
    pa.float32(): st.floats(width=32, allow_nan=False),
    pa.float64(): st.floats(allow_nan=False),
    pa.string(): _TEXT,
    pa.large_string(): _TEXT,
    pa.string_view(): _TEXT,
    pa.binary(): _BINARY,
    pa.large_binary(): _BINARY,
    pa.binary_view(): _BINARY,
    pa.binary(3): st.binary(min_size=3, max_size=3),
    pa.date32(): _DAYS,
    pa.date64(): _DAYS,
    **{pa.timestamp(unit): _TIMES for unit in ("s", "ms", "us", "ns")},
    pa.timestamp("us", "Europe/Berlin"): _TIMES.map(lambda time: time.replace(tzinfo=datetime.UTC)),
    pa.decimal32(5, 2): _decimals(5, 2),
    pa.decimal64(17, 3): _decimals(17, 3),
    pa.decimal128(38, 7): _decimals(38, 7),
}


@st.composite
def foreign(draw: st.DrawFn, size: int, depth: int = 3) -> pa.Array:
    """An array of this length of any layout that an ORC type takes, cut out of a longer one."""
    before, after = draw(st.integers(0, 9)), draw(st.integers(0, 3))
    whole = draw(_whole(before + size + after, depth))
    return whole.slice(before, size)


@st.composite
def _whole(draw: st.DrawFn, size: int, depth: int) -> pa.Array:
    kinds = ["leaf", "dictionary", "runs"]
    kind = draw(
        st.sampled_from(kinds + (["struct", "list", "views", "fixed", "map", "union"] * 2 if depth else []))
    )
    if kind == "leaf":
        type_ = draw(st.sampled_from(list(LEAVES)))
        values = draw(st.lists(st.none() | LEAVES[type_], min_size=size, max_size=size))
        if type_ == pa.float16():
            values = [None if value is None else np.float16(value) for value in values]
        return pa.array(values, type_)
    if kind == "dictionary":
        entries = draw(foreign(draw(st.integers(1, 4)), 0).filter(_plain))
        indexes = st.none() | st.integers(0, len(entries) - 1)
        index_type = draw(st.sampled_from([pa.int8(), pa.uint16(), pa.int64()]))
        return pa.DictionaryArray.from_arrays(
            pa.array(draw(st.lists(indexes, min_size=size, max_size=size)), index_type), entries
        )
    if kind == "runs":
        lengths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=size + 1))
        ends = np.cumsum([*lengths, size + 1])
        values_ = draw(foreign(len(ends), 0).filter(_plain))
        return pa.RunEndEncodedArray.from_arrays(pa.array(ends, pa.int32()), values_).slice(0, size)
    mask = pa.array(draw(st.lists(st.booleans(), min_size=size, max_size=size)), pa.bool_())
    if kind == "struct":
        children = [draw(foreign(size, depth - 1)) for _ in range(draw(st.integers(1, 3)))]
        return pa.StructArray.from_arrays(children, [f"f{i}" for i in range(len(children))], mask=mask)
    if kind == "union":
        return draw(_unions(size, depth))
    if kind == "fixed":
        return pa.FixedSizeListArray.from_arrays(draw(foreign(2 * size, depth - 1)), 2, mask=mask)
    if kind == "views":
        items = draw(foreign(draw(st.integers(0, 8)), depth - 1))
        starts = draw(st.lists(st.integers(0, len(items)), min_size=size, max_size=size))
        sizes = [draw(st.integers(0, min(3, len(items) - start))) for start in starts]
        index, views = draw(
            st.sampled_from([(pa.int32(), pa.ListViewArray), (pa.int64(), pa.LargeListViewArray)])
        )
        return views.from_arrays(pa.array(starts, index), pa.array(sizes, index), items, mask=mask)
    lengths = draw(st.lists(st.integers(0, 3), min_size=size, max_size=size))
    ends_ = np.cumsum([0, *lengths])
    items = draw(foreign(int(ends_[-1]), depth - 1))
    if kind == "map":
        keys = pa.array(range(len(items)), pa.int32())
        return pa.MapArray.from_arrays(pa.array(ends_, pa.int32()), keys, items, mask=mask)
    index, lists = draw(st.sampled_from([(pa.int32(), pa.ListArray), (pa.int64(), pa.LargeListArray)]))
    return lists.from_arrays(pa.array(ends_, index), items, mask=mask)


# pyarrow 21 tells which values of a sparse union's slice are null by other rows.
SLICES_UNIONS = pa.UnionArray.from_sparse(
    pa.array([0, 0], pa.int8()), [pa.array([None, 1], pa.int8())]
).slice(1).to_pylist() == [1]


def _plain(array: pa.Array) -> bool:
    """Whether pyarrow can say what a dictionary or runs of these values hold."""
    type_ = array.type
    return not (pa.types.is_dictionary(type_) or pa.types.is_run_end_encoded(type_))


@st.composite
def _unions(draw: st.DrawFn, size: int, depth: int) -> pa.Array:
    tags = draw(st.lists(st.integers(0, 1), min_size=size, max_size=size))
    codes, names = [5, 2], ["x", "y"]
    ids = pa.array([codes[tag] for tag in tags], pa.int8())
    if draw(st.booleans() if SLICES_UNIONS else st.just(False)):  # no flag of ours
        children = [draw(foreign(size, depth - 1)) for _ in codes]
        return pa.UnionArray.from_sparse(ids, children, names, codes)
    skipped = draw(st.integers(0, 2))
    places = pa.array([skipped + tags[:row].count(tag) for row, tag in enumerate(tags)], pa.int32())
    children = [draw(foreign(skipped + tags.count(tag), depth - 1)) for tag in range(2)]
    return pa.UnionArray.from_dense(ids, places, children, names, codes)


@patient
@given(st.data())
def test_every_layout_keeps_its_values(data: st.DataObject) -> None:
    size = data.draw(st.integers(0, 10))
    columns = data.draw(st.lists(foreign(size), min_size=1, max_size=3))
    batch = pa.record_batch(columns, [f"c{i}" for i in range(len(columns))])
    user = UserData(batch)
    (rows,) = user.vectors(user.schema())
    found = pa.record_batch(batch_of(rows))
    found.validate(full=True)
    assert found.num_rows == size
    for before, after in zip(columns, found.columns, strict=True):
        assert after.to_pylist() == before.to_pylist()
    for field, vector in zip(rows.fields, rows.vectors, strict=True):
        check_promises(field, vector)


DECIMALS = {32: (pa.decimal32, 9), 64: (pa.decimal64, 18), 128: (pa.decimal128, 38), 256: (pa.decimal256, 76)}


@patient
@given(st.data())
def test_decimals_are_exact_or_refused(data: st.DataObject) -> None:
    make, most = DECIMALS[data.draw(st.sampled_from(list(DECIMALS)))]
    own_scale = data.draw(st.integers(-3, most))
    precision = data.draw(st.integers(1, 38))
    scale = data.draw(st.integers(0, precision))
    digits = data.draw(st.integers(1, most))
    trailing = data.draw(st.integers(0, digits - 1))
    number = data.draw(st.integers(-(10**digits) + 1, 10**digits - 1)) // 10**trailing * 10**trailing
    exact = decimal.Context(prec=200)
    value = decimal.Decimal(number).scaleb(-own_scale, exact)
    table = pa.table({"x": pa.array([None, value], make(most, own_scale))})
    schema = Schema.parse(f"struct<x:decimal({precision},{scale})>")
    unscaled = value.scaleb(scale, exact)
    if unscaled == unscaled.to_integral_value(context=exact) and abs(unscaled) < 10**precision:
        (rows,) = UserData(table).vectors(schema)
        found = pa.record_batch(batch_of(rows))
        assert found["x"].to_pylist() == [None, value]
    else:
        with pytest.raises(SchemaMismatch) as caught:
            list(UserData(table).vectors(schema))
        assert caught.value.row == 1


def check_promises(field: Field, vector: Vector) -> None:
    """What encoders count on."""
    valid = [] if field.format.startswith("+ud:") else validity(vector)
    assert field.format.startswith("+ud:") or vector.null_count in (-1, len(valid) - sum(valid))
    if field.format == "+s":
        for child_field, child in zip(field.children, vector.children, strict=True):
            part = child.slice(vector.offset, vector.offset + vector.length)
            if not child_field.format.startswith("+ud:"):
                below = validity(part)
                assert not [row for row, has in enumerate(valid) if not has and below[row]]
            check_promises(child_field, part)
    elif field.format in ("+l", "+m"):
        count = vector.offset + vector.length + 1
        ends = np.frombuffer(vector.buffers[1], "i4", count)[vector.offset :]  # type: ignore[arg-type, call-overload, unused-ignore]
        assert not [row for row, has in enumerate(valid) if not has and ends[row] != ends[row + 1]]
        check_promises(field.children[0], vector.children[0].slice(int(ends[0]), int(ends[-1])))
    elif field.format.startswith("+ud:"):
        stop = vector.offset + vector.length
        tags = np.frombuffer(vector.buffers[0], "i1", stop) if stop else np.empty(0, "i1")  # type: ignore[arg-type, call-overload, unused-ignore]
        places = np.frombuffer(vector.buffers[1], "i4", stop) if stop else np.empty(0, "i4")  # type: ignore[arg-type, call-overload, unused-ignore]
        tags, places = tags[vector.offset :], places[vector.offset :]
        for tag, child in enumerate(vector.children):
            here = places[tags == tag]
            assert (here == np.arange(here[0], here[0] + len(here))).all() if len(here) else True
            check_promises(field.children[tag], child)


def validity(vector: Vector) -> list[bool]:
    if vector.buffers[0] is None:
        return [True] * vector.length
    raw = bytes(vector.buffers[0])
    rows = range(vector.offset, vector.offset + vector.length)
    return [bool(raw[row // 8] >> row % 8 & 1) for row in rows]
