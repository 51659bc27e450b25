"""Kernels that convert numbers: decimals to and from integers and floating point, timestamps from parts.

Know the arithmetic of 128-bit decimals and of time units; must not know types, text or vectors. Values come as typed
views, so their lengths are known; a decimal is two words, low first. A mask has one byte a row: rows with 0 are not
looked at, and a value that does not fit gets a 0. What comes out for such rows is 0. All loops run without the GIL.
The rules are those of ORC Java's ConvertTreeReaderFactory and Hive's decimals: rounding is half up, away from zero.
"""

from libc.math cimport fabs
from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint64_t

from orcstream._buffer cimport Buffer, allocate
from orcstream.codec.vectors._calendar cimport count_ticks

cdef extern from *:
    """
    #include <locale.h>
    #if defined(__APPLE__)
    #include <xlocale.h>
    #endif
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <math.h>
    /* A program may have set a locale whose decimal point is a comma. */
    static locale_t orc_c_locale = (locale_t) 0;
    static int orc_open_locale(void) {
        orc_c_locale = newlocale(LC_ALL_MASK, "C", (locale_t) 0);
        return orc_c_locale != (locale_t) 0;
    }
    static double orc_strtod(const char* text) { return strtod_l(text, NULL, orc_c_locale); }
    /* The double nearest to n digits times 10^exponent. */
    static double orc_from_digits(const char* digits, int n, int exponent) {
        char text[80];
        unsigned size = exponent < 0 ? -exponent : exponent;
        memcpy(text, digits, n);
        text[n++] = 'e';
        text[n++] = exponent < 0 ? '-' : '+';
        text[n++] = '0' + size / 100;  /* no exponent of a double has more than three digits */
        text[n++] = '0' + size / 10 % 10;
        text[n++] = '0' + size % 10;
        text[n] = 0;
        return orc_strtod(text);
    }
    /* The n significant digits nearest to x > 0; answers the exponent of the first. */
    static int orc_digits(double x, int n, char* digits) {
        char text[48];
        int at, have = 0;
        snprintf(text, sizeof text, "%.*e", n - 1, x);
        for (at = 0; have < n; at++) {
            if (text[at] >= '0' && text[at] <= '9') digits[have++] = text[at];
        }
        while (text[at] != 'e') at++;
        return atoi(text + at + 1);
    }
    /* The fewest digits that stand for x > 0 and no other double (at least two where two are nearer than one, as
       Double.toString of Java 19 and later says); answers how many, and the exponent of the first. */
    static int orc_shortest(double x, char* digits, int* exponent) {
        int n, bits;
        if (x < 2.2250738585072014e-308) {
            for (n = 1; n < 17; n++) {
                *exponent = orc_digits(x, n, digits);
                if (orc_from_digits(digits, n, *exponent - n + 1) == x) break;
            }
            if (n == 1) { n = 2; *exponent = orc_digits(x, n, digits); }
        } else {
            /* 15 digits always survive, so none shorter than these can be missed. */
            for (n = 15; n < 17; n++) {
                *exponent = orc_digits(x, n, digits);
                if (orc_from_digits(digits, n, *exponent - n + 1) == x) break;
                if (n == 16 && frexp(x, &bits) == 0.5 && digits[15] < '9') {
                    /* Below a power of two doubles are denser: its nearest neighbour of 16 digits may lie there. */
                    digits[15]++;
                    if (orc_from_digits(digits, n, *exponent - n + 1) == x) break;
                }
            }
        }
        if (n == 17) *exponent = orc_digits(x, n, digits);
        while (n > 1 && digits[n - 1] == '0') n--;
        return n;
    }
    """
    bint open_locale "orc_open_locale"()
    double from_digits "orc_from_digits"(const char* digits, int n, int exponent) noexcept nogil
    int shortest "orc_shortest"(double x, char* digits, int* exponent) noexcept nogil
    double c_strtod "orc_strtod"(const char* text) noexcept nogil
    bint isfinite(double x) noexcept nogil

if not open_locale():
    raise MemoryError("no locale")

cdef enum:
    MOST_SCALE = 38
    NANO_DIGITS = 9

# Beyond these seconds there is no Instant in Java.
cdef int64_t MOST_SECONDS = 31556889864403199
cdef int64_t LEAST_SECONDS = -31557014167219200
cdef int64_t EXACT = (<int64_t> 1) << 53

cdef int128[39] POWERS
cdef double[23] TENS
cdef int _power
POWERS[0] = 1
for _power in range(1, 39):
    POWERS[_power] = POWERS[_power - 1] * 10
for _power in range(23):
    TENS[_power] = <double> POWERS[_power]  # exact up to 10^22


cdef int128 load(const int64_t* words) noexcept nogil:
    """A decimal; views may begin anywhere, so 16 bytes are not loaded at once."""
    return (<int128> words[1] << 64) | <int128> <uint64_t> words[0]


cdef void store(int64_t* words, int128 value) noexcept nogil:
    words[0] = <int64_t> value
    words[1] = <int64_t> (value >> 64)


cdef int128 power_of_ten(int exponent) noexcept nogil:
    return POWERS[exponent]


cdef int shortest_digits(double x, char* digits, int* exponent) noexcept nogil:
    """The digits of a double above 0, at most 17, and the power of ten of the first; answers how many."""
    return shortest(x, digits, exponent)


cdef double double_of(const char* text) noexcept nogil:
    """The double nearest to a number in C's form, whatever the program's locale."""
    return c_strtod(text)


cdef int rows_of(Py_ssize_t values, Py_ssize_t each, Py_ssize_t rows) except -1:
    if values != rows * each:
        raise ValueError("values and mask differ in length")
    return 0


cdef int shape(int precision, int scale) except -1:
    if not 1 <= precision <= MOST_SCALE or not 0 <= scale <= MOST_SCALE:
        raise ValueError("no decimal type")
    return 0


cdef bint fit(int128 value, int scale, int target, int128 limit, int64_t* out) noexcept nogil:
    """Brings a value of `scale` to the scale `target`; answers whether it is at most `limit` then."""
    cdef int128 power, rest
    cdef int shift = target - scale
    if shift > 0:
        if shift > MOST_SCALE:
            if value != 0:
                return False
        else:
            power = POWERS[shift]
            if value > limit // power or value < -(limit // power):
                return False
            value *= power
    elif shift < -MOST_SCALE:
        value = 0
    elif shift < 0:
        power = POWERS[-shift]
        rest = value % power
        value = value // power
        if rest < 0:
            if -rest >= power + rest:
                value -= 1
        elif rest >= power - rest:
            value += 1
    if value > limit or value < -limit:
        return False
    store(out, value)
    return True


def decimals_from_numbers(
    const int64_t[::1] values, int words, uint8_t[::1] mask, int value_scale, int precision, int scale
):
    """Decimals of numbers of one or two words each that count 10^-`value_scale`."""
    cdef Py_ssize_t row, count = mask.shape[0]
    cdef Buffer out = allocate(count * 16)
    cdef int64_t* found = <int64_t*> out.ptr
    cdef int128 value, limit
    if words not in (1, 2):
        raise ValueError("no such numbers")
    rows_of(values.shape[0], words, count)
    shape(precision, scale)
    shape(MOST_SCALE, value_scale)
    limit = POWERS[precision] - 1
    with nogil:
        for row in range(count):
            value = values[row] if words == 1 else load(&values[2 * row])
            if not mask[row] or not fit(value, value_scale, scale, limit, found + 2 * row):
                mask[row] = 0
                store(found + 2 * row, 0)
    return out


def decimals_from_doubles(const double[::1] values, uint8_t[::1] mask, int precision, int scale):
    """Decimals of the shortest texts of the doubles, as Hive reads them: two digits of exponent at most."""
    cdef Py_ssize_t row, count = mask.shape[0]
    cdef Buffer out = allocate(count * 16)
    cdef int64_t* words = <int64_t*> out.ptr
    cdef char[24] digits
    cdef int n, index, exponent
    cdef int128 limit, value
    cdef double number
    rows_of(values.shape[0], 1, count)
    shape(precision, scale)
    limit = POWERS[precision] - 1
    with nogil:
        for row in range(count):
            store(words + 2 * row, 0)
            number = values[row]
            if not mask[row] or number == 0:
                continue
            if not isfinite(number):
                mask[row] = 0
                continue
            n = shortest(fabs(number), digits, &exponent)
            value = 0
            for index in range(n):
                value = value * 10 + (digits[index] - c"0")
            if number < 0:
                value = -value
            if exponent >= 100 or exponent <= -100 or not scaled(
                value, n - 1 - exponent, scale, limit, words + 2 * row
            ):
                mask[row] = 0
    return out


cdef bint scaled(int128 value, int value_scale, int scale, int128 limit, int64_t* out) noexcept nogil:
    """As `fit`, of a text's digits: Hive's decimals have at most 38 decimals, so there are two roundings."""
    cdef int64_t[2] rounded
    if value_scale < 0:
        if value == 0:
            return fit(0, 0, scale, limit, out)
        if value_scale < -MOST_SCALE or not fit(value, value_scale + MOST_SCALE, MOST_SCALE, POWERS[38] - 1, rounded):
            return False
        return fit(load(rounded), 0, scale, limit, out)
    if value_scale > MOST_SCALE:
        fit(value, value_scale, MOST_SCALE, POWERS[38] - 1, rounded)
        return fit(load(rounded), MOST_SCALE, scale, limit, out)
    return fit(value, value_scale, scale, limit, out)


def ints_from_decimals(const int64_t[::1] values, uint8_t[::1] mask, int scale):
    """Decimals cut to whole numbers of 64 bits."""
    cdef Py_ssize_t row, count = mask.shape[0]
    cdef Buffer out = allocate(count * 8)
    cdef int64_t* numbers = <int64_t*> out.ptr
    cdef int128 value, power
    rows_of(values.shape[0], 2, count)
    shape(MOST_SCALE, scale)
    power = POWERS[scale]
    with nogil:
        for row in range(count):
            numbers[row] = 0
            if not mask[row]:
                continue
            value = load(&values[2 * row]) // power
            if value > INT64_MAX or value < INT64_MIN:
                mask[row] = 0
            else:
                numbers[row] = <int64_t> value
    return out


cdef double as_double(int128 value, int scale) noexcept nogil:
    """The double nearest to a decimal."""
    cdef char[48] digits
    cdef int at = 48
    cdef bint negative = value < 0
    cdef double number
    if -EXACT <= value <= EXACT and scale <= 22:
        return <double> value / TENS[scale]  # both exact, so one rounding
    if negative:
        value = -value
    while value:
        at -= 1
        digits[at] = c"0" + <int> (value % 10)
        value = value // 10
    number = from_digits(digits + at, 48 - at, -scale)
    return -number if negative else number


def doubles_from_decimals(const int64_t[::1] values, const uint8_t[::1] mask, int scale):
    """The doubles nearest to decimals."""
    cdef Py_ssize_t row, count = mask.shape[0]
    cdef Buffer out = allocate(count * 8)
    cdef double* numbers = <double*> out.ptr
    rows_of(values.shape[0], 2, count)
    shape(MOST_SCALE, scale)
    with nogil:
        for row in range(count):
            numbers[row] = as_double(load(&values[2 * row]), scale) if mask[row] else 0
    return out


def ticks_from_decimals(const int64_t[::1] values, uint8_t[::1] mask, int scale, int unit_digits):
    """Decimals of seconds as counts of 10^-`unit_digits` seconds; decimals past the ninth are cut off.

    Answers (values, row of one that 64 bits do not hold or -1). Beyond a thousand million years there is no time.
    """
    cdef Py_ssize_t row, beyond = -1, count = mask.shape[0]
    cdef Buffer out = allocate(count * 8)
    cdef int64_t* numbers = <int64_t*> out.ptr
    cdef int128 value, second, ticks, power
    rows_of(values.shape[0], 2, count)
    shape(MOST_SCALE, scale)
    if not 0 <= unit_digits <= NANO_DIGITS:
        raise ValueError("no unit of time")
    power = POWERS[NANO_DIGITS - unit_digits]
    with nogil:
        for row in range(count):
            numbers[row] = 0
            if not mask[row]:
                continue
            value = load(&values[2 * row])
            second = value // POWERS[scale]
            if second > MOST_SECONDS or second < LEAST_SECONDS:
                mask[row] = 0
                continue
            if scale > NANO_DIGITS:
                ticks = value // POWERS[scale - NANO_DIGITS]
            else:
                ticks = value * POWERS[NANO_DIGITS - scale]
            if ticks < 0 and ticks % power:
                ticks -= power
            ticks = ticks // power
            if ticks > INT64_MAX or ticks < INT64_MIN:
                beyond = row
                break
            numbers[row] = <int64_t> ticks
    return out, beyond


def ticks_from_seconds(
    const int64_t[::1] seconds, const int32_t[::1] nanos, const uint8_t[::1] mask, int64_t unit
):
    """Seconds and nanoseconds (none where that view is empty) as counts of `unit` a second.

    Answers (values, row of one that 64 bits do not hold or -1).
    """
    cdef Py_ssize_t row, beyond = -1, count = mask.shape[0]
    cdef Buffer out = allocate(count * 8)
    cdef int64_t* numbers = <int64_t*> out.ptr
    cdef int64_t second, value, fraction, divisor
    cdef bint whole = nanos.shape[0] == 0
    rows_of(seconds.shape[0], 1, count)
    if not whole:
        rows_of(nanos.shape[0], 1, count)
    if unit < 1 or 1000000000 % unit:
        raise ValueError("no unit of time")
    divisor = 1000000000 // unit
    with nogil:
        for row in range(count):
            numbers[row] = 0
            if not mask[row]:
                continue
            second = seconds[row]
            fraction = 0 if whole else nanos[row] // divisor
            if not count_ticks(second, fraction, unit, &value):
                beyond = row
                break
            numbers[row] = value
    return out, beyond
