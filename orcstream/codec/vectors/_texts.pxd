# Texts of rows as Arrow has them: offsets and bytes.

from libc.stdint cimport INT32_MAX, int32_t, uint8_t

from orcstream._buffer cimport Buffer, allocate


cdef inline Py_ssize_t check_texts(const int32_t[::1] offsets, const uint8_t[::1] data, Py_ssize_t count) except -1:
    """The offsets rise and stay within the bytes; answers the count."""
    cdef Py_ssize_t row
    cdef int32_t falls = 0
    if count < 0 or offsets.shape[0] != count + 1:
        raise ValueError("offsets and mask differ in length")
    with nogil:
        for row in range(count):
            falls |= offsets[row + 1] < offsets[row]
    if falls or offsets[0] < 0 or offsets[count] > data.shape[0]:
        raise ValueError("offsets beyond their bytes")
    return count


cdef inline const uint8_t* bytes_of(const uint8_t[::1] data) noexcept:
    return &data[0] if data.shape[0] else NULL


cdef inline Buffer room_for(Py_ssize_t total):
    """Memory for texts of `total` bytes together."""
    if total > INT32_MAX:
        raise OverflowError("texts of more than 31 bits")
    return allocate(total)
