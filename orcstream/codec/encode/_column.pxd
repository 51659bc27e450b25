from cpython.ref cimport PyObject
from libc.stdint cimport int64_t, uint8_t, uint64_t

from orcstream._buffer cimport Block
from orcstream.codec.encode._source cimport Rows, Source
from orcstream.codec.encode._statistics cimport Tally
from orcstream.codec.streams._encode_values cimport BoolEncoder, Encoder
from orcstream.codec.streams._packers cimport Packer


cdef class ColumnEncoder:
    cdef readonly object type
    cdef object encoding
    # Of kinds and encoders. Row groups have positions in all of them, but where an encoder says otherwise.
    cdef readonly tuple streams
    cdef PyObject** stream_pointers
    cdef int stream_count
    cdef BoolEncoder present
    cdef bint has_nulls
    cdef readonly tuple children
    cdef PyObject** child_pointers
    cdef int child_count
    # Of row groups: numbers of positions, statistics, bounds that are texts, bloom filters.
    cdef readonly Py_ssize_t group_count
    cdef int number_count
    cdef Block numbers
    cdef Block tallies
    cdef Block bounds
    cdef Py_ssize_t bounds_bytes
    cdef Block filters
    cdef readonly Py_ssize_t filter_bytes
    cdef readonly int hash_count
    # The group that is open.
    cdef Tally tally
    # For the rows at hand: which have values, and values that had to be moved together.
    cdef Block kept
    cdef Block scratch

    cdef int begin(self) except -1 nogil
    cdef int add(self, const Source* source, Rows rows) except -1 nogil
    cdef int end(self) except -1 nogil
    cdef int pack(self, Packer packer) except -1 nogil
    cdef int close(self, Packer packer) except -1 nogil
    cdef int rest(self) noexcept nogil
    cdef int64_t size(self) noexcept nogil
    cdef int64_t held(self) noexcept nogil

    cdef int put(self, const Source* source, const Rows* rows) except -1 nogil
    cdef int places(self, int64_t* numbers) except -1 nogil
    cdef int close_values(self) except -1 nogil
    cdef int64_t own_size(self) noexcept nogil
    cdef int64_t own_held(self) noexcept nogil
    cdef tuple found(self, const Tally* tally)
    cdef int see(self, const Source* source, const Rows* rows, Rows* values) except -1 nogil
    cdef int see_some(self, const Source* source, const Rows* rows, Rows* values) except -1 nogil
    cdef bint is_null(self, const Source* source, Py_ssize_t row) noexcept nogil
    cdef void bloom(self, uint64_t hash_) noexcept nogil


cdef class Task:
    cdef ColumnEncoder encoder
    cdef object error
    cdef readonly double seconds

    cdef int run(self, Packer packer) except -1 nogil
    cdef int _keep(self) except -1
