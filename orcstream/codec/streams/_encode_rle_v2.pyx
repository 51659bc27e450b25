"""Integer run length version 2: the encoder, whose choices are those of ORC Java's RunLengthIntegerWriterV2.

Knows integers and the four forms of a run; the contract of an encoder stands in `_encode_values.pyx`. A run
is cut where three equal values begin, or after 512; runs of equal values are short repeats (3 to 10) or
deltas of 0, others are judged when they are complete. With `aligned`, widths of direct and delta runs are
those that divide evenly (1, 2, 4, whole bytes), which readers unpack faster (Java's encoding strategy SPEED,
its default). Only a base under 2^56 is patched, since it is sign-magnitude with at most 8 bytes.
Specification: "Integer Run Length Encoding, version 2".
"""

cimport cython
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from orcstream.codec.streams._encode_values cimport IntegerEncoder
from orcstream.codec.streams._out_stream cimport OutStream
from orcstream.codec._bits cimport (
    SLACK_BYTES,
    bit_length,
    fixed_bits,
    item64,
    put_varint,
    store_be64,
    width_code,
    width_of,
    zigzag,
)

cdef enum:
    RUN_VALUES = 512
    REPEAT_LEAST = 3
    REPEAT_MOST = 10
    MOST_PATCHES = 31
    # The largest is a direct run of 64 bits.
    RUN_BYTES = 2 + 8 * RUN_VALUES + 32 + SLACK_BYTES

cdef int64_t BASE_LIMIT = 72057594037927936  # 2^56


cdef int aligned_bits(int bits) noexcept nogil:
    if bits <= 2:
        return bits if bits else 1
    if bits <= 4:
        return 4
    return (bits + 7) // 8 * 8


cdef uint8_t* pack(const uint64_t* values, Py_ssize_t count, int width, uint8_t* out) noexcept nogil:
    """`count` values of `width` bits, big-endian, the last byte filled with zeros; stores up to 7 bytes more."""
    cdef Py_ssize_t index = 0, stop
    cdef int group, part, used = 0
    cdef int step = width >> 3
    cdef uint64_t word = 0, joined
    if width & 7 == 0:
        for index in range(count):
            store_be64(out, values[index] << (64 - width))
            out += step
        return out
    # The widest here is 30 bits. A few values are joined first, so that the chain through `word` is short; it
    # holds at most 7 bits from before.
    group = min(8, 57 // width)
    stop = count - count % group
    while index < stop:
        joined = values[index]
        for part in range(1, group):
            joined = (joined << width) | values[index + part]
        index += group
        word |= joined << (64 - used - width * group)
        used += width * group
        store_be64(out, word)
        out += used >> 3
        # Shifting by 64 is not defined, and all 64 bits may be used.
        word = (word << (used & 56)) if used < 64 else 0
        used &= 7
    while index < count:
        word |= values[index] << (64 - used - width)
        used += width
        store_be64(out, word)
        out += used >> 3
        word <<= used & 56
        used &= 7
        index += 1
    return out + 1 if used else out


cdef inline uint8_t* put_header(uint8_t* out, int kind, int code, Py_ssize_t count) noexcept nogil:
    out[0] = <uint8_t> ((kind << 6) | (code << 1) | ((count - 1) >> 8))
    out[1] = <uint8_t> ((count - 1) & 0xFF)
    return out + 2


cdef inline uint8_t* put_big_endian(uint8_t* out, uint64_t value, int width) noexcept nogil:
    cdef int shift
    for shift in range(8 * width - 8, -8, -8):
        out[0] = <uint8_t> (value >> shift)
        out += 1
    return out


cdef uint8_t* encode_repeat(int64_t value, Py_ssize_t count, bint signed, uint8_t* out) noexcept nogil:
    """3 to 512 times the same value."""
    cdef uint64_t number = zigzag(value) if signed else <uint64_t> value
    cdef int width
    if count <= REPEAT_MOST:
        width = max(1, (bit_length(number) + 7) // 8)
        out[0] = <uint8_t> (((width - 1) << 3) | (count - REPEAT_LEAST))
        return put_big_endian(out + 1, number, width)
    out = put_header(out, 3, 0, count)
    out = put_varint(out, number)
    out[0] = 0
    return out + 1


cdef inline bint fits_difference(int64_t most, int64_t least) noexcept nogil:
    """Whether most - least is less than 2^63."""
    return least >= 0 or most < 0 or (<uint64_t> most - <uint64_t> least) >> 63 == 0


cdef bint is_monotonic(const int64_t* values, Py_ssize_t count) noexcept nogil:
    """Only rising or only falling, with a first step that tells which."""
    cdef Py_ssize_t index
    if values[0] < values[1]:
        for index in range(2, count):
            if values[index - 1] > values[index]:
                return False
        return True
    if values[0] > values[1]:
        for index in range(2, count):
            if values[index - 1] < values[index]:
                return False
        return True
    return False


cdef uint8_t* encode_delta(
    const int64_t* values, Py_ssize_t count, bint signed, bint aligned, uint8_t* out
) noexcept nogil:
    """At least 4 values that `is_monotonic`, none of whose differences overflows."""
    cdef uint64_t[RUN_VALUES] steps
    cdef bint rising = values[0] < values[1]
    cdef uint64_t first, step, all_bits = 0, varying = 0
    cdef Py_ssize_t index
    cdef int width
    first = <uint64_t> values[1] - <uint64_t> values[0]
    if not rising:
        first = 0 - first
    for index in range(2, count):
        step = <uint64_t> values[index] - <uint64_t> values[index - 1]
        if not rising:
            step = 0 - step
        steps[index - 2] = step
        all_bits |= step
        varying |= step ^ first
    width = fixed_bits(bit_length(all_bits))
    if aligned:
        width = aligned_bits(width)
    # The code of 1 bit means none here: fixed deltas.
    width = max(width, 2)
    out = put_header(out, 3, width_code(width) if varying else 0, count)
    out = put_varint(out, zigzag(values[0]) if signed else <uint64_t> values[0])
    out = put_varint(out, zigzag(<int64_t> first if rising else <int64_t> (0 - first)))
    return pack(steps, count - 2, width, out) if varying else out


cdef bint has_outliers(const uint64_t* numbers, Py_ssize_t count, int width) noexcept nogil:
    """Whether the 90th percentile of the widths is narrower than the widest, `width`, by more than one bit."""
    # As Java calculates it: 1.0 - 0.9 is a little less than 0.1, so 10 values have no outlier.
    cdef Py_ssize_t allowed = <Py_ssize_t> (count * (1.0 - 0.9))
    cdef Py_ssize_t wide = 0, index = 0, stop
    cdef int narrow
    if width <= 2:
        return False
    # The widest width of the table that is narrower by two bits or more.
    narrow = width - 2 if width <= 24 else width_of(width_code(width) - 1)
    while index < count:
        stop = min(count, index + 64)
        while index < stop:
            wide += (numbers[index] >> narrow) != 0
            index += 1
        if wide > allowed:
            return False
    return True


cdef int percentile_95(const uint64_t* numbers, Py_ssize_t count) noexcept nogil:
    cdef int[32] histogram
    cdef Py_ssize_t index, left = <Py_ssize_t> (count * (1.0 - 0.95))
    cdef int code
    for code in range(32):
        histogram[code] = 0
    for index in range(count):
        histogram[width_code(fixed_bits(bit_length(numbers[index])))] += 1
    for code in range(31, -1, -1):
        left -= histogram[code]
        if left < 0:
            return width_of(code)
    return 1


cdef uint8_t* encode_patched(const int64_t* values, Py_ssize_t count, uint8_t* out) noexcept nogil:
    """A run whose 5 percent widest values over the least one are patched; NULL where that gains nothing."""
    cdef uint64_t[RUN_VALUES] reduced
    cdef int64_t least = values[0], most = values[0]
    cdef Py_ssize_t index
    cdef int width, widest
    for index in range(1, count):
        least = min(least, values[index])
        most = max(most, values[index])
    if not fits_difference(most, least) or least <= -BASE_LIMIT or least >= BASE_LIMIT:
        return NULL
    for index in range(count):
        reduced[index] = <uint64_t> values[index] - <uint64_t> least
    width = percentile_95(reduced, count)
    widest = fixed_bits(bit_length(<uint64_t> most - <uint64_t> least))
    if width == widest:
        return NULL
    return put_patched(reduced, count, least, width, fixed_bits(widest - width), out)


cdef uint8_t* put_patched(
    uint64_t* reduced, Py_ssize_t count, int64_t least, int width, int patch_width, uint8_t* out
) noexcept nogil:
    cdef uint64_t[MOST_PATCHES] entries
    cdef Py_ssize_t index, before = 0, gap, widest_gap = 0
    cdef int patches = 0, gap_width, base_bytes
    cdef uint64_t mask, base
    if patch_width == 64:  # a gap has to fit beside it
        patch_width = 56
        width = 8
    mask = ((<uint64_t> 1) << width) - 1
    # At most 25 values are above the mask, and two more entries carry a gap on.
    for index in range(count):
        if reduced[index] > mask:
            gap = index - before
            before = index
            widest_gap = max(widest_gap, gap)
            while gap > 255:
                entries[patches] = (<uint64_t> 255) << patch_width
                patches += 1
                gap -= 255
            entries[patches] = (<uint64_t> gap << patch_width) | (reduced[index] >> width)
            patches += 1
            reduced[index] &= mask
    gap_width = min(8, max(1, bit_length(widest_gap)))
    base = <uint64_t> least if least >= 0 else 0 - <uint64_t> least
    base_bytes = fixed_bits(bit_length(base)) // 8 + 1  # one bit more, for the sign
    out = put_header(out, 2, width_code(width), count)
    out[0] = <uint8_t> (((base_bytes - 1) << 5) | width_code(patch_width))
    out[1] = <uint8_t> (((gap_width - 1) << 5) | patches)
    if least < 0:
        base |= (<uint64_t> 1) << (8 * base_bytes - 1)
    out = put_big_endian(out + 2, base, base_bytes)
    out = pack(reduced, count, width, out)
    return pack(entries, patches, fixed_bits(gap_width + patch_width), out)


cdef uint8_t* encode_varying(
    const int64_t* values, Py_ssize_t count, bint signed, bint aligned, uint8_t* out
) noexcept nogil:
    """1 to 512 values of which no three in a row are equal, as a delta, patched or direct run."""
    cdef uint64_t[RUN_VALUES] numbers
    cdef uint8_t* end
    cdef uint64_t all_bits = 0
    cdef Py_ssize_t index
    cdef int width
    if count > REPEAT_LEAST and is_monotonic(values, count):
        if fits_difference(max(values[0], values[count - 1]), min(values[0], values[count - 1])):
            return encode_delta(values, count, signed, aligned, out)
    if signed:
        for index in range(count):
            numbers[index] = zigzag(values[index])
            all_bits |= numbers[index]
    else:
        for index in range(count):
            numbers[index] = <uint64_t> values[index]
            all_bits |= numbers[index]
    width = fixed_bits(bit_length(all_bits))
    if count > REPEAT_LEAST and has_outliers(numbers, count, width):
        end = encode_patched(values, count, out)
        if end != NULL:
            return end
    if aligned:
        width = aligned_bits(width)
    out = put_header(out, 1, width_code(width), count)
    return pack(numbers, count, width, out)


@cython.final
cdef class IntEncoder(IntegerEncoder):
    """Integers of run length version 2. A stream must be decoded with the same `signed`."""

    cdef bint repeating      # all values of the open run are equal
    cdef bint aligned
    cdef int64_t[RUN_VALUES] pending

    def __cinit__(self, OutStream out, *, bint signed, bint aligned=True):
        self.out = out
        self.item_bytes = 8
        self.longest = RUN_BYTES
        self.signed = signed
        self.aligned = aligned

    cdef uint8_t* emit(self, uint8_t* out) noexcept nogil:
        cdef Py_ssize_t count = self.held
        self.held = 0
        if self.repeating and count >= REPEAT_LEAST:
            return encode_repeat(self.pending[0], count, self.signed, out)
        return encode_varying(self.pending, count, self.signed, self.aligned, out)

    cdef Py_ssize_t encode(
        self, const uint8_t* values, Py_ssize_t count, uint8_t* out, uint8_t* stop, uint8_t** end
    ) noexcept nogil:
        cdef Py_ssize_t at = 0
        while at < count and stop - out >= RUN_BYTES:
            if self.held == 0:
                self.pending[0] = item64(values, at)
                at += 1
                self.held = 1
                self.repeating = True
            if self.repeating:
                at = self._take_equal(values, at, count)
                if self.held == RUN_VALUES or (at < count and self.held >= REPEAT_LEAST):
                    out = self.emit(out)
                elif at < count:
                    self.pending[self.held] = item64(values, at)
                    self.held += 1
                    at += 1
                    self.repeating = False
            else:
                at = self._take_varying(values, at, count)
                if self.repeating:
                    # Three equal values end the run before them and begin one of their own.
                    self.held -= REPEAT_LEAST
                    out = encode_varying(self.pending, self.held, self.signed, self.aligned, out)
                    self.pending[0] = item64(values, at - 1)
                    self.held = REPEAT_LEAST
                elif self.held == RUN_VALUES:
                    out = self.emit(out)
        end[0] = out
        return at

    cdef Py_ssize_t _take_equal(
        self, const uint8_t* values, Py_ssize_t at, Py_ssize_t count
    ) noexcept nogil:
        """Values that are equal to the first pending one, up to a whole run; answers where others begin."""
        cdef int64_t value = self.pending[0]
        cdef Py_ssize_t start = at
        cdef Py_ssize_t stop = min(count, at + RUN_VALUES - self.held)
        while at < stop and item64(values, at) == value:
            at += 1
        self.held += at - start
        self.pending[1] = value  # read again only when there are two and others follow
        return at

    cdef Py_ssize_t _take_varying(
        self, const uint8_t* values, Py_ssize_t at, Py_ssize_t count
    ) noexcept nogil:
        """Values up to a whole run, or up to the third equal one in a row, when `repeating` is set."""
        cdef Py_ssize_t held = self.held, start = at
        cdef Py_ssize_t stop = min(count, at + RUN_VALUES - held)
        cdef int64_t value, last = self.pending[held - 1]
        # What changes from value to value; two times nothing in a row ends the run.
        cdef int64_t change, before = self.pending[held - 2] ^ last if held >= 2 else 1
        while at < stop:
            value = item64(values, at)
            at += 1
            change = value ^ last
            if not change | before:
                self.repeating = True
                break
            before = change
            last = value
        memcpy(self.pending + held, values + 8 * start, 8 * (at - start))
        self.held = held + at - start
        return at
