from cpython.ref cimport PyObject
from libc.stdint cimport int64_t, uint8_t

from orcstream._buffer cimport Block


# A vector as C reads it. Its rows are counted from 0; row 0 is value `offset` of the buffers.
cdef struct Source:
    Py_ssize_t length
    Py_ssize_t offset
    const uint8_t* validity   # NULL where no row is null
    const uint8_t* data       # values, offsets of texts and lists, numbers of a dictionary, places of a union
    const uint8_t* more       # bytes of texts, tags of a union
    Py_ssize_t more_bytes
    int64_t unit              # of times: how many in a second
    bint is_instant
    Source* dictionary
    Source* children
    int child_count
    PyObject* field           # whose they are, as long as the tree is there
    PyObject* vector


cdef class SourceTree:
    cdef Source* root
    cdef list held

    cdef Source* _nodes(self, Py_ssize_t count) except NULL
    cdef int _fill(self, Source* source, object field, object vector, Py_ssize_t moved) except -1
    cdef int _fill_children(
        self, Source* source, fields, vectors, Py_ssize_t moved, Py_ssize_t least
    ) except -1
    cdef const uint8_t* _bytes(self, object buffer, Py_ssize_t items, Py_ssize_t item_bytes) except NULL


# Some rows of a source.
cdef struct Rows:
    const int64_t* positions  # NULL: those from `first` on
    Py_ssize_t first
    Py_ssize_t count


cdef inline Py_ssize_t row_at(const Rows* rows, Py_ssize_t index) noexcept nogil:
    return rows.first + index if rows.positions == NULL else rows.positions[index]


cdef inline Rows span(Py_ssize_t first, Py_ssize_t count) noexcept nogil:
    cdef Rows rows
    rows.positions = NULL
    rows.first = first
    rows.count = count
    return rows


cdef const uint8_t* gather(const Source* source, const Rows* rows, int item_bytes, Block* scratch) except NULL nogil
