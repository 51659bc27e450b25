from libc.stdint cimport int64_t, uint8_t

from orcstream._buffer cimport Block
from orcstream.codec.streams._codecs cimport Codec
from orcstream.codec.streams._values cimport BoolValues, Values

from cpython.ref cimport PyObject


# Rows of one column, without its children. The first block is the validity; the others are its decoder's business.
cdef struct Taken:
    Py_ssize_t rows
    Py_ssize_t nulls
    Py_ssize_t items  # of a dictionary of their own
    Block[4] blocks


cdef class Turn:
    cdef Codec codec
    cdef public Py_ssize_t dictionary_limit
    # What may still be decoded before no further windows are begun.
    cdef Py_ssize_t bytes_left
    # How many streams ran dry; those say so themselves.
    cdef public int dry

    cdef Py_ssize_t values(self, Values stream, Py_ssize_t wanted) except -1 nogil


cdef class Decoded:
    cdef ColumnDecoder decoder
    cdef Taken* parts
    cdef int part_count
    cdef int used

    cdef void forget(self) noexcept nogil
    cdef Taken* next(self) noexcept nogil
    cdef Py_ssize_t nbytes(self) noexcept nogil


cdef class ColumnDecoder:
    cdef readonly object type
    cdef readonly Py_ssize_t row_bytes
    cdef readonly bint is_fixed
    cdef readonly int leaf_count
    cdef int part_count
    cdef BoolValues present
    cdef tuple value_streams
    # The first two of them, to be used without the lock: references cannot be counted then.
    cdef Values first
    cdef Values second
    cdef tuple children
    cdef PyObject** child_pointers
    cdef int child_count
    # One byte a row, 0 where the parent, or this column, is null; NULL is all ones.
    cdef const uint8_t* parent
    cdef const uint8_t* mask
    cdef Block merged

    cdef Py_ssize_t ready(self, Py_ssize_t count, const uint8_t* parent, Py_ssize_t budget, Turn turn) except -1 nogil
    cdef int take(self, Py_ssize_t count, Decoded out) except -1 nogil
    cdef object vector(self, Decoded found)
    cdef ColumnDecoder child(self, int index)
    cdef Py_ssize_t ready_child(
        self, int index, Py_ssize_t count, const uint8_t* parent, Py_ssize_t budget, Turn turn
    ) except -1 nogil
    cdef int take_child(self, int index, Py_ssize_t count, Decoded out) except -1 nogil
    cdef Py_ssize_t see(self, Py_ssize_t count, const uint8_t* parent, Py_ssize_t budget, Turn turn) except -1 nogil
    cdef Py_ssize_t see_values(self, Values stream, Py_ssize_t count, Turn turn) except -1 nogil
    cdef Py_ssize_t fit(
        self, Values lengths, const uint8_t* mask, Py_ssize_t count, Py_ssize_t limit, Py_ssize_t* total
    ) except -1 nogil
    cdef Py_ssize_t begin(self, Py_ssize_t count, Taken* out) except -1 nogil
    cdef int end(self, Py_ssize_t count) except -1 nogil
    cdef Py_ssize_t hold(self, bint trim) except -1
    cdef int corrupt(self, const char* message, Py_ssize_t row, Values stream) except -1 with gil


cdef object buffer_or_none(Block* block)
