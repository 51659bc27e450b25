"""The encrypted columns of files that are joined: what must be the same, and what the new tail says of them.

Knows how files say what is encrypted, and statistics as their keys opened them. Must not know key stores. The
statistics of all variants are encrypted anew, since their counters depend on the number of stripes; so keys
are needed of all of them. Stripes keep their local keys and their ids, unless they are given others (`rename`
is not None): then they are numbered again, and their streams are encrypted anew on their way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orcstream.codec.crypto.sealing import VariantStatistics, seal
from orcstream.codec.crypto.streams import MAX_STRIPE_ID
from orcstream.codec.metadata.structure import Encryption, StatisticsList
from orcstream.codec.metadata.wire import MESSAGE_CAP_BYTES
from orcstream.codec.streams.compression import Compressor
from orcstream.encryption import EncryptionKey, FileKeys
from orcstream.errors import Unsupported
from orcstream.plan.merge.statistics import ColumnMerger
from orcstream.plan.tail import METADATA_CAP_BYTES, Tail
from orcstream.schema.schema import Schema, renamed_keys
from orcstream.schema.types import FileColumn

# What it takes at most to say how long the statistics of one stripe are.
_LENGTH_BYTES = 6


@dataclass(frozen=True, slots=True)
class OpenedStatistics:
    """The statistics of a file and of its stripes, those of encrypted columns of their real values."""

    of_file: StatisticsList
    of_stripes: Sequence[StatisticsList]


class VariantMerger:
    """The variants of the result. `rename` has new names of master keys, None where stripes keep theirs."""

    def __init__(self, rename: Mapping[str, str] | None) -> None:
        self.rename = rename
        self.key_names: set[str] = set()
        """Those of the master keys that the files have."""
        self._encryption: Encryption | None = None
        self._columns: list[list[list[bytes]]] = []
        self._bytes: list[list[int]] = []
        self._merged: list[ColumnMerger] = []

    @property
    def keys(self) -> list[EncryptionKey]:
        """The master key of each variant, as the first file has it."""
        encryption = self._encryption
        return [] if encryption is None else [encryption.keys[one.key] for one in encryption.variants]

    def shape(self, encryption: Encryption | None) -> object:
        """What makes the encryption of two files the same; None for none."""
        if encryption is None:
            return None
        rename = self.rename
        keys = [encryption.keys[one.key] for one in encryption.variants]
        return (
            tuple(
                (one.root, key if rename is None else rename.get(key.name, key.name))
                for one, key in zip(encryption.variants, keys, strict=True)
            ),
            frozenset((one.name, one.parameters, frozenset(one.columns)) for one in encryption.masks),
            encryption.key_provider if rename is None else None,
        )

    def renamed(self, schema: Schema) -> Schema:
        """With the new names of keys where ORC Java notes them: in the attributes of encrypted columns."""
        return renamed_keys(schema, self.rename or {})

    def add(self, tail: Tail, opened: OpenedStatistics) -> None:
        """Append a file whose shape is that of the first.

        Raises `Unsupported` where there are more statistics than anybody would read.
        """
        footer = tail.footer
        if footer.encryption is None:
            return
        self.key_names.update(footer.encryption.keys[one.key].name for one in footer.encryption.variants)
        trees = [footer.schema.types[variant.root].column_ids for variant in footer.encryption.variants]
        if self._encryption is None:
            self._encryption = footer.encryption
            self._columns = [[[] for _ in tree] for tree in trees]
            self._bytes = [[0] * len(tree) for tree in trees]
            self._merged = [ColumnMerger() for _ in trees]
        for tree, columns, sizes, merged in zip(trees, self._columns, self._bytes, self._merged, strict=True):
            found = [opened.of_file.get(column) for column in tree]
            known = [one for one in found if one is not None and one.value_count is not None]
            merged.add(known if len(known) == len(tree) else None, footer.row_count)
            for place, (column, parts) in enumerate(zip(tree, columns, strict=True)):
                found_here = [_of(opened.of_stripes, stripe, column) for stripe in range(len(footer.stripes))]
                parts += found_here
                sizes[place] += sum(len(part) + _LENGTH_BYTES for part in found_here)
        if any(max(sizes) > MESSAGE_CAP_BYTES for sizes in self._bytes) or (
            sum(map(sum, self._bytes)) > METADATA_CAP_BYTES
        ):
            raise Unsupported(
                "the encrypted statistics of so many stripes are longer than what is read of them: merge "
                "fewer files",
                reason="metadata_too_large",
            )

    def ending(
        self, new: FileKeys, stripe_count: int, block_size: int, compressor: Compressor | None
    ) -> tuple[Encryption, bytes]:
        """What the footer says, and the encrypted statistics of the stripes.

        Raises `Unsupported` where there is no counter for so many stripes.
        """
        encryption = self._encryption
        assert encryption is not None
        if stripe_count >= MAX_STRIPE_ID:
            raise Unsupported(
                f"{stripe_count} stripes with encrypted columns: merge fewer files", reason="too_many_stripes"
            )
        return seal(
            encryption.masks,
            new,
            (
                VariantStatistics(variant.root, columns, merged.serialized().serialized)
                for variant, columns, merged in zip(
                    encryption.variants, self._columns, self._merged, strict=True
                )
            ),
            stripe_count=stripe_count,
            block_size=block_size,
            compressor=compressor,
        )


def _of(stripes: Sequence[StatisticsList], stripe: int, column: FileColumn) -> bytes:
    """The serialised statistics; none say nothing."""
    if stripe >= len(stripes) or column >= len(stripes[stripe]):
        return b""
    return stripes[stripe].serialized[column]
