from libc.stdint cimport uint8_t


cdef class Codec:
    # Of the format's name for it: for messages.
    cdef readonly str name
    # Whether `into` takes the lock to do its work.
    cdef bint in_python

    cdef Py_ssize_t into(
        self, const uint8_t* chunk, Py_ssize_t size, uint8_t* out, Py_ssize_t room
    ) except -1 nogil
    cdef Py_ssize_t refuse(self, Py_ssize_t size, Py_ssize_t room, const char* reason) except -1 with gil
