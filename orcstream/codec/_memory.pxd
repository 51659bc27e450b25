cdef class View:
    """The bytes of any buffer, held for as long as this is."""

    cdef Py_buffer held
    cdef const unsigned char* ptr
    cdef Py_ssize_t nbytes


cdef View view_of(object buffer, Py_ssize_t items, Py_ssize_t item_bytes)
cdef View rows_of(object buffer, Py_ssize_t first, Py_ssize_t count, Py_ssize_t item_bytes)
cdef View mask_of(object mask, Py_ssize_t count)
cdef View bits_of(object bitmap, Py_ssize_t count)


cdef inline bint is_null(const unsigned char* bitmap, Py_ssize_t row) noexcept nogil:
    return bitmap != NULL and not (bitmap[row >> 3] >> (row & 7)) & 1
