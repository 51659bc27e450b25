from libc.stdint cimport int64_t, uint8_t

from orcstream._buffer cimport Buffer
from orcstream.codec._bits cimport Cursor
from orcstream.codec.streams._stream cimport InputStream


cdef class Values:
    cdef readonly InputStream input
    cdef Buffer buffer          # pending values [start:stop)
    cdef Py_ssize_t start
    cdef Py_ssize_t stop
    cdef Py_ssize_t item_bytes
    cdef Py_ssize_t to_skip     # values of the run at the input's position that are done with

    cdef Py_ssize_t decode(self, uint8_t* out, Py_ssize_t count, object decompress) except -1
    cdef int runs(
        self, const uint8_t* data, Py_ssize_t size, uint8_t* out, Py_ssize_t count, Cursor* cursor
    ) noexcept nogil
    cdef Py_ssize_t extra(self)
    cdef uint8_t* pending(self)
    cpdef Py_ssize_t ensure(self, Py_ssize_t count, object decompress) except -1
    cpdef Buffer take(self, Py_ssize_t count)
    cpdef Buffer peek(self, Py_ssize_t count)
    cpdef int drop(self, Py_ssize_t count) except -1
    cdef int _check_pending(self, Py_ssize_t count) except -1
    cdef int _grow(self, Py_ssize_t count) except -1
