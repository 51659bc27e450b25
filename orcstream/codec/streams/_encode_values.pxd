from libc.stdint cimport int64_t, uint8_t

from orcstream.codec.streams._out_stream cimport OutStream

cdef enum:
    MOST_NUMBERS = 3  # of a position


cdef class Encoder:
    cdef readonly OutStream out
    cdef readonly Py_ssize_t item_bytes  # width of a value in the buffers that `put` takes
    cdef Py_ssize_t longest              # bytes of the longest value or run in the stream

    cdef int put_bytes(self, const uint8_t* values, Py_ssize_t count) except -1 nogil
    cdef Py_ssize_t encode(
        self, const uint8_t* values, Py_ssize_t count, uint8_t* out, uint8_t* stop, uint8_t** end
    ) noexcept nogil
    cdef int end(self) except -1 nogil
    cdef int place(self, int64_t* numbers) noexcept nogil


cdef class RunEncoder(Encoder):
    cdef Py_ssize_t held  # values of the open run

    cdef uint8_t* emit(self, uint8_t* out) noexcept nogil


cdef class ByteEncoder(RunEncoder):
    cdef uint8_t[128] literals
    cdef int tail         # how many of the last literals are equal
    cdef bint repeating   # the open run repeats literals[0]

    cdef int64_t _following(self) noexcept nogil
    cdef int _tail_with(self, int64_t value) noexcept nogil


cdef class BoolEncoder(Encoder):
    cdef ByteEncoder packed
    cdef uint8_t partial     # the byte that is not complete: its upper bits
    cdef int partial_bits

    cdef int put_bitmap(self, const uint8_t* bitmap, Py_ssize_t at, Py_ssize_t count) except -1 nogil
    cdef int repeat(self, bint value, Py_ssize_t count) except -1 nogil
    cdef int _put_bit(self, bint bit) except -1 nogil


cdef class IntegerEncoder(RunEncoder):
    cdef bint signed

    cdef int repeat(self, int64_t value, Py_ssize_t count) except -1 nogil
