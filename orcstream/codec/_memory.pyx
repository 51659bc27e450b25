"""Access of kernels to any buffer's bytes, read-only.

Knows Python's buffer protocol; must not know what the bytes hold. Vectors come from decoders, but also from
other libraries' memory, so kernels that read vectors take any buffer, and check here that it is long enough.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer


cdef class View:
    def __cinit__(self, object buffer):
        if buffer is None:
            return
        PyObject_GetBuffer(buffer, &self.held, PyBUF_SIMPLE)
        self.ptr = <const unsigned char*> self.held.buf
        self.nbytes = self.held.len

    def __dealloc__(self):
        PyBuffer_Release(&self.held)


cdef View view_of(object buffer, Py_ssize_t items, Py_ssize_t item_bytes):
    """The buffer's bytes, of which at least `items` times `item_bytes` are there."""
    cdef View view
    if buffer is None:
        raise ValueError("a buffer is missing")
    view = View.__new__(View, buffer)
    if items < 0 or items > view.nbytes // item_bytes:
        raise ValueError("a buffer is shorter than its values")
    return view


cdef View rows_of(object buffer, Py_ssize_t first, Py_ssize_t count, Py_ssize_t item_bytes):
    """`count` items from item `first` on, to which the view's address points."""
    cdef View view
    if first < 0 or count < 0:
        raise ValueError("negative counts")
    view = view_of(buffer, first + count, item_bytes)
    view.ptr += first * item_bytes
    view.nbytes -= first * item_bytes
    return view


cdef View mask_of(object mask, Py_ssize_t count):
    """A mask of at least `count` bytes; without an address where there is none, for all rows have values then."""
    return View.__new__(View, None) if mask is None else view_of(mask, count, 1)


cdef View bits_of(object bitmap, Py_ssize_t count):
    """A bitmap of at least `count` bits; without an address where there is none, for no row is null then."""
    return View.__new__(View, None) if bitmap is None else view_of(bitmap, (count + 7) // 8, 1)
