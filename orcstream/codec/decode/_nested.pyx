"""Decoders of structs, lists, maps and unions."""

cimport cython
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memset

from orcstream._buffer cimport Block, buffer_of, give_block, take_block
from orcstream.codec.decode._column cimport ColumnDecoder, Decoded, Taken, Turn, buffer_or_none
from orcstream.codec.streams._values cimport BoolValues
from orcstream.codec.vectors._vector cimport ones, rows_of_union, sum_up, union_children

from orcstream.codec.vectors.column import MAX_VECTOR_BYTES, Vector

cdef Py_ssize_t MOST_BYTES = MAX_VECTOR_BYTES


@cython.final
cdef class StructDecoder(ColumnDecoder):
    """Structs: children have the struct's own rows, so its mask is handed down."""

    cdef Py_ssize_t ready(
        self, Py_ssize_t count, const uint8_t* parent, Py_ssize_t budget, Turn turn
    ) except -1 nogil:
        cdef int index
        count = self.see(count, parent, budget, turn)
        for index in range(self.child_count):
            count = self.ready_child(index, count, self.mask, budget, turn)
        return count

    cdef int take(self, Py_ssize_t count, Decoded out) except -1 nogil:
        cdef int index
        self.begin(count, out.next())
        for index in range(self.child_count):
            self.take_child(index, count, out)
        return self.end(count)

    cdef object vector(self, Decoded found):
        cdef Taken* own = found.next()
        children = tuple([self.child(index).vector(found) for index in range(self.child_count)])
        return Vector(own.rows, (buffer_or_none(&own.blocks[0]),), own.nulls, children=children)


@cython.final
cdef class ListDecoder(ColumnDecoder):
    """Lists, and maps: a list of entries with two children."""

    cdef bint is_map

    def __init__(self, type_, BoolValues present, values, children, *, bint is_map):
        ColumnDecoder.__init__(self, type_, present, values, children)
        self.row_bytes = 4
        self.is_map = is_map

    cdef Py_ssize_t ready(
        self, Py_ssize_t count, const uint8_t* parent, Py_ssize_t budget, Turn turn
    ) except -1 nogil:
        cdef Py_ssize_t rows, total = 0, have
        cdef int index
        count = self.see_values(self.first, self.see(count, parent, budget, turn), turn)
        # An element takes a byte at least, so the budget bounds how many there may be.
        rows = self.fit(self.first, self.mask, count, min(budget, MOST_BYTES), &total)
        have = total
        for index in range(self.child_count):
            have = self.ready_child(index, have, NULL, budget, turn)
        return rows if have == total else self.fit(self.first, self.mask, rows, have, &total)

    cdef int take(self, Py_ssize_t count, Decoded out) except -1 nogil:
        cdef Taken* own = out.next()
        cdef Py_ssize_t values = self.begin(count, own), total
        cdef int index
        take_block(&own.blocks[1], (count + 1) * 4)
        total = sum_up(<const int64_t*> self.first.pending(), self.mask, count, <int32_t*> own.blocks[1].ptr)
        if total < 0:
            self.corrupt("lengths sum up to more than 31 bits", -1, self.first)
        self.first.forget(values)
        for index in range(self.child_count):
            self.take_child(index, total, out)
        return self.end(count)

    cdef object vector(self, Decoded found):
        cdef Taken* own = found.next()
        buffers = (buffer_or_none(&own.blocks[0]), buffer_of(&own.blocks[1]))
        children = tuple([self.child(index).vector(found) for index in range(self.child_count)])
        if self.is_map:
            children = (Vector(children[0].length, (None,), 0, children=children),)
        return Vector(own.rows, buffers, own.nulls, children=children)


@cython.final
cdef class UnionDecoder(ColumnDecoder):
    """Unions, dense: each child has the rows that bear its tag, child 0 also a null for each null union."""

    # Of the rows that were looked at last: type ids, offsets and the mask of child 0.
    cdef Py_ssize_t seen
    cdef Block types
    cdef Block offsets
    cdef Block values
    cdef int32_t[256] used

    def __init__(self, type_, BoolValues present, values, children):
        ColumnDecoder.__init__(self, type_, present, values, children)
        if self.child_count > 256:
            raise ValueError("tags are bytes")
        self.row_bytes = 5

    def __dealloc__(self):
        self._forget()

    cdef void _forget(self) noexcept nogil:
        give_block(&self.types)
        give_block(&self.offsets)
        give_block(&self.values)

    cdef Py_ssize_t ready(
        self, Py_ssize_t count, const uint8_t* parent, Py_ssize_t budget, Turn turn
    ) except -1 nogil:
        cdef int32_t[256] available
        cdef Py_ssize_t got
        cdef bint any_null = False
        cdef int tag
        count = self.see_values(self.first, self.see(count, parent, budget, turn), turn)
        self._split(count, &any_null)
        for tag in range(self.child_count):
            got = self.ready_child(
                tag, self.used[tag], self.values.ptr if tag == 0 and any_null else NULL, budget, turn
            )
            available[tag] = <int32_t> min(got, <Py_ssize_t> INT32_MAX)
        return rows_of_union(self.types.ptr, <const int32_t*> self.offsets.ptr, count, available)

    cdef int _split(self, Py_ssize_t count, bint* any_null) except -1 nogil:
        """Which rows go to which child."""
        cdef Py_ssize_t bad
        self._forget()
        take_block(&self.types, count)
        take_block(&self.offsets, count * 4)
        take_block(&self.values, count)
        self.seen = count
        bad = union_children(
            self.first.pending(),
            self.mask,
            count,
            self.child_count,
            self.types.ptr,
            <int32_t*> self.offsets.ptr,
            self.values.ptr,
            self.used,
            any_null,
        )
        if bad >= 0:
            self._refuse(bad)
        return 0

    cdef int _refuse(self, Py_ssize_t row) except -1 with gil:
        message = f"a tag beyond the {self.child_count} children of its union"
        return self.corrupt(message.encode(), row, self.first)

    cdef int take(self, Py_ssize_t count, Decoded out) except -1 nogil:
        cdef Taken* own = out.next()
        cdef Py_ssize_t row
        cdef int tag
        own.rows = count
        own.nulls = 0
        if count < self.seen:  # the rows that were looked at begin with those
            take_block(&own.blocks[0], count)
            take_block(&own.blocks[1], count * 4)
            memcpy(own.blocks[0].ptr, self.types.ptr, count)
            memcpy(own.blocks[1].ptr, self.offsets.ptr, count * 4)
            memset(self.used, 0, sizeof(self.used))
            for row in range(count):
                self.used[self.types.ptr[row]] += 1
        else:
            own.blocks[0] = self.types
            own.blocks[1] = self.offsets
            self.types.ptr = self.offsets.ptr = NULL
        self.first.forget(count if self.mask == NULL else ones(self.mask, count))
        for tag in range(self.child_count):
            self.take_child(tag, self.used[tag], out)
        return self.end(count)

    cdef object vector(self, Decoded found):
        cdef Taken* own = found.next()
        buffers = (buffer_of(&own.blocks[0]), buffer_of(&own.blocks[1]))
        children = tuple([self.child(index).vector(found) for index in range(self.child_count)])
        return Vector(own.rows, buffers, 0, children=children)
