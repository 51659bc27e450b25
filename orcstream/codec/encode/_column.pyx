"""What all column encoders have in common: streams, nulls, row groups, statistics and bloom filters.

A column encoder turns the rows of one column into the streams of one stripe. It is given the rows of its
parent that have a value, nulls among them, and hands the rows that have a value themselves to `put`; so a child never
sees rows that a null parent hides. `begin` and `end` frame the rows of a row group. `pack` compresses
blocks that are full, so each stream keeps one block at most that is not compressed. `close` ends the stripe. None of that takes the interpreter's lock. The same rows, groups and options give the same bytes.

Knows positions, and what statistics and indexes need of a row group. Must not know files, threads, nor the place of a
stream in the file. Specification: "Stripes", "Row Group Index", "Bloom Filter Index".

Workers share a `Round` of tasks, one for each column, and each takes the next one until there are none.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.ref cimport PyObject
from cpython.time cimport perf_counter
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

import numpy as np

from orcstream._buffer cimport buffer_of, give_block, widen_block
from orcstream.codec._bitmaps cimport bit_at, count_ones
from orcstream.codec._memory cimport View, view_of
from orcstream.codec._raised cimport raised
from orcstream.codec.encode._source cimport Rows, Source, SourceTree, row_at, span
from orcstream.codec.encode._statistics cimport Tally, clear
from orcstream.codec.metadata._bloom cimport add_hash
from orcstream.codec.streams._encode_values cimport MOST_NUMBERS, BoolEncoder, Encoder
from orcstream.codec.streams._packers cimport Packer

cdef extern from *:
    int64_t fetch_and_add "__sync_fetch_and_add"(int64_t* number, int64_t more) noexcept nogil

cdef enum:
    MASK_BYTES = 4096
    # What Python takes of a row group when the stripe ends; measured.
    GROUP_BYTES = 128


cdef class ColumnEncoder:
    """Encodes one column of one stripe, with the columns below. This class itself encodes a struct without columns.

    `streams` are (kind, encoder); the first is PRESENT, and row groups have positions in all of them. A bloom filter of a
    row group has `filter_bytes`, 0 for none, and `hash_count` bits for each value.
    """

    def __init__(self, type_, encoding, streams, *, children=(), filter_bytes=0, hash_count=0):
        cdef int64_t[MOST_NUMBERS] numbers
        cdef int index
        self.type = type_
        self.encoding = encoding
        self.streams = tuple(streams)
        self.stream_count = len(self.streams)
        self.present = self.streams[0][1] if self.streams else None
        self.children = tuple(children)
        self.child_count = len(self.children)
        self.stream_pointers = <PyObject**> malloc(max(1, self.stream_count) * sizeof(PyObject*))
        self.child_pointers = <PyObject**> malloc(max(1, self.child_count) * sizeof(PyObject*))
        if self.child_pointers == NULL or self.stream_pointers == NULL:
            raise MemoryError
        for index in range(self.stream_count):
            self.stream_pointers[index] = <PyObject*> <Encoder?> self.streams[index][1]
            self.number_count += (<Encoder> self.stream_pointers[index]).place(numbers)
        for index in range(self.child_count):
            self.child_pointers[index] = <PyObject*> <ColumnEncoder?> self.children[index]
        self.filter_bytes = filter_bytes
        self.hash_count = hash_count
        clear(&self.tally)

    def __dealloc__(self):
        free(self.child_pointers)
        free(self.stream_pointers)
        give_block(&self.numbers)
        give_block(&self.tallies)
        give_block(&self.bounds)
        give_block(&self.filters)
        give_block(&self.kept)
        give_block(&self.scratch)

    # --- what each type has of its own

    cdef int put(self, const Source* source, const Rows* rows) except -1 nogil:
        """Encode rows, at least one and none of them null, and record what they are."""
        return 0

    cdef int places(self, int64_t* numbers) except -1 nogil:
        """Where the next row will stand, in so many numbers as streams have together."""
        cdef int index
        for index in range(self.stream_count):
            numbers += (<Encoder> self.stream_pointers[index]).place(numbers)
        return 0

    cdef int close_values(self) except -1 nogil:
        """Called when no more rows come, before streams are ended."""
        return 0

    cdef int64_t own_size(self) noexcept nogil:
        """What streams will have in the end that they have not got yet, before compression."""
        return 0

    cdef int64_t own_held(self) noexcept nogil:
        """Memory held, without that of streams and of row groups."""
        return 0

    cdef tuple found(self, const Tally* tally):
        """(least, largest, sum) as statistics of the type have them."""
        return None, None, None

    @property
    def encoded_as(self):
        """(`EncodingKind`, entries of the dictionary) of a closed column."""
        return self.encoding, 0

    def written(self):
        """The streams that a closed column has: (kind, `OutStream`, first number, numbers) of each.

        Numbers are those of a row group's position in it; a stream may have none.
        """
        cdef int64_t[MOST_NUMBERS] numbers
        cdef int at = 0, count
        cdef Encoder stream
        found = []
        for kind, stream in self.streams:
            count = stream.place(numbers)
            if stream is not self.present or self.has_nulls:
                found.append((kind, stream.out, at, count))
            at += count
        return found

    # --- what was recorded

    def group(self, Py_ssize_t index):
        """Statistics of a row group: (values, whether there are nulls, least, largest, sum)."""
        cdef const Tally* tally = <const Tally*> self.tallies.ptr + index
        return (tally.values, bool(tally.has_null), *self.found(tally))

    def positions(self):
        """The numbers of all row groups, of shape (groups, numbers), int64; they are forgotten here."""
        cdef Py_ssize_t count = self.group_count * self.number_count
        if not count:
            return np.empty((self.group_count, self.number_count), np.int64)
        return np.frombuffer(buffer_of(&self.numbers), np.int64, count).reshape(-1, self.number_count)

    def filter(self, Py_ssize_t index):
        """The bits of a row group's bloom filter, as little-endian words."""
        return PyBytes_FromStringAndSize(<char*> self.filters.ptr + index * self.filter_bytes, self.filter_bytes)

    @property
    def size_bytes(self):
        """What the data streams of this column and those below will take, about; indexes are not counted."""
        return self.size()

    @property
    def held_bytes(self):
        """Memory held for this column and those below."""
        return self.held()

    # --- rows

    cdef int begin(self) except -1 nogil:
        """The next rows begin a row group."""
        cdef Py_ssize_t used = self.group_count * self.number_count * 8
        cdef int index
        widen_block(&self.numbers, used, used + self.number_count * 8)
        self.places(<int64_t*> (self.numbers.ptr + used))
        if self.filter_bytes:
            used = self.group_count * self.filter_bytes
            widen_block(&self.filters, used, used + self.filter_bytes)
            memset(self.filters.ptr + used, 0, self.filter_bytes)
        for index in range(self.child_count):
            (<ColumnEncoder> self.child_pointers[index]).begin()
        return 0

    cdef int add(self, const Source* source, Rows rows) except -1 nogil:
        """Encode rows; times may differ in units from one call to the next."""
        cdef Rows values
        self.see(source, &rows, &values)
        self.tally.values += values.count
        if values.count < rows.count:
            self.tally.has_null = True
        if values.count:
            self.put(source, &values)
        return 0

    cdef int end(self) except -1 nogil:
        """The row group is complete."""
        cdef Py_ssize_t used = self.group_count * sizeof(Tally)
        cdef int index
        widen_block(&self.tallies, used, used + sizeof(Tally))
        (<Tally*> (self.tallies.ptr + used))[0] = self.tally
        clear(&self.tally)
        self.group_count += 1
        for index in range(self.child_count):
            (<ColumnEncoder> self.child_pointers[index]).end()
        return 0

    cdef int see(self, const Source* source, const Rows* rows, Rows* values) except -1 nogil:
        """Write which rows have a value, and answer these."""
        cdef Py_ssize_t first = source.offset + rows.first, nulls, row, found = 0
        cdef int64_t* kept
        values[0] = rows[0]
        if source.validity == NULL:
            return self.present.repeat(True, rows.count)
        if rows.positions != NULL:
            return self.see_some(source, rows, values)
        nulls = rows.count - count_ones(source.validity, first, rows.count)
        if not nulls:
            return self.present.repeat(True, rows.count)
        self.has_nulls = True
        self.present.put_bitmap(source.validity, first, rows.count)
        widen_block(&self.kept, 0, (rows.count + 1) * 8)
        kept = <int64_t*> self.kept.ptr
        for row in range(rows.first, rows.first + rows.count):
            kept[found] = row
            found += bit_at(source.validity, source.offset + row)
        values.positions = kept
        values.first = 0
        values.count = found
        return 0

    cdef int see_some(self, const Source* source, const Rows* rows, Rows* values) except -1 nogil:
        """The same, row by row: for rows that do not follow each other, and for unions."""
        cdef uint8_t[MASK_BYTES] mask
        cdef Py_ssize_t done, index, row, found = 0, size
        cdef int64_t* kept
        values[0] = rows[0]
        widen_block(&self.kept, 0, (rows.count + 1) * 8)
        kept = <int64_t*> self.kept.ptr
        for index in range(rows.count):
            row = row_at(rows, index)
            kept[found] = row
            found += not self.is_null(source, row)
        if found == rows.count:
            return self.present.repeat(True, rows.count)
        self.has_nulls = True
        done = 0
        while done < rows.count:
            size = min(rows.count - done, <Py_ssize_t> MASK_BYTES)
            for index in range(size):
                mask[index] = not self.is_null(source, row_at(rows, done + index))
            self.present.put_bytes(mask, size)
            done += size
        values.positions = kept
        values.first = 0
        values.count = found
        return 0

    cdef bint is_null(self, const Source* source, Py_ssize_t row) noexcept nogil:
        return source.validity != NULL and not bit_at(source.validity, source.offset + row)

    cdef void bloom(self, uint64_t hash_) noexcept nogil:
        """Add the hash of a value to the filter of the open group, which there is."""
        add_hash(
            self.filters.ptr + self.group_count * self.filter_bytes, self.filter_bytes, self.hash_count, hash_
        )

    # --- streams

    cdef int pack(self, Packer packer) except -1 nogil:
        """Turn all full blocks, of the columns below too, into chunks."""
        cdef int index
        for index in range(self.stream_count):
            (<Encoder> self.stream_pointers[index]).out.pack(packer)
        for index in range(self.child_count):
            (<ColumnEncoder> self.child_pointers[index]).pack(packer)
        return 0

    cdef int close(self, Packer packer) except -1 nogil:
        """End all streams; nothing may be added afterwards."""
        cdef int index
        self.close_values()
        for index in range(self.stream_count):
            (<Encoder> self.stream_pointers[index]).end()
            (<Encoder> self.stream_pointers[index]).out.end(packer)
        for index in range(self.child_count):
            (<ColumnEncoder> self.child_pointers[index]).close(packer)
        return 0

    cdef int rest(self) noexcept nogil:
        """Give back the memory that only the current rows needed."""
        cdef int index
        give_block(&self.kept)
        give_block(&self.scratch)
        for index in range(self.child_count):
            (<ColumnEncoder> self.child_pointers[index]).rest()
        return 0

    cdef int64_t size(self) noexcept nogil:
        cdef int64_t total = self.own_size()
        cdef int index
        for index in range(self.stream_count):
            total += (<Encoder> self.stream_pointers[index]).out.length()
        for index in range(self.child_count):
            total += (<ColumnEncoder> self.child_pointers[index]).size()
        return total

    cdef int64_t held(self) noexcept nogil:
        cdef int64_t total = self.own_held()
        cdef int index
        total += self.numbers.nbytes + self.tallies.nbytes + self.bounds.nbytes + self.filters.nbytes
        total += self.group_count * GROUP_BYTES
        for index in range(self.stream_count):
            total += (<Encoder> self.stream_pointers[index]).out.held()
        for index in range(self.child_count):
            total += (<ColumnEncoder> self.child_pointers[index]).held()
        return total


# --- what workers do -------------------------------------------------------------------------------


cdef class Task:
    """Something to do for one column; `seconds` is how long it took."""

    cdef int run(self, Packer packer) except -1 nogil:
        return 0

    cdef int _keep(self) except -1:
        self.error = raised()
        return 0


cdef class EncodeTask(Task):
    """Some rows of a column: those of `cuts`, int64 of shape (n, 4), each (first row, rows, begins, ends a row group)."""

    cdef SourceTree tree
    cdef View cuts
    cdef Py_ssize_t cut_count

    def __init__(self, ColumnEncoder encoder not None, SourceTree tree not None, cuts):
        cdef const int64_t* cut
        cdef Py_ssize_t index
        self.encoder = encoder
        self.tree = tree
        self.cut_count = len(cuts)
        self.cuts = view_of(cuts, 4 * self.cut_count, 8)
        for index in range(self.cut_count):
            cut = <const int64_t*> self.cuts.ptr + 4 * index
            if not (0 <= cut[0] <= tree.root.length and 0 <= cut[1] <= tree.root.length - cut[0]):
                raise ValueError("rows beyond their vector")

    cdef int run(self, Packer packer) except -1 nogil:
        cdef Py_ssize_t index
        cdef const int64_t* cut
        for index in range(self.cut_count):
            cut = <const int64_t*> self.cuts.ptr + 4 * index
            if cut[2]:
                self.encoder.begin()
            self.encoder.add(self.tree.root, span(cut[0], cut[1]))
            if cut[3]:
                self.encoder.end()
            self.encoder.pack(packer)
        self.encoder.rest()
        return 0


cdef class CloseTask(Task):
    """The end of a column in its stripe. With `ends`, the open row group ends, too."""

    cdef bint ends

    def __init__(self, ColumnEncoder encoder not None, bint ends):
        self.encoder = encoder
        self.ends = ends

    cdef int run(self, Packer packer) except -1 nogil:
        if self.ends:
            self.encoder.end()
        self.encoder.close(packer)
        self.encoder.rest()
        return 0


cdef int _run(Task task, Packer packer) except -1 nogil:
    return task.run(packer)


ctypedef int (*attempt_t)(Task, Packer) noexcept nogil


cdef class Round:
    """Tasks for columns that have nothing in common, which any number of threads carry out together."""

    cdef list tasks
    cdef PyObject** each
    cdef Py_ssize_t count
    cdef int64_t next

    def __init__(self, list tasks not None):
        cdef Py_ssize_t index
        self.tasks = list(tasks)
        self.count = len(tasks)
        self.each = <PyObject**> malloc(max(<Py_ssize_t> 1, self.count) * sizeof(PyObject*))
        if self.each == NULL:
            raise MemoryError
        for index in range(self.count):
            self.each[index] = <PyObject*> <Task?> self.tasks[index]

    def __dealloc__(self):
        free(self.each)

    def run(self, Packer packer):
        """Carry out tasks, without the lock, until there are none; by a packer of the thread's own.

        After a task failed no more are begun.
        """
        cdef Py_ssize_t index
        cdef double started
        with nogil:
            while True:
                index = fetch_and_add(&self.next, 1)
                if index >= self.count:
                    break
                started = perf_counter()
                if (<attempt_t> _run)(<Task> self.each[index], packer) < 0:
                    fetch_and_add(&self.next, self.count)
                    with gil:
                        (<Task> self.each[index])._keep()
                (<Task> self.each[index]).seconds = perf_counter() - started

    def check(self):
        """Raise what made a task fail; to be called once no thread runs any more."""
        cdef Task task
        for task in self.tasks:
            if task.error is not None:
                # It has come from here: kept by the task, both would hold each other, and the rows.
                error, task.error = task.error, None
                raise error
