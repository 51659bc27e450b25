from libc.stdint cimport uint8_t, uint64_t

from orcstream._buffer cimport Block, Buffer
from orcstream.codec._bits cimport Cursor
from orcstream.codec.streams._codecs cimport Codec
from orcstream.codec.streams._stream cimport InputStream


cdef class Values:
    cdef readonly InputStream input
    cdef Block block            # pending values [start:stop)
    cdef Py_ssize_t start
    cdef Py_ssize_t stop
    cdef Py_ssize_t item_bytes
    cdef Py_ssize_t to_skip     # values of the run at the input's position that are done with

    cdef Py_ssize_t decode(self, uint8_t* out, Py_ssize_t count, Codec codec) except -1 nogil
    cdef int runs(
        self, const uint8_t* data, Py_ssize_t size, uint8_t* out, Py_ssize_t count, Cursor* cursor
    ) noexcept nogil
    cdef Py_ssize_t extra(self) noexcept nogil
    cdef uint8_t* pending(self) noexcept nogil
    cdef Py_ssize_t pend(self, Py_ssize_t count, Codec codec) except -1 nogil
    cdef int hand_over(self, Py_ssize_t count, Block* out) except -1 nogil
    cdef int forget(self, Py_ssize_t count) except -1 nogil
    cdef int _check_pending(self, Py_ssize_t count) except -1 nogil
    cdef int _grow(self, Py_ssize_t count) except -1 nogil


cdef class BoolValues(Values):
    cdef ByteValues packed
    cdef Py_ssize_t bits_to_skip


cdef class ByteValues(Values):
    pass


cdef class Varint128Values(Values):
    cdef uint64_t any           # bits of the pending values without their signs, and perhaps of others before
