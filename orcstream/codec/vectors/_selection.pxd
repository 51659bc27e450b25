# Selections of rows, for kernels that go through them.

from libc.stdint cimport int32_t

from orcstream._buffer cimport Buffer

cdef enum:
    # Runs of fewer rows than this on average cost more than positions.
    RUN_ROWS = 8


cdef class Selection:
    cdef readonly Py_ssize_t count
    cdef readonly Py_ssize_t rows
    cdef Buffer positions
    cdef Buffer runs  # pairs of start and length
    cdef Py_ssize_t run_count


cdef Selection made(Py_ssize_t count, Py_ssize_t rows, Buffer positions, Buffer runs, Py_ssize_t run_count)
cdef Selection of_positions(Buffer positions, Py_ssize_t count, Py_ssize_t rows)


cdef struct Steps:
    # Runs (start, length), or positions as runs of one.
    const int32_t* items
    Py_ssize_t count
    int stride


cdef inline Steps steps_of(Selection selection) noexcept nogil:
    cdef Steps steps
    if selection.positions is not None:
        steps.items = <const int32_t*> selection.positions.ptr
        steps.count = selection.count
        steps.stride = 1
    else:
        steps.items = <const int32_t*> selection.runs.ptr
        steps.count = selection.run_count
        steps.stride = 2
    return steps


cdef inline int32_t length_of(const Steps* steps, Py_ssize_t index) noexcept nogil:
    return 1 if steps.stride == 1 else steps.items[2 * index + 1]
