"""Values unpacked and varints read many at a time, on processors of the x86-64 family that have AVX2.

Every function does as much as it can and says how much that was; the kernels' own loops do the rest, on other
processors all of it. None reads beyond `size` bytes.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    #if defined(__x86_64__) && defined(__GNUC__)
    #include <immintrin.h>
    #define ORC_AVX2 __attribute__((target("avx2,bmi,bmi2")))
    /* Widths up to 32: four values, from the byte that the first begins in, lie in 16 bytes. */
    enum { ORC_WIDTHS = 33 };
    /* Of each width the bytes that the eight 64-bit lanes take from two loads, last byte first. */
    static uint8_t orc_bytes_of_lanes[ORC_WIDTHS][64];
    static int orc_unpacks = 0, orc_extracts = 0;

    static int orc_use_simd(int wanted) {
        __builtin_cpu_init();
        for (int width = 0; width < ORC_WIDTHS; width++)
            for (int lane = 0; lane < 8; lane++)
                for (int byte = 0; byte < 8; byte++) {
                    int at = (lane * width >> 3) - ((lane & 4) * width >> 3) + 7 - byte;
                    orc_bytes_of_lanes[width][8 * lane + byte] = at < 16 ? at : 0x80;
                }
        orc_unpacks = wanted && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2");
        /* AMD's before Zen 3 have `pext`, of some hundred cycles. */
        orc_extracts = orc_unpacks && !__builtin_cpu_is("amdfam17h");
        return orc_unpacks;
    }

    /* How many of `count` values were unpacked, and unzigzagged if they are signed: a multiple of 8. */
    ORC_AVX2 static Py_ssize_t orc_unpack(
        const uint8_t* data, Py_ssize_t size, int width, int64_t* out, Py_ssize_t count, int is_signed
    ) {
        Py_ssize_t done = 0;
        if (!orc_unpacks || count < 8 || width >= ORC_WIDTHS) return 0;
        const Py_ssize_t half = width >> 1, reach = half + 16;
        const __m256i low = _mm256_loadu_si256((const __m256i*) orc_bytes_of_lanes[width]);
        const __m256i high = _mm256_loadu_si256((const __m256i*) (orc_bytes_of_lanes[width] + 32));
        const __m256i low_bits = _mm256_setr_epi64x(0, width & 7, 2 * width & 7, 3 * width & 7);
        const __m256i high_bits =
            _mm256_setr_epi64x(4 * width & 7, 5 * width & 7, 6 * width & 7, 7 * width & 7);
        const __m128i shift = _mm_cvtsi32_si128(64 - width);
        const __m256i one = _mm256_set1_epi64x(is_signed ? 1 : 0), zero = _mm256_setzero_si256();
        const __m128i signs = _mm_cvtsi32_si128(is_signed ? 1 : 0);
        for (; count - done >= 8 && size >= reach; done += 8, data += width, size -= width) {
            __m256i a = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i*) data));
            __m256i b = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i*) (data + half)));
            a = _mm256_srl_epi64(_mm256_sllv_epi64(_mm256_shuffle_epi8(a, low), low_bits), shift);
            b = _mm256_srl_epi64(_mm256_sllv_epi64(_mm256_shuffle_epi8(b, high), high_bits), shift);
            a = _mm256_xor_si256(_mm256_srl_epi64(a, signs), _mm256_sub_epi64(zero, _mm256_and_si256(a, one)));
            b = _mm256_xor_si256(_mm256_srl_epi64(b, signs), _mm256_sub_epi64(zero, _mm256_and_si256(b, one)));
            _mm256_storeu_si256((__m256i*) (out + done), a);
            _mm256_storeu_si256((__m256i*) (out + done + 4), b);
        }
        return done;
    }

    /* How many bytes of varints were read, as signed values of 128 bits, low word first; and, in `done`, how
       many of `count` those are. Ends before a varint of more than 8 bytes. */
    ORC_AVX2 static Py_ssize_t orc_read_varints(
        const uint8_t* data, Py_ssize_t size, uint64_t* out, Py_ssize_t count, Py_ssize_t* done
    ) {
        Py_ssize_t at = 0, index = 0;
        /* 64 bytes are looked at for last bytes, and 8 loaded where a varint begins among them. */
        while (orc_extracts && index < count && size - at >= 64 + 8) {
            uint64_t more = (uint32_t) _mm256_movemask_epi8(_mm256_loadu_si256((const __m256i*) (data + at)));
            more |= (uint64_t) (uint32_t)
                _mm256_movemask_epi8(_mm256_loadu_si256((const __m256i*) (data + at + 32))) << 32;
            uint64_t lasts = ~more;
            Py_ssize_t begin = 0;
            for (; lasts && index < count; lasts &= lasts - 1, index++) {
                Py_ssize_t end = __builtin_ctzll(lasts) + 1;
                if (end - begin > 8) break;
                uint64_t word;
                memcpy(&word, data + at + begin, 8);
                word = _pext_u64(_bzhi_u64(word, 8 * (end - begin)), 0x7f7f7f7f7f7f7f7full);
                uint64_t sign = 0 - (word & 1);
                out[2 * index] = word >> 1 ^ sign;
                out[2 * index + 1] = sign;
                begin = end;
            }
            at += begin;
            if (begin == 0) break;
        }
        *done = index;
        return at;
    }
    #else
    static int orc_use_simd(int wanted) { return 0; }
    static Py_ssize_t orc_unpack(
        const uint8_t* data, Py_ssize_t size, int width, int64_t* out, Py_ssize_t count, int is_signed
    ) { return 0; }
    static Py_ssize_t orc_read_varints(
        const uint8_t* data, Py_ssize_t size, uint64_t* out, Py_ssize_t count, Py_ssize_t* done
    ) { *done = 0; return 0; }
    #endif
    """
    # Whether functions are used from now on, where the processor has what they need.
    bint use_simd "orc_use_simd"(bint wanted)
    Py_ssize_t simd_unpack "orc_unpack"(
        const uint8_t* data, Py_ssize_t size, int width, int64_t* out, Py_ssize_t count, bint signed
    ) noexcept nogil
    Py_ssize_t simd_varints "orc_read_varints"(
        const uint8_t* data, Py_ssize_t size, uint64_t* out, Py_ssize_t count, Py_ssize_t* done
    ) noexcept nogil
