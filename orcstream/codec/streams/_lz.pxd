# Loops that decompress Snappy (raw) and LZ4 (blocks), written from the descriptions of their formats.
#
# Each reads chunk[:size] and writes out[:room] only, whatever the chunk holds. It answers the number of bytes written, or
# -1 and a reason. Far from both ends it copies more bytes than are asked for, in steps of a fixed width, and needs no
# checks but those of offsets and of lengths that have no bound; near an end, every step is checked and exact.
#
# What takes time are branches that are hard to foresee, and loads that wait for each other. So no table is looked up on the
# way from one element to the next; and copies are as wide as most of them need and no wider, since a load of bytes that
# two stores wrote waits for both. What looks alike may not be: a load of 8 bytes for the offset of LZ4, or `repeat` for its
# short copies, take up to a tenth longer.

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from orcstream.codec._bits cimport load_le64, read_varint, store_le64

cdef extern from *:
    """
    /* What repeats the lowest 1 to 7 bytes of a number in 8 bytes, and how many bytes of those are whole repetitions. */
    static const uint64_t orc_repeating[8] = {
        0, 0x0101010101010101u, 0x0001000100010001u, 0x0001000001000001u,
        0x0000000100000001u, 0x0000010000000001u, 0x0001000000000001u, 0x0100000000000001u,
    };
    static const uint8_t orc_whole[8] = {0, 8, 8, 6, 8, 5, 6, 7};
    /* For each tag of a copy of Snappy: its length, and what of its offset is in the tag; and by the kind of the tag, what
       of the 4 bytes behind it is the rest. */
    #define ORC_LENGTH(t) ((t) & 3) == 1 ? 4 + ((t) >> 2 & 7) : 1 + ((t) >> 2),
    #define ORC_OFFSET(t) ((t) & 3) == 1 ? (t) >> 5 << 8 : 0,
    #define ORC_4(f, t) f(t) f(t + 1) f(t + 2) f(t + 3)
    #define ORC_16(f, t) ORC_4(f, t) ORC_4(f, t + 4) ORC_4(f, t + 8) ORC_4(f, t + 12)
    #define ORC_64(f, t) ORC_16(f, t) ORC_16(f, t + 16) ORC_16(f, t + 32) ORC_16(f, t + 48)
    #define ORC_256(f) ORC_64(f, 0) ORC_64(f, 64) ORC_64(f, 128) ORC_64(f, 192)
    static const uint8_t orc_snappy_length[256] = {ORC_256(ORC_LENGTH)};
    static const uint16_t orc_snappy_offset[256] = {ORC_256(ORC_OFFSET)};
    static const uint32_t orc_snappy_behind[4] = {0, 0xFF, 0xFFFF, 0xFFFFFFFF};
    """
    const uint64_t* REPEATING "orc_repeating"
    const uint8_t* WHOLE "orc_whole"
    const uint8_t* SNAPPY_LENGTH "orc_snappy_length"
    const uint16_t* SNAPPY_OFFSET "orc_snappy_offset"
    const uint32_t* SNAPPY_BEHIND "orc_snappy_behind"
    bint unlikely(bint) noexcept nogil

cdef enum:
    # How far from both ends a step of the fast loops begins. In what follows, "reads" and "writes" are at most so many
    # bytes from there.
    MARGIN = 144
    # What is left of that where the second half of a step begins.
    HALF_MARGIN = 80
    # The lowest two bits of a tag of Snappy: what it is, and for copies how many bytes of the offset follow (for 3: 4).
    SNAPPY_KIND = 3
    SNAPPY_LITERAL = 0
    SNAPPY_COPY_4 = 3
    # A literal of at least this length has its length, less one, behind the tag, in a byte for each number from here.
    SNAPPY_LONG = 61
    # A length of LZ4 that goes on in the bytes that follow.
    LZ4_LONG = 15
    LZ4_SHORTEST = 4  # copy


cdef inline void copy_8(uint8_t* to, const uint8_t* source) noexcept nogil:
    cdef uint64_t word  # both may overlap
    memcpy(&word, source, 8)
    memcpy(to, &word, 8)


cdef inline void copy_by_32(uint8_t* to, const uint8_t* source, Py_ssize_t count) noexcept nogil:
    """Copy `count` bytes (1 or more) from 16 bytes before `to`, from further away, or from elsewhere; and up to 31 more."""
    cdef uint8_t* stop = to + count
    while True:
        memcpy(to, source, 16)
        memcpy(to + 16, source + 16, 16)
        to += 32
        source += 32
        if to >= stop:
            return


cdef inline void repeat(uint8_t* to, Py_ssize_t offset, Py_ssize_t count) noexcept nogil:
    """Append `count` bytes (1 or more) that repeat those `offset` bytes before; writes up to 7 more, or 32 in all."""
    cdef uint8_t* stop = to + count
    cdef const uint8_t* source = to - offset
    cdef uint64_t word
    cdef Py_ssize_t step
    if unlikely(offset < 8):
        word = (load_le64(source) & ((<uint64_t> 1 << 8 * offset) - 1)) * REPEATING[offset]
        step = WHOLE[offset]
        store_le64(to, word)
        store_le64(to + step, word)
        store_le64(to + 2 * step, word)
        store_le64(to + 3 * step, word)
        to += 4 * step
        while to < stop:
            store_le64(to, word)
            to += step
        return
    # Each step sees what the ones before wrote, and is not wider than the offset.
    copy_8(to, source)
    copy_8(to + 8, source + 8)
    if unlikely(count > 16):
        copy_8(to + 16, source + 16)
        copy_8(to + 24, source + 24)
        to += 32
        source += 32
        while to < stop:
            copy_8(to, source)
            to += 8
            source += 8


cdef inline void repeat_exactly(uint8_t* to, Py_ssize_t offset, Py_ssize_t count) noexcept nogil:
    """The same, and no byte more is written."""
    while count > offset:  # twice as many repeat after each step
        memcpy(to, to - offset, offset)
        to += offset
        count -= offset
        offset += offset
    memcpy(to, to - offset, count)


cdef inline Py_ssize_t long_literal(uint32_t behind, Py_ssize_t length) noexcept nogil:
    """The length that follows a tag of Snappy which says `length`, SNAPPY_LONG or more."""
    return <Py_ssize_t> (behind & (<uint32_t> 0xFFFFFFFF >> 8 * (SNAPPY_LONG + 3 - length))) + 1


cdef inline Py_ssize_t unsnap(
    const uint8_t* chunk, Py_ssize_t size, uint8_t* out, Py_ssize_t room, const char** reason
) noexcept nogil:
    cdef const uint8_t* source = chunk
    cdef const uint8_t* source_end = chunk + size
    cdef uint8_t* to = out
    cdef uint8_t* out_end = out + room
    cdef const uint8_t* source_margin = NULL
    cdef uint8_t* out_margin = NULL
    cdef uint8_t* end
    cdef uint64_t declared = 0
    cdef uint32_t tag, kind, number
    cdef Py_ssize_t length, offset, behind, index

    length = read_varint(source, source_end, &declared)
    if length <= 0:
        reason[0] = b"no length"
        return -1
    source += length
    if declared > <uint64_t> room:
        reason[0] = b"too much output"
        return -1
    end = out + declared
    if size >= MARGIN and room >= MARGIN:
        source_margin = source_end - MARGIN
        out_margin = out_end - MARGIN

    # A literal if there is one, and the copy that mostly follows. May pass `end`, but not `out_end`.
    while source <= source_margin and to <= out_margin:
        tag = source[0]
        source += 1
        kind = tag & SNAPPY_KIND
        if kind == SNAPPY_LITERAL:  # reads 65, writes 64
            length = (tag >> 2) + 1
            memcpy(to, source, 16)
            if unlikely(length > 16):
                if length >= SNAPPY_LONG:
                    behind = length + 1 - SNAPPY_LONG
                    length = long_literal(<uint32_t> load_le64(source), length)
                    source += behind
                    if length <= 0 or length > source_end - source or length > out_end - to:
                        reason[0] = b"a literal beyond the end"
                        return -1
                    memcpy(to, source, length)
                    to += length
                    source += length
                    continue
                memcpy(to + 16, source + 16, 16)
                if length > 32:
                    memcpy(to + 32, source + 32, 16)
                    memcpy(to + 48, source + 48, 16)
            to += length
            source += length
            tag = source[0]
            kind = tag & SNAPPY_KIND
            if kind == SNAPPY_LITERAL:
                continue
            source += 1
        # Reads 62 to 70, writes 60 to 131.
        length = SNAPPY_LENGTH[tag]
        offset = SNAPPY_OFFSET[tag] + <Py_ssize_t> (<uint32_t> load_le64(source) & SNAPPY_BEHIND[kind])
        source += 4 if unlikely(kind == SNAPPY_COPY_4) else kind
        if offset <= 0 or offset > to - out:
            reason[0] = b"a copy from before the start"
            return -1
        repeat(to, offset, length)
        to += length

    while source != source_end:
        tag = source[0]
        source += 1
        kind = tag & SNAPPY_KIND
        length = (tag >> 2) + 1
        if kind == SNAPPY_LITERAL:
            behind = max(<Py_ssize_t> 0, length + 1 - SNAPPY_LONG)
        else:
            behind = 4 if kind == SNAPPY_COPY_4 else kind
        if behind > source_end - source:
            reason[0] = b"it ends in a tag"
            return -1
        number = 0
        for index in range(behind):
            number |= <uint32_t> source[index] << (8 * index)
        source += behind
        if kind == SNAPPY_LITERAL:
            if behind:
                length = long_literal(number, length)
            # The fast loop may have passed `end`: then nothing fits.
            if length <= 0 or length > source_end - source or length > end - to:
                reason[0] = b"a literal beyond the end"
                return -1
            memcpy(to, source, length)
            source += length
        else:
            length = SNAPPY_LENGTH[tag]
            offset = SNAPPY_OFFSET[tag] + <Py_ssize_t> number
            if offset <= 0 or offset > to - out or length > end - to:
                reason[0] = b"a copy from before the start, or beyond the end"
                return -1
            repeat_exactly(to, offset, length)
        to += length

    if to != end:
        reason[0] = b"another length than it declares"
        return -1
    return to - out


cdef inline const uint8_t* lz4_length(
    const uint8_t* source, const uint8_t* source_end, Py_ssize_t* length
) noexcept nogil:
    """Where the rest of a length ends; NULL where it does not. `length` must be no number of the fast loop's, which then
    would be in memory all the time."""
    cdef uint8_t byte = 255
    length[0] = 0
    while byte == 255:
        if source == source_end:
            return NULL
        byte = source[0]
        source += 1
        length[0] += byte
    return source


cdef inline Py_ssize_t unlz4(
    const uint8_t* chunk, Py_ssize_t size, uint8_t* out, Py_ssize_t room, const char** reason
) noexcept nogil:
    cdef const uint8_t* source = chunk
    cdef const uint8_t* source_end = chunk + size
    cdef uint8_t* to = out
    cdef uint8_t* out_end = out + room
    cdef const uint8_t* source_margin = NULL
    cdef uint8_t* out_margin = NULL
    cdef uint32_t token = 0
    cdef Py_ssize_t length, offset, more
    cdef bint within = False

    if size >= MARGIN and room >= MARGIN:
        source_margin = source_end - MARGIN
        out_margin = out_end - MARGIN

    while source <= source_margin and to <= out_margin:
        token = source[0]
        source += 1
        length = token >> 4
        memcpy(to, source, 16)
        if unlikely(length == LZ4_LONG):
            length += source[0]
            source += 1
            if unlikely(length == LZ4_LONG + 255):
                source = lz4_length(source, source_end, &more)
                if source == NULL:
                    reason[0] = b"it ends in a length"
                    return -1
                length += more
            if length > source_end - source or length > out_end - to:
                reason[0] = b"a literal beyond the end"
                return -1
            if length <= 128 and source <= source_margin and to <= out_margin:  # reads 128, writes as many
                copy_by_32(to, source, length)
            else:
                memcpy(to, source, length)
            source += length
            to += length
            if source_end - source < HALF_MARGIN or out_end - to < HALF_MARGIN:
                within = True
                break
        else:  # reads 17, writes 16
            source += length
            to += length
        # From here on there are `HALF_MARGIN` bytes at least: reads 8 (of long lengths all that are there), writes 32.
        offset = source[0] | <Py_ssize_t> source[1] << 8
        source += 2
        if unlikely(<size_t> offset - 1 >= <size_t> (to - out)):  # 0 is as large as can be
            reason[0] = b"a copy from before the start"
            return -1
        length = (token & 15) + LZ4_SHORTEST
        if unlikely(length == LZ4_LONG + LZ4_SHORTEST):
            length += source[0]
            source += 1
            if unlikely(length == LZ4_LONG + LZ4_SHORTEST + 255):
                source = lz4_length(source, source_end, &more)
                if source == NULL:
                    reason[0] = b"it ends in a length"
                    return -1
                length += more
            if length > out_end - to:
                reason[0] = b"a copy beyond the end"
                return -1
            if offset >= 16 and length <= out_end - to - 31:
                copy_by_32(to, to - offset, length)
            elif length <= 64:  # writes 71
                repeat(to, offset, length)
            else:
                repeat_exactly(to, offset, length)
        elif unlikely(offset < 8):
            repeat(to, offset, length)
        else:
            copy_8(to, to - offset)
            copy_8(to + 8, to - offset + 8)
            if unlikely(length > 16):
                memcpy(to + 16, to - offset + 16, 2)
        to += length

    while True:
        if not within:
            if source == source_end:
                reason[0] = b"it does not end in a literal"
                return -1
            token = source[0]
            source += 1
            length = token >> 4
            if length == LZ4_LONG:
                source = lz4_length(source, source_end, &more)
                if source == NULL:
                    reason[0] = b"it ends in a length"
                    return -1
                length += more
            if length > source_end - source or length > out_end - to:
                reason[0] = b"a literal beyond the end"
                return -1
            memcpy(to, source, length)
            source += length
            to += length
        within = False
        if source == source_end:
            return to - out
        if source_end - source < 2:
            reason[0] = b"it ends in an offset"
            return -1
        offset = source[0] | <Py_ssize_t> source[1] << 8
        source += 2
        if offset == 0 or offset > to - out:
            reason[0] = b"a copy from before the start"
            return -1
        length = (token & 15) + LZ4_SHORTEST
        if length == LZ4_LONG + LZ4_SHORTEST:
            source = lz4_length(source, source_end, &more)
            if source == NULL:
                reason[0] = b"it ends in a length"
                return -1
            length += more
        if length > out_end - to:
            reason[0] = b"a copy beyond the end"
            return -1
        repeat_exactly(to, offset, length)
        to += length
