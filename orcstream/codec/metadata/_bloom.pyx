"""Kernels of bloom filters: the two hashes, and many hashes added to, or tested against, one filter.

Know bits and numbers; must not know how values of a type become bytes or integers (`codec.metadata.bloom`). The hashes
are those of Hive and ORC Java: Thomas Wang's of 64-bit integers, and a 64-bit Murmur3 of Hive's own making (the
body of one lane of the 128-bit one, seed 104729). Specification: "Bloom Filter Index".
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from orcstream.codec._bits cimport load_le64
from orcstream.codec.vectors._filter cimport Texts
from orcstream.codec.vectors._texts cimport text_at

cdef uint64_t C1 = 0x87c37b91114253d5ULL
cdef uint64_t C2 = 0x4cf5ad432745937fULL


cdef inline uint64_t rotate(uint64_t x, int by) noexcept nogil:
    return (x << by) | (x >> (64 - by))


cdef uint64_t long_hash(int64_t value) noexcept nogil:
    # Java shifts signed numbers here; sums wrap, so they are of unsigned ones.
    cdef uint64_t key = <uint64_t> value
    key = ~key + (key << 21)
    key ^= <uint64_t> (<int64_t> key >> 24)
    key = key + (key << 3) + (key << 8)
    key ^= <uint64_t> (<int64_t> key >> 14)
    key = key + (key << 2) + (key << 4)
    key ^= <uint64_t> (<int64_t> key >> 28)
    return key + (key << 31)


def hash_longs(const int64_t[::1] values, uint64_t[::1] out):
    """The hashes of integers, into `out`."""
    cdef Py_ssize_t index, count = values.shape[0]
    if out.shape[0] < count:
        raise ValueError("less room than values")
    with nogil:
        for index in range(count):
            out[index] = long_hash(values[index])


cdef uint64_t byte_hash(const uint8_t* data, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t blocks = size // 8, index
    cdef uint64_t value = 104729, word = 0
    for index in range(blocks):
        value ^= rotate(load_le64(data + index * 8) * C1, 31) * C2
        value = rotate(value, 27) * 5 + 0x52dce729
    for index in range(blocks * 8, size):
        word |= <uint64_t> data[index] << (8 * (index - blocks * 8))
    if size > blocks * 8:
        value ^= rotate(word * C1, 31) * C2
    # Java's lengths have 32 bits.
    value ^= <uint64_t> <uint32_t> size
    value ^= value >> 33
    value *= 0xff51afd7ed558ccdULL
    value ^= value >> 33
    value *= 0xc4ceb9fe1a85ec53ULL
    value ^= value >> 33
    return value


def hash_bytes(const uint8_t[::1] data):
    """The hash of one string of bytes."""
    cdef uint64_t value
    cdef Py_ssize_t size = data.shape[0]
    with nogil:
        value = byte_hash(&data[0] if size else NULL, size)
    return value


def hash_texts(Texts texts not None, uint64_t[::1] out):
    """The hashes of texts, into `out`; 0 where offsets or indexes are beyond their buffers, as they may be of nulls."""
    cdef const uint8_t* text = NULL
    cdef Py_ssize_t row, length = 0
    if out.shape[0] < texts.count:
        raise ValueError("less room than values")
    with nogil:
        for row in range(texts.count):
            out[row] = byte_hash(text, length) if text_at(&texts.rows, row, &text, &length) else 0


cdef inline uint64_t position_of(uint32_t hash_, uint64_t size) noexcept nogil:
    """The bit of a filter of `size` bits; Java's hashes have a sign."""
    return (~hash_ if <int32_t> hash_ < 0 else hash_) % size


cdef void add_hash(uint8_t* bits, Py_ssize_t nbytes, int hash_count, uint64_t hash_) noexcept nogil:
    """Sets the bits of a hash in a filter of `nbytes` bytes (little-endian words)."""
    cdef uint64_t size = 8 * <uint64_t> nbytes, position
    cdef uint32_t combined = <uint32_t> hash_, second = <uint32_t> (hash_ >> 32)
    cdef int probe
    for probe in range(hash_count):
        combined += second
        position = position_of(combined, size)
        bits[position >> 3] |= 1 << (position & 7)


def contains_any(const uint8_t[::1] bits, int hash_count, const uint64_t[::1] hashes):
    """Whether at least one of the hashes may be in the filter of these bits (little-endian words)."""
    cdef uint64_t size = 8 * <uint64_t> bits.shape[0], position
    cdef uint32_t second, combined
    cdef Py_ssize_t index
    cdef int probe
    cdef bint found = False
    if size == 0 or hash_count < 1:
        raise ValueError("no filter")
    with nogil:
        for index in range(hashes.shape[0]):
            combined = <uint32_t> hashes[index]
            second = <uint32_t> (hashes[index] >> 32)
            found = True
            for probe in range(hash_count):
                combined += second
                position = position_of(combined, size)
                if not bits[position >> 3] >> (position & 7) & 1:
                    found = False
                    break
            if found:
                break
    return found
