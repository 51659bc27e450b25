from libc.stdint cimport uint8_t, uint64_t

from orcstream.codec._bits cimport Cursor

cdef int decode_varint128(
    const uint8_t* data, Py_ssize_t size, uint64_t* out, Py_ssize_t count, Cursor* cursor
) noexcept nogil
