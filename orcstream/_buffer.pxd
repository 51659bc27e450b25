cdef class Buffer:
    cdef unsigned char* ptr
    cdef readonly Py_ssize_t nbytes
    cdef Py_ssize_t capacity

cdef Buffer allocate(Py_ssize_t nbytes)
