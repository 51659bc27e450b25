from libc.stdint cimport uint8_t

from orcstream.codec._memory cimport View
from orcstream.codec.streams._out_stream cimport OutStream


cdef class Encoder:
    cdef readonly OutStream out

    cdef int put_view(self, View values, Py_ssize_t count) except -1
