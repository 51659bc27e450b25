"""The inspection for a terminal, in lines of at most 80 characters.

Knows columns of characters. Must not know how facts are had. Contract: whatever the file, some hundred lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from orcstream.figures import bytes_text, counted
from orcstream.inspect.facts import ColumnFacts, FileFacts, Question, Run
from orcstream.inspect.markup import percent
from orcstream.inspect.terms import GROUPS, PARTS

_WIDTH = 80
_BAR = 60
_STRIPES = 20
_COLUMNS = 30
_REQUESTS = 40
# One letter for each group of parts; a place with several shows what most of its bytes are.
_LETTERS = {"stripe": "#", "footer": "F", "padding": ".", "encrypted": "E"}


def text_of(file: FileFacts, question: Question | None, run: Run | None, problems: Sequence[str]) -> str:
    """All lines."""
    lines = [
        *_head(file),
        *(f"! {problem}" for problem in problems),
        *_layout(file),
        *_stripes(file),
        *_columns(file),
    ]
    if question is not None:
        lines += _question(question)
    if run is not None:
        lines += _run(run)
    return "\n".join(_cut(line, _WIDTH) for line in lines)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _head(file: FileFacts) -> Iterator[str]:
    yield file.url
    yield (
        f"  {bytes_text(file.file_length)}, {counted(file.row_count, 'row')}, "
        f"{counted(len(file.stripes), 'stripe')}, {counted(len(file.columns) - 1, 'column')}"
    )
    yield f"  {file.compression.lower()}, written by {file.writer} {file.software_version}".rstrip()


# --- the file ----------------------------------------------------------------------------------------------


def _layout(file: FileFacts) -> Iterator[str]:
    yield ""
    yield "Layout, from the first byte to the last"
    if not file.parts:
        yield "  no bytes"
        return
    yield f"  [{_map(file)}]"
    used = {PARTS[part.kind].group for part in file.parts}
    yield "  " + ", ".join(f"{_LETTERS[group]} {GROUPS[group]}" for group in _LETTERS if group in used)
    sums: dict[str, list[int]] = {}
    for part in file.parts:
        sums.setdefault(part.kind, []).append(part.range.length)
    yield f"  {'part':<36}{'bytes':>18}{'share':>10}"
    for kind, lengths in sums.items():
        name = PARTS[kind].name if len(lengths) == 1 else f"{PARTS[kind].name} ({len(lengths):,})"
        yield f"  {name:<36}{sum(lengths):>18,}{percent(sum(lengths), file.file_length):>10}"


def _map(file: FileFacts) -> str:
    """The file to scale, a letter for each part of it."""
    most = [0] * _BAR
    letters = [" "] * _BAR
    width = file.file_length / _BAR
    for part in file.parts:
        first, last = int(part.range.start / width), min(_BAR - 1, int((part.range.stop - 1) / width))
        for place in range(first, last + 1):
            start, stop = max(part.range.start, place * width), min(part.range.stop, (place + 1) * width)
            if stop - start >= most[place]:
                most[place], letters[place] = int(stop - start), _LETTERS[PARTS[part.kind].group]
    return "".join(letters)


def _stripes(file: FileFacts) -> Iterator[str]:
    yield ""
    shown = file.stripes[:_STRIPES]
    yield f"Stripes{_of(len(shown), len(file.stripes))}"
    if shown:
        yield f"  {'stripe':>8}{'from byte':>16}{'rows':>14}{'bytes':>16}{'indexes':>12}{'footer':>10}"
    for stripe in shown:
        yield (
            f"  {stripe.index:>8,}{stripe.range.start:>16,}{stripe.row_count:>14,}{stripe.range.length:>16,}"
            f"{stripe.index_bytes:>12,}{stripe.footer_bytes:>10,}"
        )


def _columns(file: FileFacts) -> Iterator[str]:
    looked_at = sum(1 for stripe in file.stripes if stripe.parts is not None)
    total = sum(column.total_bytes for column in file.columns)
    largest = sorted(file.columns, key=lambda column: -column.total_bytes)[:_COLUMNS]
    yield ""
    some = f", in {looked_at:,} stripes" if looked_at < len(file.stripes) else ""
    yield f"Columns{_of(len(largest), len(file.columns), 'largest ')}{some}"
    yield f"  {'column':<24}{'type':<14}{'bytes':>14}{'share':>9}  encoding"
    for column in sorted(largest, key=lambda column: column.column_id):
        yield (
            f"  {_cut(column.name, 23):<24}{_cut(column.type, 13):<14}{column.total_bytes:>14,}"
            f"{percent(column.total_bytes, total):>9}  {_encodings(column)}"
        )


def _encodings(column: ColumnFacts) -> str:
    lock = {"": "", "open": "encrypted, ", "closed": "no key, "}[column.lock]
    return lock + ", ".join(sorted(column.encodings)).lower()


def _of(shown: int, count: int, which: str = "") -> str:
    return (
        ""
        if shown == count
        else f", the {which}{shown:,} of {count:,}"
        if which
        else f", {shown:,} of {count:,}"
    )


# --- a read ------------------------------------------------------------------------------------------------


def _question(question: Question) -> Iterator[str]:
    yield ""
    yield "The question"
    yield f"  columns   {question.columns}"
    yield f"  where     {question.where or 'all rows'}"
    yield f"  rows      {question.rows}"
    if question.explanation is not None:
        # Its first two lines are the URL and the schema, which were said.
        yield from str(question.explanation).splitlines()[2:]


def _run(run: Run) -> Iterator[str]:
    yield ""
    asked = sum(span.range.length for span in run.requests)
    yield f"The read: {counted(run.row_count, 'row')} in {run.duration_s * 1000:,.1f} ms"
    yield f"  {counted(len(run.requests), 'request')}, {bytes_text(asked)}"
    yield f"  {'wave':<12}{'bytes':>12}{'ms':>10}  when"
    for request in run.requests[:_REQUESTS]:
        taken = (request.stop_s - request.start_s) * 1000
        line = _line([(request.start_s, request.stop_s)], run.duration_s)
        yield f"  {request.wave:<12}{request.range.length:>12,}{taken:>10,.1f}  |{line}|"
    if len(run.requests) > _REQUESTS:
        yield f"  and {counted(len(run.requests) - _REQUESTS, 'request')} more"
    if run.decodes:
        spans = [(span.start_s, span.stop_s) for span in run.decodes]
        taken = sum(stop - start for start, stop in spans) * 1000
        yield f"  {'decoding':<12}{'':>12}{taken:>10,.1f}  |{_line(spans, run.duration_s)}|"


def _line(spans: Iterable[tuple[float, float]], total: float, width: int = 40) -> str:
    """When something was done, to scale."""
    places = [" "] * width
    for start, stop in spans:
        first = min(width - 1, int(width * start / total))
        last = min(width - 1, int(width * stop / total))
        places[first : last + 1] = "=" * (last + 1 - first)
    return "".join(places)
