# Inline helpers of the encoding kernels: unaligned loads and stores, zigzag, varints, widths.
#
# A kernel writes to out[0:] and answers where it stopped; whoever calls it has made room for the longest run
# first, plus `SLACK_BYTES`, since packing stores 8 bytes at a time.

from libc.stdint cimport int64_t, uint8_t, uint64_t

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    static inline int64_t orc_item64(const void* p, Py_ssize_t index) {
        int64_t v;
        memcpy(&v, (const char*) p + 8 * index, 8);
        return v;
    }
    static inline void orc_store_be64(uint8_t* p, uint64_t v) {
    #if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        v = __builtin_bswap64(v);
    #endif
        memcpy(p, &v, 8);
    }
    static inline uint64_t orc_zigzag(int64_t v) { return ((uint64_t) v << 1) ^ (uint64_t)(v >> 63); }
    static inline int orc_bit_length(uint64_t v) { return v ? 64 - __builtin_clzll(v) : 0; }
    /* The closest width of the format's table, and its 5-bit code. */
    static inline int orc_fixed_bits(int bits) {
        if (bits <= 24) return bits ? bits : 1;
        if (bits <= 32) return bits + (bits & 1);
        return (bits + 7) / 8 * 8;
    }
    static inline int orc_width_code(int width) {
        if (width <= 24) return width - 1;
        if (width <= 32) return 24 + (width - 26) / 2;
        return 28 + (width - 40) / 8;
    }
    static inline uint8_t* orc_put_varint(uint8_t* p, uint64_t v) {
        while (v > 0x7F) { *p++ = (uint8_t)(v | 0x80); v >>= 7; }
        *p++ = (uint8_t) v;
        return p;
    }
    """
    int64_t item64 "orc_item64"(const void* p, Py_ssize_t index) noexcept nogil
    void store_be64 "orc_store_be64"(uint8_t* p, uint64_t v) noexcept nogil
    uint64_t zigzag "orc_zigzag"(int64_t v) noexcept nogil
    int bit_length "orc_bit_length"(uint64_t v) noexcept nogil
    int fixed_bits "orc_fixed_bits"(int bits) noexcept nogil
    int width_code "orc_width_code"(int width) noexcept nogil
    uint8_t* put_varint "orc_put_varint"(uint8_t* p, uint64_t v) noexcept nogil

cdef enum:
    SLACK_BYTES = 8
