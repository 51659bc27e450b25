"""Encoders of texts and binaries.

Know the encoding tables, when a dictionary pays, and what is recorded of texts. Specification: "String, Char, and VarChar
Columns", "Binary Columns".
"""

cimport cython
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memset

from orcstream._buffer cimport Block, give_block, widen_block
from orcstream.codec.encode._column cimport ColumnEncoder
from orcstream.codec.encode._dictionary cimport DictionaryBuilder
from orcstream.codec.encode._source cimport Rows, Source
from orcstream.codec.encode._statistics cimport (
    MOST_BOUND_BYTES,
    Tally,
    note_text,
    tally_texts,
    whole,
)
from orcstream.codec.metadata._bloom cimport byte_hash
from orcstream.codec.streams._encode_values cimport MOST_NUMBERS, Encoder
from orcstream.codec.vectors._texts cimport TextRows, cut, text_at

from orcstream.codec.metadata.structure import StreamKind

cdef enum:
    BLOCK = 1024  # lengths at a time
    # When a dictionary has to show that it pays: after so many rows, or bytes, at the latest.
    TRIAL_ROWS = 10000
    TRIAL_BYTES = 1048576
    # Where streams stand in `streams`: all bytes one after the other, the length of each, numbers of a dictionary.
    DATA = 1
    LENGTHS = 2
    NUMBERS = 3


cdef int _refuse() except -1 with gil:
    raise ValueError("a text lies beyond its buffer")


cdef void _rows_of(TextRows* texts, const Source* source, const Rows* rows) noexcept nogil:
    """Rows of a source as texts."""
    cdef const Source* entries = source if source.dictionary == NULL else source.dictionary
    texts.ends = <const int32_t*> entries.data
    texts.data = entries.more
    texts.data_bytes = entries.more_bytes
    texts.positions = rows.positions
    texts.first = source.offset + (0 if rows.positions != NULL else rows.first)
    texts.count = rows.count
    if source.dictionary == NULL:
        texts.indexes = NULL
        texts.base = 0
        texts.size = source.offset + source.length
    else:
        texts.indexes = <const int32_t*> source.data
        texts.base = entries.offset
        texts.size = entries.length


cdef class BinaryEncoder(ColumnEncoder):
    """Binaries: all bytes in the second stream, the length of each in the third. Recorded are their bytes together."""

    cdef int put(self, const Source* source, const Rows* rows) except -1 nogil:
        cdef TextRows texts
        _rows_of(&texts, source, rows)
        if self.filter_bytes:
            self.bloom_texts(&texts)
        self.tally.total += self.put_texts(&texts)
        return 0

    cdef int64_t put_texts(self, const TextRows* texts) except -1 nogil:
        """Append texts as they are; answers how many bytes they have together."""
        cdef int64_t[BLOCK] lengths
        cdef int64_t all_bytes = 0
        cdef Py_ssize_t done = 0, size, index
        cdef const uint8_t* begin = NULL
        cdef const uint8_t* text = NULL
        cdef Py_ssize_t length = 0, total = 0  # of texts that follow each other from `begin` on
        while done < texts.count:
            size = min(texts.count - done, <Py_ssize_t> BLOCK)
            for index in range(size):
                if not text_at(texts, done + index, &text, &length):
                    _refuse()
                lengths[index] = length
                all_bytes += length
                if text != begin + total:
                    if total:
                        (<Encoder> self.stream_pointers[DATA]).put_bytes(begin, total)
                    begin = text
                    total = 0
                total += length
            (<Encoder> self.stream_pointers[LENGTHS]).put_bytes(<const uint8_t*> lengths, size)
            done += size
        if total:
            (<Encoder> self.stream_pointers[DATA]).put_bytes(begin, total)
        return all_bytes

    cdef int bloom_texts(self, const TextRows* texts) except -1 nogil:
        cdef const uint8_t* text = NULL
        cdef Py_ssize_t length = 0, index
        for index in range(texts.count):
            if not text_at(texts, index, &text, &length):
                _refuse()
            self.bloom(byte_hash(text, length))
        return 0

    cdef tuple found(self, const Tally* tally):
        return None, None, whole(tally.total)


@cython.final
cdef class TextEncoder(BinaryEncoder):
    """Texts, from a dictionary where that pays, for which there is a fourth stream.

    The first row group goes into a dictionary on trial. Where its texts are of few different values, at most `threshold`
    of all, the stripe keeps it, else they are encoded directly (as ORC Java decides, early). A dictionary is sorted when
    the stripe ends, which makes it compress better; so the entry numbers of all rows are held until then, in
    four bytes each. Of texts with `pad_to`, which are CHAR, that many characters are written, blanks at the end.
    """

    cdef DictionaryBuilder dictionary
    cdef double threshold
    cdef Py_ssize_t pad_to
    cdef object dictionary_encoding
    cdef bint has_dictionary
    cdef bint is_settled
    cdef Py_ssize_t dictionary_size
    # Entry numbers of all rows that have a value, and how many of them stand before each row group.
    cdef Block held_numbers
    cdef Py_ssize_t held_count
    cdef Block group_starts
    # The open group's bounds, and what rows at hand take.
    cdef Block open_bounds
    cdef Block padded
    cdef Block padded_ends
    cdef Block seen

    def __init__(self, *args, dictionary_encoding, double threshold, Py_ssize_t pad_to=0, **kwargs):
        super().__init__(*args, **kwargs)
        self.number_count = 2 * MOST_NUMBERS
        self.dictionary_encoding = dictionary_encoding
        self.threshold = threshold
        self.pad_to = pad_to
        self.dictionary = DictionaryBuilder()
        self.has_dictionary = threshold > 0
        self.is_settled = not self.has_dictionary
        widen_block(&self.open_bounds, 0, 2 * MOST_BOUND_BYTES)

    def __dealloc__(self):
        give_block(&self.held_numbers)
        give_block(&self.group_starts)
        give_block(&self.open_bounds)
        give_block(&self.padded)
        give_block(&self.padded_ends)
        give_block(&self.seen)

    @property
    def encoded_as(self):
        return (self.dictionary_encoding if self.has_dictionary else self.encoding), self.dictionary_size

    def written(self):
        kinds = {StreamKind.PRESENT: (0, 0, 3)} if self.has_nulls else {}
        if self.has_dictionary:
            kinds |= {StreamKind.DATA: (NUMBERS, 3, 2), StreamKind.DICTIONARY_DATA: (DATA, 0, 0)}
            kinds |= {StreamKind.LENGTH: (LENGTHS, 0, 0)}
        else:
            kinds |= {StreamKind.DATA: (DATA, 3, 1), StreamKind.LENGTH: (LENGTHS, 4, 2)}
        return [(kind, self.streams[index][1].out, at, count) for kind, (index, at, count) in kinds.items()]

    cdef int places(self, int64_t* numbers) except -1 nogil:
        """Numbers of a dictionary have their places only when the stripe ends; then these are written over."""
        self.present.place(numbers)
        (<Encoder> self.stream_pointers[DATA]).place(numbers + MOST_NUMBERS)
        (<Encoder> self.stream_pointers[LENGTHS]).place(numbers + MOST_NUMBERS + 1)
        if self.has_dictionary:
            widen_block(&self.group_starts, 8 * self.group_count, 8 * (self.group_count + 1))
            (<int64_t*> self.group_starts.ptr)[self.group_count] = self.held_count
        return 0

    cdef int put(self, const Source* source, const Rows* rows) except -1 nogil:
        cdef TextRows texts
        _rows_of(&texts, source, rows)
        if self.pad_to:
            self._pad(&texts)
        if self.filter_bytes:
            self.bloom_texts(&texts)
        if self.has_dictionary:
            return self._put_numbers(&texts)
        if not tally_texts(&self.tally, &texts, self.open_bounds.ptr):
            _refuse()
        self.put_texts(&texts)
        return 0

    cdef int _put_numbers(self, const TextRows* texts) except -1 nogil:
        cdef int64_t* numbers
        cdef int32_t* held
        cdef Py_ssize_t index
        widen_block(&self.scratch, 0, 8 * texts.count)
        numbers = <int64_t*> self.scratch.ptr
        self.dictionary.number(texts, numbers)
        self._record(numbers, texts.count)
        widen_block(&self.held_numbers, 4 * self.held_count, 4 * (self.held_count + texts.count))
        held = <int32_t*> self.held_numbers.ptr + self.held_count
        for index in range(texts.count):
            held[index] = <int32_t> numbers[index]
        self.held_count += texts.count
        if self.held_count >= TRIAL_ROWS or self.dictionary.data_bytes >= TRIAL_BYTES:
            self._settle()
        return 0

    cdef int _record(self, const int64_t* numbers, Py_ssize_t count) except -1 nogil:
        """Statistics of entries, of which each is compared once."""
        cdef Py_ssize_t index, entry, least = -1, largest = -1
        cdef const uint8_t* text = NULL
        widen_block(&self.seen, 0, self.dictionary.count)
        memset(self.seen.ptr, 0, self.dictionary.count)
        for index in range(count):
            entry = numbers[index]
            self.tally.total += self.dictionary.text(entry, &text)
            if self.seen.ptr[entry]:
                continue
            self.seen.ptr[entry] = 1
            if least < 0 or self.dictionary.compare(entry, least) < 0:
                least = entry
            if largest < 0 or self.dictionary.compare(entry, largest) > 0:
                largest = entry
        index = self.dictionary.text(least, &text)
        note_text(&self.tally, text, index, self.open_bounds.ptr)
        index = self.dictionary.text(largest, &text)
        note_text(&self.tally, text, index, self.open_bounds.ptr)
        return 0

    cdef int end(self) except -1 nogil:
        cdef Py_ssize_t used = self.bounds_bytes
        if self.held_count:
            self._settle()
        if self.tally.has_bounds:
            self.tally.text_at = used
            widen_block(&self.bounds, used, used + self.tally.least_bytes + self.tally.largest_bytes)
            memcpy(self.bounds.ptr + used, self.open_bounds.ptr, self.tally.least_bytes)
            used += self.tally.least_bytes
            memcpy(self.bounds.ptr + used, self.open_bounds.ptr + MOST_BOUND_BYTES, self.tally.largest_bytes)
            self.bounds_bytes = used + self.tally.largest_bytes
        return ColumnEncoder.end(self)

    cdef int _settle(self) except -1 nogil:
        """Decide between dictionary and direct encoding, once."""
        cdef const int32_t* held = <const int32_t*> self.held_numbers.ptr
        if self.is_settled:
            return 0
        self.is_settled = True
        if self.dictionary.count <= self.threshold * self.held_count:
            return 0
        self.has_dictionary = False
        # Row groups that have begun already have their places at the streams' start.
        self._put_entries(held, self.held_count)
        self.held_count = 0
        give_block(&self.held_numbers)
        give_block(&self.group_starts)
        self.dictionary.free()
        return 0

    cdef int _put_entries(self, const int32_t* numbers, Py_ssize_t count) except -1 nogil:
        cdef int64_t[BLOCK] lengths
        cdef Py_ssize_t done = 0, size, index
        cdef const uint8_t* text = NULL
        while done < count:
            size = min(count - done, <Py_ssize_t> BLOCK)
            for index in range(size):
                lengths[index] = self.dictionary.text(numbers[done + index], &text)
                (<Encoder> self.stream_pointers[DATA]).put_bytes(text, lengths[index])
            (<Encoder> self.stream_pointers[LENGTHS]).put_bytes(<const uint8_t*> lengths, size)
            done += size
        return 0

    cdef int close_values(self) except -1 nogil:
        cdef int64_t* ranks
        cdef int64_t* lengths
        cdef uint8_t* data
        cdef Py_ssize_t count = self.dictionary.count
        self._settle()
        if not self.has_dictionary:
            return 0
        self.dictionary_size = count
        widen_block(&self.scratch, 0, 16 * count + self.dictionary.data_bytes)
        ranks = <int64_t*> self.scratch.ptr
        lengths = ranks + count
        data = <uint8_t*> (lengths + count)
        self.dictionary.sort_into(ranks, lengths, data)
        self._put_ranks(ranks)
        (<Encoder> self.stream_pointers[DATA]).put_bytes(data, self.dictionary.data_bytes)
        (<Encoder> self.stream_pointers[LENGTHS]).put_bytes(<const uint8_t*> lengths, count)
        give_block(&self.held_numbers)
        give_block(&self.group_starts)
        self.held_count = 0
        self.dictionary.free()
        return 0

    cdef int _put_ranks(self, const int64_t* ranks) except -1 nogil:
        """The rows of all row groups, which have their places only now."""
        cdef const int64_t* starts = <const int64_t*> self.group_starts.ptr
        cdef const int32_t* held = <const int32_t*> self.held_numbers.ptr
        cdef int64_t* numbers = <int64_t*> self.numbers.ptr
        cdef int64_t[BLOCK] block
        cdef Py_ssize_t group, done, stop, size, index
        for group in range(self.group_count):
            (<Encoder> self.stream_pointers[NUMBERS]).place(numbers + group * self.number_count + MOST_NUMBERS)
            done = starts[group]
            stop = starts[group + 1] if group + 1 < self.group_count else self.held_count
            while done < stop:
                size = min(stop - done, <Py_ssize_t> BLOCK)
                for index in range(size):
                    block[index] = ranks[held[done + index]]
                (<Encoder> self.stream_pointers[NUMBERS]).put_bytes(<const uint8_t*> block, size)
                done += size
        return 0

    cdef int _pad(self, TextRows* texts) except -1 nogil:
        """Texts as files hold those of CHAR: blanks at the end, as many as there is room for, and no more characters."""
        cdef const uint8_t* text = NULL
        cdef Py_ssize_t length = 0, kept, have = 0, index, total = 0
        widen_block(&self.padded_ends, 0, 4 * (texts.count + 1))
        (<int32_t*> self.padded_ends.ptr)[0] = 0
        for index in range(texts.count):
            if not text_at(texts, index, &text, &length):
                _refuse()
            kept = cut(text, length, self.pad_to, True, &have)
            length = kept + self.pad_to - have
            if total + length > INT32_MAX:
                with gil:
                    raise OverflowError("texts of more than 31 bits")
            widen_block(&self.padded, total, total + length)
            memcpy(self.padded.ptr + total, text, kept)
            memset(self.padded.ptr + total + kept, c" ", length - kept)
            total += length
            (<int32_t*> self.padded_ends.ptr)[index + 1] = <int32_t> total
        texts.ends = <const int32_t*> self.padded_ends.ptr
        texts.data = self.padded.ptr
        texts.data_bytes = total
        texts.indexes = texts.positions = NULL
        texts.base = texts.first = 0
        texts.size = texts.count
        return 0

    cdef int rest(self) noexcept nogil:
        give_block(&self.padded)
        give_block(&self.padded_ends)
        give_block(&self.seen)
        return ColumnEncoder.rest(self)

    cdef int64_t own_held(self) noexcept nogil:
        cdef int64_t total = self.held_numbers.nbytes + self.group_starts.nbytes
        return total + self.dictionary.held() if self.has_dictionary else total

    cdef int64_t own_size(self) noexcept nogil:
        """What the dictionary and the numbers will take."""
        cdef int width = 1
        if not self.has_dictionary:
            return 0
        while (<Py_ssize_t> 1 << width) < self.dictionary.count:
            width += 1
        return self.dictionary.data_bytes + self.held_count * width // 8

    cdef tuple found(self, const Tally* tally):
        cdef const char* texts = <const char*> self.bounds.ptr + tally.text_at
        cdef Py_ssize_t stop = tally.least_bytes + tally.largest_bytes
        if not tally.has_bounds:
            return None, None, 0
        return texts[: tally.least_bytes], texts[tally.least_bytes : stop], whole(tally.total)
