"""Kernels of the hash by which Hive shares out rows among buckets: Murmur3 of 32 bits, seed 104729, of bytes.

Know bytes and numbers, and how Hive makes bytes of timestamps and decimals; must not know types, nulls nor buckets.
Hive takes the last one to three bytes of a text as signed numbers, which the first Murmur3 does not. Source: Hive's
`Murmur3`, `TimestampWritableV2` and `HiveDecimalWritable`. All loops run without the GIL; lengths are checked before.
"""

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t

from orcstream.codec.vectors._filter cimport Texts
from orcstream.codec.vectors._texts cimport text_at

cdef extern from *:
    """
    typedef __int128 orc_int128;
    """
    ctypedef long long int128 "orc_int128"

cdef enum:
    SEED = 104729
    # Seconds in four bytes, and two numbers of variable length.
    TIMESTAMP_BYTES = 4 + 9 + 9
    DECIMAL_BYTES = 16
    BLANK = 0x20


cdef inline uint32_t rotate(uint32_t x, int by) noexcept nogil:
    return (x << by) | (x >> (32 - by))


cdef inline uint32_t mixed(uint32_t word) noexcept nogil:
    return rotate(word * <uint32_t> 0xcc9e2d51, 15) * <uint32_t> 0x1b873593


cdef inline uint32_t signed_byte(uint8_t byte) noexcept nogil:
    return <uint32_t> <int32_t> <int8_t> byte


cdef inline uint32_t with_word(uint32_t value, uint32_t word) noexcept nogil:
    return rotate(value ^ mixed(word), 13) * 5 + <uint32_t> 0xe6546b64


cdef inline uint32_t hash_of(const uint8_t* data, Py_ssize_t size, Py_ssize_t zeros) noexcept nogil:
    """Of so many bytes, and so many zeros after them."""
    cdef uint32_t value = SEED, word = 0
    cdef Py_ssize_t total = size + zeros, at = 0, place
    while at + 4 <= size:
        word = (
            data[at] | <uint32_t> data[at + 1] << 8 | <uint32_t> data[at + 2] << 16 | <uint32_t> data[at + 3] << 24
        )
        value = with_word(value, word)
        at += 4
    while at + 4 <= total:
        word = 0
        for place in range(at, size):
            word |= <uint32_t> data[place] << (8 * (place - at))
        value = with_word(value, word)
        at += 4
    if total > at:
        word = 0
        for place in range(at, size):
            word ^= signed_byte(data[place]) << (8 * (place - at))
        value ^= mixed(word)
    value ^= <uint32_t> total
    value = (value ^ value >> 16) * <uint32_t> 0x85ebca6b
    value = (value ^ value >> 13) * <uint32_t> 0xc2b2ae35
    return value ^ value >> 16


def hash_texts(Texts texts not None, uint32_t[::1] out, bint stripped=False, bint filled=False):
    """The hashes of texts, into `out`: without the blanks at their ends, or filled with half as many zeros.

    0 where offsets or indexes are beyond their buffers, as they may be of nulls.
    """
    cdef const uint8_t* text = NULL
    cdef Py_ssize_t row, length = 0
    check_room(texts.count, out)
    with nogil:
        for row in range(texts.count):
            if not text_at(&texts.rows, row, &text, &length):
                out[row] = 0
                continue
            while stripped and length and text[length - 1] == BLANK:
                length -= 1
            out[row] = hash_of(text, length, length // 2 if filled else 0)


def hash_items(const uint8_t[::1] data, Py_ssize_t width, uint32_t[::1] out):
    """The hashes of values of so many bytes each, one after the other, into `out`."""
    cdef Py_ssize_t row, count = out.shape[0]
    if width < 1 or data.shape[0] // width < count:
        raise ValueError("fewer bytes than values")
    with nogil:
        for row in range(count):
            out[row] = hash_of(&data[row * width], width, 0)


def hash_timestamps(const int64_t[::1] seconds, const int32_t[::1] nanos, uint32_t[::1] out):
    """The hashes of points in time, into `out`: seconds since 1970, and nanoseconds from 0 to 999999999."""
    cdef Py_ssize_t row, count = seconds.shape[0], size
    cdef uint8_t[TIMESTAMP_BYTES] data
    if nanos.shape[0] != count:
        raise ValueError("seconds and nanoseconds differ in number")
    check_room(count, out)
    with nogil:
        for row in range(count):
            size = put_timestamp(seconds[row], nanos[row], data)
            out[row] = hash_of(data, size, 0)


def hash_decimals(const int64_t[::1] words, int scale, uint32_t[::1] out):
    """The hashes of decimals of two words each, the low one first, into `out`; zeros that end a fraction don't count."""
    cdef Py_ssize_t row, count = words.shape[0] // 2, size
    cdef uint8_t[DECIMAL_BYTES] data
    check_room(count, out)
    with nogil:
        for row in range(count):
            size = put_decimal(words[2 * row], words[2 * row + 1], scale, data)
            out[row] = hash_of(data + DECIMAL_BYTES - size, size, 0)


cdef int check_room(Py_ssize_t count, uint32_t[::1] out) except -1:
    if out.shape[0] < count:
        raise ValueError("less room than values")
    return 0


cdef Py_ssize_t put_timestamp(int64_t seconds, int32_t nanos, uint8_t* out) noexcept nogil:
    """31 bits of the seconds and a flag; then, where not zero, the digits of the nanoseconds turned around.

    Their sign says that the other bits of the seconds follow.
    """
    cdef int64_t turned = 0
    cdef bint has_more = seconds < 0 or seconds > 0x7fffffff
    cdef uint32_t first = <uint32_t> seconds & 0x7fffffff
    cdef Py_ssize_t size = 4
    cdef int digit
    for digit in range(9):
        turned = turned * 10 + nanos % 10
        nanos //= 10
    if has_more or turned:
        first |= <uint32_t> 0x80000000
    put_big_endian(first, 4, out)
    if has_more or turned:
        size += put_number(-turned - 1 if has_more else turned, out + size)
    if has_more:
        size += put_number(seconds >> 31, out + size)
    return size


cdef Py_ssize_t put_number(int64_t value, uint8_t* out) noexcept nogil:
    """Hadoop's integers of variable length."""
    cdef int marker = -112
    cdef Py_ssize_t size = 0
    cdef uint64_t rest
    if -112 <= value <= 127:
        out[0] = <uint8_t> value
        return 1
    if value < 0:
        value = ~value
        marker = -120
    rest = <uint64_t> value
    while rest:
        rest >>= 8
        size += 1
    out[0] = <uint8_t> (marker - size)
    put_big_endian(<uint64_t> value, size, out + 1)
    return 1 + size


cdef void put_big_endian(uint64_t value, Py_ssize_t size, uint8_t* out) noexcept nogil:
    cdef Py_ssize_t at
    for at in range(size):
        out[at] = <uint8_t> (value >> (8 * (size - 1 - at)))


cdef Py_ssize_t put_decimal(int64_t low, int64_t high, int scale, uint8_t* out) noexcept nogil:
    """At the end of 16 bytes: the fewest bytes that hold the number and its sign, the highest first; how many."""
    cdef int128 value = (<int128> high << 64) | <int128> <uint64_t> low
    cdef uint8_t sign
    cdef Py_ssize_t first = 0
    if <int64_t> value >> 63 == high:  # most fit, and are divided ten times as quickly
        low = without_zeros(low, scale)
        high = low >> 63
    else:
        while scale > 0 and value % 10 == 0:
            value //= 10
            scale -= 1
        low, high = <int64_t> value, <int64_t> (value >> 64)
    put_big_endian(<uint64_t> high, 8, out)
    put_big_endian(<uint64_t> low, 8, out + 8)
    sign = 0xff if high < 0 else 0
    while first < DECIMAL_BYTES - 1 and out[first] == sign and (out[first + 1] ^ sign) < 0x80:
        first += 1
    return DECIMAL_BYTES - first


cdef inline int64_t without_zeros(int64_t value, int scale) noexcept nogil:
    while scale > 0 and value and value % 10 == 0:
        value //= 10
        scale -= 1
    return value
