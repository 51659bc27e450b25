"""Vectors as encoders read them in C: addresses of buffers that are known to be long enough, and which rows are meant.

Knows the Arrow layout. Must not know what becomes of the values. A tree keeps the buffers' memory. It looks at their
addresses and lengths once, when it is made, with the interpreter's lock.
"""

from cpython.ref cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t
from libc.string cimport memcpy

from orcstream._buffer cimport Block, Buffer, widen_block
from orcstream._buffer import zeroed
from orcstream.codec._memory cimport View, view_of

import orcstream.codec.vectors.column as column
from orcstream.codec.vectors.times import units_of
from orcstream.schema.types import TEXTS, TIMES, Kind

cdef object TEXTS_AND_BINARIES = frozenset((*TEXTS, Kind.BINARY, Kind.GEOMETRY, Kind.GEOGRAPHY))
cdef dict ITEM_BYTES = {kind: int(dtype[1]) for kind, dtype in column.DTYPES.items()} | {Kind.DECIMAL: 16}
# Where a value would be, if there were any.
cdef uint8_t[16] NOTHING


cdef class SourceTree:
    """A vector and all below it. Raises ValueError where a buffer is shorter than its values."""

    def __cinit__(self, field, vector):
        self.held = [field, vector]
        self.root = self._nodes(1)
        self._fill(self.root, field, vector, 0)

    cdef Source* _nodes(self, Py_ssize_t count) except NULL:
        """Memory for some nodes, zeroed, for as long as the tree is there."""
        cdef Buffer memory = zeroed(max(<Py_ssize_t> 1, count) * sizeof(Source))
        self.held.append(memory)
        return <Source*> memory.ptr

    cdef const uint8_t* _bytes(self, object buffer, Py_ssize_t items, Py_ssize_t item_bytes) except NULL:
        cdef View view
        if buffer is None and not items:
            return &NOTHING[0]
        view = view_of(buffer, items, item_bytes)
        self.held.append(view)
        return &NOTHING[0] if view.ptr == NULL else view.ptr

    cdef int _fill(self, Source* source, object field, object vector, Py_ssize_t moved) except -1:
        """`moved` is what a struct's children are read from on, besides an offset of their own."""
        cdef object kind = field.type.kind, buffers = vector.buffers, dictionary = vector.dictionary
        cdef Py_ssize_t stop
        source.length = vector.length - moved
        source.offset = vector.offset + moved
        stop = source.offset + source.length
        source.field, source.vector = <PyObject*> field, <PyObject*> vector
        if source.length < 0 or source.offset < 0:
            raise ValueError("a vector is shorter than its parent")
        if kind is Kind.UNION:
            source.more = self._bytes(buffers[0], stop if source.length else 0, 1)
            source.data = self._bytes(buffers[1], stop if source.length else 0, 4)
            return self._fill_children(source, field.children, vector.children, 0, 0)
        if buffers[0] is not None and vector.null_count and source.length:
            source.validity = self._bytes(buffers[0], (stop + 7) // 8, 1)
        if kind is Kind.STRUCT:
            return self._fill_children(source, field.children, vector.children, source.offset, source.length)
        if kind is Kind.LIST or kind is Kind.MAP:
            source.data = self._bytes(buffers[1], stop + 1 if source.length else 0, 4)
            if kind is Kind.LIST:
                return self._fill_children(source, field.children, vector.children, 0, 0)
            (entries,) = vector.children
            fields = field.children[0].children
            return self._fill_children(source, fields, entries.children, entries.offset, entries.length)
        if dictionary is not None:
            source.data = self._bytes(buffers[1], stop if source.length else 0, 4)
            source.dictionary = self._nodes(1)
            return self._fill(source.dictionary, field.dictionary or field, dictionary, 0)
        if kind in TEXTS_AND_BINARIES:
            source.data = self._bytes(buffers[1], stop + 1 if source.length else 0, 4)
            source.more = self._bytes(buffers[2], 0, 1)
            source.more_bytes = 0 if buffers[2] is None else memoryview(buffers[2]).nbytes
        elif kind is Kind.BOOLEAN:
            source.data = self._bytes(buffers[1], (stop + 7) // 8 if source.length else 0, 1)
        else:
            source.data = self._bytes(buffers[1], stop if source.length else 0, ITEM_BYTES[kind])
            if kind in TIMES:
                source.unit = units_of(field.format)
                source.is_instant = bool(field.format[4:])
        return 0

    cdef int _fill_children(
        self, Source* source, fields, vectors, Py_ssize_t moved, Py_ssize_t least
    ) except -1:
        """Children with at least so many rows."""
        cdef int index, count = len(vectors)
        if len(fields) != count:
            raise ValueError("as many fields as children")
        source.children = self._nodes(count)
        source.child_count = count
        for index in range(count):
            self._fill(&source.children[index], fields[index], vectors[index], moved)
            if source.children[index].length < least:
                raise ValueError("a vector is shorter than its parent")
        return 0


ctypedef fused item_t:
    uint8_t
    uint16_t
    int32_t
    int64_t


cdef void _gather(item_t* out, const uint8_t* items, const int64_t* positions, Py_ssize_t count) noexcept nogil:
    cdef Py_ssize_t index
    for index in range(count):
        memcpy(&out[index], items + positions[index] * sizeof(item_t), sizeof(item_t))


cdef const uint8_t* gather(const Source* source, const Rows* rows, int item_bytes, Block* scratch) except NULL nogil:
    """The values of some rows one after the other: where they are, or copied to `scratch`."""
    cdef const uint8_t* items = source.data + source.offset * item_bytes
    cdef Py_ssize_t index
    if rows.positions == NULL:
        return items + rows.first * item_bytes
    widen_block(scratch, 0, rows.count * item_bytes)
    if item_bytes == 1:
        _gather(<uint8_t*> scratch.ptr, items, rows.positions, rows.count)
    elif item_bytes == 2:
        _gather(<uint16_t*> scratch.ptr, items, rows.positions, rows.count)
    elif item_bytes == 4:
        _gather(<int32_t*> scratch.ptr, items, rows.positions, rows.count)
    elif item_bytes == 8:
        _gather(<int64_t*> scratch.ptr, items, rows.positions, rows.count)
    else:
        for index in range(rows.count):
            memcpy(scratch.ptr + item_bytes * index, items + item_bytes * rows.positions[index], item_bytes)
    return scratch.ptr
