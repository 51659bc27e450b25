# Inline helpers of the kernels of streams: unaligned loads and stores, zigzag, varints, widths, status codes.
#
# A kernel decodes runs from in[0:size] to out and reports how far it came in a Cursor; it never reads at
# or beyond in + size. `skip` counts values of the first run that were delivered before (or that a row index position
# skips); a run that does not fit the output is left with its skip, so that decoding resumes inside it.
#
# A kernel that encodes writes to out[0:] and answers where it stopped; whoever calls it has made room for the longest
# run first, plus `SLACK_BYTES`, since packing stores 8 bytes at a time.

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
    #if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    #define ORC_BIG_ENDIAN(v) __builtin_bswap64(v)
    #define ORC_LITTLE_ENDIAN(v) (v)
    #else
    #define ORC_BIG_ENDIAN(v) (v)
    #define ORC_LITTLE_ENDIAN(v) __builtin_bswap64(v)
    #endif
    static inline uint64_t orc_load_be64(const uint8_t* p) { return ORC_BIG_ENDIAN((uint64_t) orc_item64(p, 0)); }
    static inline uint64_t orc_load_le64(const uint8_t* p) { return ORC_LITTLE_ENDIAN((uint64_t) orc_item64(p, 0)); }
    static inline uint64_t orc_load_be(const uint8_t* p, int width) {
        uint64_t v = 0;
        for (int i = 0; i < width; i++) v = (v << 8) | p[i];
        return v;
    }
    static inline void orc_store_be64(uint8_t* p, uint64_t v) {
        v = ORC_BIG_ENDIAN(v);
        memcpy(p, &v, 8);
    }
    static inline void orc_store_le64(uint8_t* p, uint64_t v) {
        v = ORC_LITTLE_ENDIAN(v);
        memcpy(p, &v, 8);
    }
    static inline int64_t orc_unzigzag(uint64_t v) { return (int64_t)((v >> 1) ^ (0 - (v & 1))); }
    static inline uint64_t orc_zigzag(int64_t v) { return ((uint64_t) v << 1) ^ (uint64_t)(v >> 63); }
    static inline int orc_bit_length(uint64_t v) { return v ? 64 - __builtin_clzll(v) : 0; }
    /* The closest width of the format's table, its 5-bit code, and back. */
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
    static inline int orc_width_of(int code) {
        if (code < 24) return code + 1;
        if (code < 28) return 26 + (code - 24) * 2;
        return 40 + (code - 28) * 8;
    }
    static inline uint8_t* orc_put_varint(uint8_t* p, uint64_t v) {
        while (v > 0x7F) { *p++ = (uint8_t)(v | 0x80); v >>= 7; }
        *p++ = (uint8_t) v;
        return p;
    }
    """
    int64_t item64 "orc_item64"(const void* p, Py_ssize_t index) noexcept nogil
    uint64_t load_be64 "orc_load_be64"(const uint8_t* p) noexcept nogil
    uint64_t load_le64 "orc_load_le64"(const uint8_t* p) noexcept nogil
    uint64_t load_be "orc_load_be"(const uint8_t* p, int width) noexcept nogil
    void store_be64 "orc_store_be64"(uint8_t* p, uint64_t v) noexcept nogil
    void store_le64 "orc_store_le64"(uint8_t* p, uint64_t v) noexcept nogil
    uint64_t zigzag "orc_zigzag"(int64_t v) noexcept nogil
    int64_t unzigzag "orc_unzigzag"(uint64_t v) noexcept nogil
    int bit_length "orc_bit_length"(uint64_t v) noexcept nogil
    int fixed_bits "orc_fixed_bits"(int bits) noexcept nogil
    int width_code "orc_width_code"(int width) noexcept nogil
    int width_of "orc_width_of"(int code) noexcept nogil
    uint8_t* put_varint "orc_put_varint"(uint8_t* p, uint64_t v) noexcept nogil

cdef enum:
    SLACK_BYTES = 8

cdef enum Status:
    FULL = 0        # as many values as asked for
    MORE = 1        # the next run is not complete in the input
    BAD_VARINT = 2  # longer than its type allows
    BAD_PATCH = 3   # patch list against the rules

cdef struct Cursor:
    Py_ssize_t consumed   # bytes of the input that are done with
    Py_ssize_t produced   # values written
    Py_ssize_t skip       # values of the run at `consumed` that are done with

# Bytes the varint at p takes, its value in `value`; 0: cut off by `stop`; -1: over 64 bits.
cdef inline int read_varint(const uint8_t* p, const uint8_t* stop, uint64_t* value) noexcept nogil:
    cdef uint64_t result = 0
    cdef int shift = 0
    cdef const uint8_t* start = p
    while p < stop:
        if shift == 63 and p[0] > 1:
            return -1
        result |= (<uint64_t> (p[0] & 0x7F)) << shift
        if p[0] < 0x80:
            value[0] = result
            return <int> (p - start) + 1
        p += 1
        shift += 7
    return 0
