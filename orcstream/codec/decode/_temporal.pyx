"""Kernels for dates, timestamps and decimals: from what is stored to Arrow's numbers.

Know the arithmetic of epochs, zones, calendars and scales; must not know streams, nor where zone data comes from: zones come as
arrays of transitions. All work without the GIL on values without nulls, and answer the index of the first value
that cannot be represented, or -1. Specification: "Timestamp Columns", "Date Columns", "Decimal Columns".
"""

from libc.stdint cimport int32_t, int64_t, uint64_t

from orcstream._buffer cimport Buffer, allocate
from orcstream.codec.vectors._calendar cimport DAY_SECONDS, GREGORIAN_DAY, day_of, floor_div, julian_date_of
from orcstream.codec.vectors._zone cimport zone_offset

cdef extern from *:
    ctypedef long long int128 "__int128"
    bint mul_overflow "__builtin_mul_overflow"(int64_t a, int64_t b, int64_t* out) noexcept nogil
    bint add_overflow "__builtin_add_overflow"(int64_t a, int64_t b, int64_t* out) noexcept nogil

cdef extern from *:
    """
    #include <stdint.h>
    /* Times as nearly all are, 1970 to 2096 in whole nanoseconds that need no zone, to nanoseconds since 1970:
       without a branch. Whether all of them are such; `out` has to be written anew where they are not. */
    static inline int orc_plain_times(
        const int64_t* stored, const int64_t* packed, int64_t base, ptrdiff_t count, const int64_t* scales,
        int64_t* out
    ) {
        const uint64_t nanos = 1000000000u;
        uint64_t odd = 0;
        for (ptrdiff_t i = 0; i < count; i++) {
            uint64_t second = (uint64_t) stored[i] + (uint64_t) base, word = (uint64_t) packed[i];
            uint64_t nano = (word >> 3) * (uint64_t) scales[word & 7];
            odd |= (uint64_t) (second >= 4000000000u) | (uint64_t) (word >> 33) | (uint64_t) (nano >= nanos);
            out[i] = (int64_t) (second * nanos + nano);
        }
        return odd == 0;
    }
    """
    bint plain_times "orc_plain_times"(
        const int64_t* stored,
        const int64_t* packed,
        int64_t base,
        Py_ssize_t count,
        const int64_t* scales,
        int64_t* out,
    ) noexcept nogil

cdef enum:
    NANOS = 1000000000
    BLOCK = 1024  # values at a time, which a cache holds

# Nanoseconds with z > 0 trailing zeros removed are stored as (n << 3 | z - 1): times 10^(z + 1).
cdef int64_t[8] NANO_SCALE = [1, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000]


cdef int check(Buffer buffer, Py_ssize_t count, Py_ssize_t item_bytes) except -1:
    if buffer is None or count < 0 or count > buffer.nbytes // item_bytes:
        raise ValueError("a buffer is shorter than its values")
    return 0


cdef int64_t proleptic_day(int64_t day) noexcept nogil:
    """The day whose proleptic Gregorian date is written like this day's Julian date."""
    return day_of(julian_date_of(day))


def dates(Buffer days, Py_ssize_t count, bint hybrid):
    """int64 days to int32 (in int64 form for `narrow`): hybrid Julian-Gregorian days become proleptic ones, in place."""
    cdef int64_t* values
    cdef int64_t day
    cdef Py_ssize_t index
    check(days, count, 8)
    if not hybrid:
        return days
    with nogil:
        values = <int64_t*> days.ptr
        for index in range(count):
            # A day has 32 bits; writers store negative ones with their low bits only.
            day = <int32_t> values[index]
            values[index] = proleptic_day(day) if day < GREGORIAN_DAY else day
    return days


def timestamps(
    Buffer seconds,
    Buffer nanos,
    Py_ssize_t count,
    int64_t base_seconds,
    const int64_t[::1] transitions,
    const int64_t[::1] offsets,
    bint hybrid,
    int64_t unit,
):
    """Timestamps as int64 counts of `unit` (units a second) since 1970, in wall clock of the zone given.

    `base_seconds` is the instant the stored seconds count from. Answers (values, index of nanoseconds that are no
    nanoseconds or -1, index of a value beyond int64 or -1).
    """
    cdef Buffer out
    cdef int64_t* values
    cdef const int64_t* stored
    cdef const int64_t* packed
    cdef Py_ssize_t index, done = 0, size = transitions.shape[0], hint = size, bad = -1, beyond = -1
    cdef int64_t second, nano, day, fraction, divisor = NANOS // unit, value
    cdef const int64_t* starts = &transitions[0] if size else NULL
    if offsets.shape[0] != size + 1:
        raise ValueError("a zone has one more offset than transitions")
    check(seconds, count, 8)
    check(nanos, count, 8)
    out = allocate(count * 8)
    with nogil:
        values = <int64_t*> out.ptr
        stored = <const int64_t*> seconds.ptr
        packed = <const int64_t*> nanos.ptr
        if unit == NANOS and size == 0 and offsets[0] == 0:
            while done < count and plain_times(
                stored + done, packed + done, base_seconds, min(count - done, BLOCK), NANO_SCALE, values + done
            ):
                done += min(count - done, BLOCK)
        for index in range(done, count):
            nano = packed[index] >> 3
            if nano > NANOS or nano < -NANOS:
                bad = index
                break
            nano *= NANO_SCALE[packed[index] & 7]
            if nano >= NANOS or nano <= -NANOS:
                bad = index
                break
            if add_overflow(stored[index], base_seconds, &second):
                beyond = index
                break
            # Writers cut toward zero before 1970 (ORC-306, ORC-763); undone before any zone is applied (ORC-2151).
            # Nanoseconds below 0 are against the specification, but ORC C++ writes them for what pyarrow hands it.
            if nano < 0 or (second < 0 and nano > 999999):
                if add_overflow(second, -1, &second):
                    beyond = index
                    break
                if nano < 0:
                    nano += NANOS
            if add_overflow(second, zone_offset(second, starts, &offsets[0], size, &hint), &second):
                beyond = index
                break
            if hybrid and second < GREGORIAN_DAY * <int64_t> DAY_SECONDS:
                day = floor_div(second, DAY_SECONDS)
                second += (proleptic_day(day) - day) * DAY_SECONDS
            fraction = nano // divisor
            # A product just below the smallest value may still be in range once the fraction is added.
            if mul_overflow(second + (1 if second < 0 else 0), unit, &value) or add_overflow(
                value, fraction - (unit if second < 0 else 0), &value
            ):
                beyond = index
                break
            values[index] = value
    return out, bad, beyond


cdef int128[39] POWERS
cdef int _power
POWERS[0] = 1
for _power in range(1, 39):
    POWERS[_power] = POWERS[_power - 1] * 10


cdef bint is_plain(
    const int64_t* words, const int64_t* scales, Py_ssize_t count, int scale, int64_t limit
) noexcept nogil:
    """Whether all values have the scale already and fit; without branches, since nearly all columns are so."""
    cdef Py_ssize_t index
    cdef uint64_t odd = 0
    cdef int64_t low
    if scales != NULL:
        for index in range(count):
            odd |= <uint64_t> (scales[index] ^ scale)
        if odd:
            return False
    for index in range(count):
        low = words[2 * index]
        odd |= <uint64_t> (words[2 * index + 1] ^ (low >> 63))
        odd |= <uint64_t> (low > limit) | <uint64_t> (low < -limit)
    return odd == 0


def decimals(Buffer values, Buffer scales, Py_ssize_t count, int scale, int precision):
    """Decimals brought to `scale`, in place; digits beyond the scale are cut off, as ORC C++ does.

    `scales` holds each value's own scale as int64, or is None when all have the type's. Answers the index of the
    first value of more than `precision` digits or of a scale that is none, or -1.
    """
    cdef int128* items
    cdef const int64_t* stored
    cdef int128 value, factor
    cdef int128 limit
    cdef Py_ssize_t index, bad = -1
    cdef int64_t shift
    check(values, count, 16)
    if scales is not None:
        check(scales, count, 8)
    if precision < 1 or precision > 38:
        raise ValueError("a precision is 1 to 38")
    limit = POWERS[precision] - 1
    with nogil:
        items = <int128*> values.ptr
        stored = <const int64_t*> scales.ptr if scales is not None else NULL
        if precision <= 18 and is_plain(<const int64_t*> values.ptr, stored, count, scale, <int64_t> limit):
            count = 0
        for index in range(count):
            value = items[index]
            if stored != NULL and stored[index] != scale:
                if stored[index] < -38 or stored[index] > 76:
                    bad = index
                    break
                shift = scale - stored[index]
                if shift > 38:
                    if value != 0:
                        bad = index
                        break
                elif shift > 0:
                    factor = POWERS[shift]
                    if value > limit // factor or value < -(limit // factor):
                        bad = index
                        break
                    value *= factor
                elif shift < -38:
                    value = 0
                else:
                    value = value // POWERS[-shift]
                items[index] = value
            if value > limit or value < -limit:
                bad = index
                break
    return bad


def widen(Buffer values, Py_ssize_t count):
    """int64 values as pairs of words: the decimal64 form's integers as Arrow's decimal128."""
    cdef Buffer out
    cdef const int64_t* source
    cdef int128* target
    cdef Py_ssize_t index
    check(values, count, 8)
    out = allocate(count * 16)
    with nogil:
        source = <const int64_t*> values.ptr
        target = <int128*> out.ptr
        for index in range(count):
            target[index] = source[index]
    return out
