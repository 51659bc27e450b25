"""Run lengths and varints, as resumable kernels without the GIL.

Know bytes and values, nothing else; the contract of a kernel stands in `_bits.pxd`. All arithmetic wraps
at 64 bits, as writers' does. The base of patched runs is sign-magnitude, and the width of a patch list entry is the
closest fixed width (ORC v1, table there). A decimal is a pair of 64-bit words, low word first (Arrow's decimal128).
Specification: "Byte Run Length Encoding", "Integer Run Length Encoding, version 1" and "version 2", "Base 128 Varint",
"Decimal Columns".
"""

from libc.stdint cimport int8_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset

from orcstream.codec._bits cimport (
    BAD_PATCH,
    BAD_VARINT,
    FULL,
    MORE,
    Cursor,
    fixed_bits,
    load_be,
    load_be64,
    load_le64,
    read_varint,
    unzigzag,
    width_of,
)
from orcstream.codec cimport _simd
from orcstream.codec._simd cimport read_varints, unpack_many

cdef enum:
    RUN_VALUES = 512
    MAX_PATCHES = 31


_simd.use_simd(True)


def use_simd(bint wanted):
    """Use what the processor has for many values at a time, or do without; answers whether it is used."""
    return bool(_simd.use_simd(wanted))


cdef int decode_bytes(
    const uint8_t* data, Py_ssize_t size, uint8_t* out, Py_ssize_t count, Cursor* cursor
) noexcept nogil:
    cdef Py_ssize_t at = 0, done = 0, skip = cursor.skip, length, take, body
    cdef bint literal
    cdef int status = FULL
    while done < count:
        if size - at < 2:
            status = MORE
            break
        literal = data[at] >= 0x80
        length = 256 - data[at] if literal else data[at] + 3
        body = length if literal else 1
        if size - at - 1 < body:
            status = MORE
            break
        if skip >= length:
            skip -= length
            at += 1 + body
            continue
        take = min(length - skip, count - done)
        if literal:
            memcpy(out + done, data + at + 1 + skip, take)
        else:
            memset(out + done, data[at + 1], take)
        done += take
        skip += take
        if skip == length:
            skip = 0
            at += 1 + body
    cursor.consumed = at
    cursor.produced = done
    cursor.skip = skip
    return status


cdef int decode_v1(
    const uint8_t* data, Py_ssize_t size, int64_t* out, Py_ssize_t count, bint signed, Cursor* cursor
) noexcept nogil:
    cdef Py_ssize_t at = 0, done = 0, skip = cursor.skip, length, take, index, next_at
    cdef const uint8_t* stop = data + size
    cdef uint64_t value = 0, delta
    cdef int width, status = FULL
    while done < count:
        if at == size:
            status = MORE
            break
        if data[at] < 0x80:
            length = data[at] + 3
            if size - at < 3:
                status = MORE
                break
            delta = <uint64_t> (<int64_t> (<int8_t> data[at + 1]))
            width = read_varint(data + at + 2, stop, &value)
            if width <= 0:
                status = BAD_VARINT if width < 0 else MORE
                break
            next_at = at + 2 + width
            if skip < length:
                if signed:
                    value = <uint64_t> unzigzag(value)
                take = min(length - skip, count - done)
                value += delta * <uint64_t> skip
                for index in range(take):
                    out[done + index] = <int64_t> value
                    value += delta
                done += take
                skip += take
        else:
            length = 256 - data[at]
            next_at = at + 1
            # The run is decoded only when all of it is there, or when the output ends before it does.
            for index in range(length):
                width = read_varint(data + next_at, stop, &value)
                if width <= 0:
                    break
                next_at += width
            else:
                width = 1
            if width < 0:
                status = BAD_VARINT
                break
            if width == 0:
                status = MORE
                break
            if skip < length:
                take = min(length - skip, count - done)
                next_at = at + 1
                for index in range(skip):
                    next_at += read_varint(data + next_at, stop, &value)
                for index in range(take):
                    next_at += read_varint(data + next_at, stop, &value)
                    out[done + index] = unzigzag(value) if signed else <int64_t> value
                done += take
                skip += take
        if skip >= length:
            skip -= length
            at = next_at
    cursor.consumed = at
    cursor.produced = done
    cursor.skip = skip
    return status


# --- version 2 -------------------------------------------------------------------------------------


cdef void unpack(
    const uint8_t* data, Py_ssize_t size, int width, int64_t* out, Py_ssize_t count, bint signed, uint64_t base
) noexcept nogil:
    """`count` big-endian values of `width` bits, plus `base`; `size` bytes may be read, at least the values' own."""
    cdef Py_ssize_t begun = unpack_many(data, size, width, out, count, signed, base)
    cdef Py_ssize_t index
    unpack_from(begun, data, size, width, out, count)
    if signed:
        for index in range(begun, count):
            out[index] = unzigzag(<uint64_t> out[index])
    if base:
        for index in range(begun, count):
            out[index] = <int64_t> (<uint64_t> out[index] + base)


cdef void unpack_from(
    Py_ssize_t first, const uint8_t* data, Py_ssize_t size, int width, int64_t* out, Py_ssize_t count
) noexcept nogil:
    """As `unpack`, of values as they are, from the one of index `first` on."""
    cdef Py_ssize_t index = 0, bit = first * width, wide = 0, at
    cdef int shift = 64 - width, have, need
    cdef uint64_t value
    if width == 8:
        for index in range(first, count):
            out[index] = data[index]
        return
    if width == 16:
        for index in range(first, count):
            out[index] = (<int64_t> data[2 * index] << 8) | data[2 * index + 1]
        return
    # Values whose 8-byte load stays inside the input; widths are 64, or at most 56 here, so 8 bytes hold any.
    if size >= 8:
        wide = min(count, ((size - 8) * 8 + 7) // width + 1)
    for index in range(first, wide):
        out[index] = <int64_t> ((load_be64(data + (bit >> 3)) << (bit & 7)) >> shift)
        bit += width
    for index in range(max(first, wide), count):
        at = bit >> 3
        have = 8 - <int> (bit & 7)
        value = data[at] & (0xFF >> (bit & 7))
        need = width
        while have < need:
            at += 1
            value = (value << 8) | data[at]
            have += 8
        out[index] = <int64_t> (value >> (have - need))
        bit += width


cdef Py_ssize_t run_length(const uint8_t* data, Py_ssize_t size) noexcept nogil:
    """Values in the run that begins here; 0 when its header is cut off."""
    if size < 1:
        return 0
    if data[0] < 0x40:
        return (data[0] & 7) + 3
    if size < 2:
        return 0
    return (((data[0] & 1) << 8) | data[1]) + 1


cdef int decode_run(
    const uint8_t* data, Py_ssize_t size, int64_t* out, Py_ssize_t length, bint signed, Py_ssize_t* taken
) noexcept nogil:
    """One whole run of `length` values (from `run_length`) to out; its bytes are counted in `taken`."""
    cdef int kind = data[0] >> 6
    cdef int width
    cdef Py_ssize_t index, body
    cdef int64_t value
    if kind == 0:
        width = ((data[0] >> 3) & 7) + 1
        if size < 1 + width:
            return MORE
        value = <int64_t> load_be(data + 1, width)
        if signed:
            value = unzigzag(<uint64_t> value)
        for index in range(length):
            out[index] = value
        taken[0] = 1 + width
        return FULL
    width = width_of((data[0] >> 1) & 31)
    if kind == 1:
        body = (width * length + 7) // 8
        if size < 2 + body:
            return MORE
        unpack(data + 2, size - 2, width, out, length, signed, 0)
        taken[0] = 2 + body
        return FULL
    if kind == 2:
        return decode_patched(data, size, width, out, length, taken)
    return decode_delta(data, size, width, out, length, signed, taken)


cdef int decode_patched(
    const uint8_t* data, Py_ssize_t size, int width, int64_t* out, Py_ssize_t length, Py_ssize_t* taken
) noexcept nogil:
    cdef int64_t[MAX_PATCHES] patches
    cdef int base_width, patch_width, gap_width, patch_count, entry_width
    cdef Py_ssize_t body, patch_body, index, at = 0
    cdef uint64_t base, sign, entry, patch, gap
    if size < 4:
        return MORE
    base_width = (data[2] >> 5) + 1
    patch_width = width_of(data[2] & 31)
    gap_width = (data[3] >> 5) + 1
    patch_count = data[3] & 31
    if gap_width + patch_width > 64:
        return BAD_PATCH
    entry_width = fixed_bits(gap_width + patch_width)
    body = (width * length + 7) // 8
    patch_body = (entry_width * patch_count + 7) // 8
    if size < 4 + base_width + body + patch_body:
        return MORE
    base = load_be(data + 4, base_width)
    sign = (<uint64_t> 1) << (8 * base_width - 1)
    if base & sign:
        base = 0 - (base ^ sign)
    data += 4 + base_width
    size -= 4 + base_width
    unpack(data, size, width, out, length, False, base)
    unpack(data + body, size - body, entry_width, patches, patch_count, False, 0)
    for index in range(patch_count):
        entry = <uint64_t> patches[index]
        patch = entry & (((<uint64_t> 1) << patch_width) - 1) if patch_width < 64 else entry
        # All bits above the patch are the gap, as in ORC Java and C++; an honest writer sets no others.
        gap = entry >> patch_width
        if gap >= <uint64_t> (length - at):
            return BAD_PATCH
        at += <Py_ssize_t> gap
        # A patch of 0 only carries the gap on (gaps over 255). Bits beyond 64 would be lost.
        if width < 64:
            out[at] = <int64_t> ((<uint64_t> out[at] - base | patch << width) + base)
        elif patch:
            return BAD_PATCH
    taken[0] = 4 + base_width + body + patch_body
    return FULL


cdef int decode_delta(
    const uint8_t* data,
    Py_ssize_t size,
    int width,
    int64_t* out,
    Py_ssize_t length,
    bint signed,
    Py_ssize_t* taken,
) noexcept nogil:
    cdef const uint8_t* stop = data + size
    cdef uint64_t value = 0, delta = 0, step
    cdef Py_ssize_t at = 2, body, index
    cdef int used
    if ((data[0] >> 1) & 31) == 0:  # fixed deltas
        width = 0
    used = read_varint(data + at, stop, &value)
    if used <= 0:
        return BAD_VARINT if used < 0 else MORE
    at += used
    used = read_varint(data + at, stop, &delta)
    if used <= 0:
        return BAD_VARINT if used < 0 else MORE
    at += used
    if signed:
        value = <uint64_t> unzigzag(value)
    delta = <uint64_t> unzigzag(delta)
    out[0] = <int64_t> value
    if width == 0 or length < 3:
        body = 0 if length < 3 else (width * (length - 2) + 7) // 8
        for index in range(1, length):
            value += delta
            out[index] = <int64_t> value
        taken[0] = at + body
        return FULL if size >= at + body else MORE
    body = (width * (length - 2) + 7) // 8
    if size < at + body:
        return MORE
    value += delta
    out[1] = <int64_t> value
    unpack(data + at, size - at, width, out + 2, length - 2, False, 0)
    if <int64_t> delta < 0:
        for index in range(2, length):
            value -= <uint64_t> out[index]
            out[index] = <int64_t> value
    else:
        for index in range(2, length):
            value += <uint64_t> out[index]
            out[index] = <int64_t> value
    taken[0] = at + body
    return FULL


cdef int decode_v2(
    const uint8_t* data, Py_ssize_t size, int64_t* out, Py_ssize_t count, bint signed, Cursor* cursor
) noexcept nogil:
    cdef int64_t[RUN_VALUES] run
    cdef Py_ssize_t at = 0, done = 0, skip = cursor.skip, length, take, taken = 0
    cdef int status = FULL
    while done < count:
        length = run_length(data + at, size - at)
        if length == 0:
            status = MORE
            break
        if skip == 0 and length <= count - done:
            status = decode_run(data + at, size - at, out + done, length, signed, &taken)
            if status != FULL:
                break
            done += length
            at += taken
            continue
        status = decode_run(data + at, size - at, run, length, signed, &taken)
        if status != FULL:
            break
        if skip >= length:
            skip -= length
            at += taken
            continue
        take = min(length - skip, count - done)
        memcpy(out + done, run + skip, take * sizeof(int64_t))
        done += take
        skip += take
        if skip == length:
            skip = 0
            at += taken
    cursor.consumed = at
    cursor.produced = done
    cursor.skip = skip
    return status


# --- varints ---------------------------------------------------------------------------------------

cdef extern from *:
    """
    #include <stdint.h>
    /* A varint of at most 8 bytes in 8 loaded bytes, without a branch for its length: its value, and its
       length in *used; 0 there when none of the 8 bytes ends it. */
    static inline uint64_t orc_varint8(uint64_t x, int* used) {
        uint64_t stops = ~x & 0x8080808080808080ull;
        if (!stops) { *used = 0; return 0; }
        *used = (__builtin_ctzll(stops) >> 3) + 1;
        x &= (stops ^ (stops - 1)) & 0x7f7f7f7f7f7f7f7full;
        x = ((x & 0x7f007f007f007f00ull) >> 1) | (x & 0x007f007f007f007full);
        x = ((x & 0x3fff00003fff0000ull) >> 2) | (x & 0x00003fff00003fffull);
        return ((x & 0x0fffffff00000000ull) >> 4) | (x & 0x0fffffffull);
    }
    """
    uint64_t varint8 "orc_varint8"(uint64_t x, int* used) noexcept nogil


cdef int decode_varint128(
    const uint8_t* data, Py_ssize_t size, uint64_t* out, Py_ssize_t count, Cursor* cursor, uint64_t* any
) noexcept nogil:
    """`any` gets the bits of what values are without their signs, n for n and for -n - 1; all, of beyond 64 bits."""
    cdef Py_ssize_t at = 0, done = 0, read = 0, start
    cdef uint64_t low, high, part, sign
    cdef int used = 0, shift, status = FULL
    while done < count:
        at += read_varints(data + at, size - at, out + 2 * done, count - done, &read, any)
        done += read
        if done == count:
            break
        if size - at >= 8:
            low = varint8(load_le64(data + at), &used)
            if used:
                sign = 0 - (low & 1)
                any[0] |= low >> 1
                out[2 * done] = (low >> 1) ^ sign
                out[2 * done + 1] = sign
                at += used
                done += 1
                continue
        low = high = 0
        shift = 0
        start = at
        while True:
            if start == size:
                status = MORE
                break
            part = data[start] & 0x7F
            if shift < 64:
                low |= part << shift
                if shift > 57:
                    high |= part >> (64 - shift)
            elif shift < 126:
                high |= part << (shift - 64)
            elif part >> (128 - shift):
                status = BAD_VARINT
                break
            else:
                high |= part << (shift - 64)
            start += 1
            if data[start - 1] < 0x80:
                break
            shift += 7
            if shift > 126:
                status = BAD_VARINT
                break
        if status != FULL:
            break
        at = start
        any[0] |= ~(<uint64_t> 0) if high else low >> 1
        sign = 0 - (low & 1)
        out[2 * done] = ((low >> 1) | (high << 63)) ^ sign
        out[2 * done + 1] = (high >> 1) ^ sign
        done += 1
    cursor.consumed = at
    cursor.produced = done
    cursor.skip = 0
    return status
