from libc.stdint cimport uint8_t

from orcstream.codec.convert._convert cimport int128

cdef enum:
    DECIMAL_BYTES = 41  # the longest text of a decimal

cdef uint8_t* put_decimal(uint8_t* at, int128 value, int scale) noexcept nogil
