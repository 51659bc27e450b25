from libc.stdint cimport int64_t


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
