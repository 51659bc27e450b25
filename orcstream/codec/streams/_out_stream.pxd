from libc.stdint cimport int64_t, uint8_t

from orcstream._buffer cimport Block
from orcstream.codec.streams._packers cimport Packer


cdef class OutStream:
    cdef readonly bint compressed
    cdef readonly Py_ssize_t block_size
    cdef readonly bint finished
    cdef Py_ssize_t head            # bytes kept free before a block for its chunk header
    cdef Block block                # the open block: head, then `fill` encoded bytes
    cdef Py_ssize_t fill
    cdef int64_t cut_bytes          # encoded bytes of all blocks cut off before
    # Finished pieces of the stream that were not drained yet, then blocks that are cut and not compressed yet.
    cdef Block* pieces
    cdef Py_ssize_t piece_count
    cdef Py_ssize_t piece_room
    cdef Py_ssize_t finished_count
    cdef int64_t waiting_bytes      # of the blocks, with their heads
    cdef int64_t undrained_bytes
    cdef int64_t done_bytes         # length of all finished pieces, those drained among them
    cdef Block chunk_offsets        # int64: where each chunk begins
    cdef Py_ssize_t chunk_count

    cdef uint8_t* room(self, Py_ssize_t least) except NULL nogil
    cdef Py_ssize_t room_bytes(self) noexcept nogil
    cdef int advance(self, Py_ssize_t count) except -1 nogil
    cdef int append(self, const uint8_t* data, Py_ssize_t count) except -1 nogil
    cdef int pack(self, Packer packer) except -1 nogil
    cdef int end(self, Packer packer) except -1 nogil
    cdef int64_t offset(self) noexcept nogil
    cdef void _place(self, int64_t stream_offset, int64_t* out) noexcept nogil
    cdef int64_t length(self) noexcept nogil
    cdef int64_t held(self) noexcept nogil
    cdef int _cut(self, Py_ssize_t size) except -1 nogil
    cdef int _finish_block(self, Block* block, Packer packer) except -1 nogil
    cdef int _reserve(self) except -1 nogil
