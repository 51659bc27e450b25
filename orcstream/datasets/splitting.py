"""Sharing a data set out: rows of one file each, for other tasks and other machines.

Knows which rows, and what has to be known to read them. Must not know how they are read.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from orcstream.schema.schema import Schema

DEFAULT_SPLIT_BYTES = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Rows of one file of a data set: ``orcstream.dataset(split)`` reads them, in any process.

    A plain value that may be pickled. It holds neither credentials nor keys, except for what the URL has
    of them: whoever opens it names `storage_options=` and `keys=` again. `weight_bytes` is what its rows
    have in the file, about; `folders`, `file_schema` and `partition_schema` are what has to be known of
    the data set to read them, `file_length` (bytes) and `fingerprint` what the file is held to.
    `row_count` counts them before any `where=`. A file that is another one by then is `SourceChanged`.
    """

    url: str = field(repr=False)
    path: str
    rows: range
    weight_bytes: int
    folders: str
    file_schema: Schema = field(repr=False)
    partition_schema: Schema = field(repr=False)
    file_length: int = field(repr=False)
    fingerprint: str = field(repr=False)

    @property
    def row_count(self) -> int:
        """How many rows it has, before any `where=`."""
        return len(self.rows)
