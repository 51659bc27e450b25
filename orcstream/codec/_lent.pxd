"""Memory of kernels, lent to functions in Python for one call.

Must not know what the bytes hold. Of no bytes, memory may have no address.
"""

from cpython.buffer cimport PyBUF_READ, PyBUF_WRITE
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport uint8_t


cdef inline object readable(const uint8_t* data, Py_ssize_t size):
    return PyMemoryView_FromMemory(<char*> data, size, PyBUF_READ) if size else memoryview(b"")


cdef inline object writable(uint8_t* data, Py_ssize_t size):
    return PyMemoryView_FromMemory(<char*> data, size, PyBUF_WRITE) if size else memoryview(bytearray())
