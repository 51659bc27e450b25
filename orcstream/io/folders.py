r"""Folders: what is in them, removing it, making them where a store has such; and patterns of paths.

Must not know how any store lists, or what the files are.

A listing is no snapshot: files that come or go meanwhile may be in it or not. Patterns are Hadoop's:
``* ? [a-z] [^a] {a,b}``, and ``\\`` before one of these.

Errors: `FileNotFoundError` where there is neither folder nor file, `PermissionError`, `Unsupported` (reason
``no_listing``) for web servers and chains of file systems, `SourceError` for the rest.
"""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from orcstream.errors import Unsupported, UsageError
from orcstream.io.contract.folder import Folder, FolderListing, ListedFile
from orcstream.io.loop.uncancelled import until_over
from orcstream.io.stores.local.folder import check_no_link_leads_out
from orcstream.io.stores.local.source import in_thread
from orcstream.io.urls import READ_ONLY, StoreUrl, kind_of, local_path, protocol_of, shown_of

_SPECIAL = re.compile(r"[{}\[\]*?\\]")
# What is behind a backslash is none.
_BRACES = re.compile(r"\\.|[{},]", re.DOTALL)

T = TypeVar("T")
_Url: TypeAlias = str | os.PathLike[str]
_Options: TypeAlias = Mapping[str, Any] | None


async def list_files(url: _Url, *, storage_options: _Options = None) -> list[ListedFile]:
    """All files below a folder, at any depth, in the order of their paths; of a file, itself.

    A folder that is there and empty has no files. S3 knows no such folder: there that is `FileNotFoundError`.
    """
    return list((await list_folder(url, storage_options=storage_options)).files)


async def list_folder(url: _Url, *, storage_options: _Options = None) -> FolderListing:
    """`list_files`, and the folders below that have nothing in them, in the order of their paths.

    S3 has these as far as somebody left a key there that ends with ``/``; other stores of objects have none.
    """
    found = await _with_folder(url, storage_options, lambda folder: folder.walk())
    return FolderListing(sorted(found.files, key=lambda file: file.path), sorted(found.empty_folders))


async def list_names(url: _Url, *, storage_options: _Options = None) -> list[str]:
    """The names of files and folders that are directly in a folder, sorted; none where there is no folder."""
    try:
        return sorted(await _with_folder(url, storage_options, lambda folder: folder.names()))
    except FileNotFoundError:
        return []


async def remove_files(url: _Url, paths: Iterable[str], *, storage_options: _Options = None) -> None:
    """Remove files below a folder, by their paths in it; those that are gone already are no failure."""
    await _with_folder(url, storage_options, lambda folder: folder.remove_files(list(paths)))


async def remove_folders(url: _Url, paths: Iterable[str], *, storage_options: _Options = None) -> None:
    """Remove folders below a folder that are empty, or hold nothing but empty ones; others stay."""
    await _with_folder(url, storage_options, lambda folder: folder.remove_folders(list(paths)))


def check_listable(url: str) -> None:
    """Raise `Unsupported` (``no_listing``) for a store without listings, without asking it."""
    if kind_of(url) in READ_ONLY:
        shown = shown_of(url)
        raise Unsupported("there is no listing what is in a folder there", reason="no_listing", url=shown)


async def check_links(url: str, paths: Iterable[str]) -> None:
    """Raise `UsageError` where a symbolic link leads one of these paths out of the folder.

    To be called before files are read or written by paths that a record names; removing checks by itself.
    Only local folders have such links.
    """
    if protocol_of(url) in ("file", "local"):
        folder, found = Path(local_path(url)), list(paths)
        shown = shown_of(url)
        await in_thread(lambda: check_no_link_leads_out(folder, found, shown), shown)


async def make_folder_of(url: str) -> None:
    """Make the folder that a file is to be in, and those above it, where there is none."""
    if protocol_of(url) in ("file", "local"):
        folder = Path(local_path(url)).parent
        await in_thread(lambda: folder.mkdir(parents=True, exist_ok=True), shown_of(url))


async def _with_folder(url: _Url, storage_options: _Options, call: Callable[[Folder], Awaitable[T]]) -> T:
    target = StoreUrl.of(url, storage_options)
    check_listable(target.url)
    # fsspec keeps no folders in memory apart: what its files are in is found as in all its stores.
    folder: Folder = await target.open("folder", store="fsspec" if target.kind == "memory" else "")
    try:
        return await call(folder)
    finally:
        await until_over(folder.aclose())


# --- patterns --------------------------------------------------------------------------------------


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
