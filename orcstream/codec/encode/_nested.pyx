"""Encoders of columns that have columns below them: structs, lists, maps and unions.

Know which rows of a child belong to which rows of its parent. Specification: "Column Encodings".
"""

cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t

from orcstream._buffer cimport Block, give_block, widen_block
from orcstream.codec._bitmaps cimport bit_at
from orcstream.codec.encode._column cimport ColumnEncoder
from orcstream.codec.encode._source cimport Rows, Source, row_at, span
from orcstream.codec.encode._statistics cimport Tally, note, whole
from orcstream.codec.streams._encode_values cimport Encoder

cdef enum:
    BLOCK = 1024  # lengths or tags at a time


@cython.final
cdef class StructEncoder(ColumnEncoder):
    """Structs: a child has the rows that are no nulls."""

    cdef int put(self, const Source* source, const Rows* rows) except -1 nogil:
        cdef int index
        for index in range(self.child_count):
            (<ColumnEncoder> self.child_pointers[index]).add(&source.children[index], rows[0])
        return 0


@cython.final
cdef class ListEncoder(ColumnEncoder):
    """Lists and maps: their lengths are in the second stream, and each child has all items."""

    cdef Block items

    def __dealloc__(self):
        give_block(&self.items)

    cdef int put(self, const Source* source, const Rows* rows) except -1 nogil:
        cdef const int32_t* ends = <const int32_t*> source.data + source.offset
        cdef Rows items
        cdef int index
        cdef Py_ssize_t most = source.children[0].length
        for index in range(1, self.child_count):
            most = min(most, source.children[index].length)
        self._put_lengths(ends, rows, most, &items)
        for index in range(self.child_count):
            (<ColumnEncoder> self.child_pointers[index]).add(&source.children[index], items)
        return 0

    cdef int _put_lengths(
        self, const int32_t* ends, const Rows* rows, Py_ssize_t most, Rows* items
    ) except -1 nogil:
        """Write the lengths of lists within `most` items, and answer which those are."""
        cdef int64_t[BLOCK] lengths
        cdef Py_ssize_t done = 0, size, index, row, first = 0, stop = 0, total = 0
        cdef bint in_a_row = True
        while done < rows.count:
            size = min(rows.count - done, <Py_ssize_t> BLOCK)
            for index in range(size):
                row = row_at(rows, done + index)
                if ends[row] < 0 or ends[row + 1] < ends[row] or ends[row + 1] > most:
                    _refuse()
                lengths[index] = ends[row + 1] - ends[row]
                note(&self.tally, lengths[index], lengths[index])
                if lengths[index]:
                    if not total:
                        first = ends[row]
                    elif ends[row] != stop:
                        in_a_row = False
                    stop = ends[row + 1]
                    total += lengths[index]
            (<Encoder> self.stream_pointers[1]).put_bytes(<const uint8_t*> lengths, size)
            done += size
        self.tally.total += total
        items[0] = span(first, total)
        if not in_a_row:
            self._list_items(ends, rows, total)
            items.positions = <const int64_t*> self.items.ptr
        return 0

    cdef int _list_items(self, const int32_t* ends, const Rows* rows, Py_ssize_t total) except -1 nogil:
        """Note each item, of lists that do not follow each other."""
        cdef Py_ssize_t index, row, item, at = 0
        widen_block(&self.items, 0, 8 * total)
        for index in range(rows.count):
            row = row_at(rows, index)
            for item in range(ends[row], ends[row + 1]):
                (<int64_t*> self.items.ptr)[at] = item
                at += 1
        return 0

    cdef int rest(self) noexcept nogil:
        give_block(&self.items)
        return ColumnEncoder.rest(self)

    cdef tuple found(self, const Tally* tally):
        if not tally.has_bounds:
            return None, None, None
        return whole(tally.least), whole(tally.largest), whole(tally.total)


cdef int _refuse() except -1 with gil:
    raise ValueError("offsets beyond the items")


@cython.final
cdef class UnionEncoder(ColumnEncoder):
    """Unions: the second stream has their tags, and a child has the rows of its own.

    Arrow's unions have no nulls of their own: a null of child 0 counts as a null union.
    """

    cdef Block items

    def __dealloc__(self):
        give_block(&self.items)

    cdef int see(self, const Source* source, const Rows* rows, Rows* values) except -1 nogil:
        cdef const int32_t* places = <const int32_t*> source.data + source.offset
        cdef const uint8_t* tags = source.more + source.offset
        cdef Py_ssize_t index, row
        for index in range(rows.count):
            row = row_at(rows, index)
            if tags[row] >= source.child_count or not 0 <= places[row] < source.children[tags[row]].length:
                _refuse()
        if not source.child_count or not _has_nulls(&source.children[0]):
            values[0] = rows[0]
            return self.present.repeat(True, rows.count)
        return self.see_some(source, rows, values)

    cdef bint is_null(self, const Source* source, Py_ssize_t row) noexcept nogil:
        return _is_null_union(source, row)

    cdef int put(self, const Source* source, const Rows* rows) except -1 nogil:
        cdef const uint8_t* tags = source.more + source.offset
        cdef uint8_t[BLOCK] block
        cdef Py_ssize_t done = 0, size, index
        cdef int child
        while done < rows.count:
            size = min(rows.count - done, <Py_ssize_t> BLOCK)
            for index in range(size):
                block[index] = tags[row_at(rows, done + index)]
            (<Encoder> self.stream_pointers[1]).put_bytes(block, size)
            done += size
        for child in range(self.child_count):
            self._put_child(source, rows, child)
        return 0

    cdef int _put_child(self, const Source* source, const Rows* rows, int child) except -1 nogil:
        cdef const int32_t* places = <const int32_t*> source.data + source.offset
        cdef const uint8_t* tags = source.more + source.offset
        cdef Py_ssize_t index, row
        cdef Rows items = span(0, 0)
        cdef int64_t* found
        cdef bint in_a_row = True
        widen_block(&self.items, 0, 8 * (rows.count + 1))
        found = <int64_t*> self.items.ptr
        for index in range(rows.count):
            row = row_at(rows, index)
            found[items.count] = places[row]
            if tags[row] == child:
                in_a_row = in_a_row and places[row] == found[0] + items.count
                items.count += 1
        if in_a_row:
            items.first = found[0] if items.count else 0
        else:
            items.positions = found
        return (<ColumnEncoder> self.child_pointers[child]).add(&source.children[child], items)

    cdef int rest(self) noexcept nogil:
        give_block(&self.items)
        return ColumnEncoder.rest(self)


cdef bint _has_nulls(const Source* source) noexcept nogil:
    """Whether rows may be null."""
    if source.more != NULL and source.child_count:  # a union
        return _has_nulls(&source.children[0])
    return source.validity != NULL


cdef bint _is_null_union(const Source* source, Py_ssize_t row) noexcept nogil:
    cdef const Source* first = &source.children[0]
    cdef Py_ssize_t place
    if source.more[source.offset + row] != 0:
        return False
    place = (<const int32_t*> source.data)[source.offset + row]
    if not 0 <= place < first.length:
        return False  # what has the row refuses it
    if first.more != NULL and first.child_count:
        return _is_null_union(first, place)
    return first.validity != NULL and not bit_at(first.validity, first.offset + place)
