# Checks of texts: ASCII, and UTF-8 as in RFC 3629 (no surrogates, no overlong forms, at most U+10FFFF).

from libc.stdint cimport uint8_t

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    /* Whether all bytes are below 0x80. */
    static inline int orc_is_ascii(const uint8_t* p, Py_ssize_t n) {
        uint64_t any = 0, x;
        Py_ssize_t i = 0;
        for (; i + 32 <= n; i += 32) {
            uint64_t a, b, c, d;
            memcpy(&a, p + i, 8); memcpy(&b, p + i + 8, 8);
            memcpy(&c, p + i + 16, 8); memcpy(&d, p + i + 24, 8);
            any |= a | b | c | d;
        }
        for (; i + 8 <= n; i += 8) { memcpy(&x, p + i, 8); any |= x; }
        for (; i < n; i++) any |= p[i];
        /* A byte of the tail lies in the lowest eight bits. */
        return (any & 0x8080808080808080ull) == 0;
    }
    /* The characters of a text, or -1 where it is no UTF-8. */
    static inline Py_ssize_t orc_characters(const uint8_t* p, Py_ssize_t n) {
        Py_ssize_t i = 0, count = 0;
        while (i < n) {
            uint8_t c = p[i];
            count++;
            if (c < 0x80) { i++; continue; }
            if (c < 0xC2) return -1;
            if (c < 0xE0) {
                if (n - i < 2 || (p[i+1] & 0xC0) != 0x80) return -1;
                i += 2;
            } else if (c < 0xF0) {
                if (n - i < 3 || (p[i+1] & 0xC0) != 0x80 || (p[i+2] & 0xC0) != 0x80) return -1;
                if ((c == 0xE0 && p[i+1] < 0xA0) || (c == 0xED && p[i+1] > 0x9F)) return -1;
                i += 3;
            } else {
                if (c > 0xF4 || n - i < 4 || (p[i+1] & 0xC0) != 0x80 || (p[i+2] & 0xC0) != 0x80
                    || (p[i+3] & 0xC0) != 0x80) return -1;
                if ((c == 0xF0 && p[i+1] < 0x90) || (c == 0xF4 && p[i+1] > 0x8F)) return -1;
                i += 4;
            }
        }
        return count;
    }
    """
    bint is_ascii "orc_is_ascii"(const uint8_t* p, Py_ssize_t n) noexcept nogil
    Py_ssize_t characters "orc_characters"(const uint8_t* p, Py_ssize_t n) noexcept nogil
