"""Selections of rows: which of the rows of a vector are wanted, and in what order.

Know masks, bitmaps and positions; must not know vectors. A selection is either a list of positions, or of runs of them where
runs are long on average: then values are moved by whole runs. Every position is proved to be below `rows` when the
selection is made. All loops run without the GIL.
"""

from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from orcstream._buffer cimport Buffer, allocate
from orcstream.codec._bitmaps cimport count_ones
from orcstream.codec._memory cimport View, view_of

cdef extern from *:
    """
    #define ORC_LOW_BITS 0x0101010101010101ull
    """
    uint64_t LOW_BITS "ORC_LOW_BITS"
    int popcount "__builtin_popcountll"(uint64_t word) noexcept nogil
    int lowest_bit "__builtin_ctzll"(uint64_t word) noexcept nogil

cdef Py_ssize_t MOST_BITS = (<Py_ssize_t> 1) << 48  # of a bitmap; sums are far from overflow


cdef class Selection:
    """`count` of the rows 0 up to `rows`, in the order in which they are to come; made by the functions below."""

    def __cinit__(self):
        self.runs = allocate(0)

    @property
    def whole(self):
        """Whether these are all rows in their order."""
        return self.count == self.rows and (self.rows == 0 or self.span() == (0, self.rows))

    def span(self):
        """(start, stop) where these are consecutive rows, else None."""
        cdef const int32_t* pair
        if self.runs is None or self.run_count != 1:
            return None
        pair = <const int32_t*> self.runs.ptr
        return pair[0], pair[0] + pair[1]

    def numbers(self, int64_t first):
        """The selected rows as int64 numbers, where row 0 has the number `first`."""
        cdef Buffer out = allocate(self.count * 8)
        cdef int64_t* numbers = <int64_t*> out.ptr
        cdef Py_ssize_t index, at = 0, step, length
        cdef const int32_t* items
        with nogil:
            if self.positions is not None:
                items = <const int32_t*> self.positions.ptr
                for index in range(self.count):
                    numbers[index] = first + items[index]
            else:
                items = <const int32_t*> self.runs.ptr
                for index in range(self.run_count):
                    length = items[2 * index + 1]
                    for step in range(length):
                        numbers[at + step] = first + items[2 * index] + step
                    at += length
        return out

    def __len__(self):
        return self.count


cdef Selection made(Py_ssize_t count, Py_ssize_t rows, Buffer positions, Buffer runs, Py_ssize_t run_count):
    cdef Selection selection = Selection.__new__(Selection)
    selection.count = count
    selection.rows = rows
    selection.positions = positions
    selection.runs = runs
    selection.run_count = run_count
    return selection


def select_span(Py_ssize_t start, Py_ssize_t stop, Py_ssize_t rows):
    """The rows `start` up to `stop` of `rows`."""
    cdef Buffer runs = allocate(8)
    if not 0 <= start <= stop <= rows or rows > INT32_MAX:
        raise ValueError("a span beyond its rows")
    (<int32_t*> runs.ptr)[0] = <int32_t> start
    (<int32_t*> runs.ptr)[1] = <int32_t> (stop - start)
    return made(stop - start, rows, None, runs, 1)


def select_mask(mask, Py_ssize_t rows):
    """The rows whose byte in the mask has its lowest bit."""
    cdef View view = view_of(mask, rows, 1)
    cdef Py_ssize_t count = 0, runs = 0
    cdef Buffer out
    if rows > INT32_MAX:
        raise ValueError("more rows than a vector may have")
    with nogil:
        survey(view.ptr, rows, &count, &runs)
    if count == rows:
        return select_span(0, rows, rows)
    if count >= RUN_ROWS * runs:
        out = allocate((runs + 1) * 8)
        with nogil:
            fill_runs(view.ptr, rows, <int32_t*> out.ptr)
        return made(count, rows, None, out, runs)
    out = allocate((count + 1) * 4)
    with nogil:
        fill_positions(view.ptr, rows, <int32_t*> out.ptr, count)
    return made(count, rows, out, None, 0)


cdef inline uint64_t word_at(const uint8_t* mask, Py_ssize_t row, Py_ssize_t rows) noexcept nogil:
    """The lowest bits of eight bytes from `row` on, 0 beyond the end."""
    cdef uint64_t word = 0
    if rows - row >= 8:
        memcpy(&word, mask + row, 8)
    else:
        memcpy(&word, mask + row, rows - row)
    return word & LOW_BITS


cdef void survey(const uint8_t* mask, Py_ssize_t rows, Py_ssize_t* count, Py_ssize_t* runs) noexcept nogil:
    cdef Py_ssize_t row = 0, ones = 0, begun = 0
    cdef uint64_t word, before = 0
    while row < rows:
        word = word_at(mask, row, rows)
        ones += popcount(word)
        begun += popcount(word & ~(word << 8 | before))
        before = word >> 56
        row += 8
    count[0] = ones
    runs[0] = begun


cdef void fill_runs(const uint8_t* mask, Py_ssize_t rows, int32_t* out) noexcept nogil:
    cdef Py_ssize_t row = 0, at = 0
    cdef uint64_t word, changes, before = 0
    cdef int32_t place
    cdef bint inside = False
    while row < rows:
        word = word_at(mask, row, rows)
        changes = word ^ (word << 8 | before)
        before = word >> 56
        while changes:
            place = <int32_t> (row + (lowest_bit(changes) >> 3))
            changes &= changes - 1
            if inside:
                out[2 * at + 1] = place - out[2 * at]
                at += 1
            else:
                out[2 * at] = place
            inside = not inside
        row += 8
    # Beyond the end the word has zeros, so only a run up to the end of the last whole word is still open.
    if inside:
        out[2 * at + 1] = <int32_t> rows - out[2 * at]


cdef void fill_positions(const uint8_t* mask, Py_ssize_t rows, int32_t* out, Py_ssize_t count) noexcept nogil:
    cdef Py_ssize_t row = 0, at = 0
    cdef uint64_t word
    cdef bint dense = count * 8 > rows
    cdef int step
    while row < rows:
        word = word_at(mask, row, rows)
        if word == 0:
            pass
        elif dense:
            # Without branches; what is written one too far is written again, or lies behind the last.
            for step in range(8):
                out[at] = <int32_t> row + step
                at += word & 1
                word >>= 8
        else:
            while word:
                out[at] = <int32_t> (row + (lowest_bit(word) >> 3))
                at += 1
                word &= word - 1
        row += 8


def select_positions(positions, Py_ssize_t count, Py_ssize_t rows):
    """The rows that `count` int64 positions name, in their order, perhaps several times."""
    cdef View view = view_of(positions, count, 8)
    cdef Buffer out = allocate(count * 4)
    cdef const int64_t* wanted = <const int64_t*> view.ptr
    cdef Py_ssize_t index
    cdef bint beyond = False
    if rows < 0 or rows > INT32_MAX:
        raise ValueError("more rows than a vector may have")
    with nogil:
        for index in range(count):
            beyond |= <uint64_t> wanted[index] >= <uint64_t> rows
            (<int32_t*> out.ptr)[index] = <int32_t> wanted[index]
    if beyond:
        raise ValueError("a position beyond its rows")
    return of_positions(out, count, rows)


cdef Selection of_positions(Buffer positions, Py_ssize_t count, Py_ssize_t rows):
    """A selection of positions that were checked, as runs where these are long."""
    cdef const int32_t* items = <const int32_t*> positions.ptr
    cdef Py_ssize_t index, runs = 0
    cdef Buffer out
    cdef int32_t* pairs
    with nogil:
        for index in range(count):
            runs += index == 0 or items[index] != items[index - 1] + 1
    if count < RUN_ROWS * runs:
        return made(count, rows, positions, None, 0)
    out = allocate((runs + 1) * 8)
    with nogil:
        pairs = <int32_t*> out.ptr - 2
        for index in range(count):
            if index == 0 or items[index] != items[index - 1] + 1:
                pairs += 2
                pairs[0] = items[index]
                pairs[1] = 0
            pairs[1] += 1
    return made(count, rows, None, out, runs)


def count_nulls(bitmap, Py_ssize_t offset, Py_ssize_t length):
    """How many of the `length` bits from bit `offset` on are 0."""
    cdef View view
    cdef Py_ssize_t ones
    if offset < 0 or length < 0 or offset > MOST_BITS or length > MOST_BITS:
        raise ValueError("no range of bits")
    view = view_of(bitmap, (offset + length + 7) // 8, 1)
    with nogil:
        ones = count_ones(view.ptr, offset, length)
    return length - ones
