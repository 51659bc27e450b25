from libc.stdint cimport int64_t

cdef extern from *:
    ctypedef long long int128 "__int128"

cdef int128 power_of_ten(int exponent) noexcept nogil
cdef int128 load(const int64_t* words) noexcept nogil
cdef void store(int64_t* words, int128 value) noexcept nogil
cdef bint scaled(int128 value, int value_scale, int scale, int128 limit, int64_t* out) noexcept nogil
cdef int shortest_digits(double x, char* digits, int* exponent) noexcept nogil
cdef double double_of(const char* text) noexcept nogil
