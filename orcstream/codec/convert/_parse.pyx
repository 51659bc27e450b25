"""Kernels that read values from text: integers, floating point, decimals, dates and timestamps.

Know the texts that ORC Java's ConvertTreeReaderFactory accepts: Long.parseLong, Double.parseDouble, Hive's decimals,
and its own formats of dates and times. Must not know types or vectors. Texts come as Arrow offsets and bytes, which
are checked first; a mask has one byte a row: rows with 0 are not looked at, and text that is no value gets a 0. What
comes out for such rows is 0. All loops run without the GIL.
"""

from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy

from orcstream._buffer cimport Buffer, allocate
from orcstream.codec.vectors._calendar cimport DAY_SECONDS, Date, day_of, days_in, is_leap
from orcstream.codec.convert._convert cimport double_of, int128, power_of_ten, scaled, store
from orcstream.codec.vectors._texts cimport bytes_of, check_texts

cdef enum:
    MOST_YEAR = 999999999
    # Numbers up to this length are copied to the stack; nobody writes longer ones.
    SHORT = 120
    # A file has few zones; a list of more is no list of zones.
    MOST_ZONES = 4096


cdef bint is_digit(uint8_t c) noexcept nogil:
    return c"0" <= c <= c"9"


# --- integers --------------------------------------------------------------------------------------


cdef bint one_int(const uint8_t* at, const uint8_t* end, int64_t* out) noexcept nogil:
    """A sign and digits, nothing else."""
    cdef uint64_t value = 0, limit = <uint64_t> INT64_MAX
    cdef bint negative = False
    if at < end and (at[0] == c"-" or at[0] == c"+"):
        negative = at[0] == c"-"
        at += 1
    if at == end:
        return False
    if negative:
        limit += 1
    while at < end:
        if not is_digit(at[0]):
            return False
        # What is at most `limit` takes a digit without a wrap while it is below a tenth of 2^64.
        if value > limit // 10:
            return False
        value = value * 10 + (at[0] - c"0")
        if value > limit:
            return False
        at += 1
    out[0] = <int64_t> (0 - value) if negative else <int64_t> value
    return True


def parse_ints(const int32_t[::1] offsets, const uint8_t[::1] data, uint8_t[::1] mask):
    """64-bit integers."""
    cdef Py_ssize_t row, count = check_texts(offsets, data, mask.shape[0])
    cdef Buffer out = allocate(count * 8)
    cdef int64_t* values = <int64_t*> out.ptr
    cdef const uint8_t* text = bytes_of(data)
    with nogil:
        for row in range(count):
            values[row] = 0
            if mask[row] and not one_int(text + offsets[row], text + offsets[row + 1], &values[row]):
                mask[row] = 0
    return out


# --- floating point --------------------------------------------------------------------------------


cdef const uint8_t* skip_digits(const uint8_t* at, const uint8_t* end, bint hexadecimal) noexcept nogil:
    while at < end and (is_digit(at[0]) or (hexadecimal and c"a" <= (at[0] | 32) <= c"f")):
        at += 1
    return at


cdef bint word(const uint8_t* at, const uint8_t* end, const char* text, Py_ssize_t size) noexcept nogil:
    return end - at == size and memcmp(at, text, size) == 0


cdef const uint8_t* number_end(const uint8_t* at, const uint8_t* end) noexcept nogil:
    """The end of a number without sign and suffix as Java writes them, NULL where it is none."""
    cdef const uint8_t* start
    cdef Py_ssize_t digits
    cdef bint hexadecimal = end - at > 1 and at[0] == c"0" and (at[1] | 32) == c"x"
    if hexadecimal:
        at += 2
    start = at
    at = skip_digits(at, end, hexadecimal)
    digits = at - start
    if at < end and at[0] == c".":
        start = at + 1
        at = skip_digits(start, end, hexadecimal)
        digits += at - start
    if digits == 0:
        return NULL
    if at < end and (at[0] | 32) == (c"p" if hexadecimal else c"e"):
        at += 1
        if at < end and (at[0] == c"+" or at[0] == c"-"):
            at += 1
        start = at
        at = skip_digits(at, end, False)
        if at == start:
            return NULL
    elif hexadecimal:
        return NULL  # the exponent is not optional
    return at


cdef int one_double(const uint8_t* at, const uint8_t* end, double* out) noexcept nogil:
    """1 where the text is a number, 0 where not, -1 when memory runs out."""
    cdef char[SHORT + 1] short_text
    cdef char* copy = short_text
    cdef const uint8_t* stop
    cdef Py_ssize_t size
    cdef bint negative = False
    while at < end and at[0] <= 32:
        at += 1
    while at < end and (end - 1)[0] <= 32:
        end -= 1
    if at < end and (at[0] == c"-" or at[0] == c"+"):
        negative = at[0] == c"-"
        at += 1
    if word(at, end, "NaN", 3):
        out[0] = double_of("nan")
        return 1
    if word(at, end, "Infinity", 8):
        out[0] = double_of("-inf" if negative else "inf")
        return 1
    stop = number_end(at, end)
    if stop == NULL:
        return 0
    size = stop - at
    if stop < end and ((stop[0] | 32) == c"f" or (stop[0] | 32) == c"d"):
        stop += 1
    if stop != end:
        return 0
    if size > SHORT:
        copy = <char*> malloc(size + 1)
        if copy == NULL:
            return -1
    memcpy(copy, at, size)
    copy[size] = 0
    out[0] = double_of(copy)
    if negative:
        out[0] = -out[0]
    if copy != short_text:
        free(copy)
    return 1


def parse_doubles(const int32_t[::1] offsets, const uint8_t[::1] data, uint8_t[::1] mask):
    """Doubles."""
    cdef Py_ssize_t row, count = check_texts(offsets, data, mask.shape[0])
    cdef Buffer out = allocate(count * 8)
    cdef double* values = <double*> out.ptr
    cdef const uint8_t* text = bytes_of(data)
    cdef int found = 0
    with nogil:
        for row in range(count):
            values[row] = 0
            if not mask[row]:
                continue
            found = one_double(text + offsets[row], text + offsets[row + 1], &values[row])
            if found < 0:
                break
            mask[row] = found
    if found < 0:
        raise MemoryError("a long number")
    return out


# --- decimals --------------------------------------------------------------------------------------


cdef bint one_decimal(
    const uint8_t* at, const uint8_t* end, int scale, int128 limit, int64_t* out
) noexcept nogil:
    """A number of at most 38 digits before the point; those after the 38th are rounded away, half up."""
    cdef int128 value = 0
    cdef int digits = 0, decimals = 0, exponent = 0, figures = 0
    cdef bint negative = False, whole = False, down = False
    cdef const uint8_t* full_end = end
    while at < end and at[0] == c" ":
        at += 1
    while at < end and (end - 1)[0] == c" ":
        end -= 1
    if at < end and (at[0] == c"-" or at[0] == c"+"):
        negative = at[0] == c"-"
        at += 1
    while at < end and is_digit(at[0]):
        whole = True
        if value or at[0] != c"0":
            digits += 1
            if digits > 38:
                return False
            value = value * 10 + (at[0] - c"0")
        at += 1
    if at < end and at[0] == c".":
        at += 1
        if not whole and (at == end or not is_digit(at[0])):
            return False
        while at < end and is_digit(at[0]):
            if digits < 38:
                value = value * 10 + (at[0] - c"0")
                digits += 1
                decimals += 1
            elif digits == 38:
                value += at[0] >= c"5"
                digits += 1
            at += 1
        if not whole and at != full_end:
            return False  # Hive takes nothing, not even blanks, after decimals without a whole number
    elif not whole:
        return False
    if at < end and (at[0] | 32) == c"e":
        at += 1
        if at < end and (at[0] == c"-" or at[0] == c"+"):
            down = at[0] == c"-"
            at += 1
        if at == end:
            return False
        while at < end and is_digit(at[0]):
            if figures == 2:
                return False
            if figures or at[0] != c"0":
                figures += 1
                exponent = exponent * 10 + (at[0] - c"0")
            at += 1
    if at != end or (decimals == 0 and value > power_of_ten(38) - 1):
        return False
    return scaled(-value if negative else value, decimals + (exponent if down else -exponent), scale, limit, out)


def parse_decimals(
    const int32_t[::1] offsets, const uint8_t[::1] data, uint8_t[::1] mask, int precision, int scale
):
    """Decimals, two words each."""
    cdef Py_ssize_t row, count = check_texts(offsets, data, mask.shape[0])
    cdef Buffer out = allocate(count * 16)
    cdef int64_t* words = <int64_t*> out.ptr
    cdef const uint8_t* text = bytes_of(data)
    cdef int128 limit
    if not 1 <= precision <= 38 or not 0 <= scale <= 38:
        raise ValueError("no decimal type")
    limit = power_of_ten(precision) - 1
    with nogil:
        for row in range(count):
            if not mask[row] or not one_decimal(
                text + offsets[row], text + offsets[row + 1], scale, limit, words + 2 * row
            ):
                mask[row] = 0
                store(words + 2 * row, 0)
    return out


# --- dates and times -------------------------------------------------------------------------------


cdef int two_digits(const uint8_t* at) noexcept nogil:
    """-1 where there are not two."""
    if not is_digit(at[0]) or not is_digit(at[1]):
        return -1
    return (at[0] - c"0") * 10 + (at[1] - c"0")


cdef const uint8_t* one_date(
    const uint8_t* at, const uint8_t* end, bint lenient, int64_t* out
) noexcept nogil:
    """The end of a date, NULL where there is none; a lenient one may name up to 31 days of any month.

    A year has four digits, or a sign: minus with four to ten, plus with five to ten.
    """
    cdef Date date
    cdef int64_t year = 0
    cdef int digits = 0, most
    cdef uint8_t sign = 0
    if at < end and (at[0] == c"-" or at[0] == c"+"):
        sign = at[0]
        at += 1
    while at < end and is_digit(at[0]) and digits < 10:
        year = year * 10 + (at[0] - c"0")
        digits += 1
        at += 1
    if digits < 4 or year > MOST_YEAR or (digits > 4) != (sign == c"+") and sign != c"-":
        return NULL
    if sign == c"-":
        if year == 0:
            return NULL
        year = -year
    if end - at < 6 or at[0] != c"-" or at[3] != c"-":
        return NULL
    date.year = year
    date.month = two_digits(at + 1)
    date.day = two_digits(at + 4)
    if date.month < 1 or date.month > 12 or date.day < 1 or date.day > 31:
        return NULL
    most = days_in(date.month, is_leap(year))
    if date.day > most:
        if not lenient:
            return NULL
        date.day = most
    out[0] = day_of(date)
    return at + 6


def parse_dates(const int32_t[::1] offsets, const uint8_t[::1] data, uint8_t[::1] mask):
    """Days since 1970, as int32: ``2019-07-09``."""
    cdef Py_ssize_t row, count = check_texts(offsets, data, mask.shape[0])
    cdef Buffer out = allocate(count * 4)
    cdef int32_t* values = <int32_t*> out.ptr
    cdef const uint8_t* text = bytes_of(data)
    cdef const uint8_t* end
    cdef int64_t day = 0
    with nogil:
        for row in range(count):
            values[row] = 0
            if not mask[row]:
                continue
            end = text + offsets[row + 1]
            if one_date(text + offsets[row], end, False, &day) != end or day != <int32_t> day:
                mask[row] = 0
            else:
                values[row] = <int32_t> day
    return out


cdef const uint8_t* one_time(
    const uint8_t* at, const uint8_t* end, int64_t* seconds, int32_t* nanos
) noexcept nogil:
    """The end of a date and a time of day, NULL where there is none.

    Seconds are optional, so is a fraction of up to nine digits; 24:00 is the end of the day.
    """
    cdef int64_t day = 0
    cdef int hour, minute, second = 0, digits = 0
    cdef int32_t nano = 0
    at = one_date(at, end, True, &day)
    if at == NULL or end - at < 6 or at[0] != c" " or at[3] != c":":
        return NULL
    hour = two_digits(at + 1)
    minute = two_digits(at + 4)
    at += 6
    if end - at >= 3 and at[0] == c":" and two_digits(at + 1) >= 0:
        second = two_digits(at + 1)
        at += 3
        if at < end and at[0] == c".":
            at += 1
            while at < end and is_digit(at[0]) and digits < 9:
                nano = nano * 10 + (at[0] - c"0")
                digits += 1
                at += 1
            while digits < 9:
                nano *= 10
                digits += 1
    if hour < 0 or hour > 24 or minute < 0 or minute > 59 or second > 59:
        return NULL
    if hour == 24 and (minute or second or nano):
        return NULL
    seconds[0] = day * DAY_SECONDS + hour * 3600 + minute * 60 + second
    nanos[0] = nano
    return at


def parse_timestamps(const int32_t[::1] offsets, const uint8_t[::1] data, uint8_t[::1] mask, bint zoned):
    """Wall clocks: (seconds since 1970 as int64, nanoseconds as int32, index of the zone as int32, names of zones).

    The form is ``2019-07-09 13:11:00.5``; a zoned one ends with a blank and a zone's name.
    """
    cdef Py_ssize_t row, count = check_texts(offsets, data, mask.shape[0])
    cdef Buffer out = allocate(count * 8)
    cdef Buffer fractions = allocate(count * 4)
    cdef Buffer zones = allocate(count * 4 if zoned else 0)
    cdef int64_t* seconds = <int64_t*> out.ptr
    cdef int32_t* nanos = <int32_t*> fractions.ptr
    cdef int32_t* indexes = <int32_t*> zones.ptr
    cdef const uint8_t* text = bytes_of(data)
    cdef const uint8_t* at
    cdef const uint8_t* end
    cdef const uint8_t* last = NULL
    cdef Py_ssize_t last_size = -1
    cdef int32_t index = 0
    cdef dict names = {}
    with nogil:
        for row in range(count):
            seconds[row] = nanos[row] = 0
            if zoned:
                indexes[row] = 0
            if not mask[row]:
                continue
            end = text + offsets[row + 1]
            at = one_time(text + offsets[row], end, &seconds[row], &nanos[row])
            if at == NULL or (at == end if zoned else at != end) or (zoned and at[0] != c" "):
                mask[row] = 0
                seconds[row] = nanos[row] = 0
                continue
            if not zoned:
                continue
            at += 1
            if end - at != last_size or memcmp(at, last, last_size) != 0:
                # Zones change rarely from row to row.
                last = at
                last_size = end - at
                with gil:
                    index = number_of(names, last[:last_size])
            if index < 0:
                mask[row] = 0
                seconds[row] = nanos[row] = 0
            else:
                indexes[row] = index
    return out, fractions, zones, list(names)


cdef int32_t number_of(dict names, bytes name) except? -2:
    """The number of a zone's name among those seen; -1 when there are too many."""
    if name not in names:
        if len(names) >= MOST_ZONES:
            return -1
        names[name] = len(names)
    return names[name]
