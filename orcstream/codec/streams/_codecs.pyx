"""Decompresses chunks, as functions in C that need no lock of the interpreter.

Knows how each codec's library is called. Must not know where a library's functions stand: addresses are given
(`compression` finds them in the libraries that other packages bring). Those packages' own functions make memory for
each answer while they hold the lock: two threads that read zlib waited for each other 970 times, and 660 times without.
"""

from cpython.buffer cimport PyBUF_READ, PyBUF_SIMPLE, PyBUF_WRITABLE, PyBUF_WRITE, PyBuffer_Release, PyObject_GetBuffer
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport uint8_t, uintptr_t

from orcstream.errors import CorruptStream, FormatError


cdef class Codec:
    """Decompresses chunks of one codec into memory that the caller gives; for one thread at a time.

    Called with a chunk and a writable buffer, it returns the number of bytes written. Output that does not fit, and
    input that is not valid, raise `CorruptStream`. This class itself is the codec of files without compression,
    which have no chunks.
    """

    def __cinit__(self, str name, *_):
        self.name = name

    def __call__(self, chunk, out):
        cdef Py_buffer source, target
        cdef Py_ssize_t written
        PyObject_GetBuffer(chunk, &source, PyBUF_SIMPLE)
        try:
            PyObject_GetBuffer(out, &target, PyBUF_WRITABLE)
            try:
                with nogil:
                    written = self.into(<const uint8_t*> source.buf, source.len, <uint8_t*> target.buf, target.len)
            finally:
                PyBuffer_Release(&target)
        finally:
            PyBuffer_Release(&source)
        return written

    cdef Py_ssize_t into(
        self, const uint8_t* chunk, Py_ssize_t size, uint8_t* out, Py_ssize_t room
    ) except -1 nogil:
        """The number of bytes written to `out`, at most `room`. The caller may hold the lock, and need not."""
        with gil:
            raise CorruptStream(f"a compressed chunk of {size} bytes in a file without compression")

    cdef Py_ssize_t refuse(self, Py_ssize_t size, Py_ssize_t room, const char* reason) except -1 with gil:
        raise CorruptStream(_message(self.name, size, room, reason.decode("utf-8", "replace")))


def _message(str name, Py_ssize_t size, Py_ssize_t room, reason):
    return f"a chunk of {size} bytes is no valid {name} data of at most {room} bytes: {reason}"


cdef class PythonCodec(Codec):
    """Calls `decompress(chunk, out)`, which returns how many bytes it wrote, under the lock."""

    cdef object decompress

    def __cinit__(self, str name, decompress):
        self.decompress = decompress

    cdef Py_ssize_t into(
        self, const uint8_t* chunk, Py_ssize_t size, uint8_t* out, Py_ssize_t room
    ) except -1 nogil:
        with gil:
            return self._call(chunk, size, out, room)

    cdef Py_ssize_t _call(self, const uint8_t* chunk, Py_ssize_t size, uint8_t* out, Py_ssize_t room) except -1:
        cdef Py_ssize_t written
        try:
            written = self.decompress(
                PyMemoryView_FromMemory(<char*> chunk, size, PyBUF_READ) if size else memoryview(b""),
                PyMemoryView_FromMemory(<char*> out, room, PyBUF_WRITE) if room else memoryview(bytearray()),
            )
        except FormatError:
            raise
        except Exception as error:  # each library has its own classes; all of them mean bad input here
            raise CorruptStream(_message(self.name, size, room, error)) from error
        if not 0 <= written <= room:
            self.refuse(size, room, b"more than the compression block size")
        return written


# --- libdeflate (libdeflate.h, the same since 1.0) --------------------------------------------------------------

ctypedef void* (*DeflateAllocate)() noexcept nogil
ctypedef int (*DeflateDecompress)(void*, const void*, size_t, void*, size_t, size_t*) noexcept nogil
ctypedef void (*DeflateFree)(void*) noexcept nogil

# libdeflate_result, by number.
cdef const char** DEFLATE_REASONS = ["an unknown result", "bad data", "too little output", "too much output"]


cdef class LibdeflateCodec(Codec):
    """Raw deflate data. Takes the addresses of the functions that `_INFLATING` of `compression` names."""

    cdef void* decompressor
    cdef DeflateDecompress decompress
    cdef DeflateFree free

    def __cinit__(self, str name, uintptr_t allocate, uintptr_t decompress, uintptr_t free):
        if not (allocate and decompress and free):
            raise ValueError("functions have addresses")
        self.decompress = <DeflateDecompress> decompress
        self.free = <DeflateFree> free
        self.decompressor = (<DeflateAllocate> allocate)()
        if self.decompressor == NULL:
            raise MemoryError

    def __dealloc__(self):
        if self.decompressor != NULL:
            self.free(self.decompressor)

    cdef Py_ssize_t into(
        self, const uint8_t* chunk, Py_ssize_t size, uint8_t* out, Py_ssize_t room
    ) except -1 nogil:
        cdef size_t written = 0
        cdef int result = self.decompress(self.decompressor, chunk, size, out, room, &written)
        if result:
            return self.refuse(size, room, DEFLATE_REASONS[result if 0 < result < 4 else 0])
        return <Py_ssize_t> written
