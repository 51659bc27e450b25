# What each does stands in the C code of `_simd.pyx`.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

cdef Py_ssize_t unpack_many(
    const uint8_t* data,
    Py_ssize_t size,
    int width,
    int64_t* out,
    Py_ssize_t count,
    bint signed,
    uint64_t base,
) noexcept nogil
cdef Py_ssize_t read_varints(
    const uint8_t* data, Py_ssize_t size, uint64_t* out, Py_ssize_t count, Py_ssize_t* done, uint64_t* any
) noexcept nogil
cdef Py_ssize_t sum_lengths(
    const int64_t* lengths, Py_ssize_t count, int32_t* offsets, int64_t* total, uint64_t* any
) noexcept nogil
cdef Py_ssize_t check_decimals(
    const int64_t* words, Py_ssize_t count, int64_t limit, uint64_t* odd
) noexcept nogil
