"""Files of a table: those below a folder, or that a pattern matches.

Knows places and names: what is hidden, and what of a path follows the place that leads to it. Must not know
what is in the files, nor what their folders mean (`columns`).
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orcstream._credentials import strip_credentials
from orcstream.errors import Unsupported
from orcstream.io.contract.folder import ListedFile
from orcstream.io.folders import expanded, is_hidden, list_files, name_matcher, split_pattern
from orcstream.io.urls import kind_of


@dataclass(frozen=True, slots=True)
class PlacedFile:
    """A listed file, and the place that leads to it; its length is -1 where no listing says it.

    `place` is the folder that was named, or that a pattern matches, and `folders` are those from there down
    to the file. `path` is what follows the part of the place that is no pattern.
    """

    listed: ListedFile
    place: str
    folders: tuple[str, ...]
    path: str


async def files_at(
    url: str, storage_options: Mapping[str, Any] | None, *, is_pattern: bool, may_be_name: bool = False
) -> list[PlacedFile]:
    """The files of a place that are not hidden; a file that is named itself, in any case.

    With `may_be_name`, a path that exists is that path, although it has the characters of a pattern. Raises
    `FileNotFoundError` for a path that is not there, or a pattern that nothing matches.
    """
    if is_pattern and may_be_name:
        try:
            return await _below(url, storage_options)
        except FileNotFoundError:
            pass
    return await (_matching if is_pattern else _below)(url, storage_options)


def unlisted(url: str) -> PlacedFile:
    """A file that is there, as far as anybody knows."""
    name = posixpath.basename(url)
    return PlacedFile(ListedFile(url, name, -1, "", None), posixpath.dirname(url), (), name)


def distinct(files: Iterable[PlacedFile], rank: Callable[[PlacedFile], Any]) -> list[PlacedFile]:
    """Each file once: of several places that lead to it, by the one of the highest rank."""
    found: dict[str, PlacedFile] = {}
    for one in files:
        known = found.setdefault(key := _same(one.listed.url), one)
        if rank(one) > rank(known):
            found[key] = one
    return list(found.values())


def _same(url: str) -> str:
    """One text for all ways to write a local path."""
    if kind_of(url) not in ("file", "local"):
        return url
    return os.path.abspath(url.partition("://")[2] if "://" in url else url)  # noqa: PTH100 - links stay


async def _below(url: str, storage_options: Mapping[str, Any] | None) -> list[PlacedFile]:
    found: list[PlacedFile] = []
    for place, file in await _listed(url, storage_options):
        if place != url or not is_hidden(file.path):
            found.append(PlacedFile(file, place, tuple(file.path.split("/")[:-1]), file.path))
    return found


async def _listed(url: str, storage_options: Mapping[str, Any] | None) -> list[tuple[str, ListedFile]]:
    """All files at a URL, each with the folder that it is below: `url`, or the one above a file."""
    try:
        listed = await list_files(url, storage_options=storage_options)
    except Unsupported as error:
        if error.reason != "no_listing":
            raise
        listed = [unlisted(url).listed]
    if len(listed) == 1 and listed[0].url == url:
        return [(posixpath.dirname(url), listed[0])]
    return [(url, file) for file in listed]


async def _matching(pattern: str, storage_options: Mapping[str, Any] | None) -> list[PlacedFile]:
    shapes: dict[str, list[list[re.Pattern[str]]]] = {}  # by the folder that is listed
    for one in expanded(pattern):
        root, parts = split_pattern(one)
        shapes.setdefault(root, []).append([name_matcher(part) for part in parts])
    base, _ = split_pattern(pattern)
    found: list[PlacedFile] = []
    for root, several in shapes.items():
        try:
            listed = await _listed(root, storage_options)
        except FileNotFoundError:  # another alternative may be there
            continue
        above = _between(base, root)
        for place, file in listed:
            names = file.path.split("/")
            depth = min((len(one) for one in several if _fits(names, one)), default=None)
            if depth is not None and not is_hidden(file.path):
                at = min(depth, len(names) - 1)
                matched = posixpath.join(place, *names[:at])
                found.append(PlacedFile(file, matched, tuple(names[at:-1]), _joined(above, file.path)))
    if not found:
        raise FileNotFoundError(
            f"nothing matches {strip_credentials(pattern)!r}; if this is a name and not a pattern, put a "
            "backslash before each special character, or give orcstream.dataset a list of names"
        )
    return found


def _between(base: str, root: str) -> str:
    """The folders of an alternative, below the one that its pattern begins with."""
    if root == base:
        return ""
    return root if base == "." else root[len(base) :].lstrip("/")


def _joined(above: str, path: str) -> str:
    """`path` below `above`, which may be the file itself."""
    return above if posixpath.basename(above) == path else posixpath.join(above, path)


def _fits(names: Sequence[str], matchers: Sequence[re.Pattern[str]]) -> bool:
    """Whether a pattern matches a file, or a folder that it is below."""
    if len(names) < len(matchers):
        return False
    return all(m.fullmatch(name) for m, name in zip(matchers, names, strict=False))
