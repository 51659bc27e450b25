"""Bars to scale: bytes along a file, or spans along a read, as SVG without styles of its own.

Knows shares of a whole, and what is too small to be drawn. Must not know what is drawn. Each segment has its
words as its title, for who points at it, who moves to it by keys and who has the page read out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from orcstream.inspect.markup import Html, tag

# Neighbours that are narrower than this share of the bar are drawn as one, up to twice that.
_DRAWN = 1 / 250
# What stands alone is drawn no narrower than this, in percent.
_LEAST = 0.3
_SPANS = 200
# What is at least so wide, in percent, has its name on it.
_NAMED = 8


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
