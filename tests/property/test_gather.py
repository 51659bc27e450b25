"""Selected rows brought together, as pyarrow's `filter`, `take` and `concat_arrays` do it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orcstream.batch import Column
from orcstream.batch_values import to_pylist
from orcstream.codec.vectors._selection import Selection, select_mask, select_positions, select_span
from orcstream.codec.vectors.column import Field, Vector
from orcstream.codec.vectors.gather import compact
from orcstream.errors import Unsupported
from tests.generators.arrow_vectors import LEAVES, arrays, field_from, memory, patient, vector_from


def out_of(field: Field, vector: Vector) -> pa.Array:
    array = pa.array(Column(field, vector))
    array.validate(full=True)
    return array


def plain(array: pa.Array) -> list[Any]:
    """The array's values as `to_pylist` of a vector gives them."""
    return to_pylist(field_from("x", array.type), vector_from(array))


@st.composite
def masks(draw: st.DrawFn, size: int) -> list[bool]:
    """Scattered rows, or long runs of them."""
    if draw(st.booleans()):
        return draw(st.lists(st.booleans(), min_size=size, max_size=size))
    ends = draw(st.lists(st.integers(0, size), max_size=3).map(sorted))
    return [sum(end <= row for end in ends) % 2 == 1 for row in range(size)]


def selected(mask: list[bool]) -> Selection:
    selection = select_mask(bytes(mask), len(mask))
    assert len(selection) == selection.count == sum(mask)
    numbers = memoryview(selection.numbers(10)).cast("q").tolist()
    assert numbers == [10 + row for row, wanted in enumerate(mask) if wanted]
    return selection


@st.composite
def parts(draw: st.DrawFn) -> list[tuple[pa.Array, list[bool] | None]]:
    """Slices of arrays of one type, each with a mask or None for all rows."""
    whole = draw(arrays(length=draw(st.integers(0, 40))))
    found = []
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(whole)))
        array = whole.slice(start, draw(st.integers(0, len(whole) - start)))
        found.append((array, draw(st.none() | masks(len(array)))))
    return found


@patient
@given(parts(), st.booleans())
def test_rows_of_every_type(cases: list[tuple[pa.Array, list[bool] | None]], counted: bool) -> None:
    field = field_from("x", cases[0][0].type)
    vectors = [
        (vector_from(array, count_nulls=counted), None if mask is None else selected(mask))
        for array, mask in cases
    ]
    found = compact(vectors, field)
    expected = [
        value for array, mask in cases for row, value in enumerate(plain(array)) if mask is None or mask[row]
    ]
    assert found.length == len(expected)
    assert to_pylist(field, found) == expected
    assert plain(out_of(field, found)) == expected


@patient
@given(st.data())
def test_rows_of_flat_types_are_pyarrows(data: st.DataObject) -> None:
    type_ = data.draw(st.sampled_from([*LEAVES, pa.list_(pa.string()), pa.struct([("a", pa.int16())])]))
    values = LEAVES.get(type_, st.none())
    cases = []
    for _ in range(data.draw(st.integers(1, 3))):
        array = pa.array(data.draw(st.lists(st.none() | values, max_size=60)), type_)
        array = array.slice(data.draw(st.integers(0, len(array))))
        cases.append((array, data.draw(masks(len(array)))))
    field = field_from("x", type_)
    found = compact([(vector_from(array), selected(mask)) for array, mask in cases], field)
    expected = pa.concat_arrays([array.filter(pa.array(mask, pa.bool_())) for array, mask in cases])
    array = out_of(field, found)
    assert array.equals(expected.cast(array.type))
    assert found.null_count in (array.null_count, -1)


@patient
@given(st.data())
def test_any_order_of_rows(data: st.DataObject) -> None:
    array = data.draw(arrays(length=data.draw(st.integers(1, 30))))
    positions = data.draw(st.lists(st.integers(0, len(array) - 1), max_size=60))
    if data.draw(st.booleans()):
        positions = sorted(positions) + list(range(len(array)))
    field = field_from("x", array.type)
    selection = select_positions(memory(positions), len(positions), len(array))
    values = plain(array)
    found = compact([(vector_from(array), selection)], field)
    assert plain(out_of(field, found)) == [values[position] for position in positions]


@patient
@given(st.data())
def test_dictionaries(data: st.DataObject) -> None:
    words = st.none() | st.text("abß", max_size=3)
    cases = []
    for _ in range(data.draw(st.integers(1, 3))):
        array = pa.array(data.draw(st.lists(words, max_size=30)), pa.string()).dictionary_encode()
        for _ in range(data.draw(st.integers(1, 2))):
            start = data.draw(st.integers(0, len(array)))
            part = array.slice(start)
            cases.append((part, data.draw(st.none() | masks(len(part)))))
    field = field_from("x", pa.dictionary(pa.int32(), pa.string()))
    found = compact(
        [(vector_from(array), None if mask is None else selected(mask)) for array, mask in cases], field
    )
    expected = [
        value
        for array, mask in cases
        for row, value in enumerate(array.to_pylist())
        if mask is None or mask[row]
    ]
    assert out_of(field, found).to_pylist() == expected


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 63, 64, 65, 1000])
@pytest.mark.parametrize("density", [0.0, 0.03, 0.5, 0.97, 1.0])
@pytest.mark.parametrize("offset", [0, 1, 8, 13])
def test_masks_of_every_density(size: int, density: float, offset: int) -> None:
    rng = np.random.default_rng(size)
    mask = rng.random(size) < density
    values = rng.integers(-(2**62), 2**62, size + offset)
    for type_ in (pa.int64(), pa.bool_(), pa.string()):
        plain_values = values % 2 == 0 if type_ == pa.bool_() else values
        array = pa.array(plain_values, mask=rng.random(size + offset) < 0.2).cast(type_).slice(offset)
        field = field_from("x", type_)
        found = compact([(vector_from(array), select_mask(mask, size))], field)
        assert out_of(field, found).equals(array.filter(pa.array(mask)))


# --- memory that is shared, and what is refused ------------------------------------------------------

BIGINT, TEXT = field_from("n", pa.int64()), field_from("t", pa.string())


def test_all_rows_are_the_vector_itself() -> None:
    vector = vector_from(pa.array([1, 2, 3]))
    everything = select_mask(b"\1\1\1", 3)
    assert everything.whole
    assert compact([(vector, None)], BIGINT) is vector
    assert compact([(vector, everything)], BIGINT) is vector
    assert compact([(vector, select_span(0, 0, 3)), (vector, None)], BIGINT) is vector


def test_long_runs_share_memory_and_short_ones_do_not() -> None:
    vector = vector_from(pa.array(range(100)))
    most, few = (compact([(vector, select_span(40, stop, 100))], BIGINT) for stop in (95, 45))
    assert most.buffers[1] is vector.buffers[1]
    assert few.buffers[1] is not vector.buffers[1]
    assert to_pylist(BIGINT, most) == [*range(40, 95)]
    assert to_pylist(BIGINT, few) == [*range(40, 45)]


def test_a_shared_dictionary_is_kept() -> None:
    array = pa.array(["a", "b", "c", "a"] * 5).dictionary_encode()
    vector = vector_from(array)
    field = field_from("x", array.type)
    picked = [(vector.slice(0, 10), select_mask(b"\1\0" * 5, 10)), (vector.slice(10, 20), None)]
    found = compact(picked, field)
    assert found.dictionary is vector.dictionary
    assert to_pylist(field, found) == array.to_pylist()[0:10:2] + array.to_pylist()[10:]


def test_few_rows_of_large_dictionaries_get_a_small_one() -> None:
    pieces = [pa.array([f"{part} {i}" for i in range(1000)]).dictionary_encode() for part in range(3)]
    field = field_from("x", pieces[0].type)
    found = compact([(vector_from(piece), select_span(500, 502, 1000)) for piece in pieces], field)
    assert found.dictionary is not None
    assert found.dictionary.length == 6
    assert to_pylist(field, found) == [f"{part} {i}" for part in range(3) for i in (500, 501)]


def test_no_parts_are_an_empty_vector() -> None:
    for type_ in (pa.int64(), pa.string(), pa.list_(pa.bool_()), pa.dictionary(pa.int32(), pa.string())):
        field = field_from("x", type_)
        assert out_of(field, compact([], field)).to_pylist() == []


def test_a_selection_must_be_of_the_vectors_rows() -> None:
    vector = vector_from(pa.array([1, 2, 3]))
    with pytest.raises(ValueError, match="4 rows"):
        compact([(vector, select_span(0, 1, 4))], BIGINT)
    for bad in ([-1], [3], [2**40]):
        with pytest.raises(ValueError, match=r"\bposition\b"):
            select_positions(memory(bad), 1, 3)
    for start, stop in ((-1, 2), (2, 1), (0, 4)):
        with pytest.raises(ValueError, match=r"\bspan\b"):
            select_span(start, stop, 3)
    with pytest.raises(ValueError, match=r"\bbuffer\b"):
        select_mask(b"\1", 2)


def test_offsets_beyond_their_bytes_are_refused() -> None:
    some = select_span(1, 2, 3)
    for ends in ([0, 1, 9, 9], [0, 2, 1, 3], [0, -1, 2, 3]):
        with pytest.raises(ValueError, match=r"\boffsets\b.*\bbytes\b"):
            compact([(Vector(3, (None, memory(ends, "i4"), b"abc")), some)], TEXT)
    lists = field_from("x", pa.list_(pa.int64()))
    child = vector_from(pa.array([1, 2]))
    with pytest.raises(ValueError, match=r"\boffsets\b.*\bitems\b"):
        compact([(Vector(3, (None, memory([0, 1, 9, 9], "i4")), children=(child,)), some)], lists)
    with pytest.raises(ValueError, match=r"\bbuffer\b"):
        compact([(Vector(3, (None, memory([0]))), some)], BIGINT)


def test_too_much_text_is_refused() -> None:
    size = 2**30
    data: Any = np.zeros(size, "u1")
    vector = Vector(1, (None, memory([0, size], "i4"), data))
    with pytest.raises(Unsupported, match="batch_rows") as refused:
        compact([(vector, None)] * 2, TEXT)
    assert refused.value.reason == "vector_too_large"


def test_too_many_items_are_refused() -> None:
    lists = field_from("x", pa.list_(pa.int8()))
    zeros: Any = np.zeros(2**30, "u1")
    child = Vector(2**30, (None, zeros), 0)
    vector = Vector(1, (None, memory([0, 2**30], "i4")), children=(child,))
    with pytest.raises(Unsupported, match="batch_rows"):
        compact([(vector, None)] * 2, lists)
