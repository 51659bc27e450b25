"""Builds the sdist, the wheel from the sdist, and tests the wheel where nothing else of the project is.

Run by `make check-wheel`. Both builds are isolated; the wheel goes into a fresh virtual environment; the
tests run from an empty folder, on a copy of themselves, so that only the installed package can be imported.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The tests that need nothing but the package and the dependency group test-core.
TESTS = ("unit", "property", "corrupt", "golden")
# What a wheel must hold besides Python modules, and what it must not.
NEEDED = (
    *("orcstream/py.typed", "orcstream/codec/_rle_v2.pyx"),
    *("orcstream/inspect/style.css", "orcstream/completions/_orcstream"),
)
UNWANTED = ("tests/", "bench/", ".c", ".pyc")


def run(*command: str | Path, cwd: Path, **env: str) -> None:
    print("+", *command, flush=True)
    # Nothing of the caller's environment may lead the interpreter back to the checkout.
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    subprocess.run([str(part) for part in command], cwd=cwd, env=clean | env, check=True)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="orcstream-wheel-") as name:
        work = Path(name)
        wheel = _build(work)
        _check_contents(wheel)
        python = _install(work, wheel)
        _test(work, python)


def _build(work: Path) -> Path:
    dist = work / "dist"
    # Without a target, build makes the sdist and then the wheel from the sdist's contents.
    run(sys.executable, "-m", "build", "--outdir", dist, ROOT, cwd=work)
    (wheel,) = dist.glob("*.whl")
    return wheel


def _check_contents(wheel: Path) -> None:
    import zipfile

    names = zipfile.ZipFile(wheel).namelist()
    missing = [needed for needed in NEEDED if needed not in names]
    surplus = [entry for entry in names if entry.endswith(UNWANTED[2:]) or entry.startswith(UNWANTED[:2])]
    kernels = [entry for entry in names if entry.endswith(".so")]
    sources = [entry for entry in names if entry.endswith(".pyx")]
    if missing or surplus or len(kernels) != len(sources):
        sys.exit(f"{wheel.name}: missing {missing}, unwanted {surplus}, kernels {kernels}")


def _install(work: Path, wheel: Path) -> Path:
    environment = work / "venv"
    venv.create(environment, with_pip=True)
    python = environment / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--upgrade", "pip>=25.1", cwd=work)
    group = f"{ROOT / 'pyproject.toml'}:test-core"
    run(python, "-m", "pip", "install", "--quiet", wheel, "--group", group, cwd=work)
    return python


def _test(work: Path, python: Path) -> None:
    empty = work / "empty"
    empty.mkdir()
    for folder in ("tests", "proto"):  # some tests compare with the sources of what was generated
        shutil.copytree(ROOT / folder, empty / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", empty)  # pytest's settings
    code = "import orcstream, sys; print(orcstream.__file__); sys.exit(sys.prefix not in orcstream.__file__)"
    run(python, "-c", code, cwd=empty)
    folders = [f"tests/{folder}" for folder in TESTS if any((empty / "tests" / folder).glob("test_*.py"))]
    if not folders:
        sys.exit("there is nothing to test the wheel with")
    run(python, "-m", "pytest", *folders, cwd=empty, ORCSTREAM_WITHOUT_JAVA="1")
    run(python.with_name("orcstream"), "--help", cwd=empty)


if __name__ == "__main__":
    main()
