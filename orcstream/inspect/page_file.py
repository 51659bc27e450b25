"""The page's sections about a file: its layout, its stripes, its columns.

Knows how many of each can be read at a sitting. Must not know questions or reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from orcstream.figures import bytes_text, counted
from orcstream.inspect.facts import ColumnFacts, FileFacts, StripeFacts
from orcstream.inspect.layout import Part
from orcstream.inspect.markup import (
    Html,
    Segment,
    bar,
    cell,
    gathered,
    joined,
    legend,
    number,
    percent,
    share,
    table,
    tag,
)
from orcstream.inspect.terms import GROUPS, PARTS, group_of

_STRIPES_LISTED = 100
_STRIPES_OPENED = 12
_COLUMNS_OF_STRIPE = 40
_COLUMNS_LISTED = 300
_NOT_TO_SCALE = "Widths are to scale, but that nothing is drawn narrower than can be seen."


# --- the file ----------------------------------------------------------------------------------------------


def layout_section(file: FileFacts) -> Html:
    """All bytes on one bar, and in one table."""
    opened = {stripe.index for stripe in opened_stripes(file)}
    segments = [_segment(part, file, opened) for part in file.parts]
    sums: dict[str, list[int]] = {}
    for part in file.parts:
        sums.setdefault(part.kind, []).append(part.range.length)
    rows = [
        (
            PARTS[kind].name if len(lengths) == 1 else f"{PARTS[kind].name} ({len(lengths):,})",
            [
                number(f"{sum(lengths):,}"),
                number(percent(sum(lengths), file.file_length)),
                cell(PARTS[kind].meaning, "said"),
            ],
        )
        for kind, lengths in sums.items()
    ]
    return joined(
        [
            tag(
                "p",
                "The file from its first byte, on the left, to its last. A reader begins at the end: the "
                "last bytes say where the directories are, and these where the stripes are. ",
                _NOT_TO_SCALE,
            ),
            bar(gathered(segments, _together), "The file, from its first byte to its last"),
            legend(_groups(segment.group for segment in segments)),
            table("What the bytes are used for", ("Part", "#Bytes", "#Share", "What it is"), rows),
        ]
    )


def _segment(part: Part, file: FileFacts, opened: set[int]) -> Segment:
    name = PARTS[part.kind].name.capitalize()
    href = None
    if part.kind == "stripe":
        name = f"Stripe {part.stripe}"
        href = f"#stripe-{part.stripe}" if part.stripe in opened else None
    text = f"{name}: {_extent(part.range.start, part.range.stop, file.file_length, 'the file')}"
    short = f"{part.stripe}" if part.kind == "stripe" else ""
    return Segment(group_of(part.kind), part.range.start, part.range.stop, text, href, short)


def _extent(start: float, stop: float, whole: float, of: str) -> str:
    share = percent(stop - start, whole)
    return f"{bytes_text(stop - start)}, {share} of {of}, bytes {start:,.0f} up to {stop:,.0f}"


def _together(segments: Sequence[Segment]) -> Segment:
    """Neighbours that are too small to be drawn each."""
    start, stop = segments[0].start, segments[-1].stop
    names = [segment.label.rpartition(": ")[0] for segment in segments]
    shown = ", ".join(names) if len(names) <= 6 else f"{names[0]} to {names[-1]}"
    extent = f"{bytes_text(stop - start)}, bytes {start:,.0f} up to {stop:,.0f}"
    text = f"{len(names)} parts too small to be drawn each: {extent}. {shown}"
    groups = [segment.group for segment in segments]
    return Segment(max(groups, key=groups.count), start, stop, text)


def _groups(found: Iterable[str]) -> list[tuple[str, str]]:
    there = set(found)
    return [(group, words) for group, words in GROUPS.items() if group in there]


# --- stripes -----------------------------------------------------------------------------------------------


def opened_stripes(file: FileFacts) -> list[StripeFacts]:
    """The stripes that are shown in detail: first and last, the largest, and some between."""
    known = [stripe for stripe in file.stripes if stripe.parts is not None]
    if len(known) <= _STRIPES_OPENED:
        return known
    largest = sorted(known, key=lambda stripe: -stripe.range.length)[: _STRIPES_OPENED // 3]
    count = _STRIPES_OPENED - len(largest)
    spread = [known[at * (len(known) - 1) // (count - 1)] for at in range(count)]
    chosen = {stripe.index: stripe for stripe in (*largest, *spread)}
    return [chosen[index] for index in sorted(chosen)]


def stripes_section(file: FileFacts) -> Html:
    """A table of all stripes, and some of them in detail."""
    opened = opened_stripes(file)
    intro = (
        "Each stripe holds some rows, column after column, so that a reader of few columns skips the rest. "
        "Indexes come first, then values, then the stripe's own directory."
    )
    left_out = None
    if len(opened) < len(file.stripes):
        left_out = tag(
            "p",
            f"{len(opened)} of {counted(len(file.stripes), 'stripe')} are shown in detail: the first and the "
            "last, the largest, and some between.",
        )
    return joined(
        [
            tag("p", intro) if file.stripes else tag("p", "The file has no stripes, and no rows."),
            _stripe_table(file, {stripe.index for stripe in opened}) if file.stripes else None,
            left_out,
            *(_stripe(stripe, file, is_open=len(opened) == 1) for stripe in opened),
        ]
    )


def _stripe_table(file: FileFacts, opened: set[int]) -> Html:
    size = -(-len(file.stripes) // _STRIPES_LISTED)
    groups = [file.stripes[at : at + size] for at in range(0, len(file.stripes), size)]
    caption = "All stripes" if size == 1 else f"All stripes, {size} in a line"
    rows = []
    for group in groups:
        first, last = group[0], group[-1]
        length = sum(stripe.range.length for stripe in group)
        name: object = f"{first.index:,}" if first is last else f"{first.index:,} to {last.index:,}"
        if first is last and first.index in opened:
            name = tag("a", name, href=f"#stripe-{first.index}")
        rows.append(
            (
                name,
                [
                    number(f"{first.range.start:,}"),
                    number(f"{sum(stripe.row_count for stripe in group):,}"),
                    number(f"{length:,}"),
                    share(length, file.file_length),
                    number(f"{sum(stripe.index_bytes for stripe in group):,}"),
                    number(f"{sum(stripe.data_bytes for stripe in group):,}"),
                    number(f"{sum(stripe.footer_bytes for stripe in group):,}"),
                ],
            )
        )
    headers = ("Stripe", "#From byte", "#Rows", "#Bytes", "#Share", "#Indexes", "#Values", "#Footer")
    return table(caption, headers, rows)


def _stripe(stripe: StripeFacts, file: FileFacts, *, is_open: bool) -> Html:
    parts = stripe.parts or ()
    segments = [_stream_segment(part, stripe, file) for part in parts]
    rows = f"{counted(stripe.row_count, 'row')} from {stripe.first_row:,}"
    size = f"{bytes_text(stripe.range.length)} ({percent(stripe.range.length, file.file_length)} of the file)"
    content = joined(
        [
            bar(gathered(segments, _together), f"Stripe {stripe.index}, stream after stream"),
            legend(_groups(segment.group for segment in segments)),
            _stream_table(stripe, file),
            tag("p", tag("a", "Back to the stripes", href="#stripes")),
        ]
    )
    return tag(
        "details",
        tag("summary", f"Stripe {stripe.index:,}: {rows}, {size}"),
        tag("div", content, id=f"stripe-{stripe.index}", tabindex="-1"),
        open="" if is_open else None,
    )


def _stream_segment(part: Part, stripe: StripeFacts, file: FileFacts) -> Segment:
    name = PARTS[part.kind].name.capitalize()
    if part.column is not None:
        name = f"{name} of {_name(file, part.column)}{' (encrypted)' if part.encrypted else ''}"
    extent = _extent(part.range.start, part.range.stop, stripe.range.length, "the stripe")
    group = group_of(part.kind, encrypted=part.encrypted)
    short = _name(file, part.column) if part.column is not None and group == "data" else ""
    return Segment(group, part.range.start, part.range.stop, f"{name}: {extent}", name=short)


def _name(file: FileFacts, column: int) -> str:
    return file.columns[column].name if column < len(file.columns) else f"column {column}"


def _stream_table(stripe: StripeFacts, file: FileFacts) -> Html:
    """Its columns, largest first, by what their streams are for."""
    sums: dict[int, dict[str, int]] = {}
    kinds: dict[str, None] = {}
    for part in stripe.parts or ():
        if part.column is not None:
            own = sums.setdefault(part.column, {})
            own[part.kind] = own.get(part.kind, 0) + part.range.length
            kinds[part.kind] = None
    order = sorted(sums, key=lambda column: -sum(sums[column].values()))
    shown, rest = order[:_COLUMNS_OF_STRIPE], order[_COLUMNS_OF_STRIPE:]
    lines = [(tag("bdi", _name(file, column)), sums[column]) for column in shown]
    if rest:
        others: dict[str, int] = {}
        for column in rest:
            for kind, length in sums[column].items():
                others[kind] = others.get(kind, 0) + length
        lines.append((tag("span", counted(len(rest), "smaller column")), others))
    rows = [(name, _stream_cells(own, list(kinds), stripe.range.length)) for name, own in lines]
    headers = ("Column", "#Bytes", "#Share", *(f"#{PARTS[kind].name.capitalize()}" for kind in kinds))
    return table(f"Bytes of stripe {stripe.index} by column", headers, rows)


def _stream_cells(own: Mapping[str, int], kinds: Sequence[str], whole: int) -> list[Html]:
    total = sum(own.values())
    return [
        number(f"{total:,}"),
        number(percent(total, whole)),
        *(number(f"{own[kind]:,}" if kind in own else "") for kind in kinds),
    ]


# --- columns -----------------------------------------------------------------------------------------------


def columns_section(file: FileFacts) -> Html:
    """Sizes, encodings and statistics."""
    looked_at = sum(1 for stripe in file.stripes if stripe.parts is not None)
    total = sum(column.total_bytes for column in file.columns)
    largest = sorted(file.columns, key=lambda column: -column.total_bytes)[:_COLUMNS_LISTED]
    listed = sorted(largest, key=lambda column: column.column_id)
    rows = [(_indented(column), _column_cells(column, total)) for column in listed]
    if len(listed) < len(file.columns):
        rest = total - sum(column.total_bytes for column in listed)
        cells = [cell(""), number(f"{rest:,}"), number(percent(rest, total)), *([cell("")] * 7)]
        rows.append((tag("span", counted(len(file.columns) - len(listed), "smaller column")), cells))
    some = f" The sizes are of {looked_at:,} of {counted(len(file.stripes), 'stripe')}."
    headers = (
        "Column",
        "Type",
        "#Bytes",
        "#Share",
        "Streams",
        "Encoding",
        "#Ratio",
        "#Values",
        "Nulls",
        "Smallest",
        "Largest",
    )
    return joined(
        [
            tag(
                "p",
                "What each column takes, and what the writer noted about its values. The ratio is the "
                "size of the values in memory against that of their streams."
                + (some if looked_at < len(file.stripes) else ""),
            ),
            table("Columns: sizes, encodings, statistics", headers, rows),
        ]
    )


def _indented(column: ColumnFacts) -> Html:
    locks = {"": "", "open": " (encrypted, open)", "closed": " (encrypted, not open)"}
    return tag("span", tag("bdi", column.name), locks[column.lock])


def _column_cells(column: ColumnFacts, total: int) -> list[Html]:
    known = column.statistics
    streams = ", ".join(
        f"{PARTS[kind].name} {bytes_text(length)}"
        for kind, length in sorted(column.part_bytes.items(), key=lambda item: -item[1])
    )
    encodings = ", ".join(
        name if len(column.encodings) == 1 else f"{name} ({count:,})"
        for name, count in sorted(column.encodings.items())
    )
    if column.dictionary_size:
        encodings += f", {column.dictionary_size:,} entries at most"
    stored = sum(length for kind, length in column.part_bytes.items() if PARTS[kind].group != "index")
    ratio = f"{column.logical_bytes / stored:.1f}" if column.logical_bytes and stored else ""
    nulls = {True: "yes", False: "no", None: ""}[known.get("has_null")]
    if column.lock == "closed":
        nulls = "not shown"
    count = known.get("value_count")
    return [
        cell(tag("bdi", column.type)),
        number(f"{column.total_bytes:,}"),
        share(column.total_bytes, total),
        cell(streams, "value"),
        cell(encodings, "value"),
        number(ratio),
        number(f"{count:,}" if count is not None else ""),
        cell(nulls),
        cell(tag("bdi", _bound(known, "minimum", "lower_bound")), "value"),
        cell(tag("bdi", _bound(known, "maximum", "upper_bound")), "value"),
    ]


def _bound(known: Mapping[str, object], exact: str, cut: str) -> str:
    found = known.get(exact, known.get(cut))
    text = "" if found is None else f"{found:.6g}" if isinstance(found, float) else str(found)
    return text if len(text) <= 80 else f"{text[:80]}…"
