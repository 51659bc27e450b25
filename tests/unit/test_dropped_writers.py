"""A writer that nobody ended leaves no file, and says so when it is dropped; all others are silent."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import anyio
import pytest

import orcstream
from orcstream import OrcWriter

SCHEMA = "struct<a:int>"
ROWS = [{"a": 1}, {"a": 2}]
Do = Callable[[OrcWriter], Coroutine[Any, Any, object]]


async def nothing(out: OrcWriter) -> None:
    pass


async def write(out: OrcWriter) -> None:
    await out.write(ROWS)


async def fail(out: OrcWriter) -> None:
    await out.write(ROWS)
    out._fail()


async def write_and(out: OrcWriter, end: Do) -> None:
    await out.write(ROWS)
    await end(out)


async def prepare_and_discard(out: OrcWriter) -> None:
    await orcstream.discard(await out.prepare())


async def warnings_of(path: Path, do: Do, **options: Any) -> list[warnings.WarningMessage]:
    """What is warned of while a writer is dropped that `do` was done to."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        out = await orcstream.create(path, SCHEMA, **options)
        await do(out)
        gone = threading.Event()
        reference = weakref.ref(out, lambda _: gone.set())
        del out
        gc.collect()
        # A worker thread may hold what it did last, for a moment after it has answered.
        await anyio.to_thread.run_sync(gone.wait, 10)
    assert reference() is None  # the warning keeps nothing alive
    return caught


@pytest.mark.parametrize("do", [nothing, write, fail])
async def test_a_writer_that_nobody_ended(tmp_path: Path, do: Do) -> None:
    path = tmp_path / "t.orc"
    (warning,) = await warnings_of(path, do)
    assert warning.category is ResourceWarning
    assert f"<OrcWriter {path}: " in str(warning.message)
    assert "there will be no file" in str(warning.message)
    assert "`async with orcstream.create(...) as out`" in str(warning.message)
    assert "`await out.commit()` or `abort()`" in str(warning.message)
    assert not path.exists()


async def test_a_growing_file_that_nobody_ended(tmp_path: Path) -> None:
    path = tmp_path / "t.orc"
    (warning,) = await warnings_of(path, lambda out: write_and(out, OrcWriter.flush), growing=True)
    assert warning.category is ResourceWarning
    assert "rows after its last flush are lost" in str(warning.message)


@pytest.mark.parametrize(
    "end", [OrcWriter.commit, OrcWriter.abort, OrcWriter.prepare, OrcWriter.aclose, prepare_and_discard]
)
async def test_a_writer_that_was_ended(tmp_path: Path, end: Do) -> None:
    assert not await warnings_of(tmp_path / "t.orc", lambda out: write_and(out, end))


async def test_a_writer_that_was_never_made(tmp_path: Path) -> None:
    path = tmp_path / "t.orc"
    path.touch()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(FileExistsError):
            await orcstream.create(path, SCHEMA, growing=True)
        OrcWriter.__new__(OrcWriter)
        gc.collect()
    assert not caught


async def test_an_ingest_ends_its_writers(tmp_path: Path) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for end in ("commit", "abort"):
            out = await orcstream.ingest(f"{tmp_path}/{end}-{{number}}.orc", SCHEMA, max_rows=1)
            await out.write(ROWS)
            await getattr(out, end)()
            del out
        gc.collect()
    assert not caught


PROGRAMS = {
    "a loop that is over": """
        import asyncio, orcstream
        async def main():
            global out
            out = await orcstream.create(PATH, "struct<a:int>")
            await out.write([{"a": 1}])
        asyncio.run(main())
    """,
    "without await": """
        import orcstream
        out = orcstream.blocking.create(PATH, "struct<a:int>")
        out.write([{"a": 1}])
    """,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_that_ends_before_its_writer(tmp_path: Path, name: str) -> None:
    path = tmp_path / "t.orc"
    lines = [line.removeprefix(" " * 8) for line in PROGRAMS[name].splitlines()]
    program = f"PATH = {str(path)!r}\n" + "\n".join(lines)
    ended = subprocess.run(
        [sys.executable, "-W", "always::ResourceWarning", "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert ended.stderr.count("ResourceWarning") == 1, ended.stderr
    assert f"<OrcWriter {path}: 1 rows, open>" in ended.stderr
    assert "Traceback" not in ended.stderr and "ignored" not in ended.stderr
