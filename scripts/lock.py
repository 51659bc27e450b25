"""Writes the files in requirements/: the exact versions that tests, lint and documentation run with.

    make lock

`test.txt`, `build.txt` and `docs.txt` hold the newest versions that pyproject.toml allows, with hashes, for
every supported Python and system. `oldest.txt` holds the least versions that pyproject.toml declares for the
package and its extras, on the oldest supported Python; its test tools are the newest that work with them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "requirements"
HEADER = "# Made by `make lock` from pyproject.toml; do not edit.\n"
OLDEST_PYTHON = "3.11"
# Its libraries are built from source, against Kerberos' headers.
NOT_INSTALLED = {"kerberos"}
# A version without wheels for the oldest Python cannot be a declared minimum. These never have any.
WHEELS = ("--only-binary", ":all:", *(f"--no-binary={name}" for name in ("gssapi", "krb5", "pyspark")))


def compiled(*arguments: str | Path, project: bool = True) -> str:
    """Return what uv resolves; without `project`, leave out the package's own dependencies."""
    # Folders of wheels that this machine knows would hide what others lack.
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("UV_", "PIP_"))}
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-header"]
    done = subprocess.run(
        [
            *command,
            *(["pyproject.toml"] if project else []),
            "--python-version",
            OLDEST_PYTHON,
            *map(str, arguments),
        ],
        cwd=ROOT,
        env=clean,
        check=False,
        stdout=subprocess.PIPE,
        text=True,
    )
    if done.returncode:
        sys.exit(done.returncode)
    return done.stdout


def groups(*names: str) -> list[str]:
    return [part for name in names for part in ("--group", name)]


def lock_newest() -> None:
    """Write the locks of tests, build and documentation, which agree with each other."""
    options = ("--universal", "--generate-hashes", "--no-annotate")
    test = FOLDER / "test.txt"
    test.write_text(HEADER + compiled(*options, *groups("test", "lint", "build")))
    for name in ("build", "docs"):
        text = compiled(*options, *groups(name), "--constraint", test, project=False)
        (FOLDER / f"{name}.txt").write_text(HEADER + text)


def lock_oldest() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        extras = sorted(tomllib.load(file)["project"]["optional-dependencies"])
    with tempfile.TemporaryDirectory() as name:
        least = Path(name, "least.txt")
        plain = ("--no-annotate", "--all-extras", *WHEELS)
        direct = {
            line.partition("==")[0]
            for line in compiled(*plain, "--resolution", "lowest", "--no-deps").splitlines()
        }
        found = compiled(*plain, "--resolution", "lowest-direct").splitlines()
        least.write_text("\n".join(line for line in found if line.partition("==")[0] in direct) + "\n")
        chosen = [part for extra in extras if extra not in NOT_INSTALLED for part in ("--extra", extra)]
        text = compiled(
            "--generate-hashes", "--no-annotate", *WHEELS, *chosen, *groups("test"), "--constraint", least
        )
    (FOLDER / "oldest.txt").write_text(HEADER + text)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    lock_newest()
    lock_oldest()
