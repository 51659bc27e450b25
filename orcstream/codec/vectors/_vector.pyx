"""Kernels from decoded values to Arrow buffers: nulls spread in, offsets summed, widths narrowed, decimals scaled.

Know buffers and masks; must not know streams or column types. A mask has one byte a row, 1 where there is
a value; None stands for all ones. Every kernel checks that its buffers are as long as the counts it is given say
and works without the GIL. Those that find a bad value answer its row instead of raising, -1 when there is none: the
caller knows the names.
"""

from libc.stdint cimport INT32_MAX, int16_t, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset

from orcstream._buffer cimport Buffer, allocate
from orcstream.codec._utf8 cimport characters, is_ascii
from orcstream.codec.streams._values cimport Values

cdef extern from *:
    ctypedef long long int128 "__int128"


cdef int check(Buffer buffer, Py_ssize_t count, Py_ssize_t item_bytes) except -1:
    if buffer is None or count < 0 or count > buffer.nbytes // item_bytes:
        raise ValueError("a buffer is shorter than its values")
    return 0


cdef Py_ssize_t ones(const uint8_t* mask, Py_ssize_t count) noexcept nogil:
    cdef Py_ssize_t index, total = 0
    for index in range(count):
        total += mask[index]
    return total


cdef const uint8_t* check_values(Buffer values, Buffer mask, Py_ssize_t count, Py_ssize_t item_bytes) except? NULL:
    """The mask's bytes, NULL without one; it has as many rows, and the values are as many as these need."""
    if mask is None:
        check(values, count, item_bytes)
        return NULL
    check(mask, count, 1)
    check(values, ones(mask.ptr, count), item_bytes)
    return mask.ptr


def count_ones(Buffer mask, Py_ssize_t count):
    """How many of the first `count` rows have a value."""
    cdef Py_ssize_t total
    check(mask, count, 1)
    with nogil:
        total = ones(mask.ptr, count)
    return total


def rows_within(Buffer mask, Py_ssize_t count, Py_ssize_t values):
    """The largest number of rows, at most `count`, that need no more than `values` values."""
    cdef Py_ssize_t row = 0, used = 0
    check(mask, count, 1)
    with nogil:
        while row < count:
            used += mask.ptr[row]
            if used > values:
                break
            row += 1
    return row


def merge_masks(Buffer parent, Buffer own, Py_ssize_t count):
    """The mask of a child: `own` has one byte for each row that the parent has."""
    cdef Buffer out = allocate(count)
    cdef Py_ssize_t row, at = 0
    check(parent, count, 1)
    check(own, ones(parent.ptr, count), 1)
    with nogil:
        for row in range(count):
            if parent.ptr[row]:
                out.ptr[row] = own.ptr[at]
                at += 1
            else:
                out.ptr[row] = 0
    return out


def pack_bits(Buffer mask, Py_ssize_t count):
    """An Arrow bitmap of a byte mask."""
    cdef Buffer out = allocate((count + 7) // 8)
    cdef Py_ssize_t index, whole = count // 8, bit
    cdef const uint8_t* at
    cdef int value
    check(mask, count, 1)
    with nogil:
        at = mask.ptr
        for index in range(whole):
            out.ptr[index] = (
                at[0] | at[1] << 1 | at[2] << 2 | at[3] << 3 | at[4] << 4 | at[5] << 5 | at[6] << 6 | at[7] << 7
            )
            at += 8
        if count % 8:
            value = 0
            for bit in range(count % 8):
                value |= at[bit] << bit
            out.ptr[whole] = value
    return out


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


def spread(Buffer values, Buffer mask, Py_ssize_t count, Py_ssize_t item_bytes):
    """`count` rows of `item_bytes` (1, 4, 8 or 16) each, the values in order where the mask has 1, else zeros."""
    cdef Buffer out = allocate(count * item_bytes)
    cdef Py_ssize_t row, at = 0
    check(mask, count, 1)
    check(values, ones(mask.ptr, count), item_bytes)
    with nogil:
        if item_bytes == 8:
            spread_items(<const int64_t*> values.ptr, mask.ptr, <int64_t*> out.ptr, count)
        elif item_bytes == 4:
            spread_items(<const int32_t*> values.ptr, mask.ptr, <int32_t*> out.ptr, count)
        elif item_bytes == 1:
            spread_items(<const uint8_t*> values.ptr, mask.ptr, <uint8_t*> out.ptr, count)
        else:
            for row in range(count):
                if mask.ptr[row]:
                    memcpy(out.ptr + row * item_bytes, values.ptr + at * item_bytes, item_bytes)
                    at += 1
                else:
                    memset(out.ptr + row * item_bytes, 0, item_bytes)
    return out


def narrow(Buffer values, Buffer mask, Py_ssize_t count, Py_ssize_t item_bytes):
    """int64 values cut to rows of 2 or 4 bytes, zeros where the mask has 0.

    Writers store negative values of narrow columns with their low bits only, so what is above the width says nothing.
    """
    cdef Buffer out = allocate(count * item_bytes)
    cdef const uint8_t* present = check_values(values, mask, count, 8)
    cdef const int64_t* source
    with nogil:
        source = <const int64_t*> values.ptr
        if item_bytes == 4:
            spread_items(source, present, <int32_t*> out.ptr, count)
        else:
            spread_items(source, present, <int16_t*> out.ptr, count)
    return out


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


def fit_lengths(Values lengths, Buffer mask, Py_ssize_t count, Py_ssize_t limit):
    """How many of the first `count` rows fit: their pending lengths sum up to at most `limit`.

    Answers (rows, sum of their lengths, row of a negative length or -1).
    """
    cdef Py_ssize_t row = 0, at = 0, total = 0, bad = -1, pending = lengths.stop - lengths.start
    cdef const int64_t* values
    cdef int64_t value
    cdef const uint8_t* present = NULL
    if mask is not None:
        check(mask, count, 1)
        present = mask.ptr
    values = <const int64_t*> lengths.pending() if lengths.buffer is not None else NULL
    with nogil:
        if plain_sum(values, present, count, pending, limit, &total):
            row = count
        while row < count:
            if present == NULL or present[row]:
                if at >= pending:
                    break
                value = values[at]
                if value < 0:
                    bad = row
                    break
                if value > limit - total:
                    break
                total += value
                at += 1
            row += 1
    return row, total, bad


def offsets_of(Buffer lengths, Buffer mask, Py_ssize_t count):
    """Arrow offsets (`count` + 1 of int32) of non-negative lengths, whose sum fits 31 bits."""
    cdef Buffer out = allocate((count + 1) * 4)
    cdef int32_t* offsets = <int32_t*> out.ptr
    cdef const int64_t* values
    cdef Py_ssize_t row, at = 0
    cdef int64_t total = 0
    cdef uint64_t wide = 0
    check_values(lengths, mask, count, 8)
    with nogil:
        values = <const int64_t*> lengths.ptr
        offsets[0] = 0
        if mask is None:
            for row in range(count):
                wide |= <uint64_t> values[row]
                total += values[row]
                offsets[row + 1] = <int32_t> total
        else:
            for row in range(count):
                if mask.ptr[row]:
                    wide |= <uint64_t> values[at]
                    total += values[at]
                    at += 1
                offsets[row + 1] = <int32_t> total
    # While no length has more than 31 bits, 64 bits hold the sum of all.
    if wide > INT32_MAX or total > INT32_MAX:
        raise ValueError("lengths sum up to more than 31 bits")
    return out


def last_offset(Buffer offsets, Py_ssize_t count):
    """The end of row `count` - 1."""
    check(offsets, count + 1, 4)
    return (<int32_t*> offsets.ptr)[count]


def count_up(Buffer mask, Py_ssize_t count):
    """Each row's place among those that have a value, as int32; 0 where the mask has 0."""
    cdef Buffer out = allocate(count * 4)
    cdef Py_ssize_t row
    cdef int32_t at = 0
    if mask is not None:
        check(mask, count, 1)
    with nogil:
        for row in range(count):
            if mask is None or mask.ptr[row]:
                (<int32_t*> out.ptr)[row] = at
                at += 1
            else:
                (<int32_t*> out.ptr)[row] = 0
    return out


def fit_entries(Values indexes, Buffer mask, Py_ssize_t count, Buffer offsets, Py_ssize_t size, Py_ssize_t limit):
    """How many of the first `count` rows fit: their dictionary entries are at most `limit` bytes together.

    Answers (rows, bytes, row of an index beyond the dictionary's `size` entries or -1).
    """
    cdef Py_ssize_t row = 0, at = 0, total = 0, bad = -1, pending = indexes.stop - indexes.start
    cdef const int64_t* values
    cdef const int32_t* starts
    cdef const uint8_t* present = NULL
    cdef Py_ssize_t length
    check(offsets, size + 1, 4)
    if mask is not None:
        check(mask, count, 1)
        present = mask.ptr
    values = <const int64_t*> indexes.pending() if indexes.buffer is not None else NULL
    with nogil:
        starts = <const int32_t*> offsets.ptr
        while row < count:
            if present == NULL or present[row]:
                if at >= pending:
                    break
                if <uint64_t> values[at] >= <uint64_t> size:
                    bad = row
                    break
                length = starts[values[at] + 1] - starts[values[at]]
                if length > limit - total:
                    break
                total += length
                at += 1
            row += 1
    return row, total, bad


def gather_entries(Buffer indexes, Buffer mask, Py_ssize_t count, Buffer offsets, Buffer data, Py_ssize_t total):
    """Dictionary entries row by row: (offsets, bytes). The indexes were checked by `fit_entries`, which gave `total`."""
    cdef Buffer out_offsets = allocate((count + 1) * 4)
    cdef Buffer out = allocate(total)
    cdef int32_t* ends = <int32_t*> out_offsets.ptr
    cdef const int64_t* values
    cdef const int32_t* starts
    cdef Py_ssize_t row, at = 0, position = 0, length, start
    check_values(indexes, mask, count, 8)
    with nogil:
        values = <const int64_t*> indexes.ptr
        starts = <const int32_t*> offsets.ptr
        ends[0] = 0
        for row in range(count):
            if mask is None or mask.ptr[row]:
                start = starts[values[at]]
                length = starts[values[at] + 1] - start
                at += 1
                if length <= 16:
                    # Short entries are the rule; blocks have slack behind them, so 16 bytes may be moved.
                    memcpy(out.ptr + position, data.ptr + start, 16)
                else:
                    memcpy(out.ptr + position, data.ptr + start, length)
                position += length
            ends[row + 1] = <int32_t> position
    return out_offsets, out


def invalid_utf8(Buffer offsets, Py_ssize_t count, Buffer data):
    """The first of `count` strings that is no UTF-8, or -1."""
    cdef const int32_t* ends
    cdef Py_ssize_t row, bad = -1, size
    check(offsets, count + 1, 4)
    ends = <const int32_t*> offsets.ptr
    size = ends[count]
    check(data, size, 1)
    with nogil:
        if not is_ascii(data.ptr, size):
            for row in range(count):
                if characters(data.ptr + ends[row], ends[row + 1] - ends[row]) < 0:
                    bad = row
                    break
    return bad


def union_children(Buffer tags, Buffer mask, Py_ssize_t count, Py_ssize_t child_count):
    """Type ids and offsets of a dense union, how many rows each child has, and child 0's mask.

    A null union becomes a null in child 0, since an Arrow union has no validity. Answers (type ids, offsets,
    counts, mask of child 0 or None, row of a tag out of range or -1).
    """
    cdef Buffer types = allocate(count)
    cdef Buffer offsets = allocate(count * 4)
    cdef Buffer first = allocate(count)
    cdef int32_t[256] used
    cdef Py_ssize_t row, at = 0, bad = -1
    cdef int tag
    cdef bint any_null = False
    check_values(tags, mask, count, 1)
    with nogil:
        memset(used, 0, sizeof(used))
        for row in range(count):
            if mask is None or mask.ptr[row]:
                tag = tags.ptr[at]
                at += 1
                if tag >= child_count or tag > 127:
                    bad = row
                    break
                if tag == 0:
                    first.ptr[used[0]] = 1
            else:
                tag = 0
                first.ptr[used[0]] = 0
                any_null = True
            types.ptr[row] = tag
            (<int32_t*> offsets.ptr)[row] = used[tag]
            used[tag] += 1
    counts = [used[tag] for tag in range(child_count)]
    return types, offsets, counts, first if any_null else None, bad


def rows_of_union(Buffer types, Buffer offsets, Py_ssize_t count, list available):
    """The largest number of rows, at most `count`, whose children are among the `available` ones."""
    cdef int32_t[256] limits
    cdef Py_ssize_t row = 0
    cdef int tag
    check(types, count, 1)
    check(offsets, count, 4)
    for tag in range(len(available)):
        limits[tag] = min(available[tag], INT32_MAX)
    with nogil:
        while row < count and (<int32_t*> offsets.ptr)[row] < limits[types.ptr[row]]:
            row += 1
    return row


# --- decimals --------------------------------------------------------------------------------------

cdef int128[39] POWERS
cdef int _power
POWERS[0] = 1
for _power in range(1, 39):
    POWERS[_power] = POWERS[_power - 1] * 10


cdef bint is_plain(
    const int64_t* words, const int64_t* scales, Py_ssize_t count, int scale, int64_t limit
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
    for index in range(count):
        low = words[2 * index]
        odd |= <uint64_t> (words[2 * index + 1] ^ (low >> 63))
        odd |= <uint64_t> (low > limit) | <uint64_t> (low < -limit)
    return odd == 0


def decimals(Buffer values, Buffer scales, Py_ssize_t count, int scale, int precision):
    """Decimals brought to `scale`, in place; digits beyond the scale are cut off, as ORC C++ does.

    `scales` holds each value's own scale as int64, or is None when all have the type's. Answers the index of the
    first value of more than `precision` digits or of a scale that is none, or -1.
    """
    cdef int128* items
    cdef const int64_t* stored
    cdef int128 value, factor
    cdef int128 limit
    cdef Py_ssize_t index, bad = -1
    cdef int64_t shift
    check(values, count, 16)
    if scales is not None:
        check(scales, count, 8)
    if precision < 1 or precision > 38:
        raise ValueError("a precision is 1 to 38")
    limit = POWERS[precision] - 1
    with nogil:
        items = <int128*> values.ptr
        stored = <const int64_t*> scales.ptr if scales is not None else NULL
        if precision <= 18 and is_plain(<const int64_t*> values.ptr, stored, count, scale, <int64_t> limit):
            count = 0
        for index in range(count):
            value = items[index]
            if stored != NULL and stored[index] != scale:
                if stored[index] < -38 or stored[index] > 76:
                    bad = index
                    break
                shift = scale - stored[index]
                if shift > 38:
                    if value != 0:
                        bad = index
                        break
                elif shift > 0:
                    factor = POWERS[shift]
                    if value > limit // factor or value < -(limit // factor):
                        bad = index
                        break
                    value *= factor
                elif shift < -38:
                    value = 0
                else:
                    value = value // POWERS[-shift]
                items[index] = value
            if value > limit or value < -limit:
                bad = index
                break
    return bad


def widen(Buffer values, Py_ssize_t count):
    """int64 values as pairs of words: the decimal64 form's integers as Arrow's decimal128."""
    cdef Buffer out
    cdef const int64_t* source
    cdef int128* target
    cdef Py_ssize_t index
    check(values, count, 8)
    out = allocate(count * 16)
    with nogil:
        source = <const int64_t*> values.ptr
        target = <int128*> out.ptr
        for index in range(count):
            target[index] = source[index]
    return out
