"""One stream of a stripe: fed with compressed pieces, read as decompressed bytes.

Knows compression chunks and their headers. Must not know what the bytes mean, nor where they come from:
pieces arrive in order through `feed`, each with a lease that is dropped with the last use of the piece,
so that whoever lent the memory learns when it is free. Readers see a window `data[pos:end]` and ask for
`more`; the unread rest of the window is kept in front of the next chunk, so a run that straddles a chunk border is
contiguous. `more` answers False when no whole chunk is at hand: then either more bytes have to be fed
(`starved`) or the stream is at its end. Encrypted pieces are decrypted when their turn comes. Specification:
"Compression", "Column Encryption".
"""

from cpython.buffer cimport PyBUF_WRITE, PyBuffer_IsContiguous
from cpython.memoryview cimport PyMemoryView_FromMemory, PyMemoryView_GET_BUFFER
from libc.string cimport memcpy, memmove

from orcstream._buffer cimport Buffer, allocate

from orcstream.errors import CorruptStream, FormatError

cdef enum:
    HEADER_BYTES = 3
    # A window's rest is at most one run long (4 KiB); leave room so that scratch memory is allocated once.
    REST_BYTES = 8192
    # How much of the next piece of an uncompressed stream joins a rest before the piece itself is the window again.
    JOIN_BYTES = 65536
    # How much is decrypted at a time: longer pieces would stand in memory twice.
    DECRYPT_BYTES = 262144


cdef class InputStream:
    """Decompressed bytes of one stream, in order.

    `compressed` says whether the file is compressed at all; `block_size` bounds what a chunk may
    decompress to. `file_offset` is where the first byte fed stands in the file: where the stream begins.
    `decrypt` is called with bytes, their offset in the stream, and memory for what they hold, of streams that
    are encrypted.
    """

    def __cinit__(
        self,
        *,
        bint compressed,
        Py_ssize_t block_size,
        int column=-1,
        str kind="",
        long long file_offset=0,
        object decrypt=None,
    ):
        self.compressed = compressed
        self.block_size = block_size
        self.column = column
        self.kind = kind
        self.file_offset = file_offset
        self.stream_start = self.head_offset = file_offset
        self.decrypt = decrypt
        self.pieces = []

    def feed(self, piece, *, bint last, object lease=None):
        """Append compressed bytes that follow the ones fed before; `last` ends the stream."""
        if self.complete:
            raise ValueError("the stream is complete")
        cdef Py_ssize_t start, step
        view = memoryview(piece)
        step = view.nbytes if self.decrypt is None else <Py_ssize_t> DECRYPT_BYTES
        for start in range(0, view.nbytes, max(1, step)):
            part = view[start : start + step]
            self.pieces.append((part, lease))
            self.buffered += part.nbytes
            if len(self.pieces) == 1:
                self._set_head()
        self.complete = last

    def restart(self, *, long long file_offset, Py_ssize_t bytes_to_skip=0):
        """Forget all bytes; what is fed next begins at `file_offset`, of a chunk if the file is compressed.

        The first `bytes_to_skip` decompressed bytes are passed over: `bytes_into_chunk` of a position.
        """
        if bytes_to_skip < 0:
            raise self.corrupt(f"a position {bytes_to_skip} bytes into a chunk")
        self.pieces = []
        self._set_head()
        self.file_offset = self.head_offset = file_offset
        self.consumed = 0
        self.buffered = 0
        self.complete = False
        self.data = NULL
        self.pos = self.end = 0
        self.owner = None
        self.to_skip = bytes_to_skip

    def held_bytes(self, bint trim):
        """How much memory of its own the stream holds for a chunk in progress; with `trim`, no more than is unread."""
        cdef Py_ssize_t rest = self.end - self.pos
        cdef Buffer exact
        if self.scratch is None:
            return 0
        if trim:
            if rest == 0 or self.owner is not self.scratch:
                self.scratch = None
                if rest == 0:
                    self.owner = None
                    self.data = NULL
                    self.pos = self.end = 0
                return 0
            if self.scratch.nbytes > 2 * rest:
                exact = allocate(rest)
                memcpy(exact.ptr, self.data + self.pos, rest)
                self.scratch = exact
                self.owner = exact
                self.data = exact.ptr
                self.pos = 0
                self.end = rest
        return self.scratch.nbytes

    @property
    def starved(self):
        """Whether bytes are still to be fed."""
        return not self.complete

    @property
    def buffered_bytes(self):
        """Compressed bytes fed and not yet consumed."""
        return self.buffered

    def read(self, Py_ssize_t count, object decompress):
        """At most `count` decompressed bytes, fewer only when no more are at hand."""
        cdef Buffer out = allocate(count)
        out.nbytes = self.read_into(out.ptr, count, decompress)
        return out

    def skip(self, Py_ssize_t count, object decompress):
        """Skip decompressed bytes: `bytes_into_chunk` of a row index position. Answers how many were skipped."""
        return self.skip_bytes(count, decompress)

    cdef object corrupt(self, str message):
        return CorruptStream(
            message, column=self.column, stream_kind=self.kind, file_offset=self.file_offset + self.consumed
        )

    cdef bint more(self, object decompress) except -1:
        """Append the next chunk to the window; False when no whole chunk is at hand."""
        cdef bint original = False
        cdef Py_ssize_t length
        if self.to_skip:
            if not self._settle(decompress):
                return False
            if self.pos < self.end:
                return True
        if not self.compressed:
            return self._more_plain()
        length = self._next_chunk(&original)
        if length < 0:
            return False
        if original:
            if length == 0:
                return True
            if self.pos == self.end and length <= self.head_size - self.head_pos:
                # Stored as it is: the window is the piece itself.
                self.owner = self.pieces[0]
                self.data = self.head
                self.pos = self.head_pos
                self.end = self.head_pos + length
                self._advance(length)
                return True
            self._reserve(length)
            self._take_into(self.scratch.ptr + self.end, length)
            self.end += length
            return True
        self._reserve(self.block_size)
        self.end += self._inflate(self._take(length), self.scratch.ptr + self.end, self.block_size, decompress)
        return True

    cdef Py_ssize_t read_into(self, uint8_t* out, Py_ssize_t count, object decompress) except -1:
        """Copy at most `count` bytes to `out`; whole chunks are decompressed in place."""
        cdef Py_ssize_t done = 0, length, size
        cdef bint original = False
        if self.to_skip and not self._settle(decompress):
            return 0
        while done < count:
            if self.pos < self.end:
                size = min(self.end - self.pos, count - done)
                memcpy(out + done, self.data + self.pos, size)
                self.pos += size
                done += size
            elif self.compressed and count - done >= self.block_size:
                length = self._next_chunk(&original)
                if length < 0:
                    break
                if not original:
                    done += self._inflate(self._take(length), out + done, self.block_size, decompress)
                elif length <= count - done:
                    self._take_into(out + done, length)
                    done += length
                else:
                    self._reserve(length)
                    self._take_into(self.scratch.ptr + self.end, length)
                    self.end += length
            elif not self.more(decompress):
                break
        return done

    cdef Py_ssize_t skip_bytes(self, Py_ssize_t count, object decompress) except -1:
        cdef Py_ssize_t done = 0, size
        while done < count:
            if self.pos == self.end and not self.more(decompress):
                break
            size = min(self.end - self.pos, count - done)
            self.pos += size
            done += size
        return done

    cdef bint _settle(self, object decompress) except -1:
        """Pass over what stands before the position; False when that is not all at hand yet."""
        cdef Py_ssize_t count = self.to_skip
        self.to_skip = 0
        count -= self.skip_bytes(count, decompress)
        self.to_skip = count
        if count and self.complete:
            raise self.corrupt(f"a position {count} bytes behind the end of the stream")
        return count == 0

    cdef bint _more_plain(self) except -1:
        cdef Py_ssize_t rest = self.end - self.pos
        cdef Py_ssize_t size
        if not self.pieces:
            return False
        if rest <= self.head_pos:
            # What is unread came from this very piece (or is nothing): the window is the piece itself.
            self.owner = self.pieces[0]
            self.data = self.head
            self.pos = self.head_pos - rest
            self.end = self.head_size
            self._advance(self.head_size - self.head_pos)
            return True
        size = min(self.head_size - self.head_pos, <Py_ssize_t> JOIN_BYTES)
        self._reserve(size)
        memcpy(self.scratch.ptr + self.end, self.head + self.head_pos, size)
        self.end += size
        self._advance(size)
        return True

    cdef Py_ssize_t _next_chunk(self, bint* original) except -2:
        """Length of the next chunk, its header consumed; -1 when the whole of it is not at hand yet."""
        cdef unsigned int header
        if self.buffered < HEADER_BYTES:
            if self.complete and self.buffered:
                raise self.corrupt("the stream ends inside a compression chunk's header")
            return -1
        if self.head_size - self.head_pos >= HEADER_BYTES:
            header = (
                self.head[self.head_pos]
                | (<unsigned int> self.head[self.head_pos + 1] << 8)
                | (<unsigned int> self.head[self.head_pos + 2] << 16)
            )
        else:
            header = int.from_bytes(self._peek(HEADER_BYTES), "little")
        cdef Py_ssize_t length = header >> 1
        original[0] = header & 1
        if length > self.buffered - HEADER_BYTES:
            if self.complete:
                raise self.corrupt(
                    f"the stream ends inside a compression chunk of {length} bytes, "
                    f"{self.buffered - HEADER_BYTES} are left"
                )
            return -1
        self._advance(HEADER_BYTES)
        return length

    def _peek(self, Py_ssize_t count):
        """The next `count` compressed bytes, joined from as many pieces as it takes."""
        cdef long long offset = self.head_offset + self.head_size
        parts = [self.head_view[self.head_pos : self.head_pos + count]]
        size = parts[0].nbytes
        for view, _ in self.pieces[1:]:
            if size == count:
                break
            part = view[: count - size]
            size += part.nbytes
            parts.append(part if self.decrypt is None else self._decrypted(part, offset))
            offset += view.nbytes
        return b"".join(parts)

    cdef object _decrypted(self, object view, long long file_offset):
        """What stands at `file_offset`, in memory that is warm."""
        out = memoryview(allocate(view.nbytes))
        self.decrypt(view, file_offset - self.stream_start, out)
        return out

    cdef object _take(self, Py_ssize_t count):
        """The next `count` compressed bytes as one memoryview, consumed."""
        if count == 0:  # an empty chunk may be the last of all pieces, when there is no head
            return memoryview(b"")
        if count <= self.head_size - self.head_pos:
            chunk = self.head_view[self.head_pos : self.head_pos + count]
        else:
            chunk = memoryview(self._peek(count))
        self._advance(count)
        return chunk

    cdef int _take_into(self, uint8_t* out, Py_ssize_t count) except -1:
        cdef const unsigned char[::1] chunk
        if count:
            chunk = self._take(count)
            memcpy(out, &chunk[0], count)
        return 0

    cdef int _advance(self, Py_ssize_t count) except -1:
        cdef Py_ssize_t size
        self.consumed += count
        self.buffered -= count
        while self.pieces:
            size = self.head_size - self.head_pos
            if count < size:
                self.head_pos += count
                return 0
            count -= size
            self.head_offset += self.head_size
            del self.pieces[0]
            self._set_head()
        return 0

    cdef int _set_head(self) except -1:
        cdef Py_buffer* memory
        self.head_pos = self.head_size = 0
        self.head = NULL
        self.head_view = None
        if self.pieces:
            view, lease = self.pieces[0]
            if self.decrypt is not None:
                view = self._decrypted(view, self.head_offset)
                self.pieces[0] = (view, lease)
            self.head_view = view
            # Not a typed memoryview: it takes 400 bytes, for each of thousands of streams.
            memory = PyMemoryView_GET_BUFFER(view)
            if not PyBuffer_IsContiguous(memory, b"C"):
                raise BufferError("a piece of a stream lies in one place")
            self.head = <const uint8_t*> memory.buf
            self.head_size = memory.len
        return 0

    cdef int _reserve(self, Py_ssize_t extra) except -1:
        """Make the window writable memory of our own with `extra` bytes of room behind it."""
        cdef Py_ssize_t rest = self.end - self.pos
        cdef Buffer target = self.scratch
        if target is None or target.nbytes < rest + extra:
            target = allocate(extra + max(rest, <Py_ssize_t> REST_BYTES))
        if rest:
            memmove(target.ptr, self.data + self.pos, rest)
        self.scratch = target
        self.owner = target
        self.data = target.ptr
        self.pos = 0
        self.end = rest
        return 0

    cdef Py_ssize_t _inflate(self, object chunk, uint8_t* out, Py_ssize_t room, object decompress) except -1:
        cdef Py_ssize_t size
        try:
            size = decompress(chunk, PyMemoryView_FromMemory(<char*> out, room, PyBUF_WRITE))
        except FormatError as error:
            raise error.locate(
                column=self.column, stream_kind=self.kind, file_offset=self.file_offset + self.consumed
            )
        if size < 0 or size > room:
            raise self.corrupt("a chunk decompresses to more than the compression block size")
        return size
