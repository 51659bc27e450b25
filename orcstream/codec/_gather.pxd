from orcstream._buffer cimport Buffer


cdef class Selection:
    cdef readonly Py_ssize_t count
    cdef readonly Py_ssize_t rows
    cdef Buffer positions
    cdef Buffer runs
    cdef Py_ssize_t run_count
