"""Decompresses chunks, as functions in C that need no lock of the interpreter.

Knows how each codec's library is called. Must not know where a library's functions stand: addresses are given
(`compression` finds them in the libraries that other packages bring). Those packages' own functions make memory for
each answer while they hold the lock: two threads that read zlib waited for each other 970 times, and 660 times without.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport uint8_t, uintptr_t

from orcstream.codec._lent cimport readable, writable
from orcstream.codec.streams._lz cimport unlz4, unsnap

from orcstream.errors import CorruptStream, FormatError

cdef enum:
    # A chunk this short keeps the lock. Two threads gained nothing by giving it away for less than some 10
    # microseconds, which are 3 KB of zstd or zlib, and 10 KB of Snappy or LZ4. And while a third thread computes in
    # Python, a lock that was given away comes back after 5 milliseconds.
    SHORT_CHUNK = 4096
    SHORT_OUTPUT = 262144


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
                if self.in_python or source.len <= SHORT_CHUNK and target.len <= SHORT_OUTPUT:
                    written = self.into(<const uint8_t*> source.buf, source.len, <uint8_t*> target.buf, target.len)
                else:
                    with nogil:
                        written = self.into(
                            <const uint8_t*> source.buf, source.len, <uint8_t*> target.buf, target.len
                        )
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
        self.in_python = True
        self.decompress = decompress

    cdef Py_ssize_t into(
        self, const uint8_t* chunk, Py_ssize_t size, uint8_t* out, Py_ssize_t room
    ) except -1 nogil:
        with gil:
            return self._call(chunk, size, out, room)

    cdef Py_ssize_t _call(self, const uint8_t* chunk, Py_ssize_t size, uint8_t* out, Py_ssize_t room) except -1:
        cdef Py_ssize_t written
        try:
            written = self.decompress(readable(chunk, size), writable(out, room))
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
    """Raw deflate data. Takes the addresses of the functions that `_NATIVE` of `compression` names."""

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


# --- zstd (zstd.h, its stable part) -----------------------------------------------------------------------------

ctypedef void* (*ZstdAllocate)() noexcept nogil
ctypedef size_t (*ZstdDecompress)(void*, void*, size_t, const void*, size_t) noexcept nogil
ctypedef size_t (*ZstdFree)(void*) noexcept nogil
ctypedef unsigned long long (*ZstdContentSize)(const void*, size_t) noexcept nogil
ctypedef size_t (*ZstdFrameSize)(const void*, size_t) noexcept nogil
ctypedef unsigned (*ZstdIsError)(size_t) noexcept nogil
ctypedef const char* (*ZstdErrorName)(size_t) noexcept nogil

cdef enum:
    # The first byte of a frame; one that is to be skipped has another.
    ZSTD_MAGIC = 0x28
    # Where a frame has its flags and, unless it is one segment, its window (RFC 8878, section 3.1.1.1).
    ZSTD_DESCRIPTOR = 4
    ZSTD_WINDOW = 5
    ZSTD_ONE_SEGMENT = 1 << 5
    # An exponent of 17 and a mantissa of 0: 128 MiB.
    ZSTD_LARGEST_WINDOW = 17 << 3

cdef unsigned long long ZSTD_SIZE_UNKNOWN = <unsigned long long> -1
cdef unsigned long long ZSTD_SIZE_ERROR = <unsigned long long> -2


cdef class ZstdCodec(Codec):
    """The first frame of a chunk. Takes the addresses of the functions that `_NATIVE` of `compression` names."""

    cdef void* context
    cdef ZstdDecompress decompress
    cdef ZstdFree free
    cdef ZstdContentSize content_size
    cdef ZstdFrameSize frame_size
    cdef ZstdIsError is_error
    cdef ZstdErrorName error_name

    def __cinit__(
        self,
        str name,
        uintptr_t allocate,
        uintptr_t decompress,
        uintptr_t free,
        uintptr_t content_size,
        uintptr_t frame_size,
        uintptr_t is_error,
        uintptr_t error_name,
    ):
        if not (allocate and decompress and free and content_size and frame_size and is_error and error_name):
            raise ValueError("functions have addresses")
        self.decompress = <ZstdDecompress> decompress
        self.free = <ZstdFree> free
        self.content_size = <ZstdContentSize> content_size
        self.frame_size = <ZstdFrameSize> frame_size
        self.is_error = <ZstdIsError> is_error
        self.error_name = <ZstdErrorName> error_name
        self.context = (<ZstdAllocate> allocate)()
        if self.context == NULL:
            raise MemoryError

    def __dealloc__(self):
        if self.context != NULL:
            self.free(self.context)

    cdef Py_ssize_t into(
        self, const uint8_t* chunk, Py_ssize_t size, uint8_t* out, Py_ssize_t room
    ) except -1 nogil:
        cdef unsigned long long declared = self.content_size(chunk, size)
        cdef size_t result
        if declared == ZSTD_SIZE_ERROR:
            return self.refuse(size, room, b"no frame begins here")
        if chunk[0] != ZSTD_MAGIC:
            return self.refuse(size, room, b"a frame that is skipped")
        if declared == ZSTD_SIZE_UNKNOWN:
            # A whole frame needs no window of its own. But the package refuses those that would need much memory.
            if not chunk[ZSTD_DESCRIPTOR] & ZSTD_ONE_SEGMENT and chunk[ZSTD_WINDOW] > ZSTD_LARGEST_WINDOW:
                return self.refuse(size, room, b"a frame with a window of more than 128 MiB")
        elif declared > <unsigned long long> room:
            return self.refuse(size, room, b"the frame declares more")
        # Where the frame ends: what follows would be read as another.
        result = self.frame_size(chunk, size)
        if not self.is_error(result):
            result = self.decompress(self.context, out, room, chunk, result)
        if self.is_error(result):
            return self.refuse(size, room, self.error_name(result))
        return <Py_ssize_t> result


# --- Loops of ours ----------------------------------------------------------------------------------------------

ctypedef Py_ssize_t (*Loop)(const uint8_t*, Py_ssize_t, uint8_t*, Py_ssize_t, const char**) noexcept nogil


cdef class LoopCodec(Codec):
    """Raw Snappy data, and blocks of LZ4 without a frame."""

    cdef Loop loop

    def __cinit__(self, str name):
        if name not in ("SNAPPY", "LZ4"):
            raise ValueError(f"no loop decompresses {name}")
        self.loop = unsnap if name == "SNAPPY" else unlz4

    cdef Py_ssize_t into(
        self, const uint8_t* chunk, Py_ssize_t size, uint8_t* out, Py_ssize_t room
    ) except -1 nogil:
        cdef const char* reason = NULL
        cdef Py_ssize_t written = self.loop(chunk, size, out, room, &reason)
        if written < 0:
            return self.refuse(size, room, reason)
        return written
