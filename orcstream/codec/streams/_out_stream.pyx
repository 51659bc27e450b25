"""One stream of a stripe under construction: takes encoded bytes, gives compression chunks.

Knows blocks, chunk headers and where in the stream a byte will stand. Must not know what the bytes mean.
Encoders write straight into the open block (`room`, `advance`); a block that is full is cut off and waits
until `compress` is called with the worker's compressor, so encoders need none. A position is therefore taken
as `stream_offset` (encoded bytes so far) and turned into the numbers of a row index entry by `place`, once
the stream is finished. Finished pieces are taken by `drain` as often as the caller likes, so that no more
memory is held than the caller wants. For one thread at a time. Specification: "Compression".
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.string cimport memcpy

from orcstream._buffer cimport Buffer, allocate

cdef enum:
    HEADER_BYTES = 3
    FIRST_BYTES = 1024        # of a stream's first block; it doubles up to the block size
    OVERHANG_BYTES = 8192     # room behind a block, so that a run is never cut while it is written
    MOST_BLOCK_BYTES = 8388607  # a header has 23 bits for the length


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
        self.waiting = []
        self.done = []
        self.chunk_offsets = []

    @property
    def stream_offset(self):
        """Encoded (not compressed) bytes written so far: where the next byte will stand."""
        return self.cut_bytes + self.fill

    @property
    def size_bytes(self):
        """Length of the stream as it stands: finished chunks, plus what is not compressed yet as it is."""
        cdef Py_ssize_t uncompressed = self.fill
        cdef Buffer block
        for block in self.waiting:
            uncompressed += block.nbytes - self.head
        return self.done_bytes + uncompressed

    @property
    def held_bytes(self):
        """Memory held: pieces not drained, blocks not compressed, and the open block."""
        cdef Py_ssize_t held = 0 if self.block is None else self.block.nbytes
        cdef Buffer block
        for block in self.waiting:
            held += block.nbytes
        return self.undrained_bytes + held

    def write(self, data):
        """Append bytes as they are; any object with a contiguous buffer."""
        cdef Py_buffer view
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            self.append(<const uint8_t*> view.buf, view.len)
        finally:
            PyBuffer_Release(&view)

    def compress(self, compressor):
        """Turn the blocks that are full into chunks; `compressor` is None for a stream without compression."""
        cdef Buffer block
        if self.compressed == (compressor is None):
            raise ValueError("a compressed stream needs a compressor, any other none")
        for index in range(len(self.waiting)):
            block = self.waiting[index]
            self._finish_block(block, compressor)
        self.waiting = []

    def finish(self, compressor):
        """Cut off and compress what is left. Encoders must have been flushed; nothing may be written after."""
        if self.finished:
            raise ValueError("the stream is finished")
        if self.fill:
            self._cut(self.fill)
        self.block = None
        self.compress(compressor)
        self.finished = True

    def drain(self):
        """The finished pieces in stream order, forgotten here; each is bytes or a buffer."""
        pieces = self.done
        self.done = []
        self.undrained_bytes = 0
        return pieces

    def place(self, long long stream_offset):
        """Where the encoded byte `stream_offset` stands in the finished stream.

        (chunk_offset, bytes_into_chunk) if it is compressed, else (stream_offset,). The end of the stream is
        the end of its last chunk, since a chunk that is not there can't be sought.
        """
        if not self.finished:
            raise ValueError("chunks have no place before the stream is finished")
        if not 0 <= stream_offset <= self.cut_bytes:
            raise ValueError(f"the stream has {self.cut_bytes} bytes, there is none at {stream_offset}")
        if not self.compressed:
            return (stream_offset,)
        chunk, into = divmod(stream_offset, self.block_size)
        if chunk == len(self.chunk_offsets) and chunk > 0:
            chunk -= 1
            into = self.block_size
        return (self.chunk_offsets[chunk] if self.chunk_offsets else 0, into)

    cdef Py_ssize_t room_bytes(self):
        return 0 if self.block is None else self.block.nbytes - self.head - self.fill

    cdef uint8_t* room(self, Py_ssize_t least) except NULL:
        """Where the next byte goes, with at least `least` bytes of room (see `room_bytes`)."""
        cdef Py_ssize_t wanted
        cdef Buffer larger
        if self.finished:
            raise ValueError("the stream is finished")
        if self.block is None or self.room_bytes() < least:
            # `advance` leaves less than a block in it, so this ends at a block and its overhang.
            wanted = self.block_size + OVERHANG_BYTES
            if self.cut_bytes == 0:
                wanted = min(wanted, FIRST_BYTES if self.block is None else 2 * self.block.nbytes)
            larger = allocate(self.head + max(wanted, self.fill + least))
            if self.fill:
                memcpy(larger.ptr + self.head, self.block.ptr + self.head, self.fill)
            self.block = larger
        return self.block.ptr + self.head + self.fill

    cdef int advance(self, Py_ssize_t count) except -1:
        """`count` bytes were written to `room`."""
        self.fill += count
        while self.fill >= self.block_size:
            self._cut(self.block_size)
        return 0

    cdef int append(self, const uint8_t* data, Py_ssize_t count) except -1:
        cdef Py_ssize_t size
        while count:
            # Up to the block's end and no further: nothing then has to be moved when it is cut.
            size = min(count, self.block_size - self.fill)
            memcpy(self.room(size), data, size)
            self.advance(size)
            data += size
            count -= size
        return 0

    cdef int _cut(self, Py_ssize_t size) except -1:
        """The first `size` bytes of the open block are a block of their own, the rest begins the next one."""
        cdef Buffer block = self.block
        cdef Buffer following = None
        cdef Py_ssize_t rest = self.fill - size
        if rest:
            following = allocate(self.head + max(self.block_size + OVERHANG_BYTES, rest))
            memcpy(following.ptr + self.head, block.ptr + self.head + size, rest)
        block.nbytes = self.head + size
        self.block = following
        self.fill = rest
        self.cut_bytes += size
        if self.compressed:
            self.waiting.append(block)
        else:
            self._keep(block, size)
        return 0

    def _finish_block(self, Buffer block, compressor):
        cdef Py_ssize_t size = block.nbytes - HEADER_BYTES
        self.chunk_offsets.append(self.done_bytes)
        chunk = compressor(memoryview(block)[HEADER_BYTES:])
        if chunk is not None:
            self._keep(chunk, len(chunk))
            return
        header = (size << 1) | 1
        block.ptr[0] = header & 0xFF
        block.ptr[1] = (header >> 8) & 0xFF
        block.ptr[2] = header >> 16
        self._keep(block, block.nbytes)

    def _keep(self, piece, Py_ssize_t size):
        self.done.append(piece)
        self.done_bytes += size
        self.undrained_bytes += size
