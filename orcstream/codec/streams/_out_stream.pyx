"""One stream of a stripe under construction: takes encoded bytes, gives compression chunks.

Knows blocks, chunk headers and where in the stream a byte will stand. Must not know what the bytes mean.
Encoders write straight into the open block (`room`, `advance`); a block that is full is cut off and waits
until `pack` is called with the worker's packer, so encoders need none. A position is therefore taken
as `offset` (encoded bytes so far) and turned into the numbers of a row index entry by `places`, once
the stream is finished. None of that takes the interpreter's lock. Finished pieces are taken by `drain`. For one thread at
a time. Specification: "Compression".
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memmove

from orcstream._buffer cimport Block, Buffer, allocate, buffer_of, give_block, take_block, widen_block
from orcstream.codec.streams._packers cimport HEADER_BYTES, Packer, put_chunk_header

cdef enum:
    FIRST_BYTES = 1024        # of a stream's first block; it doubles up to the block size
    OVERHANG_BYTES = 8192     # room behind a block, so that a run is never cut while it is written
    MOST_BLOCK_BYTES = 8388607  # a header has 23 bits for the length
    FIRST_PIECES = 8


cdef class OutStream:
    """Encoded bytes of one stream, cut into chunks of `block_size` bytes (the last one may be shorter).

    Raises ValueError when `block_size` is not 1 to 2^23 - 1.
    """

    def __cinit__(self, *, bint compressed, Py_ssize_t block_size):
        if not 0 < block_size <= MOST_BLOCK_BYTES:
            raise ValueError(f"a compression block of {block_size} bytes: must be 1 to {MOST_BLOCK_BYTES}")
        self.compressed = compressed
        self.block_size = block_size
        self.head = HEADER_BYTES if compressed else 0

    def __dealloc__(self):
        cdef Py_ssize_t index
        for index in range(self.piece_count):
            give_block(&self.pieces[index])
        free(self.pieces)
        give_block(&self.block)
        give_block(&self.chunk_offsets)

    @property
    def stream_offset(self):
        """Encoded (not compressed) bytes written so far: where the next byte will stand."""
        return self.offset()

    @property
    def size_bytes(self):
        """Length of the stream as it stands: finished chunks, plus what is not compressed yet as it is."""
        return self.length()

    @property
    def held_bytes(self):
        """Memory held: pieces not drained, blocks not compressed, and the open block."""
        return self.held()

    def write(self, data):
        """Append bytes as they are; any object with a contiguous buffer."""
        cdef Py_buffer view
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            self.append(<const uint8_t*> view.buf, view.len)
        finally:
            PyBuffer_Release(&view)

    def compress(self, compressor):
        """`pack` by a `Compressor`; None for a stream without compression."""
        cdef Packer packer = None if compressor is None else compressor.packer
        with nogil:
            self.pack(packer)

    def finish(self, compressor):
        """`end` by a `Compressor`; None for a stream without compression."""
        cdef Packer packer = None if compressor is None else compressor.packer
        with nogil:
            self.end(packer)

    def drain(self):
        """The finished pieces in stream order, as buffers; they are forgotten here."""
        cdef Py_ssize_t index
        cdef list found = []
        for index in range(self.finished_count):
            found.append(buffer_of(&self.pieces[index]))
        self.piece_count -= self.finished_count
        if self.piece_count:
            memmove(self.pieces, self.pieces + self.finished_count, self.piece_count * sizeof(Block))
        self.finished_count = 0
        self.undrained_bytes = 0
        return found

    def places(self, const int64_t[:] stream_offsets):
        """Where these encoded bytes stand in the finished stream, as int64.

        (chunk_offset, bytes_into_chunk) of each if it is compressed, else (stream_offset,). The end of the stream is
        the end of its last chunk, since a chunk that is not there can't be sought.
        """
        cdef Py_ssize_t index, count = stream_offsets.shape[0]
        cdef Buffer found = allocate(count * 8 * (2 if self.compressed else 1))
        cdef int64_t* out = <int64_t*> found.ptr
        if not self.finished:
            raise ValueError("chunks have no place before the stream is finished")
        for index in range(count):
            if not 0 <= stream_offsets[index] <= self.cut_bytes:
                raise ValueError(f"the stream has {self.cut_bytes} bytes, there is none at {stream_offsets[index]}")
            if self.compressed:
                self._place(stream_offsets[index], out + 2 * index)
            else:
                out[index] = stream_offsets[index]
        return found

    cdef void _place(self, int64_t stream_offset, int64_t* out) noexcept nogil:
        cdef const int64_t* chunks = <const int64_t*> self.chunk_offsets.ptr
        cdef int64_t chunk = stream_offset // self.block_size
        out[1] = stream_offset % self.block_size
        if chunk == self.chunk_count and chunk > 0:
            chunk -= 1
            out[1] = self.block_size
        out[0] = chunks[chunk] if self.chunk_count else 0

    cdef int64_t offset(self) noexcept nogil:
        return self.cut_bytes + self.fill

    cdef int64_t length(self) noexcept nogil:
        cdef int64_t heads = (self.piece_count - self.finished_count) * self.head
        return self.done_bytes + self.waiting_bytes - heads + self.fill

    cdef int64_t held(self) noexcept nogil:
        return self.undrained_bytes + self.waiting_bytes + self.block.nbytes

    cdef int pack(self, Packer packer) except -1 nogil:
        """Turn the blocks that are full into chunks; `packer` is None for a stream without compression."""
        cdef Block* block
        cdef int64_t size
        if self.compressed == (packer is None):
            with gil:
                raise ValueError("a compressed stream needs a compressor, any other none")
        while self.finished_count < self.piece_count:
            block = &self.pieces[self.finished_count]
            size = block.nbytes
            self._finish_block(block, packer)
            self.waiting_bytes -= size
            self.done_bytes += block.nbytes
            self.undrained_bytes += block.nbytes
            self.finished_count += 1
        return 0

    cdef int end(self, Packer packer) except -1 nogil:
        """Cut off and compress what is left. Encoders must have been ended; nothing may be written after."""
        if self.finished:
            with gil:
                raise ValueError("the stream is finished")
        if self.fill:
            self._cut(self.fill)
        give_block(&self.block)
        self.pack(packer)
        self.finished = True
        return 0

    cdef Py_ssize_t room_bytes(self) noexcept nogil:
        return 0 if self.block.ptr == NULL else self.block.nbytes - self.head - self.fill

    cdef uint8_t* room(self, Py_ssize_t least) except NULL nogil:
        """Where the next byte goes, with at least `least` bytes of room (see `room_bytes`)."""
        cdef Py_ssize_t wanted
        cdef Block larger
        if self.finished:
            with gil:
                raise ValueError("the stream is finished")
        if self.block.ptr == NULL or self.room_bytes() < least:
            # `advance` leaves less than a block in it, so this ends at a block and its overhang.
            wanted = self.block_size + OVERHANG_BYTES
            if self.cut_bytes == 0:
                wanted = min(wanted, <Py_ssize_t> FIRST_BYTES if self.block.ptr == NULL else 2 * self.block.nbytes)
            take_block(&larger, self.head + max(wanted, self.fill + least))
            if self.fill:
                memcpy(larger.ptr + self.head, self.block.ptr + self.head, self.fill)
            give_block(&self.block)
            self.block = larger
        return self.block.ptr + self.head + self.fill

    cdef int advance(self, Py_ssize_t count) except -1 nogil:
        """`count` bytes were written to `room`."""
        self.fill += count
        while self.fill >= self.block_size:
            self._cut(self.block_size)
        return 0

    cdef int append(self, const uint8_t* data, Py_ssize_t count) except -1 nogil:
        cdef Py_ssize_t size
        while count:
            # Up to the block's end and no further: nothing then has to be moved when it is cut.
            size = min(count, self.block_size - self.fill)
            memcpy(self.room(size), data, size)
            self.advance(size)
            data += size
            count -= size
        return 0

    cdef int _cut(self, Py_ssize_t size) except -1 nogil:
        """The first `size` bytes of the open block are a block of their own, the rest begins the next one."""
        cdef Block following
        cdef Py_ssize_t rest = self.fill - size
        following.ptr = NULL
        following.nbytes = following.capacity = 0
        self._reserve()
        if rest:
            take_block(&following, self.head + max(self.block_size + OVERHANG_BYTES, rest))
            memcpy(following.ptr + self.head, self.block.ptr + self.head + size, rest)
        self.block.nbytes = self.head + size
        self.pieces[self.piece_count] = self.block
        self.piece_count += 1
        if self.compressed:
            self.waiting_bytes += self.block.nbytes
        else:
            self.finished_count += 1
            self.done_bytes += self.block.nbytes
            self.undrained_bytes += self.block.nbytes
        self.block = following
        self.fill = rest
        self.cut_bytes += size
        return 0

    cdef int _reserve(self) except -1 nogil:
        """Room for one more piece."""
        cdef Py_ssize_t room
        cdef void* pieces
        if self.piece_count == self.piece_room:
            room = max(2 * self.piece_room, <Py_ssize_t> FIRST_PIECES)
            pieces = realloc(self.pieces, room * sizeof(Block))
            if pieces == NULL:
                with gil:
                    raise MemoryError
            self.pieces = <Block*> pieces
            self.piece_room = room
        return 0

    cdef int _finish_block(self, Block* block, Packer packer) except -1 nogil:
        """Make a chunk of a block, in its place: what compression does not make shorter stays as it is."""
        cdef Py_ssize_t size = block.nbytes - HEADER_BYTES
        cdef Block chunk
        cdef uint8_t* scratch = packer.room_for(size)
        cdef Py_ssize_t written = packer.pack(block.ptr + HEADER_BYTES, size, scratch, packer.scratch.nbytes)
        widen_block(&self.chunk_offsets, self.chunk_count * 8, (self.chunk_count + 1) * 8)
        if written:
            take_block(&chunk, HEADER_BYTES + written)
            put_chunk_header(chunk.ptr, written, False)
            memcpy(chunk.ptr + HEADER_BYTES, scratch, written)
            give_block(block)
            block[0] = chunk
        else:
            put_chunk_header(block.ptr, size, True)
        (<int64_t*> self.chunk_offsets.ptr)[self.chunk_count] = self.done_bytes
        self.chunk_count += 1
        return 0
