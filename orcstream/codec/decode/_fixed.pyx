"""Decoders of columns of fixed width: numbers, booleans, dates and times.

TIMESTAMP is naive wall clock: what the writer's clock showed, whatever its zone. TIMESTAMP_INSTANT is a point in time.
Specification: "Column Encodings"; ORC-306, ORC-763 and ORC-2151 for the times before 1970.
"""

cimport cython
from cpython.buffer cimport PyBUF_WRITE
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport int64_t, uint8_t, uint64_t

from orcstream._buffer cimport Block, Buffer, allocate, buffer_of, give_block, take_block
from orcstream.codec.decode._column cimport ColumnDecoder, Decoded, Taken, Turn, buffer_or_none
from orcstream.codec.streams._values cimport BoolValues, Varint128Values
from orcstream.codec.vectors._times cimport Clock, clock_of, read_dates, read_times
from orcstream.codec.vectors._vector cimport int128, narrow, pack, rescale, spread, widen

import numpy as np

from orcstream.codec.vectors.column import Vector
from orcstream.codec.vectors.times import JAVA_ZONES_BEGIN, UNITS, UTC, beyond_unit
from orcstream.schema.types import decimal_shape

cdef int64_t ZONES_BEGIN = JAVA_ZONES_BEGIN


cdef class FixedDecoder(ColumnDecoder):
    """A column of fixed width, from one or two streams that have one entry a value."""

    cdef Block work  # values on their way to rows

    def __dealloc__(self):
        give_block(&self.work)

    def __init__(self, type_, BoolValues present, values, *, Py_ssize_t row_bytes):
        ColumnDecoder.__init__(self, type_, present, values)
        self.row_bytes = row_bytes
        self.is_fixed = True

    cdef Py_ssize_t ready(
        self, Py_ssize_t count, const uint8_t* parent, Py_ssize_t budget, Turn turn
    ) except -1 nogil:
        count = self.see_values(self.first, self.see(count, parent, budget, turn), turn)
        return count if self.second is None else self.see_values(self.second, count, turn)

    cdef int take(self, Py_ssize_t count, Decoded out) except -1 nogil:
        cdef Taken* own = out.next()
        cdef Py_ssize_t values = self.begin(count, own)
        self.rows(count, values, &own.blocks[1])
        return self.end(count)

    cdef int rows(self, Py_ssize_t count, Py_ssize_t values, Block* out) except -1 nogil:
        """`count` rows from the next `values` values, with zeros where the mask has 0."""
        with gil:
            raise NotImplementedError

    cdef int spread_out(self, Py_ssize_t count, Block* out) except -1 nogil:
        """Rows of the values that are in `work`."""
        if self.mask == NULL:
            out[0] = self.work
            self.work.ptr = NULL
            return 0
        take_block(out, count * self.row_bytes)
        spread(self.work.ptr, self.mask, out.ptr, count, self.row_bytes)
        give_block(&self.work)
        return 0

    cdef object vector(self, Decoded found):
        cdef Taken* own = found.next()
        return Vector(own.rows, (buffer_or_none(&own.blocks[0]), buffer_of(&own.blocks[1])), own.nulls)


# --- numbers ---------------------------------------------------------------------------------------


@cython.final
cdef class BooleanDecoder(FixedDecoder):
    """Booleans, as an Arrow bitmap."""

    cdef int rows(self, Py_ssize_t count, Py_ssize_t values, Block* out) except -1 nogil:
        take_block(out, (count + 7) // 8)
        if self.mask == NULL:
            pack(self.first.pending(), count, out.ptr)
        else:
            take_block(&self.work, count)
            spread(self.first.pending(), self.mask, self.work.ptr, count, 1)
            pack(self.work.ptr, count, out.ptr)
            give_block(&self.work)
        return self.first.forget(values)


@cython.final
cdef class PlainDecoder(FixedDecoder):
    """Values that stand in their stream as Arrow wants them.

    Bytes, 64-bit integers, floating point numbers.
    """

    cdef int rows(self, Py_ssize_t count, Py_ssize_t values, Block* out) except -1 nogil:
        if self.mask == NULL:
            return self.first.hand_over(values, out)
        take_block(out, count * self.row_bytes)
        spread(self.first.pending(), self.mask, out.ptr, count, self.row_bytes)
        return self.first.forget(values)


@cython.final
cdef class IntegerDecoder(FixedDecoder):
    """Integers narrower than the 64 bits that run lengths are decoded to."""

    cdef int rows(self, Py_ssize_t count, Py_ssize_t values, Block* out) except -1 nogil:
        take_block(out, count * self.row_bytes)
        narrow(<const int64_t*> self.first.pending(), self.mask, out.ptr, count, self.row_bytes)
        return self.first.forget(values)


@cython.final
cdef class DecimalDecoder(FixedDecoder):
    """Decimals, as decimal128: varints with a scale each, or the integers of the decimal64 form."""

    cdef int precision
    cdef int scale

    def __init__(self, type_, BoolValues present, values):
        FixedDecoder.__init__(self, type_, present, values, row_bytes=16)
        self.precision, self.scale = decimal_shape(type_)
        if not 1 <= self.precision <= 38:
            raise ValueError("a precision is 1 to 38")

    cdef int rows(self, Py_ssize_t count, Py_ssize_t values, Block* out) except -1 nogil:
        cdef const int64_t* scales = NULL
        cdef uint64_t any = ~(<uint64_t> 0)
        give_block(&self.work)
        if self.second is None:
            take_block(&self.work, values * 16)
            widen(<const int64_t*> self.first.pending(), values, <int128*> self.work.ptr)
            self.first.forget(values)
        else:
            any = (<Varint128Values> self.first).any
            self.first.hand_over(values, &self.work)
            scales = <const int64_t*> self.second.pending()
        if rescale(<int128*> self.work.ptr, scales, values, self.scale, self.precision, any) >= 0:
            self._refuse()
        self.spread_out(count, out)
        return 0 if self.second is None else self.second.forget(values)

    cdef int _refuse(self) except -1 with gil:
        message = f"a value does not fit {self.precision} digits, {self.scale} of them decimals"
        return self.corrupt(message.encode(), -1, self.first)


# --- times -----------------------------------------------------------------------------------------


@cython.final
cdef class DateDecoder(FixedDecoder):
    """Dates, as days since 1970 in the proleptic Gregorian calendar."""

    cdef bint hybrid

    def __init__(self, type_, BoolValues present, values, *, bint hybrid):
        FixedDecoder.__init__(self, type_, present, values, row_bytes=4)
        self.hybrid = hybrid

    cdef int rows(self, Py_ssize_t count, Py_ssize_t values, Block* out) except -1 nogil:
        if self.hybrid:
            read_dates(<int64_t*> self.first.pending(), values)
        take_block(out, count * 4)
        narrow(<const int64_t*> self.first.pending(), self.mask, out.ptr, count, 4)
        return self.first.forget(values)


@cython.final
cdef class TimestampDecoder(FixedDecoder):
    """Timestamps of either kind, as int64 counts of the unit asked for.

    A point in time is the stored number and a constant. So an hour that the clock showed twice has two sets of
    values. Before 1900 points in time are made of wall clock times, as Java's are.
    """

    cdef Clock zone
    cdef Clock utc
    cdef object old_shift
    cdef object arrays
    cdef int64_t base_seconds
    cdef str unit

    def __init__(self, type_, BoolValues present, values, *, clock, bint hybrid, str unit):
        FixedDecoder.__init__(self, type_, present, values, row_bytes=8)
        self.old_shift = clock.old_shift
        self.base_seconds = clock.zone.base_seconds()
        self.unit = unit
        self.arrays = clock.zone  # which the clocks point into
        clock_of(&self.zone, clock.zone.transitions, clock.zone.offsets, hybrid, UNITS[unit])
        clock_of(&self.utc, UTC.transitions, UTC.offsets, False, UNITS[unit])

    cdef int rows(self, Py_ssize_t count, Py_ssize_t values, Block* out) except -1 nogil:
        cdef Py_ssize_t index
        give_block(&self.work)
        take_block(&self.work, values * 8)
        if self.old_shift is None:
            self._tell(values, &self.zone, <int64_t*> self.work.ptr)
        else:
            self._tell(values, &self.utc, <int64_t*> self.work.ptr)
            for index in range(values):
                if (<const int64_t*> self.work.ptr)[index] < ZONES_BEGIN * self.utc.unit:
                    self._shift(values)
                    break
        self.first.forget(values)
        self.second.forget(values)
        return self.spread_out(count, out)

    cdef int _tell(self, Py_ssize_t values, Clock* clock, int64_t* out) except -1 nogil:
        """By the clock and calendar of the zone; by that of UTC, as the points in time that are stored."""
        cdef bint beyond = False
        cdef Py_ssize_t bad = read_times(
            <const int64_t*> self.first.pending(),
            <const int64_t*> self.second.pending(),
            values,
            self.base_seconds,
            clock,
            out,
            &beyond,
        )
        if bad >= 0:
            self._refuse(beyond)
        return 0

    cdef int _refuse(self, bint beyond) except -1 with gil:
        if not beyond:
            return self.corrupt("nanoseconds beyond a second", -1, self.second)
        error = beyond_unit("a timestamp does", self.unit)
        raise error.locate(column=self.type.column_id, stream_kind=self.first.input.kind)

    cdef int _shift(self, Py_ssize_t values) except -1 with gil:
        """Points in time before 1900 by the clocks that they were taken from."""
        cdef Buffer clocks = allocate(values * 8)
        units = UNITS[self.unit]
        self._tell(values, &self.zone, <int64_t*> clocks.ptr)
        shown = np.frombuffer(clocks, np.int64)
        memory = PyMemoryView_FromMemory(<char*> self.work.ptr, values * 8, PyBUF_WRITE)
        instants = np.frombuffer(memory, np.int64)
        old = instants < JAVA_ZONES_BEGIN * units
        instants[old] = shown[old] + self.old_shift(shown[old] // units) * units
        return 0
