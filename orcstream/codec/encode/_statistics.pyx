"""Kernels that find the bounds and sums of values for column statistics.

Know the Arrow layout of numbers, texts and decimals; must not know types, units nor what a file records of them. Values
are `first` up to `first + count` of a buffer. A mask has one byte for each of them, 1 where there is a value; None
stands for all ones. Sums are exact Python integers, but those of floating point. All loops run without the GIL.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcmp, memcpy

from orcstream.codec.vectors._filter cimport Texts
from orcstream.codec._memory cimport View, mask_of, rows_of

cdef extern from *:
    ctypedef long long int128 "__int128"
    ctypedef unsigned long long uint128 "unsigned __int128"

ctypedef fused integer_t:
    int8_t
    int16_t
    int32_t
    int64_t


cdef struct Bounds:
    Py_ssize_t found
    int64_t least
    int64_t largest
    int128 total


cdef object whole(int128 value):
    return (<object> <int64_t> (value >> 64) << 64) + <object> <uint64_t> value


cdef void bound_integers(
    const integer_t* values, Py_ssize_t count, const uint8_t* mask, Bounds* out
) noexcept nogil:
    cdef integer_t least, largest
    cdef int64_t narrow = 0
    cdef int128 wide = 0
    cdef Py_ssize_t row = 0, found = count
    if mask != NULL:
        while row < count and not mask[row]:
            row += 1
    if row == count:
        return
    least = largest = values[row]
    if mask == NULL:
        # Loops of their own, which compilers turn into vector instructions.
        for row in range(count):
            least = values[row] if values[row] < least else least
            largest = values[row] if values[row] > largest else largest
            if integer_t is int64_t:
                wide += values[row]
        if integer_t is not int64_t:
            for row in range(count):
                narrow += values[row]
    else:
        found = 0
        for row in range(row, count):
            if mask[row]:
                found += 1
                least = values[row] if values[row] < least else least
                largest = values[row] if values[row] > largest else largest
                if integer_t is int64_t:
                    wide += values[row]
                else:
                    narrow += values[row]
    out.found = found
    out.least = least
    out.largest = largest
    out.total = wide + narrow


def integer_bounds(values, Py_ssize_t first, Py_ssize_t count, Py_ssize_t item_bytes, mask=None):
    """(values, least, largest, exact sum) of integers of 1, 2, 4 or 8 bytes; all 0 where there is none."""
    cdef View view, there = mask_of(mask, count)
    cdef Bounds out
    if item_bytes not in (1, 2, 4, 8):
        raise ValueError("no such width")
    view = rows_of(values, first, count, item_bytes)
    out.found = 0
    out.least = out.largest = 0
    out.total = 0
    with nogil:
        if item_bytes == 1:
            bound_integers(<const int8_t*> view.ptr, count, there.ptr, &out)
        elif item_bytes == 2:
            bound_integers(<const int16_t*> view.ptr, count, there.ptr, &out)
        elif item_bytes == 4:
            bound_integers(<const int32_t*> view.ptr, count, there.ptr, &out)
        else:
            bound_integers(<const int64_t*> view.ptr, count, there.ptr, &out)
    return out.found, out.least, out.largest, whole(out.total)


ctypedef fused float_t:
    float
    double


cdef Py_ssize_t bound_floats(
    const float_t* values, Py_ssize_t count, const uint8_t* mask, double* least, double* largest, double* total
) noexcept nogil:
    cdef double value
    cdef Py_ssize_t row, found = 0
    for row in range(count):
        if mask != NULL and not mask[row]:
            continue
        found += 1
        value = values[row]
        total[0] += value
        # Both are false of a NaN.
        if value < least[0]:
            least[0] = value
        if value > largest[0]:
            largest[0] = value
    return found


def float_bounds(values, Py_ssize_t first, Py_ssize_t count, Py_ssize_t item_bytes, mask=None):
    """(values, least, largest, sum in their order) of floats of 4 or 8 bytes. Bounds pass over NaN.

    Where all are NaN, or none is there, least is above largest: infinity and minus infinity.
    """
    cdef View view, there = mask_of(mask, count)
    cdef double least = INFINITY, largest = -INFINITY, total = 0
    cdef Py_ssize_t found
    if item_bytes not in (4, 8):
        raise ValueError("no such width")
    view = rows_of(values, first, count, item_bytes)
    with nogil:
        if item_bytes == 4:
            found = bound_floats(<const float*> view.ptr, count, there.ptr, &least, &largest, &total)
        else:
            found = bound_floats(<const double*> view.ptr, count, there.ptr, &least, &largest, &total)
    return found, least, largest, total


def decimal_bounds(values, Py_ssize_t first, Py_ssize_t count, mask=None):
    """(values, least, largest, exact sum) of the unscaled numbers of 128-bit decimals; 0 where there is none."""
    cdef View view = rows_of(values, first, count, 16), there = mask_of(mask, count)
    cdef const uint8_t* present = there.ptr
    cdef int128 value, least = 0, largest = 0, high = 0
    cdef uint128 low = 0
    cdef Py_ssize_t row, found = 0
    with nogil:
        for row in range(count):
            if present != NULL and not present[row]:
                continue
            memcpy(&value, view.ptr + row * 16, 16)
            if found == 0 or value < least:
                least = value
            if found == 0 or value > largest:
                largest = value
            # In halves, whose sums cannot pass 128 bits.
            low += <uint64_t> value
            high += <int64_t> (value >> 64)
            found += 1
    total = (whole(high) << 64) + (<object> <uint64_t> (low >> 64) << 64) + <object> <uint64_t> low
    return found, whole(least), whole(largest), total


cdef inline bint is_less(const uint8_t* a, Py_ssize_t a_size, const uint8_t* b, Py_ssize_t b_size) noexcept nogil:
    cdef int order = memcmp(a, b, a_size if a_size < b_size else b_size)
    return order < 0 or (order == 0 and a_size < b_size)


def text_bounds(Texts texts not None, Py_ssize_t most, mask=None):
    """(values, least, largest, their bytes together) of texts in the order of bytes, cut to `most` bytes.

    A text that is cut answers `most` bytes, so ask for one more than needed to see that it is longer. Least and
    largest are None where there is no value. Raises ValueError for offsets and indexes beyond their buffers.
    """
    cdef View there = mask_of(mask, texts.count)
    cdef const uint8_t* text = NULL
    cdef const uint8_t* least = NULL
    cdef const uint8_t* largest = NULL
    cdef Py_ssize_t row, length = 0, least_size = 0, largest_size = 0, found = 0, total = 0
    cdef bint bad = False
    if most < 0:
        raise ValueError("negative counts")
    with nogil:
        for row in range(texts.count):
            if there.ptr != NULL and not there.ptr[row]:
                continue
            if not texts.at(row, &text, &length):
                bad = True
                break
            found += 1
            total += length
            if found == 1 or is_less(text, length, least, least_size):
                least = text
                least_size = length
            if found == 1 or is_less(largest, largest_size, text, length):
                largest = text
                largest_size = length
    if bad:
        raise ValueError("a text lies beyond its buffer")
    if not found:
        return 0, None, None, 0
    return (
        found,
        least[:least_size if least_size < most else most],
        largest[:largest_size if largest_size < most else most],
        total,
    )
