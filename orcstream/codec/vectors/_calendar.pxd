# Days since 1970-01-01 as dates of the Gregorian and the Julian calendar, and back; both without a beginning.
#
# After Hinnant, "chrono-Compatible Low-Level Date Algorithms": years are counted from March on, so that a leap day
# comes last.

from libc.stdint cimport int64_t

cdef enum:
    DAY_SECONDS = 86400
    # 1582-10-15, the first day of the Gregorian calendar; the hybrid one has no dates for the ten days before it.
    GREGORIAN_DAY = -141427
    SKIPPED_DAYS = 10

cdef struct Date:
    int64_t year
    int month
    int day


cdef extern from *:
    bint mul_overflow "__builtin_mul_overflow"(int64_t a, int64_t b, int64_t* out) noexcept nogil
    bint add_overflow "__builtin_add_overflow"(int64_t a, int64_t b, int64_t* out) noexcept nogil


cdef inline bint count_ticks(int64_t second, int64_t fraction, int64_t unit, int64_t* out) noexcept nogil:
    """`unit` ticks a second, and `fraction` more; false where that is beyond 64 bits."""
    # A product just below the smallest value may still be in range once the fraction is added.
    if mul_overflow(second + (1 if second < 0 else 0), unit, out):
        return False
    return not add_overflow(out[0], fraction - (unit if second < 0 else 0), out)


cdef inline int64_t floor_div(int64_t a, int64_t b) noexcept nogil:
    cdef int64_t quotient = a // b
    return quotient - 1 if (a % b != 0 and (a < 0) != (b < 0)) else quotient


cdef inline bint is_skipped(int64_t day) noexcept nogil:
    return GREGORIAN_DAY - SKIPPED_DAYS <= day < GREGORIAN_DAY


cdef inline bint is_leap(int64_t year) noexcept nogil:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


cdef inline int days_in(int month, bint leap) noexcept nogil:
    if month == 2:
        return 29 if leap else 28
    return 30 if month == 4 or month == 6 or month == 9 or month == 11 else 31


cdef inline int64_t day_of_year(int month, int day) noexcept nogil:
    """Days since the first of March."""
    return (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1


cdef inline Date date_in(int64_t year, int day) noexcept nogil:
    """The date so many days after the first of March."""
    cdef Date date
    cdef int months = (5 * day + 2) // 153
    date.year = year + 1 if months >= 10 else year
    date.month = months + 3 if months < 10 else months - 9
    date.day = day - (153 * months + 2) // 5 + 1
    return date


cdef inline Date date_of(int64_t day) noexcept nogil:
    """The Gregorian date of a day."""
    cdef int64_t z = day + 719468, era = floor_div(z, 146097), doe = z - era * 146097
    cdef int64_t yoe = (doe - doe // 1460 + doe // 36524 - doe // 146096) // 365
    return date_in(yoe + era * 400, <int> (doe - (365 * yoe + yoe // 4 - yoe // 100)))


cdef inline int64_t day_of(Date date) noexcept nogil:
    """The day of a Gregorian date."""
    cdef int64_t year = date.year - 1 if date.month <= 2 else date.year
    return (
        year * 365
        + floor_div(year, 4)
        - floor_div(year, 100)
        + floor_div(year, 400)
        + day_of_year(date.month, date.day)
        - 719468
    )


cdef inline Date julian_date_of(int64_t day) noexcept nogil:
    """The Julian date of a day."""
    cdef int64_t z = day + 719470, era = floor_div(z, 1461), doe = z - era * 1461, yoe = (doe - doe // 1460) // 365
    return date_in(yoe + era * 4, <int> (doe - 365 * yoe))


cdef inline int64_t day_of_julian(Date date) noexcept nogil:
    """The day of a Julian date."""
    cdef int64_t year = date.year - 1 if date.month <= 2 else date.year
    return year * 365 + floor_div(year, 4) + day_of_year(date.month, date.day) - 719470
