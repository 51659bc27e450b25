from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from orcstream._buffer cimport Block
from orcstream.codec.vectors._texts cimport TextRows


cdef class DictionaryBuilder:
    cdef Block slots        # int32: entry number + 1, 0 for none; a power of two, at most 2/3 in use
    cdef Block hashes       # uint64 of each entry
    cdef Block heads        # the first eight bytes of each entry
    cdef Block ends         # int64 of each entry: where it ends in `texts`
    cdef Block texts
    cdef Block known        # int32 while numbers are looked up: those of the entries of another dictionary, + 1
    cdef Py_ssize_t slot_count
    cdef readonly Py_ssize_t count
    cdef readonly Py_ssize_t data_bytes

    cdef int number(self, const TextRows* texts, int64_t* numbers) except -1 nogil
    cdef int sort_into(self, int64_t* ranks, int64_t* lengths, uint8_t* data) except -1 nogil
    cdef int compare(self, Py_ssize_t one, Py_ssize_t other) noexcept nogil
    cdef Py_ssize_t text(self, Py_ssize_t entry, const uint8_t** text) noexcept nogil
    cdef Py_ssize_t held(self) noexcept nogil
    cdef int free(self) noexcept nogil
    cdef int64_t* _merge_sort(self, int64_t* order, int64_t* room) noexcept nogil
    cdef Py_ssize_t _entry(self, const TextRows* texts, Py_ssize_t row) except -1 nogil
    cdef Py_ssize_t _find(self, const uint8_t* text, Py_ssize_t length, uint64_t head, uint64_t hash_) noexcept nogil
    cdef Py_ssize_t _put(self, const uint8_t* text, Py_ssize_t length, uint64_t head, uint64_t hash_) except -1 nogil
    cdef int _grow_slots(self) except -1 nogil
