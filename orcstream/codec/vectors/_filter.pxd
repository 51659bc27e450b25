from libc.stdint cimport uint8_t

from orcstream.codec._memory cimport View


cdef class Texts:
    """Rows of a text or binary vector, perhaps by way of a dictionary."""

    cdef View offsets, data, indexes
    cdef readonly Py_ssize_t count
    cdef Py_ssize_t first, size

    cdef bint at(self, Py_ssize_t row, const uint8_t** text, Py_ssize_t* length) noexcept nogil
