"""Makes of the command line's parser what others read: scripts for shells, and the tables of its page.

    python -m scripts.command_line

`completions()` are the scripts of `orcstream/completions`, `tables()` what stands in docs/command-line.md
between ``<!-- options: COMMAND -->`` and ``<!-- end -->``. A test compares both with what is checked in.
"""
# ruff: noqa: SLF001 - argparse has no public way to ask a parser what it takes

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import shtab

from orcstream.cli.main import SHELLS, make_parser

__all__ = ["commands", "completions", "main", "page", "tables"]

ROOT = Path(__file__).parents[1]
COMPLETIONS = ROOT / "orcstream" / "completions"
PAGE = ROOT / "docs" / "command-line.md"
MADE = "# Made by scripts/command_line.py: change the parser instead.\n"
# What is written with these is a path, or may be.
FILES = ("URL", "SOURCE", "TARGET", "PAGE", "FOLDER", "PATH")
PART = re.compile(r"<!-- options: (?P<command>[\w -]+) -->\n.*?<!-- end -->\n", re.DOTALL)


def commands(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Every command by its name, those of a group after the group; the first is the program itself."""
    yield parser.prog, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from commands(command)


def _purposes(parser: argparse.ArgumentParser) -> dict[str, str]:
    """What the list of commands says of each."""
    return {
        choice.dest: choice.help or ""
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for choice in action._choices_actions
    }


def _shown_actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [
        action
        for action in parser._actions
        if not isinstance(action, argparse._SubParsersAction) and action.help != argparse.SUPPRESS
    ]


# --- shells ------------------------------------------------------------------------------------------------


def completions() -> dict[str, str]:
    """The scripts, by the names of their files."""
    parser = make_parser()
    for _, command in commands(parser):
        for action in command._actions:
            if action.metavar in FILES:
                action.complete = shtab.FILE  # type: ignore[attr-defined]  # it is for shtab to find
    made = {shell: shtab.complete(parser, shell) for shell in ("bash", "zsh")}
    made["fish"] = _fish(parser)
    return {SHELLS[shell]: _marked(text) for shell, text in made.items()}


def _marked(text: str) -> str:
    """The note follows a first line that shells read."""
    text = "\n".join(line.rstrip() for line in text.strip().splitlines()) + "\n"
    first, _, rest = text.partition("\n")
    return f"{first}\n{MADE}{rest}" if first.startswith("#") else MADE + text


def _fish(parser: argparse.ArgumentParser) -> str:
    """One `complete` for each command, and one for each option, under all commands that take it."""
    lines = ["complete -c orcstream -f"]
    groups = [name.split()[1] for name, command in commands(parser) if " " in name and _purposes(command)]
    takers: dict[tuple[str, str], list[str]] = {}
    for name, command in commands(parser):
        path, purposes = name.split()[1:], _purposes(command)
        if purposes:
            here = f"{_fish_seen(path)}; and not {_fish_seen(purposes)}" if path else "__fish_use_subcommand"
            lines += [
                f"complete -c orcstream -n {_fish_text(here)} -a {one} -d {_fish_text(purpose)}"
                for one, purpose in purposes.items()
            ]
        else:
            # A command of a group may be called as one that is in none.
            group = _fish_seen(path[:-1]) if len(path) > 1 else f"not {_fish_seen(groups)}"
            for action in _shown_actions(command):
                takers.setdefault((group, _fish_option(action)), []).append(path[-1])
    lines += [
        f"complete -c orcstream -n {_fish_text(f'{group}; and {_fish_seen(names)}')} {option}"
        for (group, option), names in takers.items()
    ]
    return "\n".join(lines) + "\n"


def _fish_seen(names: Iterable[str]) -> str:
    return f"__fish_seen_subcommand_from {' '.join(names)}"


def _fish_option(action: argparse.Action) -> str:
    words = [
        f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
        for option in action.option_strings
    ]
    if action.choices:
        words.append(
            f"-{'x' if action.option_strings else 'f'} -a {_fish_text(' '.join(map(str, action.choices)))}"
        )
    elif action.metavar in FILES:
        words.append("-r -F" if action.option_strings else "-F")
    elif action.nargs != 0 and action.option_strings:
        words.append("-x")
    return " ".join([*words, f"-d {_fish_text(_help(action))}"])


def _fish_text(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


# --- the page ----------------------------------------------------------------------------------------------


def tables() -> dict[str, str]:
    """The table of options of each command that has any, by its name."""
    found = {}
    for name, command in commands(make_parser()):
        rows = [
            f"| {_spelled(action)} | {_help(action).replace('|', chr(92) + '|')} |"
            for action in _shown_actions(command)
            if action.dest != "help"
        ]
        if rows and name != "orcstream":
            found[name.partition(" ")[2]] = "\n".join(["| | |", "| --- | --- |", *rows]) + "\n"
    return found


def _spelled(action: argparse.Action) -> str:
    """As the help has it."""
    taken = str(action.metavar or (f"{{{','.join(map(str, action.choices))}}}" if action.choices else ""))
    if not action.option_strings:
        return f"`{taken or action.dest}`{' …' if action.nargs == '+' else ''}"
    names = (
        f"`{option}`" if action.nargs == 0 else f"`{option} {taken}`" for option in action.option_strings
    )
    return ", ".join(names) + (" (needed)" if action.required else "")


def _help(action: argparse.Action) -> str:
    return " ".join((action.help or "").replace("%%", "%").split())


def page(text: str) -> str:
    """The page with its tables as they have to be."""
    known = tables()

    def part(found: re.Match[str]) -> str:
        return f"<!-- options: {found['command']} -->\n{known[found['command']]}<!-- end -->\n"

    return PART.sub(part, text)


def main() -> None:
    COMPLETIONS.mkdir(exist_ok=True)
    for name, text in completions().items():
        (COMPLETIONS / name).write_text(text)
    PAGE.write_text(page(PAGE.read_text()))


if __name__ == "__main__":
    main()
