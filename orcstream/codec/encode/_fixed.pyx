"""Encoders of columns whose values are of a fixed width: numbers, dates and timestamps.

Know the encoding tables, and the statistics of such values. They work on blocks of values that fit a cache. Specification:
"Column Encodings", "Timestamp Columns".
"""

cimport cython
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from orcstream._buffer cimport Block, give_block, widen_block
from orcstream.codec.convert._format cimport DECIMAL_BYTES, put_decimal
from orcstream.codec.encode._column cimport ColumnEncoder
from orcstream.codec.encode._source cimport Rows, Source, gather
from orcstream.codec.encode._statistics cimport (
    Tally,
    int128,
    note,
    tally_decimals,
    tally_floats,
    tally_integers,
    whole,
    whole_of_halves,
)
from orcstream.codec.metadata._bloom cimport byte_hash, long_hash
from orcstream.codec._bitmaps cimport bit_at, count_ones
from orcstream.codec._bits cimport item64
from orcstream.codec.streams._encode_values cimport BoolEncoder, Encoder, IntegerEncoder
from orcstream.codec.vectors._calendar cimport floor_div
from orcstream.codec.vectors._times cimport Clock, clock_of, hybrid_days_of, hybrid_times_of, store_times, zone_offset

from orcstream.codec.vectors.times import JAVA_ZONES_BEGIN, UTC

cdef enum:
    BLOCK = 1024  # values at a time
    NANOS = 1000000000

cdef uint64_t NAN_BITS = 0x7ff8000000000000
cdef int64_t OLD_SECONDS = JAVA_ZONES_BEGIN


cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    /* The bits of a double, of which there is one NaN. */
    static inline uint64_t orc_double_bits(double x) {
        uint64_t bits;
        if (x != x) return 0x7ff8000000000000ull;
        memcpy(&bits, &x, 8);
        return bits;
    }
    """
    uint64_t double_bits "orc_double_bits"(double x) noexcept nogil


@cython.final
cdef class BooleanEncoder(ColumnEncoder):
    """Booleans; the second stream has their bits."""

    cdef BoolEncoder data

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.data = self.streams[1][1]

    cdef int put(self, const Source* source, const Rows* rows) except -1 nogil:
        cdef Py_ssize_t index
        if rows.positions == NULL:
            self.tally.total += count_ones(source.data, source.offset + rows.first, rows.count)
            return self.data.put_bitmap(source.data, source.offset + rows.first, rows.count)
        widen_block(&self.scratch, 0, rows.count)
        for index in range(rows.count):
            self.scratch.ptr[index] = bit_at(source.data, source.offset + rows.positions[index])
            self.tally.total += self.scratch.ptr[index]
        return self.data.put_bytes(self.scratch.ptr, rows.count)

    cdef tuple found(self, const Tally* tally):
        return None, None, whole(tally.total)


@cython.final
cdef class ByteColumnEncoder(ColumnEncoder):
    """Integers of 8 bits; the second stream has them."""

    cdef int put(self, const Source* source, const Rows* rows) except -1 nogil:
        cdef const int8_t* values = <const int8_t*> gather(source, rows, 1, &self.scratch)
        cdef Py_ssize_t index
        tally_integers(&self.tally, <const uint8_t*> values, rows.count, 1)
        if self.filter_bytes:
            for index in range(rows.count):
                self.bloom(long_hash(values[index]))
        return (<Encoder> self.stream_pointers[1]).put_bytes(<const uint8_t*> values, rows.count)

    cdef tuple found(self, const Tally* tally):
        return _integers(tally)


cdef tuple _integers(const Tally* tally):
    if not tally.has_bounds:
        return None, None, 0
    return whole(tally.least), whole(tally.largest), whole(tally.total)


ctypedef fused narrow_t:
    int16_t
    int32_t


cdef void _widen(const narrow_t* values, Py_ssize_t count, int64_t* out) noexcept nogil:
    cdef Py_ssize_t index
    for index in range(count):
        out[index] = values[index]


@cython.final
cdef class IntegerColumnEncoder(ColumnEncoder):
    """Integers and dates of `item_bytes` 2, 4 or 8; the second stream has them.

    Days of the `hybrid` calendar are recorded as such, too, as readers expect them.
    """

    cdef int item_bytes
    cdef bint hybrid
    cdef Block moved

    def __init__(self, *args, int item_bytes, bint hybrid=False, **kwargs):
        super().__init__(*args, **kwargs)
        if item_bytes not in (2, 4, 8) or (hybrid and item_bytes != 4):
            raise ValueError(f"integers of {item_bytes} bytes")
        self.item_bytes = item_bytes
        self.hybrid = hybrid

    def __dealloc__(self):
        give_block(&self.moved)

    cdef int put(self, const Source* source, const Rows* rows) except -1 nogil:
        cdef const uint8_t* values = gather(source, rows, self.item_bytes, &self.scratch)
        cdef Py_ssize_t done = 0, size
        cdef int64_t[BLOCK] wide
        if self.hybrid:
            widen_block(&self.moved, 0, 4 * rows.count)
            hybrid_days_of(<const int32_t*> values, rows.count, <int32_t*> self.moved.ptr)
            values = self.moved.ptr
        while done < rows.count:
            size = min(rows.count - done, <Py_ssize_t> BLOCK)
            self._put_block(values + done * self.item_bytes, size, wide)
            done += size
        return 0

    cdef int _put_block(self, const uint8_t* values, Py_ssize_t count, int64_t* wide) except -1 nogil:
        cdef const uint8_t* given = <const uint8_t*> wide
        cdef Py_ssize_t index
        tally_integers(&self.tally, values, count, self.item_bytes)
        if self.item_bytes == 2:
            _widen(<const int16_t*> values, count, wide)
        elif self.item_bytes == 4:
            _widen(<const int32_t*> values, count, wide)
        else:
            given = values
        if self.filter_bytes:
            for index in range(count):
                self.bloom(long_hash(item64(given, index)))
        return (<Encoder> self.stream_pointers[1]).put_bytes(given, count)

    cdef int rest(self) noexcept nogil:
        give_block(&self.moved)
        return ColumnEncoder.rest(self)

    cdef tuple found(self, const Tally* tally):
        return _integers(tally)


@cython.final
cdef class FloatEncoder(ColumnEncoder):
    """Floating point of `item_bytes` 4 or 8; the second stream has it."""

    cdef int item_bytes

    def __init__(self, *args, int item_bytes, **kwargs):
        super().__init__(*args, **kwargs)
        if item_bytes not in (4, 8):
            raise ValueError(f"floating point of {item_bytes} bytes")
        self.item_bytes = item_bytes

    cdef int put(self, const Source* source, const Rows* rows) except -1 nogil:
        cdef const uint8_t* values = gather(source, rows, self.item_bytes, &self.scratch)
        cdef Py_ssize_t index
        cdef double value = 0
        cdef float narrow = 0
        tally_floats(&self.tally, values, rows.count, self.item_bytes)
        if self.filter_bytes:
            for index in range(rows.count):
                if self.item_bytes == 4:
                    memcpy(&narrow, values + 4 * index, 4)
                    value = narrow
                else:
                    memcpy(&value, values + 8 * index, 8)
                self.bloom(long_hash(<int64_t> double_bits(value)))
        return (<Encoder> self.stream_pointers[1]).put_bytes(values, rows.count)

    cdef tuple found(self, const Tally* tally):
        return tally.least_float, tally.largest_float, tally.total_float


@cython.final
cdef class DecimalEncoder(ColumnEncoder):
    """Decimals; the second stream has them unscaled, and the third, if there is one, the scale of each.

    Without a third they are `short`: plain integers.
    """

    cdef int scale

    def __init__(self, *args, int scale, **kwargs):
        super().__init__(*args, **kwargs)
        if not 0 <= scale <= 38:
            raise ValueError("no decimal type")
        self.scale = scale

    cdef int put(self, const Source* source, const Rows* rows) except -1 nogil:
        cdef const uint8_t* values = gather(source, rows, 16, &self.scratch)
        tally_decimals(&self.tally, values, rows.count)
        if self.filter_bytes:
            self._bloom_all(values, rows.count)
        if self.stream_count == 2:
            return self._put_short(values, rows.count)
        (<Encoder> self.stream_pointers[1]).put_bytes(values, rows.count)
        return (<IntegerEncoder> self.stream_pointers[2]).repeat(self.scale, rows.count)

    cdef int _put_short(self, const uint8_t* values, Py_ssize_t count) except -1 nogil:
        cdef int64_t[BLOCK] low
        cdef Py_ssize_t done = 0, size, index
        while done < count:
            size = min(count - done, <Py_ssize_t> BLOCK)
            for index in range(size):
                low[index] = item64(values, 2 * (done + index))
            (<Encoder> self.stream_pointers[1]).put_bytes(<const uint8_t*> low, size)
            done += size
        return 0

    cdef int _bloom_all(self, const uint8_t* values, Py_ssize_t count) noexcept nogil:
        """By their shortest texts."""
        cdef uint8_t[DECIMAL_BYTES] text
        cdef int128 value
        cdef Py_ssize_t index
        for index in range(count):
            memcpy(&value, values + 16 * index, 16)
            self.bloom(byte_hash(text, put_decimal(text, value, self.scale) - text))
        return 0

    cdef tuple found(self, const Tally* tally):
        if not tally.has_bounds:
            return None, None, 0
        return whole(tally.least), whole(tally.largest), whole_of_halves(tally.total, tally.low)


# --- times -----------------------------------------------------------------------------------------


cdef class ZoneArrays:
    """The rules of a zone as C reads them, for as long as this is there."""

    cdef const int64_t[::1] transitions, offsets
    cdef Clock clock

    def __init__(self, rules, bint hybrid):
        self.transitions, self.offsets = rules.transitions, rules.offsets
        clock_of(&self.clock, self.transitions, self.offsets, hybrid, 1)


@cython.final
cdef class TimestampEncoder(ColumnEncoder):
    """Seconds since 2015 in the second stream, nanoseconds in the third; instants count in UTC whatever the zone is.

    Where a TIMESTAMP column is given instants, they are stored as such, so both passes through an hour that
    the zone's clock shows twice are told apart. Before 1900 they are converted by the wall clock, as in Java,
    whose calendars have the zone's `mean_time` then. Recorded are wall clocks, in the calendar of the file, as readers expect them.
    """

    cdef bint is_utc
    cdef bint hybrid
    cdef int64_t base_seconds
    cdef ZoneArrays zone, mean_time, utc

    def __init__(self, *args, zone, mean_time, bint hybrid, **kwargs):
        super().__init__(*args, **kwargs)
        self.is_utc = zone is UTC
        self.hybrid = hybrid
        self.base_seconds = zone.base_seconds()
        self.zone, self.mean_time, self.utc = (
            ZoneArrays(rules, hybrid) for rules in (zone, mean_time, UTC)
        )

    cdef int put(self, const Source* source, const Rows* rows) except -1 nogil:
        cdef const uint8_t* values = gather(source, rows, 8, &self.scratch)
        cdef Py_ssize_t done = 0, size
        self.zone.clock.unit = self.mean_time.clock.unit = self.utc.clock.unit = source.unit
        while done < rows.count:
            size = min(rows.count - done, <Py_ssize_t> BLOCK)
            self._put_block(values + 8 * done, size, source.unit, source.is_instant and not self.is_utc)
            done += size
        return 0

    cdef int _put_block(
        self, const uint8_t* given, Py_ssize_t count, int64_t unit, bint are_instants
    ) except -1 nogil:
        cdef int64_t[BLOCK] values, clocks, seconds, nanos
        memcpy(values, given, 8 * count)
        if not are_instants:
            self._record(values, count, unit)
            store_times(values, count, &self.zone.clock, self.base_seconds, seconds, nanos)
        else:
            self._clocks(values, count, unit, clocks)
            self._record(clocks, count, unit)
            self._store_instants(values, clocks, count, unit, seconds, nanos)
        (<Encoder> self.stream_pointers[1]).put_bytes(<const uint8_t*> seconds, count)
        return (<Encoder> self.stream_pointers[2]).put_bytes(<const uint8_t*> nanos, count)

    cdef void _clocks(self, const int64_t* instants, Py_ssize_t count, int64_t unit, int64_t* out) noexcept nogil:
        """What the clocks of the zone showed at these instants."""
        cdef Py_ssize_t index
        cdef int64_t second, shift
        for index in range(count):
            second = floor_div(instants[index], unit)
            shift = zone_offset(second, &self.mean_time.clock if second < OLD_SECONDS else &self.zone.clock)
            out[index] = <int64_t> (<uint64_t> instants[index] + <uint64_t> (unit * shift))

    cdef void _store_instants(
        self,
        const int64_t* instants,
        const int64_t* clocks,
        Py_ssize_t count,
        int64_t unit,
        int64_t* seconds,
        int64_t* nanos,
    ) noexcept nogil:
        cdef Py_ssize_t index
        store_times(instants, count, &self.utc.clock, self.base_seconds, seconds, nanos)
        for index in range(count):
            if floor_div(instants[index], unit) < OLD_SECONDS:
                store_times(
                    clocks + index, 1, &self.zone.clock, self.base_seconds, seconds + index, nanos + index
                )

    cdef void _record(self, const int64_t* clocks, Py_ssize_t count, int64_t unit) noexcept nogil:
        cdef int64_t[BLOCK] moved
        cdef int64_t least, largest
        cdef Py_ssize_t index
        if self.hybrid:
            hybrid_times_of(clocks, count, unit, moved)
            clocks = moved
        least = largest = clocks[0]
        for index in range(count):
            least = min(least, clocks[index])
            largest = max(largest, clocks[index])
        note(&self.tally, <int128> least * (NANOS // unit), <int128> largest * (NANOS // unit))
        if self.filter_bytes:
            for index in range(count):
                self.bloom(long_hash(_milliseconds(clocks[index], unit)))

    cdef tuple found(self, const Tally* tally):
        if not tally.has_bounds:
            return None, None, None
        return whole(tally.least), whole(tally.largest), None


cdef inline int64_t _milliseconds(int64_t time, int64_t unit) noexcept nogil:
    if unit == 1:
        return <int64_t> (<uint64_t> time * 1000)
    return floor_div(time, unit // 1000)
