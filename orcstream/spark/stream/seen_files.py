"""Which files a stream has seen, in 32 bytes each.

Knows files by hashes of their names and versions, and when they were changed. Must not know stores, nor how
this is kept: `dump` and `load` are bytes.

Names are told apart by 128 bits: of a thousand million files, two are taken for one with a chance of 1 in
10^20.
"""

from __future__ import annotations

import math
import struct
from bisect import bisect_left
from hashlib import blake2b
from typing import Final, Self

# Name, version, and seconds from 1970 when the file was changed; NaN where the store does not say.
_ENTRY: Final = struct.Struct("<16s8sd")
_NAME_BYTES: Final = 16
_FOLD_AT: Final = 4096


def name_key(name: str) -> bytes:
    """What stands for a file's name."""
    return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=_NAME_BYTES).digest()


def version_key(length: int | None, version: str) -> bytes:
    """What stands for the contents of a file, as far as its store tells them apart."""
    return blake2b(f"{length}:{version}".encode("utf-8", "surrogatepass"), digest_size=8).digest()


class SeenFiles:
    """Names, each with the version that was seen last."""

    def __init__(self) -> None:
        self._sorted = b""
        # Those that were added since, and are not among the sorted yet.
        self._recent: dict[bytes, bytes] = {}

    def __len__(self) -> int:
        self._fold()
        return len(self._sorted) // _ENTRY.size

    def version_of(self, name: bytes) -> bytes | None:
        """The version of a name that was seen; None where it was not."""
        entry = self._recent.get(name)
        if entry is None:
            at = self._place(name)
            entry = self._sorted[at : at + _ENTRY.size]
            if entry[:_NAME_BYTES] != name:
                return None
        return entry[_NAME_BYTES : _NAME_BYTES + 8]

    def add(self, name: bytes, version: bytes, modified_s: float | None) -> None:
        """A name that is seen now, or another version of one."""
        self._recent[name] = _ENTRY.pack(name, version, math.nan if modified_s is None else modified_s)
        if len(self._recent) >= max(_FOLD_AT, len(self._sorted) // _ENTRY.size // 8):
            self._fold()

    def forget(self, before_s: float) -> None:
        """Leave out what was changed before a time; files whose time is not known stay."""
        self._fold()
        kept = (_ENTRY.pack(*one) for one in _ENTRY.iter_unpack(self._sorted) if not one[2] < before_s)
        self._sorted = b"".join(kept)

    def dump(self) -> bytes:
        """All of it, in an order of its own."""
        self._fold()
        return self._sorted

    @classmethod
    def load(cls, data: bytes) -> Self:
        """What `dump` made. Raises `ValueError` for a length that is none."""
        if len(data) % _ENTRY.size:
            raise ValueError(f"{len(data)} bytes are no number of entries")
        seen = cls()
        seen._sorted = data
        return seen

    def _place(self, name: bytes) -> int:
        """Where among the sorted a name is, or would be, in bytes."""
        data, size = self._sorted, _ENTRY.size
        return size * bisect_left(
            range(len(data) // size), name, key=lambda at: data[at * size : at * size + _NAME_BYTES]
        )

    def _fold(self) -> None:
        """Put the recent ones where they belong."""
        if not self._recent:
            return
        parts = []
        done = 0
        for name in sorted(self._recent):
            at = self._place(name)
            parts += [self._sorted[done:at], self._recent[name]]
            known = self._sorted[at : at + _NAME_BYTES] == name
            done = at + (_ENTRY.size if known else 0)
        parts.append(self._sorted[done:])
        self._sorted = b"".join(parts)
        self._recent.clear()
