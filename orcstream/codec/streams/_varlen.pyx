"""Unbounded base-128 varints of decimals, as a resumable kernel without the GIL.

Knows bytes and values, nothing else; the contract of a kernel stands in `_bits.pxd`. A value is a pair of
64-bit words, low word first (Arrow's decimal128). Specification: "Base 128 Varint", "Decimal Columns".
"""

from libc.stdint cimport uint8_t, uint64_t

from orcstream.codec._bits cimport BAD_VARINT, FULL, MORE, Cursor

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    /* A varint of at most 8 bytes in 8 loaded bytes, without a branch for its length: its value, and its
       length in *used; 0 there when none of the 8 bytes ends it. */
    static inline uint64_t orc_varint8(const uint8_t* p, int* used) {
        uint64_t x, stops;
        memcpy(&x, p, 8);
    #if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        x = __builtin_bswap64(x);
    #endif
        stops = ~x & 0x8080808080808080ull;
        if (!stops) { *used = 0; return 0; }
        *used = (__builtin_ctzll(stops) >> 3) + 1;
        x &= (stops ^ (stops - 1)) & 0x7f7f7f7f7f7f7f7full;
        x = ((x & 0x7f007f007f007f00ull) >> 1) | (x & 0x007f007f007f007full);
        x = ((x & 0x3fff00003fff0000ull) >> 2) | (x & 0x00003fff00003fffull);
        return ((x & 0x0fffffff00000000ull) >> 4) | (x & 0x0fffffffull);
    }
    """
    uint64_t varint8 "orc_varint8"(const uint8_t* p, int* used) noexcept nogil


cdef int decode_varint128(
    const uint8_t* data, Py_ssize_t size, uint64_t* out, Py_ssize_t count, Cursor* cursor
) noexcept nogil:
    cdef Py_ssize_t at = 0, done = 0, start
    cdef uint64_t low, high, part, sign
    cdef int used = 0, shift, status = FULL
    while done < count:
        if size - at >= 8:
            low = varint8(data + at, &used)
            if used:
                sign = 0 - (low & 1)
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
        sign = 0 - (low & 1)
        out[2 * done] = ((low >> 1) | (high << 63)) ^ sign
        out[2 * done + 1] = (high >> 1) ^ sign
        done += 1
    cursor.consumed = at
    cursor.produced = done
    cursor.skip = 0
    return status
