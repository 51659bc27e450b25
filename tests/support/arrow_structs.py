"""The structs of the Arrow C data interface through ctypes, as a consumer in C sees them.

Knows their layout and how capsules hold them. Must not know the package, which is judged with these.
"""

from __future__ import annotations

import ctypes
from typing import Any


class CSchema(ctypes.Structure):
    pass


class CArray(ctypes.Structure):
    pass


CSchema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_void_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(CSchema))),
    ("dictionary", ctypes.POINTER(CSchema)),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]
CArray._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(CArray))),
    ("dictionary", ctypes.POINTER(CArray)),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]

ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
ctypes.pythonapi.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


def opened(capsule: object, name: bytes, struct: type[Any]) -> Any:
    """The struct in the capsule; it lives as long as the capsule."""
    return struct.from_address(ctypes.pythonapi.PyCapsule_GetPointer(capsule, name))
