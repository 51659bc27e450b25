"""Programs at a prompt: `python -m asyncio` keeps its loop running for ever and only stops it in the end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import orcstream


@pytest.mark.parametrize(
    "lines",
    [
        "r = await f.read()",
        "b = [x async for x in f.batches()]",
        "r = [await f.read(), await f.read(rows=range(5))]",
    ],
)
def test_a_prompt_ends_although_a_file_was_read_and_never_closed(tmp_path: Path, lines: str) -> None:
    # anyio's worker threads, which the interpreter waits for, live as long as the topmost task that asked
    # them: a file that kept one while nothing was read would keep the program from ending.
    path = tmp_path / "t.orc"
    orcstream.blocking.write(path, [{"a": number} for number in range(1000)])
    program = (
        f"import orcstream\nf = await orcstream.open({str(path)!r})\n{lines}\nprint('rows:', f.row_count)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-m", "asyncio"],
        input=program,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "rows: 1000" in ended.stdout, ended.stderr
