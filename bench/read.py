"""All figures, measured side by side: `python -m bench.read [SECTION ...] [--quick] [--check]`.

Each section runs in a process of its own, so that no section's imports, memory or choice of core reach the
next. What is measured and against which bounds is in bench/README.md; absolute times mean nothing here,
ratios do.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from bench.report import Figure, markdown, table

ROOT = Path(__file__).resolve().parent.parent


def _local(*, quick: bool) -> list[Figure]:
    from bench import local

    return local.measure(quick=quick)


def _beside(*, quick: bool) -> list[Figure]:
    from bench import beside

    return beside.measure(quick=quick)


def _distant(*, quick: bool) -> list[Figure]:
    from bench import distant

    return distant.measure(quick=quick)


def _memory(*, quick: bool) -> list[Figure]:
    from bench import memory

    return memory.measure(quick=quick)


def _opens(*, quick: bool) -> list[Figure]:
    from bench import small

    return small.measure_opens(quick=quick)


def _tails(*, quick: bool) -> list[Figure]:
    from bench import tails

    return tails.measure(quick=quick)


def _stores(*, quick: bool) -> list[Figure]:
    from bench import stores

    return stores.measure(quick=quick)


def _import(*, quick: bool) -> list[Figure]:
    from bench import small

    return small.measure_import(quick=quick)


def _select(*, quick: bool) -> list[Figure]:
    from bench import select

    return select.measure(quick=quick)


def _write(*, quick: bool) -> list[Figure]:
    from bench import write

    return write.measure(quick=quick)


def _upload(*, quick: bool) -> list[Figure]:
    from bench import upload

    return upload.measure(quick=quick)


def _encrypted(*, quick: bool) -> list[Figure]:
    from bench import encrypted

    return encrypted.measure(quick=quick)


def _acid(*, quick: bool) -> list[Figure]:
    from bench import acid

    return acid.measure(quick=quick)


def _spark(*, quick: bool) -> list[Figure]:
    from bench import spark

    return spark.measure(quick=quick)


def _spark_distant(*, quick: bool) -> list[Figure]:
    from bench import spark_distant

    return spark_distant.measure(quick=quick)


def _integrations(*, quick: bool) -> list[Figure]:
    from bench import integrations

    return integrations.measure(quick=quick)


def _simulate(*, quick: bool) -> list[Figure]:  # noqa: ARG001  # it takes no time
    from bench import simulate

    return simulate.figures()


SECTIONS: dict[str, Callable[..., list[Figure]]] = {
    "local": _local,
    "beside": _beside,
    "distant": _distant,
    "memory": _memory,
    "opens": _opens,
    "tails": _tails,
    "stores": _stores,
    "import": _import,
    "select": _select,
    "simulate": _simulate,
    "write": _write,
    "upload": _upload,
    "encrypted": _encrypted,
    "acid": _acid,
    "integrations": _integrations,
    "spark": _spark,
    "spark-distant": _spark_distant,
}


def main() -> int:
    arguments = _parse()
    if arguments.worker:
        figures = SECTIONS[arguments.worker](quick=arguments.quick)
        print(json.dumps([figure.as_dict() for figure in figures]))
        return 0
    figures = []
    for section in arguments.sections or SECTIONS:
        print(f"measuring {section} ...", file=sys.stderr, flush=True)
        figures += _in_own_process(section, quick=arguments.quick)
    print(markdown(figures) if arguments.markdown else table(figures))
    missed = [figure for figure in figures if figure.missed]
    if missed:
        print(f"{len(missed)} of {len(figures)} figures miss their floor", file=sys.stderr)
    return 1 if missed and arguments.check else 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.read", description="the reader's figures")
    parser.add_argument(
        "sections", nargs="*", metavar="SECTION", help=f"of {', '.join(SECTIONS)}; all without one"
    )
    parser.add_argument(
        "--quick", action="store_true", help="smaller files, fewer rounds: to try, not to quote"
    )
    parser.add_argument("--check", action="store_true", help="exit with 1 when a floor is missed")
    parser.add_argument("--markdown", action="store_true", help="print the table for bench/README.md")
    parser.add_argument("--worker", choices=SECTIONS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    for section in arguments.sections:
        if section not in SECTIONS:
            parser.error(f"no section {section!r}; there are {', '.join(SECTIONS)}")
    return arguments


def _in_own_process(section: str, *, quick: bool) -> list[Figure]:
    command = [sys.executable, "-m", "bench.read", "--worker", section, *(["--quick"] if quick else [])]
    # Modules that every process compiles anew would be most of what a fresh one is measured for.
    surroundings = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    run = subprocess.run(command, cwd=ROOT, env=surroundings, stdout=subprocess.PIPE, check=False)
    if run.returncode:
        sys.exit(f"section {section} failed")
    # Servers may print while they end; the figures are the line that is JSON.
    (line,) = (line for line in run.stdout.decode().splitlines() if line.startswith("["))
    return [Figure(**entry) for entry in json.loads(line)]


if __name__ == "__main__":
    sys.exit(main())
