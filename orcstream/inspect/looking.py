"""Looks at a file: opens it, reads its stripes' directories, asks and reads what the user wants to know.

Knows how facts are had through the package's public names, and how many of them are worth having. Must not
know how they are shown. What is damaged is named among the problems, and everything else is there all the
same.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar, Unpack

import orcstream
from orcstream._keywords import shared, takes
from orcstream._printable import printable
from orcstream.blocking.loop import takes_as, the_loop
from orcstream.codec.metadata.structure import StripeFooter
from orcstream.figures import known_statistics, writer_name
from orcstream.inspect.facts import ColumnFacts, FileFacts, Question, Run, StripeFacts, shallow
from orcstream.inspect.layout import Part, file_parts, stripe_parts
from orcstream.inspect.row_groups import encodings_of
from orcstream.io.loop.tasks import side_by_side
from orcstream.io.loop.uncancelled import run_in_thread
from orcstream.reader.engine.session import DecodeSpan, RequestSpan
from orcstream.reader.opening import StoreKeywords, Url
from orcstream.reader.options import ANY_TIME, QuestionKeywords
from orcstream.schema.types import Kind, Type

# Footers are read until they list so many streams; then stripes are looked at here and there.
_STREAMS = 100_000
_LEAST_STRIPES = 8
# What a stripe counts for, however few it lists: a file may have millions of empty ones.
_LEAST_STREAMS = 16
# Sentences about stripes that cannot be looked into.
_PROBLEMS = 100
_TEXT_LENGTH = 200
_SCHEMA_LENGTH = 20_000
# Bytes of one value in memory.
_WIDTHS = {
    kind: width
    for width, kinds in (
        (1 / 8, (Kind.BOOLEAN,)),
        (1, (Kind.BYTE,)),
        (2, (Kind.SHORT,)),
        (4, (Kind.INT, Kind.FLOAT, Kind.DATE)),
        (8, (Kind.LONG, Kind.DOUBLE)),
        (12, (Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT)),
        (16, (Kind.DECIMAL,)),
    )
    for kind in kinds
}
Span = TypeVar("Span", RequestSpan, DecodeSpan)
_TEXTS = (Kind.STRING, Kind.VARCHAR, Kind.CHAR, Kind.BINARY)


@dataclass(frozen=True, slots=True)
class Inspection:
    """What was found out about a file; `problems` are sentences about what could not be.

    `file` has its `parts` (kind, byte range, stripe, column), `stripes` and `columns`.
    `question` is there where something was asked, `run` where that was read as well.
    """

    file: FileFacts
    question: Question | None
    run: Run | None
    problems: tuple[str, ...]

    def to_html(self) -> str:
        """One page that needs nothing else: a few megabytes at most, whatever the file."""
        from orcstream.inspect.page import page_of

        return page_of(self.file, self.question, self.run, self.problems)

    def to_text(self) -> str:
        """For a terminal, in lines of at most 80 characters."""
        from orcstream.inspect.text import text_of

        return text_of(self.file, self.question, self.run, self.problems)

    def to_json(self) -> str:
        """All of it, for programs: byte ranges as [start, stop], times in seconds."""
        # Level by level: objects of 100,000 stripes, all at once, would take 35 MB more.
        return json.dumps(self, default=shallow, ensure_ascii=False)


class _Asked(StoreKeywords, QuestionKeywords, total=False):
    pass


@takes(_Asked, orcstream.open, orcstream.OrcFile.batches)
async def inspect(url: Url, *, run: bool = False, **options: Unpack[_Asked]) -> Inspection:
    """Look at a file: its tail, and the footers of its stripes (of some, where they list 100,000 streams).

    `columns`, `where` and `rows`, as for `OrcFile.batches`, are a question: the inspection says which bytes
    it would read, in which requests. With `run`, it is read, and the time of each request and each step of
    the decoders is there. `url` is that of `open`.

    Raises what `open` raises, `UsageError` for a question that cannot be, and `SourceError` where the store
    fails. Damage behind the tail is among the `problems`.
    """
    opening = shared(options, StoreKeywords)
    asked = shared(options, QuestionKeywords)
    problems: list[str] = []
    question = measured = None
    async with orcstream.open(url, **opening) as file:
        facts = await _Looking(file, problems).facts()
        if run or any(one is not None for one in asked.values()):
            question = await _question(file, asked, problems)
    if run:
        measured = await _run(url, opening, asked, problems)
    return Inspection(facts, question, measured, tuple(dict.fromkeys(problems)))


@takes_as(inspect)
def inspect_blocking(url: Url, **options: Any) -> Inspection:
    """`inspect` without `await`, for scripts and notebooks."""
    return the_loop().run(lambda: inspect(url, **options))


# --- the file ----------------------------------------------------------------------------------------------


class _Looking:
    """One look at an open file."""

    def __init__(self, file: orcstream.OrcFile, problems: list[str]) -> None:
        self._file = file
        self._problems = problems
        self._parts: dict[int, tuple[Part, ...]] = {}
        self._columns: list[ColumnFacts] = []

    async def facts(self) -> FileFacts:
        footers = await self._footers()
        # There may be many stripes and columns.
        return await run_in_thread(lambda: self._facts(footers))

    def _facts(self, footers: Mapping[int, StripeFooter]) -> FileFacts:
        file = self._file
        self._columns = _columns_of(file)
        for stripe, footer in sorted(footers.items()):
            self._count(stripe, footer)
        postscript, footer_of_file = file.tail.postscript, file.tail.footer
        self._compare()
        return FileFacts(
            url=shown(file.url, 2000),
            file_length=file.tail.file_length,
            row_count=file.row_count,
            schema=shown(str(file.schema), _SCHEMA_LENGTH),
            compression=file.compression.name,
            compression_block_size=postscript.compression_block_size,
            format_version=".".join(map(str, postscript.version)),
            writer=writer_name(footer_of_file.writer),
            software_version=shown(footer_of_file.software_version or ""),
            row_index_stride=footer_of_file.row_index_stride,
            encrypted=footer_of_file.encryption is not None,
            user_metadata=_user_metadata(file.user_metadata),
            parts=tuple(file_parts(file.tail)),
            stripes=tuple(
                StripeFacts(
                    stripe.index,
                    stripe.range,
                    *(stripe.first_row, stripe.row_count),
                    *(stripe.index_length, stripe.data_length, stripe.footer_length),
                    self._parts.get(stripe.index),
                )
                for stripe in file.stripes
            ),
            columns=tuple(self._columns),
        )

    async def _footers(self) -> dict[int, StripeFooter]:
        """The footers that can be read, of all stripes or of as many as is reasonable."""
        found: dict[int, StripeFooter] = {}
        count = len(self._file.stripes)
        first = await self._footer(0, found) if count else 0
        stripes = _spread(count, max(_LEAST_STRIPES, _STREAMS // max(_LEAST_STREAMS, first)))
        await side_by_side(filter(None, stripes), lambda stripe: self._footer(stripe, found))
        missing = len(stripes) - len(found)
        if missing > _PROBLEMS:
            self._problems.append(f"So it is with {missing - _PROBLEMS:,} more stripes.")
        return found

    async def _footer(self, stripe: int, found: dict[int, StripeFooter]) -> int:
        """Read one; how many streams it lists."""
        try:
            footer = found[stripe] = await self._file.stripe_footer(stripe)
        except (orcstream.FormatError, orcstream.Unsupported) as error:
            if len(self._problems) < _PROBLEMS:
                self._problems.append(f"Stripe {stripe} cannot be looked into: {one_line(error)}")
            return 0
        return len(footer.streams) + sum(len(variant.streams) for variant in footer.variants)

    def _count(self, stripe: int, footer: StripeFooter) -> None:
        """Take a stripe's streams into the sums of its columns."""
        parts = self._parts[stripe] = tuple(stripe_parts(self._file.stripes[stripe], footer))
        for part in parts:
            if part.column is not None and part.column < len(self._columns):
                sums = self._columns[part.column].part_bytes
                sums[part.kind] = sums.get(part.kind, 0) + part.range.length
        for column, encodings in encodings_of(footer).items():
            for encoding in encodings if column < len(self._columns) else ():
                facts = self._columns[column]
                name = encoding.kind.name
                facts.encodings[name] = facts.encodings.get(name, 0) + 1
                facts.dictionary_size = max(facts.dictionary_size, encoding.dictionary_size)

    def _compare(self) -> None:
        """What values would take, against what they do; known where all stripes were looked at."""
        for (_, type_), facts in zip(self._file.schema.walk(), self._columns, strict=True):
            if len(self._parts) < len(self._file.stripes) or facts.lock:
                continue
            if type_.kind in _TEXTS:
                total = facts.statistics.get("sum")
            else:
                width, count = _WIDTHS.get(type_.kind), facts.statistics.get("value_count")
                total = None if width is None or count is None else int(width * count)
            facts.logical_bytes = total if isinstance(total, int) and total > 0 else None


def _columns_of(file: orcstream.OrcFile) -> list[ColumnFacts]:
    locks: dict[int, str] = {}
    for encrypted in file.encrypted_columns:
        type_ = file.schema[encrypted.path] if encrypted.path else file.schema.root
        locks.update(dict.fromkeys(type_.column_ids, "open" if encrypted.is_open else "closed"))
    known = file.statistics
    columns = []
    for path, type_ in file.schema.walk():
        name, lock = ".".join(path), locks.get(type_.column_id, "")
        statistics: dict[str, Any] = {}
        if path and lock != "closed":
            # Names that occur twice have none, and a writer may have left them out.
            with suppress(orcstream.OrcError):
                statistics = {
                    key: shown(value) if isinstance(value, str) else value
                    for key, value in known_statistics(known[path]).items()
                }
        columns.append(
            ColumnFacts(
                type_.column_id,
                shown(name) or "(the rows)",
                _type_text(type_),
                len(path),
                lock,
                statistics=statistics,
            )
        )
    return columns


def _type_text(type_: Type) -> str:
    """Without what is below it, which has lines of its own."""
    return type_.kind.name.lower() if type_.children else shown(str(type_), 60)


def _user_metadata(metadata: Mapping[str, bytes]) -> dict[str, str]:
    first = list(metadata.items())[:50]
    return {shown(name): shown(value[:1000].decode(errors="replace")) for name, value in first}


def _spread(count: int, most: int) -> Sequence[int]:
    """At most so many of the numbers below `count`, the first and the last among them."""
    if count <= most:
        return range(count)
    return sorted({at * (count - 1) // (most - 1) for at in range(most)})


# --- the question ------------------------------------------------------------------------------------------


async def _question(file: orcstream.OrcFile, asked: QuestionKeywords, problems: list[str]) -> Question:
    rows, columns, where = asked.get("rows"), asked.get("columns"), asked.get("where")
    explanation = None
    try:
        explained = await file.explain(**asked)
        # They hold names of the file.
        explanation = replace(
            explained, url=printable(explained.url), columns=shown(explained.columns, _SCHEMA_LENGTH)
        )
    except (orcstream.FormatError, orcstream.Unsupported) as error:
        problems.append(f"What the question would read is not known: {one_line(error)}")
    if rows is not None:
        rows = range(min(rows.start, file.row_count), min(rows.stop, file.row_count))
    return Question(
        columns="all" if columns is None else shown(", ".join(map(_column_text, columns)), 1000) or "none",
        where="" if where is None else shown(str(where), 1000),
        rows="all" if rows is None else f"{rows.start:,} up to {rows.stop:,}",
        explanation=explanation,
    )


def _column_text(column: object) -> str:
    return ".".join(map(str, column)) if isinstance(column, tuple) else str(column)


class _Recorder:
    """Keeps the spans of a read; of several threads."""

    def __init__(self) -> None:
        self._start_s = time.perf_counter()
        self.requests: list[RequestSpan] = []
        self.decodes: list[DecodeSpan] = []

    @property
    def elapsed_s(self) -> float:
        return time.perf_counter() - self._start_s

    def on_request(self, span: RequestSpan) -> None:
        if span.error is None:  # else the read fails, and says why
            self.requests.append(self._shifted(span))

    def on_decode(self, span: DecodeSpan) -> None:
        self.decodes.append(self._shifted(span))

    def _shifted(self, span: Span) -> Span:
        return replace(span, start_s=span.start_s - self._start_s, stop_s=span.stop_s - self._start_s)


async def _run(url: Url, opening: StoreKeywords, asked: QuestionKeywords, problems: list[str]) -> Run:
    recorder = _Recorder()
    row_count, statistics = 0, None
    try:
        async with (
            orcstream.open(url, observer=recorder, **opening) as file,
            file.batches(**ANY_TIME, **asked) as stream,
        ):
            try:
                async for batch in stream:
                    row_count += batch.num_rows
            finally:
                statistics = stream.stats
    except (orcstream.FormatError, orcstream.Unsupported) as error:
        problems.append(f"The read ended early: {one_line(error)}")
    return Run(
        recorder.elapsed_s,
        row_count,
        tuple(sorted(recorder.requests, key=lambda span: span.start_s)),
        tuple(sorted(recorder.decodes, key=lambda span: span.start_s)),
        statistics,
    )


# --- texts -------------------------------------------------------------------------------------------------


def shown(text: str, most: int = _TEXT_LENGTH) -> str:
    """A text of a file in one line that cannot do anything, and is not endless."""
    line = printable(text[:most])
    return line if len(text) <= most else f"{line}…"


def one_line(error: Exception) -> str:
    """An error for people."""
    return shown(" ".join(str(error).split()), 500)
