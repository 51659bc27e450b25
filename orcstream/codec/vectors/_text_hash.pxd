"""A hash of texts, keyed with secrets of the process: else texts could be chosen that all have one hash.

Each module that includes it has secrets of its own, and calls `seed_text_hash` when it is loaded. Nothing that is written
depends on the hash.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    static inline uint64_t orc_mix(uint64_t a, uint64_t b) {
        unsigned __int128 product = (unsigned __int128) a * b;
        return (uint64_t) product ^ (uint64_t)(product >> 64);
    }
    /* The first eight bytes of a text, zeros behind its end; `room` is how many bytes may be read. */
    static inline uint64_t orc_text_head(const uint8_t* p, Py_ssize_t n, Py_ssize_t room) {
        uint64_t w = 0;
        if (room >= 8) {
            memcpy(&w, p, 8);
            if (n < 8) {
    #if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
                w &= n ? ~0ull >> (64 - 8 * n) : 0;
    #else
                w &= n ? ~0ull << (64 - 8 * n) : 0;
    #endif
            }
        } else {
            for (Py_ssize_t i = 0; i < n; i++) ((uint8_t*) &w)[i] = p[i];
        }
        return w;
    }
    static uint64_t orc_hash_start, orc_hash_factor, orc_hash_last;
    static inline void orc_seed_hash(uint64_t start, uint64_t factor, uint64_t last) {
        orc_hash_start = start;
        orc_hash_factor = factor | 1;
        orc_hash_last = last | 1;
    }
    /* Eight bytes at a time; the last eight may overlap those before. */
    static inline uint64_t orc_text_hash(const uint8_t* p, Py_ssize_t n, uint64_t head) {
        const uint64_t factor = orc_hash_factor;
        uint64_t h = orc_hash_start ^ (uint64_t) n, w = 0;
        Py_ssize_t i = 0;
        if (n < 8) return orc_mix(h ^ head, factor);
        for (; i + 8 <= n; i += 8) {
            memcpy(&w, p + i, 8);
            h = orc_mix(h ^ w, factor);
        }
        memcpy(&w, p + n - 8, 8);
        return orc_mix(h ^ w, orc_hash_last);
    }
    """
    uint64_t text_head "orc_text_head"(const uint8_t* p, Py_ssize_t n, Py_ssize_t room) noexcept nogil
    uint64_t text_hash "orc_text_hash"(const uint8_t* p, Py_ssize_t n, uint64_t head) noexcept nogil
    void seed_hash "orc_seed_hash"(uint64_t start, uint64_t factor, uint64_t last) noexcept nogil


cdef inline int seed_text_hash() except -1:
    """By Python's own hash of texts, which has a secret of the process for its key."""
    seed_hash(
        <uint64_t> <int64_t> hash("orcstream: start"),
        <uint64_t> <int64_t> hash("orcstream: factor"),
        <uint64_t> <int64_t> hash("orcstream: last"),
    )
    return 0
