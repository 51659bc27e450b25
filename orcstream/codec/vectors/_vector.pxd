from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

cdef extern from *:
    ctypedef long long int128 "__int128"

cdef Py_ssize_t ones(const uint8_t* mask, Py_ssize_t count) noexcept nogil
cdef Py_ssize_t rows_within(const uint8_t* mask, Py_ssize_t count, Py_ssize_t values) noexcept nogil
cdef void merge_masks(const uint8_t* parent, const uint8_t* own, uint8_t* out, Py_ssize_t count) noexcept nogil
cdef void pack(const uint8_t* mask, Py_ssize_t count, uint8_t* out) noexcept nogil
cdef void spread(
    const uint8_t* values, const uint8_t* mask, uint8_t* out, Py_ssize_t count, Py_ssize_t item_bytes
) noexcept nogil
cdef void narrow(
    const int64_t* values, const uint8_t* mask, uint8_t* out, Py_ssize_t count, Py_ssize_t item_bytes
) noexcept nogil
cdef Py_ssize_t fit_lengths(
    const int64_t* values,
    Py_ssize_t pending,
    const uint8_t* mask,
    Py_ssize_t count,
    Py_ssize_t limit,
    Py_ssize_t* total,
    Py_ssize_t* bad,
) noexcept nogil
cdef Py_ssize_t sum_up(
    const int64_t* lengths, const uint8_t* mask, Py_ssize_t count, int32_t* offsets
) noexcept nogil
cdef void number(const uint8_t* mask, Py_ssize_t count, int32_t* out) noexcept nogil
cdef Py_ssize_t fit_entries(
    const int64_t* values,
    Py_ssize_t pending,
    const uint8_t* mask,
    Py_ssize_t count,
    const int32_t* starts,
    Py_ssize_t size,
    Py_ssize_t limit,
    Py_ssize_t* total,
    Py_ssize_t* bad,
) noexcept nogil
cdef void gather_entries(
    const int64_t* values,
    const uint8_t* mask,
    Py_ssize_t count,
    const int32_t* starts,
    const uint8_t* data,
    int32_t* ends,
    uint8_t* out,
) noexcept nogil
cdef Py_ssize_t invalid_utf8(const int32_t* ends, Py_ssize_t count, const uint8_t* data) noexcept nogil
cdef Py_ssize_t union_children(
    const uint8_t* tags,
    const uint8_t* mask,
    Py_ssize_t count,
    int child_count,
    uint8_t* types,
    int32_t* offsets,
    uint8_t* first,
    int32_t* used,
    bint* any_null,
) noexcept nogil
cdef Py_ssize_t rows_of_union(
    const uint8_t* types, const int32_t* offsets, Py_ssize_t count, const int32_t* limits
) noexcept nogil
cdef Py_ssize_t rescale(
    int128* items, const int64_t* scales, Py_ssize_t count, int scale, int precision, uint64_t any
) noexcept nogil
cdef void widen(const int64_t* values, Py_ssize_t count, int128* out) noexcept nogil
