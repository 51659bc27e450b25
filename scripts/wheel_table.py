"""Which packages that orcstream needs have wheels, for which Python on which system: into docs/install.md.

    python scripts/wheel_table.py            # asks the package index, through pip, for each of them
    python scripts/wheel_table.py --show     # prints the table, and leaves the page as it is

Asked for are the packages with compiled parts among those that are installed here with orcstream. pip
resolves them all at once and downloads none of them; those that it finds no wheel of are left out and it is
asked again.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement

PAGE = Path(__file__).resolve().parent.parent / "docs" / "install.md"
MARKS = ("<!-- wheels: made by scripts/wheel_table.py -->\n", "<!-- end of wheels -->\n")
# What pip is told of each system; names of wheels for older systems go with those for newer ones.
PLATFORMS = {
    "Linux x86_64": [f"manylinux_2_{minor}_x86_64" for minor in (39, 34, 31, 28, 27, 26, 24, 17, 12, 5)],
    "Linux aarch64": [f"manylinux_2_{minor}_aarch64" for minor in (39, 34, 31, 28, 27, 26, 24, 17)],
    "musl x86_64": ["musllinux_1_2_x86_64", "musllinux_1_1_x86_64"],
    "musl aarch64": ["musllinux_1_2_aarch64", "musllinux_1_1_aarch64"],
    "macOS arm64": ["macosx_14_0_arm64"],
    "macOS x86_64": ["macosx_14_0_x86_64"],
    "Windows": ["win_amd64"],
}
# Version and ABI.
PYTHONS = {
    "3.11": ("3.11", "cp311"),
    "3.12": ("3.12", "cp312"),
    "3.13": ("3.13", "cp313"),
    "3.14": ("3.14", "cp314"),
    "3.13t": ("3.13", "cp313t"),
    "3.14t": ("3.14", "cp314t"),
}
MANYLINUX = {"2_17": "2014", "2_12": "2010", "2_5": "1"}  # the older names of the same
NOT_FOUND = re.compile(r"No matching distribution found for ([\w.-]+)")


@dataclass(frozen=True)
class Answer:
    """For one Python on one system: the version of each package with a wheel, and the packages without."""

    versions: dict[str, str]
    missing: tuple[str, ...]


def compiled_packages(root: str = "orcstream") -> list[str]:
    """What is installed because of `root`, and is not the same file for every system, as requirements."""
    found: dict[str, str] = {}
    waiting = [(root, "")]
    while waiting:
        name, specifier = waiting.pop()
        if name in found:
            continue
        found[name] = specifier
        waiting += [
            (_normal(wanted.name), str(wanted.specifier))
            for wanted in map(Requirement, importlib.metadata.requires(name) or ())
            if wanted.marker is None or wanted.marker.evaluate({"extra": ""})
        ]
    del found[root]
    return [f"{name}{found[name]}" for name in sorted(found) if not _is_pure(name)]


def _is_pure(name: str) -> bool:
    about = importlib.metadata.distribution(name).read_text("WHEEL") or ""
    return "Root-Is-Purelib: true" in about or "-none-any" in about


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def ask(requirements: list[str], python: str, platform: str) -> Answer:
    """What pip answers; those that it cannot have are taken out one by one."""
    wanted, missing = list(requirements), []
    version, abi = PYTHONS[python]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        command = [
            *(sys.executable, "-m", "pip", "install", "--dry-run", "--no-deps", "--ignore-installed"),
            *("--quiet", "--disable-pip-version-check", "--only-binary=:all:", "--report", str(report)),
            *("--target", folder, "--implementation", "cp", "--python-version", version, "--abi", abi),
            *(part for name in _tags(platform) for part in ("--platform", name)),
        ]
        while wanted:
            done = subprocess.run([*command, *wanted], capture_output=True, text=True, check=False)
            if done.returncode == 0:
                break
            match = NOT_FOUND.search(done.stderr)
            if match is None:
                sys.exit(done.stderr)
            gone = _normal(match[1])
            missing.append(gone)
            wanted = [one for one in wanted if not re.match(rf"{re.escape(gone)}(?![\w-])", one)]
        found = json.loads(report.read_text())["install"] if wanted else []
    return Answer(
        {_normal(one["metadata"]["name"]): one["metadata"]["version"] for one in found},
        tuple(sorted(missing)),
    )


def _tags(platform: str) -> Iterator[str]:
    for name in PLATFORMS[platform]:
        yield name
        for new, old in MANYLINUX.items():
            if name.startswith(f"manylinux_{new}_"):
                yield name.replace(f"_{new}_", f"{old}_")


def table(answers: dict[tuple[str, str], Answer], day: datetime.date) -> str:
    lines = ["| Python | " + " | ".join(PLATFORMS) + " |", "| --- |" + " --- |" * len(PLATFORMS)]
    for python in PYTHONS:
        cells = [", ".join(answers[python, platform].missing) or "all" for platform in PLATFORMS]
        lines.append(f"| {python} | " + " | ".join(cells) + " |")
    newest: dict[str, str] = {}
    for answer in answers.values():
        for name, version in answer.versions.items():
            newest[name] = max(version, newest.get(name, ""), key=_version_key)
    packages = ", ".join(f"{name} {version}" for name, version in sorted(newest.items()))
    return (
        f'As of {day:%-d %B %Y}: "all", or the packages that have no wheel there.\n\n'
        + "\n".join(lines)
        + f"\n\nLooked at, in their newest versions: {packages}.\n"
    )


def _version_key(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]


def put_into(page: str, text: str) -> str:
    before, mark, rest = page.partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    if not mark or not end:
        sys.exit(f"{PAGE.name} has no place for the table")
    return f"{before}{mark}\n{text}\n{end}{after}"


def main() -> None:
    parser = argparse.ArgumentParser(description="which packages have wheels for which system")
    parser.add_argument("--show", action="store_true", help="print the table, and change no page")
    given = parser.parse_args()
    requirements = compiled_packages()
    answers = {}
    for python in PYTHONS:
        for platform in PLATFORMS:
            answers[python, platform] = answer = ask(requirements, python, platform)
            print(f"{python} {platform}: {', '.join(answer.missing) or 'all'}", file=sys.stderr, flush=True)
    text = table(answers, datetime.datetime.now(datetime.UTC).date())
    if given.show:
        print(text)
    else:
        PAGE.write_text(put_into(PAGE.read_text(), text))


if __name__ == "__main__":
    main()
