"""Decoders of texts and bytes: direct, and by a dictionary.

CHAR values are given as they are stored (writers differ in whether they pad). Specification: "String, Char, and VarChar
Columns".
"""

cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t

from orcstream._buffer cimport Block, Buffer, buffer_of, give_block, take_block
from orcstream.codec.decode._column cimport ColumnDecoder, Decoded, Taken, Turn, buffer_or_none
from orcstream.codec.streams._values cimport BoolValues, Values
from orcstream.codec.vectors._vector cimport (
    fit_entries,
    gather_entries,
    invalid_utf8,
    narrow,
    number,
    rows_within,
    sum_up,
)

from orcstream._buffer import zeroed
from orcstream.codec.vectors.column import EMPTY, MAX_VECTOR_BYTES, Vector
from orcstream.errors import FormatError, Unsupported

cdef Py_ssize_t MOST_BYTES = MAX_VECTOR_BYTES
# The offsets of a dictionary that is not there.
cdef int32_t[1] NO_OFFSETS


cdef class TextColumn(ColumnDecoder):
    """What direct and dictionary columns share: offsets are 4 bytes a row, and text is checked."""

    cdef bint validate
    cdef bint dictionaries

    def __init__(self, type_, BoolValues present, values, *, bint validate, bint dictionaries):
        ColumnDecoder.__init__(self, type_, present, values)
        self.row_bytes = 4
        self.validate = validate
        self.dictionaries = dictionaries

    cdef Py_ssize_t bad_text(self, const int32_t* offsets, Py_ssize_t count, const uint8_t* data) noexcept nogil:
        """The first text that is no UTF-8 where that is asked for; else -1."""
        return invalid_utf8(offsets, count, data) if self.validate else -1

    cdef int refuse_text(self, Py_ssize_t bad, bint is_rows) except -1 with gil:
        raise FormatError(
            f"no UTF-8: {'row' if is_rows else 'dictionary entry'} {bad} of what was decoded; "
            'read it with invalid_utf8="binary"',
            column=self.type.column_id,
            row=bad if is_rows else None,
        )


@cython.final
cdef class TextDecoder(TextColumn):
    """Direct encoding: lengths, and all bytes one after the other."""

    cdef Py_ssize_t ready(
        self, Py_ssize_t count, const uint8_t* parent, Py_ssize_t budget, Turn turn
    ) except -1 nogil:
        cdef Py_ssize_t rows, total = 0, have
        budget = min(budget, MOST_BYTES)
        count = self.see_values(self.first, self.see(count, parent, budget, turn), turn)
        rows = self.fit(self.first, self.mask, count, budget, &total)
        have = turn.values(self.second, total)
        return rows if have == total else self.fit(self.first, self.mask, rows, have, &total)

    cdef int take(self, Py_ssize_t count, Decoded out) except -1 nogil:
        cdef Taken* own = out.next()
        cdef Py_ssize_t values = self.begin(count, own), total, bad
        cdef const int64_t* lengths = <const int64_t*> self.first.pending()
        # In a dictionary of their own, so that a column keeps one type where stripes differ in encoding, the rows that
        # have a value follow each other.
        cdef Py_ssize_t texts = values if self.dictionaries else count
        cdef int at = 2 if self.dictionaries else 1
        cdef const uint8_t* mask = self.mask
        if self.dictionaries:
            mask = NULL
        take_block(&own.blocks[at], (texts + 1) * 4)
        total = sum_up(lengths, mask, texts, <int32_t*> own.blocks[at].ptr)
        if total < 0:
            self.corrupt("lengths sum up to more than 31 bits", -1, self.first)
        self.second.hand_over(total, &own.blocks[at + 1])
        bad = self.bad_text(<const int32_t*> own.blocks[at].ptr, texts, own.blocks[at + 1].ptr)
        if bad >= 0:
            self.refuse_text(bad if texts == count else rows_within(self.mask, count, bad), True)
        if self.dictionaries:
            own.items = values
            take_block(&own.blocks[1], count * 4)
            number(self.mask, count, <int32_t*> own.blocks[1].ptr)
        self.first.forget(values)
        return self.end(count)

    cdef object vector(self, Decoded found):
        cdef Taken* own = found.next()
        validity, first = buffer_or_none(&own.blocks[0]), buffer_of(&own.blocks[1])
        second = buffer_of(&own.blocks[2])
        if not self.dictionaries:
            return Vector(own.rows, (validity, first, second), own.nulls)
        entries = Vector(own.items, (None, second, buffer_of(&own.blocks[3])), 0)
        return Vector(own.rows, (validity, first), own.nulls, dictionary=entries)


@cython.final
cdef class DictionaryDecoder(TextColumn):
    """Dictionary encoding: the stripe's entries, and an index into them for each value."""

    cdef Values lengths
    cdef Values entries
    cdef Py_ssize_t size
    # The dictionary, once it is there: memory, and whose that is.
    cdef bint is_loaded
    cdef const int32_t* starts
    cdef const uint8_t* data
    cdef Block offset_block
    cdef Block data_block
    cdef Buffer offset_buffer
    cdef Buffer data_buffer

    def __init__(
        self, type_, BoolValues present, values, Py_ssize_t size, *, bint validate, bint dictionaries
    ):
        indexes, self.lengths, self.entries = values
        TextColumn.__init__(self, type_, present, values, validate=validate, dictionaries=dictionaries)
        self.size = size
        self.starts = NO_OFFSETS

    def __dealloc__(self):
        give_block(&self.offset_block)
        give_block(&self.data_block)

    cdef Py_ssize_t ready(
        self, Py_ssize_t count, const uint8_t* parent, Py_ssize_t budget, Turn turn
    ) except -1 nogil:
        cdef Py_ssize_t rows, total = 0, bad = -1, limit = min(budget, MOST_BYTES)
        if not self._load(turn):
            return 0
        count = self.see_values(self.first, self.see(count, parent, limit, turn), turn)
        if self.dictionaries:
            limit = MOST_BYTES * count
        rows = fit_entries(
            <const int64_t*> self.first.pending(),
            self.first.stop - self.first.start,
            self.mask,
            count,
            self.starts,
            self.size,
            limit,
            &total,
            &bad,
        )
        if bad >= 0:
            self._refuse_index(bad)
        return rows

    cdef int _refuse_index(self, Py_ssize_t row) except -1 with gil:
        message = f"an index beyond the {self.size} entries of the dictionary"
        return self.corrupt(message.encode(), row, self.first)

    cdef bint _load(self, Turn turn) except -1 nogil:
        """Whether the dictionary is there; it is read whole, since its entries are accessed at random."""
        cdef Py_ssize_t limit, fitting, bad, total = 0
        if self.is_loaded:
            return True
        if self.size >= turn.dictionary_limit // 4:  # as 4 * (size + 1) > limit, which could wrap
            self._refuse_size(-1, turn)
        if turn.values(self.lengths, self.size) < self.size:
            return False
        limit = min(turn.dictionary_limit, MOST_BYTES)
        fitting = self.fit(self.lengths, NULL, self.size, limit, &total)
        # Where not all lengths fit, their sum is beyond the limit, or beyond 31 bits, and may be beyond 64.
        if fitting < self.size or 4 * self.size + total > turn.dictionary_limit:
            self._refuse_size(4 * self.size + total if fitting == self.size else turn.dictionary_limit + 1, turn)
        if turn.values(self.entries, total) < total:
            return False
        give_block(&self.offset_block)  # of an attempt that found no UTF-8
        give_block(&self.data_block)
        take_block(&self.offset_block, (self.size + 1) * 4)
        sum_up(<const int64_t*> self.lengths.pending(), NULL, self.size, <int32_t*> self.offset_block.ptr)
        self.lengths.forget(self.size)
        self.entries.hand_over(total, &self.data_block)
        bad = self.bad_text(<const int32_t*> self.offset_block.ptr, self.size, self.data_block.ptr)
        if bad >= 0:
            self.refuse_text(bad, False)
        self.starts = <const int32_t*> self.offset_block.ptr
        self.data = self.data_block.ptr
        self.is_loaded = True
        turn.dictionary_limit -= self.offset_block.nbytes + self.data_block.nbytes
        return True

    cdef int _refuse_size(self, Py_ssize_t bytes_, Turn turn) except -1 with gil:
        """`bytes_` is what the dictionary takes at least; negative where there is no room for its offsets alone."""
        size = 4 * (<object> self.size + 1) if bytes_ < 0 else bytes_
        message = (
            f"a dictionary of {self.size} entries and {size} bytes or more; dictionaries together "
            f"may take half of memory_limit, {turn.dictionary_limit} bytes are left; raise memory_limit="
        )
        error = Unsupported(message, reason="dictionary_too_large")
        raise error.locate(column=self.type.column_id, stream_kind=self.entries.input.kind)

    cdef int take(self, Py_ssize_t count, Decoded out) except -1 nogil:
        # No row is ready before the dictionary is, but none may be wanted: of an empty list, of another tag.
        cdef Taken* own = out.next()
        cdef Py_ssize_t values = self.begin(count, own), total = 0, bad = -1
        cdef const int64_t* indexes = <const int64_t*> self.first.pending()
        if self.dictionaries:
            own.items = self.size if self.is_loaded else 0
            take_block(&own.blocks[1], count * 4)
            narrow(indexes, self.mask, own.blocks[1].ptr, count, 4)
        else:
            fit_entries(indexes, values, self.mask, count, self.starts, self.size, MOST_BYTES, &total, &bad)
            take_block(&own.blocks[1], (count + 1) * 4)
            take_block(&own.blocks[2], total)
            gather_entries(
                indexes, self.mask, count, self.starts, self.data, <int32_t*> own.blocks[1].ptr, own.blocks[2].ptr
            )
        self.first.forget(values)
        return self.end(count)

    cdef object vector(self, Decoded found):
        cdef Taken* own = found.next()
        validity, first = buffer_or_none(&own.blocks[0]), buffer_of(&own.blocks[1])
        if not self.dictionaries:
            return Vector(own.rows, (validity, first, buffer_of(&own.blocks[2])), own.nulls)
        if self.offset_buffer is None and self.is_loaded:
            self.offset_buffer = buffer_of(&self.offset_block)
            self.data_buffer = buffer_of(&self.data_block)
        parts = (None, self.offset_buffer, self.data_buffer) if own.items else (None, zeroed(4), EMPTY)
        return Vector(own.rows, (validity, first), own.nulls, dictionary=Vector(own.items, parts, 0))
