"""HTML from values: every text is escaped unless it is markup already.

Knows elements and attributes. Must not know what a page says.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

_EMPTY = frozenset(("meta", "link", "rect", "line"))


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
