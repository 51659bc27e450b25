from libc.stdint cimport uint8_t

from orcstream.codec.vectors._texts cimport TextRows

cdef extern from *:
    ctypedef long long int128 "__int128"
    ctypedef unsigned long long uint128 "unsigned __int128"

cdef enum:
    # One byte more than a bound of a text may have tells whether the text is longer, and whether it may be cut there.
    MOST_BOUND_BYTES = 1025


# What is known of a row group's values. Texts stand elsewhere, in memory of the column's.
cdef struct Tally:
    Py_ssize_t values
    bint has_null
    bint has_bounds           # whole numbers or texts have been seen
    int128 least, largest     # whole numbers
    int128 total              # of whole numbers or bytes; of decimals the upper halves, of whose lower ones is `low`
    uint128 low
    double least_float, largest_float, total_float
    Py_ssize_t text_at        # where the least text stands, and behind it the largest
    Py_ssize_t least_bytes, largest_bytes


cdef void clear(Tally* tally) noexcept nogil
cdef void note(Tally* tally, int128 least, int128 largest) noexcept nogil
cdef void tally_integers(Tally* tally, const uint8_t* values, Py_ssize_t count, int item_bytes) noexcept nogil
cdef void tally_floats(Tally* tally, const uint8_t* values, Py_ssize_t count, int item_bytes) noexcept nogil
cdef void tally_decimals(Tally* tally, const uint8_t* values, Py_ssize_t count) noexcept nogil
cdef bint tally_texts(Tally* tally, const TextRows* texts, uint8_t* bounds) noexcept nogil
cdef void note_text(Tally* tally, const uint8_t* text, Py_ssize_t length, uint8_t* bounds) noexcept nogil
cdef object whole(int128 value)
cdef object whole_of_halves(int128 high, uint128 low)
