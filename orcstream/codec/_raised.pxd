# What a function without the interpreter's lock has raised, for a caller that goes on.
#
# Such a caller calls it through a pointer whose type says `noexcept`, so that -1 is an answer and no way out; then
# the error waits in the thread's state.

from cpython.exc cimport PyErr_Fetch, PyErr_NormalizeException
from cpython.ref cimport PyObject, Py_XDECREF


cdef inline object raised():
    """The error that waits, which is none any more; it keeps where it came from."""
    cdef PyObject* kind = NULL
    cdef PyObject* value = NULL
    cdef PyObject* trace = NULL
    PyErr_Fetch(&kind, &value, &trace)
    PyErr_NormalizeException(&kind, &value, &trace)
    error = <object> value
    if trace != NULL:
        error = error.with_traceback(<object> trace)
    Py_XDECREF(kind)
    Py_XDECREF(value)
    Py_XDECREF(trace)
    return error
