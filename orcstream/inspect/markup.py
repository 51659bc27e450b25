"""HTML from values: elements, tables, and bars to scale as SVG without styles of its own.

Knows elements, attributes, shares of a whole, and what is too small to be drawn. Must not know what a page
says. Contract: every text is escaped unless it is markup already. Tables have a caption, headers that are
headers, and room to scroll on a narrow screen. Each segment of a bar has its words as its title, for who
points at it, who moves to it by keys and who has the page read out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape

_EMPTY = frozenset(("meta", "link", "rect", "line"))
# Neighbours that are narrower than this share of the bar are drawn as one, up to twice that.
_DRAWN = 1 / 250
# What stands alone is drawn no narrower than this, in percent.
_LEAST = 0.3
_SPANS = 200
# What is at least so wide, in percent, has its name on it.
_NAMED = 8


class Html(str):
    """Markup, which is put into other markup as it is."""

    __slots__ = ()


def tag(name: str, /, *children: object, **attributes: object) -> Html:
    """An element. Names of attributes are written ``class_`` and ``aria_label``; None leaves one out."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _EMPTY:
        return Html(f"<{name}{given}>" if name in ("meta", "link") else f"<{name}{given}/>")
    return Html(f"<{name}{given}>{joined(children)}</{name}>")


def joined(children: Iterable[object]) -> Html:
    """One after the other; None is nothing."""
    return Html(
        "".join(
            child if isinstance(child, Html) else escape(str(child))
            for child in children
            if child is not None
        )
    )


# --- tables ------------------------------------------------------------------------------------------------


def number(text: object) -> Html:
    """A cell of figures."""
    return tag("td", text, class_="n")


def cell(text: object, class_: str | None = None) -> Html:
    """A cell of text."""
    return tag("td", text, class_=class_)


def share(part: float, whole: float) -> Html:
    """A cell of a share in percent, and drawn."""
    return number(joined([percent(part, whole), meter(part / whole if whole else 0)]))


def percent(part: float, whole: float) -> str:
    """A share in percent, with a digit behind the point."""
    return f"{100 * part / whole:.1f} %" if whole else "-"


def table(caption: str, headers: Sequence[str], rows: Iterable[tuple[object, Sequence[Html]]]) -> Html:
    """Rows as what heads them and their cells; a header that begins with ``#`` heads figures."""
    head = [
        tag("th", name.removeprefix("#"), scope="col", class_="n" if name.startswith("#") else None)
        for name in headers
    ]
    lines = [tag("tr", tag("th", name, scope="row"), *cells) for name, cells in rows]
    return tag(
        "div",
        tag(
            "table",
            tag("caption", tag("span", caption)),
            tag("thead", tag("tr", *head)),
            tag("tbody", *lines),
        ),
        class_="wide",
        role="region",
        aria_label=caption,
        tabindex="0",
    )


# --- bars --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Segment:
    """From `start` to `stop` on the bar's scale, drawn as `group`.

    `href` is where it leads, if anywhere, `name` what is written on it where it is wide enough.
    """

    group: str
    start: float
    stop: float
    label: str
    href: str | None = None
    name: str = ""

    @property
    def length(self) -> float:
        return self.stop - self.start


def gathered(segments: Sequence[Segment], together: Callable[[Sequence[Segment]], Segment]) -> list[Segment]:
    """The segments, but that small neighbours become what `together` makes of them."""
    total = segments[-1].stop - segments[0].start if segments else 0
    least = total * _DRAWN
    done: list[Segment] = []
    small: list[Segment] = []

    def flush() -> None:
        if small:
            done.append(small[0] if len(small) == 1 else together(small))
            small.clear()

    for segment in segments:
        if segment.length >= least:
            flush()
            done.append(segment)
            continue
        small.append(segment)
        if segment.stop - small[0].start >= 2 * least:
            flush()
    flush()
    return done


def bar(segments: Sequence[Segment], label: str) -> Html:
    """Segments that follow each other, and the line below that says which of them has the focus."""
    least = min(_LEAST, 30 / max(1, len(segments)))
    total = sum(segment.length for segment in segments) or 1
    widths = [max(least, 100 * segment.length / total) for segment in segments]
    scale = 100 / sum(widths) if widths else 1
    drawn: list[Html] = []
    at = 0.0
    for segment, width in zip(segments, widths, strict=True):
        shape = _shape(segment, at, width * scale)
        words = tag("title", segment.label)
        name, role = ("a", None) if segment.href else ("g", "img")
        drawn.append(
            tag(
                name,
                words,
                shape,
                class_=f"seg g-{segment.group}",
                href=segment.href,
                role=role,
                tabindex="-1" if drawn else "0",
            )
        )
        at += width * scale
    return tag(
        "div",
        tag("svg", *drawn, class_="bar", role="group", aria_label=label),
        tag("p", "Arrow keys, or the pointer, go through the parts.", class_="readout", aria_live="polite"),
        class_="drawing",
    )


def _shape(segment: Segment, x: float, width: float) -> Html:
    if not segment.name or width < _NAMED:
        return tag("rect", x=_percent(x), width=_percent(width), height="100%")
    # An inner picture cuts off what is too long.
    return tag(
        "svg",
        tag("rect", width="100%", height="100%"),
        tag("text", segment.name, x="50%", y="50%"),
        x=_percent(x),
        width=_percent(width),
        height="100%",
        aria_hidden="true",
    )


def timeline(spans: Iterable[tuple[float, float]], total: float, group: str, label: str) -> Html:
    """Spans on a track from 0 to `total`; for a cell, whose neighbours say the same in figures."""
    shapes = (
        [
            tag(
                "rect",
                x=_percent(100 * start / total),
                width=_percent(max(0.4, 100 * (stop - start) / total)),
                height="100%",
            )
            for start, stop in joined_spans(spans, total)
        ]
        if total
        else []
    )
    return tag(
        "svg",
        tag("rect", class_="track", width="100%", height="100%"),
        tag("g", *shapes, class_=f"g-{group}"),
        class_="line",
        role="img",
        aria_label=label,
    )


def meter(share: float) -> Html:
    """A share of the whole, beside which it stands as a number."""
    return tag(
        "svg",
        tag("rect", class_="track", width="100%", height="100%"),
        tag("g", tag("rect", width=_percent(100 * share), height="100%"), class_="g-data"),
        class_="meter",
        aria_hidden="true",
    )


def joined_spans(spans: Iterable[tuple[float, float]], total: float) -> list[tuple[float, float]]:
    """Spans in order, those that touch or nearly do as one."""
    done: list[tuple[float, float]] = []
    for start, stop in sorted(spans):
        if done and start <= done[-1][1] + total / _SPANS:
            done[-1] = (done[-1][0], max(stop, done[-1][1]))
        else:
            done.append((start, stop))
    return done


def legend(groups: Iterable[tuple[str, str]]) -> Html:
    """What each pattern stands for: groups with their words."""
    entries = [
        tag(
            "li",
            tag(
                "svg",
                tag("g", tag("rect", width="100%", height="100%"), class_=f"g-{group}"),
                aria_hidden="true",
            ),
            " ",
            words,
        )
        for group, words in groups
    ]
    return tag("ul", *entries, class_="legend")


def patterns() -> Html:
    """What fills groups that are told apart by more than their colour; stands once in a page."""
    shapes = {
        "index": tag("line", x1="0", y1="8", x2="8", y2="0"),
        "dictionary": tag("rect", x="2", y="2", width="3", height="3"),
        "shape": tag("line", x1="0", y1="4", x2="8", y2="4"),
        "footer": tag("line", x1="4", y1="0", x2="4", y2="8"),
        "encrypted": Html(
            tag("line", x1="0", y1="8", x2="8", y2="0") + tag("line", x1="0", y1="0", x2="8", y2="8")
        ),
    }
    found = [
        tag(
            "pattern",
            tag("rect", width="8", height="8", class_="ground"),
            shape,
            id=f"p-{group}",
            class_=f"p-{group}",
            width="8",
            height="8",
            patternUnits="userSpaceOnUse",
        )
        for group, shape in shapes.items()
    ]
    return tag("svg", tag("defs", *found), class_="defs", aria_hidden="true", width="0", height="0")


def _percent(share: float) -> str:
    return f"{share:.3f}%"
