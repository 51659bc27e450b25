"""The parser of the command line: calls that cannot be end in one line, which says what to do instead.

Knows argparse. Must not know any command.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Awaitable, Callable, Iterable
from difflib import get_close_matches
from typing import Any, NoReturn

USAGE_STATUS = 2

_CHOICE = re.compile(
    r"argument (?P<what>\S+): invalid choice: '?(?P<given>[^']*)'? \(choose from (?P<choices>.*)\)"
)


class Parser(argparse.ArgumentParser):
    """Takes options by their whole names, so that a new one breaks no script."""

    def __init__(self, **options: Any) -> None:
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        """One line, unless it points to a place in what was given."""
        choice = _CHOICE.match(message)
        if choice is not None:
            message = _not_a_choice(*choice.groups())
        if "\n" not in message:
            message += f" (see {self.prog} --help)"
        self.exit(USAGE_STATUS, f"orcstream: {message}\n")

    def parse_known_args(
        self, args: Iterable[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """What a command does not know is its own mistake, and its own options are near it."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            name = unknown[0].partition("=")[0]
            if name.startswith("-"):
                self.error(f"there is no option {name}{_nearest(name, self._option_string_actions)}")
            self.error(f"nothing more was expected than what stands before {unknown[0]!r}")
        return found, unknown


def _not_a_choice(what: str, given: str, listed: str) -> str:
    choices = re.findall(r"[\w-]+", listed)
    near = _nearest(given, choices)
    if what.isupper():
        return f"there is no command {given!r}{near}"
    return f"{what} takes {', '.join(choices)} and not {given!r}{near}"


def _nearest(given: str, known: Iterable[str]) -> str:
    found = get_close_matches(given, list(known), 2)
    return f"; did you mean {' or '.join(found)}?" if found else ""


def add_command(
    commands: Any,
    name: str,
    main: Callable[[argparse.Namespace], Awaitable[int | None]] | None,
    purpose: str,
    description: str,
    epilog: str | None = None,
) -> Parser:
    """A command; `purpose` is what the list of all says of it. Without `main` it has some of its own."""
    command: Parser = commands.add_parser(name, help=purpose, description=description, epilog=epilog)
    command.set_defaults(main=main)
    return command
