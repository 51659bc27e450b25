"""Columns that are written in two forms, or as a mask leaves them.

Knows which form is given the values and which what a mask makes of them. Masks are applied in Python, so this takes the
interpreter's lock; the forms themselves need none.
"""

cimport cython
from libc.stdint cimport int64_t

from orcstream.codec.encode._column cimport ColumnEncoder
from orcstream.codec.encode._source cimport Rows, Source, SourceTree, span

import numpy as np

from orcstream.codec.vectors._selection import select_positions
from orcstream.codec.vectors.gather import compact

cdef enum:
    # A mask may make texts longer, so it is given so many rows at a time.
    MASKED_ROWS = 65536


@cython.final
cdef class FormsEncoder(ColumnEncoder):
    """A column that is written as its mask leaves it, and of which a variant, if any, holds the values.

    The children are its forms; `maskings` says for each what masks its values, None for the values themselves, and
    `variants` the number of its variant, if it is one. The forms have nothing in common: nothing of the values may reach the streams, indexes and statistics of the
    masked form. The column has no streams of its own.
    """

    cdef readonly tuple variants
    cdef tuple maskings
    cdef int masked  # bit i: whether form i is masked

    def __init__(self, type_, forms, maskings, variants):
        super().__init__(type_, None, (), children=forms)
        self.variants = tuple(variants)
        self.maskings = tuple(maskings)
        for index, masking in enumerate(self.maskings):
            self.masked |= (masking is not None) << index

    cdef int add(self, const Source* source, Rows rows) except -1 nogil:
        cdef int index
        for index in range(self.child_count):
            if self._shows_values(index):
                (<ColumnEncoder> self.child_pointers[index]).add(source, rows)
            else:
                self._add_masked(index, source, &rows)
        return 0

    cdef bint _shows_values(self, int index) noexcept nogil:
        return not self.masked >> index & 1

    cdef int _add_masked(self, int index, const Source* source, const Rows* rows) except -1 with gil:
        cdef object field = <object> source.field, vector = <object> source.vector, masking = self.maskings[index]
        cdef Py_ssize_t moved = source.offset - vector.offset, start
        cdef ColumnEncoder form = self.children[index]
        cdef SourceTree tree
        if rows.positions == NULL:
            vector = vector.slice(moved + rows.first, moved + rows.first + rows.count)
        elif rows.count:
            positions = np.array(<const int64_t[:rows.count]> rows.positions) + moved
            vector = compact([(vector, select_positions(positions, rows.count, vector.length))], field)
        for start in range(0, rows.count, MASKED_ROWS):
            some = vector.slice(start, min(rows.count, start + MASKED_ROWS))
            tree = SourceTree(field, masking.apply(field, some))
            with nogil:
                form.add(tree.root, span(0, tree.root.length))
        return 0
