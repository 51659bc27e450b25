from libc.stdint cimport int32_t, int64_t


cdef struct Clock:
    const int64_t* transitions
    const int64_t* offsets
    Py_ssize_t size
    Py_ssize_t hint  # where `zone_offset` found its last answer
    bint hybrid
    int64_t unit  # how many in a second


cdef int clock_of(
    Clock* clock, const int64_t[::1] transitions, const int64_t[::1] offsets, bint hybrid, int64_t unit
) except -1
cdef void read_dates(int64_t* days, Py_ssize_t count) noexcept nogil
cdef Py_ssize_t read_times(
    const int64_t* seconds,
    const int64_t* nanos,
    Py_ssize_t count,
    int64_t base_seconds,
    Clock* clock,
    int64_t* out,
    bint* beyond,
) noexcept nogil
cdef int64_t zone_offset(int64_t instant, Clock* clock) noexcept nogil
cdef void hybrid_days_of(const int32_t* days, Py_ssize_t count, int32_t* out) noexcept nogil
cdef void hybrid_times_of(const int64_t* times, Py_ssize_t count, int64_t unit, int64_t* out) noexcept nogil
cdef void store_times(
    const int64_t* values, Py_ssize_t count, Clock* clock, int64_t base_seconds, int64_t* seconds, int64_t* nanos
) noexcept nogil
