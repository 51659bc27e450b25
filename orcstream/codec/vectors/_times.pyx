"""Kernels for dates and timestamps: from Arrow's numbers to what a file stores, and back.

Know the arithmetic of epochs, zones and calendars; must not know streams, nor where zone data comes from: zones come
as arrays of transitions. All work without the GIL. Kernels that read answer the index of the first value that cannot
be represented, or -1. What a file cannot hold is found by `unwritable_*`, which knows nulls, before anything is
encoded; encoding then takes values without nulls and trusts them. Specification: "Timestamp Columns", "Date Columns";
ORC-306, ORC-763 (the seconds before 1970).
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from orcstream._buffer cimport Buffer, allocate
from orcstream.codec._memory cimport View, bits_of, is_null, rows_of, view_of
from orcstream.codec.vectors._calendar cimport (
    DAY_SECONDS,
    GREGORIAN_DAY,
    add_overflow,
    count_ticks,
    date_of,
    day_of,
    day_of_julian,
    floor_div,
    is_skipped,
    julian_date_of,
)

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

cdef int64_t FAR_SECONDS = <int64_t> 1 << 62
cdef int64_t INT32_LEAST = -2147483648
cdef int64_t INT64_LEAST = <int64_t> (<uint64_t> 1 << 63)

cdef enum:
    NANOS = 1000000000
    SUB_MILLISECOND = 999999
    BLOCK = 1024  # values at a time, which a cache holds

# Nanoseconds with z > 0 trailing zeros removed are stored as (n << 3 | z - 1): times 10^(z + 1).
cdef int64_t[8] NANO_SCALE = [1, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000]

# What keeps a value out of a file.
cdef enum:
    FITS = 0
    LATE = 1       # the second before 1970 with more than 999,999 ns: read back a second late
    NO_TIME = 2    # a wall clock that its zone skips, or a day that its calendar skips
    FAR = 3        # seconds that would not fit 64 bits once they count from 2015 in some zone and calendar


cdef int64_t zone_offset(int64_t instant, Clock* clock) noexcept nogil:
    """Seconds east of UTC at an instant; offsets[i] holds from transitions[i - 1] up to transitions[i].

    `hint` is the i of the last answer, `size` at first: times that follow each other are mostly near.
    """
    cdef const int64_t* transitions = clock.transitions
    cdef int64_t rules_end = 16725225600  # 2500-01-01 00:00:00 UTC
    cdef int64_t cycle_seconds = 12622780800  # 400 years
    cdef Py_ssize_t low = clock.hint, high, middle
    if instant >= rules_end:
        # Transitions are listed up to the year 2500; the calendar repeats every 400 years.
        instant -= ((instant - rules_end) // cycle_seconds + 1) * cycle_seconds
    if (low == 0 or transitions[low - 1] <= instant) and (low == clock.size or instant < transitions[low]):
        return clock.offsets[low]
    low = 0
    high = clock.size
    while low < high:
        middle = (low + high) // 2
        if transitions[middle] <= instant:
            low = middle + 1
        else:
            high = middle
    clock.hint = low
    return clock.offsets[low]


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


# --- reading ---------------------------------------------------------------------------------------


cdef int64_t proleptic_day(int64_t day) noexcept nogil:
    """The day whose proleptic Gregorian date is written like this day's Julian date."""
    return day_of(julian_date_of(day))


cdef void read_dates(int64_t* days, Py_ssize_t count) noexcept nogil:
    """Hybrid Julian-Gregorian days become proleptic ones, in place."""
    cdef int64_t day
    cdef Py_ssize_t index
    for index in range(count):
        # A day has 32 bits; writers store negative ones with their low bits only.
        day = <int32_t> days[index]
        days[index] = proleptic_day(day) if day < GREGORIAN_DAY else day


cdef Py_ssize_t read_times(
    const int64_t* seconds,
    const int64_t* nanos,
    Py_ssize_t count,
    int64_t base_seconds,
    Clock* clock,
    int64_t* out,
    bint* beyond,
) noexcept nogil:
    """Timestamps as int64 counts of the clock's unit since 1970, in wall clock of its zone.

    `base_seconds` is the instant the stored seconds count from. Answers -1, or the index of a value that cannot be had:
    `beyond` says whether it is beyond int64, else its nanoseconds are none.
    """
    cdef Py_ssize_t index, done = 0
    cdef int64_t second, nano, day, divisor = NANOS // clock.unit
    beyond[0] = True
    if clock.unit == NANOS and clock.size == 0 and clock.offsets[0] == 0:
        while done < count and plain_times(
            seconds + done, nanos + done, base_seconds, min(count - done, BLOCK), NANO_SCALE, out + done
        ):
            done += min(count - done, BLOCK)
    for index in range(done, count):
        nano = nanos[index] >> 3
        if nano > NANOS or nano < -NANOS:
            beyond[0] = False
            return index
        nano *= NANO_SCALE[nanos[index] & 7]
        if nano >= NANOS or nano <= -NANOS:
            beyond[0] = False
            return index
        if add_overflow(seconds[index], base_seconds, &second):
            return index
        # Writers cut toward zero before 1970 (ORC-306, ORC-763); undone before any zone is applied (ORC-2151).
        # Nanoseconds below 0 are against the specification, but ORC C++ writes them for what pyarrow hands it.
        if nano < 0 or (second < 0 and nano > 999999):
            if add_overflow(second, -1, &second):
                return index
            if nano < 0:
                nano += NANOS
        if add_overflow(second, zone_offset(second, clock), &second):
            return index
        if clock.hybrid and second < GREGORIAN_DAY * <int64_t> DAY_SECONDS:
            day = floor_div(second, DAY_SECONDS)
            second += (proleptic_day(day) - day) * DAY_SECONDS
        if not count_ticks(second, nano // divisor, clock.unit, &out[index]):
            return index
    return -1


def dates(Buffer days, Py_ssize_t count, bint hybrid):
    """`read_dates` where days are `hybrid`, else nothing; in place."""
    view_of(days, count, 8)
    if hybrid:
        read_dates(<int64_t*> days.ptr, count)
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
    """`read_times`: (values, index of nanoseconds that are none or -1, index of a value beyond int64 or -1)."""
    cdef Clock clock
    cdef Buffer out
    cdef bint beyond = False
    cdef Py_ssize_t bad
    clock_of(&clock, transitions, offsets, hybrid, unit)
    view_of(seconds, count, 8)
    view_of(nanos, count, 8)
    out = allocate(count * 8)
    bad = read_times(
        <const int64_t*> seconds.ptr,
        <const int64_t*> nanos.ptr,
        count,
        base_seconds,
        &clock,
        <int64_t*> out.ptr,
        &beyond,
    )
    return out, -1 if beyond else bad, bad if beyond else -1


# --- writing ---------------------------------------------------------------------------------------


cdef int64_t hybrid_day(int64_t day) noexcept nogil:
    """The day whose Julian date is written like this day's proleptic Gregorian date; for days before 1582-10-15."""
    return day_of_julian(date_of(day))


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
        instant[0] -= zone_offset(second - DAY_SECONDS, clock)
        if instant[0] + zone_offset(instant[0], clock) != second:
            guess = second - zone_offset(second + DAY_SECONDS, clock)
            if guess + zone_offset(guess, clock) != second:
                why = NO_TIME
            else:
                instant[0] = guess
    if why == FITS and instant[0] == -1 and nano[0] > SUB_MILLISECOND:
        return LATE
    return why


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
    cdef View held = view_of(values, first + count, 8), valid = bits_of(bitmap, first + count)
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
    cdef View held = view_of(values, first + count, 4), valid = bits_of(bitmap, first + count)
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


cdef void hybrid_days_of(const int32_t* days, Py_ssize_t count, int32_t* out) noexcept nogil:
    """Days since 1970 as those of the hybrid calendar, Julian before 1582-10-15; cut to 32 bits."""
    cdef int64_t day
    cdef Py_ssize_t index
    for index in range(count):
        day = hybrid_day(days[index]) if days[index] < GREGORIAN_DAY else days[index]
        out[index] = <int32_t> max(day, INT32_LEAST)


def hybrid_days(values, Py_ssize_t first, Py_ssize_t count):
    """`hybrid_days_of` int32 days."""
    cdef View held = rows_of(values, first, count, 4)
    cdef Buffer out = allocate(count * 4)
    hybrid_days_of(<const int32_t*> held.ptr, count, <int32_t*> out.ptr)
    return out


cdef void hybrid_times_of(const int64_t* times, Py_ssize_t count, int64_t unit, int64_t* out) noexcept nogil:
    """Wall clocks in `unit` units a second since 1970 as those of the hybrid calendar; cut to 64 bits."""
    cdef int64_t day, change, day_units = DAY_SECONDS * unit
    cdef Py_ssize_t index
    for index in range(count):
        out[index] = times[index]
        day = floor_div(times[index], day_units)
        if day < GREGORIAN_DAY:
            change = (hybrid_day(day) - day) * day_units
            out[index] = INT64_LEAST if change < 0 and times[index] < INT64_LEAST - change else times[index] + change


def hybrid_times(values, Py_ssize_t first, Py_ssize_t count, int64_t unit):
    """`hybrid_times_of` int64 wall clocks."""
    cdef View held = rows_of(values, first, count, 8)
    cdef Buffer out = allocate(count * 8)
    if unit not in (1, 1000, 1000000, NANOS):
        raise ValueError(f"{unit} units in a second")
    hybrid_times_of(<const int64_t*> held.ptr, count, unit, <int64_t*> out.ptr)
    return out


cdef void store_times(
    const int64_t* values, Py_ssize_t count, Clock* clock, int64_t base_seconds, int64_t* seconds, int64_t* nanos
) noexcept nogil:
    """Wall clocks in the clock's unit since 1970 as seconds and nanoseconds, as a file stores them.

    `base_seconds` is the instant from which stored seconds count. Values that `unwritable_timestamps` finds are stored as ORC
    Java would; those that are too far as 1970.
    """
    cdef int64_t instant = 0, nano = 0
    cdef Py_ssize_t index
    cdef int zeros
    for index in range(count):
        if split(values[index], clock, &instant, &nano) == FAR:
            instant = 0
        # Cut toward zero; whole milliseconds at the start of a second are not (ORC-306).
        if instant < 0 and nano > SUB_MILLISECOND:
            instant += 1
        seconds[index] = instant - base_seconds
        if nano % 100:
            nanos[index] = nano << 3
            continue
        zeros = 0
        if nano:
            nano //= 100
            zeros = 1
            while nano % 10 == 0 and zeros < 7:
                nano //= 10
                zeros += 1
        nanos[index] = nano << 3 | zeros


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
    """`store_times`: (seconds, nanoseconds) as int64 buffers."""
    cdef Clock clock
    cdef View held = rows_of(values, first, count, 8)
    cdef Buffer seconds = allocate(count * 8), nanos = allocate(count * 8)
    clock_of(&clock, transitions, offsets, hybrid, unit)
    store_times(
        <const int64_t*> held.ptr, count, &clock, base_seconds, <int64_t*> seconds.ptr, <int64_t*> nanos.ptr
    )
    return seconds, nanos
