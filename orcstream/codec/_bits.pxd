# Inline helpers of the run-length kernels: unaligned big-endian loads, varints, status codes.
#
# A kernel decodes runs from in[0:size] to out and reports how far it came in a Cursor; it never reads at
# or beyond in + size. `skip` counts values of the first run that were delivered before (or that a row index position
# skips); a run that does not fit the output is left with its skip, so that decoding resumes inside it.

from libc.stdint cimport int64_t, uint8_t, uint64_t

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    static inline uint64_t orc_load_be64(const uint8_t* p) {
        uint64_t v;
        memcpy(&v, p, 8);
    #if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        v = __builtin_bswap64(v);
    #endif
        return v;
    }
    static inline uint64_t orc_load_be(const uint8_t* p, int width) {
        uint64_t v = 0;
        for (int i = 0; i < width; i++) v = (v << 8) | p[i];
        return v;
    }
    static inline int64_t orc_unzigzag(uint64_t v) { return (int64_t)((v >> 1) ^ (0 - (v & 1))); }
    """
    uint64_t load_be64 "orc_load_be64"(const uint8_t* p) noexcept nogil
    uint64_t load_be "orc_load_be"(const uint8_t* p, int width) noexcept nogil
    int64_t unzigzag "orc_unzigzag"(uint64_t v) noexcept nogil

cdef enum Status:
    FULL = 0        # as many values as asked for
    MORE = 1        # the next run is not complete in the input
    BAD_VARINT = 2  # longer than its type allows
    BAD_PATCH = 3   # patch list against the rules
    BAD_WIDTH = 4

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
