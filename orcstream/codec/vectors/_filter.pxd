from orcstream.codec._memory cimport View
from orcstream.codec.vectors._texts cimport TextRows


cdef class Texts:
    """Rows of a text or binary vector, perhaps by way of a dictionary."""

    cdef View offsets, data, indexes
    cdef readonly Py_ssize_t count
    cdef TextRows rows
