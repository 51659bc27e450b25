"""One stream of a stripe: fed with compressed pieces, read as decompressed bytes, without the interpreter's lock.

Knows compression chunks and their headers. Must not know what the bytes mean, nor where they come from:
pieces arrive in order through `feed`, each with a lease, so that whoever lent the memory learns when it is free. Reading
needs no lock, so pieces that were read are let go of later, by `hold`. Readers see a window `data[pos:end]` and ask for
`more`; the unread rest of the window is kept in front of the next chunk, so a run that straddles a chunk border is
contiguous. `more` answers False when no whole chunk is at hand: then either more bytes have to be fed
(`starved`) or the stream is at its end. Encrypted pieces are decrypted when their turn comes; that takes the lock. Specification:
"Compression", "Column Encryption".
"""

from cpython.buffer cimport PyBuffer_IsContiguous
from cpython.memoryview cimport PyMemoryView_GET_BUFFER
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memmove

from orcstream._buffer cimport Block, Buffer, allocate, give_block, take_block
from orcstream.codec._raised cimport raised
from orcstream.codec.streams._codecs cimport Codec

from orcstream.errors import CorruptStream, FormatError

cdef enum:
    HEADER_BYTES = 3
    # A window's rest is at most one run long (4 KiB); leave room so that scratch memory is allocated once.
    REST_BYTES = 8192
    # How much of bytes that are stored as they are joins a rest, before their piece itself is the window again.
    JOIN_BYTES = 4096
    # How much is decrypted at a time: longer pieces would stand in memory twice.
    DECRYPT_BYTES = 262144


cdef Py_ssize_t _decompress(
    Codec codec, const uint8_t* chunk, Py_ssize_t size, uint8_t* out, Py_ssize_t room
) except -1 nogil:
    return codec.into(chunk, size, out, room)


ctypedef Py_ssize_t (*attempt_t)(Codec, const uint8_t*, Py_ssize_t, uint8_t*, Py_ssize_t) noexcept nogil


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
        self.held = []
        self.window = -1

    def __dealloc__(self):
        free(self.pieces)
        give_block(&self.scratch)
        give_block(&self.joined)

    def feed(self, piece, *, bint last, object lease=None):
        """Append compressed bytes that follow the ones fed before; `last` ends the stream."""
        if self.complete:
            raise ValueError("the stream is complete")
        cdef Py_ssize_t start, step
        cdef Py_buffer* memory
        view = memoryview(piece)
        step = view.nbytes if self.decrypt is None else <Py_ssize_t> DECRYPT_BYTES
        for start in range(0, view.nbytes, max(1, step)):
            part = view[start : start + step]
            # Not a typed memoryview: it takes 400 bytes, for each of thousands of streams.
            memory = PyMemoryView_GET_BUFFER(part)
            if not PyBuffer_IsContiguous(memory, b"C"):
                raise BufferError("a piece of a stream lies in one place")
            self._append(<const uint8_t*> memory.buf, memory.len)
            self.held.append((part, lease))
            self.buffered += memory.len
        self.complete = last
        self.is_dry = False

    cdef int _append(self, const uint8_t* ptr, Py_ssize_t size) except -1:
        cdef Py_ssize_t room = self.piece_room
        if self.piece_count == room:
            room = max(2, 2 * room)
            larger = <Piece*> realloc(self.pieces, room * sizeof(Piece))
            if larger == NULL:
                raise MemoryError
            self.pieces = larger
            self.piece_room = room
        self.pieces[self.piece_count] = Piece(ptr, size, self.decrypt is None)
        self.piece_count += 1
        return 0

    def restart(self, *, long long file_offset, Py_ssize_t bytes_to_skip=0):
        """Forget all bytes; what is fed next begins at `file_offset`, of a chunk if the file is compressed.

        The first `bytes_to_skip` decompressed bytes are passed over: `bytes_into_chunk` of a position.
        """
        if bytes_to_skip < 0:
            raise self.corrupt(f"a position {bytes_to_skip} bytes into a chunk")
        self.held = []
        self.piece_count = self.head = self.head_pos = 0
        self.file_offset = self.head_offset = file_offset
        self.consumed = 0
        self.buffered = 0
        self.complete = False
        self.is_dry = False
        self.data = NULL
        self.pos = self.end = 0
        self.window = -1
        self.stored = self.stored_done = 0
        self.to_skip = bytes_to_skip

    def held_bytes(self, bint trim):
        """How much memory of its own the stream holds for a chunk in progress; with `trim`, no more than is unread."""
        return self.hold(trim)

    cdef Py_ssize_t hold(self, bint trim) except -1:
        """As `held_bytes`; lets go of the pieces that were read."""
        cdef Py_ssize_t rest = self.end - self.pos
        cdef Py_ssize_t done
        cdef Block exact
        if rest == 0:
            self.window = -1
            self.data = NULL
            self.pos = self.end = 0
        done = self.head if self.window < 0 else self.window
        if done:
            del self.held[:done]
            self.piece_count -= done
            memmove(self.pieces, self.pieces + done, self.piece_count * sizeof(Piece))
            self.head -= done
            if self.window >= 0:
                self.window = 0
        give_block(&self.joined)
        if trim and self.scratch.ptr != NULL:
            if rest == 0 or self.window >= 0:
                give_block(&self.scratch)
            elif self.scratch.nbytes > 2 * rest:
                take_block(&exact, rest)
                memcpy(exact.ptr, self.data + self.pos, rest)
                give_block(&self.scratch)
                self.scratch = exact
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

    def read(self, Py_ssize_t count, Codec codec not None):
        """At most `count` decompressed bytes, fewer only when no more are at hand."""
        cdef Buffer out = allocate(count)
        with nogil:
            out.nbytes = self.read_into(out.ptr, count, codec)
        self.hold(False)
        return out

    def skip(self, Py_ssize_t count, Codec codec not None):
        """Skip decompressed bytes: `bytes_into_chunk` of a row index position. Answers how many were skipped."""
        return self.skip_bytes(count, codec)

    cdef object corrupt(self, str message):
        return CorruptStream(
            message, column=self.column, stream_kind=self.kind, file_offset=self.file_offset + self.consumed
        )

    cdef int fail(self, const char* message) except -1 with gil:
        raise self.corrupt(message.decode())

    cdef bint more(self, Codec codec) except -1 nogil:
        """Append the next chunk to the window; False when no whole chunk is at hand."""
        cdef bint original = False
        cdef Py_ssize_t length
        if self.to_skip:
            if not self._settle(codec):
                return False
            if self.pos < self.end:
                return True
        if not self.compressed:
            if self.head == self.piece_count:
                return False
            return self._more_stored(self.pieces[self.head].size - self.head_pos, self.head_pos)
        if self.stored:
            return self._more_stored(self.stored, self.stored_done)
        length = self._next_chunk(&original)
        if length < 0:
            return False
        if original:
            self.stored = length
            self.stored_done = 0
            return length == 0 or self._more_stored(length, 0)
        self._reserve(self.block_size, REST_BYTES)
        self.end += self._inflate(length, self.scratch.ptr + self.end, codec)
        return True

    cdef Py_ssize_t read_into(self, uint8_t* out, Py_ssize_t count, Codec codec) except -1 nogil:
        """Copy at most `count` bytes to `out`; whole chunks are decompressed in place."""
        cdef Py_ssize_t done = 0, length, size
        cdef bint original = False
        if self.to_skip and not self._settle(codec):
            return 0
        while done < count:
            if self.pos < self.end:
                size = min(self.end - self.pos, count - done)
                memcpy(out + done, self.data + self.pos, size)
                self.pos += size
                done += size
            elif self.compressed and not self.stored and count - done >= self.block_size:
                length = self._next_chunk(&original)
                if length < 0:
                    break
                if original:
                    self.stored = length
                    self.stored_done = 0
                else:
                    done += self._inflate(length, out + done, codec)
            elif not self.more(codec):
                break
        return done

    cdef Py_ssize_t skip_bytes(self, Py_ssize_t count, Codec codec) except -1 nogil:
        cdef Py_ssize_t done = 0, size
        while done < count:
            if self.pos == self.end and not self.more(codec):
                break
            size = min(self.end - self.pos, count - done)
            self.pos += size
            done += size
        return done

    cdef bint _settle(self, Codec codec) except -1 nogil:
        """Pass over what stands before the position; False when that is not all at hand yet."""
        cdef Py_ssize_t count = self.to_skip
        self.to_skip = 0
        count -= self.skip_bytes(count, codec)
        self.to_skip = count
        if count and self.complete:
            with gil:
                raise self.corrupt(f"a position {count} bytes behind the end of the stream")
        return count == 0

    cdef bint _more_stored(self, Py_ssize_t left, Py_ssize_t done) except -1 nogil:
        """Append bytes that are stored as they are: of `left` that are at hand, which follow `done` such bytes."""
        cdef Py_ssize_t rest = self.end - self.pos
        cdef Py_ssize_t size = min(left, self.pieces[self.head].size - self.head_pos)
        self._open(self.head, self.head_offset)
        if rest <= min(done, self.head_pos):
            # What is unread came from this very piece (or is nothing): the window is the piece itself.
            self.window = self.head
            self.data = self.pieces[self.head].ptr
            self.pos = self.head_pos - rest
            self.end = self.head_pos + size
            give_block(&self.scratch)  # thousands of columns would each keep it up to the next border
        else:
            size = min(size, <Py_ssize_t> JOIN_BYTES)
            self._reserve(size, rest)
            memcpy(self.scratch.ptr + self.end, self.pieces[self.head].ptr + self.head_pos, size)
            self.end += size
        self._advance(size)
        if self.compressed:
            self.stored -= size
            self.stored_done += size
        return True

    cdef Py_ssize_t _next_chunk(self, bint* original) except -2 nogil:
        """Length of the next chunk, its header consumed; -1 when the whole of it is not at hand yet."""
        cdef uint8_t[HEADER_BYTES] header
        cdef Py_ssize_t length
        if self.buffered < HEADER_BYTES:
            if self.complete and self.buffered:
                self.fail("the stream ends inside a compression chunk's header")
            return -1
        self._peek(header, HEADER_BYTES)
        length = (header[0] | (<unsigned int> header[1] << 8) | (<unsigned int> header[2] << 16)) >> 1
        original[0] = header[0] & 1
        if length > self.buffered - HEADER_BYTES:
            if self.complete:
                with gil:
                    raise self.corrupt(
                        f"the stream ends inside a compression chunk of {length} bytes, "
                        f"{self.buffered - HEADER_BYTES} are left"
                    )
            return -1
        self._advance(HEADER_BYTES)
        return length

    cdef int _open(self, Py_ssize_t index, long long file_offset) except -1 nogil:
        """Decrypt the piece that stands at `file_offset`, unless it is plain, into memory that is warm."""
        return 0 if self.pieces[index].is_plain else self._decrypt(index, file_offset)

    cdef int _decrypt(self, Py_ssize_t index, long long file_offset) except -1 with gil:
        cdef Buffer out = allocate(self.pieces[index].size)
        cdef Py_ssize_t done = self.head if self.window < 0 else self.window
        while done and self.held[done - 1] is not None:  # they would stand in memory twice up to the end of the call
            done -= 1
            self.held[done] = None
        view, lease = self.held[index]
        self.decrypt(view, file_offset - self.stream_start, memoryview(out))
        self.held[index] = (out, lease)
        self.pieces[index].ptr = out.ptr
        self.pieces[index].is_plain = True
        return 0

    cdef int _peek(self, uint8_t* out, Py_ssize_t count) except -1 nogil:
        """Copy the next `count` compressed bytes, joined from as many pieces as it takes; they are there."""
        cdef long long offset = self.head_offset
        cdef Py_ssize_t index = self.head, at = self.head_pos, done = 0, size
        while done < count:
            self._open(index, offset)
            size = min(self.pieces[index].size - at, count - done)
            memcpy(out + done, self.pieces[index].ptr + at, size)
            done += size
            offset += self.pieces[index].size
            index += 1
            at = 0
        return 0

    cdef const uint8_t* _take(self, Py_ssize_t count) except NULL nogil:
        """Where the next `count` compressed bytes are, consumed: in their piece, or joined, up to the next call."""
        cdef const uint8_t* chunk
        if count and count <= self.pieces[self.head].size - self.head_pos:
            self._open(self.head, self.head_offset)
            chunk = self.pieces[self.head].ptr + self.head_pos
        else:  # an empty chunk may be the last of all pieces, when there is no head
            if self.joined.nbytes < count or self.joined.ptr == NULL:
                give_block(&self.joined)
                take_block(&self.joined, count)
            self._peek(self.joined.ptr, count)
            chunk = self.joined.ptr
        self._advance(count)
        return chunk

    cdef int _advance(self, Py_ssize_t count) except -1 nogil:
        cdef Py_ssize_t size
        self.consumed += count
        self.buffered -= count
        while self.head < self.piece_count:
            size = self.pieces[self.head].size - self.head_pos
            if count < size:
                self.head_pos += count
                return 0
            count -= size
            self.head_offset += self.pieces[self.head].size
            self.head += 1
            self.head_pos = 0
        return 0

    cdef int _reserve(self, Py_ssize_t extra, Py_ssize_t largest_rest) except -1 nogil:
        """Make the window writable memory of our own with `extra` bytes of room behind it.

        Windows whose rest is no larger than `largest_rest` can use the same memory later.
        """
        cdef Py_ssize_t rest = self.end - self.pos
        cdef Block larger
        if self.scratch.ptr == NULL or self.scratch.nbytes < rest + extra:
            take_block(&larger, extra + max(rest, largest_rest))
            if rest:
                memcpy(larger.ptr, self.data + self.pos, rest)
            give_block(&self.scratch)
            self.scratch = larger
        elif rest:
            memmove(self.scratch.ptr, self.data + self.pos, rest)
        self.window = -1
        self.data = self.scratch.ptr
        self.pos = 0
        self.end = rest
        return 0

    cdef Py_ssize_t _inflate(self, Py_ssize_t length, uint8_t* out, Codec codec) except -1 nogil:
        """The next chunk of `length` bytes, decompressed to memory that has room for a block."""
        cdef const uint8_t* chunk = self._take(length)
        cdef Py_ssize_t size = (<attempt_t> _decompress)(codec, chunk, length, out, self.block_size)
        give_block(&self.joined)  # other columns are decoded before the call ends
        return size if size >= 0 else self._locate()

    cdef int _locate(self) except -1 with gil:
        """Raise what waits to be raised, with its place."""
        error = raised()
        if isinstance(error, FormatError):
            error.locate(column=self.column, stream_kind=self.kind, file_offset=self.file_offset + self.consumed)
        raise error
