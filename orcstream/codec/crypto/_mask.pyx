"""Kernels for what stands in a file instead of encrypted values: redacted texts and days, SHA-256 of values.

Know UTF-8, classes of characters (as a table that is handed in), the calendar of `java.util.GregorianCalendar` and FIPS
180-4. Must not know types, nor what the parameters of a mask look like. Texts come as Arrow offsets and bytes of any
origin: offsets are checked, and bytes that are no UTF-8 are characters of the last class, one each. What stands
beneath nulls is not looked at, and has an empty text in the answer. All loops run without the GIL.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from orcstream._buffer cimport Buffer, allocate
from orcstream.codec.vectors._calendar cimport SKIPPED_DAYS, Date, date_of, day_of, days_in, is_leap, is_skipped
from orcstream.codec._memory cimport View, bits_of, is_null, view_of

cdef enum:
    CLASSES = 10
    OTHER = CLASSES - 1
    CODE_POINTS = 0x110000
    BLOCK_BITS = 8
    MOST_BYTES = 0x7fffffff
    DIGEST_BYTES = 32
    CHUNK_BYTES = 64
    GREGORIAN_YEAR = 1582


cdef class Texts:
    """The texts of rows `first` up to `first + count`, and which of them are null."""

    cdef View offsets, data, bitmap
    cdef const int32_t* ends
    cdef const uint8_t* bits
    cdef Py_ssize_t first, count
    cdef bint trims

    def __cinit__(self, offsets, data, bitmap, Py_ssize_t first, Py_ssize_t count, bint trims):
        if first < 0 or count < 0:
            raise ValueError("no rows")
        self.offsets = view_of(offsets, first + count + 1 if count else 0, 4)
        self.data = view_of(data, 0, 1)
        self.ends = <const int32_t*> self.offsets.ptr + first
        self.bitmap = bits_of(bitmap, first + count)
        self.bits = self.bitmap.ptr
        self.first = first
        self.count = count
        self.trims = trims

    cdef Py_ssize_t at(self, Py_ssize_t row, const uint8_t** text) noexcept nogil:
        """The length of a text, without blanks at its end where these do not count; -1 where it is null, -2 where it
        is beyond the bytes."""
        cdef int64_t start = self.ends[row], stop = self.ends[row + 1]
        if is_null(self.bits, self.first + row):
            return -1
        if not 0 <= start <= stop <= self.data.nbytes:
            return -2
        text[0] = self.data.ptr + start
        if self.trims:
            while stop > start and self.data.ptr[stop - 1] == c" ":
                stop -= 1
        return stop - start


# --- texts -----------------------------------------------------------------------------------------


cdef struct Rules:
    const uint16_t* blocks      # of each 256 code points, where their classes begin, in blocks
    const uint8_t* classes
    uint8_t[CLASSES][4] written
    int[CLASSES] lengths        # 0: the class is kept
    const int64_t* ranges       # first and last index of what is kept; below 0 from the end
    Py_ssize_t range_count


cdef int written_length(int64_t point) noexcept nogil:
    return 1 if point < 0x80 else 2 if point < 0x800 else 3 if point < 0x10000 else 4


cdef void write_point(uint8_t* out, int64_t point, int length) noexcept nogil:
    cdef int index
    if length == 1:
        out[0] = <uint8_t> point
        return
    for index in range(length - 1, 0, -1):
        out[index] = <uint8_t> (0x80 | (point & 0x3f))
        point >>= 6
    out[0] = <uint8_t> ((0xf00 >> length) & 0xff | point)


cdef inline int class_at(const Rules* rules, const uint8_t* at, const uint8_t* end, int* size) noexcept nogil:
    """The class of the character that begins here, and its bytes."""
    cdef uint32_t point = at[0]
    cdef int length, index
    size[0] = 1
    if point >= 0x80:
        length = 2 if point >> 5 == 6 else 3 if point >> 4 == 14 else 4 if point >> 3 == 30 else 0
        if length == 0 or end - at < length:
            return OTHER
        point &= 0x7f >> length
        for index in range(1, length):
            if at[index] & 0xc0 != 0x80:
                return OTHER
            point = point << 6 | (at[index] & 0x3f)
        if point >= CODE_POINTS:
            return OTHER
        size[0] = length
    return rules.classes[(<uint32_t> rules.blocks[point >> BLOCK_BITS] << BLOCK_BITS) + (point & 0xff)]


cdef bint is_kept(const Rules* rules, int64_t index, int64_t length) noexcept nogil:
    cdef Py_ssize_t pair
    cdef int64_t start, stop
    for pair in range(rules.range_count):
        start, stop = rules.ranges[2 * pair], rules.ranges[2 * pair + 1]
        if (start if start >= 0 else length + start) <= index <= (stop if stop >= 0 else length + stop):
            return True
    return False


cdef Py_ssize_t redact(
    const Rules* rules, const uint8_t* text, Py_ssize_t length, uint8_t* out, Py_ssize_t room
) noexcept nogil:
    """Bytes of the redacted text, which is written where `out` is given; -1 where there is no room for it."""
    cdef const uint8_t* at = text
    cdef const uint8_t* end = text + length
    cdef Py_ssize_t done = 0
    cdef int64_t index = 0
    cdef int kind, size = 1, replaced
    while at < end:
        kind = class_at(rules, at, end, &size)
        replaced = rules.lengths[kind]
        if replaced and rules.range_count and is_kept(rules, index, length):
            replaced = 0
        if out != NULL:
            if room - done < (replaced if replaced else size):
                return -1
            if replaced == 0:
                memcpy(out + done, at, size)
            else:
                memcpy(out + done, &rules.written[kind][0], replaced)
        done += replaced if replaced else size
        at += size
        index += 1
    return done


def redact_texts(
    offsets,
    data,
    bitmap,
    Py_ssize_t first,
    Py_ssize_t count,
    const uint16_t[::1] blocks,
    const uint8_t[::1] classes,
    const int64_t[::1] replacements,
    const int64_t[::1] ranges,
    bint trims,
):
    """(offsets, bytes) of `count` texts, from row `first` on, whose characters are replaced by class.

    `blocks` and `classes` are the class of every code point, in blocks of 256. `replacements` has a code point for each
    of the ten classes, -1 where it is kept. `ranges` are pairs of the first and last character kept; numbers below 0
    count from the end of the text, whose length is taken in bytes. With `trims`, blanks at the end are no part of a
    text. Raises OverflowError where the answer would pass 2^31 - 1 bytes.
    """
    cdef Texts texts = Texts(offsets, data, bitmap, first, count, trims)
    cdef Rules rules
    cdef Buffer out_offsets = allocate((count + 1) * 4), out
    cdef int32_t* ends = <int32_t*> out_offsets.ptr
    cdef const uint8_t* text = NULL
    cdef Py_ssize_t row = 0, length = 0, total = 0
    cdef bint same = True
    rules_of(&rules, blocks, classes, replacements, ranges)
    ends[0] = 0
    with nogil:
        for row in range(count):
            length = texts.at(row, &text)
            if length == -2:
                break
            if length > 0:
                total += redact(&rules, text, length, NULL, 0)
            if total > MOST_BYTES:
                break
            ends[row + 1] = <int32_t> total
    if length == -2:
        raise ValueError("offsets beyond the texts")
    if total > MOST_BYTES:
        raise OverflowError("too many bytes of text")
    out = allocate(total)
    with nogil:
        for row in range(count):
            length = max(texts.at(row, &text), 0)
            if length:
                length = redact(&rules, text, length, out.ptr + ends[row], ends[row + 1] - ends[row])
            same = length == ends[row + 1] - ends[row]
            if not same:
                break
    if not same:
        raise ValueError("texts that change while they are read")
    return out_offsets, out


cdef int rules_of(
    Rules* rules,
    const uint16_t[::1] blocks,
    const uint8_t[::1] classes,
    const int64_t[::1] replacements,
    const int64_t[::1] ranges,
) except -1:
    cdef Py_ssize_t index
    if blocks.shape[0] != CODE_POINTS >> BLOCK_BITS or replacements.shape[0] != CLASSES or ranges.shape[0] % 2:
        raise ValueError("no rules of a mask")
    for index in range(blocks.shape[0]):
        if (blocks[index] + 1) << BLOCK_BITS > classes.shape[0]:
            raise ValueError("a block beyond the classes")
    for index in range(classes.shape[0]):
        if classes[index] >= CLASSES:
            raise ValueError("no class of characters")
    for index in range(CLASSES):
        rules.lengths[index] = 0
        if replacements[index] >= CODE_POINTS:
            raise ValueError("no code point")
        if replacements[index] >= 0:
            rules.lengths[index] = written_length(replacements[index])
            write_point(&rules.written[index][0], replacements[index], rules.lengths[index])
    rules.blocks = &blocks[0]
    rules.classes = &classes[0]
    rules.range_count = ranges.shape[0] // 2
    rules.ranges = &ranges[0] if rules.range_count else NULL
    return 0


# --- days ------------------------------------------------------------------------------------------


cdef inline int days_in_month(int64_t year, int month) noexcept nogil:
    """In the Julian calendar before 1582-10-15."""
    return days_in(month, year % 4 == 0 if year < GREGORIAN_YEAR else is_leap(year))


cdef int64_t lenient_day_of(int64_t year, int month, int day) noexcept nogil:
    """Days since 1970 of a date, whose month may be 0 and whose day may be 0, or beyond the month's end."""
    cdef Date date
    if day == 0:
        month -= 1
    if month <= 0:
        month += 12
        year -= 1
    if day == 0:
        day = days_in_month(year, month)
    elif day > days_in_month(year, month):
        day -= days_in_month(year, month)
        month += 1
    if month > 12:
        month = 1
        year += 1
    date.year, date.month, date.day = year, month, day
    return day_of(date)


def redact_days(const int64_t[::1] days, int year, int month, int day):
    """int64 days since 1970 (proleptic Gregorian) whose year, month or day of the month are replaced; -1 keeps.

    As ORC Java's lenient calendar does it: days beyond the end of a month are those of the next one, month 0 is the
    December before, day 0 the last of the month before; years before year 1 get the year that has the number before
    year 1; the ten days without a date in October 1582 are the ten after them.
    """
    cdef Py_ssize_t row, count = days.shape[0]
    cdef Buffer out = allocate(count * 8)
    cdef int64_t* found = <int64_t*> out.ptr
    cdef Date date
    if not (-1 <= year <= 9999 and -1 <= month <= 12 and -1 <= day <= 31):
        raise ValueError("no date")
    with nogil:
        for row in range(count):
            date = date_of(days[row])
            if year >= 0:
                date.year = year if date.year > 0 else 1 - year
            if month >= 0:
                date.month = month
            if day >= 0:
                date.day = day
            found[row] = lenient_day_of(date.year, date.month, date.day)
            if is_skipped(found[row]):
                found[row] += SKIPPED_DAYS
    return out


# --- SHA-256 ---------------------------------------------------------------------------------------

# FIPS 180-4, 4.2.2 and 5.3.3: of the first 64 primes the fractions of the cube roots, of the first eight of the square roots.
cdef uint32_t[64] ROUNDS = [
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
]
cdef uint32_t[8] START = [
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
]
cdef const char* HEXADECIMAL = b"0123456789ABCDEF"


cdef inline uint32_t turned(uint32_t word, int bits) noexcept nogil:
    return word >> bits | word << (32 - bits)


cdef void mix(uint32_t* state, const uint8_t* chunk) noexcept nogil:
    """FIPS 180-4, 6.2.2: one chunk of 64 bytes."""
    cdef uint32_t[64] w
    cdef uint32_t a, b, c, d, e, f, g, h, one, two
    cdef int t
    for t in range(16):
        w[t] = (
            <uint32_t> chunk[4 * t] << 24 | <uint32_t> chunk[4 * t + 1] << 16 | <uint32_t> chunk[4 * t + 2] << 8
            | chunk[4 * t + 3]
        )
    for t in range(16, 64):
        one = turned(w[t - 15], 7) ^ turned(w[t - 15], 18) ^ w[t - 15] >> 3
        two = turned(w[t - 2], 17) ^ turned(w[t - 2], 19) ^ w[t - 2] >> 10
        w[t] = w[t - 16] + one + w[t - 7] + two
    a, b, c, d, e, f, g, h = state[0], state[1], state[2], state[3], state[4], state[5], state[6], state[7]
    for t in range(64):
        one = h + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + ((e & f) ^ (~e & g)) + ROUNDS[t] + w[t]
        two = (turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))
        h = g
        g = f
        f = e
        e = d + one
        d = c
        c = b
        b = a
        a = one + two
    state[0] += a
    state[1] += b
    state[2] += c
    state[3] += d
    state[4] += e
    state[5] += f
    state[6] += g
    state[7] += h


cdef void digest_of(const uint8_t* data, Py_ssize_t size, uint8_t* out) noexcept nogil:
    """The 32 bytes of the digest."""
    cdef uint32_t[8] state
    cdef uint8_t[2 * CHUNK_BYTES] last
    cdef Py_ssize_t at = 0, rest, padded
    cdef uint64_t bits = <uint64_t> size * 8
    cdef int index
    memcpy(state, START, 32)
    while size - at >= CHUNK_BYTES:
        mix(state, data + at)
        at += CHUNK_BYTES
    # FIPS 180-4, 5.1.1: a one, zeros, and the number of bits in eight bytes.
    rest = size - at
    padded = CHUNK_BYTES if rest + 9 <= CHUNK_BYTES else 2 * CHUNK_BYTES
    memset(last, 0, 2 * CHUNK_BYTES)
    if rest:
        memcpy(last, data + at, rest)
    last[rest] = 0x80
    for index in range(8):
        last[padded - 1 - index] = <uint8_t> (bits >> (8 * index))
    mix(state, last)
    if padded > CHUNK_BYTES:
        mix(state, last + CHUNK_BYTES)
    for index in range(DIGEST_BYTES):
        out[index] = <uint8_t> (state[index >> 2] >> (24 - 8 * (index & 3)))


def digests(offsets, data, bitmap, Py_ssize_t first, Py_ssize_t count, bint hexadecimal, Py_ssize_t most, bint trims):
    """(offsets, bytes) of the SHA-256 of `count` texts or binaries, from row `first` on.

    32 bytes each, or with `hexadecimal` the first `most` of 64 upper-case digits. With `trims`, blanks at the end are no
    part of a text. Raises OverflowError where the answer would pass 2^31 - 1 bytes.
    """
    cdef Texts texts = Texts(offsets, data, bitmap, first, count, trims)
    cdef Buffer out_offsets = allocate((count + 1) * 4), out
    cdef int32_t* ends = <int32_t*> out_offsets.ptr
    cdef uint8_t[DIGEST_BYTES] digest
    cdef const uint8_t* text = NULL
    cdef uint8_t* at
    cdef Py_ssize_t row = 0, length = 0, values = 0, width = DIGEST_BYTES, index
    if most < 0:
        raise ValueError("a length below 0")
    if hexadecimal:
        width = min(most, 2 * DIGEST_BYTES)
    ends[0] = 0
    for row in range(count):
        values += not is_null(texts.bits, first + row)
    if values * width > MOST_BYTES:
        raise OverflowError("too many bytes of digests")
    out = allocate(values * width)
    at = out.ptr
    with nogil:
        for row in range(count):
            length = texts.at(row, &text)
            if length == -2 or (length >= 0 and out.ptr + out.nbytes - at < width):
                length = -2
                break
            if length >= 0:
                digest_of(text, length, digest)
                if not hexadecimal:
                    memcpy(at, digest, DIGEST_BYTES)
                else:
                    for index in range(width):
                        at[index] = HEXADECIMAL[digest[index >> 1] >> (0 if index & 1 else 4) & 15]
                at += width
            ends[row + 1] = <int32_t> (at - out.ptr)
    if length == -2:
        raise ValueError("offsets beyond the texts")
    if at != out.ptr + out.nbytes:
        raise ValueError("texts that change while they are read")
    return out_offsets, out
