from libc.stdint cimport uint8_t

from orcstream.codec.streams._out_stream cimport OutStream


cdef class Encoder:
    cdef readonly OutStream out
    cdef readonly Py_ssize_t item_bytes  # width of a value in the buffers that `put` takes
    cdef Py_ssize_t longest              # bytes of the longest value or run in the stream

    cdef int put_bytes(self, const uint8_t* values, Py_ssize_t count) except -1
    cdef Py_ssize_t encode(
        self, const uint8_t* values, Py_ssize_t count, uint8_t* out, uint8_t* stop, uint8_t** end
    ) noexcept nogil


cdef class RunEncoder(Encoder):
    cdef Py_ssize_t held  # values of the open run

    cdef uint8_t* emit(self, uint8_t* out) noexcept nogil


cdef class IntegerEncoder(RunEncoder):
    cdef bint signed
