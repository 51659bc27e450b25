from libc.stdint cimport uint8_t

from orcstream._buffer cimport Buffer


cdef class InputStream:
    # Where it is, for errors.
    cdef readonly int column
    cdef readonly str kind
    cdef readonly long long file_offset
    # Compressed side: pieces not yet consumed; the first of them is `head`, read up to `head_pos`.
    cdef bint compressed
    cdef Py_ssize_t block_size
    cdef list pieces
    cdef object head_view
    cdef const uint8_t* head
    cdef Py_ssize_t head_size
    cdef Py_ssize_t head_pos
    # Where in the file the head begins, and the stream; what turns encrypted bytes into those.
    cdef long long head_offset
    cdef readonly long long stream_start
    cdef object decrypt
    cdef Py_ssize_t buffered
    cdef readonly long long consumed
    # Decompressed bytes before the position at which reading begins.
    cdef Py_ssize_t to_skip
    cdef readonly bint complete
    # Decompressed side: data[pos:end], kept alive by `owner`.
    cdef const uint8_t* data
    cdef Py_ssize_t pos
    cdef Py_ssize_t end
    cdef object owner
    cdef Buffer scratch

    cdef object corrupt(self, str message)
    cdef bint more(self, object decompress) except -1
    cdef Py_ssize_t read_into(self, uint8_t* out, Py_ssize_t count, object decompress) except -1
    cdef Py_ssize_t skip_bytes(self, Py_ssize_t count, object decompress) except -1
    cdef bint _settle(self, object decompress) except -1
    cdef bint _more_plain(self) except -1
    cdef Py_ssize_t _next_chunk(self, bint* original) except -2
    cdef object _decrypted(self, object view, long long file_offset)
    cdef object _take(self, Py_ssize_t count)
    cdef int _take_into(self, uint8_t* out, Py_ssize_t count) except -1
    cdef int _advance(self, Py_ssize_t count) except -1
    cdef int _set_head(self) except -1
    cdef int _reserve(self, Py_ssize_t extra) except -1
    cdef Py_ssize_t _inflate(self, object chunk, uint8_t* out, Py_ssize_t room, object decompress) except -1
