"""Kernels that compare texts, binaries and decimals with literals: one byte for each row, 1 where it holds.

Know the Arrow layout of these; must not know types, nulls or predicates: what stands where nulls are is compared
like everything else, so it must only be in bounds. Rows are `first` up to `first + count` of the buffers; with
`indexes` (int32, of a dictionary) row i is the entry that indexes[first + i] names, and holds nothing where that is
none of the `size` entries. All work without the GIL.
"""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from orcstream._buffer cimport Buffer, allocate
from orcstream._buffer import zeroed
from orcstream.codec._memory cimport View, rows_of, view_of
from orcstream.codec.vectors._text_hash cimport seed_text_hash, text_hash, text_head
from orcstream.codec.vectors._texts cimport text_at

cdef extern from *:
    ctypedef long long int128 "__int128"

cdef enum:
    LESS = 0
    LESS_EQUAL = 1
    GREATER = 2
    GREATER_EQUAL = 3
    STARTS_WITH = 4
    MOST_BITS = 65536  # a table of so many bytes stays in the cache


cdef class Texts:
    def __cinit__(self, offsets, data, Py_ssize_t first, Py_ssize_t count, indexes=None, Py_ssize_t size=0):
        if first < 0 or count < 0:
            raise ValueError("negative counts")
        self.count = count
        self.rows.first = first
        self.rows.count = count
        self.rows.size = size if indexes is not None else first + count
        self.offsets = view_of(offsets, self.rows.size + 1 if self.rows.size else 0, 4)
        self.data = view_of(data, 0, 1)
        self.indexes = None if indexes is None else view_of(indexes, first + count, 4)
        self.rows.ends = <const int32_t*> self.offsets.ptr
        self.rows.data = self.data.ptr
        self.rows.data_bytes = self.data.nbytes
        self.rows.indexes = NULL if indexes is None else <const int32_t*> self.indexes.ptr


def compare_texts(Texts texts not None, int op, bytes literal not None):
    """Rows that are less, ... (0 to 3: < <= > >=) than the literal byte by byte, or begin with it (4)."""
    cdef Buffer out = allocate(texts.count)
    cdef const uint8_t* wanted = literal
    cdef const uint8_t* text = NULL
    cdef Py_ssize_t size = len(literal), length = 0, row
    cdef int order
    cdef bint holds
    with nogil:
        for row in range(texts.count):
            if not text_at(&texts.rows, row, &text, &length):
                out.ptr[row] = 0
                continue
            if op == STARTS_WITH:
                out.ptr[row] = length >= size and memcmp(text, wanted, size) == 0
                continue
            order = memcmp(text, wanted, length if length < size else size)
            if order == 0:
                order = -1 if length < size else length > size
            if op == LESS:
                holds = order < 0
            elif op == LESS_EQUAL:
                holds = order <= 0
            elif op == GREATER:
                holds = order > 0
            else:
                holds = order >= 0
            out.ptr[row] = holds
    return out


seed_text_hash()


cdef inline uint64_t hash_of(const uint8_t* text, Py_ssize_t length) noexcept nogil:
    return text_hash(text, length, text_head(text, length, length))


cdef class TextSet:
    """Literals to look texts up in; made once for a read."""

    cdef bytes joined
    cdef Buffer ends, table
    cdef Py_ssize_t count, longest
    cdef uint64_t mask

    def __cinit__(self, literals):
        cdef Py_ssize_t index, slots = 2, total = 0
        cdef int64_t* ends
        cdef int32_t* table
        cdef uint64_t slot
        cdef const uint8_t* base
        self.count = len(literals)
        if self.count > 1 << 28:
            raise ValueError("too many literals")
        self.joined = b"".join(literals)
        self.ends = allocate((self.count + 1) * 8)
        ends = <int64_t*> self.ends.ptr
        ends[0] = 0
        self.longest = -1
        for index in range(self.count):
            total += len(<bytes?> literals[index])
            ends[index + 1] = total
            self.longest = max(self.longest, len(literals[index]))
        while slots < 2 * self.count:
            slots *= 2
        self.mask = slots - 1
        self.table = allocate(slots * 4)
        table = <int32_t*> self.table.ptr
        memset(table, 0xFF, slots * 4)
        base = self.joined
        for index in range(self.count):
            slot = hash_of(base + ends[index], ends[index + 1] - ends[index]) & self.mask
            while table[slot] >= 0:
                slot = (slot + 1) & self.mask
            table[slot] = <int32_t> index

    cdef inline bint has(self, const uint8_t* base, const uint8_t* text, Py_ssize_t length) noexcept nogil:
        cdef const int64_t* ends = <const int64_t*> self.ends.ptr
        cdef const int32_t* table = <const int32_t*> self.table.ptr
        cdef uint64_t slot
        cdef int32_t entry
        if length > self.longest:
            return False
        slot = hash_of(text, length) & self.mask
        while True:
            # Half of the slots at least are free, so this ends.
            entry = table[slot]
            if entry < 0:
                return False
            if ends[entry + 1] - ends[entry] == length and memcmp(base + ends[entry], text, length) == 0:
                return True
            slot = (slot + 1) & self.mask


def match_texts(Texts texts not None, TextSet literals not None):
    """Rows that are equal to one of the literals."""
    cdef Buffer out = allocate(texts.count)
    cdef const uint8_t* base = literals.joined
    cdef const uint8_t* text = NULL
    cdef Py_ssize_t length = 0, row, only = literals.longest
    with nogil:
        if literals.count == 1:
            for row in range(texts.count):
                out.ptr[row] = (
                    text_at(&texts.rows, row, &text, &length) and length == only and memcmp(text, base, length) == 0
                )
        else:
            for row in range(texts.count):
                out.ptr[row] = text_at(&texts.rows, row, &text, &length) and literals.has(base, text, length)
    return out


cdef class NumberSet:
    """Integers to look values up in; made once for a read."""

    cdef Buffer table, taken
    cdef int64_t least
    cdef uint64_t reach, mask
    cdef bint by_bits

    def __cinit__(self, literals):
        cdef Py_ssize_t slots = 2, count = len(literals)
        cdef int64_t literal
        cdef uint64_t slot
        if not count or count > 1 << 28:
            raise ValueError("no literals, or too many")
        self.least = min(literals)
        self.reach = <uint64_t> (<int64_t> max(literals)) - <uint64_t> self.least
        # A table of the whole reach where it is small: no search, and nothing to guess wrong.
        self.by_bits = self.reach < MOST_BITS
        if self.by_bits:
            self.taken = zeroed(self.reach + 1)
            self.table = None
            for literal in literals:
                self.taken.ptr[<uint64_t> literal - <uint64_t> self.least] = 1
            return
        while slots < 2 * count:
            slots *= 2
        self.mask = slots - 1
        self.table = allocate(slots * 8)
        self.taken = zeroed(slots)
        for literal in literals:
            slot = slot_of(literal) & self.mask
            while self.taken.ptr[slot]:
                slot = (slot + 1) & self.mask
            self.taken.ptr[slot] = 1
            (<int64_t*> self.table.ptr)[slot] = literal

    cdef inline bint has(self, int64_t value) noexcept nogil:
        cdef uint64_t slot = <uint64_t> value - <uint64_t> self.least
        if slot > self.reach:
            return False
        if self.by_bits:
            return self.taken.ptr[slot]
        slot = slot_of(value) & self.mask
        # Half of the slots at least are free, so this ends.
        while self.taken.ptr[slot]:
            if (<const int64_t*> self.table.ptr)[slot] == value:
                return True
            slot = (slot + 1) & self.mask
        return False


cdef inline uint64_t slot_of(int64_t value) noexcept nogil:
    cdef uint64_t mixed = <uint64_t> value * 0x9E3779B97F4A7C15u
    return mixed ^ (mixed >> 32)


ctypedef fused integer_t:
    int8_t
    int16_t
    int32_t
    int64_t


cdef void look_up(const integer_t* values, Py_ssize_t count, NumberSet literals, uint8_t* out) noexcept nogil:
    cdef Py_ssize_t row
    for row in range(count):
        out[row] = literals.has(values[row])


def match_integers(values, Py_ssize_t first, Py_ssize_t count, Py_ssize_t item_bytes, NumberSet literals not None):
    """Integers of 1, 2, 4 or 8 bytes that are one of the literals."""
    cdef View view
    cdef Buffer out
    if item_bytes not in (1, 2, 4, 8):
        raise ValueError("no such width")
    view = rows_of(values, first, count, item_bytes)
    out = allocate(count)
    with nogil:
        if item_bytes == 1:
            look_up(<const int8_t*> view.ptr, count, literals, out.ptr)
        elif item_bytes == 2:
            look_up(<const int16_t*> view.ptr, count, literals, out.ptr)
        elif item_bytes == 4:
            look_up(<const int32_t*> view.ptr, count, literals, out.ptr)
        else:
            look_up(<const int64_t*> view.ptr, count, literals, out.ptr)
    return out


def compare_decimals(values, Py_ssize_t first, Py_ssize_t count, int op, int64_t high, uint64_t low):
    """Decimals of 128 bits that are less, ... (0 to 3) than the literal of these two words."""
    cdef View view = rows_of(values, first, count, 16)
    cdef Buffer out = allocate(count)
    cdef int128 literal = (<int128> high) * (<int128> 1 << 64) + low
    cdef int128 value
    cdef Py_ssize_t row
    with nogil:
        for row in range(count):
            memcpy(&value, view.ptr + row * 16, 16)
            if op == LESS:
                out.ptr[row] = value < literal
            elif op == LESS_EQUAL:
                out.ptr[row] = value <= literal
            elif op == GREATER:
                out.ptr[row] = value > literal
            else:
                out.ptr[row] = value >= literal
    return out


def match_decimals(values, Py_ssize_t first, Py_ssize_t count, bytes literals not None):
    """Decimals that are one of the literals: little-endian, 16 bytes each, sorted as numbers."""
    cdef View view = rows_of(values, first, count, 16)
    cdef Buffer sorted_literals = allocate(len(literals)), out = allocate(count)
    cdef const int128* found
    cdef int128 value
    cdef Py_ssize_t row, low, high, middle, size = len(literals) // 16
    memcpy(sorted_literals.ptr, <const uint8_t*> literals, len(literals))
    with nogil:
        found = <const int128*> sorted_literals.ptr
        for row in range(count):
            memcpy(&value, view.ptr + row * 16, 16)
            low = 0
            high = size
            while low < high:
                middle = (low + high) // 2
                if found[middle] < value:
                    low = middle + 1
                else:
                    high = middle
            out.ptr[row] = low < size and found[low] == value
    return out
