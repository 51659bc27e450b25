# What is done for many values at a time, on processors of the x86-64 family that have AVX2.
#
# Every function does as much as it can and says how much that was; the kernels' own loops do the rest, on other
# processors all of it. None reads beyond `size` bytes or `count` values. Whoever uses them says so once by `use_simd`,
# which tells whether the processor has what they need; without it they do nothing.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    #if defined(__x86_64__) && defined(__GNUC__)
    #include <immintrin.h>
    #define ORC_AVX2 __attribute__((unused, target("avx2,bmi,bmi2")))
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

    /* How many of `count` values were unpacked, unzigzagged if they are signed, and had `base` added: a
       multiple of 8. */
    ORC_AVX2 static Py_ssize_t orc_unpack(
        const uint8_t* data, Py_ssize_t size, int width, int64_t* out, Py_ssize_t count, int is_signed,
        uint64_t base
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
        const __m256i bases = _mm256_set1_epi64x((long long) base);
        for (; count - done >= 8 && size >= reach; done += 8, data += width, size -= width) {
            __m256i a = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i*) data));
            __m256i b = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i*) (data + half)));
            a = _mm256_srl_epi64(_mm256_sllv_epi64(_mm256_shuffle_epi8(a, low), low_bits), shift);
            b = _mm256_srl_epi64(_mm256_sllv_epi64(_mm256_shuffle_epi8(b, high), high_bits), shift);
            a = _mm256_xor_si256(_mm256_srl_epi64(a, signs), _mm256_sub_epi64(zero, _mm256_and_si256(a, one)));
            b = _mm256_xor_si256(_mm256_srl_epi64(b, signs), _mm256_sub_epi64(zero, _mm256_and_si256(b, one)));
            _mm256_storeu_si256((__m256i*) (out + done), _mm256_add_epi64(a, bases));
            _mm256_storeu_si256((__m256i*) (out + done + 4), _mm256_add_epi64(b, bases));
        }
        return done;
    }

    /* How many bytes of varints were read, as signed values of 128 bits, low word first; and, in `done`, how
       many of `count` those are. *any gets the bits of what they are without their signs: n for n and for -n - 1.
       Ends before a varint of more than 8 bytes. */
    ORC_AVX2 static Py_ssize_t orc_read_varints(
        const uint8_t* data, Py_ssize_t size, uint64_t* out, Py_ssize_t count, Py_ssize_t* done, uint64_t* any
    ) {
        Py_ssize_t at = 0, index = 0;
        uint64_t bits = 0;
        /* Last bytes of varints are looked for among 64 bytes; 8 are loaded wherever one begins. */
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
                bits |= word;
                out[2 * index] = word >> 1 ^ sign;
                out[2 * index + 1] = sign;
                begin = end;
            }
            at += begin;
            if (begin == 0) break;
        }
        *done = index;
        *any |= bits >> 1;
        return at;
    }

    /* How many of `count` lengths were added up to the 32-bit offsets behind them, the first of which is *total:
       a multiple of 8. *total becomes their sum, and *any gets their bits. */
    ORC_AVX2 static Py_ssize_t orc_sum_lengths(
        const int64_t* lengths, Py_ssize_t count, int32_t* offsets, int64_t* total, uint64_t* any
    ) {
        Py_ssize_t done = 0;
        if (!orc_unpacks || count < 8) return 0;
        const __m256i low_words = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6);
        __m256i sums = _mm256_setzero_si256(), bits = _mm256_setzero_si256();
        __m128i before = _mm_set1_epi32((int32_t) *total);
        for (; count - done >= 8; done += 8) {
            const __m256i a = _mm256_loadu_si256((const __m256i*) (lengths + done));
            const __m256i b = _mm256_loadu_si256((const __m256i*) (lengths + done + 4));
            bits = _mm256_or_si256(bits, _mm256_or_si256(a, b));
            sums = _mm256_add_epi64(sums, _mm256_add_epi64(a, b));
            __m128i c = _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(a, low_words));
            __m128i d = _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(b, low_words));
            c = _mm_add_epi32(c, _mm_slli_si128(c, 4));
            d = _mm_add_epi32(d, _mm_slli_si128(d, 4));
            c = _mm_add_epi32(c, _mm_slli_si128(c, 8));
            d = _mm_add_epi32(d, _mm_slli_si128(d, 8));
            d = _mm_add_epi32(d, _mm_shuffle_epi32(c, 0xff));
            _mm_storeu_si128((__m128i*) (offsets + done), _mm_add_epi32(c, before));
            _mm_storeu_si128((__m128i*) (offsets + done + 4), _mm_add_epi32(d, before));
            before = _mm_add_epi32(before, _mm_shuffle_epi32(d, 0xff));
        }
        int64_t parts[4];
        _mm256_storeu_si256((__m256i*) parts, sums);
        for (int part = 0; part < 4; part++) *total = (int64_t) ((uint64_t) *total + (uint64_t) parts[part]);
        _mm256_storeu_si256((__m256i*) parts, bits);
        *any |= (uint64_t) (parts[0] | parts[1] | parts[2] | parts[3]);
        return done;
    }

    /* How many of `count` values of 128 bits were looked at, a multiple of 4; *odd is not 0 where one is beyond
       `limit`, of at most 60 bits, or below its negative. */
    ORC_AVX2 static Py_ssize_t orc_check_decimals(
        const int64_t* words, Py_ssize_t count, int64_t limit, uint64_t* odd
    ) {
        Py_ssize_t done = 0;
        if (!orc_unpacks) return 0;
        const __m256i zero = _mm256_setzero_si256(), shift = _mm256_set1_epi64x(limit);
        const __m256i most = _mm256_set1_epi64x(2 * limit);
        __m256i found = zero;
        for (; count - done >= 4; done += 4) {
            const __m256i a = _mm256_loadu_si256((const __m256i*) (words + 2 * done));
            const __m256i b = _mm256_loadu_si256((const __m256i*) (words + 2 * done + 4));
            const __m256i low = _mm256_unpacklo_epi64(a, b), high = _mm256_unpackhi_epi64(a, b);
            const __m256i shifted = _mm256_add_epi64(low, shift);
            found = _mm256_or_si256(found, _mm256_xor_si256(high, _mm256_cmpgt_epi64(zero, low)));
            found = _mm256_or_si256(found, _mm256_cmpgt_epi64(shifted, most));
            found = _mm256_or_si256(found, _mm256_cmpgt_epi64(zero, shifted));
        }
        *odd |= !_mm256_testz_si256(found, found);
        return done;
    }
    #else
    static int orc_use_simd(int wanted) { return 0; }
    static Py_ssize_t orc_unpack(
        const uint8_t* data, Py_ssize_t size, int width, int64_t* out, Py_ssize_t count, int is_signed,
        uint64_t base
    ) { return 0; }
    static Py_ssize_t orc_read_varints(
        const uint8_t* data, Py_ssize_t size, uint64_t* out, Py_ssize_t count, Py_ssize_t* done, uint64_t* any
    ) { *done = 0; return 0; }
    static Py_ssize_t orc_sum_lengths(
        const int64_t* lengths, Py_ssize_t count, int32_t* offsets, int64_t* total, uint64_t* any
    ) { return 0; }
    static Py_ssize_t orc_check_decimals(
        const int64_t* words, Py_ssize_t count, int64_t limit, uint64_t* odd
    ) { return 0; }
    #endif
    """
    bint use_simd "orc_use_simd"(bint wanted)
    Py_ssize_t unpack_many "orc_unpack"(
        const uint8_t* data,
        Py_ssize_t size,
        int width,
        int64_t* out,
        Py_ssize_t count,
        bint signed,
        uint64_t base,
    ) noexcept nogil
    Py_ssize_t read_varints "orc_read_varints"(
        const uint8_t* data, Py_ssize_t size, uint64_t* out, Py_ssize_t count, Py_ssize_t* done, uint64_t* any
    ) noexcept nogil
    Py_ssize_t sum_lengths "orc_sum_lengths"(
        const int64_t* lengths, Py_ssize_t count, int32_t* offsets, int64_t* total, uint64_t* any
    ) noexcept nogil
    Py_ssize_t check_decimals "orc_check_decimals"(
        const int64_t* words, Py_ssize_t count, int64_t limit, uint64_t* odd
    ) noexcept nogil
