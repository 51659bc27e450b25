"""How often a piece of Python takes the interpreter's lock, and how long it holds it, thread by thread.

`takes_of` runs the piece in a process of its own with `lock.c` preloaded, which a C compiler makes the first
time. `python -m tests.support.lock SETUP STATEMENT` shows what took the lock.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orcstream.io.loop.system import THREAD_NAME

__all__ = ["Takes", "missing", "takes_of"]

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path(__file__).with_suffix(".c")
_FLAGS = ("-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror")
# What every way to the lock goes through.
_DOORS = {
    "PyEval_AcquireThread",
    "PyEval_RestoreThread",
    "PyGILState_Ensure",
    "note",
    "pthread_cond_signal",
    "take_gil",
}
_COMPILERS = ("gcc", "cc", "clang")


@dataclass(frozen=True, slots=True)
class Takes:
    """Of all threads of one kind.

    `kind` is "caller" for the main thread, "loop" for that of `orcstream.blocking`, "worker" for those that
    calls of loops are made on, else the thread's name. `places` is empty where nobody asked for them.
    """

    kind: str
    threads: int
    takes: int
    held_s: float
    cpu_s: float
    places: dict[str, int]


def missing() -> str | None:
    """Why takes cannot be counted here; None where they can."""
    if sys.platform != "linux":
        return "takes of the lock are counted by LD_PRELOAD, which only Linux has"
    if _compiler() is None:
        return f"takes of the lock are counted by a library in C: install one of {', '.join(_COMPILERS)}"
    return None


def takes_of(setup: str, statement: str, *, places: bool = False, warm: bool = True) -> list[Takes]:
    """Run the statement as `timeit` does, once, and before that once uncounted if `warm`."""
    order = json.dumps({"setup": setup, "statement": statement, "places": places, "warm": warm})
    run = subprocess.run(
        [sys.executable, "-m", "tests.support.lock", "--counted", order],
        cwd=ROOT,
        env=os.environ | {"LD_PRELOAD": str(_library())},
        stdout=subprocess.PIPE,
        check=True,
    )
    return [Takes(**entry) for entry in json.loads(run.stdout.splitlines()[-1])]


def _compiler() -> str | None:
    return next(filter(None, map(shutil.which, _COMPILERS)), None)


def _library() -> Path:
    """Compiled once for each text of the source."""
    digest = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME", tempfile.gettempdir()))
    library = cache / f"orcstream-lock-{digest}.so"
    if not library.exists():
        compiler = _compiler()
        assert compiler, missing()
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            made = Path(folder) / library.name
            subprocess.run([compiler, *_FLAGS, "-o", str(made), str(SOURCE), "-ldl", "-lpthread"], check=True)
            made.rename(library)
    return library


# --- in the process that is counted ----------------------------------------------------------------


def _count(order: dict[str, Any]) -> list[dict[str, Any]]:
    names: dict[str, Any] = {}
    exec(order["setup"], names)
    statement = compile(order["statement"], "<counted>", "exec")
    if order["warm"]:
        exec(statement, names)
    library = ctypes.CDLL(None)
    library.lock_start(order["places"])
    exec(statement, names)
    library.lock_stop()
    kinds = {thread.native_id: _kind(thread) for thread in threading.enumerate()}
    with tempfile.NamedTemporaryFile() as report:
        assert library.lock_report(os.fsencode(report.name))
        return _by_kind(Path(report.name).read_text().splitlines(), kinds)


def _kind(thread: threading.Thread) -> str:
    if thread is threading.main_thread():
        return "caller"
    if thread.name == "orcstream loop":
        return "loop"
    return "worker" if thread.name == THREAD_NAME else thread.name


def _by_kind(report: list[str], kinds: dict[int | None, str]) -> list[dict[str, Any]]:
    found: dict[str, list[tuple[int, float, float]]] = defaultdict(list)
    places: dict[str, Counter[str]] = defaultdict(Counter)
    functions = _Functions(report)
    kind = ""
    for line in report:
        what, *fields = line.split()
        if what == "thread":
            kind = kinds.get(int(fields[0]), "ended")
            found[kind].append((int(fields[1]), float(fields[2]), float(fields[3])))
        else:
            places[kind][functions.place_of(fields[1:])] += int(fields[0])
    return [
        {
            "kind": kind,
            "threads": len(threads),
            **dict(zip(("takes", "held_s", "cpu_s"), map(sum, zip(*threads, strict=True)), strict=True)),
            "places": dict(places[kind].most_common()),
        }
        for kind, threads in found.items()
    ]


class _Functions:
    """The functions at the addresses of a report, as far as `addr2line` knows them."""

    def __init__(self, report: list[str]) -> None:
        asked = defaultdict(set)
        for line in report:
            if line.startswith("place"):
                for frame in line.split()[2:]:
                    name, _, offset = frame.rpartition(":")
                    asked[name].add(offset)
        self._names = {
            f"{file}:{offset}": name
            for file, offsets in asked.items()
            for offset, name in zip(offsets, _names(file, list(offsets)), strict=True)
        }

    def place_of(self, frames: list[str]) -> str:
        """The innermost function that is not a door, with its library."""
        for frame in frames[1:]:
            if self._names[frame] not in _DOORS:
                library = Path(frame.rpartition(":")[0]).name.partition(".")[0]
                return f"{library} {self._names[frame]}"
        return "unknown"


def _names(file: str, offsets: list[str]) -> list[str]:
    if not shutil.which("addr2line"):
        return ["?"] * len(offsets)
    run = subprocess.run(
        ["addr2line", "-f", "-e", file, *offsets], stdout=subprocess.PIPE, text=True, check=True
    )
    # A stripped module of Python still has the name of the function that makes it, and no other.
    return ["?" if name.startswith("PyInit_") else name for name in run.stdout.splitlines()[::2]]


def _show(setup: str, statement: str) -> None:
    for takes in takes_of(setup, statement, places=True):
        print(
            f"{takes.kind}: {takes.threads} thread(s), {takes.takes:,} takes, "
            f"held for {takes.held_s:.4f} s of {takes.cpu_s:.4f} s of CPU"
        )
        for place, count in takes.places.items():
            print(f"    {count:8,}  {place}")


if __name__ == "__main__":
    if sys.argv[1] == "--counted":
        print(json.dumps(_count(json.loads(sys.argv[2]))))
    else:
        _show(*sys.argv[1:])
