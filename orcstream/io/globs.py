r"""Patterns of paths, as Hadoop writes them: ``* ? [a-z] [^a] {a,b}``, and ``\\`` before one of these.

Knows texts only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from orcstream.errors import UsageError

_SPECIAL = re.compile(r"[{}\[\]*?\\]")
# What is behind a backslash is none.
_BRACES = re.compile(r"\\.|[{},]", re.DOTALL)


def is_pattern(path: str) -> bool:
    return _SPECIAL.search(path) is not None


def is_pattern_url(url: str) -> bool:
    """On the web and behind a version of an object, these characters are no pattern."""
    return is_pattern(url) and not url.startswith(("http://", "https://")) and "?versionId=" not in url


def expanded(pattern: str) -> list[str]:
    """The patterns without ``{a,b}`` that one with them stands for."""
    depth, cuts = 0, [0]
    for found in _BRACES.finditer(pattern):
        if found[0] == "{":
            depth += 1
            if depth == 1:
                cuts = [found.start()]
        elif found[0] == "," and depth == 1:
            cuts.append(found.start())
        elif found[0] == "}" and depth:
            depth -= 1
            if not depth:
                head, tail = pattern[: cuts[0]], pattern[found.end() :]
                inside = [pattern[one + 1 : after] for one, after in pairwise([*cuts, found.start()])]
                return [one for text in inside for one in expanded(head + text + tail)]
    if depth:
        raise UsageError(f"the pattern {pattern!r} has no }} for its {{")
    return [pattern]


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


def is_hidden(path: str) -> bool:
    """Whether a file is left out, as Spark does: by names of folders or its own that are not for readers."""
    return any(
        name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")
        for name in path.split("/")
    )
