"""Builds the sdist, the wheel from the sdist, and tests the wheel where nothing else of the project is.

Run by `make check-wheel`. Both builds are isolated. The wheel is tried in a fresh virtual environment with
only what it needs, and tested in one with the peers of the tests, from an empty folder, on a copy of the
tests, so that only the installed package can be imported. `python scripts/check_wheel.py FOLDER...` runs the
tests of these folders alone.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The tests that need nothing but the package and the dependency group test-core.
TESTS = ("unit", "property", "corrupt", "golden")
# What a wheel must hold besides Python modules, and what it must not.
NEEDED = (
    "orcstream/py.typed",
    "orcstream/codec/streams/_encode_rle_v2.pyi",
    "orcstream/inspect/style.css",
    "orcstream/completions/_orcstream",
    "orcstream/acid/transactions/hive_metastore.thrift",
)
UNWANTED_FOLDERS = ("tests/", "bench/", "examples/", "scripts/", "docs/")
UNWANTED_SUFFIXES = (".c", ".pyc", ".pyx", ".pxd")
# What a checkout has, and nobody needs who builds the package: settings of git and of services.
NOT_IN_SDIST = (".ci/", ".git")


def run(*command: str | Path, cwd: Path, **env: str) -> None:
    print("+", *command, flush=True)
    # Nothing of the caller's environment may lead the interpreter back to the checkout.
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    subprocess.run([str(part) for part in command], cwd=cwd, env=clean | env, check=True)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="orcstream-wheel-") as name:
        work = Path(name)
        sdist, wheel = _build(work)
        _check_sdist(sdist)
        _check_contents(wheel)
        _try_alone(work, wheel)
        python = _install(work, wheel)
        _test(work, python)


def _build(work: Path) -> tuple[Path, Path]:
    dist = work / "dist"
    # Without a target, build makes the sdist and then the wheel from the sdist's contents.
    run(sys.executable, "-m", "build", "--outdir", dist, ROOT, cwd=work)
    (sdist,), (wheel,) = dist.glob("*.tar.gz"), dist.glob("*.whl")
    return sdist, wheel


def _check_sdist(sdist: Path) -> None:
    """Everything that git knows is there, where this is a checkout."""
    if not (ROOT / ".git").exists():
        return
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    known = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    missing = [
        one for one in known.stdout.splitlines() if one not in names and not one.startswith(NOT_IN_SDIST)
    ]
    if missing:
        sys.exit(f"{sdist.name}: MANIFEST.in leaves out {missing}")


def _check_contents(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    missing = [needed for needed in NEEDED if needed not in names]
    surplus = [one for one in names if one.endswith(UNWANTED_SUFFIXES) or one.startswith(UNWANTED_FOLDERS)]
    kernels = [entry for entry in names if entry.endswith(".so")]
    sources = list((ROOT / "orcstream").rglob("*.pyx"))
    if missing or surplus or len(kernels) != len(sources) + 1:  # and what they share, which is generated
        sys.exit(f"{wheel.name}: missing {missing}, unwanted {surplus}, kernels {kernels}")


def _try_alone(work: Path, wheel: Path) -> None:
    """With what the package itself asks for, and no extra: how long that takes, and whether it works."""
    environment = work / "alone"
    venv.create(environment, with_pip=True)
    python = environment / "bin" / "python"
    before, start_s = _size_bytes(environment), time.monotonic()
    run(python, "-m", "pip", "install", "--quiet", wheel, cwd=work)
    took_s, size_bytes = time.monotonic() - start_s, _size_bytes(environment) - before
    print(
        f"{wheel.stat().st_size / 1e6:.1f} MB, installed in {took_s:.0f} s, {size_bytes / 1e6:.0f} MB in all"
    )
    for program in ("try_wheel.py", "try_extras.py"):
        run(python, ROOT / "scripts" / program, cwd=work)


def _size_bytes(folder: Path) -> int:
    return sum(one.stat().st_size for one in folder.rglob("*") if one.is_file())


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
    for folder in ("tests", "proto", "scripts"):  # some tests compare with the sources of what was generated
        shutil.copytree(ROOT / folder, empty / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", empty)  # pytest's settings
    code = "import orcstream, sys; print(orcstream.__file__); sys.exit(sys.prefix not in orcstream.__file__)"
    run(python, "-c", code, cwd=empty)
    chosen = sys.argv[1:] or TESTS
    folders = [f"tests/{folder}" for folder in chosen if any((empty / "tests" / folder).glob("test_*.py"))]
    if not folders:
        sys.exit("there is nothing to test the wheel with")
    run(python, "-m", "pytest", *folders, cwd=empty, ORCSTREAM_WITHOUT_JAVA="1")
    run(python.with_name("orcstream"), "--help", cwd=empty)


if __name__ == "__main__":
    main()
