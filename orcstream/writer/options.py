"""What the user says about a file to be written, checked, and how memory is shared out.

Knows defaults and limits. Must not know how anything is encoded or sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

from orcstream._keywords import check_integer
from orcstream.codec.crypto.masks import mask_of, parse_mask
from orcstream.codec.encode.bloom_build import bloom_size, can_have_bloom
from orcstream.codec.encode.options import EncodeOptions, EncryptedRoot
from orcstream.codec.streams.compression import Compression, Compressor
from orcstream.encryption import Encrypt, Mask
from orcstream.errors import UsageError
from orcstream.file.zones import find_zone, load_zone, mean_time_zone
from orcstream.io.contract.byte_sink import SinkOptions
from orcstream.io.keys import KeyProvider
from orcstream.io.loop.system import core_count
from orcstream.io.urls import is_utf8
from orcstream.schema.schema import Schema, find_column
from orcstream.schema.types import FileColumn, Kind, Type
from orcstream.writer.budget import DEFAULT_MEMORY_LIMIT, LEAST_MEMORY_LIMIT

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


class FileOptions(TypedDict, total=False):
    """What `create` takes of one file, for functions that pass it on."""

    compression: str
    compression_level: int | None
    block_bytes: int
    stripe_bytes: int
    row_index_stride: int
    blooms: Blooms
    original_blooms: bool
    dictionary_threshold: float
    encoding_strategy: str
    file_version: str
    timezone: str
    calendar: str
    lossy_timestamps: bool
    user_metadata: Mapping[str, bytes | str] | None
    encode_threads: int | None
    encrypt: Sequence[Encrypt] | None
    keys: KeyProvider | None
    masks: Masks
    storage_options: Mapping[str, Any] | None
    sink_options: SinkOptions | Mapping[str, Any] | None


class CreateOptions(FileOptions, total=False):
    """All that `create` takes besides the URL and the schema."""

    memory_limit: int
    overwrite: bool
    growing: bool


@dataclass(frozen=True, kw_only=True)
class WriteOptions:
    """What writing a file is told besides the URL and the schema.

    Parameters
    ----------
    compression : {"none", "zlib", "snappy", "lzo", "lz4", "zstd", "brotli"}
        The `compression` of the file.
    compression_level : int
        The `compression_level` on the codec's own scale.
    block_bytes : int
        So many bytes are compressed at a time, fewer in wide files: the most for `block_bytes` is 8 MiB.
    stripe_bytes : int
        A stripe is closed when it has `stripe_bytes`, or earlier for `memory_limit`.
    row_index_stride : int
        A row group has `row_index_stride` rows. With 0, there are no indexes.
    blooms : sequence of str, or mapping
        The columns in `blooms` (dotted names) get bloom filters. A mapping has their shares of false
        positives, which are else 0.01.
    original_blooms : bool
        With `original_blooms`, filters for readers from before ORC 1.4 are added.
    dictionary_threshold : float
        Texts keep a dictionary if the share of different ones is at most `dictionary_threshold`.
    encoding_strategy : {"speed", "compression"}
        With the `encoding_strategy` "speed", bit widths are those that are read faster, else the narrowest.
    file_version : {"0.12", "0.11", "UNSTABLE-PRE-2.0"}
        The `file_version`; few readers know the decimals of "UNSTABLE-PRE-2.0".
    timezone : str
        TIMESTAMP values are stored in `timezone`. The same values are read. Times that the zone skips are
        refused, and so are those of the last second before 1970, which no reader returns right.
    calendar : {"proleptic", "hybrid"}
        Times and days are stored in this `calendar`. The same values are read; days it skips are refused.
    lossy_timestamps : bool
        With `lossy_timestamps`, times that would be refused are written as others (see `write`).
    user_metadata : mapping
        The `user_metadata` is bytes or text by name; readers find it under `OrcFile.user_metadata`.
    memory_limit : int
        No more than `memory_limit` bytes are held: half of them for stripes, a quarter for parts on their way
        to the store.
    encode_threads : int
        Values are encoded on `encode_threads` threads, by default one a core and at most 4.
    overwrite : bool
        Without `overwrite`, the commit raises `FileExistsError` where there is a file already.
    growing : bool
        With `growing`, the file is there from the start and can be read while it is written: each `flush`
        lets readers have what was written before (`open` with ``follow=True``). For local paths, WebHDFS and
        ``memory://``, where no file of that name may exist; `Unsupported` elsewhere.
    encrypt : sequence of Encrypt
        The columns to `encrypt`, each with all below it, and what is written for their values in clear.
    keys : KeyProvider
        Has the master `keys`. Every file gets local keys of its own, drawn before anything else is done.
    masks : mapping
        The columns in `masks` (dotted names) are written only as their mask leaves them.
    storage_options : mapping
        The `storage_options` go to fsspec untouched.
    sink_options : SinkOptions or mapping
        The `sink_options` tune uploads.

    """

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
    user_metadata: Mapping[str, bytes | str] | None = None
    memory_limit: int = DEFAULT_MEMORY_LIMIT
    encode_threads: int | None = None
    overwrite: bool = True
    growing: bool = False
    encrypt: Sequence[Encrypt] | None = None
    keys: KeyProvider | None = None
    masks: Masks = None
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)  # may have secrets
    sink_options: SinkOptions | Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        _among("compression", self.compression, [kind.name.lower() for kind in Compression])
        _among("encoding_strategy", self.encoding_strategy, _STRATEGIES)
        _among("file_version", self.file_version, _VERSIONS)
        _among("calendar", self.calendar, _CALENDARS)
        check_integer("block_bytes", self.block_bytes, 1 << 10, _MOST_BLOCK_BYTES)
        check_integer("stripe_bytes", self.stripe_bytes, 1 << 10, 1 << 40)
        check_integer("row_index_stride", self.row_index_stride, 0, (1 << 31) - 1)
        check_integer("memory_limit", self.memory_limit, LEAST_MEMORY_LIMIT, 1 << 50)
        if self.encode_threads is not None:
            check_integer("encode_threads", self.encode_threads, 1, 1024)
        if self.compression_level is not None:
            check_integer("compression_level", self.compression_level, -(1 << 31), (1 << 31) - 1)
        threshold: Any = self.dictionary_threshold
        if not isinstance(threshold, int | float) or not 0 <= threshold <= 1:
            raise UsageError(f"dictionary_threshold must be between 0 and 1, not {threshold!r}")
        _zone("timezone", self.timezone)
        self.new_compressor()
        if self.encrypt is not None:
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

    @property
    def sinks(self) -> SinkOptions:
        """What the user says about sinks, and else as much memory as there is for it."""
        if self.sink_options is not None:
            return SinkOptions.of(self.sink_options)
        in_flight_bytes = self.memory_limit // 4
        return SinkOptions(part_bytes=min(_PART_BYTES, in_flight_bytes), in_flight_bytes=in_flight_bytes)

    @property
    def key_names(self) -> list[str]:
        """The master key of each encrypted column, in the order of the variants of any schema."""
        return sorted(some.key for some in self.encrypt or () for _ in some.columns)

    @property
    def encrypted_names(self) -> list[_Name]:
        """The encrypted columns, as given."""
        return [name for some in self.encrypt or () for name in some.columns]

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
        for some in self.encrypt or ():
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
