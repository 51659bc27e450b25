"""The tables of docs/tuning.md: `python -m bench.tuning [SECTION ...]` measures them and writes them there.

Each section runs in a process of its own. Settings of one table are measured in turns, so that a
disturbance strikes all, and stand beside the ratio to the default. Knows the page and its marks; the
sections know what is measured.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.tuning_tables import Table

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "tuning.md"
PLACE = re.compile(r"<!-- measured: ([\w-]+) -->\n.*?<!-- end -->", re.DOTALL)
LIBRARIES = ("orcstream", "numpy", "zstandard", "deflate", "cramjam", "s3fs")


def _local(*, quick: bool) -> list[Table]:
    from bench import tuning_reading

    return tuning_reading.measure_local(quick=quick)


def _memory(*, quick: bool) -> list[Table]:
    from bench import tuning_reading

    return tuning_reading.measure_memory(quick=quick)


def _distant(*, quick: bool) -> list[Table]:
    from bench import tuning_reading

    return tuning_reading.measure_distant(quick=quick)


def _writing(*, quick: bool) -> list[Table]:
    from bench import tuning_writing

    return tuning_writing.measure_local(quick=quick)


def _upload(*, quick: bool) -> list[Table]:
    from bench import tuning_writing

    return tuning_writing.measure_upload(quick=quick)


SECTIONS: dict[str, Callable[..., list[Table]]] = {
    "local": _local,
    "memory": _memory,
    "distant": _distant,
    "writing": _writing,
    "upload": _upload,
}


def main() -> int:
    arguments = _parse()
    if arguments.worker:
        tables = SECTIONS[arguments.worker](quick=arguments.quick)
        print(json.dumps([table.as_dict() for table in tables]))
        return 0
    tables = [_machine()]
    for section in arguments.sections or SECTIONS:
        print(f"measuring {section} ...", file=sys.stderr, flush=True)
        tables += _in_own_process(section, quick=arguments.quick)
    if arguments.quick:
        print("\n\n".join(table.markdown() for table in tables))
    else:
        PAGE.write_text(put_in(PAGE.read_text(), tables))
    return 0


def put_in(page: str, tables: Sequence[Table]) -> str:
    """The page with these tables in their places; the others stay. KeyError where there is no such place."""
    by_name = {table.name: table for table in tables}
    for name in by_name.keys() - {found[1] for found in PLACE.finditer(page)}:
        raise KeyError(name)

    def replaced(found: re.Match[str]) -> str:
        table = by_name.get(found[1])
        return (
            found[0] if table is None else f"<!-- measured: {found[1]} -->\n{table.markdown()}\n<!-- end -->"
        )

    return PLACE.sub(replaced, page)


def _machine() -> Table:
    """When, where and with what; one sentence, as a table of one cell."""
    information = Path("/proc/cpuinfo").read_text()
    model = re.search(r"^model name\s*: (.*)$", information, re.MULTILINE)
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in LIBRARIES)
    today = f"{datetime.datetime.now(datetime.UTC):%d %B %Y}"
    cores = f"{len(os.sched_getaffinity(0))} cores ({model[1] if model else platform.machine()})"
    python = f"Python {platform.python_version()}"
    load = f"load {os.getloadavg()[0]:.1f} when it began"
    sentence = f"Measured on {today} with {cores}, {load}; {python}, {versions}."
    return Table("machine", (), [(sentence,)])


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.tuning", description="the tables of docs/tuning.md"
    )
    parser.add_argument(
        "sections", nargs="*", metavar="SECTION", help=f"of {', '.join(SECTIONS)}; all without one"
    )
    parser.add_argument("--quick", action="store_true", help="fewer rounds, and print instead of writing")
    parser.add_argument("--worker", choices=SECTIONS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    for section in arguments.sections:
        if section not in SECTIONS:
            parser.error(f"no section {section!r}; there are {', '.join(SECTIONS)}")
    return arguments


def _in_own_process(section: str, *, quick: bool) -> list[Table]:
    command = [sys.executable, "-m", "bench.tuning", "--worker", section, *(["--quick"] if quick else [])]
    run = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=False)
    if run.returncode:
        sys.exit(f"section {section} failed")
    # Servers may print while they end; the tables are the line that is JSON.
    (line,) = (line for line in run.stdout.decode().splitlines() if line.startswith("["))
    return [Table.of(entry) for entry in json.loads(line)]


if __name__ == "__main__":
    sys.exit(main())
