"""The Arrow C export: what consumers read, who holds which memory how long, and what is refused.

The interface is also driven here by hand, through ctypes: consumers may do what pyarrow does not (move one
child out, release on a thread of their own, never consume).
"""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
import timeit
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orcstream.codec.arrow._arrow_c import export_array, export_schema, export_stream, export_vectors
from orcstream.codec.vectors._selection import count_nulls
from orcstream.codec.vectors.column import Field, Vector, VectorOptions, field_of
from orcstream.errors import Unsupported
from orcstream.schema.schema import Schema
from tests.generators.arrow_vectors import arrays, field_from, memory, patient, sliced_arrays, vector_from
from tests.support.arrow_structs import CArray, CSchema, opened

BIGINT = field_from("n", pa.int64())
TEXT = field_from("t", pa.string())


class Exported:
    """A consumer's view of one exported vector."""

    def __init__(self, field: Field, vector: Vector) -> None:
        self.field, self.vector = field, vector

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return export_array(self.field, self.vector)


class Stream:
    def __init__(self, field: Field, pull: Callable[[], Vector | None]) -> None:
        self.field, self.pull = field, pull

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return export_stream(self.field, self.pull)


def through_export(array: pa.Array, *, count_nulls: bool = True) -> pa.Array:
    exported = Exported(field_from("x", array.type), vector_from(array, count_nulls=count_nulls))
    return pa.array(exported)


def struct_of(*fields: Field) -> Field:
    return Field("", "+s", BIGINT.type, nullable=False, children=fields)


# --- what consumers do in C -----------------------------------------------------------------------


def moved(struct: Any) -> Any:
    """What a consumer does that takes over: copy the struct, mark the original as released."""
    copy = type(struct).from_buffer_copy(struct)
    struct.release = None
    return copy


def release(struct: Any) -> None:
    # A CFUNCTYPE call gives up the interpreter lock, as a foreign library would.
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(struct.release)(ctypes.addressof(struct))
    assert struct.release is None


def owned(values: list[int]) -> tuple[Any, Vector]:
    """A vector, and the owner of its memory (numpy arrays can be weakly referenced)."""
    owner = memory(values)
    return owner, Vector(len(values), (None, owner), 0)


# --- every type -----------------------------------------------------------------------------------

MAP = pa.map_(pa.string(), pa.int32())
SAMPLES = [
    pa.array([True, None, False, True, True, None, False, True, True]),
    pa.array([1, None, -3], pa.int8()),
    pa.array([1, None, -3], pa.int16()),
    pa.array([1, None, -3], pa.int32()),
    pa.array([1, None, -3], pa.int64()),
    pa.array([1.5, None, -0.0], pa.float32()),
    pa.array([1.5, None, float("inf")], pa.float64()),
    pa.array(["", None, "größe", "x" * 100]),
    pa.array([b"", None, b"\x00\xff"]),
    pa.array([0, None, -719162], pa.date32()),
    pa.array([0, None, 10**18], pa.timestamp("ns")),
    pa.array([0, None, 10**15], pa.timestamp("us")),
    pa.array([0, None, 10**12], pa.timestamp("ms")),
    pa.array([0, None, 10**9], pa.timestamp("s")),
    pa.array([0, None, 10**18], pa.timestamp("ns", "UTC")),
    pa.array([None, 10**30, -1], pa.decimal128(38, 0)),
    pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": None}]),
    pa.array([[1, None], None, [], [3]]),
    pa.array([[[1], None], None, [[]], [[2, 3], [4]]]),
    pa.array([[("a", 1), ("b", None)], None, []], MAP),
    pa.array(["x", None, "y", "x"]).dictionary_encode(),
    pa.UnionArray.from_dense(
        pa.array([0, 1, 0, 1], pa.int8()),
        pa.array([0, 0, 1, 1], pa.int32()),
        [pa.array([5, None]), pa.array(["a", "b"])],
        ["_union_0", "_union_1"],
    ),
    pa.array([], pa.int64()),
    pa.array([], pa.string()),
    pa.array([], pa.list_(pa.bool_())),
    pa.array([], MAP),
    pa.array([None, None], pa.float64()),
]


@pytest.mark.parametrize("array", SAMPLES, ids=lambda array: str(array.type))
@pytest.mark.parametrize("start", [0, 1])
def test_every_type_arrives_equal(array: pa.Array, start: int) -> None:
    sliced = array.slice(start)
    result = through_export(sliced)
    result.validate(full=True)
    assert result.type == array.type
    assert result.equals(sliced)


@patient
@given(sliced_arrays(), st.booleans())
def test_random_arrays_arrive_equal(array: pa.Array, counted: bool) -> None:
    result = through_export(array, count_nulls=counted)
    result.validate(full=True)
    assert result.equals(array)
    assert result.null_count == array.null_count


@patient
@given(arrays(), st.data())
def test_a_slice_of_a_vector_is_the_slice_of_the_array(array: pa.Array, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(array)))
    stop = data.draw(st.integers(start, len(array)))
    vector = vector_from(array).slice(start, stop)
    result = pa.array(Exported(field_from("x", array.type), vector))
    result.validate(full=True)
    assert result.equals(array.slice(start, stop - start))


def test_no_buffer_is_copied() -> None:
    array = pa.array([[("a", 1), ("b", None)], None, [("c", 2)]], MAP)
    before = [buffer and buffer.address for buffer in array.buffers()]
    after = [buffer and buffer.address for buffer in through_export(array).buffers()]
    assert after == before


def test_any_object_with_the_buffer_protocol_serves() -> None:
    for buffer in (
        memory(range(3)),
        bytearray(24),
        bytes(24),
        memoryview(bytes(24)),
        pa.py_buffer(bytes(24)),
    ):
        assert len(pa.array(Exported(BIGINT, Vector(3, (None, buffer), 0)))) == 3


def test_empty_vectors_point_somewhere() -> None:
    _, capsule = export_array(TEXT, Vector(0, (None, b"", b""), 0))
    array = opened(capsule, b"arrow_array", CArray)
    assert array.buffers[0] is None
    assert ctypes.c_int32.from_address(array.buffers[1]).value == 0
    assert array.buffers[2]


def test_absent_validity_means_no_nulls() -> None:
    _, capsule = export_array(BIGINT, Vector(1, (None, bytes(8)), -1))
    assert opened(capsule, b"arrow_array", CArray).null_count == 0


# --- schemas --------------------------------------------------------------------------------------


def test_schema_carries_names_flags_and_metadata() -> None:
    type_ = Schema.parse("struct<c:char(3),m:map<string,array<int>>,ü:timestamp with local time zone>").root
    field = field_of("root", type_, VectorOptions())
    tagged = replace(field, metadata=(("key", "wert"), ("", "ß")))
    capsule = export_schema(tagged)
    imported = pa.Field._import_from_c(ctypes.pythonapi.PyCapsule_GetPointer(capsule, b"arrow_schema"))
    assert imported.metadata == {b"key": b"wert", b"": "ß".encode()}
    assert imported.nullable
    char, map_, instant = imported.type
    assert char == pa.field("c", pa.string(), metadata={"orc.type": "char(3)"})
    assert char.metadata == {b"orc.type": b"char(3)"}
    assert map_.type == pa.map_(pa.string(), pa.list_(pa.int32()))
    assert not map_.type.key_field.nullable
    assert not map_.type.keys_sorted
    assert instant == pa.field("ü", pa.timestamp("ns", "UTC"))


def test_schema_of_a_dictionary() -> None:
    type_ = Schema.parse("string").root
    capsule = export_schema(field_of("d", type_, VectorOptions(dictionaries=True)))
    schema = opened(capsule, b"arrow_schema", CSchema)
    assert (schema.format, schema.dictionary.contents.format) == (b"i", b"u")


def test_deep_schemas() -> None:
    depth = 190
    type_ = Schema.parse("array<" * depth + "int" + ">" * depth).root
    capsule = export_schema(field_of("deep", type_, VectorOptions()))
    schema = opened(capsule, b"arrow_schema", CSchema)
    for _ in range(depth):
        schema = schema.children[0].contents
    assert schema.format == b"i"


def test_names_with_nul_are_refused() -> None:
    fields = struct_of(BIGINT, replace(BIGINT, name="a\0b"))
    with pytest.raises(Unsupported) as caught:
        export_schema(fields)
    assert caught.value.reason == "nul_in_name"


def test_unions_of_more_children_than_arrow_has_tags() -> None:
    wide = Schema.parse("uniontype<" + ",".join(["int"] * 129) + ">").root
    with pytest.raises(Unsupported) as caught:
        export_schema(field_of("u", wide, VectorOptions()))
    assert caught.value.reason == "union_too_wide"


# --- who holds the memory -------------------------------------------------------------------------


def test_consumer_keeps_the_memory_alive() -> None:
    owner, vector = owned([1, 2, 3])
    gone = weakref.ref(owner)
    array = pa.array(Exported(BIGINT, vector))
    del owner, vector
    gc.collect()
    assert gone() is not None
    assert array.to_pylist() == [1, 2, 3]
    del array
    gc.collect()
    assert gone() is None


def test_a_capsule_that_nobody_consumes_lets_go() -> None:
    owner, vector = owned([1])
    count = sys.getrefcount(owner)
    for _ in range(3):
        capsules = export_array(BIGINT, vector)
        assert sys.getrefcount(owner) == count + 1
        del capsules
        assert sys.getrefcount(owner) == count


def test_a_moved_array_is_released_once() -> None:
    owner, vector = owned([1])
    count = sys.getrefcount(owner)
    schema_capsule, array_capsule = export_array(BIGINT, vector)
    array = moved(opened(array_capsule, b"arrow_array", CArray))
    schema = moved(opened(schema_capsule, b"arrow_schema", CSchema))
    del array_capsule, schema_capsule
    assert sys.getrefcount(owner) == count + 1
    assert schema.name == b"n"
    release(array)
    release(schema)
    assert sys.getrefcount(owner) == count


def test_a_child_may_be_moved_out_and_outlive_its_parent() -> None:
    owners, vectors = zip(*(owned([row]) for row in range(3)), strict=True)
    counts = [sys.getrefcount(owner) for owner in owners]
    schema_capsule, array_capsule = export_array(
        struct_of(BIGINT, BIGINT, BIGINT), Vector(1, (None,), 0, 0, vectors)
    )
    child = moved(opened(array_capsule, b"arrow_array", CArray).children[1].contents)
    child_schema = moved(opened(schema_capsule, b"arrow_schema", CSchema).children[1].contents)
    del array_capsule, schema_capsule
    gc.collect()
    held = [sys.getrefcount(owner) for owner in owners]
    assert held == [counts[0], counts[1] + 1, counts[2]]
    assert ctypes.c_int64.from_address(child.buffers[1]).value == 1
    assert child_schema.format == b"l"
    release(child)
    release(child_schema)
    assert [sys.getrefcount(owner) for owner in owners] == counts


def test_a_dictionary_may_be_moved_out() -> None:
    owner = memory([97, 98, 99], "u1")
    words = Vector(1, (None, memory([0, 3], "i4"), owner), 0)
    field = field_from("d", pa.dictionary(pa.int32(), pa.string()))
    _, capsule = export_array(field, Vector(2, (None, bytes(8)), 0, dictionary=words))
    dictionary = moved(opened(capsule, b"arrow_array", CArray).dictionary.contents)
    count = sys.getrefcount(owner)
    del capsule
    assert sys.getrefcount(owner) == count
    release(dictionary)
    assert sys.getrefcount(owner) == count - 1


def test_release_on_a_thread_without_the_interpreter_lock() -> None:
    owner, vector = owned([1])
    count = sys.getrefcount(owner)
    capsules = [export_array(BIGINT, vector)[1] for _ in range(8)]
    copies = [moved(opened(capsule, b"arrow_array", CArray)) for capsule in capsules]
    assert sys.getrefcount(owner) == count + 8
    threads = [threading.Thread(target=release, args=(copy,)) for copy in copies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sys.getrefcount(owner) == count


@pytest.mark.parametrize("bad", range(3))
def test_a_failing_export_holds_nothing(bad: int) -> None:
    owner, good = owned([1, 2])
    count = sys.getrefcount(owner)
    vectors = [good, good, good]
    vectors[bad] = Vector(2, (None, bytes(15)), 0)
    with pytest.raises(ValueError, match=r"\b15\b.*\b16\b"):
        export_array(struct_of(BIGINT, BIGINT, BIGINT), Vector(2, (None,), 0, 0, tuple(vectors)))
    gc.collect()
    assert sys.getrefcount(owner) == count


# --- what is refused before foreign code would read past an end -----------------------------------

OFFSETS = np.array([0, 2, 4], "i4").tobytes()
LISTS = field_from("l", pa.list_(pa.int64()))
BITS = field_from("b", pa.bool_())
UNION = field_from("u", SAMPLES[21].type)
STRUCT = struct_of(BIGINT)
TWO = Vector(2, (None, bytes(16)), 0)
DECIMAL = field_from("d", pa.decimal128(10, 2))


@pytest.mark.parametrize(
    ("field", "vector", "message"),
    [
        (BIGINT, Vector(1, (None, bytes(7))), r"\b7 bytes\b.*\b8\b"),
        (BIGINT, Vector(1, (None, bytes(8)), 0, 1), r"\b8 bytes\b.*\b16\b"),
        (BIGINT, Vector(9, (bytes(1), bytes(72))), r"\b1 bytes\b.*\b2\b"),
        (BIGINT, Vector(1, (None, memoryview(bytes(16))[1:])), r"\balign.*\b8\b"),
        (BIGINT, Vector(-1, (None, b"")), r"\blength\b"),
        (BIGINT, Vector(1, (None, bytes(8)), 0, -1), r"\blength\b"),
        (BIGINT, Vector(2**60, (None, bytes(8))), r"\blength\b"),
        (BIGINT, Vector(1, (bytes(8),)), r"'l'.*\b2 buffers\b.*\b1\b"),
        (BIGINT, Vector(2, (None, bytes(16)), children=(TWO,)), "children"),
        (BIGINT, Vector(2, (None, bytes(16)), dictionary=TWO), "children"),
        (DECIMAL, Vector(1, (None, bytes(8))), r"\b8 bytes\b.*\b16\b"),
        (BITS, Vector(9, (None, bytes(1))), r"\b1 bytes\b.*\b2\b"),
        (TEXT, Vector(2, (None, OFFSETS, b"abc")), r"\b3 bytes\b.*\b4\b"),
        (TEXT, Vector(2, (None, OFFSETS[:8], b"abcd")), r"\b8 bytes\b.*\b12\b"),
        (TEXT, Vector(1, (None, memory([0, -1], "i4"), b"abcd")), "negative"),
        (LISTS, Vector(2, (None, OFFSETS), children=(TWO,)), r"\blist\b.*\boffset\b"),
        (STRUCT, Vector(3, (None,), children=(TWO,)), r"\bstruct\b"),
        (STRUCT, Vector(1, (None,), 0, 2, children=(TWO,)), r"\bstruct\b"),
        (UNION, Vector(2, (bytes(1), bytes(8)), children=(TWO, TWO)), r"\b1 bytes\b.*\b2\b"),
        (UNION, Vector(2, (bytes(2), bytes(4)), children=(TWO, TWO)), r"\b4 bytes\b.*\b8\b"),
        (replace(BIGINT, format="U"), TWO, "'U'"),
    ],
)
def test_vectors_that_do_not_fit_their_field(field: Field, vector: Vector, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        export_array(field, vector)


# --- streams --------------------------------------------------------------------------------------


def rows(count: int) -> Vector:
    return Vector(count, (None,), 0, 0, (Vector(count, (None, memory(range(count))), 0),))


def test_stream_is_pulled_lazily() -> None:
    pulled: list[int] = []

    def parts() -> Iterator[Vector]:
        for count in (2, 0, 3):
            pulled.append(count)
            yield rows(count)

    source = parts()
    reader = pa.RecordBatchReader.from_stream(Stream(STRUCT, lambda: next(source, None)))
    assert pulled == []
    assert reader.read_next_batch().to_pydict() == {"n": [0, 1]}
    assert pulled == [2]
    assert [batch.num_rows for batch in reader] == [0, 3]
    with pytest.raises(StopIteration):
        reader.read_next_batch()


def test_stream_errors_surface_and_stay() -> None:
    parts = iter([rows(1)])

    def pull() -> Vector:
        for vector in parts:
            return vector
        raise RuntimeError("the \0 store is gone")

    reader = pa.RecordBatchReader.from_stream(Stream(STRUCT, pull))
    assert reader.read_next_batch().num_rows == 1
    for _ in range(2):
        with pytest.raises(OSError, match="RuntimeError: the   store is gone"):
            reader.read_next_batch()


def test_stream_refuses_a_bad_vector() -> None:
    vector = Vector(1, (None,), 0, 0, (Vector(1, (None, b""), 0),))
    reader = pa.RecordBatchReader.from_stream(Stream(STRUCT, lambda: vector))
    with pytest.raises(OSError, match="ValueError: buffer 1"):
        reader.read_next_batch()


def test_stream_reports_what_the_schema_refuses() -> None:
    source = Stream(struct_of(replace(BIGINT, name="\0")), lambda: None)
    with pytest.raises(OSError, match=r"Unsupported: .*'\\x00'"):
        pa.RecordBatchReader.from_stream(source)


def test_stream_error_whose_message_fails() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError

    def pull() -> Vector:
        raise Mute

    reader = pa.RecordBatchReader.from_stream(Stream(STRUCT, pull))
    with pytest.raises(OSError, match="Mute"):
        reader.read_next_batch()


def test_stream_lets_go_of_its_source() -> None:
    class Source:
        def __call__(self) -> Vector:
            return rows(1)

    consumed, unused = Source(), Source()
    gone = [weakref.ref(consumed), weakref.ref(unused)]
    reader = pa.RecordBatchReader.from_stream(Stream(STRUCT, consumed))
    capsule = export_stream(STRUCT, unused)
    reader.read_next_batch()
    del consumed, unused
    gc.collect()
    assert all(ref() is not None for ref in gone)
    del reader, capsule
    gc.collect()
    assert all(ref() is None for ref in gone)


class Whole:
    def __init__(self, *vectors: Vector) -> None:
        self.capsule = export_vectors(STRUCT, list(vectors))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.capsule


def test_vectors_that_are_there() -> None:
    table = pa.RecordBatchReader.from_stream(Whole(rows(3), rows(0), rows(2))).read_all()
    assert table.column(0).to_pylist() == [0, 1, 2, 0, 1]
    reader = pa.RecordBatchReader.from_stream(Whole(rows(3), rows(0), rows(2)))
    assert [batch.num_rows for batch in reader] == [3, 0, 2]
    with pytest.raises(StopIteration):
        reader.read_next_batch()
    assert pa.RecordBatchReader.from_stream(Whole()).read_all().num_rows == 0


def test_vectors_that_nobody_takes_are_let_go() -> None:
    vectors = [rows(1), rows(2)]
    gone = [weakref.ref(vector.children[0].buffers[1]) for vector in vectors]
    reader = pa.RecordBatchReader.from_stream(Whole(*vectors))
    first = reader.read_next_batch()
    del vectors, reader
    gc.collect()
    assert gone[0]() is not None
    assert gone[1]() is None
    assert first.num_rows == 1


def test_a_vector_that_cannot_be_exported_lets_go_of_the_others() -> None:
    whole, broken = rows(1), Vector(5, (None,), 0, 0, rows(1).children)
    gone = weakref.ref(whole.children[0].buffers[1])
    with pytest.raises(ValueError, match="shorter"):
        export_vectors(STRUCT, [whole, broken])
    del whole
    gc.collect()
    assert gone() is None


# --- the rest -------------------------------------------------------------------------------------


@given(st.binary(max_size=40), st.data())
def test_count_nulls(bitmap: bytes, data: st.DataObject) -> None:
    offset = data.draw(st.integers(0, 8 * len(bitmap)))
    length = data.draw(st.integers(0, 8 * len(bitmap) - offset))
    bits = np.unpackbits(np.frombuffer(bitmap, "u1"), bitorder="little")[offset : offset + length]
    assert count_nulls(bitmap, offset, length) == length - int(bits.sum())


@pytest.mark.parametrize(("offset", "length"), [(0, 9), (8, 1), (-1, 2), (0, -1), (2**62, 1)])
def test_count_nulls_outside_of_the_bitmap(offset: int, length: int) -> None:
    with pytest.raises(ValueError, match=r"bit|shorter"):
        count_nulls(b"\xff", offset, length)


def test_export_is_cheap() -> None:
    vector = Vector(4, (None,), 0, 0, (Vector(4, (bytes(1), bytes(32))),) * 15)
    field = struct_of(*[replace(BIGINT, name=f"column_{i}") for i in range(15)])
    best = min(timeit.repeat(lambda: export_array(field, vector), number=100, repeat=5)) / 100
    # 10 us alone on a machine of 2026; the limit leaves room for a crowded one.
    assert best < 200e-6
