"""Encoders of one stream: what they have in common, and those without runs (raw values, decimals' varints).

Know how values become bytes of a stream. Must not know columns or nulls: they are given the values that are
there. An encoder writes into the open block of its `OutStream` without the GIL, whole runs at a time, and
keeps the run that is still open. `position` may be asked for between any two values: (stream_offset, ...)
with what a row index entry has behind the place in the stream. `flush` ends the open run; putting more values
after it begins a new one. Values are given as buffers, native byte order, at any alignment; a buffer shorter
than its count is ValueError. Specification: "Base 128 Varint", "Decimal Columns", "Float and Double Columns",
"String, Char, and VarChar Columns".
"""

from libc.stdint cimport uint8_t, uint64_t

from orcstream.codec._memory cimport View, view_of
from orcstream.codec.streams._out_stream cimport OutStream
from orcstream.codec._pack cimport item64

cdef enum:
    LONGEST_VARINT128 = 19


cdef class Encoder:
    """Base of the encoders."""

    def put(self, values, Py_ssize_t count):
        """Append the first `count` values of a buffer."""
        self.put_view(view_of(values, count, self.item_bytes), count)

    @property
    def item_bytes(self):
        """Width of a value in the buffers that `put` takes."""
        raise NotImplementedError

    def flush(self):
        """End the open run, so that all values put so far are in the stream."""

    @property
    def position(self):
        """(stream_offset, ...): where the next value will stand."""
        return (self.out.stream_offset,)

    cdef int put_view(self, View values, Py_ssize_t count) except -1:
        raise NotImplementedError  # every encoder has its own


cdef class RawEncoder(Encoder):
    """Values of a fixed width as they stand in memory: bytes of strings, IEEE 754 numbers."""

    cdef Py_ssize_t width

    def __cinit__(self, OutStream out, *, Py_ssize_t item_bytes):
        if not 0 < item_bytes <= 16:
            raise ValueError(f"values of {item_bytes} bytes")
        self.out = out
        self.width = item_bytes

    @property
    def item_bytes(self):
        return self.width

    cdef int put_view(self, View values, Py_ssize_t count) except -1:
        return self.out.append(values.ptr, count * self.width)


cdef uint8_t* put_varint128(uint8_t* out, uint64_t low, uint64_t high) noexcept nogil:
    while high or low > 0x7F:
        out[0] = <uint8_t> (low | 0x80)
        out += 1
        low = (low >> 7) | (high << 57)
        high >>= 7
    out[0] = <uint8_t> low
    return out + 1


cdef Py_ssize_t encode_varint128(
    const uint8_t* values, Py_ssize_t count, uint8_t* out, uint8_t* stop, uint8_t** end
) noexcept nogil:
    """As many values as surely fit before `stop`; answers how many, and in `end` where they end."""
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


cdef class Varint128Encoder(Encoder):
    """Decimals' unscaled values, pairs of 64-bit words with the low word first (Arrow's decimal128)."""

    def __cinit__(self, OutStream out):
        self.out = out

    @property
    def item_bytes(self):
        return 16

    cdef int put_view(self, View values, Py_ssize_t count) except -1:
        cdef Py_ssize_t done = 0
        cdef uint8_t* start
        cdef uint8_t* stop
        cdef uint8_t* end = NULL
        while done < count:
            start = self.out.room(LONGEST_VARINT128)
            stop = start + self.out.room_bytes()
            with nogil:
                done += encode_varint128(values.ptr + 16 * done, count - done, start, stop, &end)
            self.out.advance(end - start)
        return 0
