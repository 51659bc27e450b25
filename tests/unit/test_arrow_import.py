"""Arrow arrays taken from capsules: who holds which memory how long, and arrays of dishonest producers.

Producers are driven by hand through ctypes, and count how often they are told to let go.
"""

from __future__ import annotations

import ctypes
import gc
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

from orcstream.codec.arrow._arrow_c import export_schema, export_stream
from orcstream.codec.arrow._arrow_import import ArrowStream, import_array
from orcstream.codec.ingest.ingest import UserData
from orcstream.codec.vectors.column import Field, Vector, VectorOptions, field_of
from orcstream.errors import SchemaMismatch, SourceError, UsageError
from orcstream.schema.schema import Schema
from tests.generators.arrow_vectors import memory
from tests.support.arrow_structs import CArray

ctypes.pythonapi.PyCapsule_New.restype = ctypes.py_object
ctypes.pythonapi.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


def node(
    length: int, *buffers: Any, children: tuple[CArray, ...] = (), offset: int = 0, nulls: int = 0
) -> CArray:
    """An array of buffers that are numpy arrays, or None."""
    made = CArray()
    made.length, made.offset, made.null_count = length, offset, nulls
    made.n_buffers, made.n_children = len(buffers), len(children)
    addresses = [None if buffer is None else buffer.ctypes.data for buffer in buffers]
    made.buffers = (ctypes.c_void_p * max(1, len(buffers)))(*addresses)
    pointer = ctypes.POINTER(CArray)
    made.children = (pointer * max(1, len(children)))(*map(ctypes.pointer, children))
    made.kept = (buffers, children)
    made.release = 1  # never called: only the root's is
    return made


class Producer:
    """Answers an array once, and counts its releases."""

    def __init__(self, schema: str, root: CArray) -> None:
        self.field = field_of("", Schema.parse(schema).root, VectorOptions())
        self.root, self.releases, self.threads = root, 0, set[int]()

        @ctypes.CFUNCTYPE(None, ctypes.POINTER(CArray))
        def release(array: Any) -> None:
            self.releases += 1
            self.threads.add(threading.get_ident())
            array.contents.release = None

        self.callback = release
        root.release = ctypes.cast(release, ctypes.c_void_p)

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        capsule = ctypes.pythonapi.PyCapsule_New(ctypes.addressof(self.root), b"arrow_array", None)
        return export_schema(self.field), capsule


def numbers(count: int = 3) -> Producer:
    values = np.arange(count, dtype="i4")
    return Producer("struct<a:int,b:int>", node(count, None, children=(node(count, None, values),) * 2))


# --- life time ------------------------------------------------------------------------------------------


def test_released_once_when_the_last_vector_dies() -> None:
    producer = numbers()
    schema = Schema.parse("struct<a:int,b:int>")
    (rows,) = UserData(producer).vectors(schema)
    assert producer.root.release is None, "the array was moved out of its capsule"
    last = rows.vectors[1]
    del rows
    gc.collect()
    assert producer.releases == 0
    assert np.frombuffer(last.buffers[1], "i4").tolist() == [0, 1, 2]  # type: ignore[arg-type, call-overload, unused-ignore]
    del last
    gc.collect()
    assert producer.releases == 1


def test_released_on_the_thread_that_lets_go() -> None:
    producer = numbers()
    held = list(UserData(producer).vectors(Schema.parse("struct<a:int,b:int>")))
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    assert producer.releases == 1
    assert producer.threads != {threading.get_ident()}


def test_released_when_it_does_not_fit() -> None:
    producer = numbers()
    with pytest.raises(SchemaMismatch):
        list(UserData(producer).vectors(Schema.parse("struct<a:int>")))
    gc.collect()
    assert producer.releases == 1


def test_consumed_twice() -> None:
    producer = numbers()
    schema = Schema.parse("struct<a:int,b:int>")
    rows = list(UserData(producer).vectors(schema))
    with pytest.raises(SchemaMismatch, match="released"):
        list(UserData(producer).vectors(schema))
    assert len(rows) == 1


def test_nothing_is_held_between_batches() -> None:
    field = field_of("", Schema.parse("struct<a:int>").root, VectorOptions())
    alive: list[int] = []

    class Values(np.ndarray[Any, Any]):
        def __del__(self) -> None:
            alive.remove(id(self))

    def pull() -> Vector:
        values = np.arange(3, dtype="i4").view(Values)
        alive.append(id(values))
        return Vector(3, (None,), 0, children=(Vector(3, (None, cast("Any", values)), 0),))

    class Endless:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return export_stream(field, pull)

    found = UserData(Endless()).vectors(Schema.parse("struct<a:int>"))
    for _ in range(3):
        rows = next(found)
        assert len(alive) == 1
        del rows
        assert not alive


def test_streams() -> None:
    field = field_of("", Schema.parse("struct<a:int>").root, VectorOptions())
    parts = iter([2, 0, 3])

    def pull() -> Vector | None:
        count = next(parts, None)
        if count is None:
            raise RuntimeError("the tap is dry")
        return Vector(count, (None,), 0, children=(Vector(count, (None, memory(range(count), "i4")), 0),))

    class Given:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return export_stream(field, pull)

    found = UserData(Given()).vectors(Schema.parse("struct<a:int>"))
    assert [next(found).row_count for _ in range(3)] == [2, 0, 3]
    with pytest.raises(SourceError, match="the tap is dry"):
        next(found)


def test_streams_end() -> None:
    field = field_of("", Schema.parse("struct<a:int>").root, VectorOptions())
    capsule = export_stream(field, lambda: None)
    stream = ArrowStream(capsule, 10)
    assert stream.field.format == "+s"
    assert stream.read() is None
    assert stream.read() is None
    with pytest.raises(SchemaMismatch, match="released"):
        ArrowStream(capsule, 10)


@pytest.mark.parametrize(
    "capsule",
    [None, 1, export_schema(Field("", "i", Schema.parse("int").root))],
    ids=["none", "number", "schema"],
)
def test_no_capsules(capsule: object) -> None:
    class Wrong:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return capsule

    with pytest.raises(UsageError):
        UserData(Wrong())
    with pytest.raises(UsageError):
        import_array(export_schema(Field("", "i", Schema.parse("int").root)), capsule, 5)


def test_misaligned_memory_is_copied() -> None:
    raw = np.zeros(13, "u1")[1:]
    raw[:] = np.arange(3, dtype="i4").view("u1")
    producer = Producer("struct<a:int>", node(3, None, children=(node(3, None, raw),)))
    (rows,) = UserData(producer).vectors(Schema.parse("struct<a:int>"))
    values = np.frombuffer(rows.vectors[0].buffers[1], "i4")  # type: ignore[arg-type, call-overload, unused-ignore]
    assert values.tolist() == [0, 1, 2]
    assert values.ctypes.data % 8 == 0


def test_empty_arrays_may_lack_their_buffers() -> None:
    schema = "struct<s:string,l:array<int>>"
    children = (node(0, None, None, None), node(0, None, None, children=(node(0, None, None),)))
    (rows,) = UserData(Producer(schema, node(0, None, children=children))).vectors(Schema.parse(schema))
    assert rows.row_count == 0


# --- hostile producers ------------------------------------------------------------------------------------

INTS = np.arange(8, dtype="i4")
BYTES = np.zeros(64, "u1")
BAD = [
    ("int", lambda: node(-1, None, INTS)),
    ("int", lambda: node(1 << 62, None, INTS)),
    ("int", lambda: node(3, None, INTS, offset=-1)),
    ("int", lambda: node(3, None, INTS, offset=1 << 62)),
    ("int", lambda: node(2, None, INTS)),
    ("int", lambda: node(3, None)),
    ("int", lambda: node(3, None, INTS, INTS)),
    ("int", lambda: node(3, None, None)),
    ("int", lambda: node(3, None, INTS, nulls=1)),
    ("int", lambda: node(3, None, INTS, children=(node(3, None, INTS),))),
    ("string", lambda: node(3, None, np.array([0, 2, 1, 3], "i4"), BYTES)),
    ("string", lambda: node(3, None, np.array([-1, 0, 1, 3], "i4"), BYTES)),
    ("string", lambda: node(3, None, np.array([0, 1, 2, 3], "i4"), None)),
    ("string", lambda: node(3, None, None, BYTES)),
    ("array<int>", lambda: node(3, None, INTS, children=(node(2, None, INTS),))),
    ("array<int>", lambda: node(3, None, np.array([0, 2, 1, 3], "i4"), children=(node(8, None, INTS),))),
    ("array<int>", lambda: node(3, None, INTS)),
    ("struct<x:int>", lambda: node(3, None, children=(node(2, None, INTS),))),
    ("struct<x:int>", lambda: node(3, None, offset=1, children=(node(3, None, INTS),))),
    ("uniontype<int>", lambda: node(3, np.array([0, 1, 0], "i1"), INTS, children=(node(8, None, INTS),))),
    ("uniontype<int>", lambda: node(3, np.array([0, -1, 0], "i1"), INTS, children=(node(8, None, INTS),))),
    ("uniontype<int>", lambda: node(3, np.zeros(3, "i1"), INTS, children=(node(2, None, INTS),))),
    ("uniontype<int>", lambda: node(3, np.zeros(3, "i1"), INTS - 1, children=(node(8, None, INTS),))),
    ("uniontype<int>", lambda: node(3, np.zeros(3, "i1"), children=(node(8, None, INTS),))),
]


@pytest.mark.parametrize(("orc", "make"), BAD, ids=[f"{number}-{orc}" for number, (orc, _) in enumerate(BAD)])
def test_hostile_arrays(orc: str, make: Any) -> None:
    producer = Producer(f"struct<a:{orc}>", node(3, None, children=(make(),)))
    with pytest.raises(SchemaMismatch):
        list(UserData(producer).vectors(Schema.parse(f"struct<a:{orc}>")))
    gc.collect()
    assert producer.releases == 1


RUNS = [([2], [1]), ([3, 2], [1, 2]), ([0, 3], [1, 2]), ([-1, 3], [1, 2]), ([1, 3], [1]), ([], [1])]


@pytest.mark.parametrize(("ends", "values"), RUNS, ids=str)
def test_hostile_run_ends(ends: list[int], values: list[int]) -> None:
    schema = Schema.parse("struct<a:int>")
    number = schema.root.children[0]
    ends_node = node(len(ends), None, np.array(ends, "i4"))
    runs = node(3, children=(ends_node, node(len(values), None, np.array(values, "i4"))))
    producer = Producer("struct<a:int>", node(3, None, children=(runs,)))
    children = (Field("run_ends", "i", number), Field("values", "i", number))
    producer.field = Field("", "+s", schema.root, children=(Field("a", "+r", number, children=children),))
    with pytest.raises(SchemaMismatch, match="run ends"):
        list(UserData(producer).vectors(schema))


def test_another_thread_neither_reads_nor_closes_a_stream_under_way() -> None:
    reading, go_on = threading.Event(), threading.Event()

    def batches() -> Iterator[pa.RecordBatch]:
        reading.set()
        assert go_on.wait(30)
        yield pa.record_batch({"x": [1]})

    reader = pa.RecordBatchReader.from_batches(pa.schema({"x": pa.int64()}), batches())
    stream = ArrowStream(reader.__arrow_c_stream__(), 10)
    with ThreadPoolExecutor(1) as other:
        found = other.submit(stream.read)
        assert reading.wait(30)
        for call in (stream.read, stream.close):
            with pytest.raises(UsageError, match=r"\bthread\b"):
                call()
        go_on.set()
        column = found.result(30)
    assert column is not None
    assert column.length == 1
    stream.close()
    assert stream.read() is None
