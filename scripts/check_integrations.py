"""A newcomer's way: the wheel with one extra in a fresh environment, and what docs/integrations.md shows.

    python scripts/check_integrations.py [EXTRA ...]

Run by `make check-integrations`. Nothing is installed but what the page says; each Python block of the
extra's part runs as a program of its own, in a folder with the file trips.orc, and prints what the page says
it prints.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
import venv
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "integrations.md"
# The parts of the page, by the extras that they need.
PARTS = {"polars": "polars", "pandas": "pandas", "duckdb": "DuckDB", "dask": "dask", "ray": "Ray Data"}
BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?:\n```text\n(?P<printed>.*?)^```\n)?", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Block:
    """A program of the page, and what it prints; None where the page does not say."""

    code: str
    printed: str | None


def blocks(part: str) -> list[Block]:
    text = PAGE.read_text()
    found = re.search(rf"^## {re.escape(part)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"{PAGE.name} has no part {part}"
    return [Block(one["code"], one["printed"]) for one in BLOCK.finditer(found[1])]


def run(*command: str | Path, cwd: Path) -> str:
    """What it prints. Nothing of the caller's environment may lead its interpreter elsewhere."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=clean, check=False, capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(f"{done.stdout}{done.stderr}{command[0]} ended with {done.returncode}")
    return done.stdout


def build(work: Path) -> Path:
    # Without a target, build makes the sdist and then the wheel from the sdist's contents.
    run(sys.executable, "-m", "build", "--outdir", work / "dist", ROOT, cwd=work)
    (wheel,) = (work / "dist").glob("*.whl")
    return wheel


def check(extra: str, wheel: Path, work: Path) -> None:
    folder = work / extra
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    start_s = time.monotonic()
    run(python, "-m", "pip", "install", "--quiet", f"{wheel}[{extra}]", cwd=folder)
    print(f"{extra}: installed in {time.monotonic() - start_s:.0f} s", flush=True)
    for number, block in enumerate(blocks(PARTS[extra]), 1):
        program = folder / f"block_{number}.py"
        program.write_text(block.code)
        _write_trips(folder)
        start_s = time.monotonic()
        printed = run(python, program, cwd=folder)
        print(f"--- block {number}, {time.monotonic() - start_s:.1f} s\n{printed}", end="", flush=True)
        if block.printed is not None and printed != block.printed:
            sys.exit(f"the page says that it prints\n{block.printed}")


def _write_trips(folder: Path) -> None:
    """The table of the page, written by who runs this: the environment has only what the page says."""
    from pyarrow import orc

    from tests.generators.trips import trips

    orc.write_table(trips(), str(folder / "trips.orc"), compression="zstd")


def main() -> None:
    parser = argparse.ArgumentParser(description="runs docs/integrations.md in fresh environments")
    parser.add_argument("extras", nargs="*", metavar="EXTRA", help=f"of {', '.join(PARTS)}; all without one")
    extras = parser.parse_args().extras or list(PARTS)
    for extra in extras:
        if extra not in PARTS:
            parser.error(f"no extra {extra!r}; there are {', '.join(PARTS)}")
    with tempfile.TemporaryDirectory(prefix="orcstream-newcomer-") as name:
        work = Path(name)
        wheel = build(work)
        for extra in extras:
            check(extra, wheel, work)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
