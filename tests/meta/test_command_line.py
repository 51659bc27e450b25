"""The page of the command line and the scripts for shells say what the parser does; shells take the scripts.

Real shells complete here: bash, and zsh and fish where they are installed, in PATH or in .cache.
"""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orcstream.cli.main import SHELLS, main, make_parser
from scripts.command_line import COMPLETIONS, PAGE, commands, completions, page, tables
from tests.support.needs import CACHE, not_here

AGAIN = "run `python -m scripts.command_line`"
# What is typed up to the key, and what comes of it.
COMPLETED = [
    ("orcstream ca", {"cat"}),
    ("orcstream acid ", {"show", "compact", "clean"}),
    ("orcstream cat --colu", {"--columns"}),
    ("orcstream cat --format ", {"json", "csv"}),
    ("orcstream acid compact --kind m", {"minor", "major"}),
    ("orcstream job comp", {"compact", "compact-acid"}),
    ("orcstream completion ", {"bash", "zsh", "fish"}),
    ("orcstream cat tri", {"trips.orc"}),
    ("orcstream inspect -o tri", {"trips.orc"}),
]


# --- what is made of the parser ----------------------------------------------------------------------------


def test_scripts_are_those_of_the_parser() -> None:
    made = completions()
    assert {path.name for path in COMPLETIONS.iterdir()} == set(made) == set(SHELLS.values())
    for name, text in made.items():
        assert (COMPLETIONS / name).read_text() == text, AGAIN


def test_the_page_is_that_of_the_parser() -> None:
    text = PAGE.read_text()
    assert page(text) == text, AGAIN
    parts = re.findall(r"<!-- options: ([\w -]+) -->", text)
    assert sorted(parts) == sorted(tables())


def test_every_command_says_what_it_is_for() -> None:
    for name, command in commands(make_parser()):
        assert command.description, name
        for action in command._actions:
            assert action.help or action.dest == "==SUPPRESS==" or action.choices, (name, action.dest)


def test_the_same_word_is_the_same_thing() -> None:
    """An option of several commands takes the same, spelled the same."""
    found: dict[str, set[object]] = {}
    for _, command in commands(make_parser()):
        for action in command._actions:
            for option in action.option_strings:
                found.setdefault(option, set()).add((action.metavar, type(action).__name__, action.dest))
    differing = {option: ways for option, ways in found.items() if len(ways) > 1}
    # Spark reads formats of which we do not know the names.
    assert set(differing) <= {"--from"}


def test_everything_that_reports_does_so_in_json() -> None:
    without = {
        name
        for name, command in commands(make_parser())
        if command.get_default("main") is not None and "--json" not in command._option_string_actions
    }
    assert without == {"orcstream cat", "orcstream completion"}


@pytest.mark.parametrize("command", ["meta", "stripes", "index", "stats", "plan", "keys", "count", "verify"])
def test_the_page_lists_the_keys(command: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    import pyarrow as pa
    from pyarrow import orc

    path = tmp_path / "a.orc"
    orc.write_table(pa.table({"a": [1]}), path)
    more = {"index": ["--columns", "a"], "stats": ["--stripes", ":"], "stripes": ["--encodings"]}
    assert main([command, str(path), "--json", *more.get(command, [])]) == 0
    (row,) = re.findall(rf"^\| `{command}` \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    named = set(re.findall(r"`(\w+)`", row))
    free = {"user_metadata", "statistics", "positions", "bloom_filter_bytes", "ranges"}
    assert _keys(json.loads(capfd.readouterr().out), free) <= named


def _keys(value: Any, free: set[str]) -> set[str]:
    """All keys, but those below keys whose own names are the data's."""
    if isinstance(value, list):
        return set().union(*(_keys(one, free) for one in value))
    if isinstance(value, dict):
        below = (_keys(one, free) for key, one in value.items() if key not in free)
        return set(value).union(*below)
    return set()


# --- shells ------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "trips.orc").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _shell(name: str) -> tuple[str, dict[str, str]]:
    """The program, and the environment that it needs."""
    environment = {"PATH": os.defpath, "TERM": "dumb"}
    found = shutil.which(name)
    if found is None:
        unpacked = CACHE / name
        found = shutil.which(name, path=f"{unpacked}/usr/bin{os.pathsep}{unpacked}/bin")
        environment["LD_LIBRARY_PATH"] = ":".join(map(str, unpacked.glob("usr/lib/*-linux-gnu")))
    if found is None:
        not_here(f"{name} is not installed: `make servers` fetches it, or say `apt install {name}`")
    return found, environment


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_prints_the_script(shell: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    assert capfd.readouterr().out == (COMPLETIONS / SHELLS[shell]).read_text()


@pytest.mark.parametrize(("typed", "expected"), COMPLETED)
def test_bash(folder: Path, typed: str, expected: set[str]) -> None:
    program, environment = _shell("bash")
    words = " ".join(f"'{word}'" for word in typed.split(" "))
    script = f"""source "$1"
complete -p orcstream >&2
COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
"$(complete -p orcstream | sed 's/.*-F \\([^ ]*\\) .*/\\1/')"
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    run = subprocess.run(
        [program, "--norc", "--noprofile", "-c", script, "bash", str(COMPLETIONS / SHELLS["bash"])],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    assert set(run.stdout.split()) == expected


def test_fish(folder: Path) -> None:
    program, environment = _shell("fish")
    environment |= {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder / "configuration")}
    functions = Path(program).parents[1] / "share" / "fish" / "functions"
    asked = "\n".join(f"echo '==='; complete -C '{typed}'" for typed, _ in COMPLETED)
    script = f"set fish_function_path {functions}\nsource {COMPLETIONS / SHELLS['fish']}\n{asked}"
    run = subprocess.run(
        [program, "--no-config", "-c", script],
        env=environment,
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    )
    assert run.stderr == ""
    answers = [
        {line.partition("\t")[0] for line in part.splitlines()} - {""} for part in run.stdout.split("===")[1:]
    ]
    assert answers == [expected for _, expected in COMPLETED]


@pytest.fixture
def zsh(folder: Path) -> Iterator[int]:
    """A terminal in which zsh has loaded the script."""
    program, environment = _shell("zsh")
    environment |= {"HOME": str(folder), "ZDOTDIR": str(folder)}
    process, terminal = pty.fork()
    if process == 0:
        os.execve(program, ["zsh", "-f", "-i"], environment)
    root = Path(program).resolve().parents[1]
    root = root if (root / "usr").exists() else root.parent
    modules = " ".join(map(str, root.glob("usr/lib/*/zsh/*")))
    functions = f"{root}/usr/share/zsh/functions"
    lines = (
        *((f"module_path=({modules})",) if modules else ()),
        f"fpath=({COMPLETIONS} $fpath {functions}/**/*(N/) {functions}(N))",
        "autoload -Uz compinit; compinit -u -D",
        "PS1='%# '; LISTMAX=99; setopt no_always_last_prompt no_list_ambiguous",
        "print loa''ded",
    )
    try:
        os.write(terminal, ("\n".join(lines) + "\n").encode())
        assert "loaded\r" in _seen(terminal, "loaded\r")
        yield terminal
    finally:
        os.close(terminal)
        os.waitpid(process, 0)


def _seen(terminal: int, *wanted: str) -> str:
    """What is shown until all of this is, or for a minute."""
    found, deadline_s = "", time.monotonic() + 60
    while not all(one in found for one in wanted) and time.monotonic() < deadline_s:
        if select.select([terminal], [], [], 0.2)[0]:
            found += os.read(terminal, 1 << 16).decode(errors="replace")
    return found


def test_zsh(zsh: int) -> None:
    for typed, expected in COMPLETED:
        os.write(zsh, f"{typed}\t".encode())
        before, _, begun = typed.rpartition(" ")
        # One answer is written out, several are listed.
        wanted = expected if len(expected) > 1 else {f"{before} {one}" for one in expected}
        shown = _seen(zsh, *wanted)
        assert all(one in shown for one in wanted), begun
        os.write(zsh, b"\x15print do''ne\n")
        assert "done\r" in _seen(zsh, "done\r")
