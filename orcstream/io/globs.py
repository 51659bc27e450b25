r"""Patterns of paths, as Hadoop writes them: ``* ? [a-z] [^a] {a,b}``, and ``\\`` before one of these.

Knows texts only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from orcstream.errors import UsageError

_SPECIAL = re.compile(r"[{}\[\]*?\\]")


def is_pattern(path: str) -> bool:
    return _SPECIAL.search(path) is not None


def is_pattern_url(url: str) -> bool:
    """On the web and behind a version of an object, these characters are no pattern."""
    return is_pattern(url) and not url.startswith(("http://", "https://")) and "?versionId=" not in url


def expanded(pattern: str) -> list[str]:
    """The patterns without ``{a,b}`` that one with them stands for."""
    open_at = _unescaped(pattern, "{")
    if open_at is None:
        return [pattern]
    close_at, commas = _closing(pattern, open_at)
    ends = [*commas, close_at]
    begins = [open_at + 1, *(comma + 1 for comma in commas)]
    head, tail = pattern[:open_at], pattern[close_at + 1 :]
    return [
        one
        for begin, end in zip(begins, ends, strict=True)
        for one in expanded(head + pattern[begin:end] + tail)
    ]


def split_pattern(pattern: str) -> tuple[str, list[str]]:
    """The folder before the first part that is a pattern, and the parts from there on."""
    scheme, mark, rest = pattern.partition("://")
    if not mark:
        scheme, rest = "", pattern
    parts = rest.split("/")
    plain = next((at for at, part in enumerate(parts) if is_pattern(part)), len(parts))
    root = "/".join(parts[:plain]) or ("/" if rest.startswith("/") else "")
    return f"{scheme}{mark}{root}" or ".", [part for part in parts[plain:] if part]


def name_matcher(pattern: str) -> re.Pattern[str]:
    """What matches one name, by a pattern that may hold ``{a,b}``."""
    return re.compile("|".join(_regex(one) for one in expanded(pattern)), re.DOTALL)


def _regex(pattern: str) -> str:
    return "".join(_parts(pattern))


def _parts(pattern: str) -> Iterator[str]:
    at = 0
    while at < len(pattern):
        sign = pattern[at]
        at += 1
        if sign == "*":
            yield "[^/]*"
        elif sign == "?":
            yield "[^/]"
        elif sign == "\\":
            if at == len(pattern):
                raise UsageError(f"the pattern {pattern!r} ends with a backslash")
            yield re.escape(pattern[at])
            at += 1
        elif sign == "[":
            stop = pattern.find("]", at + 1)
            if stop < 0:
                raise UsageError(f"the pattern {pattern!r} has no ] for its [")
            inside = pattern[at:stop].replace("\\", "\\\\").replace("[", "\\[")
            yield f"[^/{inside[1:]}]" if inside[0] in "^!" else f"[{inside}]"
            at = stop + 1
        else:
            yield re.escape(sign)


def _unescaped(text: str, sign: str) -> int | None:
    at = 0
    while at < len(text):
        if text[at] == "\\":
            at += 1
        elif text[at] == sign:
            return at
        at += 1
    return None


def _closing(pattern: str, open_at: int) -> tuple[int, list[int]]:
    """Where the bracket ends that begins there, and the commas that are its own."""
    depth, commas, at = 0, [], open_at
    while at < len(pattern):
        sign = pattern[at]
        if sign == "\\":
            at += 1
        elif sign == "{":
            depth += 1
        elif sign == "," and depth == 1:
            commas.append(at)
        elif sign == "}":
            depth -= 1
            if not depth:
                return at, commas
        at += 1
    raise UsageError(f"the pattern {pattern!r} has no }} for its {{")


def is_hidden(path: str) -> bool:
    """Whether a file is left out, as Spark does: by names of folders or its own that are not for readers."""
    return any(
        name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")
        for name in path.split("/")
    )
