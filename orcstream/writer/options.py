"""What the user says about a file to be written, checked, and how memory is shared out.

Knows defaults and limits. Must not know how anything is encoded or sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orcstream.codec.bloom_build import bloom_size, can_have_bloom
from orcstream.codec.compression import Compression, Compressor
from orcstream.codec.encoder import EncodeOptions, EncryptedRoot
from orcstream.codec.mask import mask_of, parse_mask
from orcstream.encryption import Encrypt, Mask
from orcstream.errors import UsageError
from orcstream.io.byte_sink import SinkOptions
from orcstream.io.system import core_count
from orcstream.io.urls import is_utf8
from orcstream.schema import FileColumn, Kind, Schema, Type, find_column
from orcstream.writer.budget import DEFAULT_MEMORY_LIMIT, LEAST_MEMORY_LIMIT
from orcstream.zones import find_zone, load_zone, mean_time_zone

__all__ = ["WriteOptions"]

_VERSIONS = {"0.11": (0, 11), "0.12": (0, 12), "UNSTABLE-PRE-2.0": (1, 9999)}
_CALENDARS = ("proleptic", "hybrid")
_STRATEGIES = ("speed", "compression")
_DEFAULT_BLOOM_SHARE = 0.01
# The shortest block that a stream of a wide file gets; a stripe has room for so many blocks of each column.
_LEAST_BLOCK_BYTES = 4 << 10
_BLOCKS_IN_STRIPE = 20
_MOST_BLOCK_BYTES = (1 << 23) - 1
_PART_BYTES = 8 << 20

Blooms = Mapping[str, float] | Sequence[str] | None
_Name = str | tuple[str, ...]
Masks = Mapping[str | tuple[str, ...], str | Mask] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """The options of `create`, as given. Raises UsageError for what cannot be."""

    compression: str = "zstd"
    compression_level: int | None = None
    block_bytes: int = 1 << 18
    stripe_bytes: int = 64 << 20
    row_index_stride: int = 10_000
    blooms: Blooms = None
    original_blooms: bool = False
    dictionary_threshold: float = 0.8
    encoding_strategy: str = "speed"
    file_version: str = "0.12"
    timezone: str = "UTC"
    calendar: str = "proleptic"
    lossy_timestamps: bool = False
    memory_limit: int = DEFAULT_MEMORY_LIMIT
    encode_threads: int | None = None
    encrypt: Sequence[Encrypt] = ()
    masks: Masks = None

    def __post_init__(self) -> None:
        _among("compression", self.compression, [kind.name.lower() for kind in Compression])
        _among("encoding_strategy", self.encoding_strategy, _STRATEGIES)
        _among("file_version", self.file_version, _VERSIONS)
        _among("calendar", self.calendar, _CALENDARS)
        _integer("block_bytes", self.block_bytes, 1 << 10, _MOST_BLOCK_BYTES)
        _integer("stripe_bytes", self.stripe_bytes, 1 << 10, 1 << 40)
        _integer("row_index_stride", self.row_index_stride, 0, (1 << 31) - 1)
        _integer("memory_limit", self.memory_limit, LEAST_MEMORY_LIMIT, 1 << 50)
        if self.encode_threads is not None:
            _integer("encode_threads", self.encode_threads, 1, 1024)
        if self.compression_level is not None:
            _integer("compression_level", self.compression_level, -(1 << 31), (1 << 31) - 1)
        threshold: Any = self.dictionary_threshold
        if not isinstance(threshold, int | float) or not 0 <= threshold <= 1:
            raise UsageError(f"dictionary_threshold must be between 0 and 1, not {threshold!r}")
        _zone("timezone", self.timezone)
        self.new_compressor()
        _encrypts(self.encrypt)
        if self.masks is not None and not isinstance(self.masks, Mapping):
            raise UsageError(f"masks are a dictionary of masks by column name, not {self.masks!r}")
        for mask in (self.masks or {}).values():
            mask_of(Type(Kind.STRUCT), _mask(mask))

    @property
    def codec(self) -> Compression:
        """The compression of the file."""
        return Compression[self.compression.upper()]

    def new_compressor(self) -> Compressor | None:
        """A compressor for one worker; None where nothing is compressed."""
        if self.codec is Compression.NONE:
            if self.compression_level is not None:
                raise UsageError("a file without compression has no compression_level")
            return None
        return Compressor(self.codec, self.compression_level)

    @property
    def threads(self) -> int:
        """Workers that encode."""
        return self.encode_threads or min(4, core_count())

    # --- memory: half for the stripe under construction, a quarter for parts on their way, the rest for rows
    #     that are being encoded

    @property
    def stripe_limit(self) -> int:
        """A stripe of this size, or in so much memory, is closed."""
        return min(self.stripe_bytes, self.memory_limit // 2)

    @property
    def chunk_bytes(self) -> int:
        """About how much of a batch is encoded before sizes are looked at again."""
        return max(1 << 20, self.memory_limit // 16)

    def sink_options(self, given: SinkOptions | Mapping[str, Any] | None) -> SinkOptions:
        """What the user says about sinks, and else as much memory as there is for it."""
        if given is not None:
            return SinkOptions.of(given)
        in_flight_bytes = self.memory_limit // 4
        return SinkOptions(part_bytes=min(_PART_BYTES, in_flight_bytes), in_flight_bytes=in_flight_bytes)

    @property
    def key_names(self) -> list[str]:
        """The master key of each encrypted column, in the order of the variants of any schema."""
        return sorted(some.key for some in self.encrypt for _ in some.columns)

    @property
    def encrypted_names(self) -> list[_Name]:
        """The encrypted columns, as given."""
        return [name for some in self.encrypt for name in some.columns]

    @property
    def hides_values(self) -> bool:
        """Whether any column is encrypted or masked."""
        return bool(self.encrypt or self.masks)

    def encode_options(self, schema: Schema) -> EncodeOptions:
        """How a file of a schema is encoded.

        Raises UsageError for columns that are not there, and for what they cannot have.
        """
        return EncodeOptions(
            compression=self.codec,
            block_size=self._block_bytes(schema.column_count),
            version=_VERSIONS[self.file_version],
            row_index_stride=self.row_index_stride,
            aligned=self.encoding_strategy == "speed",
            dictionary_threshold=self.dictionary_threshold,
            blooms=self._blooms(schema),
            original_blooms=self.original_blooms,
            zone=load_zone(self.timezone),
            mean_time=mean_time_zone(self.timezone),
            hybrid=self.calendar == "hybrid",
            encrypted=self._encrypted(schema),
            masked=self._masked(schema),
        )

    def _block_bytes(self, column_count: int) -> int:
        """Shorter blocks for wide files, as ORC Java has them, or open blocks alone would fill the memory."""
        room = self.stripe_limit // (_BLOCKS_IN_STRIPE * column_count)
        block = _LEAST_BLOCK_BYTES
        while block < room and block < self.block_bytes:
            block *= 2
        return min(block, self.block_bytes)

    def _blooms(self, schema: Schema) -> dict[FileColumn, float]:
        given = self.blooms
        if given is None:
            return {}
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise UsageError(f"blooms are a list of column names, or a dictionary of shares, not {given!r}")
        if not self.row_index_stride:
            raise UsageError("blooms need row groups: row_index_stride must not be 0")
        shares = given if isinstance(given, Mapping) else dict.fromkeys(given, _DEFAULT_BLOOM_SHARE)
        found: dict[FileColumn, float] = {}
        for name, share in shares.items():
            type_ = _column(schema, name)
            if not can_have_bloom(type_):
                raise UsageError(f"the column {name!r} is {type_}, of which there are no bloom filters")
            if not isinstance(share, int | float):
                raise UsageError(f"blooms of {name!r}: {share!r} is no share of false positives")
            try:
                bloom_size(self.row_index_stride, share)
            except ValueError as error:
                raise UsageError(f"blooms of {name!r}: {error}") from None
            found[type_.column_id] = share
        return found

    def _masked(self, schema: Schema) -> dict[FileColumn, Mask]:
        """The columns that are written as masks leave them, and not otherwise.

        Raises UsageError for columns that are not there, and those that are encrypted or masked besides.
        """
        found: dict[FileColumn, Mask] = {}
        taken = {column: str(self.encrypted_names) for column in self._encrypted(schema)}
        for name, mask in (self.masks or {}).items():
            type_ = _column(schema, name)
            for other, named in taken.items():
                if other in type_.column_ids or type_.column_id in schema.types[other].column_ids:
                    raise UsageError(f"the column {name!r} is masked, and a part of it or all by {named} too")
            taken[type_.column_id] = repr(name)
            found[type_.column_id] = _mask(mask)
        return found

    def _encrypted(self, schema: Schema) -> dict[FileColumn, EncryptedRoot]:
        """In the order of variants: by key, then by column."""
        found: dict[FileColumn, tuple[str, Mask, _Name]] = {}
        for some in self.encrypt:
            for name in some.columns:
                type_ = _column(schema, name)
                if type_.column_id in found:
                    raise UsageError(f"the column {name!r} is encrypted twice")
                found[type_.column_id] = (some.key, _mask(some.mask), name)
        outer: FileColumn | None = None
        for column in sorted(found):
            if outer is not None and column in schema.types[outer].column_ids:
                raise UsageError(
                    f"the column {found[column][2]!r} lies within {found[outer][2]!r}, which is encrypted"
                )
            outer = column
        ordered = sorted(found.items(), key=lambda item: (item[1][0], item[0]))
        return {
            column: EncryptedRoot(variant, column, key, mask)
            for variant, (column, (key, mask, _)) in enumerate(ordered)
        }


def _column(schema: Schema, name: _Name) -> Type:
    type_ = schema.root
    for index in find_column(schema.root, name):
        type_ = type_.children[index]
    return type_


def _among(name: str, value: object, allowed: Any) -> None:
    if not isinstance(value, str) or value not in allowed:
        raise UsageError(f"{name} must be one of {', '.join(allowed)}, not {value!r}")


def _encrypts(given: Any) -> None:
    if not isinstance(given, list | tuple) or not all(isinstance(some, Encrypt) for some in given):
        raise UsageError(f"encrypt is a list of Encrypt, not {given!r}")
    for some in given:
        key: Any = some.key
        columns: Any = some.columns
        if not isinstance(key, str) or not key or not is_utf8(key):
            raise UsageError(f"the key of encrypted columns is a name, not {key!r}")
        if not isinstance(columns, list | tuple) or not columns:
            raise UsageError(f"the columns that {key!r} encrypts are a list of names, not {columns!r}")
        # Raises for a mask that there is not; what it makes of a type does not matter here.
        mask_of(Type(Kind.STRUCT), _mask(some.mask))


def _mask(given: Any) -> Mask:
    if isinstance(given, str):
        return parse_mask(given)
    if not isinstance(given, Mask) or not isinstance(given.parameters, tuple):
        raise UsageError(f"a mask is a Mask or text, not {given!r}")
    return given


def _zone(name: str, value: object) -> None:
    if not isinstance(value, str) or find_zone(value) is None:
        raise UsageError(
            f"{name} must be the name of a zone of the tz database, such as 'Europe/Berlin', not {value!r}"
        )


def _integer(name: str, value: object, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise UsageError(f"{name} must be an integer of {least} to {most}, not {value!r}")
