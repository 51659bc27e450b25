from libc.stdint cimport uint8_t

from orcstream._buffer cimport Block

cdef enum:
    HEADER_BYTES = 3


cdef inline Py_ssize_t packed_bound(Py_ssize_t size) noexcept nogil:
    """The room that every codec is content with for a block of `size` bytes: what it makes may be longer."""
    return size + size // 6 + 1024


cdef inline void put_chunk_header(uint8_t* out, Py_ssize_t size, bint is_original) noexcept nogil:
    """The header of a chunk of `size` bytes, which is stored as it was or compressed."""
    cdef Py_ssize_t header = (size << 1) | is_original
    out[0] = header & 0xFF
    out[1] = (header >> 8) & 0xFF
    out[2] = (header >> 16) & 0xFF


cdef class Packer:
    cdef Block scratch

    cdef uint8_t* room_for(self, Py_ssize_t size) except NULL nogil
    cdef Py_ssize_t pack(
        self, const uint8_t* block, Py_ssize_t size, uint8_t* out, Py_ssize_t room
    ) except -1 nogil
