"""What a growing file must do in its store, and the lengths beside it that say how far it may be read.

Beside the file lies ``NAME_flush_length``, as Hive's streaming ingest keeps it: lengths of the file, 8 bytes
each, big-endian, the last of them valid. The first is 0, which says that there is nothing yet: Hive takes an
empty list for damage. What an earlier writer left is added to, so that the list is never without its end.
`flush` makes the bytes durable first and then adds their length, so that a reader who goes by the last whole
entry never sees what a crash could take back. `finish` removes it: from then on the file counts as it is.
"""

from __future__ import annotations

from typing import Protocol

FLUSH_LENGTH = "_flush_length"
LENGTH_BYTES = 8
# The first entry of all lengths.
NO_LENGTH = bytes(LENGTH_BYTES)
# Each write to a disk costs a hop to a thread.
GATHERED_BYTES = 1 << 20


def last_length(lengths: bytes) -> int:
    """Up to where a file is valid by the end of its lengths, from a whole entry on; 0 for not at all."""
    # An entry that is being written, or was torn by a crash, is none yet.
    entries = lengths[: len(lengths) // LENGTH_BYTES * LENGTH_BYTES]
    return max(0, int.from_bytes(entries[-LENGTH_BYTES:], "big", signed=True))


class AppendFile(Protocol):
    """A growing file and its lengths, in one store."""

    @property
    def gathered_bytes(self) -> int:
        """Short writes are gathered up to this many bytes."""

    async def begin(self) -> None:
        """Make both; nothing stays where that fails."""

    async def append(self, data: bytes, offset: int) -> None: ...

    async def flush(self, length: int) -> None:
        """Make what was appended durable, and then add the length."""

    async def finish(self) -> None:
        """Remove the lengths."""

    async def cut(self) -> None:
        """Shorten the file to its last length and remove the lengths; remove both where there is none."""

    async def aclose(self) -> None: ...
