"""The parser of the command line, and the arguments that several commands take, under one name each.

Knows argparse and the words of the command line. Must not know what is done with them. Contract: calls that
cannot be end in one line, which says what to do instead.
"""

from __future__ import annotations

import argparse
import inspect
import json
import re
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any, NoReturn, TypeVar

import orcstream

T = TypeVar("T")
# A group takes arguments as a parser does; typing's name for what both are is no public one.
Options = argparse._ActionsContainer  # noqa: SLF001

USAGE_STATUS = 2
DURATION_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}
WHERE_HELP = """--where takes what follows WHERE in SQL, as far as it asks about one column at a time:
  amount > 100 and city in ('Oslo', 'Rome') and not flag
  name starts with 'A' or stop.name is null or `odd name` between -1 and 1.5
  day = date '2020-01-31' and ts < timestamp '2020-01-31 12:00:00' and at < timestamp '2020-01-31 12:00:00Z'
A comparison with a null is neither true nor false, and rows are kept where the whole is true.

--schema reads columns as other types, such as 'struct<id:string,amount:decimal(10,2)>': columns that it
leaves out are not read, those that the file lacks are null, and so are values that do not fit."""
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
# Counts of rows have 64 bits in the format, and one of them is a sign in practice.
_COUNT_DIGITS = 18
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


# --- options -----------------------------------------------------------------------------------------------


def add_options(command: Options, *names: str, **changed: Any) -> None:
    """The arguments of these names; what is `changed` holds for each of them."""
    for name in names:
        command.add_argument(name, **{**_SHARED[name], **changed})


def add_flag(command: Options, name: str, purpose: str, **more: Any) -> None:
    """An option without a value."""
    command.add_argument(name, help=purpose, **{"action": "store_true", **more})


def add_pairs(command: Options, name: str, dest: str, purpose: str) -> None:
    """An option that takes ``KEY=VALUE`` as often as it is given."""
    given: Any = {"action": "append", "type": _pair, "default": [], "metavar": "KEY=VALUE"}
    command.add_argument(name, dest=dest, help=purpose, **given)


def given_to(function: Callable[..., object], options: argparse.Namespace, /, **more: Any) -> dict[str, Any]:
    """The options that a function of the package takes by the same names, and more, which comes first."""
    names = inspect.signature(function).parameters
    given = {name: value for name, value in vars(options).items() if name in names and value is not None}
    return {**given, **more}


# --- how they are spelled ----------------------------------------------------------------------------------


def given_url(text: str) -> str:
    """A path or a URL, and not the nothing that a variable of a shell left, which is the folder one is in."""
    if not text:
        raise argparse.ArgumentTypeError("the empty text is no path and no URL")
    return text


def byte_size(text: str) -> int:
    """Bytes; ``64m``, ``64MB`` and ``64MiB`` are 64 << 20."""
    found = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,6})?) ?([kmgt]?)(?:i?b)?", text.strip().lower())
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is no size; write 64MB or 1.5GB (units of 1024)")
    return int(float(found[1]) * _UNITS[found[2]])


def _pair(text: str) -> tuple[str, str]:
    """``KEY=VALUE``."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is no KEY=VALUE")
    return key, value


def duration_s(text: str) -> int:
    """Seconds; ``90s``, ``15m``, ``2h``, ``7d``."""
    found = re.fullmatch(r"([0-9]{1,18})([smhd])", text, re.ASCII)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration; write 90s, 15m, 2h or 7d")
    return int(found[1]) * DURATION_S[found[2]]


def row_count(text: str) -> int:
    """A count of rows."""
    return _count(text, "rows")


def _count(text: str, things: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > _COUNT_DIGITS:
        raise argparse.ArgumentTypeError(f"{text!r} is no count of {things}")
    return int(text)


def _numbers_of(things: str) -> Callable[[str], range]:
    """``1000:2000``, ``1000:``, ``:2000``."""

    def numbers(text: str) -> range:
        start, colon, stop = text.partition(":")
        if not colon or not all(not part or (part.isascii() and part.isdigit()) for part in (start, stop)):
            raise argparse.ArgumentTypeError(f"{text!r} are no {things}; write 1000:2000, 1000: or :2000")
        return range(_count(start or "0", things), _count(stop, things) if stop else sys.maxsize)

    return numbers


def _parsed_by(parse: Callable[[str], T]) -> Callable[[str], T]:
    """What argparse takes as a type; it knows no errors of ours. `parse` is not looked up in vain."""

    def parsed(text: str) -> T:
        try:
            return parse(text)
        except orcstream.OrcError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parsed


def json_object(text: str) -> dict[str, Any]:
    """A JSON object."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"no JSON: {error}") from None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError("must be a JSON object")
    return value


def column_names(text: str) -> list[str | tuple[str, ...]]:
    """The columns named: commas between them, dots in them, but not within backquotes."""
    columns: list[str | tuple[str, ...]] = []
    path: list[str] = []
    name, quoted = "", False
    for character in text + ",":
        if character == "`":
            quoted = not quoted
        elif quoted or character not in ".,":
            name += character
        else:
            path.append(name)
            name = ""
            if character == ",":
                columns.append(tuple(path) if any("." in part for part in path) else ".".join(path))
                path = []
    if quoted:
        raise argparse.ArgumentTypeError("a backquote has no partner")
    return columns if text else []


_URL: Mapping[str, Any] = {"type": given_url, "metavar": "URL"}
# By the name under which argparse knows each.
_SHARED: Mapping[str, Mapping[str, Any]] = {
    "url": {**_URL, "help": "a path, or any URL that fsspec knows"},
    "urls": {**_URL, "nargs": "+", "help": "paths, or any URLs that fsspec knows"},
    "source": {**_URL, "metavar": "SOURCE"},
    "target": {**_URL, "metavar": "TARGET"},
    "--storage-options": {
        "type": json_object,
        "metavar": "JSON",
        "help": "what fsspec's file system takes, such as '{\"anon\": true}'",
    },
    "--target-storage-options": {"type": json_object, "metavar": "JSON", "help": "where TARGET needs others"},
    "--columns": {
        "type": column_names,
        "metavar": "a,b.c",
        "help": "names, dots for fields; `backquotes` around names that hold dots or commas",
    },
    "--where": {
        "type": _parsed_by(lambda text: orcstream.Expr.parse(text)),
        "metavar": "TEXT",
        "help": "only rows of which this is true, such as \"amount > 100 and city = 'Oslo'\"",
    },
    "--rows": {
        "type": _numbers_of("rows"),
        "metavar": "A:B",
        "help": "only rows A up to B, without B; they count from 0, and either may be left out",
    },
    "--stripes": {
        "type": _numbers_of("stripes"),
        "metavar": "A:B",
        "help": "only stripes A up to B, without B; they count from 0",
    },
    "--schema": {
        "type": _parsed_by(lambda text: orcstream.Schema.parse(text)),
        "metavar": "TEXT",
        "help": "the types to read the file as",
    },
    "--timestamp-unit": {
        "choices": ("s", "ms", "us", "ns"),
        "help": "of times (default: ns, which reaches from 1677 to 2262 only)",
    },
    "--keys": {"metavar": "STORE", "help": "where the keys of encrypted columns are"},
    "--target-keys": {"metavar": "STORE"},
    "--require-keys": {
        "type": lambda text: text.split(",") if text != "all" else True,
        "default": False,
        "metavar": "NAME,NAME",
        "help": "fail where one of these keys (or any: all) is needed and cannot be had",
    },
    "--memory-limit": {"type": byte_size, "default": 256 << 20, "metavar": "SIZE"},
    "--no-overwrite": {
        "action": "store_false",
        "dest": "overwrite",
        "help": "fail where there is a file already",
    },
    "--older-than": {"type": duration_s, "dest": "older_than_s", "metavar": "AGE"},
    "--kind": {"choices": ("minor", "major"), "default": "minor"},
    "--partition": {
        "action": "append",
        "dest": "partitions",
        "metavar": "PATH",
        "help": "only this one, such as country=DE; repeatable",
    },
    "--json": {"action": "store_true", "help": "what is printed, as one JSON document"},
}
