# Zones as arrays: when which offset from UTC holds. For reading and for writing.

from libc.stdint cimport int64_t


cdef inline int64_t zone_offset(
    int64_t instant, const int64_t* transitions, const int64_t* offsets, Py_ssize_t size, Py_ssize_t* hint
) noexcept nogil:
    """Seconds east of UTC at an instant; offsets[i] holds from transitions[i - 1] up to transitions[i].

    `hint` is the i of the last answer, `size` at first: times that follow each other are mostly near.
    """
    cdef int64_t rules_end = 16725225600  # 2500-01-01 00:00:00 UTC
    cdef int64_t cycle_seconds = 12622780800  # 400 years
    cdef Py_ssize_t low = hint[0], high, middle
    if instant >= rules_end:
        # Transitions are listed up to the year 2500; the calendar repeats every 400 years.
        instant -= ((instant - rules_end) // cycle_seconds + 1) * cycle_seconds
    if (low == 0 or transitions[low - 1] <= instant) and (low == size or instant < transitions[low]):
        return offsets[low]
    low = 0
    high = size
    while low < high:
        middle = (low + high) // 2
        if transitions[middle] <= instant:
            low = middle + 1
        else:
            high = middle
    hint[0] = low
    return offsets[low]
