"""Stores: byte ranges in, parts out, and keys; never the format of what is read.

Import from the modules: `urls` opens URLs to read, `sink` to write, `append_sink` to append; `folders` lists.
`keys`, which is for users, is there without an import of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from orcstream._lazy import lazy_names

if TYPE_CHECKING:
    from orcstream.io import keys

__all__ = ["keys"]

__getattr__, __dir__ = lazy_names(__name__, {}, modules=("keys",))
