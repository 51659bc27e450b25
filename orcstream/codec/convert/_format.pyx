"""Kernels that write values as text.

Know the texts that ORC Java's ConvertTreeReaderFactory makes of numbers, dates, timestamps and binaries. Must not know
types or vectors. They answer Arrow offsets and bytes; a mask has one byte a row: rows with 0 become empty texts. Texts
longer than 31 bits together are an OverflowError, raised before they are written. All loops run without the GIL.
"""

cimport cython
from libc.math cimport fabs
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset

from orcstream._buffer cimport Buffer, allocate
from orcstream.codec.vectors._calendar cimport DAY_SECONDS, Date, date_of, floor_div
from orcstream.codec.convert._convert cimport int128, load, power_of_ten, shortest_digits
from orcstream.codec.vectors._texts cimport bytes_of, check_texts, room_for

cdef extern from *:
    bint isfinite(double x) noexcept nogil
    bint isnan(double x) noexcept nogil

cdef enum:
    # The longest texts of one value of each kind.
    INT_BYTES = 20
    DOUBLE_BYTES = 26
    DATE_BYTES = 20
    TIME_BYTES = 40

# Years of nine digits, as many as java.time knows.
cdef int64_t MOST_SECONDS = 31556889832780799
cdef int64_t LEAST_SECONDS = -31557014135596800


@cython.final
cdef class _Texts:
    """Texts of `count` rows under construction: written to memory for the longest ones, then copied to what they take.

    There are `each` values a row.
    """

    cdef Buffer offsets, scratch
    cdef Py_ssize_t count
    cdef int32_t* ends
    cdef uint8_t* start

    def __cinit__(self, Py_ssize_t count, Py_ssize_t values, Py_ssize_t each, Py_ssize_t most_bytes):
        if values != count * each:
            raise ValueError("values and mask differ in length")
        self.count = count
        self.offsets = allocate((count + 1) * 4)
        self.scratch = allocate(count * most_bytes)
        self.ends = <int32_t*> self.offsets.ptr
        self.start = self.scratch.ptr
        self.ends[0] = 0

    cdef inline void end(self, Py_ssize_t row, uint8_t* at) noexcept nogil:
        self.ends[row + 1] = <int32_t> (at - self.start)

    cdef tuple done(self, uint8_t* at):
        cdef Buffer data = room_for(at - self.start)
        memcpy(data.ptr, self.start, data.nbytes)
        return self.offsets, data


cdef uint8_t* put_number(uint8_t* at, uint64_t value, int least_digits) noexcept nogil:
    cdef uint8_t[20] digits
    cdef int have = 0
    while value or have < least_digits:
        have += 1
        digits[20 - have] = c"0" + <uint8_t> (value % 10)
        value = value // 10
    memcpy(at, digits + 20 - have, have)
    return at + have


cdef uint8_t* put_int(uint8_t* at, int64_t value) noexcept nogil:
    cdef uint64_t magnitude = <uint64_t> value
    if value < 0:
        at[0] = c"-"
        at += 1
        magnitude = 0 - magnitude
    return put_number(at, magnitude, 1)


def format_ints(const int64_t[::1] values, const uint8_t[::1] mask):
    """Integers: ``-12``."""
    cdef Py_ssize_t row
    cdef _Texts texts = _Texts(mask.shape[0], values.shape[0], 1, INT_BYTES)
    cdef uint8_t* at = texts.start
    with nogil:
        for row in range(texts.count):
            if mask[row]:
                at = put_int(at, values[row])
            texts.end(row, at)
    return texts.done(at)


def format_booleans(const int64_t[::1] values, const uint8_t[::1] mask):
    """``TRUE`` and ``FALSE``."""
    cdef Py_ssize_t row
    cdef _Texts texts = _Texts(mask.shape[0], values.shape[0], 1, 5)
    cdef uint8_t* at = texts.start
    with nogil:
        for row in range(texts.count):
            if mask[row]:
                if values[row]:
                    memcpy(at, b"TRUE", 4)
                    at += 4
                else:
                    memcpy(at, b"FALSE", 5)
                    at += 5
            texts.end(row, at)
    return texts.done(at)


cdef uint8_t* put_double(uint8_t* at, double value) noexcept nogil:
    """Java's form: decimals from a thousandth to ten million, else one digit, a point, digits, an exponent."""
    cdef char[24] digits
    cdef int n, exponent, whole
    if value < 0 or (value == 0 and 1 / value < 0):
        at[0] = c"-"
        at += 1
    if not isfinite(value):
        memcpy(at, b"Infinity", 8)
        return at + 8
    if value == 0:
        memcpy(at, b"0.0", 3)
        return at + 3
    n = shortest_digits(fabs(value), digits, &exponent)
    if -3 <= exponent < 0:
        memcpy(at, b"0.00", 4)
        at += 1 - exponent
        memcpy(at, digits, n)
        return at + n
    whole = exponent + 1 if 0 <= exponent < 7 else 1
    if n < whole:
        memset(digits + n, c"0", whole - n)
        n = whole
    memcpy(at, digits, whole)
    at += whole
    at[0] = c"."
    at += 1
    if n == whole:
        at[0] = c"0"
        at += 1
    else:
        memcpy(at, digits + whole, n - whole)
        at += n - whole
    if 0 <= exponent < 7:
        return at
    at[0] = c"E"
    return put_int(at + 1, exponent)


def format_doubles(const double[::1] values, uint8_t[::1] mask):
    """Floating point with the fewest digits that tell it apart: ``1.0E10``. NaN has no text: its mask becomes 0."""
    cdef Py_ssize_t row
    cdef _Texts texts = _Texts(mask.shape[0], values.shape[0], 1, DOUBLE_BYTES)
    cdef uint8_t* at = texts.start
    with nogil:
        for row in range(texts.count):
            if mask[row]:
                if isnan(values[row]):
                    mask[row] = 0
                else:
                    at = put_double(at, values[row])
            texts.end(row, at)
    return texts.done(at)


cdef uint8_t* put_decimal(uint8_t* at, int128 value, int scale) noexcept nogil:
    """Without zeros at the end of the decimals."""
    cdef uint64_t high, low
    cdef int128 whole, part
    if value < 0:
        at[0] = c"-"
        at += 1
        value = -value
    whole = value // power_of_ten(scale)
    part = value % power_of_ten(scale)
    high = <uint64_t> (whole // power_of_ten(19))
    low = <uint64_t> (whole % power_of_ten(19))
    if high:
        at = put_number(at, high, 1)
        at = put_number(at, low, 19)
    else:
        at = put_number(at, low, 1)
    if not part:
        return at
    while part % 10 == 0:
        part = part // 10
        scale -= 1
    at[0] = c"."
    at += 1
    if scale > 19:
        at = put_number(at, <uint64_t> (part // power_of_ten(19)), scale - 19)
        return put_number(at, <uint64_t> (part % power_of_ten(19)), 19)
    return put_number(at, <uint64_t> part, scale)


def format_decimals(const int64_t[::1] values, const uint8_t[::1] mask, int scale):
    """Decimals, two words each: ``-1.5``."""
    cdef Py_ssize_t row
    cdef _Texts texts = _Texts(mask.shape[0], values.shape[0], 2, DECIMAL_BYTES)
    cdef uint8_t* at = texts.start
    if not 0 <= scale <= 38:
        raise ValueError("no decimal type")
    with nogil:
        for row in range(texts.count):
            if mask[row]:
                at = put_decimal(at, load(&values[2 * row]), scale)
            texts.end(row, at)
    return texts.done(at)


cdef uint8_t* put_date(uint8_t* at, int64_t day) noexcept nogil:
    """``2019-07-09``; a year has four digits or more, with a sign where it has more or is negative."""
    cdef Date date = date_of(day)
    if date.year < 0 or date.year > 9999:
        at[0] = c"-" if date.year < 0 else c"+"
        at += 1
    at = put_number(at, <uint64_t> (-date.year if date.year < 0 else date.year), 4)
    at[0] = c"-"
    at = put_number(at + 1, date.month, 2)
    at[0] = c"-"
    return put_number(at + 1, date.day, 2)


def format_dates(const int32_t[::1] values, const uint8_t[::1] mask):
    """Days since 1970 in the proleptic Gregorian calendar: ``2019-07-09``."""
    cdef Py_ssize_t row
    cdef _Texts texts = _Texts(mask.shape[0], values.shape[0], 1, DATE_BYTES)
    cdef uint8_t* at = texts.start
    with nogil:
        for row in range(texts.count):
            if mask[row]:
                at = put_date(at, values[row])
            texts.end(row, at)
    return texts.done(at)


cdef uint8_t* put_time(uint8_t* at, int64_t second, int64_t fraction, int digits) noexcept nogil:
    """``2019-07-09 13:11:00.5``: a fraction of `digits` digits without the zeros at its end."""
    cdef int64_t day = floor_div(second, DAY_SECONDS)
    second -= day * DAY_SECONDS
    at = put_date(at, day)
    at[0] = c" "
    at = put_number(at + 1, second // 3600, 2)
    at[0] = c":"
    at = put_number(at + 1, second // 60 % 60, 2)
    at[0] = c":"
    at = put_number(at + 1, second % 60, 2)
    if fraction:
        while fraction % 10 == 0:
            fraction = fraction // 10
            digits -= 1
        at[0] = c"."
        at = put_number(at + 1, fraction, digits)
    return at


def format_timestamps(const int64_t[::1] values, uint8_t[::1] mask, int digits, bytes suffix):
    """Counts of 10^-`digits` seconds since 1970, `suffix` after each; times of more than nine digits of years get a 0."""
    cdef Py_ssize_t row, size = len(suffix)
    cdef _Texts texts = _Texts(mask.shape[0], values.shape[0], 1, TIME_BYTES + size)
    cdef uint8_t* at = texts.start
    cdef const char* tail = suffix
    cdef int64_t unit, second
    if not 0 <= digits <= 9:
        raise ValueError("no unit of time")
    unit = <int64_t> power_of_ten(digits)
    with nogil:
        for row in range(texts.count):
            if mask[row]:
                second = floor_div(values[row], unit)
                if second > MOST_SECONDS or second < LEAST_SECONDS:
                    mask[row] = 0
                else:
                    at = put_time(at, second, values[row] - second * unit, digits)
                    memcpy(at, tail, size)
                    at += size
            texts.end(row, at)
    return texts.done(at)


# --- texts of texts --------------------------------------------------------------------------------


def format_hexadecimal(const int32_t[::1] offsets, const uint8_t[::1] data, const uint8_t[::1] mask):
    """Bytes as pairs of digits with blanks between: ``0a ff``."""
    cdef Py_ssize_t row, count = check_texts(offsets, data, mask.shape[0]), total = 0, size
    cdef Buffer out_offsets = allocate((count + 1) * 4)
    cdef int32_t* ends = <int32_t*> out_offsets.ptr
    cdef Buffer out
    cdef uint8_t* at
    cdef const uint8_t* source
    cdef const uint8_t* stop
    cdef const uint8_t* text = bytes_of(data)
    cdef const char* digits = b"0123456789abcdef"
    ends[0] = 0
    with nogil:
        for row in range(count):
            size = offsets[row + 1] - offsets[row]
            if mask[row] and size:
                total += 3 * size - 1
            ends[row + 1] = <int32_t> total
    out = room_for(total)
    with nogil:
        for row in range(count):
            at = out.ptr + ends[row]
            source = text + offsets[row]
            stop = text + offsets[row + 1]
            while mask[row] and source < stop:
                at[0] = digits[source[0] >> 4]
                at[1] = digits[source[0] & 15]
                source += 1
                if source < stop:
                    at[2] = c" "
                at += 3
    return out_offsets, out
