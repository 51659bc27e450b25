"""Kernels for texts on their way into a file: a dictionary of a stripe's values, and lengths.

Know texts as bytes with offsets; must not know streams nor whether a dictionary pays. A dictionary numbers
its entries in the order in which they first occur, and can be sorted; so the same values have the same numbers, whatever
dictionary they came with. Its memory grows with the entries and never with the rows. Specification: "String, Char, and
VarChar Columns".
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from orcstream._buffer cimport Buffer, allocate
from orcstream.codec.vectors._filter cimport Texts
from orcstream.codec._memory cimport View, view_of
from orcstream.codec.vectors._text_hash cimport seed_text_hash, text_hash, text_head

# Numbers of entries do not depend on it.
seed_text_hash()

cdef enum:
    FIRST_SLOTS = 64
    FIRST_BYTES = 1024
    MOST_ENTRIES = 1 << 30


cdef class DictionaryBuilder:
    """The different texts of a stripe so far, in the order of their first occurrence."""

    cdef Buffer slots        # int32: entry number + 1, 0 for none; a power of two, at most 2/3 in use
    cdef Buffer hashes       # uint64 of each entry
    cdef Buffer heads        # the first eight bytes of each entry
    cdef Buffer ends         # int64 of each entry: where it ends in `texts`
    cdef Buffer texts
    cdef Py_ssize_t slot_count
    cdef readonly Py_ssize_t count
    cdef readonly Py_ssize_t data_bytes

    def __cinit__(self):
        self.slot_count = FIRST_SLOTS
        self.slots = allocate(FIRST_SLOTS * 4)
        memset(self.slots.ptr, 0, FIRST_SLOTS * 4)
        self.hashes = allocate(FIRST_SLOTS * 8)
        self.heads = allocate(FIRST_SLOTS * 8)
        self.ends = allocate(FIRST_SLOTS * 8)
        self.texts = allocate(FIRST_BYTES)

    @property
    def held_bytes(self):
        """Memory held."""
        return (
            self.slots.nbytes + self.hashes.nbytes + self.heads.nbytes + self.ends.nbytes + self.texts.nbytes
        )

    def add(self, Texts texts not None):
        """The entry number of each text as int64, new ones appended; ValueError for offsets beyond their buffers."""
        cdef Buffer out = allocate(texts.count * 8)
        cdef int64_t* numbers = <int64_t*> out.ptr
        cdef Buffer known = None
        cdef int32_t* entries = NULL
        cdef Py_ssize_t row = 0
        if texts.indexes is not None:
            # Each entry of the dictionary that came along is looked up once.
            known = allocate(texts.size * 4)
            memset(known.ptr, 0, known.nbytes)
            entries = <int32_t*> known.ptr
        while row < texts.count:
            with nogil:
                row = self._look_up(texts, row, entries, numbers)
            if row < texts.count:
                row = self._append(texts, row, numbers)
        return out

    def sort(self):
        """(ranks, lengths, bytes) of all entries: the rank of each by its number, the rest in ascending order.

        Ranks and lengths are int64. Texts are compared byte by byte, which is the order of their characters.
        """
        cdef Buffer order = allocate(self.count * 8), room = allocate(self.count * 8)
        cdef Buffer ranks = allocate(self.count * 8), lengths = allocate(self.count * 8)
        cdef Buffer data = allocate(self.data_bytes)
        cdef const int64_t* ends = <const int64_t*> self.ends.ptr
        cdef int64_t* sorted_entries
        cdef Py_ssize_t place, entry, begin, length, written = 0
        with nogil:
            sorted_entries = self._merge_sort(<int64_t*> order.ptr, <int64_t*> room.ptr)
            for place in range(self.count):
                entry = sorted_entries[place]
                begin = ends[entry - 1] if entry else 0
                length = ends[entry] - begin
                (<int64_t*> ranks.ptr)[entry] = place
                (<int64_t*> lengths.ptr)[place] = length
                memcpy(data.ptr + written, self.texts.ptr + begin, length)
                written += length
        return ranks, lengths, data

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
                    if left < middle and (right >= stop or self._compare(order[left], order[right]) <= 0):
                        room[at] = order[left]
                        left += 1
                    else:
                        room[at] = order[right]
                        right += 1
                start = stop
            order, room = room, order
            width *= 2
        return order

    def take(self, numbers, Py_ssize_t count):
        """(lengths as int64, bytes) of `count` entries, one after the other; their numbers are int64."""
        cdef View held = view_of(numbers, count, 8)
        cdef const int64_t* wanted = <const int64_t*> held.ptr
        cdef const int64_t* ends = <const int64_t*> self.ends.ptr
        cdef Py_ssize_t index, total = 0, bad = -1
        cdef Buffer lengths = allocate(count * 8), data
        cdef int64_t* out = <int64_t*> lengths.ptr
        with nogil:
            for index in range(count):
                if not 0 <= wanted[index] < self.count:
                    bad = index
                    break
                out[index] = self._length(wanted[index])
                total += out[index]
        if bad >= 0:
            raise ValueError(f"the dictionary has {self.count} entries, none is number {wanted[bad]}")
        data = allocate(total)
        total = 0
        with nogil:
            for index in range(count):
                memcpy(data.ptr + total, self.texts.ptr + ends[wanted[index]] - out[index], out[index])
                total += out[index]
        return lengths, data

    cdef int64_t _length(self, int64_t entry) noexcept nogil:
        cdef const int64_t* ends = <const int64_t*> self.ends.ptr
        return ends[entry] - (ends[entry - 1] if entry else 0)

    def bounds(self, numbers, Py_ssize_t count, Py_ssize_t most):
        """(least, largest, bytes in all) of `count` entries, by their numbers as int64; at most `most` bytes of a text.

        Least and largest are None where there are none. ValueError for a number that is none.
        """
        cdef View held = view_of(numbers, count, 8)
        cdef const int64_t* wanted = <const int64_t*> held.ptr
        cdef const int64_t* ends = <const int64_t*> self.ends.ptr
        cdef Buffer seen = allocate(self.count)
        cdef Py_ssize_t index, entry, least = -1, largest = -1, total = 0
        cdef bint wrong = False
        memset(seen.ptr, 0, self.count)
        with nogil:
            for index in range(count):
                entry = wanted[index]
                if not 0 <= entry < self.count:
                    wrong = True
                    break
                total += ends[entry] - (ends[entry - 1] if entry else 0)
                if seen.ptr[entry]:
                    continue
                seen.ptr[entry] = 1
                if least < 0 or self._compare(entry, least) < 0:
                    least = entry
                if largest < 0 or self._compare(entry, largest) > 0:
                    largest = entry
        if wrong:
            raise ValueError(f"the dictionary has {self.count} entries, none is number {entry}")
        if not count:
            return None, None, 0
        return self._text(least, most), self._text(largest, most), total

    cdef int _compare(self, Py_ssize_t one, Py_ssize_t other) noexcept nogil:
        cdef const int64_t* ends = <const int64_t*> self.ends.ptr
        cdef Py_ssize_t first = ends[one - 1] if one else 0, second = ends[other - 1] if other else 0
        cdef Py_ssize_t first_length = ends[one] - first, second_length = ends[other] - second
        cdef int order = memcmp(self.texts.ptr + first, self.texts.ptr + second, min(first_length, second_length))
        return order if order else (first_length > second_length) - (first_length < second_length)

    cdef bytes _text(self, Py_ssize_t entry, Py_ssize_t most):
        cdef const int64_t* ends = <const int64_t*> self.ends.ptr
        cdef Py_ssize_t begin = ends[entry - 1] if entry else 0
        return (<const char*> self.texts.ptr)[begin : begin + min(most, ends[entry] - begin)]

    cdef Py_ssize_t _look_up(self, Texts texts, Py_ssize_t row, int32_t* entries, int64_t* numbers) noexcept nogil:
        """Numbers of rows from `row` on, up to the first one whose text is new or cannot be had."""
        cdef const int32_t* indexes = NULL
        cdef const uint8_t* text = NULL
        cdef const uint8_t* end = texts.data.ptr + texts.data.nbytes
        cdef Py_ssize_t length = 0, found
        cdef uint64_t head, hash_
        if entries != NULL:
            indexes = <const int32_t*> texts.indexes.ptr + texts.first
        while row < texts.count:
            if entries != NULL and 0 <= indexes[row] < texts.size and entries[indexes[row]]:
                numbers[row] = entries[indexes[row]] - 1
                row += 1
                continue
            if not texts.at(row, &text, &length):
                break
            head = text_head(text, length, end - text)
            hash_ = text_hash(text, length, head)
            found = self._find(text, length, head, hash_)
            if found < 0:
                # New: appended here as long as there is room for it.
                if not self._has_room(length):
                    break
                found = self._put(text, length, head, hash_)
            if entries != NULL:
                entries[indexes[row]] = <int32_t> found + 1
            numbers[row] = found
            row += 1
        return row

    cdef Py_ssize_t _append(self, Texts texts, Py_ssize_t row, int64_t* numbers) except -1:
        """Makes room for the text of a row, which `_look_up` then appends; answers the row."""
        cdef const uint8_t* text = NULL
        cdef Py_ssize_t length = 0
        if not texts.at(row, &text, &length):
            raise ValueError("offsets beyond the texts")
        if self.count >= MOST_ENTRIES:
            raise ValueError("too many entries for a dictionary")
        if 3 * (self.count + 1) > 2 * self.slot_count:
            self._grow_slots()
        if self.data_bytes + length > self.texts.nbytes:
            self.texts = grown(self.texts, self.data_bytes, self.data_bytes + length)
        return row

    cdef bint _has_room(self, Py_ssize_t length) noexcept nogil:
        return (
            3 * (self.count + 1) <= 2 * self.slot_count
            and self.data_bytes + length <= self.texts.nbytes
        )

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

    cdef Py_ssize_t _put(self, const uint8_t* text, Py_ssize_t length, uint64_t head, uint64_t hash_) noexcept nogil:
        cdef Py_ssize_t entry = self.count
        memcpy(self.texts.ptr + self.data_bytes, text, length)
        self.data_bytes += length
        (<int64_t*> self.ends.ptr)[entry] = self.data_bytes
        (<uint64_t*> self.hashes.ptr)[entry] = hash_
        (<uint64_t*> self.heads.ptr)[entry] = head
        self.count += 1
        place(<int32_t*> self.slots.ptr, self.slot_count, hash_, entry)
        return entry

    cdef int _grow_slots(self) except -1:
        cdef Py_ssize_t wanted = 2 * self.slot_count, entry
        cdef Buffer slots = allocate(wanted * 4)
        memset(slots.ptr, 0, slots.nbytes)
        self.hashes = grown(self.hashes, self.count * 8, wanted * 8)
        self.heads = grown(self.heads, self.count * 8, wanted * 8)
        self.ends = grown(self.ends, self.count * 8, wanted * 8)
        for entry in range(self.count):
            place(<int32_t*> slots.ptr, wanted, (<const uint64_t*> self.hashes.ptr)[entry], entry)
        self.slots = slots
        self.slot_count = wanted
        return 0


cdef void place(int32_t* slots, Py_ssize_t slot_count, uint64_t hash_, Py_ssize_t entry) noexcept nogil:
    cdef Py_ssize_t mask = slot_count - 1, slot = <Py_ssize_t> (hash_ & <uint64_t> mask)
    while slots[slot]:
        slot = (slot + 1) & mask
    slots[slot] = <int32_t> entry + 1


cdef Buffer grown(Buffer old, Py_ssize_t used, Py_ssize_t wanted):
    """The first `used` bytes in a larger buffer, of at least twice the size."""
    cdef Buffer larger = allocate(max(wanted, 2 * old.nbytes))
    memcpy(larger.ptr, old.ptr, used)
    return larger


def lengths_of(offsets, Py_ssize_t first, Py_ssize_t count):
    """(lengths as int64, first offset, last offset) of texts or lists; ValueError where offsets fall."""
    cdef View held = view_of(offsets, first + count + 1 if count else 0, 4)
    cdef const int32_t* ends = <const int32_t*> held.ptr + first
    cdef Buffer out = allocate(count * 8)
    cdef int64_t* lengths = <int64_t*> out.ptr
    cdef int64_t length
    cdef Py_ssize_t index
    cdef bint falls = False
    if not count:
        return out, 0, 0
    with nogil:
        for index in range(count):
            length = <int64_t> ends[index + 1] - ends[index]
            falls |= length < 0
            lengths[index] = length
    if falls or ends[0] < 0:
        raise ValueError("offsets that fall")
    return out, ends[0], ends[count]
