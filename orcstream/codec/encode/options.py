"""How a file is encoded: what encoders of all columns are told.

Knows columns by id. Must not know what the user wrote to say it (`writer.options`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from orcstream.codec.metadata.write import FILE_VERSION
from orcstream.codec.streams.compression import Compression
from orcstream.codec.vectors.times import UTC, ZoneRules
from orcstream.encryption import Mask
from orcstream.schema.types import FileColumn


@dataclass(frozen=True, slots=True)
class EncryptedRoot:
    """A column that is encrypted with all below it: the number of its variant, its master key, its mask."""

    variant: int
    root: FileColumn
    key: str
    mask: Mask


@dataclass(frozen=True, slots=True)
class EncodeOptions:
    """How a file is encoded.

    `version` is the file version: (0, 11) has run lengths of version 1, (1, 9999) short decimals as integers.
    `row_index_stride` is rows in a row group, 0 for no indexes. `aligned` takes bit widths that are read
    faster. `dictionary_threshold` is the largest share of different texts that keeps a dictionary. `blooms`
    has the share of false positives of each column with a filter; `original_blooms` writes their older form,
    too. `zone` is that of TIMESTAMP columns, and `mean_time` the same with the local times before 1900, for
    columns that are given instants; `hybrid` writes days before 1582-10-15 in the Julian calendar.
    `encrypted` has the roots of encrypted columns, in the order of their variants, `masked` those of columns
    that are written as masks leave them; none lies within another.
    """

    compression: Compression = Compression.ZSTD
    block_size: int = 1 << 18
    version: tuple[int, int] = FILE_VERSION
    row_index_stride: int = 10_000
    aligned: bool = True
    dictionary_threshold: float = 0.8
    blooms: Mapping[FileColumn, float] = field(default_factory=dict)
    original_blooms: bool = False
    zone: ZoneRules = UTC
    mean_time: ZoneRules = UTC
    hybrid: bool = False
    encrypted: Mapping[FileColumn, EncryptedRoot] = field(default_factory=dict)
    masked: Mapping[FileColumn, Mask] = field(default_factory=dict)

    @property
    def hidden(self) -> tuple[FileColumn, ...]:
        """The roots of columns whose values are not shown to everybody."""
        return (*self.encrypted, *self.masked)

    @property
    def version_1(self) -> bool:
        """Whether integers have run lengths of version 1."""
        return self.version == (0, 11)

    @property
    def decimal64(self) -> bool:
        """Whether short decimals are plain integers."""
        return self.version == (1, 9999)
