"""Kernels that bring the selected values of vectors together.

Know the Arrow layout of each kind of buffer; must not know types, fields or predicates. Selections are trusted, so
kernels check only that buffers hold `rows` values from `base` on. Offsets inside of buffers are checked where they are
followed. All work without the GIL.
"""

from libc.stdint cimport INT32_MAX, int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from orcstream._buffer cimport Buffer, allocate
from orcstream.codec._memory cimport View, view_of
from orcstream.codec.vectors._selection cimport RUN_ROWS, Selection, Steps, length_of, made, of_positions, steps_of

cdef extern from *:
    """
    #define ORC_LOW_BITS 0x0101010101010101ull
    """
    uint64_t LOW_BITS "ORC_LOW_BITS"

cdef int fits(Buffer out, Py_ssize_t at, Py_ssize_t count, Py_ssize_t item_bytes) except -1:
    if out is None or at < 0 or at > out.nbytes // item_bytes or count > out.nbytes // item_bytes - at:
        raise ValueError("a buffer is too short for what is selected")
    return 0


cdef int at_least_zero(Py_ssize_t base) except -1:
    if base < 0:
        raise ValueError("a negative offset")
    return 0


ctypedef fused item_t:
    int8_t
    int16_t
    int32_t
    int64_t


cdef void pick(const item_t* source, const int32_t* positions, Py_ssize_t count, item_t* out) noexcept nogil:
    cdef Py_ssize_t index
    for index in range(count):
        out[index] = source[positions[index]]


def gather_fixed(Buffer out, Py_ssize_t at, source, Py_ssize_t base, Selection selection not None, Py_ssize_t item_bytes):
    """The selected ones of the items from `base` on, of 1, 2, 4, 8 or 16 bytes, as items `at` and on of `out`."""
    cdef View view
    cdef const uint8_t* items
    cdef uint8_t* target
    cdef const int32_t* chosen
    cdef Py_ssize_t index, size
    if item_bytes not in (1, 2, 4, 8, 16):
        raise ValueError("no such width")
    at_least_zero(base)
    view = view_of(source, base + selection.rows, item_bytes)
    fits(out, at, selection.count, item_bytes)
    with nogil:
        items = view.ptr + base * item_bytes
        target = out.ptr + at * item_bytes
        if selection.positions is None:
            chosen = <const int32_t*> selection.runs.ptr
            for index in range(selection.run_count):
                size = chosen[2 * index + 1] * item_bytes
                memcpy(target, items + chosen[2 * index] * item_bytes, size)
                target += size
        else:
            chosen = <const int32_t*> selection.positions.ptr
            if item_bytes == 1:
                pick(<const int8_t*> items, chosen, selection.count, <int8_t*> target)
            elif item_bytes == 2:
                pick(<const int16_t*> items, chosen, selection.count, <int16_t*> target)
            elif item_bytes == 4:
                pick(<const int32_t*> items, chosen, selection.count, <int32_t*> target)
            elif item_bytes == 8:
                pick(<const int64_t*> items, chosen, selection.count, <int64_t*> target)
            else:
                for index in range(selection.count):
                    memcpy(target + index * 16, items + <Py_ssize_t> chosen[index] * 16, 16)


def add_to(Buffer items, Py_ssize_t at, Py_ssize_t count, int32_t shift):
    """Adds to int32 items in place; what overflows wraps (indexes of nulls may be anything)."""
    cdef uint32_t* numbers
    cdef Py_ssize_t index
    fits(items, at, count, 4)
    with nogil:
        numbers = <uint32_t*> items.ptr + at
        for index in range(count):
            numbers[index] += <uint32_t> shift


def fill(Buffer out, Py_ssize_t at, Py_ssize_t count):
    """Ones as bytes `at` and on."""
    fits(out, at, count, 1)
    memset(out.ptr + at, 1, count)


cdef inline uint64_t spread_byte(uint64_t byte) noexcept nogil:
    """Eight bits as eight bytes, lowest first."""
    return (((byte * LOW_BITS & 0x8040201008040201u) + 0x7F7F7F7F7F7F7F7Fu) >> 7) & LOW_BITS


def gather_bits(Buffer out, Py_ssize_t at, source, Py_ssize_t base, Selection selection not None):
    """The selected ones of a bitmap's bits from bit `base` on, as bytes `at` and on of `out`."""
    cdef View view
    cdef uint8_t* target
    cdef const int32_t* chosen
    cdef Py_ssize_t index, bit, stop
    cdef uint64_t word
    at_least_zero(base)
    view = view_of(source, (base + selection.rows + 7) // 8, 1)
    fits(out, at, selection.count, 1)
    with nogil:
        target = out.ptr + at
        if selection.positions is not None:
            chosen = <const int32_t*> selection.positions.ptr
            for index in range(selection.count):
                bit = base + chosen[index]
                target[index] = view.ptr[bit >> 3] >> (bit & 7) & 1
        else:
            chosen = <const int32_t*> selection.runs.ptr
            for index in range(selection.run_count):
                bit = base + chosen[2 * index]
                stop = bit + chosen[2 * index + 1]
                while stop - bit >= 8:
                    word = view.ptr[bit >> 3]
                    if bit & 7:
                        word = (word | <uint64_t> view.ptr[(bit >> 3) + 1] << 8) >> (bit & 7) & 0xFF
                    word = spread_byte(word)
                    memcpy(target, &word, 8)
                    target += 8
                    bit += 8
                while bit < stop:
                    target[0] = view.ptr[bit >> 3] >> (bit & 7) & 1
                    target += 1
                    bit += 1


def measure_texts(offsets, Py_ssize_t base, data, Selection selection not None):
    """How many bytes the selected texts have."""
    cdef View ends_view, data_view
    cdef const int32_t* ends
    cdef Steps steps
    cdef Py_ssize_t index, first, total = 0
    cdef int32_t start, stop
    cdef bint bad = False
    if not selection.count:
        return 0
    at_least_zero(base)
    ends_view = view_of(offsets, base + selection.rows + 1, 4)
    data_view = view_of(data, 0, 1)
    with nogil:
        ends = <const int32_t*> ends_view.ptr + base
        steps = steps_of(selection)
        for index in range(steps.count):
            first = steps.items[steps.stride * index]
            start = ends[first]
            stop = ends[first + length_of(&steps, index)]
            bad |= start < 0 or stop < start or stop > data_view.nbytes
            total += stop - start
    if bad:
        raise ValueError("offsets beyond their bytes")
    return total


def gather_texts(
    Buffer out_offsets, Py_ssize_t at, Buffer out, offsets, Py_ssize_t base, data, Selection selection not None
):
    """The selected texts, as rows `at` and on of `out`, behind the bytes of those before (whose end is at `at`)."""
    cdef View ends_view, data_view
    cdef const int32_t* ends
    cdef int32_t* out_ends
    cdef Steps steps
    cdef Py_ssize_t index, row, first, length, start, size, position
    # The same sum decides that everything fits.
    cdef Py_ssize_t total = measure_texts(offsets, base, data, selection)
    if not selection.count:
        return
    fits(out_offsets, at, selection.count + 1, 4)
    position = (<int32_t*> out_offsets.ptr)[at]
    fits(out, position, total, 1)
    ends_view = view_of(offsets, base + selection.rows + 1, 4)
    data_view = view_of(data, 0, 1)
    with nogil:
        ends = <const int32_t*> ends_view.ptr + base
        out_ends = <int32_t*> out_offsets.ptr + at + 1
        steps = steps_of(selection)
        for index in range(steps.count):
            first = steps.items[steps.stride * index]
            length = length_of(&steps, index)
            start = ends[first]
            size = ends[first + length] - start
            if size <= 16 and start + 16 <= data_view.nbytes:
                # Short texts are the rule; blocks have slack behind them, so 16 bytes may be moved.
                memcpy(out.ptr + position, data_view.ptr + start, 16)
            else:
                memcpy(out.ptr + position, data_view.ptr + start, size)
            for row in range(length):
                out_ends[row] = <int32_t> (position + ends[first + row + 1] - start)
            out_ends += length
            position += size


def gather_lists(Buffer out_offsets, Py_ssize_t at, offsets, Py_ssize_t base, Selection selection not None, Py_ssize_t items):
    """The selected lists' offsets, as rows `at` and on, and the selection of their items among the child's `items`.

    Raises OverflowError where there are more items than 31 bits count.
    """
    cdef View view
    cdef const int32_t* ends
    cdef int32_t* out_ends
    cdef int32_t* target
    cdef Steps steps
    cdef Py_ssize_t index, row, first, length, total = 0, runs = 0, position
    cdef int32_t start, stop, before = -1, step
    cdef Buffer chosen
    cdef bint bad = False, by_runs
    fits(out_offsets, at, selection.count + 1, 4)
    at_least_zero(base)
    if not selection.count:
        return of_positions(allocate(0), 0, items)
    view = view_of(offsets, base + selection.rows + 1, 4)
    with nogil:
        ends = <const int32_t*> view.ptr + base
        steps = steps_of(selection)
        for index in range(steps.count):
            first = steps.items[steps.stride * index]
            start = ends[first]
            stop = ends[first + length_of(&steps, index)]
            bad |= start < 0 or stop < start or stop > items
            total += stop - start
            if stop > start:
                runs += start != before
                before = stop
    if bad:
        raise ValueError("offsets beyond their items")
    position = (<int32_t*> out_offsets.ptr)[at]
    if position + total > INT32_MAX:
        raise OverflowError("more items than 31 bits count")
    by_runs = total >= RUN_ROWS * runs
    chosen = allocate((runs + 1) * 8 if by_runs else total * 4)
    before = -1
    with nogil:
        out_ends = <int32_t*> out_offsets.ptr + at + 1
        target = <int32_t*> chosen.ptr - 2 if by_runs else <int32_t*> chosen.ptr
        for index in range(steps.count):
            first = steps.items[steps.stride * index]
            length = length_of(&steps, index)
            start = ends[first]
            stop = ends[first + length]
            for row in range(length):
                out_ends[row] = <int32_t> (position + ends[first + row + 1] - start)
            out_ends += length
            position += stop - start
            if not by_runs:
                for step in range(start, stop):
                    target[0] = step
                    target += 1
            elif stop > start:
                if start != before:
                    target += 2
                    target[0] = start
                    target[1] = 0
                target[1] += stop - start
                before = stop
    if by_runs:
        return made(total, items, None, chosen, runs)
    return made(total, items, chosen, None, 0)


def gather_union(
    Buffer out_types,
    Buffer out_offsets,
    Py_ssize_t at,
    types,
    offsets,
    Py_ssize_t base,
    Selection selection not None,
    list child_rows,
    list used,
):
    """The selected rows of a dense union, as rows `at` and on, and the selection of each child's rows.

    The children have `child_rows` rows, and `used` of them were selected before.
    """
    cdef View types_view, offsets_view
    cdef const uint8_t* tags
    cdef const int32_t* places
    cdef int32_t* out_places
    cdef Steps steps
    cdef Py_ssize_t index, row, first, out_row
    cdef Py_ssize_t children = len(child_rows)
    cdef Py_ssize_t[128] limits
    cdef Py_ssize_t[128] counts
    cdef int32_t[128] bases
    cdef int32_t* chosen[128]
    cdef bint bad = False
    cdef int tag
    cdef list kept = []
    at_least_zero(base)
    if children > 128 or len(used) != children:
        raise ValueError("no such union")
    types_view = view_of(types, base + selection.rows, 1)
    offsets_view = view_of(offsets, base + selection.rows, 4)
    fits(out_types, at, selection.count, 1)
    fits(out_offsets, at, selection.count, 4)
    for tag in range(children):
        limits[tag] = child_rows[tag]
        bases[tag] = used[tag]
        counts[tag] = 0
    with nogil:
        tags = types_view.ptr + base
        places = <const int32_t*> offsets_view.ptr + base
        steps = steps_of(selection)
        for index in range(steps.count):
            first = steps.items[steps.stride * index]
            for row in range(first, first + length_of(&steps, index)):
                if tags[row] >= children or places[row] < 0 or places[row] >= limits[tags[row]]:
                    bad = True
                else:
                    counts[tags[row]] += 1
    if bad:
        raise ValueError("a union's row beyond its children")
    for tag in range(children):
        kept.append(allocate(counts[tag] * 4))
        chosen[tag] = <int32_t*> (<Buffer> kept[tag]).ptr
        counts[tag] = 0
    with nogil:
        out_places = <int32_t*> out_offsets.ptr + at
        out_row = 0
        for index in range(steps.count):
            first = steps.items[steps.stride * index]
            for row in range(first, first + length_of(&steps, index)):
                tag = tags[row]
                out_types.ptr[at + out_row] = tag
                out_places[out_row] = bases[tag] + <int32_t> counts[tag]
                chosen[tag][counts[tag]] = places[row]
                counts[tag] += 1
                out_row += 1
    return [of_positions(kept[tag], counts[tag], child_rows[tag]) for tag in range(children)]


def entries_of(indexes, Py_ssize_t base, validity, Py_ssize_t validity_base, Selection selection not None, Py_ssize_t size):
    """The selection of a dictionary's `size` entries that the selected rows name, null rows left out."""
    cdef View view, bits = None
    cdef const int32_t* places
    cdef const uint8_t* valid = NULL
    cdef int32_t* target
    cdef Steps steps
    cdef Py_ssize_t index, row, first, count = 0, bit
    cdef Buffer out = allocate(selection.count * 4)
    cdef bint bad = False
    at_least_zero(base)
    at_least_zero(validity_base)
    if not selection.count:
        return of_positions(out, 0, size)
    view = view_of(indexes, base + selection.rows, 4)
    if validity is not None:
        bits = view_of(validity, (validity_base + selection.rows + 7) // 8, 1)
        valid = bits.ptr
    with nogil:
        places = <const int32_t*> view.ptr + base
        target = <int32_t*> out.ptr
        steps = steps_of(selection)
        for index in range(steps.count):
            first = steps.items[steps.stride * index]
            for row in range(first, first + length_of(&steps, index)):
                bit = validity_base + row
                if valid != NULL and not valid[bit >> 3] >> (bit & 7) & 1:
                    continue
                bad |= places[row] < 0 or places[row] >= size
                target[count] = places[row]
                count += 1
    if bad:
        raise ValueError("an index beyond its dictionary")
    return of_positions(out, count, size)
