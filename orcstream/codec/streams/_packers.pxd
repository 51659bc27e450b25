from libc.stdint cimport uint8_t

from orcstream._buffer cimport Buffer


cdef inline Py_ssize_t packed_bound(Py_ssize_t size) noexcept nogil:
    """The room that every codec is content with for a block of `size` bytes: what it makes may be longer."""
    return size + size // 6 + 1024


cdef class Packer:
    # Whether `pack` takes the lock to do its work.
    cdef bint in_python
    cdef Buffer scratch

    cdef Py_ssize_t pack(
        self, const uint8_t* block, Py_ssize_t size, uint8_t* out, Py_ssize_t room
    ) except -1 nogil
