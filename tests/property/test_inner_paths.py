"""What a record names as a path is below its folder, or refused: for any text, in any store."""

from __future__ import annotations

import asyncio
import ntpath
import posixpath
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import unquote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from orcstream.errors import OrcError, UsageError
from orcstream.io.folders import check_links, remove_files, remove_folders
from orcstream.io.urls import inner_path, is_inner_path, kind_of, protocol_of

PIECES = st.sampled_from(
    [
        *("..", ".", "", "a", "p=1", "link", "victim", "/", "//", "\\", "..\\", "C:", "file:", "s3:", "::"),
        *("zip::", "%2e", "%2E%2e", "%2f", "%252e", "%252E%252e", "%5c", "\0", "?", "#", "~", "x.orc", " "),
        *("\ud800", "\n"),
    ]
)
PATHS = st.lists(PIECES, max_size=8).map("/".join) | st.lists(PIECES, max_size=10).map("".join) | st.text()
HOSTILE = [
    "", "/", "/etc/passwd", "..", "../victim/a.txt", "a/../../victim", "a/..", "./a", "a/./b", "a//b", "a/",
    "//host/share", "file:///etc/passwd", "s3://bucket/key", "s3a://b/k", "memory://x", "a::b", "zip::s3://b/k",
    "..\\victim", "a\\b", "C:\\x", "C:x", "C:/x", "a\0b", "%2e%2e/victim", ".%2E/victim", "%2e/a",
    "%252e%252e/victim", "%25252E%25252e/x", "\ud800", "\\\\host\\share",
]  # fmt: skip
TAKEN = [
    "part-0.orc", "p=1/part-0.orc", "v=..%2F..%2Fx/a.orc", "v=%2E%2E/a.orc", "...", "..a", "a..",
    "p=a:b/x.orc", "day=2024-01-01 00%3A00%3A00/x", "ä/€.orc", "~/x", "a?b", "a#b", "%zz",
]  # fmt: skip


@pytest.mark.parametrize("path", HOSTILE)
def test_refused(path: str) -> None:
    with pytest.raises(UsageError, match=re.escape(repr(path))):
        inner_path(path)


@pytest.mark.parametrize("path", TAKEN)
def test_taken(path: str) -> None:
    assert inner_path(path) == path


@pytest.mark.parametrize("value", [None, 1, [], b"a", ["a"]])
def test_what_is_no_text(value: object) -> None:
    with pytest.raises(UsageError):
        inner_path(value)


def test_escapes_of_escapes_take_no_time() -> None:
    assert not is_inner_path("%" + "25" * 500_000 + "2e")
    assert is_inner_path("%" + "25" * 500_000 + "2")


@given(PATHS)
def test_what_is_taken_stays_below_wherever_it_is_read(path: str) -> None:
    if not is_inner_path(path):
        return
    for table in ("/data/table", "relative/table"):
        assert posixpath.normpath(posixpath.join(table, path)) == f"{table}/{path}"
    assert ntpath.normpath(ntpath.join("T:\\table", path)).startswith("T:\\table\\")
    for table in ("/data/table", "s3://bucket/table", "hdfs://host/table", "memory://table", "gs://b/t"):
        assert protocol_of(f"{table}/{path}") == protocol_of(table)
        assert kind_of(f"{table}/{path}") == kind_of(table)
    # A store that decodes each segment finds no dots there.
    decoded = [unquote(unquote(segment)) for segment in path.split("/")]
    assert not {"", ".", ".."}.intersection(decoded)


@contextmanager
def table_and_victim() -> Iterator[tuple[Path, Path]]:
    """A table with links that lead out of it, and what must stay as it is."""
    with TemporaryDirectory() as name:
        base = Path(name).resolve()
        table, victim = base / "table", base / "victim"
        (table / "p=1").mkdir(parents=True)
        (victim / "empty").mkdir(parents=True)
        (victim / "x.orc").write_bytes(b"precious")
        (victim / "a").write_bytes(b"precious")
        (table / "link").symlink_to(victim)
        (table / "p=1" / "link").symlink_to(base)
        (table / "file").symlink_to(victim / "a")
        yield table, victim


def left(victim: Path) -> set[str]:
    return {path.name for path in victim.iterdir()}


@given(PATHS)
@example("link/x.orc")
@example("link/empty")
@example("p=1/link/victim/x.orc")
@example("../victim/x.orc")
@example("link")
@example("file")
def test_no_text_removes_anything_outside(path: str) -> None:
    with table_and_victim() as (table, victim):
        for absolute in ("", f"{victim}/"):
            for remove in (remove_files, remove_folders):
                with suppress(OrcError, OSError, ValueError):
                    asyncio.run(remove(str(table), [absolute + path]))
        assert left(victim) == {"x.orc", "a", "empty"}


def test_links_that_lead_out() -> None:
    with table_and_victim() as (table, _):
        (table / "p=2").mkdir()
        (table / "inside").symlink_to(table / "p=2")
        for url in (str(table), f"file://{table}/"):
            asyncio.run(check_links(url, ["a.orc", "p=1/a.orc", "inside/a.orc", "not/there.orc", "file"]))
            for path in ("link/x.orc", "p=1/link/victim/x.orc", "p=1/link/new/a.orc"):
                with pytest.raises(UsageError, match=f"'{path}'"):
                    asyncio.run(check_links(url, ["a.orc", path]))
        # A table that is itself a link is a table.
        (table.parent / "alias").symlink_to(table)
        asyncio.run(check_links(str(table.parent / "alias"), ["p=1/a.orc"]))


def test_nothing_is_removed_where_one_path_leads_out() -> None:
    with table_and_victim() as (table, _):
        (table / "a.orc").write_bytes(b"")
        with pytest.raises(UsageError, match=r"'link/x\.orc'.*/victim\b"):
            asyncio.run(remove_files(str(table), ["a.orc", "link/x.orc"]))
        assert (table / "a.orc").exists()
        asyncio.run(remove_files(str(table), ["a.orc", "file"]))
        assert not (table / "a.orc").exists()
        assert not (table / "file").is_symlink()
