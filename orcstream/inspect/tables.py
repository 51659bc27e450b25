"""Tables of the page: with a caption, headers that are headers, and room to scroll on a narrow screen.

Knows rows and cells. Must not know what they say.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from orcstream.inspect.drawing import meter
from orcstream.inspect.markup import Html, joined, tag


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
