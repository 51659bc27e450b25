# Bitmaps as Arrow has them, least significant bit first.

from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcpy

cdef extern from *:
    int popcount "__builtin_popcountll"(uint64_t bits) noexcept nogil


cdef inline bint bit_at(const uint8_t* bitmap, Py_ssize_t index) noexcept nogil:
    return bitmap[index >> 3] >> (index & 7) & 1


cdef inline Py_ssize_t count_ones(const uint8_t* bitmap, Py_ssize_t first, Py_ssize_t count) noexcept nogil:
    """How many of the bits from `first` on are set."""
    cdef Py_ssize_t at = first, stop = first + count, found = 0
    cdef uint64_t word
    while at < stop and at & 7:
        found += bit_at(bitmap, at)
        at += 1
    while stop - at >= 64:
        memcpy(&word, bitmap + (at >> 3), 8)
        found += popcount(word)
        at += 64
    while at < stop:
        found += bit_at(bitmap, at)
        at += 1
    return found
