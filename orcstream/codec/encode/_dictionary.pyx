"""A dictionary of texts under construction.

Knows texts as bytes with offsets; must not know streams nor whether a dictionary pays. A dictionary numbers
its entries in the order in which they first occur, and can be sorted; so the same values have the same numbers, whatever
dictionary they came with. Its memory grows with the entries and never with the rows. Needs no lock of the interpreter.
Specification: "String, Char, and VarChar Columns".
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from orcstream._buffer cimport Block, Buffer, allocate, give_block, take_block, widen_block
from orcstream.codec._memory cimport View, view_of
from orcstream.codec.vectors._filter cimport Texts
from orcstream.codec.vectors._text_hash cimport seed_text_hash, text_hash, text_head
from orcstream.codec.vectors._texts cimport TextRows, entry_at, entry_of

# Numbers of entries do not depend on it.
seed_text_hash()

cdef enum:
    FIRST_SLOTS = 64
    FIRST_BYTES = 1024
    MOST_ENTRIES = 1 << 30


cdef class DictionaryBuilder:
    """The different texts of a stripe so far, in the order of their first occurrence."""

    def __cinit__(self):
        self.slot_count = FIRST_SLOTS
        take_block(&self.slots, FIRST_SLOTS * 4)
        memset(self.slots.ptr, 0, FIRST_SLOTS * 4)
        take_block(&self.hashes, FIRST_SLOTS * 8)
        take_block(&self.heads, FIRST_SLOTS * 8)
        take_block(&self.ends, FIRST_SLOTS * 8)
        take_block(&self.texts, FIRST_BYTES)

    def __dealloc__(self):
        self.free()

    @property
    def held_bytes(self):
        """Memory held."""
        return self.held()

    def add(self, Texts texts not None):
        """`number`: the entry number of each text as int64."""
        cdef Buffer out = allocate(texts.count * 8)
        with nogil:
            self.number(&texts.rows, <int64_t*> out.ptr)
        return out

    def take(self, numbers, Py_ssize_t count):
        """(lengths as int64, bytes) of `count` entries, one after the other; their numbers are int64."""
        cdef View held = view_of(numbers, count, 8)
        cdef const int64_t* wanted = <const int64_t*> held.ptr
        cdef const uint8_t* text = NULL
        cdef Py_ssize_t index, total = 0
        cdef Buffer lengths = allocate(count * 8), data
        cdef int64_t* out = <int64_t*> lengths.ptr
        for index in range(count):
            if not 0 <= wanted[index] < self.count:
                raise ValueError(f"the dictionary has {self.count} entries, none is number {wanted[index]}")
            out[index] = self.text(wanted[index], &text)
            total += out[index]
        data = allocate(total)
        total = 0
        for index in range(count):
            self.text(wanted[index], &text)
            memcpy(data.ptr + total, text, out[index])
            total += out[index]
        return lengths, data

    def sort(self):
        """(ranks, lengths, bytes) as `sort_into` answers them."""
        cdef Buffer ranks = allocate(self.count * 8), lengths = allocate(self.count * 8)
        cdef Buffer data = allocate(self.data_bytes)
        with nogil:
            self.sort_into(<int64_t*> ranks.ptr, <int64_t*> lengths.ptr, data.ptr)
        return ranks, lengths, data

    cdef int number(self, const TextRows* texts, int64_t* numbers) except -1 nogil:
        """The entry number of each text; new ones are appended. ValueError for offsets beyond their buffers."""
        cdef int32_t* known = NULL
        cdef Py_ssize_t row, entry
        if texts.indexes != NULL and texts.size <= 4 * texts.count:
            # Each entry of the dictionary that came along is looked up once.
            widen_block(&self.known, 0, texts.size * 4)
            known = <int32_t*> self.known.ptr
            memset(known, 0, texts.size * 4)
        for row in range(texts.count):
            entry = entry_of(texts, row)
            if known != NULL and entry >= 0 and known[entry]:
                numbers[row] = known[entry] - 1
                continue
            numbers[row] = self._entry(texts, entry)
            if known != NULL:
                known[entry] = <int32_t> numbers[row] + 1
        give_block(&self.known)
        return 0

    cdef int sort_into(self, int64_t* ranks, int64_t* lengths, uint8_t* data) except -1 nogil:
        """The rank of each entry by its number, and the lengths and bytes of all in ascending order.

        Texts are compared byte by byte, which is the order of their characters.
        """
        cdef Block order
        cdef const uint8_t* text = NULL
        cdef int64_t* sorted_entries
        cdef Py_ssize_t place
        take_block(&order, 2 * self.count * 8)
        sorted_entries = self._merge_sort(<int64_t*> order.ptr, <int64_t*> order.ptr + self.count)
        for place in range(self.count):
            ranks[sorted_entries[place]] = place
            lengths[place] = self.text(sorted_entries[place], &text)
            memcpy(data, text, lengths[place])
            data += lengths[place]
        give_block(&order)
        return 0

    cdef int64_t* _merge_sort(self, int64_t* order, int64_t* room) noexcept nogil:
        """Entry numbers in the order of their texts; in one of the two, which have room for all."""
        cdef Py_ssize_t width = 1, start, middle, stop, left, right, at
        for at in range(self.count):
            order[at] = at
        while width < self.count:
            start = 0
            while start < self.count:
                middle = min(start + width, self.count)
                stop = min(start + 2 * width, self.count)
                left, right = start, middle
                for at in range(start, stop):
                    if left < middle and (right >= stop or self.compare(order[left], order[right]) <= 0):
                        room[at] = order[left]
                        left += 1
                    else:
                        room[at] = order[right]
                        right += 1
                start = stop
            order, room = room, order
            width *= 2
        return order

    cdef int compare(self, Py_ssize_t one, Py_ssize_t other) noexcept nogil:
        """Which of two entries comes first, as memcmp says it."""
        cdef const uint8_t* first = NULL
        cdef const uint8_t* second = NULL
        cdef Py_ssize_t first_length = self.text(one, &first), second_length = self.text(other, &second)
        cdef int order = memcmp(first, second, min(first_length, second_length))
        return order if order else (first_length > second_length) - (first_length < second_length)

    cdef Py_ssize_t text(self, Py_ssize_t entry, const uint8_t** text) noexcept nogil:
        """Where the text of an entry is, and how long."""
        cdef const int64_t* ends = <const int64_t*> self.ends.ptr
        cdef int64_t begin = ends[entry - 1] if entry else 0
        text[0] = self.texts.ptr + begin
        return ends[entry] - begin

    cdef Py_ssize_t held(self) noexcept nogil:
        return self.slots.nbytes + self.hashes.nbytes + self.heads.nbytes + self.ends.nbytes + self.texts.nbytes

    cdef Py_ssize_t _entry(self, const TextRows* texts, Py_ssize_t row) except -1 nogil:
        """The number of the text that is entry `row` of its own buffers."""
        cdef const uint8_t* text = NULL
        cdef Py_ssize_t length = 0, found
        cdef uint64_t head, hash_
        if not entry_at(texts, row, &text, &length):
            with gil:
                raise ValueError("offsets beyond the texts")
        head = text_head(text, length, texts.data + texts.data_bytes - text)
        hash_ = text_hash(text, length, head)
        found = self._find(text, length, head, hash_)
        return found if found >= 0 else self._put(text, length, head, hash_)

    cdef Py_ssize_t _find(self, const uint8_t* text, Py_ssize_t length, uint64_t head, uint64_t hash_) noexcept nogil:
        cdef const int32_t* slots = <const int32_t*> self.slots.ptr
        cdef const uint64_t* hashes = <const uint64_t*> self.hashes.ptr
        cdef const uint64_t* heads = <const uint64_t*> self.heads.ptr
        cdef const int64_t* ends = <const int64_t*> self.ends.ptr
        cdef Py_ssize_t mask = self.slot_count - 1, slot = <Py_ssize_t> (hash_ & <uint64_t> mask), entry, begin
        while slots[slot]:
            entry = slots[slot] - 1
            if hashes[entry] == hash_ and heads[entry] == head:
                begin = ends[entry - 1] if entry else 0
                if ends[entry] - begin == length and (
                    length <= 8 or memcmp(self.texts.ptr + begin, text, length) == 0
                ):
                    return entry
            slot = (slot + 1) & mask
        return -1

    cdef Py_ssize_t _put(self, const uint8_t* text, Py_ssize_t length, uint64_t head, uint64_t hash_) except -1 nogil:
        """Append an entry."""
        cdef Py_ssize_t entry = self.count
        if entry >= MOST_ENTRIES:
            with gil:
                raise ValueError("too many entries for a dictionary")
        if 3 * (entry + 1) > 2 * self.slot_count:
            self._grow_slots()
        widen_block(&self.texts, self.data_bytes, self.data_bytes + length)
        memcpy(self.texts.ptr + self.data_bytes, text, length)
        self.data_bytes += length
        (<int64_t*> self.ends.ptr)[entry] = self.data_bytes
        (<uint64_t*> self.hashes.ptr)[entry] = hash_
        (<uint64_t*> self.heads.ptr)[entry] = head
        self.count += 1
        place(<int32_t*> self.slots.ptr, self.slot_count, hash_, entry)
        return entry

    cdef int _grow_slots(self) except -1 nogil:
        cdef Py_ssize_t wanted = 2 * self.slot_count, entry
        cdef Block slots
        widen_block(&self.hashes, self.count * 8, wanted * 8)
        widen_block(&self.heads, self.count * 8, wanted * 8)
        widen_block(&self.ends, self.count * 8, wanted * 8)
        take_block(&slots, wanted * 4)
        memset(slots.ptr, 0, slots.nbytes)
        for entry in range(self.count):
            place(<int32_t*> slots.ptr, wanted, (<const uint64_t*> self.hashes.ptr)[entry], entry)
        give_block(&self.slots)
        self.slots = slots
        self.slot_count = wanted
        return 0

    cdef int free(self) noexcept nogil:
        """Give all memory back; nothing may be asked for or added afterwards."""
        give_block(&self.slots)
        give_block(&self.hashes)
        give_block(&self.heads)
        give_block(&self.ends)
        give_block(&self.texts)
        give_block(&self.known)
        self.count = self.data_bytes = 0
        return 0


cdef void place(int32_t* slots, Py_ssize_t slot_count, uint64_t hash_, Py_ssize_t entry) noexcept nogil:
    cdef Py_ssize_t mask = slot_count - 1, slot = <Py_ssize_t> (hash_ & <uint64_t> mask)
    while slots[slot]:
        slot = (slot + 1) & mask
    slots[slot] = <int32_t> entry + 1
