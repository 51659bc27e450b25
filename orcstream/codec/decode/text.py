"""Decoders of strings and binaries, direct and from a dictionary.

Know lengths, offsets, dictionaries and UTF-8. A dictionary is loaded once for its stripe and is bounded
by the turn's limit. CHAR values are given as they are stored (writers differ in whether they pad).
Specification: "String, Char, and VarChar Columns", "Binary Columns".
"""

from __future__ import annotations

from collections.abc import Sequence

from orcstream._buffer import Buffer, zeroed
from orcstream.codec.decode.decoder import ColumnDecoder, Turn
from orcstream.codec.streams._values import BoolValues, IntValues, RawValues, Values
from orcstream.codec.vectors._vector import (
    count_up,
    fit_entries,
    gather_entries,
    invalid_utf8,
    last_offset,
    narrow,
    offsets_of,
)
from orcstream.codec.vectors.column import EMPTY, MAX_VECTOR_BYTES, Vector
from orcstream.errors import CorruptStream, FormatError, Unsupported
from orcstream.schema.types import Type


class _TextColumn(ColumnDecoder):
    """What direct and dictionary columns share: offsets are 4 bytes a row, and text is checked."""

    row_bytes = 4

    def __init__(
        self,
        type_: Type,
        present: BoolValues | None,
        values: Sequence[Values],
        *,
        validate: bool,
        dictionaries: bool,
    ) -> None:
        super().__init__(type_, present, values)
        self._validate = validate
        self._dictionaries = dictionaries

    def _check_text(self, offsets: Buffer, count: int, data: Buffer, *, rows: bool) -> None:
        if not self._validate:
            return
        bad = invalid_utf8(offsets, count, data)
        if bad >= 0:
            raise FormatError(
                f"no UTF-8: {'row' if rows else 'dictionary entry'} {bad} of what was decoded; "
                'read it with invalid_utf8="binary"',
                column=self.type.column_id,
                row=bad if rows else None,
            )


class TextDecoder(_TextColumn):
    """Direct encoding: lengths, and all bytes one after the other."""

    def __init__(
        self,
        type_: Type,
        present: BoolValues | None,
        lengths: IntValues,
        data: RawValues,
        *,
        validate: bool,
        dictionaries: bool,
    ) -> None:
        super().__init__(type_, present, (lengths, data), validate=validate, dictionaries=dictionaries)
        self._lengths = lengths
        self._data = data

    def ready(self, count: int, parent: Buffer | None, budget: int, turn: Turn) -> int:
        budget = min(budget, MAX_VECTOR_BYTES)
        count = self._see(count, parent, budget, turn)
        count = self._see_values(self._lengths, count, turn)
        rows, total = self._fit(self._lengths, self._mask, count, budget)
        have = turn.values(self._data, total)
        return rows if have == total else self._fit(self._lengths, self._mask, rows, have)[0]

    def take(self, count: int) -> Vector:
        validity, mask, values = self._take_mask(count)
        lengths = self._lengths.take(values)
        offsets = offsets_of(lengths, mask, count)
        data = self._data.take(last_offset(offsets, count))
        self._check_text(offsets, count, data, rows=True)
        nulls = count - values
        if not self._dictionaries:
            return Vector(count, (validity, offsets, data), nulls)
        # A dictionary of its own values, so that a column keeps one type where stripes differ in encoding.
        entries = Vector(values, (None, offsets_of(lengths, None, values), data), 0)
        return Vector(count, (validity, count_up(mask, count)), nulls, dictionary=entries)


class DictionaryDecoder(_TextColumn):
    """Dictionary encoding: the stripe's entries, and an index into them for each value."""

    def __init__(
        self,
        type_: Type,
        present: BoolValues | None,
        indexes: IntValues,
        lengths: IntValues,
        entries: RawValues,
        size: int,
        *,
        validate: bool,
        dictionaries: bool,
    ) -> None:
        own = (indexes, lengths, entries)
        super().__init__(type_, present, own, validate=validate, dictionaries=dictionaries)
        self._indexes = indexes
        self._lengths = lengths
        self._entries = entries
        self._size = size
        self._loaded: tuple[Buffer, Buffer] | None = None

    @property
    def dictionary_bytes(self) -> int:
        """What the loaded dictionary takes; 0 before."""
        return 0 if self._loaded is None else sum(part.nbytes for part in self._loaded)

    def ready(self, count: int, parent: Buffer | None, budget: int, turn: Turn) -> int:
        if not self._load(turn):
            return 0
        assert self._loaded is not None
        budget = min(budget, MAX_VECTOR_BYTES)
        count = self._see(count, parent, budget, turn)
        count = self._see_values(self._indexes, count, turn)
        limit = MAX_VECTOR_BYTES * count if self._dictionaries else budget
        rows, _, bad = fit_entries(self._indexes, self._mask, count, self._loaded[0], self._size, limit)
        if bad >= 0:
            message = f"an index beyond the {self._size} entries of the dictionary"
            raise self._located(CorruptStream(message, row=bad), self._indexes)
        return rows

    def _load(self, turn: Turn) -> bool:
        """Whether the dictionary is there; it is read whole, since its entries are accessed at random."""
        if self._loaded is not None:
            return True
        self._check_limit(4 * (self._size + 1), turn)
        if turn.values(self._lengths, self._size) < self._size:
            return False
        limit = min(turn.dictionary_limit, MAX_VECTOR_BYTES)
        entries, total = self._fit(self._lengths, None, self._size, limit)
        # Where not all lengths fit, their sum is beyond the limit, or beyond 31 bits, and may be beyond 64.
        fits = entries == self._size
        self._check_limit(4 * self._size + total if fits else turn.dictionary_limit + 1, turn)
        if turn.values(self._entries, total) < total:
            return False
        offsets = offsets_of(self._lengths.take(self._size), None, self._size)
        data = self._entries.take(total)
        self._check_text(offsets, self._size, data, rows=False)
        self._loaded = offsets, data
        turn.dictionary_limit -= self.dictionary_bytes
        return True

    def _check_limit(self, size: int, turn: Turn) -> None:
        if size > turn.dictionary_limit:
            message = (
                f"a dictionary of {self._size} entries and {size} bytes or more; dictionaries together "
                f"may take half of memory_limit, {turn.dictionary_limit} bytes are left; raise memory_limit="
            )
            raise self._located(Unsupported(message, reason="dictionary_too_large"), self._entries)

    def take(self, count: int) -> Vector:
        validity, mask, values = self._take_mask(count)
        # No row is ready before the dictionary is, but none may be wanted: of an empty list, of another tag.
        offsets, data = self._loaded or (zeroed(4), EMPTY)
        size = self._size if self._loaded else 0
        if self._dictionaries:
            indexes = narrow(self._indexes.take(values), mask, count, 4)
            entries = Vector(size, (None, offsets, data), 0)
            return Vector(count, (validity, indexes), count - values, dictionary=entries)
        _, total, _ = fit_entries(self._indexes, mask, count, offsets, size, MAX_VECTOR_BYTES)
        rows = gather_entries(self._indexes.take(values), mask, count, offsets, data, total)
        return Vector(count, (validity, *rows), count - values)
