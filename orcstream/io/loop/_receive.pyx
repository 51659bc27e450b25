"""Receives what a socket has, and sends what it has room for, without giving the interpreter's lock away.

Neither waits. What fails is an `OSError` of its kind, as with the methods of `socket.socket`. Windows has other
functions for sockets; there both fail.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.exc cimport PyErr_SetFromErrno

cdef extern from *:
    """
    #ifdef _WIN32
    #include <errno.h>
    #define MSG_DONTWAIT 0
    static Py_ssize_t recv(int socket, void *room, size_t most, int flags) { errno = ENOSYS; return -1; }
    static Py_ssize_t send(int socket, const void *data, size_t size, int flags) { errno = ENOSYS; return -1; }
    #else
    #include <sys/socket.h>
    #endif
    """
    int MSG_DONTWAIT
    Py_ssize_t recv(int socket, void* room, size_t most, int flags)
    Py_ssize_t send(int socket, const void* data, size_t size, int flags)


def receive_into(int descriptor, room):
    """Receive into a buffer; returns how many bytes came, 0 at the end."""
    cdef Py_buffer view
    PyObject_GetBuffer(room, &view, PyBUF_WRITABLE)
    try:
        count = recv(descriptor, view.buf, view.len, MSG_DONTWAIT)
        if count < 0:
            PyErr_SetFromErrno(OSError)
    finally:
        PyBuffer_Release(&view)
    return count


def send_at_once(int descriptor, data):
    """Send the bytes of a buffer; returns how many of them there was room for."""
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        count = send(descriptor, view.buf, view.len, MSG_DONTWAIT)
        if count < 0:
            PyErr_SetFromErrno(OSError)
    finally:
        PyBuffer_Release(&view)
    return count
