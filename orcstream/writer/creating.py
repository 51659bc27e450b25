"""Creating a file: the sink, the options, and the block that ends with a commit or an abort.

The defaults of writing live in `writer.options`.
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypedDict

from orcstream.codec.annotations import without_encryption
from orcstream.codec.arrow_schema import schema_of
from orcstream.encryption import Encrypt
from orcstream.errors import Unsupported, UsageError
from orcstream.io.append_sink import open_append_sink
from orcstream.io.byte_sink import SinkOptions
from orcstream.io.key_provider import KeyProvider, check_provider
from orcstream.io.sink import open_sink
from orcstream.pending import Pending
from orcstream.schema import Schema
from orcstream.writer.budget import DEFAULT_MEMORY_LIMIT
from orcstream.writer.file_keys import current_keys, draw_keys
from orcstream.writer.options import Blooms, Masks, WriteOptions
from orcstream.writer.outlets import GrowingFile, Outlet, WholeFile
from orcstream.writer.workers import Workers
from orcstream.writer.writer import OrcWriter, metadata_of

__all__ = ["CreateOptions", "Creating", "FileOptions", "Target", "create", "hidden_names"]

Target: TypeAlias = str | os.PathLike[str] | io.BytesIO


class FileOptions(TypedDict, total=False):
    """What `create` takes of one file, for functions that hand it on."""

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


def hidden_names(options: FileOptions) -> list[str | tuple[str, ...]]:
    """The columns that are to be encrypted or masked, as given."""
    encrypt, masks = options.get("encrypt"), options.get("masks")
    return [*(name for some in encrypt or () for name in some.columns), *(masks or ())]


class CreateOptions(FileOptions, total=False):
    """All that `create` takes besides the URL and the schema."""

    memory_limit: int
    overwrite: bool
    growing: bool


def create(
    url: Target,
    schema: object = None,
    *,
    compression: str = "zstd",
    compression_level: int | None = None,
    block_bytes: int = 1 << 18,
    stripe_bytes: int = 64 << 20,
    row_index_stride: int = 10_000,
    blooms: Blooms = None,
    original_blooms: bool = False,
    dictionary_threshold: float = 0.8,
    encoding_strategy: str = "speed",
    file_version: str = "0.12",
    timezone: str = "UTC",
    calendar: str = "proleptic",
    lossy_timestamps: bool = False,
    user_metadata: Mapping[str, bytes | str] | None = None,
    memory_limit: int = DEFAULT_MEMORY_LIMIT,
    encode_threads: int | None = None,
    overwrite: bool = True,
    growing: bool = False,
    encrypt: Sequence[Encrypt] | None = None,
    keys: KeyProvider | None = None,
    masks: Masks = None,
    storage_options: Mapping[str, Any] | None = None,
    sink_options: SinkOptions | Mapping[str, Any] | None = None,
) -> Creating:
    """Write an ORC file.

    Either ``async with orcstream.create(url, schema) as out: await out.write(batch)``, which commits at
    the end of the block and aborts when an exception leaves it; or ``out = await orcstream.create(url,
    schema)`` and, at the end, ``await out.commit()`` or ``await out.abort()``. The file appears whole, in
    place of an earlier one of that name, or not at all; without `overwrite`, the commit is
    `FileExistsError` where there is one.

    `url` is a path, any URL that fsspec can write to, or an `io.BytesIO`. `schema` is text
    (``struct<a:int,b:string>``), a `Schema`, or anything with `__arrow_c_schema__`; without one, the first
    batch's is taken. `storage_options` go to fsspec untouched; `sink_options` (`SinkOptions` or a
    dictionary) tune uploads.

    - `compression`: none, zlib, snappy, lzo, lz4, zstd or brotli; `compression_level` is the codec's own.
      `block_bytes` are compressed at a time, fewer in wide files.
    - `stripe_bytes`: a stripe is closed when it is so large, or earlier, so that no more than `memory_limit`
      bytes are held. Half of the limit is for stripes, a quarter for parts on their way to the store.
    - `row_index_stride`: rows in a row group, 0 for no indexes. `blooms`: columns (dotted names) that get
      bloom filters, or a dictionary of their shares of false positives (0.01 where none is said);
      `original_blooms` adds filters for readers from before ORC 1.4.
    - `dictionary_threshold`: texts keep a dictionary where so large a share of them, at most, is different.
    - `encoding_strategy`: "speed" takes bit widths that are read faster, "compression" the narrowest.
    - `file_version`: "0.12", "0.11", or "UNSTABLE-PRE-2.0", whose decimals few readers know.
    - `timezone`: in which TIMESTAMP values are stored, and `calendar` "proleptic" or "hybrid". Both give the
      same values back; times that the zone or calendar skips are refused, and so are those of the last
      second before 1970, which no reader gives back right, unless `lossy_timestamps` (see `write`).
    - `encode_threads`: as many as there are cores, at most 4.
    - `growing`: the file is there from the start and can be read while it is written: each `flush` lets
      readers have what was written up to it (`open` with ``follow=True``). For local paths, WebHDFS and
      ``memory://``, where no file of that name may be yet; `Unsupported` elsewhere.
    - `encrypt`: columns to encrypt, each with all below it, and what stands for their values in clear: a list
      of `Encrypt`. `keys` is where their master keys are; every file gets local keys of its own, drawn before
      anything else is done.
    - `user_metadata`: bytes or text by name, which readers find under `OrcFile.user_metadata`.
    - `masks`: columns of which only what a mask leaves is written, a dictionary of masks by dotted names.

    What the schema of another file says of its encryption, in attributes of its types, is left out.

    Raises `UsageError` for options that cannot be, `SchemaMismatch` for a schema that is none,
    `KeyUnavailable` for a key that is not there or refused, and the errors of the stores of keys and files.
    """
    options = WriteOptions(
        compression=compression,
        compression_level=compression_level,
        block_bytes=block_bytes,
        stripe_bytes=stripe_bytes,
        row_index_stride=row_index_stride,
        blooms=blooms,
        original_blooms=original_blooms,
        dictionary_threshold=dictionary_threshold,
        encoding_strategy=encoding_strategy,
        file_version=file_version,
        timezone=timezone,
        calendar=calendar,
        lossy_timestamps=lossy_timestamps,
        memory_limit=memory_limit,
        encode_threads=encode_threads,
        encrypt=() if encrypt is None else encrypt,
        masks=masks,
    )
    check_provider(keys, "keys")
    if options.encrypt and keys is None:
        raise UsageError("encrypted columns need keys: give create() a key provider")
    found = None if schema is None else without_encryption(schema_of(schema))
    if found is not None:
        options.encode_options(found)
    metadata = metadata_of(user_metadata or {})
    place = Place(url, overwrite, growing, storage_options, options.sink_options(sink_options))
    return Creating(place, found, options, metadata, keys)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a file is to be, and how it comes there."""

    url: Target
    overwrite: bool
    growing: bool
    storage_options: Mapping[str, Any] | None
    sink_options: SinkOptions

    async def open(self) -> Outlet:
        if self.growing:
            if isinstance(self.url, io.BytesIO):
                raise Unsupported("a buffer cannot be read while it grows", reason="no_append")
            growing = await open_append_sink(
                self.url, storage_options=self.storage_options, sink_options=self.sink_options
            )
            return GrowingFile(growing)
        sink = await open_sink(
            self.url,
            storage_options=self.storage_options,
            sink_options=self.sink_options,
            overwrite=self.overwrite,
        )
        return WholeFile(sink, self.storage_options, self.sink_options)


class Creating(Pending[OrcWriter]):
    """A file about to be written: await it, or enter it. `options` are those of the writer."""

    made_by = "create"

    def __init__(
        self,
        place: Place,
        schema: Schema | None,
        options: WriteOptions,
        user_metadata: Mapping[str, bytes],
        keys: KeyProvider | None = None,
    ) -> None:
        super().__init__()
        self._place = place
        self._schema = schema
        self.options = options
        self._user_metadata = user_metadata
        self._keys = keys

    async def _make(self) -> OrcWriter:
        return await self.create()

    async def check_keys(self) -> None:
        """Raises what `create` would raise where a master key cannot be had."""
        if self._keys is not None:
            await current_keys(self._keys, self.options.key_names)

    async def create(self, workers: Workers | None = None) -> OrcWriter:
        """The writer; several may share `workers`."""
        keys = await draw_keys(self._keys, self.options.key_names)
        outlet = await self._place.open()
        return OrcWriter(
            outlet, self._schema, self.options, user_metadata=self._user_metadata, keys=keys, workers=workers
        )
