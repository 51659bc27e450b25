"""Value streams: the values of one stream, decoded on demand and kept until they are taken.

Knows which kernel decodes which stream, and where in a run it stands. Must not know columns or nulls.
`pend(n)` decodes until n values are pending, or until the bytes fed so far are used up; it answers how many
there are, and `hand_over` gives them away. So a caller may look at as many values as it likes (lengths, to see how
many rows fit) before it decides how many to take, and a stream may run dry at any byte. When all pending values are
taken at once, which is the rule, the memory itself is handed over. A stream that is complete and too short is
`CorruptStream`. None of that takes the interpreter's lock; `ensure`, `take`, `peek` and `drop` are the same for Python.
"""

cimport cython
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from orcstream._buffer cimport Block, Buffer, allocate, buffer_of, give_block, take_block
from orcstream.codec._bits cimport BAD_PATCH, BAD_VARINT, FULL, MORE, Cursor
from orcstream.codec.streams._decode_values cimport decode_bytes, decode_v1, decode_v2, decode_varint128
from orcstream.codec.streams._codecs cimport Codec
from orcstream.codec.streams._stream cimport InputStream

cdef enum:
    PACKED_BYTES = 4096

# No enum: those are C ints. Far beyond all memory, and no product below it wraps.
cdef Py_ssize_t MOST_BYTES = 281474976710656


# Where pending values would be, if there were any.
cdef uint8_t[16] NOTHING


cdef class Values:
    """Base of the value streams; `item_bytes` is the width of a pending value."""

    def __dealloc__(self):
        give_block(&self.block)

    def seek(self, Py_ssize_t values_to_skip):
        """Skip values from the run at which the input stands: the third number of a row index position."""
        if values_to_skip < 0:
            raise self.input.corrupt(f"a position that skips {values_to_skip} values")
        self.to_skip = values_to_skip

    def restart(self):
        """Forget pending values and where in a run the stream stands; the input is restarted apart."""
        give_block(&self.block)
        self.start = self.stop = 0
        self.to_skip = 0

    def ensure(self, Py_ssize_t count, Codec codec not None):
        """Decode until `count` values are pending; answers how many of those there are."""
        with nogil:
            count = self.pend(count, codec)
        return count

    def take(self, Py_ssize_t count):
        """The first `count` pending values, which must be there."""
        cdef Block out
        self.hand_over(count, &out)
        return buffer_of(&out)

    def peek(self, Py_ssize_t count):
        """A copy of the first `count` pending values."""
        cdef Buffer out
        self._check_pending(count)
        out = allocate(count * self.item_bytes)
        memcpy(out.ptr, self.pending(), count * self.item_bytes)
        return out

    def drop(self, Py_ssize_t count):
        """Forget the first `count` pending values."""
        self.forget(count)

    cdef Py_ssize_t decode(self, uint8_t* out, Py_ssize_t count, Codec codec) except -1 nogil:
        """Decode `count` values, fewer only when no more bytes are at hand; returns how many."""
        cdef Cursor cursor
        cdef Py_ssize_t done = 0
        cdef int status
        while done < count:
            cursor.skip = self.to_skip
            status = self.runs(
                self.input.data + self.input.pos,
                self.input.end - self.input.pos,
                out + done * self.item_bytes,
                count - done,
                &cursor,
            )
            self.input.pos += cursor.consumed
            done += cursor.produced
            self.to_skip = cursor.skip
            if status == BAD_VARINT:
                with gil:
                    raise self.input.corrupt(f"a varint is longer than {8 * self.item_bytes} bits")
            if status == BAD_PATCH:
                self.input.fail("a patched run's patch list is invalid")
            if status == MORE and not self.input.more(codec):
                if self.input.complete:
                    with gil:
                        raise self.input.corrupt(f"the stream ends {count - done} values early")
                break
        return done

    cdef int runs(
        self, const uint8_t* data, Py_ssize_t size, uint8_t* out, Py_ssize_t count, Cursor* cursor
    ) noexcept nogil:
        """The kernel that `decode` calls (see `_bits.pxd`); value streams override one of the two."""
        return FULL

    cdef Py_ssize_t extra(self) noexcept nogil:
        """Values that `decode` may write beyond the count asked for."""
        return 0

    cdef uint8_t* pending(self) noexcept nogil:
        """Where the pending values are, up to the next call; never NULL."""
        return &NOTHING[0] if self.block.ptr == NULL else self.block.ptr + self.start * self.item_bytes

    cdef Py_ssize_t pend(self, Py_ssize_t count, Codec codec) except -1 nogil:
        """Decode until `count` values are pending; answers how many of those there are."""
        cdef Py_ssize_t have = self.stop - self.start
        if have < count:
            self._grow(count)
            have = self.stop - self.start
            self.stop += self.decode(self.block.ptr + self.stop * self.item_bytes, count - have, codec)
            have = self.stop - self.start
        return min(have, count)

    cdef int hand_over(self, Py_ssize_t count, Block* out) except -1 nogil:
        """The first `count` pending values, which must be there, as a block that the caller owns."""
        self._check_pending(count)
        if self.start == 0 and self.stop == count and self.block.ptr != NULL:
            out[0] = self.block
            out.nbytes = count * self.item_bytes
            self.block.ptr = NULL
            self.stop = 0
            return 0
        take_block(out, count * self.item_bytes)
        memcpy(out.ptr, self.pending(), count * self.item_bytes)
        return self.forget(count)

    cdef int forget(self, Py_ssize_t count) except -1 nogil:
        """Drop the first `count` pending values."""
        self._check_pending(count)
        self.start += count
        if self.start == self.stop:
            self.start = self.stop = 0
            give_block(&self.block)
        return 0

    cdef int _check_pending(self, Py_ssize_t count) except -1 nogil:
        if not 0 <= count <= self.stop - self.start:
            with gil:
                raise ValueError("more values than are pending, or fewer than none")
        return 0

    cdef int _grow(self, Py_ssize_t count) except -1 nogil:
        cdef Py_ssize_t have = self.stop - self.start
        cdef Py_ssize_t room
        cdef Block larger
        if count > MOST_BYTES // self.item_bytes:  # the products below would wrap
            with gil:
                raise MemoryError(f"{count} values of {self.item_bytes} bytes")
        room = count + self.extra()
        if self.block.ptr != NULL and (self.start + room) * self.item_bytes <= self.block.nbytes:
            return 0
        take_block(&larger, room * self.item_bytes)
        memcpy(larger.ptr, self.pending(), have * self.item_bytes)
        give_block(&self.block)
        self.block = larger
        self.start = 0
        self.stop = have
        return 0


@cython.final
cdef class IntValues(Values):
    """Integers of either run length encoding, as int64."""

    cdef bint signed
    cdef bint version_2

    def __cinit__(self, InputStream input, *, bint signed, bint version_2):
        self.input = input
        self.signed = signed
        self.version_2 = version_2
        self.item_bytes = 8

    cdef int runs(
        self, const uint8_t* data, Py_ssize_t size, uint8_t* out, Py_ssize_t count, Cursor* cursor
    ) noexcept nogil:
        if self.version_2:
            return decode_v2(data, size, <int64_t*> out, count, self.signed, cursor)
        return decode_v1(data, size, <int64_t*> out, count, self.signed, cursor)


@cython.final
cdef class ByteValues(Values):
    """Bytes of the byte run length encoding, as uint8."""

    def __cinit__(self, InputStream input):
        self.input = input
        self.item_bytes = 1

    cdef int runs(
        self, const uint8_t* data, Py_ssize_t size, uint8_t* out, Py_ssize_t count, Cursor* cursor
    ) noexcept nogil:
        return decode_bytes(data, size, out, count, cursor)


@cython.final
cdef class BoolValues(Values):
    """Booleans: bits, most significant first, in byte run lengths; as uint8 of 0 and 1."""

    def __cinit__(self, InputStream input):
        self.input = input
        self.packed = ByteValues(input)
        self.item_bytes = 1

    def seek(self, Py_ssize_t values_to_skip, Py_ssize_t bits_to_skip=0):
        """Skip bytes of the run at which the input stands, then bits of the byte after them."""
        if not 0 <= bits_to_skip < 8:
            raise self.input.corrupt(f"a position that skips {bits_to_skip} bits of a byte")
        self.packed.seek(values_to_skip)
        self.bits_to_skip = bits_to_skip

    def restart(self):
        Values.restart(self)
        self.packed.restart()
        self.bits_to_skip = 0

    cdef Py_ssize_t extra(self) noexcept nogil:
        return 8

    cdef Py_ssize_t decode(self, uint8_t* out, Py_ssize_t count, Codec codec) except -1 nogil:
        cdef uint8_t[PACKED_BYTES] packed
        cdef Py_ssize_t done = 0, size, got, index, bit
        cdef int value
        if self.bits_to_skip:
            got = self.packed.decode(packed, 1, codec)
            if got == 0:
                return 0
            for bit in range(self.bits_to_skip, 8):
                out[done] = (packed[0] >> (7 - bit)) & 1
                done += 1
            self.bits_to_skip = 0
        while done < count:
            size = min((count - done + 7) // 8, <Py_ssize_t> PACKED_BYTES)
            got = self.packed.decode(packed, size, codec)
            for index in range(got):
                value = packed[index]
                for bit in range(8):
                    out[done + bit] = (value >> (7 - bit)) & 1
                done += 8
            if got < size:
                break
        return done


@cython.final
cdef class Varint128Values(Values):
    """Decimals' unbounded varints, as pairs of 64-bit words, low word first (Arrow's decimal128)."""

    def __cinit__(self, InputStream input):
        self.input = input
        self.item_bytes = 16

    def seek(self, Py_ssize_t values_to_skip):
        """Positions of such a stream have no count of values: its entries begin at a byte."""
        if values_to_skip:
            raise ValueError("a varint stream has no runs to skip in")

    cdef int runs(
        self, const uint8_t* data, Py_ssize_t size, uint8_t* out, Py_ssize_t count, Cursor* cursor
    ) noexcept nogil:
        return decode_varint128(data, size, <uint64_t*> out, count, cursor, &self.any)

    cdef Py_ssize_t decode(self, uint8_t* out, Py_ssize_t count, Codec codec) except -1 nogil:
        if self.start == self.stop:
            self.any = 0
        return Values.decode(self, out, count, codec)


@cython.final
cdef class RawValues(Values):
    """Values of a fixed width as they stand in the stream: bytes of strings, IEEE 754 numbers."""

    cdef Py_ssize_t partial   # bytes of a value that is not complete yet, kept in `carry`
    cdef uint8_t[16] carry

    def __cinit__(self, InputStream input, *, Py_ssize_t item_bytes):
        self.input = input
        self.item_bytes = item_bytes

    def restart(self):
        Values.restart(self)
        self.partial = 0

    def seek(self, Py_ssize_t values_to_skip):
        """Positions of such a stream have no count of values: its entries begin at a byte."""
        if values_to_skip:
            raise ValueError("a raw stream has no runs to skip in")

    cdef Py_ssize_t decode(self, uint8_t* out, Py_ssize_t count, Codec codec) except -1 nogil:
        cdef Py_ssize_t wanted = count * self.item_bytes
        cdef Py_ssize_t size = self.partial
        memcpy(out, self.carry, size)
        size += self.input.read_into(out + size, wanted - size, codec)
        if size < wanted and self.input.complete:
            with gil:
                raise self.input.corrupt(f"the stream ends {wanted - size} bytes early")
        self.partial = size % self.item_bytes
        memcpy(self.carry, out + size - self.partial, self.partial)
        return size // self.item_bytes
