"""Everything that can be tried, one part after the other whatever fails, and a table of how it went.

    python scripts/test_all.py [NAME ...]

Each part is a target of the Makefile; those with lengths of their own run short here. The exit status is that
of the worst part.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

PARTS: dict[str, tuple[str, ...]] = {
    "servers": ("servers",),
    "lint": ("lint",),
    "docs": ("docs",),
    "test": ("test", "ORCSTREAM_TEST_ALL=1"),
    "test-ways": (
        "test",
        "ORCSTREAM_TEST_WAYS=swapped",
        "PYTEST_ARGS=tests/unit tests/property tests/datasets tests/encryption tests/interop",
    ),
    "test-oldest": ("test-oldest",),
    "check-wheel": ("check-wheel",),
    "check-integrations": ("check-integrations",),
    "demo": ("demo",),
    "fuzz": ("fuzz", "FUZZ_SECONDS=60"),
    "soak": ("soak", "SOAK_SECONDS=60"),
    "bench": ("bench", "ARGS=--quick"),
}


# The only Python that has wheels of the oldest versions.
OLDEST_PYTHON = "python3.11"
THIS_PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one part went; `status` is the exit status of its process, or None if it did not run."""

    name: str
    status: int | None
    seconds: float

    @property
    def word(self) -> str:
        if self.status is None:
            return f"not run: no {OLDEST_PYTHON}"
        return "passed" if self.status == 0 else f"FAILED ({self.status})"


def run_parts(
    parts: Mapping[str, Sequence[str]], run: Callable[[Sequence[str]], int | None]
) -> list[Outcome]:
    outcomes = []
    for name, targets in parts.items():
        print(f"=== {name}", flush=True)
        start_s = time.monotonic()
        status = run(targets)
        outcomes.append(Outcome(name, status, time.monotonic() - start_s))
    return outcomes


def table(outcomes: Sequence[Outcome]) -> str:
    rows = [("part", "result", "time")]
    rows += [(one.name, one.word, f"{one.seconds // 60:.0f}:{one.seconds % 60:04.1f}") for one in outcomes]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        f"{name:<{widths[0]}}  {word:<{widths[1]}}  {took:>{widths[2]}}" for name, word, took in rows
    )


def make(targets: Sequence[str]) -> int | None:
    if "test-oldest" in targets and THIS_PYTHON != OLDEST_PYTHON:
        if shutil.which(OLDEST_PYTHON) is None:
            return None
        targets = [*targets, f"PYTHON={OLDEST_PYTHON}"]
    return subprocess.run(["make", *targets], cwd=ROOT, check=False).returncode


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="tries everything, and says how it went")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(PARTS)}; all without one")
    names = parser.parse_args(arguments).names
    for name in names:
        if name not in PARTS:
            parser.error(f"no part {name!r}; there are {', '.join(PARTS)}")
    outcomes = run_parts({name: PARTS[name] for name in names or PARTS}, make)
    print(f"\n{table(outcomes)}")
    return max(one.status or 0 for one in outcomes)


if __name__ == "__main__":
    sys.exit(main())
