"""Compresses blocks into chunks, as functions in C that need no lock of the interpreter.

Knows how each codec's library is called, by addresses that it is given, as `_codecs` does; and the header of a chunk.
Must not know streams. The same bytes, level and library give the same chunk as the packages' own functions.
"""

from libc.stdint cimport uint8_t, uintptr_t

from orcstream._buffer cimport give_block, widen_block
from orcstream.codec._lent cimport readable, writable


cdef class Packer:
    """Compresses blocks by one codec; for one thread at a time."""

    def __dealloc__(self):
        give_block(&self.scratch)

    cdef uint8_t* room_for(self, Py_ssize_t size) except NULL nogil:
        """Memory of `scratch` that is content with every chunk of a block of `size` bytes."""
        widen_block(&self.scratch, 0, packed_bound(size))
        return self.scratch.ptr

    cdef Py_ssize_t pack(
        self, const uint8_t* block, Py_ssize_t size, uint8_t* out, Py_ssize_t room
    ) except -1 nogil:
        """The number of bytes written to `out`, or 0 where compression would not make the block shorter.

        `room` is at least `packed_bound(size)`. The caller may hold the lock, and need not.
        """
        return 0


cdef class PythonPacker(Packer):
    """Calls `compress(block, out)`, which returns how many bytes it wrote, under the lock."""

    cdef object compress

    def __cinit__(self, compress):
        self.compress = compress

    cdef Py_ssize_t pack(
        self, const uint8_t* block, Py_ssize_t size, uint8_t* out, Py_ssize_t room
    ) except -1 nogil:
        cdef Py_ssize_t written
        with gil:
            written = self.compress(readable(block, size), writable(out, room))
        return written if written < size else 0


# --- libdeflate -------------------------------------------------------------------------------------------------

ctypedef void* (*DeflateAllocate)(int) noexcept nogil
ctypedef size_t (*DeflateCompress)(void*, const void*, size_t, void*, size_t) noexcept nogil
ctypedef void (*DeflateFree)(void*) noexcept nogil


cdef class LibdeflatePacker(Packer):
    """Raw deflate data. Takes the addresses of the functions that `_NATIVE_OUT` of `compression` names."""

    cdef void* compressor
    cdef DeflateCompress compress
    cdef DeflateFree free

    def __cinit__(self, int level, uintptr_t allocate, uintptr_t compress, uintptr_t free):
        if not (allocate and compress and free):
            raise ValueError("functions have addresses")
        self.compress = <DeflateCompress> compress
        self.free = <DeflateFree> free
        self.compressor = (<DeflateAllocate> allocate)(level)
        if self.compressor == NULL:
            raise MemoryError

    def __dealloc__(self):
        if self.compressor != NULL:
            self.free(self.compressor)

    cdef Py_ssize_t pack(
        self, const uint8_t* block, Py_ssize_t size, uint8_t* out, Py_ssize_t room
    ) except -1 nogil:
        cdef Py_ssize_t written = <Py_ssize_t> self.compress(self.compressor, block, size, out, room)
        return written if written < size else 0


# --- zstd -------------------------------------------------------------------------------------------------------

ctypedef void* (*ZstdAllocate)() noexcept nogil
ctypedef size_t (*ZstdSetParameter)(void*, int, int) noexcept nogil
ctypedef size_t (*ZstdCompress)(void*, void*, size_t, const void*, size_t) noexcept nogil
ctypedef size_t (*ZstdFree)(void*) noexcept nogil
ctypedef unsigned (*ZstdIsError)(size_t) noexcept nogil

cdef enum:
    ZSTD_COMPRESSION_LEVEL = 100  # ZSTD_c_compressionLevel


cdef class ZstdPacker(Packer):
    """One frame that declares its size. Takes the addresses of the functions that `_NATIVE_OUT` names."""

    cdef void* context
    cdef ZstdCompress compress
    cdef ZstdFree free
    cdef ZstdIsError is_error

    def __cinit__(
        self,
        int level,
        uintptr_t allocate,
        uintptr_t set_parameter,
        uintptr_t compress,
        uintptr_t free,
        uintptr_t is_error,
    ):
        if not (allocate and set_parameter and compress and free and is_error):
            raise ValueError("functions have addresses")
        self.compress = <ZstdCompress> compress
        self.free = <ZstdFree> free
        self.is_error = <ZstdIsError> is_error
        self.context = (<ZstdAllocate> allocate)()
        if self.context == NULL:
            raise MemoryError
        if self.is_error((<ZstdSetParameter> set_parameter)(self.context, ZSTD_COMPRESSION_LEVEL, level)):
            raise ValueError(f"zstd has no level {level}")

    def __dealloc__(self):
        if self.context != NULL:
            self.free(self.context)

    cdef Py_ssize_t pack(
        self, const uint8_t* block, Py_ssize_t size, uint8_t* out, Py_ssize_t room
    ) except -1 nogil:
        cdef size_t written = self.compress(self.context, out, room, block, size)
        if self.is_error(written):  # there is room, and level and block are valid
            with gil:
                raise MemoryError
        return <Py_ssize_t> written if <Py_ssize_t> written < size else 0
