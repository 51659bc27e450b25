"""Kernels that check and repack what users hand in: texts, views of texts, decimals of any width.

Know Arrow's layout of these and nothing of types, fields or vectors. Masks have one byte a row; rows with 0 are not
looked at. Each answers the first row that does not fit, or -1, and proves every length before it follows it: the
memory is another library's. Loops run without the GIL.
"""

from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from orcstream._buffer cimport Buffer, allocate
from orcstream.codec.convert._convert cimport int128, power_of_ten
from orcstream.codec._memory cimport View, mask_of, rows_of, view_of
from orcstream.codec._utf8 cimport characters, is_ascii

cdef extern from *:
    """
    typedef unsigned __int128 orc_uint128;
    /* Divides a number of four words, low first, by a word; answers the rest. */
    static uint64_t orc_divide(uint64_t* words, uint64_t divisor) {
        orc_uint128 rest = 0;
        int i;
        for (i = 3; i >= 0; i--) {
            rest = (rest << 64) | words[i];
            words[i] = (uint64_t) (rest / divisor);
            rest %= divisor;
        }
        return (uint64_t) rest;
    }
    static void orc_negate(uint64_t* words) {
        int i, carry = 1;
        for (i = 0; i < 4; i++) { words[i] = ~words[i] + carry; carry = carry && words[i] == 0; }
    }
    """
    uint64_t divide "orc_divide"(uint64_t* words, uint64_t divisor) noexcept nogil
    void negate "orc_negate"(uint64_t* words) noexcept nogil

cdef enum:
    MOST_DIGITS = 38
    INLINE_BYTES = 12  # of a view that holds its text itself


def check_texts(offsets, data, Py_ssize_t count, mask, Py_ssize_t most, bint trim):
    """The first text that is no UTF-8, and the first of more than `most` characters (any where it is negative).

    Blanks at the end count only without `trim`. Answers (row, row, whether a text has to be cut to fit), -1 for none.
    """
    cdef View ends_view = view_of(offsets, count + 1, 4), held = mask_of(mask, count), view
    cdef const uint8_t* valid = held.ptr
    cdef const int32_t* ends = <const int32_t*> ends_view.ptr
    cdef Py_ssize_t row, size, found, invalid = -1, too_long = -1
    cdef const uint8_t* text
    cdef bint plain, cut = False
    view = view_of(data, ends[count], 1)
    with nogil:
        if count and ends[count] > ends[0]:
            plain = is_ascii(view.ptr + ends[0], ends[count] - ends[0])
            for row in range(0 if plain and most < 0 else count):
                size = ends[row + 1] - ends[row]
                text = view.ptr + ends[row]
                if valid != NULL and not valid[row]:
                    continue
                found = size if plain else characters(text, size)
                if found < 0:
                    invalid = row
                    break
                if most < 0 or found <= most:
                    continue
                while trim and size and text[size - 1] == c" ":
                    size -= 1
                    found -= 1
                if found > most:
                    too_long = row
                    break
                cut = True
    return invalid, too_long, cut


def texts_of_views(views, Py_ssize_t start, Py_ssize_t count, mask, tuple data):
    """The texts that views from `start` on point to, one after the other.

    Answers (offsets, bytes, -1), (None, None, row) for a view that points out of its buffers; OverflowError beyond 31 bits.
    """
    cdef View view = rows_of(views, start, count, 16), held = mask_of(mask, count), part
    cdef list held_parts = []
    cdef const uint8_t* valid = held.ptr
    cdef const uint8_t* at = view.ptr
    cdef const uint8_t* text
    cdef Buffer starts = allocate((len(data) + 1) * 8), sizes = allocate((len(data) + 1) * 8)
    cdef Buffer offsets = allocate((count + 1) * 4), out
    cdef int32_t* ends = <int32_t*> offsets.ptr
    cdef int32_t[4] words
    cdef int64_t total = 0
    cdef Py_ssize_t row, bad = -1, i, parts = len(data)
    for i in range(parts):
        part = view_of(data[i], 0, 1)
        held_parts.append(part)
        (<const uint8_t**> starts.ptr)[i] = part.ptr
        (<int64_t*> sizes.ptr)[i] = part.nbytes
    ends[0] = 0
    with nogil:
        for row in range(count):
            if valid == NULL or valid[row]:
                memcpy(words, at + 16 * row, 16)
                if words[0] < 0:
                    bad = row
                elif words[0] > INLINE_BYTES:
                    if words[2] < 0 or words[2] >= parts or words[3] < 0:
                        bad = row
                    elif <int64_t> words[3] + words[0] > (<int64_t*> sizes.ptr)[words[2]]:
                        bad = row
                if bad >= 0:
                    break
                total += words[0]
                if total > INT32_MAX:
                    break
            ends[row + 1] = <int32_t> total
    if bad >= 0:
        return None, None, bad
    if total > INT32_MAX:
        raise OverflowError("texts of more than 31 bits")
    out = allocate(total)
    with nogil:
        for row in range(count):
            if ends[row + 1] > ends[row]:
                memcpy(words, at + 16 * row, 16)
                if words[0] > INLINE_BYTES:
                    text = (<const uint8_t**> starts.ptr)[words[2]] + words[3]
                else:
                    text = at + 16 * row + 4
                # The view may have been changed since: what was counted is what is copied.
                memcpy(out.ptr + ends[row], text, ends[row + 1] - ends[row])
    return offsets, out, -1


def fit_decimals(values, Py_ssize_t start, Py_ssize_t count, int width, mask, int from_scale, int precision, int scale):
    """Decimals of `width` bytes (4, 8, 16, 32) from `start` on as 16 bytes of another scale, none of them rounded.

    Answers (values, -1), or (None, row) for one that has digits beyond the scale, or more than `precision` of them.
    """
    cdef View view = rows_of(values, start, count, width), held = mask_of(mask, count)
    cdef const uint8_t* valid = held.ptr
    cdef const uint8_t* at = view.ptr
    cdef Buffer out = allocate(count * 16)
    cdef Py_ssize_t row, bad = -1
    cdef int128 found
    if not 0 < precision <= MOST_DIGITS:
        raise ValueError("precision")
    with nogil:
        for row in range(count):
            found = 0
            if (valid == NULL or valid[row]) and not fit(at + row * width, width, scale - from_scale, precision, &found):
                bad = row
                break
            memcpy(out.ptr + 16 * row, &found, 16)
    return (None, bad) if bad >= 0 else (out, -1)


cdef bint fit(const uint8_t* at, int width, int up, int precision, int128* out) noexcept nogil:
    """One decimal, multiplied by 10^up; False where that has more digits than `precision`, or a fraction."""
    cdef uint64_t[4] words
    cdef uint64_t sign = 0
    cdef int32_t small
    cdef int128 value
    cdef int step
    if width == 4:
        memcpy(&small, at, 4)
        words[0] = <uint64_t> <int64_t> small
        sign = words[0] >> 63
    else:
        memcpy(words, at, width)
        sign = words[width // 8 - 1] >> 63
    for step in range(1 if width < 16 else width // 8, 4):
        words[step] = -sign
    if sign:
        negate(words)
    while up < 0:
        if not (words[0] | words[1] | words[2] | words[3]):
            up = 0
            break
        step = min(-up, 18)
        if divide(words, <uint64_t> power_of_ten(step)):
            return False
        up += step
    if words[2] | words[3] or words[1] >> 63:
        return False
    value = (<int128> words[1] << 64) | <int128> words[0]
    if value and up:
        if up >= precision or value >= power_of_ten(precision - up):
            return False
        value *= power_of_ten(up)
    elif value >= power_of_ten(precision):
        return False
    out[0] = -value if sign else value
    return True
