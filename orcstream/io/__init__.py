"""Stores: byte ranges in, parts out, and keys; never the format of what is read.

Import from the modules: `source` opens URLs, `scheduler` sends requests, `options` tunes them. `keys`, which
is for users, is there without an import of its own.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orcstream.io import keys

__all__ = ["keys"]


def __getattr__(name: str) -> object:
    if name != "keys":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.keys")
