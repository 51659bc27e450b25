from libc.stdint cimport int64_t, uint8_t, uint64_t

cdef uint64_t long_hash(int64_t value) noexcept nogil
cdef uint64_t byte_hash(const uint8_t* data, Py_ssize_t size) noexcept nogil
cdef void add_hash(uint8_t* bits, Py_ssize_t nbytes, int hash_count, uint64_t hash_) noexcept nogil
