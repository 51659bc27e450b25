"""Keys of rows of transactional tables: whether they ascend, and which rows have a key that is among others.

Knows a key as three numbers in three arrays: write id (int64), bucket (int32), row id (int64), compared in
this order. Must not know events, files or vectors. Every array is proved to be as long as its count before it
is read; any numbers may stand in it: where keys do not ascend, rows are looked up one by one. All loops run
without the GIL.
"""

from libc.stdint cimport int32_t, int64_t

from orcstream._buffer cimport Buffer, allocate
from orcstream.codec._memory cimport View, view_of


cdef struct Keys:
    const int64_t* write_id
    const int32_t* bucket
    const int64_t* row_id


cdef class KeyViews:
    """The three arrays of some keys."""

    cdef View write_ids, buckets, row_ids
    cdef Keys keys

    def __cinit__(self, write_ids, buckets, row_ids, Py_ssize_t count):
        self.write_ids = view_of(write_ids, count, 8)
        self.buckets = view_of(buckets, count, 4)
        self.row_ids = view_of(row_ids, count, 8)
        self.keys.write_id = <const int64_t*> self.write_ids.ptr
        self.keys.bucket = <const int32_t*> self.buckets.ptr
        self.keys.row_id = <const int64_t*> self.row_ids.ptr


cdef inline int compare(const Keys* some, Py_ssize_t at, const Keys* others, Py_ssize_t there) noexcept nogil:
    if some.write_id[at] != others.write_id[there]:
        return -1 if some.write_id[at] < others.write_id[there] else 1
    if some.bucket[at] != others.bucket[there]:
        return -1 if some.bucket[at] < others.bucket[there] else 1
    if some.row_id[at] != others.row_id[there]:
        return -1 if some.row_id[at] < others.row_id[there] else 1
    return 0


cdef Py_ssize_t first_not_below(
    const Keys* keys, Py_ssize_t start, Py_ssize_t stop, const Keys* rows, Py_ssize_t row
) noexcept nogil:
    """The first of the keys from `start` on that is not below the row's: near steps first, then halves."""
    cdef Py_ssize_t step = 1, middle
    while start + step < stop and compare(keys, start + step - 1, rows, row) < 0:
        start += step
        step *= 2
    if stop > start + step:
        stop = start + step
    while start < stop:
        middle = start + (stop - start) // 2
        if compare(keys, middle, rows, row) < 0:
            start = middle + 1
        else:
            stop = middle
    return start


def are_ascending(write_ids, buckets, row_ids, Py_ssize_t count):
    """Whether every key is above the one before it."""
    cdef KeyViews views = KeyViews(write_ids, buckets, row_ids, count)
    cdef Keys keys = views.keys
    cdef Py_ssize_t at
    cdef bint ascending = True
    with nogil:
        for at in range(1, count):
            if compare(&keys, at - 1, &keys, at) >= 0:
                ascending = False
                break
    return ascending


def find_keys(
    write_ids, buckets, row_ids, Py_ssize_t count,
    known_write_ids, known_buckets, known_row_ids, Py_ssize_t known_count,
):
    """For each of `count` rows the place of its key among the known ones, which ascend, or -1; as int64."""
    cdef KeyViews row_views = KeyViews(write_ids, buckets, row_ids, count)
    cdef KeyViews known_views = KeyViews(known_write_ids, known_buckets, known_row_ids, known_count)
    cdef Keys rows = row_views.keys, known = known_views.keys
    cdef Buffer out = allocate(count * 8)
    cdef int64_t* places = <int64_t*> out.ptr
    cdef Py_ssize_t row, at = 0
    with nogil:
        for row in range(count):
            # Rows nearly always ascend; one that does not begins anew.
            if row and compare(&rows, row - 1, &rows, row) > 0:
                at = 0
            at = first_not_below(&known, at, known_count, &rows, row)
            places[row] = at if at < known_count and compare(&known, at, &rows, row) == 0 else -1
    return out
