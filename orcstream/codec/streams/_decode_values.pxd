from libc.stdint cimport int64_t, uint8_t, uint64_t

from orcstream.codec._bits cimport Cursor

cdef int decode_bytes(
    const uint8_t* data, Py_ssize_t size, uint8_t* out, Py_ssize_t count, Cursor* cursor
) noexcept nogil
cdef int decode_v1(
    const uint8_t* data, Py_ssize_t size, int64_t* out, Py_ssize_t count, bint signed, Cursor* cursor
) noexcept nogil
cdef int decode_v2(
    const uint8_t* data, Py_ssize_t size, int64_t* out, Py_ssize_t count, bint signed, Cursor* cursor
) noexcept nogil
cdef int decode_varint128(
    const uint8_t* data, Py_ssize_t size, uint64_t* out, Py_ssize_t count, Cursor* cursor, uint64_t* any
) noexcept nogil
