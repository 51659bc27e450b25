from libc.stdint cimport uint8_t

from orcstream._buffer cimport Buffer


cdef class OutStream:
    cdef readonly bint compressed
    cdef readonly Py_ssize_t block_size
    cdef readonly bint finished
    cdef Py_ssize_t head            # bytes kept free before a block for its chunk header
    cdef Buffer block               # the open block: head, then `fill` encoded bytes
    cdef Py_ssize_t fill
    cdef long long cut_bytes        # encoded bytes of all blocks cut off before
    cdef list waiting               # blocks that are cut and not compressed yet
    cdef list done                  # finished pieces of the stream, in order
    cdef long long done_bytes       # length of all finished pieces, those drained among them
    cdef long long undrained_bytes
    cdef list chunk_offsets

    cdef uint8_t* room(self, Py_ssize_t least) except NULL
    cdef Py_ssize_t room_bytes(self)
    cdef int advance(self, Py_ssize_t count) except -1
    cdef int append(self, const uint8_t* data, Py_ssize_t count) except -1
    cdef int _cut(self, Py_ssize_t size) except -1
