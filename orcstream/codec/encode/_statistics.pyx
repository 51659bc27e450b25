"""Kernels that find the bounds and sums of values for column statistics.

Know the Arrow layout of numbers, texts and decimals; must not know types, units nor what a file records of them. Values
are `first` up to `first + count` of a buffer. A mask has one byte for each of them, 1 where there is a value; None
stands for all ones. Sums are exact Python integers, but those of floating point. All loops run without the GIL.

A `Tally` is what encoders keep of a row group, to which values are added as they come.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from orcstream.codec.vectors._filter cimport Texts
from orcstream.codec.vectors._texts cimport text_at
from orcstream.codec._memory cimport View, mask_of, rows_of

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


cdef object whole_of_halves(int128 high, uint128 low):
    """A sum of numbers whose upper and lower 64 bits were added up apart."""
    return (whole(high) << 64) + (<object> <uint64_t> (low >> 64) << 64) + <object> <uint64_t> low


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


cdef Py_ssize_t bound_decimals(
    const uint8_t* values,
    Py_ssize_t count,
    const uint8_t* mask,
    int128* least,
    int128* largest,
    int128* high,
    uint128* low,
) noexcept nogil:
    """Bounds of those there are, and sums in halves, which cannot pass 128 bits; answers how many there are."""
    cdef int128 value
    cdef Py_ssize_t row, found = 0
    for row in range(count):
        if mask != NULL and not mask[row]:
            continue
        memcpy(&value, values + row * 16, 16)
        if found == 0 or value < least[0]:
            least[0] = value
        if found == 0 or value > largest[0]:
            largest[0] = value
        low[0] += <uint64_t> value
        high[0] += <int64_t> (value >> 64)
        found += 1
    return found


def decimal_bounds(values, Py_ssize_t first, Py_ssize_t count, mask=None):
    """(values, least, largest, exact sum) of the unscaled numbers of 128-bit decimals; 0 where there is none."""
    cdef View view = rows_of(values, first, count, 16), there = mask_of(mask, count)
    cdef int128 least = 0, largest = 0, high = 0
    cdef uint128 low = 0
    cdef Py_ssize_t found
    with nogil:
        found = bound_decimals(view.ptr, count, there.ptr, &least, &largest, &high, &low)
    return found, whole(least), whole(largest), whole_of_halves(high, low)


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
            if not text_at(&texts.rows, row, &text, &length):
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


# --- of what is written ---------------------------------------------------------------------------------------------


cdef void clear(Tally* tally) noexcept nogil:
    """Nothing has been seen."""
    memset(tally, 0, sizeof(Tally))
    tally.least_float = INFINITY
    tally.largest_float = -INFINITY


cdef void note(Tally* tally, int128 least, int128 largest) noexcept nogil:
    """Bounds of more values."""
    if not tally.has_bounds or least < tally.least:
        tally.least = least
    if not tally.has_bounds or largest > tally.largest:
        tally.largest = largest
    tally.has_bounds = True


cdef void tally_integers(Tally* tally, const uint8_t* values, Py_ssize_t count, int item_bytes) noexcept nogil:
    """At least one integer, of 1, 2, 4 or 8 bytes."""
    cdef Bounds out
    if item_bytes == 1:
        bound_integers(<const int8_t*> values, count, NULL, &out)
    elif item_bytes == 2:
        bound_integers(<const int16_t*> values, count, NULL, &out)
    elif item_bytes == 4:
        bound_integers(<const int32_t*> values, count, NULL, &out)
    else:
        bound_integers(<const int64_t*> values, count, NULL, &out)
    note(tally, out.least, out.largest)
    tally.total += out.total


cdef void tally_floats(Tally* tally, const uint8_t* values, Py_ssize_t count, int item_bytes) noexcept nogil:
    """Floats of 4 or 8 bytes. Bounds pass over NaN."""
    cdef double* least = &tally.least_float
    cdef double* largest = &tally.largest_float
    if item_bytes == 4:
        bound_floats(<const float*> values, count, NULL, least, largest, &tally.total_float)
    else:
        bound_floats(<const double*> values, count, NULL, least, largest, &tally.total_float)


cdef void tally_decimals(Tally* tally, const uint8_t* values, Py_ssize_t count) noexcept nogil:
    """At least one unscaled number of a 128-bit decimal."""
    cdef int128 least = 0, largest = 0
    bound_decimals(values, count, NULL, &least, &largest, &tally.total, &tally.low)
    note(tally, least, largest)


cdef bint tally_texts(Tally* tally, const TextRows* texts, uint8_t* bounds) noexcept nogil:
    """Texts; whether all are within their buffers."""
    cdef const uint8_t* text = NULL
    cdef const uint8_t* least = NULL
    cdef const uint8_t* largest = NULL
    cdef Py_ssize_t row, length = 0, least_bytes = 0, largest_bytes = 0
    for row in range(texts.count):
        if not text_at(texts, row, &text, &length):
            return False
        tally.total += length
        if row == 0 or is_less(text, length, least, least_bytes):
            least = text
            least_bytes = length
        if row == 0 or is_less(largest, largest_bytes, text, length):
            largest = text
            largest_bytes = length
    if texts.count:
        note_text(tally, least, least_bytes, bounds)
        note_text(tally, largest, largest_bytes, bounds)
    return True


cdef void note_text(Tally* tally, const uint8_t* text, Py_ssize_t length, uint8_t* bounds) noexcept nogil:
    """A text that may be a bound. `bounds` has two places of `MOST_BOUND_BYTES`, for the least and the largest."""
    if not tally.has_bounds or is_less(text, length, bounds, tally.least_bytes):
        tally.least_bytes = min(length, <Py_ssize_t> MOST_BOUND_BYTES)
        memcpy(bounds, text, tally.least_bytes)
    bounds += MOST_BOUND_BYTES
    if not tally.has_bounds or is_less(bounds, tally.largest_bytes, text, length):
        tally.largest_bytes = min(length, <Py_ssize_t> MOST_BOUND_BYTES)
        memcpy(bounds, text, tally.largest_bytes)
    tally.has_bounds = True
