# Texts of rows as Arrow has them: offsets and bytes.

from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t

from orcstream._buffer cimport Buffer, allocate


# Some rows of texts, perhaps by way of a dictionary.
cdef struct TextRows:
    const int32_t* ends       # where the entries begin, and where the last one ends
    const uint8_t* data
    Py_ssize_t data_bytes
    Py_ssize_t size           # of the dictionary; without one, how many entries may be read
    Py_ssize_t base           # the entry that is number 0 of the dictionary
    const int32_t* indexes    # each row's number in the dictionary; NULL: rows are entries
    const int64_t* positions  # which rows; NULL: those from `first` on
    Py_ssize_t first          # where rows and positions are counted from
    Py_ssize_t count


cdef inline Py_ssize_t entry_of(const TextRows* texts, Py_ssize_t index) noexcept nogil:
    """The number of the entry that one of the rows is, or -1 where there is none."""
    cdef Py_ssize_t entry = texts.first + (index if texts.positions == NULL else texts.positions[index])
    if texts.indexes != NULL:
        entry = texts.indexes[entry]
    return entry if 0 <= entry < texts.size else -1


cdef inline bint entry_at(
    const TextRows* texts, Py_ssize_t entry, const uint8_t** text, Py_ssize_t* length
) noexcept nogil:
    """Where the text of an entry is; false where there is none."""
    cdef const int32_t* ends
    if entry < 0:
        return False
    ends = texts.ends + texts.base + entry
    if ends[0] < 0 or ends[1] < ends[0] or ends[1] > texts.data_bytes:
        return False
    text[0] = texts.data + ends[0]
    length[0] = ends[1] - ends[0]
    return True


cdef inline bint text_at(
    const TextRows* texts, Py_ssize_t index, const uint8_t** text, Py_ssize_t* length
) noexcept nogil:
    """Where the text of one of the rows is; false where there is none."""
    return entry_at(texts, entry_of(texts, index), text, length)


cdef Py_ssize_t cut(
    const uint8_t* text, Py_ssize_t size, Py_ssize_t most, bint trim, Py_ssize_t* have
) noexcept nogil


cdef inline Py_ssize_t check_texts(const int32_t[::1] offsets, const uint8_t[::1] data, Py_ssize_t count) except -1:
    """The offsets rise and stay within the bytes; answers the count."""
    cdef Py_ssize_t row
    cdef int32_t falls = 0
    if count < 0 or offsets.shape[0] != count + 1:
        raise ValueError("offsets and mask differ in length")
    with nogil:
        for row in range(count):
            falls |= offsets[row + 1] < offsets[row]
    if falls or offsets[0] < 0 or offsets[count] > data.shape[0]:
        raise ValueError("offsets beyond their bytes")
    return count


cdef inline const uint8_t* bytes_of(const uint8_t[::1] data) noexcept:
    return &data[0] if data.shape[0] else NULL


cdef inline Buffer room_for(Py_ssize_t total):
    """Memory for texts of `total` bytes together."""
    if total > INT32_MAX:
        raise OverflowError("texts of more than 31 bits")
    return allocate(total)
