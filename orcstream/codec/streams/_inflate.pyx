"""libdeflate's decompressor, called in the library that another package brings, without the GIL.

Knows the library's C interface (libdeflate.h, the same since 1.0). Must not know chunks, nor where its functions
stand: addresses are given. The package's own function makes memory for each answer and a decompressor for each
call while it holds the GIL: two threads that read zlib waited for each other 970 times, and 660 times without.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport uintptr_t

ctypedef void* (*Allocate)() noexcept nogil
ctypedef int (*Decompress)(void*, const void*, size_t, void*, size_t, size_t*) noexcept nogil
ctypedef void (*Free)(void*) noexcept nogil

# libdeflate_result, by number.
_REASONS = ("", "bad data", "too little output", "too much output")


cdef class Inflater:
    """Decompresses raw deflate data into memory given by the caller; for one thread at a time.

    Takes the addresses of libdeflate_alloc_decompressor, libdeflate_deflate_decompress and
    libdeflate_free_decompressor.
    """

    cdef void* decompressor
    cdef Decompress decompress
    cdef Free free

    def __cinit__(self, uintptr_t allocate, uintptr_t decompress, uintptr_t free):
        if not (allocate and decompress and free):
            raise ValueError("functions have addresses")
        self.decompress = <Decompress> decompress
        self.free = <Free> free
        self.decompressor = (<Allocate> allocate)()
        if self.decompressor == NULL:
            raise MemoryError

    def __dealloc__(self):
        if self.decompressor != NULL:
            self.free(self.decompressor)

    def __call__(self, chunk, out):
        """The number of bytes written to `out`. Raises ValueError for what is no data or has no room there."""
        cdef Py_buffer source, target
        cdef size_t written = 0
        cdef int result
        PyObject_GetBuffer(chunk, &source, PyBUF_SIMPLE)
        try:
            PyObject_GetBuffer(out, &target, PyBUF_WRITABLE)
            try:
                with nogil:
                    result = self.decompress(
                        self.decompressor, source.buf, source.len, target.buf, target.len, &written
                    )
            finally:
                PyBuffer_Release(&target)
        finally:
            PyBuffer_Release(&source)
        if result:
            raise ValueError(_REASONS[result] if 0 < result < len(_REASONS) else f"result {result}")
        return written
