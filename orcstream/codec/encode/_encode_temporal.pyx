"""Kernels for dates and timestamps on their way into a file: from Arrow's numbers to what is stored.

Know the arithmetic of epochs, zones and calendars, the reverse of `_temporal.pyx`; zones come as arrays of
transitions. All work without the GIL. What a file cannot hold is found by `unwritable_*`, which knows nulls,
before anything is encoded; encoding then takes values without nulls and trusts them. Specification: "Timestamp Columns",
"Date Columns"; ORC-306, ORC-763 (the seconds before 1970).
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from orcstream._buffer cimport Buffer, allocate
from orcstream.codec.vectors._calendar cimport (
    DAY_SECONDS,
    GREGORIAN_DAY,
    date_of,
    day_of_julian,
    floor_div,
    is_skipped,
)
from orcstream.codec._memory cimport View, bits_of, is_null, view_of
from orcstream.codec.vectors._zone cimport zone_offset

cdef int64_t FAR_SECONDS = <int64_t> 1 << 62
cdef int64_t INT32_LEAST = -2147483648
cdef int64_t INT64_LEAST = <int64_t> (<uint64_t> 1 << 63)

cdef enum:
    NANOS = 1000000000
    SUB_MILLISECOND = 999999

# What keeps a value out of a file.
cdef enum:
    FITS = 0
    LATE = 1       # the second before 1970 with more than 999,999 ns: read back a second late
    NO_TIME = 2    # a wall clock that its zone skips, or a day that its calendar skips
    FAR = 3        # seconds that would not fit 64 bits once they count from 2015 in some zone and calendar


cdef int64_t hybrid_day(int64_t day) noexcept nogil:
    """The day whose Julian date is written like this day's proleptic Gregorian date; for days before 1582-10-15."""
    return day_of_julian(date_of(day))


cdef struct Clock:
    const int64_t* transitions
    const int64_t* offsets
    Py_ssize_t size
    Py_ssize_t hint  # where `zone_offset` found its last answer
    bint hybrid
    int64_t unit


cdef int split(int64_t value, Clock* clock, int64_t* instant, int64_t* nano) noexcept nogil:
    """The instant and nanoseconds of a wall clock; whether it can be written.

    The instant of a wall clock that is skipped is the one that lenient calendars take it for: ten days later, or by the
    clocks before the transition. There is none of one that is too far.
    """
    cdef int64_t second = floor_div(value, clock.unit), day, guess
    cdef int why = FITS
    nano[0] = (value - second * clock.unit) * (NANOS // clock.unit)
    if not -FAR_SECONDS <= second <= FAR_SECONDS:
        return FAR
    if clock.hybrid and second < GREGORIAN_DAY * <int64_t> DAY_SECONDS:
        day = floor_div(second, DAY_SECONDS)
        if is_skipped(day):
            why = NO_TIME
        second += (hybrid_day(day) - day) * DAY_SECONDS
    instant[0] = second
    if clock.size or clock.offsets[0]:
        # The offset before or after a transition near by: one of the two fits, or none where clocks skip.
        instant[0] -= zone_offset(second - DAY_SECONDS, clock.transitions, clock.offsets, clock.size, &clock.hint)
        if instant[0] + zone_offset(instant[0], clock.transitions, clock.offsets, clock.size, &clock.hint) != second:
            guess = second - zone_offset(second + DAY_SECONDS, clock.transitions, clock.offsets, clock.size, &clock.hint)
            if guess + zone_offset(guess, clock.transitions, clock.offsets, clock.size, &clock.hint) != second:
                why = NO_TIME
            else:
                instant[0] = guess
    if why == FITS and instant[0] == -1 and nano[0] > SUB_MILLISECOND:
        return LATE
    return why


cdef int clock_of(
    Clock* clock, const int64_t[::1] transitions, const int64_t[::1] offsets, bint hybrid, int64_t unit
) except -1:
    if offsets.shape[0] != transitions.shape[0] + 1:
        raise ValueError("a zone has one more offset than transitions")
    if unit not in (1, 1000, 1000000, NANOS):
        raise ValueError(f"{unit} units in a second")
    clock.size = clock.hint = transitions.shape[0]
    clock.transitions = &transitions[0] if clock.size else NULL
    clock.offsets = &offsets[0]
    clock.hybrid = hybrid
    clock.unit = unit
    return 0


def unwritable_timestamps(
    values,
    bitmap,
    Py_ssize_t first,
    Py_ssize_t count,
    const int64_t[::1] transitions,
    const int64_t[::1] offsets,
    bint hybrid,
    int64_t unit,
    int passed=0,
):
    """The first of `count` values, from `first` on, that is not null and cannot be written: (row, why) or (-1, 0).

    Why is 1 for the last second before 1970 with more than 999,999 nanoseconds, 2 for a time that the zone or the calendar
    skips, 3 for one too far from 1970; bit `why` of `passed` lets such values pass. Other arguments as in
    `encode_timestamps`.
    """
    cdef Clock clock
    cdef View held = view_of(values, first + count, 8)
    cdef View valid = bits_of(bitmap, first + count)
    cdef const int64_t* numbers = <const int64_t*> held.ptr
    cdef const uint8_t* bits = valid.ptr
    cdef int64_t instant = 0, nano = 0
    cdef Py_ssize_t row
    cdef int why = FITS
    cdef bint plain
    clock_of(&clock, transitions, offsets, hybrid, unit)
    plain = clock.size == 0 and clock.offsets[0] == 0 and not hybrid and unit != 1
    with nogil:
        for row in range(first, first + count):
            if plain and not -unit <= numbers[row] < 0:
                continue
            if is_null(bits, row):
                continue
            why = split(numbers[row], &clock, &instant, &nano)
            if passed >> why & 1:
                why = FITS
            if why != FITS:
                break
    if why == FITS:
        return -1, FITS
    return row - first, why


def unwritable_days(values, bitmap, Py_ssize_t first, Py_ssize_t count):
    """The first of `count` int32 days that is not null and that the hybrid calendar skips or has below int32, or -1."""
    cdef View held = view_of(values, first + count, 4)
    cdef View valid = bits_of(bitmap, first + count)
    cdef const int32_t* days = <const int32_t*> held.ptr
    cdef const uint8_t* bits = valid.ptr
    cdef Py_ssize_t row, found = -1
    with nogil:
        for row in range(first, first + count):
            if days[row] >= GREGORIAN_DAY or is_null(bits, row):
                continue
            if is_skipped(days[row]) or hybrid_day(days[row]) < INT32_LEAST:
                found = row - first
                break
    return found


def encode_days(values, Py_ssize_t first, Py_ssize_t count, bint hybrid):
    """int32 days since 1970 as the int64 that integer encoders take; with `hybrid`, in the Julian calendar before 1582-10-15."""
    cdef View held = view_of(values, first + count, 4)
    cdef const int32_t* days = (<const int32_t*> held.ptr) + first
    cdef Buffer out = allocate(count * 8)
    cdef int64_t* stored = <int64_t*> out.ptr
    cdef Py_ssize_t index
    with nogil:
        for index in range(count):
            stored[index] = hybrid_day(days[index]) if hybrid and days[index] < GREGORIAN_DAY else days[index]
    return out


def hybrid_days(values, Py_ssize_t first, Py_ssize_t count):
    """int32 days since 1970 as int32 days of the hybrid calendar, in which a file's statistics count; cut to 32 bits."""
    cdef View held = view_of(values, first + count, 4)
    cdef const int32_t* days = (<const int32_t*> held.ptr) + first
    cdef Buffer out = allocate(count * 4)
    cdef int32_t* moved = <int32_t*> out.ptr
    cdef int64_t day
    cdef Py_ssize_t index
    with nogil:
        for index in range(count):
            day = hybrid_day(days[index]) if days[index] < GREGORIAN_DAY else days[index]
            moved[index] = <int32_t> max(day, INT32_LEAST)
    return out


def hybrid_times(values, Py_ssize_t first, Py_ssize_t count, int64_t unit):
    """Wall clocks in `unit` units a second since 1970 as those of the hybrid calendar; cut to 64 bits."""
    cdef View held = view_of(values, first + count, 8)
    cdef const int64_t* times = (<const int64_t*> held.ptr) + first
    cdef Buffer out = allocate(count * 8)
    cdef int64_t* moved = <int64_t*> out.ptr
    cdef int64_t day, change, day_units = DAY_SECONDS * unit
    cdef Py_ssize_t index
    if unit not in (1, 1000, 1000000, NANOS):
        raise ValueError(f"{unit} units in a second")
    with nogil:
        for index in range(count):
            moved[index] = times[index]
            day = floor_div(times[index], day_units)
            if day < GREGORIAN_DAY:
                change = (hybrid_day(day) - day) * day_units
                moved[index] = INT64_LEAST if change < 0 and times[index] < INT64_LEAST - change else times[index] + change
    return out


def encode_timestamps(
    values,
    Py_ssize_t first,
    Py_ssize_t count,
    const int64_t[::1] transitions,
    const int64_t[::1] offsets,
    bint hybrid,
    int64_t unit,
    int64_t base_seconds,
):
    """(seconds, nanoseconds) as int64 buffers, as a file stores them, of wall clocks in `unit` units a second since 1970.

    `base_seconds` is the instant from which stored seconds count. Values that `unwritable_timestamps` finds are stored as ORC
    Java would; those that are too far as 1970.
    """
    cdef Clock clock
    cdef View held = view_of(values, first + count, 8)
    cdef const int64_t* numbers = (<const int64_t*> held.ptr) + first
    cdef Buffer seconds = allocate(count * 8), nanos = allocate(count * 8)
    cdef int64_t* stored = <int64_t*> seconds.ptr
    cdef int64_t* packed = <int64_t*> nanos.ptr
    cdef int64_t instant = 0, nano = 0
    cdef Py_ssize_t index
    cdef int zeros
    clock_of(&clock, transitions, offsets, hybrid, unit)
    with nogil:
        for index in range(count):
            if split(numbers[index], &clock, &instant, &nano) == FAR:
                instant = 0
            # Cut toward zero; whole milliseconds at the start of a second are not (ORC-306).
            if instant < 0 and nano > SUB_MILLISECOND:
                instant += 1
            stored[index] = instant - base_seconds
            if nano % 100:
                packed[index] = nano << 3
                continue
            zeros = 0
            if nano:
                nano //= 100
                zeros = 1
                while nano % 10 == 0 and zeros < 7:
                    nano //= 10
                    zeros += 1
            packed[index] = nano << 3 | zeros
    return seconds, nanos
