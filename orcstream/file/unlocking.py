"""The tail of a file, asked for until it is whole, and what opens the file's encrypted columns.

Knows how much of a file's end to ask for, and that it may not be enough; whoever asks reads the file's rows
or copies its stripes. Knows which keys a file asks for and who has them. Must not know how key stores are
reached (`io.keys`), nor how streams are decrypted (`codec.crypto.forms` names the cipher of each). A column
is read from the first of its variants whose key the provider hands out; where it refuses all of them, what
the mask left is read. What cannot be answered now is an error: masked values in place of real ones would go
unnoticed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol, TypeAlias

import anyio

from orcstream.byterange import ByteRange, RangeBuffer
from orcstream.codec.crypto.forms import FileForm
from orcstream.codec.metadata.indexes import parse_column_statistics, parse_file_statistics
from orcstream.codec.metadata.structure import (
    DataMask,
    Encryption,
    StatisticsList,
    StreamKind,
    StripeInformation,
)
from orcstream.codec.metadata.wire import MESSAGE_CAP_BYTES, metadata_limit
from orcstream.codec.streams.compression import decompress_metadata
from orcstream.encryption import EncryptionKey, KeyProvider, LocalKey
from orcstream.errors import CorruptTail, FormatError, KeyUnavailable, Unsupported, UsageError
from orcstream.io.contract.byte_source import ByteSource, Suffix
from orcstream.io.loop.tasks import side_by_side
from orcstream.io.loop.uncancelled import run_in_thread
from orcstream.plan.tail import METADATA_CAP_BYTES, Large, Tail, parse_stripe_statistics, plan_tail
from orcstream.schema.schema import Schema
from orcstream.schema.types import FileColumn


class TailFetcher(Protocol):
    """A source, asked with retries."""

    @property
    def source(self) -> ByteSource: ...

    async def fetch_suffix(self, length: int) -> Suffix: ...

    async def fetch(self, ranges: list[ByteRange]) -> list[RangeBuffer]: ...


async def read_tail(fetcher: TailFetcher) -> tuple[Tail, RangeBuffer]:
    """The tail, and the bytes it was made of: one suffix read, and one more when the guess was too small."""
    suffix = await fetcher.fetch_suffix(fetcher.source.cost.tail_bytes)
    data = memoryview(suffix.data)
    planned = plan_tail(data, suffix.file_length, at_once=True)
    while not isinstance(planned, Tail):
        if isinstance(planned, Large):  # other tasks of the loop would wait
            planned = await run_in_thread(partial(plan_tail, data, suffix.file_length))
            continue
        (more,) = await fetcher.fetch([planned.range])
        await fetcher.source.verify()
        data = memoryview(b"".join([more.view(more.range), data]))
        planned = plan_tail(data, suffix.file_length, at_once=True)
    planned = replace(planned, fingerprint=fetcher.source.fingerprint)
    return planned, RangeBuffer(ByteRange(suffix.file_length - len(data), suffix.file_length), data)


def known_tail(fetcher: TailFetcher, tail: Tail) -> tuple[Tail, RangeBuffer]:
    """No request: the source is held to the object that the tail is of."""
    fetcher.source.pin(tail.file_length, tail.fingerprint)
    return tail, RangeBuffer(ByteRange(tail.file_length - len(tail.held), tail.file_length), tail.held)


# What a place for statistics takes in lists that are laid over each other.
_PLACE_BYTES = 16


@dataclass(frozen=True, slots=True)
class EncryptedColumn:
    """A column that is encrypted, with all below it.

    `path` are the names that lead to it, `column_id` is its number in the file's schema.
    `key` is the one it is opened with, or the first that would open it; `keys` are all of those. `is_open`
    says whether its values are read, or what `mask` left of them (None where the file does not say), and
    `refusal` why, in words.
    """

    path: tuple[str, ...]
    column_id: int
    key: EncryptionKey
    keys: tuple[EncryptionKey, ...]
    mask: DataMask | None
    is_open: bool
    refusal: str | None = None

    @property
    def name(self) -> str:
        """Its dotted name; empty for the root."""
        return ".".join(self.path)


# A master key, and a local key as it encrypts it.
_Wrapped: TypeAlias = tuple[EncryptionKey, bytes]


@dataclass(slots=True)
class KeyRing:
    """The local keys that a provider has handed out for one file, and the master keys that it refused.

    `required` are names of master keys that must not be refused, or True for all.
    """

    provider: KeyProvider | None = None
    required: Sequence[str] | bool = False
    _found: dict[_Wrapped, bytes] = field(default_factory=dict, repr=False)
    _refused: dict[EncryptionKey, KeyUnavailable] = field(default_factory=dict)
    _failed: dict[_Wrapped, Exception] = field(default_factory=dict)
    _lock: anyio.Lock = field(default_factory=anyio.Lock)

    def get(self, key: EncryptionKey, encrypted: bytes) -> bytes | None:
        """A local key, where it was unlocked."""
        return self._found.get((key, encrypted))

    def refusal(self, key: EncryptionKey) -> KeyUnavailable | None:
        """Why nothing is opened with a master key."""
        if self.provider is None:
            return KeyUnavailable(f"no keys were given, and the file needs {_shown(key)}")
        return self._refused.get(key)

    def is_required(self, key: EncryptionKey) -> bool:
        required = self.required
        return required if isinstance(required, bool) else key.name in required

    def check_required(self, keys: Iterable[EncryptionKey]) -> None:
        """Raises `UsageError` for a required name that none of the keys of encrypted columns has."""
        if isinstance(self.required, bool):
            return
        names = dict.fromkeys(key.name for key in keys)
        for name in self.required:
            if name not in names:
                known = ", ".join(map(repr, names))
                raise UsageError(f"no column is encrypted with a key {name!r}; the file's are {known}")

    def failure(self, key: EncryptionKey, encrypted: bytes) -> Exception | None:
        """Why the provider could not answer when it was asked last."""
        return self._failed.get((key, encrypted))

    async def unlock(self, wanted: Iterable[_Wrapped]) -> None:
        """Ask for local keys, but for those that are known, and of master keys that were refused.

        What the provider cannot answer is not raised here but kept as `failure`, for keys that were asked
        for before it may be enough. After it no more are asked for, and those that are left fail for it, too.
        """
        provider = self.provider
        if provider is None or not any(map(self._is_unknown, wanted := list(dict.fromkeys(wanted)))):
            return
        async with self._lock:  # what another stream of the file asks for just now is not asked for twice
            try:
                await side_by_side(filter(self._is_unknown, wanted), partial(self._ask, provider))
            except Exception as error:  # noqa: BLE001 - kept
                self._failed |= dict.fromkeys(filter(self._is_unknown, wanted), error)

    def _is_unknown(self, one: _Wrapped) -> bool:
        """Whether the provider neither handed it out nor refused it."""
        return one not in self._found and one[0] not in self._refused

    async def _ask(self, provider: KeyProvider, one: _Wrapped) -> None:
        key, encrypted = one
        try:
            local: Any = await provider.decrypt_local_key(key, encrypted)
        except KeyUnavailable as error:
            self._refused[key] = error
            return
        if not isinstance(local, LocalKey):
            raise UsageError(f"the key provider returned no LocalKey for {_shown(key)}")
        self._found[one] = _checked(local.key, key)
        self._failed.pop(one, None)


class UnlockedFile:
    """A file's tail, and what the user's keys open of it.

    `tail` has the statistics of the form that is read, `stored_tail` those that stand in the clear.
    """

    def __init__(self, tail: Tail, ring: KeyRing) -> None:
        """Of keys that the ring has; `unlocked` asks for them first."""
        self.stored_tail = tail
        self._ring = ring
        footer = tail.footer
        encryption = footer.encryption
        self._variants = encryption.variants if encryption is not None else ()
        self._keys = [encryption.keys[one.key] for one in self._variants] if encryption is not None else []
        open_variants = [index for index in range(len(self._variants)) if self._tail_key(index) is not None]
        self.form = FileForm(encryption, footer.schema, open_variants)
        self.encrypted_columns = _encrypted_columns(tail, encryption, self.form, ring)
        statistics = self._file_statistics() if open_variants else footer.statistics
        self.tail = replace(tail, footer=replace(footer, statistics=statistics)) if open_variants else tail

    @classmethod
    async def unlocked(cls, tail: Tail, ring: KeyRing) -> UnlockedFile:
        """Ask for the keys of the tail, one of each variant.

        Raises `KeyUnavailable` for a key that is required, `UsageError` for a required one that the file does
        not name, `CorruptTail` for one that is not that of the file, and what the provider raises when it
        cannot answer.
        """
        encryption = tail.footer.encryption
        if encryption is not None and encryption.variants:
            ring.check_required(encryption.keys)
            wanted = [(encryption.keys[one.key], one.encrypted_key) for one in encryption.variants]
            await ring.unlock(wanted)
            for one in wanted:
                if (failure := ring.failure(*one)) is not None:
                    raise failure
            for key in encryption.keys:
                refusal = ring.refusal(key)
                if refusal is not None and ring.is_required(key):
                    raise KeyUnavailable(f"a required key cannot be had: {refusal.message}") from refusal
        return cls(tail, ring)

    def _tail_key(self, variant: int) -> bytes | None:
        return self._ring.get(self._keys[variant], self._variants[variant].encrypted_key)

    def for_stripes(self, schema: Schema) -> UnlockedFile:
        """What it takes to read stripes, and no statistics; `schema` is an equal one that files may share."""
        tail = self.stored_tail
        encryption = tail.footer.encryption
        if encryption is not None:
            variants = (replace(one, stripe_statistics=(), file_statistics=b"") for one in self._variants)
            encryption = replace(encryption, variants=tuple(variants))
        footer = replace(
            tail.footer, schema=schema, encryption=encryption, statistics=StatisticsList(()), user_metadata={}
        )
        return UnlockedFile(
            replace(tail, footer=footer, metadata=None, stripe_statistics=None, ending=b""), self._ring
        )

    # --- stripes -----------------------------------------------------------------------------------

    @property
    def all_variants(self) -> Sequence[int]:
        """Those of every encrypted column, had or not."""
        return range(len(self._variants))

    def variants_of(self, columns: Collection[FileColumn]) -> Sequence[int]:
        """The variants that some of `columns` are read from."""
        of = self.form.variant_of
        return sorted({of[column] for column in columns if column in of})

    async def unlock_stripes(self, stripes: Iterable[StripeInformation], variants: Sequence[int]) -> None:
        """Ask for the keys of stripes that have other ones than the tail: files that were merged.

        `local_keys` says of a stripe whether they are had.
        """
        if variants:
            await self._ring.unlock(
                (self._keys[index], stripe.encrypted_local_keys[index])
                for stripe in _with_new_keys(stripes)
                for index in variants
            )

    async def unlock_all(self, stripes: Iterable[StripeInformation]) -> None:
        """Ask for the keys of every variant in all stripes. Raises what `local_keys` raises."""
        stripes = list(_with_new_keys(stripes))
        await self.unlock_stripes(stripes, self.all_variants)
        for stripe in stripes:
            self.local_keys(stripe, self.all_variants)

    def local_keys(self, stripe: StripeInformation, variants: Sequence[int]) -> Mapping[int, bytes]:
        """The keys of a stripe for `variants`.

        Raises `KeyUnavailable` for one that was refused, and where the provider did not answer, its error.
        """
        found: dict[int, bytes] = {}
        for index in variants:
            key = self._keys[index]
            local = self._ring.get(key, stripe.encrypted_local_keys[index])
            if local is None:
                failure = self._ring.failure(key, stripe.encrypted_local_keys[index])
                if failure is not None:
                    raise failure
                refusal = self._ring.refusal(key)
                because = refusal.message if refusal is not None else "it was not asked for"
                raise KeyUnavailable(
                    f"{_shown(key)} opens the file's tail and not this stripe: {because}", stripe=stripe.index
                )
            found[index] = local
        return found

    # --- statistics --------------------------------------------------------------------------------

    @property
    def statistics_range(self) -> ByteRange:
        """Where the statistics of stripes are; those that are encrypted lie before the others.

        Raises `Unsupported` for more than would be parsed.
        """
        metadata = self.stored_tail.metadata_range
        longest = max(metadata.length, self.stored_tail.stripe_statistics_range.length)
        if longest > METADATA_CAP_BYTES:
            raise Unsupported(
                f"statistics of stripes of {longest} bytes, more than {METADATA_CAP_BYTES}",
                reason="metadata_too_large",
            )
        start = self.stored_tail.stripe_statistics_range.start if self.form.variant_of else metadata.start
        return ByteRange(start, metadata.stop)

    @property
    def held_statistics(self) -> bytes | None:
        """The bytes of `statistics_range`, where they came with the tail."""
        metadata, encrypted = self.stored_tail.metadata, self.stored_tail.stripe_statistics
        if not self.form.variant_of:
            return metadata
        return None if metadata is None or encrypted is None else encrypted + metadata

    def stripe_statistics(self, data: memoryview) -> tuple[StatisticsList, ...]:
        """The statistics of each stripe from the bytes of `statistics_range`."""
        return self.opened_statistics(data, self.clear_statistics(data))

    def clear_statistics(self, data: memoryview) -> tuple[StatisticsList, ...]:
        """Those that stand in the clear, of what masks left where columns are encrypted."""
        return parse_stripe_statistics(self.stored_tail, bytes(data[self._clear_start(data) :]))

    def opened_statistics(
        self, data: memoryview, clear: tuple[StatisticsList, ...]
    ) -> tuple[StatisticsList, ...]:
        """Those of the form that is read, where the `clear_statistics` of the same bytes are known."""
        if not self.form.variant_of:
            return clear
        self._check_room()
        known_here = self._column_statistics(data[: self._clear_start(data)])
        encrypted = {column: each for column, each in known_here.items() if each}
        count = max(len(clear), *map(len, encrypted.values()), 0)
        blank = StatisticsList(())
        found: list[StatisticsList] = []
        for stripe in range(count):
            known = {column: each[stripe] for column, each in encrypted.items() if stripe < len(each)}
            row = clear[stripe] if stripe < len(clear) else blank
            # Without statistics of its own, nothing is known: the clear ones are those of the mask.
            found.append(row.overlaid(known, self.form.variant_of))
        return tuple(found)

    def _clear_start(self, data: memoryview) -> int:
        return len(data) - self.stored_tail.postscript.metadata_length

    def _check_room(self) -> None:
        """What a few bytes of a footer claim: columns times stripes, no more than may stand in the clear."""
        footer = self.stored_tail.footer
        hidden = sum(len(footer.schema.types[one.root].column_ids) for one in self._variants)
        size = len(footer.stripes) * (footer.schema.column_count + hidden) * _PLACE_BYTES
        if size > metadata_limit(self.stored_tail.file_length):
            raise Unsupported(
                f"statistics of {footer.schema.column_count} columns in {len(footer.stripes)} stripes",
                reason="metadata_too_large",
            )

    def _column_statistics(self, data: memoryview) -> dict[FileColumn, tuple[bytes, ...]]:
        """Of columns that are read from a variant, by stripe."""
        found: dict[FileColumn, tuple[bytes, ...]] = {}
        at, room = 0, METADATA_CAP_BYTES
        for index, variant in enumerate(self._variants):
            for stream in variant.stripe_statistics:
                part = data[at : at + stream.length]
                at += stream.length
                if self.form.variant_of.get(stream.column) == index:
                    kind = StreamKind.STRIPE_STATISTICS
                    message = self._decrypted(index, stream.column, kind, part, min(room, MESSAGE_CAP_BYTES))
                    room -= len(message)
                    with _naming(self._keys[index]):
                        found[stream.column] = parse_column_statistics(
                            message, len(self.stored_tail.footer.stripes)
                        )
        return found

    def _file_statistics(self) -> StatisticsList:
        footer = self.stored_tail.footer
        found: dict[FileColumn, bytes] = {}
        room = MESSAGE_CAP_BYTES  # for all of them together, as for those that stand in the clear
        for index, variant in enumerate(self._variants):
            if self.form.variant_of.get(variant.root) != index or not variant.file_statistics:
                continue
            columns = footer.schema.types[variant.root].column_ids
            encrypted = memoryview(variant.file_statistics)
            kind = StreamKind.FILE_STATISTICS
            message = self._decrypted(index, variant.root, kind, encrypted, room)
            room -= len(message)
            with _naming(self._keys[index]):
                serialized = parse_file_statistics(message, len(columns))
            found.update(zip(columns, serialized, strict=True))
        return footer.statistics.overlaid(found, self.form.variant_of)

    def _decrypted(
        self, index: int, column: FileColumn, kind: StreamKind, data: memoryview, cap_bytes: int
    ) -> bytes:
        """A message of the tail."""
        from orcstream.codec.crypto.streams import stream_cipher

        key = self._tail_key(index)
        assert key is not None
        postscript = self.stored_tail.postscript
        cipher = stream_cipher(key, column, kind, len(self.stored_tail.footer.stripes) + 1)
        with _naming(self._keys[index]):
            return decompress_metadata(
                memoryview(cipher.apply(data)),
                postscript.compression,
                postscript.compression_block_size,
                cap_bytes,
            )


@contextmanager
def _naming(key: EncryptionKey) -> Iterator[None]:
    """What does not decrypt to a message names the key: it is probably that."""
    try:
        yield
    except FormatError as error:
        raise CorruptTail(
            f"encrypted statistics make no sense: {_shown(key)} is not the key that the file was encrypted "
            f"with, or the file is damaged ({error.message})"
        ) from error


def _with_new_keys(stripes: Iterable[StripeInformation]) -> Iterator[StripeInformation]:
    """The stripes that do not inherit the keys of the one before: of millions, most files have one."""
    keys: tuple[bytes, ...] | None = None
    for stripe in stripes:
        if stripe.encrypted_local_keys is not keys:
            keys = stripe.encrypted_local_keys
            yield stripe


def _encrypted_columns(
    tail: Tail, encryption: Encryption | None, form: FileForm, ring: KeyRing
) -> tuple[EncryptedColumn, ...]:
    if encryption is None:
        return ()
    keys_of: dict[FileColumn, dict[int, EncryptionKey]] = {}
    for index, variant in enumerate(encryption.variants):
        keys_of.setdefault(variant.root, {})[index] = encryption.keys[variant.key]
    mask_of = {column: mask for mask in encryption.masks for column in mask.columns}
    paths = {type_.column_id: path for path, type_ in tail.footer.schema.walk()}
    found = []
    for root, keys in sorted(keys_of.items()):
        opened = form.variant_of.get(root)
        key = next(iter(keys.values())) if opened is None else keys[opened]
        is_open = opened is not None
        refusals = [refusal.message for key in keys.values() if (refusal := ring.refusal(key)) is not None]
        found.append(
            EncryptedColumn(
                path=paths[root],
                column_id=root,
                key=key,
                keys=tuple(keys.values()),
                mask=mask_of.get(root),
                is_open=is_open,
                refusal=None if is_open else "; ".join(refusals),
            )
        )
    return tuple(found)


def _checked(local_key: bytes, key: EncryptionKey) -> bytes:
    if len(local_key) != key.algorithm.key_bytes:
        raise CorruptTail(
            f"{_shown(key)} opens a local key of {len(local_key)} bytes, and the file needs "
            f"{key.algorithm.key_bytes} for {key.algorithm.name}"
        )
    return local_key


def _shown(key: EncryptionKey) -> str:
    return f"version {key.version} of key {key.name!r}"


def required_keys(given: object) -> Sequence[str] | bool:
    """What a user says of the keys that are needed: names, or True for all. Raises UsageError."""
    if given is None or isinstance(given, bool):
        return bool(given)
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise UsageError(f"require_keys are the names of keys, or True for all, not {given!r:.80}")
    names = tuple(given)
    for name in names:
        if not isinstance(name, str):
            raise UsageError(f"require_keys are the names of keys, not {name!r:.80}")
    return names
