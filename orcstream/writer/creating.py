"""Creating a file: where its bytes go, the options, and the block that ends with a commit or an abort.

A file appears whole at the commit, or is read as it grows. The options of writing live in `writer.options`.
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from typing import Any, TypeAlias, Unpack

from orcstream._keywords import takes
from orcstream.byterange import BytesLike
from orcstream.codec.arrow.schema import schema_of
from orcstream.encryption import NO_KEYS, check_provider
from orcstream.errors import Unsupported, UsageError
from orcstream.io.append_sink import AppendSink, open_append_sink
from orcstream.io.contract.byte_sink import ByteSink, Prepared, SinkOptions
from orcstream.io.loop.tasks import Pending
from orcstream.io.loop.uncancelled import until_over
from orcstream.io.sink import commit, discard, open_sink
from orcstream.schema.schema import Schema, without_encryption
from orcstream.writer.file_keys import current_keys, draw_keys
from orcstream.writer.options import CreateOptions, FileOptions, WriteOptions
from orcstream.writer.workers import Workers
from orcstream.writer.writer import OrcWriter, Outlet, metadata_of

Target: TypeAlias = str | os.PathLike[str] | io.BytesIO


class _ToSink:
    """What outlets leave to their sink."""

    def __init__(self, sink: ByteSink | AppendSink) -> None:
        self._target = sink

    @property
    def url(self) -> str:
        return self._target.url

    @property
    def held_bytes(self) -> int:
        return self._target.held_bytes

    async def write(self, data: BytesLike) -> None:
        await self._target.write(data)

    async def aclose(self) -> None:
        await self._target.aclose()


class WholeFile(_ToSink):
    """A file that appears at the commit."""

    grows = False

    def __init__(
        self, sink: ByteSink, storage_options: Mapping[str, Any] | None, sink_options: SinkOptions
    ) -> None:
        super().__init__(sink)
        self._sink = sink
        self._options: dict[str, Any] = {"storage_options": storage_options, "sink_options": sink_options}
        self._prepared: Prepared | None = None

    async def flush(self) -> None:
        raise UsageError("this file appears at the commit; one made with growing=True can be flushed")

    async def prepare(self) -> Prepared:
        if self._prepared is None:
            self._prepared = await self._sink.prepare()
        return self._prepared

    async def commit(self) -> None:
        await commit(await self.prepare(), **self._options)
        await self._sink.aclose()

    async def abort(self) -> None:
        if self._prepared is None:
            await self._sink.abort()
        else:
            await self._sink.aclose()
            await discard(self._prepared, **self._options)


class GrowingFile(_ToSink):
    """A file that is visible from the start, and may be read up to its last flush."""

    grows = True

    def __init__(self, sink: AppendSink) -> None:
        super().__init__(sink)
        self._sink = sink

    async def flush(self) -> None:
        await self._sink.flush()

    async def prepare(self) -> Prepared:
        raise Unsupported("a growing file is visible: it cannot be committed elsewhere", reason="growing")

    async def commit(self) -> None:
        await self._sink.finish()

    async def abort(self) -> None:
        await until_over(self._sink.cut())


def hidden_names(options: FileOptions) -> list[str | tuple[str, ...]]:
    """The columns that are to be encrypted or masked, as given."""
    encrypt, masks = options.get("encrypt"), options.get("masks")
    return [*(name for some in encrypt or () for name in some.columns), *(masks or ())]


@takes(CreateOptions, WriteOptions)
def create(url: Target, schema: object = None, **given: Unpack[CreateOptions]) -> Creating:
    """Write an ORC file.

    Either ``async with orcstream.create(url, schema) as out: await out.write(batch)``, which commits at
    the end of the block and aborts when an exception leaves it; or ``out = await orcstream.create(url,
    schema)`` and, at the end, ``await out.commit()`` or ``await out.abort()``. The file appears whole, in
    place of an earlier one of that name, or not at all.

    `url` is a path, any URL that fsspec can write to, or an `io.BytesIO`. `schema` is text
    (``struct<a:int,b:string>``), a `Schema`, or anything with `__arrow_c_schema__`; without one, the first
    batch's is taken. What the schema of another file says of its encryption, in attributes of its types, is
    left out.

    Raises `UsageError` for options that cannot be, `SchemaMismatch` for a schema that is none,
    `KeyUnavailable` for a key that is not there or refused, and the errors of the stores of keys and files.
    """
    options = WriteOptions(**given)
    if options.keys is not None:
        check_provider(options.keys, "keys")
    elif options.encrypt:
        raise UsageError("encrypted columns need keys: give create() a key provider")
    found = None if schema is None else without_encryption(schema_of(schema))
    if found is not None:
        options.encode_options(found)
    return Creating(url, found, options, metadata_of(options.user_metadata or {}), options.sinks)


class Creating(Pending[OrcWriter]):
    """A file about to be written: await it, or enter it. `options` are those of the writer."""

    made_by = "create"

    def __init__(
        self,
        url: Target,
        schema: Schema | None,
        options: WriteOptions,
        user_metadata: Mapping[str, bytes],
        sinks: SinkOptions,
    ) -> None:
        super().__init__()
        self._url = url
        self._schema = schema
        self.options = options
        self._user_metadata = user_metadata
        self._sinks = sinks

    async def _make(self) -> OrcWriter:
        return await self.create()

    async def check_keys(self) -> None:
        """Raises what `create` would raise where a master key cannot be had."""
        if self.options.keys is not None:
            await current_keys(self.options.keys, self.options.key_names)

    async def create(self, workers: Workers | None = None) -> OrcWriter:
        """The writer; several may share `workers`."""
        provider = self.options.keys
        keys = NO_KEYS if provider is None else await draw_keys(provider, self.options.key_names)
        outlet = await self.open_outlet()
        return OrcWriter(
            outlet, self._schema, self.options, user_metadata=self._user_metadata, keys=keys, workers=workers
        )

    async def open_outlet(self) -> Outlet:
        """Where the file will be."""
        storage_options, sinks = self.options.storage_options, self._sinks
        if self.options.growing:
            if isinstance(self._url, io.BytesIO):
                raise Unsupported("a buffer cannot be read while it grows", reason="no_append")
            return GrowingFile(
                await open_append_sink(self._url, storage_options=storage_options, sink_options=sinks)
            )
        sink = await open_sink(
            self._url,
            storage_options=storage_options,
            sink_options=sinks,
            overwrite=self.options.overwrite,
        )
        return WholeFile(sink, storage_options, sinks)
