"""Encoders of one stream: what they have in common, and all but those of integers in version 2.

Know how values become bytes of a stream. Must not know columns or nulls: they are given the values that are
there. An encoder writes into the open block of its `OutStream`, whole runs at a time, and keeps the run that is
still open; it needs no lock of the interpreter. `place` may be asked for between any two values: (stream_offset, ...)
with what a row index entry has behind the place in the stream. `end` ends the open run; putting more values
after it begins a new one. Values are in native byte order, at any alignment. `put`, `flush` and `position` are the same
for Python, with buffers; one that is shorter than its count is ValueError. Runs are those of ORC Java: one begins at the third value that follows the two
before it, and literals are written when they are 128. Specification: "Base 128 Varint", "Byte Run Length
Encoding", "Boolean Run Length Encoding", "Integer Run Length Encoding, version 1", "Decimal Columns", "Float
and Double Columns", "String, Char, and VarChar Columns".
"""

cimport cython
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset

from orcstream.codec._memory cimport View, view_of
from orcstream.codec._bits cimport item64, put_varint, zigzag
from orcstream.codec.streams._out_stream cimport OutStream

cdef enum:
    LONGEST_VARINT128 = 19
    MOST_LITERALS = 128
    REPEAT_LEAST = 3
    REPEAT_MOST = 130
    BYTE_RUN_BYTES = 1 + MOST_LITERALS
    INT_RUN_BYTES = 1 + 10 * MOST_LITERALS
    PACKED_BYTES = 4096
    REPEATED_VALUES = 512  # of a value put many times over, at a time

# No enum: those are C ints.
cdef Py_ssize_t MOST_BITS = (<Py_ssize_t> 1) << 50


cdef class Encoder:
    """Base of the encoders."""

    def put(self, values, Py_ssize_t count):
        """Append the first `count` values of a buffer."""
        cdef View view = view_of(values, count, self.item_bytes)
        with nogil:
            self.put_bytes(view.ptr, count)

    def flush(self):
        """End the open run, so that all values put so far are in the stream."""
        with nogil:
            self.end()

    @property
    def position(self):
        """(stream_offset, ...): where the next value will stand."""
        cdef int64_t[MOST_NUMBERS] numbers
        cdef int index, count = self.place(numbers)
        return tuple([numbers[index] for index in range(count)])

    cdef int end(self) except -1 nogil:
        return 0

    cdef int place(self, int64_t* numbers) noexcept nogil:
        """Where the next value will stand: so many numbers, at most `MOST_NUMBERS`."""
        numbers[0] = self.out.offset()
        return 1

    cdef int put_bytes(self, const uint8_t* values, Py_ssize_t count) except -1 nogil:
        cdef Py_ssize_t done = 0
        cdef uint8_t* start
        cdef uint8_t* stop
        cdef uint8_t* end = NULL
        while done < count:
            start = self.out.room(self.longest)
            stop = start + self.out.room_bytes()
            done += self.encode(values + self.item_bytes * done, count - done, start, stop, &end)
            self.out.advance(end - start)
        return 0

    cdef Py_ssize_t encode(
        self, const uint8_t* values, Py_ssize_t count, uint8_t* out, uint8_t* stop, uint8_t** end
    ) noexcept nogil:
        """Take values until they are used up or the longest may not fit; return how many were taken.

        Encoders override this one or `put_bytes`.
        """
        end[0] = out
        return count


@cython.final
cdef class RawEncoder(Encoder):
    """Values of a fixed width as they stand in memory: bytes of strings, IEEE 754 numbers."""

    def __cinit__(self, OutStream out, *, Py_ssize_t item_bytes):
        if not 0 < item_bytes <= 16:
            raise ValueError(f"values of {item_bytes} bytes")
        self.out = out
        self.item_bytes = item_bytes

    cdef int put_bytes(self, const uint8_t* values, Py_ssize_t count) except -1 nogil:
        return self.out.append(values, count * self.item_bytes)


cdef uint8_t* put_varint128(uint8_t* out, uint64_t low, uint64_t high) noexcept nogil:
    while high or low > 0x7F:
        out[0] = <uint8_t> (low | 0x80)
        out += 1
        low = (low >> 7) | (high << 57)
        high >>= 7
    out[0] = <uint8_t> low
    return out + 1


@cython.final
cdef class Varint128Encoder(Encoder):
    """Decimals' unscaled values, pairs of 64-bit words with the low word first (Arrow's decimal128)."""

    def __cinit__(self, OutStream out):
        self.out = out
        self.item_bytes = 16
        self.longest = LONGEST_VARINT128

    cdef Py_ssize_t encode(
        self, const uint8_t* values, Py_ssize_t count, uint8_t* out, uint8_t* stop, uint8_t** end
    ) noexcept nogil:
        cdef Py_ssize_t done = 0
        cdef uint64_t low, high, sign
        while done < count and stop - out >= LONGEST_VARINT128:
            low = <uint64_t> item64(values, 2 * done)
            high = <uint64_t> item64(values, 2 * done + 1)
            sign = 0 - (high >> 63)
            high = ((high << 1) | (low >> 63)) ^ sign
            low = (low << 1) ^ sign
            out = put_varint128(out, low, high)
            done += 1
        end[0] = out
        return done


cdef class RunEncoder(Encoder):
    """Base of those that write runs. Their position is (stream_offset, values_to_skip)."""

    cdef int end(self) except -1 nogil:
        cdef uint8_t* start
        if self.held:
            start = self.out.room(self.longest)
            self.out.advance(self.emit(start) - start)
        return 0

    cdef int place(self, int64_t* numbers) noexcept nogil:
        numbers[0] = self.out.offset()
        numbers[1] = self.held
        return 2

    cdef uint8_t* emit(self, uint8_t* out) noexcept nogil:
        """Write the open run, which is over, and return its end; every encoder has its own."""
        return out


cdef class IntegerEncoder(RunEncoder):
    """Base of those of 64-bit integers, unsigned ones by their bit pattern."""

    def put_repeated(self, int64_t value, Py_ssize_t count):
        """Append `count` times the same value."""
        with nogil:
            self.repeat(value, count)

    cdef int repeat(self, int64_t value, Py_ssize_t count) except -1 nogil:
        cdef int64_t[REPEATED_VALUES] values
        cdef Py_ssize_t index, size
        for index in range(REPEATED_VALUES):
            values[index] = value
        while count > 0:
            size = min(count, <Py_ssize_t> REPEATED_VALUES)
            self.put_bytes(<const uint8_t*> values, size)
            count -= size
        return 0


@cython.final
cdef class ByteEncoder(RunEncoder):
    """Bytes."""

    def __cinit__(self, OutStream out):
        self.out = out
        self.item_bytes = 1
        self.longest = BYTE_RUN_BYTES

    cdef uint8_t* emit(self, uint8_t* out) noexcept nogil:
        cdef int size = 1 if self.repeating else self.held
        out[0] = <uint8_t> (self.held - REPEAT_LEAST if self.repeating else -self.held)
        memcpy(out + 1, self.literals, size)
        self.held = 0
        self.tail = 0
        self.repeating = False
        return out + 1 + size

    cdef int64_t _following(self) noexcept nogil:
        """The value that the open run goes on with."""
        return self.literals[0]

    cdef int _tail_with(self, int64_t value) noexcept nogil:
        """How many of the last literals and `value` are equal."""
        return self.tail + 1 if self.held and value == self.literals[self.held - 1] else 1

    cdef Py_ssize_t encode(
        self, const uint8_t* values, Py_ssize_t count, uint8_t* out, uint8_t* stop, uint8_t** end
    ) noexcept nogil:
        return encode_runs(self, values, count, out, stop, end)


cdef extern from *:
    """
    #include <stdint.h>
    /* Eight bytes of 0 or not 0 as eight bits, the first one as the most significant. */
    static inline uint8_t orc_pack_bools(const uint8_t* p) {
        uint8_t bits = 0;
        for (int i = 0; i < 8; i++) bits = (uint8_t)((bits << 1) | (p[i] != 0));
        return bits;
    }
    static inline uint8_t orc_reverse_bits(uint8_t b) {
        return (uint8_t)(((b * 0x0802ull & 0x22110ull) | (b * 0x8020ull & 0x88440ull)) * 0x10101ull >> 16);
    }
    """
    uint8_t pack_bools "orc_pack_bools"(const uint8_t* p) noexcept nogil
    uint8_t reverse_bits "orc_reverse_bits"(uint8_t b) noexcept nogil


@cython.final
cdef class BoolEncoder(Encoder):
    """Booleans, packed most significant bit first into byte run lengths.

    `put` takes bytes of 0 and 1 (or anything else that is not 0), `put_bits` takes a bitmap as Arrow has it,
    least significant bit first. Its position is (stream_offset, values_to_skip, bits_to_skip).
    """

    def __cinit__(self, OutStream out):
        self.out = out
        self.item_bytes = 1
        self.packed = ByteEncoder(out)

    cdef int place(self, int64_t* numbers) noexcept nogil:
        numbers[0] = self.out.offset()
        numbers[1] = self.packed.held
        numbers[2] = self.partial_bits
        return 3

    cdef int end(self) except -1 nogil:
        """End the open run; the last byte is filled with zeros, so values put later do not follow these."""
        if self.partial_bits:
            self.packed.put_bytes(&self.partial, 1)
            self.partial = 0
            self.partial_bits = 0
        return self.packed.end()

    def put_bits(self, bitmap, Py_ssize_t bit_offset, Py_ssize_t count):
        """Append `count` bits of a bitmap from bit `bit_offset` on."""
        cdef View view
        if not 0 <= bit_offset <= MOST_BITS or not 0 <= count <= MOST_BITS:  # or their sum would wrap
            raise ValueError("too many bits, or fewer than none")
        view = view_of(bitmap, (bit_offset + count + 7) // 8, 1)
        with nogil:
            self.put_bitmap(view.ptr, bit_offset, count)

    def put_repeated(self, bint value, Py_ssize_t count):
        """Append `count` times the same bit."""
        with nogil:
            self.repeat(value, count)

    cdef int put_bitmap(self, const uint8_t* bitmap, Py_ssize_t at, Py_ssize_t count) except -1 nogil:
        """Append `count` bits of a bitmap from bit `at` on."""
        cdef uint8_t[PACKED_BYTES] packed
        cdef Py_ssize_t stop = at + count, size, index
        cdef int shift
        while self.partial_bits and at < stop:
            self._put_bit(bitmap[at >> 3] >> (at & 7) & 1)
            at += 1
        shift = <int> (at & 7)
        while stop - at >= 8:
            size = min((stop - at) // 8, <Py_ssize_t> PACKED_BYTES)
            for index in range(size):
                packed[index] = bitmap[(at >> 3) + index] >> shift
                if shift:  # the next byte holds some of these bits, so it is there
                    packed[index] |= <uint8_t> (bitmap[(at >> 3) + index + 1] << (8 - shift))
                packed[index] = reverse_bits(packed[index])
            self.packed.put_bytes(packed, size)
            at += 8 * size
        while at < stop:
            self._put_bit(bitmap[at >> 3] >> (at & 7) & 1)
            at += 1
        return 0

    cdef int repeat(self, bint value, Py_ssize_t count) except -1 nogil:
        cdef uint8_t[PACKED_BYTES] packed
        cdef Py_ssize_t size
        while self.partial_bits and count > 0:
            self._put_bit(value)
            count -= 1
        if count >= 8:
            memset(packed, 0xFF if value else 0, min(count // 8, <Py_ssize_t> PACKED_BYTES))
        while count >= 8:
            size = min(count // 8, <Py_ssize_t> PACKED_BYTES)
            self.packed.put_bytes(packed, size)
            count -= 8 * size
        while count > 0:
            self._put_bit(value)
            count -= 1
        return 0

    cdef int put_bytes(self, const uint8_t* values, Py_ssize_t count) except -1 nogil:
        cdef uint8_t[PACKED_BYTES] packed
        cdef Py_ssize_t at = 0, size, index
        while self.partial_bits and at < count:
            self._put_bit(values[at] != 0)
            at += 1
        while count - at >= 8:
            size = min((count - at) // 8, <Py_ssize_t> PACKED_BYTES)
            for index in range(size):
                packed[index] = pack_bools(values + at + 8 * index)
            self.packed.put_bytes(packed, size)
            at += 8 * size
        while at < count:
            self._put_bit(values[at] != 0)
            at += 1
        return 0

    cdef int _put_bit(self, bint bit) except -1 nogil:
        self.partial |= <uint8_t> (bit << (7 - self.partial_bits))
        self.partial_bits += 1
        if self.partial_bits == 8:
            self.packed.put_bytes(&self.partial, 1)
            self.partial = 0
            self.partial_bits = 0
        return 0


@cython.final
cdef class IntEncoderV1(IntegerEncoder):
    """Integers of run length version 1."""

    cdef int64_t[MOST_LITERALS] literals
    cdef int tail         # how many of the last literals follow each other by `delta`
    cdef int64_t delta
    cdef bint repeating   # the open run is literals[0] and steps of `delta`

    def __cinit__(self, OutStream out, *, bint signed):
        self.out = out
        self.item_bytes = 8
        self.longest = INT_RUN_BYTES
        self.signed = signed

    cdef uint8_t* _put_number(self, uint8_t* out, int64_t value) noexcept nogil:
        return put_varint(out, zigzag(value) if self.signed else <uint64_t> value)

    cdef uint8_t* emit(self, uint8_t* out) noexcept nogil:
        cdef int index
        if self.repeating:
            out[0] = <uint8_t> (self.held - REPEAT_LEAST)
            out[1] = <uint8_t> self.delta
            out = self._put_number(out + 2, self.literals[0])
        else:
            out[0] = <uint8_t> -self.held
            out += 1
            for index in range(self.held):
                out = self._put_number(out, self.literals[index])
        self.held = 0
        self.tail = 0
        self.repeating = False
        return out

    cdef int64_t _following(self) noexcept nogil:
        """The value that the open run goes on with; wraps at 64 bits, as decoders' sums do."""
        return <int64_t> (<uint64_t> self.literals[0] + <uint64_t> self.delta * <uint64_t> self.held)

    cdef int _tail_with(self, int64_t value) noexcept nogil:
        """How many of the last literals and `value` follow each other by one small delta, which is set."""
        cdef uint64_t step
        if self.held == 0:
            return 1
        step = <uint64_t> value - <uint64_t> self.literals[self.held - 1]
        if self.tail > 1 and <int64_t> step == self.delta:
            return self.tail + 1
        self.delta = <int64_t> step
        return 2 if -128 <= self.delta <= 127 else 1

    cdef Py_ssize_t encode(
        self, const uint8_t* values, Py_ssize_t count, uint8_t* out, uint8_t* stop, uint8_t** end
    ) noexcept nogil:
        return encode_runs(self, values, count, out, stop, end)


ctypedef fused literals_t:
    ByteEncoder
    IntEncoderV1


cdef Py_ssize_t encode_runs(
    literals_t self, const uint8_t* values, Py_ssize_t count, uint8_t* out, uint8_t* stop, uint8_t** end
) noexcept nogil:
    """`encode` of bytes and integers: literals, until three values in a row begin a run that repeats."""
    cdef Py_ssize_t at = 0
    cdef int64_t value, base  # a run's first value: with bytes they are all the same
    cdef Py_ssize_t longest = BYTE_RUN_BYTES if literals_t is ByteEncoder else INT_RUN_BYTES
    while at < count and stop - out >= longest:
        value = values[at] if literals_t is ByteEncoder else item64(values, at)
        if self.repeating:
            if value != self._following():
                out = self.emit(out)
                continue
            at += 1
            self.held += 1
            if self.held == REPEAT_MOST:
                out = self.emit(out)
            continue
        at += 1
        self.tail = self._tail_with(value)
        if self.tail < REPEAT_LEAST:
            self.literals[self.held] = value
            self.held += 1
            if self.held == MOST_LITERALS:
                out = self.emit(out)
            continue
        self.held -= REPEAT_LEAST - 1
        base = value if literals_t is ByteEncoder else self.literals[self.held]
        if self.held:
            out = self.emit(out)
        self.literals[0] = base
        self.held = REPEAT_LEAST
        self.repeating = True
    end[0] = out
    return at
