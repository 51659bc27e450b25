"""Decompresses chunks, as functions in C that need no lock of the interpreter.

Knows how each codec's library is called. Must not know where a library's functions stand: addresses are given
(`compression` finds them in the libraries that other packages bring). Those packages' own functions make memory for
each answer while they hold the lock: two threads that read zlib waited for each other 970 times, and 660 times without.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.limits cimport INT_MAX
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcpy, memset

from orcstream.codec._bits cimport load_le64, read_varint
from orcstream.codec._lent cimport readable, writable

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


# --- LZ4 (lz4.h) ------------------------------------------------------------------------------------------------

ctypedef int (*Lz4Decompress)(const char*, char*, int, int) noexcept nogil


cdef class Lz4Codec(Codec):
    """A block without a frame. Takes the address of LZ4_decompress_safe."""

    cdef Lz4Decompress decompress

    def __cinit__(self, str name, uintptr_t decompress):
        if not decompress:
            raise ValueError("functions have addresses")
        self.decompress = <Lz4Decompress> decompress

    cdef Py_ssize_t into(
        self, const uint8_t* chunk, Py_ssize_t size, uint8_t* out, Py_ssize_t room
    ) except -1 nogil:
        cdef int written
        if size > INT_MAX:
            return self.refuse(size, room, b"too long")
        written = self.decompress(<const char*> chunk, <char*> out, <int> size, <int> min(room, <Py_ssize_t> INT_MAX))
        if written < 0:
            return self.refuse(size, room, b"bad data or too much output")
        return written


# --- Snappy (its format description) ----------------------------------------------------------------------------

cdef extern from *:
    bint unlikely(bint) noexcept nogil

cdef enum:
    # The lowest two bits of a tag: what it is, and for copies how many bytes of the offset follow (but for 3: 4).
    SNAPPY_KIND = 3
    SNAPPY_LITERAL = 0
    SNAPPY_COPY_1 = 1
    SNAPPY_COPY_4 = 3
    # A literal of at least this length has its length, less one, behind the tag, in a byte for each number from here.
    SNAPPY_LONG = 61
    # At this distance from both ends a step of the fast loop needs no check. It reads 70 bytes at most: a tag and a
    # literal of 60, the tag of a copy, and 8 bytes behind that. It writes 60 bytes of a literal, and 71 of a copy.
    SNAPPY_MARGIN = 144

# For the tag of each copy: its length, and the bits of the offset that are in the tag, where they stand in the offset.
cdef uint16_t[256] SNAPPY_LENGTHS, SNAPPY_HIGH
# What is the offset of the 4 bytes behind a tag, by kind.
cdef uint32_t[4] SNAPPY_MASKS = [0, 0xFF, 0xFFFF, 0xFFFFFFFF]


cdef void fill_snappy_tables() noexcept:
    cdef int tag
    for tag in range(256):
        if tag & SNAPPY_KIND == SNAPPY_COPY_1:
            SNAPPY_LENGTHS[tag] = 4 + (tag >> 2 & 7)
            SNAPPY_HIGH[tag] = tag >> 5 << 8
        else:
            SNAPPY_LENGTHS[tag] = 1 + (tag >> 2)


fill_snappy_tables()


cdef inline Py_ssize_t long_literal(uint32_t behind, Py_ssize_t length) noexcept nogil:
    """The length that follows a tag which says `length`, SNAPPY_LONG or more."""
    return <Py_ssize_t> (behind & (<uint32_t> 0xFFFFFFFF >> 8 * (SNAPPY_LONG + 3 - length))) + 1


cdef inline void copy_8(uint8_t* to, const uint8_t* source) noexcept nogil:
    cdef uint64_t word  # both may overlap
    memcpy(&word, source, 8)
    memcpy(to, &word, 8)


cdef inline void repeat(uint8_t* to, Py_ssize_t offset, Py_ssize_t count) noexcept nogil:
    """Append `count` (1 to 64) bytes that repeat those `offset` bytes before; writes 71 at most.

    Each step of 8 sees what the ones before wrote, so it must not be wider than the offset.
    """
    cdef const uint8_t* source = to - offset
    cdef uint8_t* stop = to + count
    if unlikely(offset < 8):
        # Of each step the first `offset` bytes are right; then twice as many repeat.
        while offset < 8:
            copy_8(to, source)
            to += offset
            if to >= stop:
                return
            offset += offset
        source = to - offset
    else:
        # Most copies end here: fewer branches on a length take less time than fewer bytes.
        copy_8(to, source)
        copy_8(to + 8, source + 8)
        if not unlikely(count > 16):
            return
        copy_8(to + 16, source + 16)
        copy_8(to + 24, source + 24)
        to += 32
        source += 32
    while to < stop:
        copy_8(to, source)
        to += 8
        source += 8


cdef Py_ssize_t unsnap(
    const uint8_t* chunk, Py_ssize_t size, uint8_t* out, Py_ssize_t room, const char** reason
) noexcept nogil:
    """The number of bytes written to `out`; -1 with a reason for what is not valid or has no room there.

    Reads chunk[:size] and writes out[:room] only.
    """
    cdef const uint8_t* source = chunk
    cdef const uint8_t* source_end = chunk + size
    cdef uint8_t* to = out
    cdef uint8_t* out_end = out + room
    cdef const uint8_t* source_margin = NULL
    cdef uint8_t* out_margin = NULL
    cdef uint8_t* end
    cdef uint64_t declared = 0
    cdef uint32_t tag, kind, number
    cdef Py_ssize_t length, offset, behind, index

    length = read_varint(source, source_end, &declared)
    if length <= 0:
        reason[0] = b"no length"
        return -1
    source += length
    if declared > <uint64_t> room:
        reason[0] = b"too much output"
        return -1
    end = out + declared
    if size >= SNAPPY_MARGIN and room >= SNAPPY_MARGIN:
        source_margin = source_end - SNAPPY_MARGIN
        out_margin = out_end - SNAPPY_MARGIN

    # A literal if there is one, and the copy that mostly follows. May pass `end`, but not `out_end`. Where the next tag
    # stands is computed without tables: loads that wait for each other took a fifth more time.
    while source <= source_margin and to <= out_margin:
        tag = source[0]
        source += 1
        kind = tag & SNAPPY_KIND
        if kind == SNAPPY_LITERAL:
            length = (tag >> 2) + 1
            memcpy(to, source, 16)
            if unlikely(length > 16):
                if length >= SNAPPY_LONG:
                    behind = length + 1 - SNAPPY_LONG
                    length = long_literal(<uint32_t> load_le64(source), length)
                    source += behind
                    if length <= 0 or length > source_end - source or length > out_end - to:
                        reason[0] = b"a literal beyond the end"
                        return -1
                    memcpy(to, source, length)
                    to += length
                    source += length
                    continue
                memcpy(to + 16, source + 16, 16)
                if length > 32:
                    memcpy(to + 32, source + 32, 16)
                    memcpy(to + 48, source + 48, 16)
            to += length
            source += length
            tag = source[0]
            kind = tag & SNAPPY_KIND
            if kind == SNAPPY_LITERAL:
                continue
            source += 1
        length = SNAPPY_LENGTHS[tag]
        offset = SNAPPY_HIGH[tag] + <Py_ssize_t> (<uint32_t> load_le64(source) & SNAPPY_MASKS[kind])
        source += 4 if unlikely(kind == SNAPPY_COPY_4) else kind
        if offset <= 0 or offset > to - out:
            reason[0] = b"a copy from before the start"
            return -1
        repeat(to, offset, length)
        to += length

    # The same near an end, with all steps checked.
    while source != source_end:
        tag = source[0]
        source += 1
        kind = tag & SNAPPY_KIND
        length = (tag >> 2) + 1
        if kind == SNAPPY_LITERAL:
            behind = max(<Py_ssize_t> 0, length + 1 - SNAPPY_LONG)
        else:
            behind = 4 if kind == SNAPPY_COPY_4 else kind
        if behind > source_end - source:
            reason[0] = b"it ends in a tag"
            return -1
        number = 0
        for index in range(behind):
            number |= <uint32_t> source[index] << (8 * index)
        source += behind
        if kind == SNAPPY_LITERAL:
            if behind:
                length = long_literal(number, length)
            # The fast loop may have passed `end`: then nothing fits.
            if length <= 0 or length > source_end - source or length > end - to:
                reason[0] = b"a literal beyond the end"
                return -1
            memcpy(to, source, length)
            source += length
        else:
            length = SNAPPY_LENGTHS[tag]
            offset = SNAPPY_HIGH[tag] + <Py_ssize_t> number
            if offset <= 0 or offset > to - out or length > end - to:
                reason[0] = b"a copy from before the start, or beyond the end"
                return -1
            for index in range(length):
                to[index] = to[index - offset]
        to += length

    if to != end:
        reason[0] = b"another length than it declares"
        return -1
    return to - out


cdef class SnappyCodec(Codec):
    """Raw Snappy data."""

    cdef Py_ssize_t into(
        self, const uint8_t* chunk, Py_ssize_t size, uint8_t* out, Py_ssize_t room
    ) except -1 nogil:
        cdef const char* reason = NULL
        cdef Py_ssize_t written = unsnap(chunk, size, out, room, &reason)
        if written < 0:
            return self.refuse(size, room, reason)
        return written
