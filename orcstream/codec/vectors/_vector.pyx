"""Kernels from decoded values to Arrow buffers: nulls spread in, offsets summed, widths narrowed, decimals scaled.

Know memory and masks; must not know streams or column types. A mask has one byte a row, 1 where there is
a value; NULL, or None, stands for all ones. None takes the interpreter's lock; who calls them has made sure that values, masks
and memory are as long as the counts say: so many values as the mask has ones are read, so many rows written, and up to
`SLACK` bytes more of either may be touched, which blocks have (`_buffer`). Those that find a bad value answer its row
instead of raising, -1 when there is none: the caller knows the names.
"""

from libc.stdint cimport INT32_MAX, int16_t, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset

from orcstream._buffer cimport Buffer, allocate
from orcstream.codec cimport _simd
from orcstream.codec._simd cimport check_decimals, sum_lengths
from orcstream.codec._utf8 cimport characters, is_ascii


_simd.use_simd(True)


def use_simd(bint wanted):
    """Use what the processor has for many values at a time, or do without; answers whether it is used."""
    return bool(_simd.use_simd(wanted))


cdef int check(Buffer buffer, Py_ssize_t count, Py_ssize_t item_bytes) except -1:
    if buffer is None or count < 0 or count > buffer.nbytes // item_bytes:
        raise ValueError("a buffer is shorter than its values")
    return 0


cdef Py_ssize_t ones(const uint8_t* mask, Py_ssize_t count) noexcept nogil:
    cdef Py_ssize_t index, total = 0
    for index in range(count):
        total += mask[index]
    return total


def count_ones(Buffer mask, Py_ssize_t count):
    """How many of the first `count` rows have a value."""
    cdef Py_ssize_t total
    check(mask, count, 1)
    with nogil:
        total = ones(mask.ptr, count)
    return total


def pack_bits(Buffer mask, Py_ssize_t count):
    """An Arrow bitmap of a byte mask."""
    cdef Buffer out = allocate((count + 7) // 8)
    check(mask, count, 1)
    with nogil:
        pack(mask.ptr, count, out.ptr)
    return out


def count_up(Buffer mask, Py_ssize_t count):
    """Each row's place among those that have a value, as int32; 0 where the mask has 0."""
    cdef Buffer out = allocate(count * 4)
    if mask is not None:
        check(mask, count, 1)
    with nogil:
        number(mask.ptr if mask is not None else NULL, count, <int32_t*> out.ptr)
    return out


cdef Py_ssize_t rows_within(const uint8_t* mask, Py_ssize_t count, Py_ssize_t values) noexcept nogil:
    """The largest number of rows, at most `count`, that need no more than `values` values."""
    cdef Py_ssize_t row = 0, used = 0
    while row < count:
        used += mask[row]
        if used > values:
            break
        row += 1
    return row


cdef void merge_masks(
    const uint8_t* parent, const uint8_t* own, uint8_t* out, Py_ssize_t count
) noexcept nogil:
    """The mask of a child: `own` has one byte for each row that the parent has."""
    cdef Py_ssize_t row, at = 0
    for row in range(count):
        if parent[row]:
            out[row] = own[at]
            at += 1
        else:
            out[row] = 0


cdef void pack(const uint8_t* mask, Py_ssize_t count, uint8_t* out) noexcept nogil:
    """An Arrow bitmap of a byte mask."""
    cdef Py_ssize_t index, whole = count // 8, bit
    cdef const uint8_t* at = mask
    cdef int value
    for index in range(whole):
        out[index] = (
            at[0] | at[1] << 1 | at[2] << 2 | at[3] << 3 | at[4] << 4 | at[5] << 5 | at[6] << 6 | at[7] << 7
        )
        at += 8
    if count % 8:
        value = 0
        for bit in range(count % 8):
            value |= at[bit] << bit
        out[whole] = value


ctypedef fused source_t:
    uint8_t
    int32_t
    int64_t

ctypedef fused target_t:
    uint8_t
    int16_t
    int32_t
    int64_t


cdef void spread_items(
    const source_t* values, const uint8_t* mask, target_t* out, Py_ssize_t count
) noexcept nogil:
    cdef Py_ssize_t row, at = 0
    cdef target_t value
    if mask == NULL:
        for row in range(count):
            out[row] = <target_t> values[row]
        return
    # Without branches. Behind the last value are the block's spare bytes, so one may be read too many.
    for row in range(count):
        value = <target_t> values[at]
        out[row] = value if mask[row] else 0
        at += mask[row]


cdef void spread(
    const uint8_t* values, const uint8_t* mask, uint8_t* out, Py_ssize_t count, Py_ssize_t item_bytes
) noexcept nogil:
    """`count` rows of `item_bytes` (1, 4, 8 or 16) each, the values in order where the mask has 1, else zeros."""
    cdef Py_ssize_t row, at = 0
    if item_bytes == 8:
        spread_items(<const int64_t*> values, mask, <int64_t*> out, count)
    elif item_bytes == 4:
        spread_items(<const int32_t*> values, mask, <int32_t*> out, count)
    elif item_bytes == 1:
        spread_items(values, mask, out, count)
    else:
        for row in range(count):
            if mask[row]:
                memcpy(out + row * item_bytes, values + at * item_bytes, item_bytes)
                at += 1
            else:
                memset(out + row * item_bytes, 0, item_bytes)


cdef void narrow(
    const int64_t* values, const uint8_t* mask, uint8_t* out, Py_ssize_t count, Py_ssize_t item_bytes
) noexcept nogil:
    """int64 values cut to rows of 2 or 4 bytes, zeros where the mask has 0.

    Writers store negative values of narrow columns with their low bits only, so what is above the width says nothing.
    """
    if item_bytes == 4:
        spread_items(values, mask, <int32_t*> out, count)
    else:
        spread_items(values, mask, <int16_t*> out, count)


cdef bint plain_sum(
    const int64_t* values,
    const uint8_t* present,
    Py_ssize_t count,
    Py_ssize_t pending,
    Py_ssize_t limit,
    Py_ssize_t* total,
) noexcept nogil:
    """Whether all rows fit, as they nearly always do; their sum, without a branch for each."""
    cdef Py_ssize_t index, wanted = count if present == NULL else ones(present, count)
    cdef uint64_t bits = 0, summed = 0
    if limit < 0 or wanted > pending or wanted >= 1 << 22:
        return False
    for index in range(wanted):
        bits |= <uint64_t> values[index]
        summed += <uint64_t> values[index]
    # Below 2^40 each, so their sum cannot have wrapped.
    if bits >> 40 or summed > <uint64_t> limit:
        return False
    total[0] = <Py_ssize_t> summed
    return True


cdef Py_ssize_t fit_lengths(
    const int64_t* values,
    Py_ssize_t pending,
    const uint8_t* mask,
    Py_ssize_t count,
    Py_ssize_t limit,
    Py_ssize_t* total,
    Py_ssize_t* bad,
) noexcept nogil:
    """How many of the first `count` rows fit: their lengths, of the `pending` ones, sum up to at most `limit`.

    Answers the rows; the sum of their lengths, and the row of a negative length or -1, in `total` and `bad`.
    """
    cdef Py_ssize_t row = 0, at = 0, summed = 0
    cdef int64_t value
    bad[0] = -1
    if plain_sum(values, mask, count, pending, limit, total):
        return count
    while row < count:
        if mask == NULL or mask[row]:
            if at >= pending:
                break
            value = values[at]
            if value < 0:
                bad[0] = row
                break
            if value > limit - summed:
                break
            summed += value
            at += 1
        row += 1
    total[0] = summed
    return row


cdef Py_ssize_t sum_up(
    const int64_t* lengths, const uint8_t* mask, Py_ssize_t count, int32_t* offsets
) noexcept nogil:
    """Arrow offsets (`count` + 1 of int32) of lengths; answers the last, -1 where that is beyond 31 bits.

    While no length has more than 31 bits, 64 bits hold the sum of all.
    """
    cdef Py_ssize_t row, at = 0
    cdef int64_t total = 0
    cdef uint64_t wide = 0
    offsets[0] = 0
    if mask == NULL:
        for row in range(sum_lengths(lengths, count, offsets + 1, &total, &wide), count):
            wide |= <uint64_t> lengths[row]
            total += lengths[row]
            offsets[row + 1] = <int32_t> total
    else:
        for row in range(count):
            if mask[row]:
                wide |= <uint64_t> lengths[at]
                total += lengths[at]
                at += 1
            offsets[row + 1] = <int32_t> total
    return -1 if wide > INT32_MAX or total > INT32_MAX else total


cdef void number(const uint8_t* mask, Py_ssize_t count, int32_t* out) noexcept nogil:
    """Each row's place among those that have a value; 0 where the mask has 0."""
    cdef Py_ssize_t row
    cdef int32_t at = 0
    for row in range(count):
        if mask == NULL or mask[row]:
            out[row] = at
            at += 1
        else:
            out[row] = 0


cdef Py_ssize_t fit_entries(
    const int64_t* values,
    Py_ssize_t pending,
    const uint8_t* mask,
    Py_ssize_t count,
    const int32_t* starts,
    Py_ssize_t size,
    Py_ssize_t limit,
    Py_ssize_t* total,
    Py_ssize_t* bad,
) noexcept nogil:
    """How many of the first `count` rows fit: their dictionary entries are at most `limit` bytes together.

    Answers the rows; their bytes, and the row of an index beyond the dictionary's `size` entries or -1, in `total` and
    `bad`.
    """
    cdef Py_ssize_t row = 0, at = 0, summed = 0, length
    bad[0] = -1
    while row < count:
        if mask == NULL or mask[row]:
            if at >= pending:
                break
            if <uint64_t> values[at] >= <uint64_t> size:
                bad[0] = row
                break
            length = starts[values[at] + 1] - starts[values[at]]
            if length > limit - summed:
                break
            summed += length
            at += 1
        row += 1
    total[0] = summed
    return row


cdef void gather_entries(
    const int64_t* values,
    const uint8_t* mask,
    Py_ssize_t count,
    const int32_t* starts,
    const uint8_t* data,
    int32_t* ends,
    uint8_t* out,
) noexcept nogil:
    """Dictionary entries row by row: offsets and bytes. The indexes were checked by `fit_entries`, which gave the room."""
    cdef Py_ssize_t row, at = 0, position = 0, length, start
    ends[0] = 0
    for row in range(count):
        if mask == NULL or mask[row]:
            start = starts[values[at]]
            length = starts[values[at] + 1] - start
            at += 1
            if length <= 16:
                # Short entries are the rule; blocks have slack behind them, so 16 bytes may be moved.
                memcpy(out + position, data + start, 16)
            else:
                memcpy(out + position, data + start, length)
            position += length
        ends[row + 1] = <int32_t> position


cdef Py_ssize_t invalid_utf8(const int32_t* ends, Py_ssize_t count, const uint8_t* data) noexcept nogil:
    """The first of `count` strings that is no UTF-8, or -1."""
    cdef Py_ssize_t row
    if is_ascii(data, ends[count]):
        return -1
    for row in range(count):
        if characters(data + ends[row], ends[row + 1] - ends[row]) < 0:
            return row
    return -1


cdef Py_ssize_t union_children(
    const uint8_t* tags,
    const uint8_t* mask,
    Py_ssize_t count,
    int child_count,
    uint8_t* types,
    int32_t* offsets,
    uint8_t* first,
    int32_t* used,
    bint* any_null,
) noexcept nogil:
    """Type ids and offsets of a dense union, how many rows each child has, and child 0's mask.

    A null union becomes a null in child 0, since an Arrow union has no validity. `used` has a count for each of 256
    tags. Answers the row of a tag out of range or -1.
    """
    cdef Py_ssize_t row, at = 0
    cdef int tag
    any_null[0] = False
    memset(used, 0, 256 * sizeof(int32_t))
    for row in range(count):
        if mask == NULL or mask[row]:
            tag = tags[at]
            at += 1
            if tag >= child_count or tag > 127:
                return row
            if tag == 0:
                first[used[0]] = 1
        else:
            tag = 0
            first[used[0]] = 0
            any_null[0] = True
        types[row] = tag
        offsets[row] = used[tag]
        used[tag] += 1
    return -1


cdef Py_ssize_t rows_of_union(
    const uint8_t* types, const int32_t* offsets, Py_ssize_t count, const int32_t* limits
) noexcept nogil:
    """The largest number of rows, at most `count`, whose children are among those that there are of each tag."""
    cdef Py_ssize_t row = 0
    while row < count and offsets[row] < limits[types[row]]:
        row += 1
    return row


# --- decimals --------------------------------------------------------------------------------------

cdef int128[39] POWERS
cdef int _power
POWERS[0] = 1
for _power in range(1, 39):
    POWERS[_power] = POWERS[_power - 1] * 10


cdef bint is_plain(
    const int64_t* words, const int64_t* scales, Py_ssize_t count, int scale, int64_t limit, uint64_t any
) noexcept nogil:
    """Whether all values have the scale already and fit; without branches, since nearly all columns are so."""
    cdef Py_ssize_t index
    cdef uint64_t odd = 0
    cdef int64_t low
    if scales != NULL:
        for index in range(count):
            odd |= <uint64_t> (scales[index] ^ scale)
        if odd:
            return False
    if any < <uint64_t> limit:
        return True
    for index in range(check_decimals(words, count, limit, &odd), count):
        low = words[2 * index]
        odd |= <uint64_t> (words[2 * index + 1] ^ (low >> 63))
        odd |= <uint64_t> (low > limit) | <uint64_t> (low < -limit)
    return odd == 0


cdef Py_ssize_t rescale(
    int128* items, const int64_t* scales, Py_ssize_t count, int scale, int precision, uint64_t any
) noexcept nogil:
    """Decimals brought to `scale`, in place; digits beyond the scale are cut off, as ORC C++ does.

    `scales` holds each value's own scale, or is NULL when all have the type's. `precision` is 1 to 38. `any` are
    the bits of all values, n for -n - 1; all where they are not known. Answers the index of the first value of more than
    `precision` digits or of a scale that is none, or -1.
    """
    cdef int128 value, factor, limit = POWERS[precision] - 1
    cdef Py_ssize_t index
    cdef int64_t shift
    if precision <= 18 and is_plain(<const int64_t*> items, scales, count, scale, <int64_t> limit, any):
        return -1
    for index in range(count):
        value = items[index]
        if scales != NULL and scales[index] != scale:
            if scales[index] < -38 or scales[index] > 76:
                return index
            shift = scale - scales[index]
            if shift > 38:
                if value != 0:
                    return index
            elif shift > 0:
                factor = POWERS[shift]
                if value > limit // factor or value < -(limit // factor):
                    return index
                value *= factor
            elif shift < -38:
                value = 0
            else:
                value = value // POWERS[-shift]
            items[index] = value
        if value > limit or value < -limit:
            return index
    return -1


cdef void widen(const int64_t* values, Py_ssize_t count, int128* out) noexcept nogil:
    """int64 values as pairs of words: the decimal64 form's integers as Arrow's decimal128."""
    cdef Py_ssize_t index
    for index in range(count):
        out[index] = values[index]


def decimals(Buffer values, Buffer scales, Py_ssize_t count, int scale, int precision):
    """`rescale` of so many values; `scales` are int64, or None."""
    check(values, count, 16)
    if scales is not None:
        check(scales, count, 8)
    if precision < 1 or precision > 38:
        raise ValueError("a precision is 1 to 38")
    cdef const int64_t* stored = NULL
    if scales is not None:
        stored = <const int64_t*> scales.ptr
    return rescale(<int128*> values.ptr, stored, count, scale, precision, ~(<uint64_t> 0))
