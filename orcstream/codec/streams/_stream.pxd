from libc.stdint cimport uint8_t

from orcstream._buffer cimport Block
from orcstream.codec.streams._codecs cimport Codec


cdef struct Piece:
    const uint8_t* ptr
    Py_ssize_t size
    bint is_plain  # not encrypted, or decrypted


cdef class InputStream:
    # Where it is, for errors.
    cdef readonly int column
    cdef readonly str kind
    cdef readonly long long file_offset
    # Set by who found too few values in it, until it is fed.
    cdef public bint is_dry
    # Compressed side: pieces, those before `head` consumed, that one read up to `head_pos`; and what holds their memory.
    cdef bint compressed
    cdef Py_ssize_t block_size
    cdef Piece* pieces
    cdef Py_ssize_t piece_count
    cdef Py_ssize_t piece_room
    cdef list held
    cdef Py_ssize_t head
    cdef Py_ssize_t head_pos
    # Where in the file the head begins, and the stream; what turns encrypted bytes into those.
    cdef long long head_offset
    cdef readonly long long stream_start
    cdef object decrypt
    cdef Py_ssize_t buffered
    cdef readonly long long consumed
    # Decompressed bytes before the position at which reading begins.
    cdef Py_ssize_t to_skip
    # Of a chunk that is stored as it is: bytes that are still to come, all at hand, and those that were read.
    cdef Py_ssize_t stored
    cdef Py_ssize_t stored_done
    cdef readonly bint complete
    # Decompressed side: data[pos:end], in the piece of number `window`, else in `scratch`.
    cdef const uint8_t* data
    cdef Py_ssize_t pos
    cdef Py_ssize_t end
    cdef Py_ssize_t window
    cdef Block scratch
    # A chunk that lies in several pieces.
    cdef Block joined

    cdef int _append(self, const uint8_t* ptr, Py_ssize_t size) except -1
    cdef int fail(self, const char* message) except -1 with gil
    cdef object corrupt(self, str message)
    cdef bint more(self, Codec codec) except -1 nogil
    cdef Py_ssize_t read_into(self, uint8_t* out, Py_ssize_t count, Codec codec) except -1 nogil
    cdef Py_ssize_t skip_bytes(self, Py_ssize_t count, Codec codec) except -1 nogil
    cdef Py_ssize_t hold(self, bint trim) except -1
    cdef bint _settle(self, Codec codec) except -1 nogil
    cdef bint _more_stored(self, Py_ssize_t left, Py_ssize_t done) except -1 nogil
    cdef Py_ssize_t _next_chunk(self, bint* original) except -2 nogil
    cdef int _open(self, Py_ssize_t index, long long file_offset) except -1 nogil
    cdef int _decrypt(self, Py_ssize_t index, long long file_offset) except -1 with gil
    cdef int _peek(self, uint8_t* out, Py_ssize_t count) except -1 nogil
    cdef const uint8_t* _take(self, Py_ssize_t count) except NULL nogil
    cdef int _advance(self, Py_ssize_t count) except -1 nogil
    cdef int _reserve(self, Py_ssize_t extra, Py_ssize_t largest_rest) except -1 nogil
    cdef Py_ssize_t _inflate(self, Py_ssize_t length, uint8_t* out, Codec codec) except -1 nogil
    cdef int _locate(self) except -1 with gil
