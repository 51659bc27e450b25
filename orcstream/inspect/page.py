"""The page: what was found out about a file, for a browser; and its sections about a read.

Knows which sections there are and that the page needs nothing but itself: no request leaves it, which its
content security policy enforces. Must not know how facts are had. Contract: whatever the file, a page of
bounded size; what is left out is counted.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib import resources

from orcstream.byterange import ByteRange
from orcstream.figures import bytes_text, counted
from orcstream.inspect.facts import FileFacts, Question, Run
from orcstream.inspect.layout import brought
from orcstream.inspect.markup import (
    Html,
    cell,
    joined,
    number,
    patterns,
    percent,
    share,
    table,
    tag,
    timeline,
)
from orcstream.inspect.page_file import columns_section, layout_section, stripes_section
from orcstream.inspect.terms import PARTS, WAVES
from orcstream.reader.engine.session import DecodeSpan, RequestSpan
from orcstream.reader.explain import Explanation

_PROBLEMS = 50
_REQUESTS_LISTED = 200
_REQUESTS_DRAWN = 100
_COLUMNS_DRAWN = 40


def page_of(file: FileFacts, question: Question | None, run: Run | None, problems: Sequence[str]) -> str:
    """The whole page."""
    style, script = _asset("style.css"), _asset("script.js")
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    name = file.url.rstrip("/").rpartition("/")[2] or file.url
    sections = [
        ("layout", "Where the bytes are", layout_section(file)),
        ("stripes", "Stripes", stripes_section(file)),
        ("columns", "Columns", columns_section(file)),
    ]
    if question is not None:
        sections.append(("question", "The question", _question_section(file, question)))
    if run is not None:
        sections.append(("run", "The read, measured", _run_section(file, run)))
    sections.append(("words", "The words", _words()))
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="generator", content="orcstream inspect"),
        tag("link", rel="icon", href="data:,"),
        tag("title", f"{name}: orcstream inspect"),
        tag("style", Html(style)),
    )
    contents = [tag("li", tag("a", title, href=f"#{key}")) for key, title, _ in sections]
    body = tag(
        "body",
        tag("a", "Skip to the layout", href="#layout", class_="skip"),
        patterns(),
        tag(
            "header",
            tag("h1", tag("bdi", name)),
            tag("p", tag("bdi", file.url), class_="url"),
            _summary(file),
        ),
        tag("nav", tag("ul", *contents), aria_label="Sections"),
        tag("main", _problems(problems), *(_section(*section) for section in sections)),
        tag("footer", "Made by orcstream inspect. The page asks nobody for anything."),
        tag("script", Html(script)),
    )
    return "<!DOCTYPE html>\n" + tag("html", head, body, lang="en")


def _asset(name: str) -> str:
    return resources.files("orcstream.inspect").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _section(key: str, title: str, content: Html) -> Html:
    return tag(
        "section", tag("h2", title, id=f"h-{key}"), content, id=key, aria_labelledby=f"h-{key}", tabindex="-1"
    )


def _summary(file: FileFacts) -> Html:
    version = f"{file.writer} {file.software_version}".strip()
    facts = {
        "Size": bytes_text(file.file_length),
        "Rows": f"{file.row_count:,}",
        "Stripes": f"{len(file.stripes):,}",
        "Columns": f"{len(file.columns) - 1:,}",
        "Compression": file.compression.lower(),
        "Compressed in chunks of": bytes_text(file.compression_block_size)
        if file.compression != "NONE"
        else None,
        "Rows in a row group": f"{file.row_index_stride:,}" if file.row_index_stride else "no indexes",
        "Written by": version,
        "Format": file.format_version,
        "Encrypted columns": "yes" if file.encrypted else None,
    }
    shown = [
        tag("div", tag("dt", name), tag("dd", value)) for name, value in facts.items() if value is not None
    ]
    metadata = [
        tag("div", tag("dt", tag("bdi", name)), tag("dd", tag("bdi", value)))
        for name, value in file.user_metadata.items()
    ]
    more = (
        tag("details", tag("summary", "User metadata"), tag("dl", *metadata, class_="facts"))
        if metadata
        else None
    )
    schema = tag("details", tag("summary", "Schema"), tag("p", tag("code", tag("bdi", file.schema))))
    return joined([tag("dl", *shown, class_="facts"), schema, more])


def _problems(problems: Sequence[str]) -> Html | None:
    if not problems:
        return None
    lines = [tag("li", one) for one in problems[:_PROBLEMS]]
    if len(problems) > _PROBLEMS:
        lines.append(tag("li", f"and {counted(len(problems) - _PROBLEMS, 'more problem')}"))
    return tag(
        "section",
        tag("h2", "Problems", id="h-problems"),
        tag("ul", *lines),
        class_="problems",
        aria_labelledby="h-problems",
    )


def _words() -> Html:
    parts = {term.name: term.meaning for term in PARTS.values()}
    waves = {f"wave: {name}": f"Requests for {meaning}." for name, meaning in WAVES.items()}
    words = {
        **parts,
        "stream": "Bytes of one column and one purpose in a stripe: its values, its lengths, its nulls.",
        "row group": "Some rows of a stripe that its indexes tell apart.",
        "encoding": "How values become bytes: DIRECT as they are, DICTIONARY by their place among the "
        "distinct ones; V2 with the newer run lengths.",
        "wave": "Requests that are sent without waiting for each other's answers.",
        "hop": "A wave that has to be waited for: it costs the store's latency in full.",
        **waves,
    }
    lines = [one for word in sorted(words) for one in (tag("dt", word), tag("dd", words[word]))]
    return tag("details", tag("summary", "What each word means"), tag("dl", *lines, class_="words"))


def _meaning_of(wave: str) -> str:
    """What a wave is for; the last one's name says more than its first word."""
    return WAVES.get(wave.partition(",")[0], "")


# --- a question --------------------------------------------------------------------------------------------


def _question_section(file: FileFacts, question: Question) -> Html:
    """What was asked, and which bytes that takes."""
    facts = {"Columns": question.columns, "Where": question.where or "all rows", "Rows": question.rows}
    asked = tag(
        "dl",
        *(tag("div", tag("dt", name), tag("dd", tag("bdi", text))) for name, text in facts.items()),
        class_="facts",
    )
    explained = question.explanation
    if explained is None:
        return joined([asked, tag("p", "What it would read is not known: see the problems above.")])
    parts = [_waves(file, explained), _by_column(file, explained), _requests(explained)]
    return joined([asked, *_sentences(file, explained), *parts])


def _sentences(file: FileFacts, explained: Explanation) -> list[Html]:
    pruned = {
        "the file's statistics": explained.rows_pruned_by_file,
        "the statistics of stripes": explained.rows_pruned_by_stripe,
        "the statistics of row groups": explained.rows_pruned_by_row_group,
        "bloom filters": explained.rows_pruned_by_bloom,
    }
    ruled_out = ", ".join(f"{rows:,} by {proof}" for proof, rows in pruned.items() if rows)
    lines = [
        f"{counted(explained.request_count, 'request')} in {counted(explained.hop_count, 'hop')} read "
        f"{bytes_text(explained.bytes_read)}, {percent(explained.bytes_read, file.file_length)} of the file, "
        f"to look at {explained.selected_row_count:,} of {counted(explained.row_count, 'row')}.",
        f"Rows that need not be read: {ruled_out}." if ruled_out else "",
        "The columns of the condition are read first, the others only where a row matches."
        if explained.predicate_first
        else "",
    ]
    return [tag("p", line) for line in lines if line]


def _waves(file: FileFacts, explained: Explanation) -> Html:
    rows = [
        (
            wave.name,
            [
                cell(_meaning_of(wave.name), "said"),
                number(f"{wave.request_count:,}"),
                number(f"{wave.bytes_wanted:,}"),
                number(f"{wave.bytes_read:,}"),
                cell(
                    timeline(
                        [(range_.start, range_.stop) for range_ in wave.ranges],
                        file.file_length,
                        "data",
                        f"{counted(len(wave.ranges), 'range')} of the file",
                    ),
                    "draw",
                ),
            ],
        )
        for wave in explained.waves
    ]
    headers = (
        "Wave",
        "What for",
        "#Requests",
        "#Wanted",
        "#Read",
        "Where in the file, from first byte to last",
    )
    caption = "Waves, in their order. A wave without requests finds its bytes in those that came before."
    return table(caption, headers, rows)


def _by_column(file: FileFacts, explained: Explanation) -> Html:
    """What the requests bring of each column: those that nobody asked for lie between others."""
    ranges = [range_ for wave in explained.waves for range_ in wave.ranges]
    streams = [part for stripe in file.stripes for part in stripe.parts or ()]
    sums: dict[int, int] = {}
    rest = 0
    for part, length in brought(streams, ranges):
        if part.column is None:
            rest += length
        else:
            sums[part.column] = sums.get(part.column, 0) + length
    order = sorted(sums, key=lambda column: -sums[column])
    rows = [
        (
            tag("bdi", _name(file, column)),
            [number(f"{sums[column]:,}"), share(sums[column], _size(file, column))],
        )
        for column in order[:_COLUMNS_DRAWN]
    ]
    if order[_COLUMNS_DRAWN:]:
        others = sum(sums[column] for column in order[_COLUMNS_DRAWN:])
        name = tag("span", counted(len(order) - _COLUMNS_DRAWN, "other column"))
        rows.append((name, [number(f"{others:,}"), cell("")]))
    rows.append((tag("span", "stripe footers and padding"), [number(f"{rest:,}"), cell("")]))
    caption = "What the requests bring of each column. Small gaps between wanted bytes are read with them."
    return table(caption, ("Column", "#Bytes", "#Of its bytes"), rows)


def _size(file: FileFacts, column: int) -> int:
    return file.columns[column].total_bytes if column < len(file.columns) else 0


def _requests(explained: Explanation) -> Html | None:
    asked: list[tuple[str, ByteRange]] = [
        (wave.name, range_) for wave in explained.waves for range_ in wave.ranges
    ]
    if not asked:
        return None
    rows = [
        (
            f"{at + 1:,}",
            [cell(name), number(f"{one.start:,}"), number(f"{one.stop:,}"), number(f"{one.length:,}")],
        )
        for at, (name, one) in enumerate(asked[:_REQUESTS_LISTED])
    ]
    title = "The requests"
    if len(asked) > _REQUESTS_LISTED:
        title = f"The first {_REQUESTS_LISTED} of {len(asked):,} requests"
    return tag(
        "details",
        tag("summary", title),
        table(title, ("Request", "Wave", "#From byte", "#Up to byte", "#Bytes"), rows),
    )


# --- a read ------------------------------------------------------------------------------------------------


def _run_section(file: FileFacts, run: Run) -> Html:
    """The waterfall: when each request was under way, and when each column was decoded."""
    asked = sum(span.range.length for span in run.requests)
    spent = sum(span.stop_s - span.start_s for span in run.decodes)
    text = (
        f"{counted(run.row_count, 'row')} in {_ms(run.duration_s)}, the opening of the file included: "
        f"{counted(len(run.requests), 'request')} brought {bytes_text(asked)}, decoding took {_ms(spent)} of "
        "all threads together. Time goes from left to right, on one scale in all tables."
    )
    return joined([tag("p", text), _wave_times(run), _waterfall(run), _decoding(file, run)])


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:,.1f} ms" if seconds < 10 else f"{seconds:,.1f} s"


def _wave_times(run: Run) -> Html:
    waves: dict[str, list[RequestSpan]] = {}
    for span in run.requests:
        waves.setdefault(span.wave, []).append(span)
    rows = []
    for name, spans in waves.items():
        start, stop = min(span.start_s for span in spans), max(span.stop_s for span in spans)
        rows.append(
            (
                name,
                [
                    cell(_meaning_of(name), "said"),
                    number(f"{len(spans):,}"),
                    number(f"{sum(span.range.length for span in spans):,}"),
                    number(_ms(start)),
                    number(_ms(stop)),
                    cell(_drawn(run, [(start, stop)], "stripe"), "draw"),
                ],
            )
        )
    headers = ("Wave", "What for", "#Requests", "#Bytes", "#Begins", "#Ends", "When")
    return table("Waves, by the clock", headers, rows)


def _waterfall(run: Run) -> Html:
    size = -(-len(run.requests) // _REQUESTS_DRAWN)
    groups = [run.requests[at : at + size] for at in range(0, len(run.requests), size or 1)]
    caption = "Requests, by their beginning"
    if size > 1:
        caption += f", {size} in a line"
    rows = []
    for at, group in enumerate(groups):
        first, stop = group[0], max(span.stop_s for span in group)
        name = f"{at * size + 1:,}" if len(group) == 1 else f"{at * size + 1:,} to {at * size + len(group):,}"
        rows.append(
            (
                name,
                [
                    cell(", ".join(dict.fromkeys(span.wave for span in group))),
                    number(f"{first.range.start:,}"),
                    number(f"{sum(span.range.length for span in group):,}"),
                    number(_ms(first.start_s)),
                    number(_ms(stop - first.start_s)),
                    cell(_drawn(run, [(span.start_s, span.stop_s) for span in group], "data"), "draw"),
                ],
            )
        )
    headers = ("Request", "Wave", "#From byte", "#Bytes", "#Begins", "#Takes", "When")
    return table(caption, headers, rows)


def _decoding(file: FileFacts, run: Run) -> Html | None:
    """Each column's steps, longest first."""
    columns: dict[int, list[DecodeSpan]] = {}
    for span in run.decodes:
        columns.setdefault(span.column_id, []).append(span)
    if not columns:
        return tag("p", "Nothing was decoded.")
    order = sorted(columns, key=lambda column: -_spent(columns[column]))
    rows = [
        (tag("bdi", _name(file, column)), _decode_cells(run, columns[column]))
        for column in order[:_COLUMNS_DRAWN]
    ]
    rest = [span for column in order[_COLUMNS_DRAWN:] for span in columns[column]]
    if rest:
        rows.append(
            (tag("span", counted(len(order) - _COLUMNS_DRAWN, "other column")), _decode_cells(run, rest))
        )
    headers = ("Column", "#Steps", "#Rows", "#Time of threads", "When")
    return table("Decoding, by column", headers, rows)


def _decode_cells(run: Run, spans: Sequence[DecodeSpan]) -> list[Html]:
    return [
        number(f"{len(spans):,}"),
        number(f"{sum(span.row_count for span in spans):,}"),
        number(_ms(_spent(spans))),
        cell(_drawn(run, [(span.start_s, span.stop_s) for span in spans], "data"), "draw"),
    ]


def _spent(spans: Sequence[DecodeSpan]) -> float:
    return sum(span.stop_s - span.start_s for span in spans)


def _drawn(run: Run, spans: Sequence[tuple[float, float]], group: str) -> Html:
    start, stop = min(span[0] for span in spans), max(span[1] for span in spans)
    return timeline(spans, run.duration_s, group, f"from {_ms(start)} to {_ms(stop)}")


def _name(file: FileFacts, column: int) -> str:
    return file.columns[column].name if column < len(file.columns) else f"column {column}"
