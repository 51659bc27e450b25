"""Compaction: small files are looked at, one is made of several, and put in their place.

Knows which files go together, and the order of the steps. Must not know Spark, nor who compacts: the job
`compact`, whose tasks do this, or a stream's writer between two batches.

A group is settled in four steps: the new file is durable and invisible, and recorded; it appears; a record
says that it counts; its sources go. Whoever is killed at any of them, the next one goes on from there. Who
reads the journal, as our readers do, sees each row once at any time; others, who list files, see the rows of
a group twice between the second step and the last, and never a row less.
"""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import orcstream
from orcstream import OrcFile, Prepared
from orcstream._keywords import check_integer
from orcstream.errors import FormatError, KeyUnavailable, SourceChanged, Unsupported, UsageError
from orcstream.io.loop.uncancelled import clean_up
from orcstream.schema.types import Kind, dotted_names
from orcstream.spark.compact.journal import CompactionJournal, GroupResult, Made
from orcstream.spark.read.merge_records import Group, Source
from orcstream.spark.write import written
from orcstream.spark.write.target import Target
from orcstream.spark.write.written import WrittenFile

How = Literal["auto", "copy", "rewrite"]
# A file of stripes smaller than these is hardly read better than the files that they came from.
_GOOD_STRIPE_BYTES: Final = 4 << 20
_BLOOMS: Final = ("BLOOM_FILTER", "BLOOM_FILTER_UTF8")
# Trying again would change nothing: the files stay as they are.
_HOPELESS = (UsageError, FormatError, Unsupported, KeyUnavailable, SourceChanged, FileNotFoundError)


@dataclass(frozen=True, slots=True)
class Compaction:
    """How files are compacted; sizes in bytes."""

    target_bytes: int = 256 << 20
    below_bytes: int | None = None
    how: How = "auto"
    memory_limit: int = 256 << 20

    def __post_init__(self) -> None:
        if self.how not in ("auto", "copy", "rewrite"):
            raise UsageError(f"how is auto, copy or rewrite, not {self.how!r}")
        check_integer("target_bytes", self.target_bytes, 1)
        if self.below_bytes is not None:
            check_integer("below_bytes", self.below_bytes, 1)
        check_integer("memory_limit", self.memory_limit, 1)

    @property
    def small_bytes(self) -> int:
        """Files below this size are compacted."""
        return self.below_bytes or max(1, self.target_bytes // 2)


@dataclass(frozen=True, slots=True)
class Looked:
    """A file that was looked at, of `length` bytes.

    Files of one `likeness` can be one file, those of one `form`, too, without being decoded. `is_encrypted`
    says that there is no other way.
    """

    source: Source
    length: int
    likeness: str
    form: str
    is_encrypted: bool

    def holding(self, holds: tuple[Source, ...]) -> Looked:
        """The same, of which is known what it was merged from."""
        return replace(self, source=replace(self.source, holds=holds))


# --- looking ---------------------------------------------------------------------------------------


async def look_at(target: Target, paths: Sequence[str]) -> list[Looked]:
    """Of some files, what is needed to group them; those that cannot be read, or are gone, are left out."""
    names = iter(paths)
    found = []

    def skip(_: Any, error: Exception) -> None:
        if not isinstance(error, _HOPELESS):
            raise error
        next(names)

    options = await target.access.open_options()
    urls = [target.url_of(path) for path in paths]
    async with orcstream.open_many(urls, ordered=True, on_error=skip, **options) as files:
        async for file in files:
            async with file:
                path = next(names)
                try:
                    found.append(await _looked(file, path))
                except _HOPELESS:
                    continue
    return found


async def _looked(file: OrcFile, path: str) -> Looked:
    tail = file.tail
    source = Source(
        path,
        file.row_count,
        length=tail.file_length,
        fingerprint=tail.fingerprint,
        stripe_count=len(file.stripes),
    )
    form = _form(file)
    return Looked(source, tail.file_length, await _likeness(file), form, bool(file.encrypted_columns))


async def _likeness(file: OrcFile) -> str:
    """What files of one group have in common: all that rows mean, and what was said of them."""
    parts = [
        repr(file.schema.root),
        repr([(one.path, one.keys, one.mask) for one in file.encrypted_columns]),
        repr(sorted(file.user_metadata.items())),
        str(_is_proleptic(file)),
        *await _timezones(file),
    ]
    return _short(parts)


def _is_proleptic(file: OrcFile) -> bool:
    """Files that do not say their calendar are read as hybrid."""
    return file.tail.footer.calendar.name == "PROLEPTIC_GREGORIAN"


def _form(file: OrcFile) -> str:
    """What has to be equal, too, for stripes to be copied as they are."""
    tail = file.tail
    postscript = tail.postscript
    versions = [postscript.version, postscript.writer_version, tail.footer.writer, tail.footer.calendar]
    return _short([file.compression.name, repr(versions), str(tail.footer.row_index_stride)])


def _short(parts: list[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


async def _timezones(file: OrcFile) -> list[str]:
    """In which zones writers of stripes were, where that is part of the values."""
    if all(type_.kind is not Kind.TIMESTAMP for type_ in file.schema.types):
        return []
    footers = [await file.stripe_footer(stripe.index) for stripe in file.stripes]
    return sorted({footer.writer_timezone or "" for footer in footers})


# --- grouping --------------------------------------------------------------------------------------


def grouped(looked: Iterable[Looked], options: Compaction, stem: str) -> list[Group]:
    """Files of one folder that can be one file, in their order, up to the size that files are to have."""
    bins: dict[tuple[str, ...], list[list[Looked]]] = {}
    for one in looked:
        folder = posixpath.dirname(one.source.path)
        by_form = options.how == "copy" or one.is_encrypted
        rows = bins.setdefault((folder, one.likeness, one.form if by_form else ""), [[]])
        if sum(each.length for each in rows[-1]) + one.length > options.target_bytes:
            rows.append([])
        rows[-1].append(one)
    several = [some for key in sorted(bins) for some in bins[key] if len(some) > 1]
    return [_group(number, some, stem) for number, some in enumerate(several)]


def _group(number: int, some: Sequence[Looked], stem: str) -> Group:
    folder, name = posixpath.split(some[0].source.path)
    suffix = name.partition(".")[2] or "orc"
    stripes = sum(one.source.stripe_count for one in some)
    has_small = sum(one.length for one in some) < stripes * _GOOD_STRIPE_BYTES
    target = posixpath.join(folder, f"{stem}-{number:06}.{suffix}")
    return Group(target, tuple(one.source for one in some), number, has_small and not some[0].is_encrypted)


# --- settling --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GroupWork:
    """A group, and whether its files were there, and in others' plans, when the driver looked."""

    group: Group
    has_sources: bool
    has_target: bool
    is_claimed: bool


def works_of(groups: Sequence[Group], visible: Collection[str], claimed: Collection[str]) -> list[GroupWork]:
    """What there is to do, where files of these paths are visible.

    The plan of `groups` is recorded before it is looked which files others have `claimed`. So of two that
    plan at the same moment, one sees the other's plan at least.
    """
    there = frozenset(visible)
    return [
        GroupWork(
            group,
            there.issuperset(group.paths),
            group.target in there,
            not frozenset(group.paths).isdisjoint(claimed),
        )
        for group in groups
    ]


async def settle(journal: CompactionJournal, options: Compaction, work: GroupWork) -> GroupResult:
    """Put one file in the place of several, or go on with that; may be done again, and by several at once."""
    group, target = work.group, journal.target
    found = await journal.result(group)
    if found is None:
        found = await _merged(journal, _Maker(target, options), work)
        if found.how != "left":
            await journal.settle(group, found)
    await written.remove_paths(target, found.sources)
    return found


async def _merged(journal: CompactionJournal, maker: _Maker, work: GroupWork) -> GroupResult:
    """The new file, which is visible then; or nothing."""
    group, target = work.group, journal.target
    made = await journal.prepared(group)
    if made is not None and not work.has_sources:
        # A group's sources go after the record that it was merged, and there is none: somebody else has
        # replaced these files since. Their rows are elsewhere, or no rows of the table any more. Nobody
        # counts the new file, which has no record.
        await written.discard_files(target, [made.file])
        await written.remove_paths(target, [group.target] if work.has_target else [])
        return GroupResult("left", reason="files of the group were removed by others")
    if made is None and work.is_claimed:
        return GroupResult("left", reason="somebody else is merging files of the group")
    if made is None:
        try:
            made = await maker.make(group)
        except _HOPELESS as error:
            return GroupResult("left", reason=str(error))
        if not await journal.prepare(group, made):
            await written.discard_files(target, [made.file])
            made = await journal.prepared(group)
            assert made is not None
    await written.commit_files(target, [made.file])
    before = sum(source.length or 0 for source in group.sources if source.path in made.sources)
    return GroupResult(made.how, made.sources, made.file.row_count, before, made.file.length)


@dataclass(frozen=True, slots=True)
class _Maker:
    """Makes one file of several, invisible yet."""

    target: Target
    options: Compaction

    async def make(self, group: Group) -> Made:
        """Raises why it cannot be; then nothing is left."""
        copy, rewrite = ("copied", self._copied), ("rewritten", self._rewritten)
        ways = {
            "copy": [copy],
            "rewrite": [rewrite],
            "auto": [rewrite, copy] if group.rewrites else [copy, rewrite],
        }[self.options.how]
        refusals: list[str] = []
        for name, way in ways:
            try:
                rows, prepared = await way(group)
            except (UsageError, Unsupported, KeyUnavailable) as error:
                refusals.append(str(error))
                continue
            file = WrittenFile(group.target, rows, prepared)
            expected = sum(one.row_count for one in group.sources)
            if rows != expected:
                await written.discard_files(self.target, [file])
                raise SourceChanged(f"{expected} rows were to be merged, and there are {rows}")
            return Made(file, group.paths, name)
        raise UsageError("; ".join(refusals))

    async def _copied(self, group: Group) -> tuple[int, Prepared]:
        options = await self.target.access.open_options()
        result = await orcstream.merge(
            [self.target.url_of(path) for path in group.paths],
            self.target.url_of(group.target),
            storage_options=self.target.storage_options,
            sink_options=self.target.sink_options,
            keys=options["keys"],
            prepare_only=True,
        )
        assert result.prepared is not None
        return result.row_count, result.prepared

    async def _rewritten(self, group: Group) -> tuple[int, Prepared]:
        """All rows in their order, in stripes of the usual size, with the indexes that they had."""
        options = await self.target.access.open_options()
        sources = iter(group.sources)
        urls = [self.target.url_of(path) for path in group.paths]
        out: orcstream.OrcWriter | None = None
        try:
            async with orcstream.open_many(urls, ordered=True, concurrency=2, **options) as files:
                async for file in files:
                    async with file:
                        _hold(file, next(sources))
                        out = out or await self._like(file, group)
                        async with file.batches(memory_limit=self.options.memory_limit // 2) as stream:
                            async for batch in stream:
                                await out.write(batch)
            assert out is not None
            prepared = await out.prepare()
        except BaseException as error:
            if out is not None:
                await clean_up(error, out.abort)
            raise
        rows = out.row_count
        await out.aclose()
        return rows, prepared

    async def _like(self, file: OrcFile, group: Group) -> orcstream.OrcWriter:
        """A new file as this one is."""
        if file.encrypted_columns:
            raise Unsupported("encrypted files are copied and not rewritten", reason="encrypted")
        zones = await _timezones(file)
        if len(zones) > 1:
            raise Unsupported("its stripes were written in several time zones", reason="timezones")
        footer = file.tail.footer
        stride = footer.row_index_stride
        return await orcstream.create(
            self.target.url_of(group.target),
            file.schema,
            compression=str(file.compression),
            row_index_stride=stride,
            blooms=await _blooms(file) if stride else None,
            timezone=(zones and zones[0]) or "UTC",
            calendar="proleptic" if _is_proleptic(file) else "hybrid",
            user_metadata=file.user_metadata,
            memory_limit=self.options.memory_limit // 2,
            storage_options=self.target.storage_options,
            sink_options=self.target.sink_options,
        )


def _hold(file: OrcFile, source: Source) -> None:
    tail = file.tail
    if (tail.file_length, tail.fingerprint) != (source.length, source.fingerprint):
        raise SourceChanged("the file was replaced after the compaction was planned", url=file.url)


async def _blooms(file: OrcFile) -> list[str]:
    """The columns that have bloom filters, by the first stripe."""
    if not file.stripes:
        return []
    footer = await file.stripe_footer(0)
    columns = {int(stream.column) for stream in footer.streams if stream.kind.name in _BLOOMS}
    return [name for at, name in enumerate(dotted_names(file.schema.root)) if at in columns]
