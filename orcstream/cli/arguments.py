"""Arguments that several commands take, under one name each, and how they are spelled.

Knows the words of the command line. Must not know what is done with them.
"""

from __future__ import annotations

import argparse
import inspect
import json
import re
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import orcstream

T = TypeVar("T")
# A group takes arguments as a parser does; typing's name for what both are is no public one.
Options = argparse._ActionsContainer  # noqa: SLF001

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


# --- options -----------------------------------------------------------------------------------------------


def given_url(text: str) -> str:
    """A path or a URL, and not the nothing that a variable of a shell left, which is the folder one is in."""
    if not text:
        raise argparse.ArgumentTypeError("the empty text is no path and no URL")
    return text


def add_url(command: Options) -> None:
    command.add_argument("url", type=given_url, metavar="URL", help="a path, or any URL that fsspec knows")
    add_storage_options(command)


def add_storage_options(command: Options) -> None:
    command.add_argument(
        "--storage-options",
        type=json_object,
        metavar="JSON",
        help="what fsspec's file system takes, such as '{\"anon\": true}'",
    )


def add_target_storage_options(command: Options) -> None:
    command.add_argument(
        "--target-storage-options", type=json_object, metavar="JSON", help="where TARGET needs others"
    )


def add_columns(command: Options, *, required: bool = False) -> None:
    command.add_argument(
        "--columns",
        type=column_names,
        required=required,
        metavar="a,b.c",
        help="names, dots for fields; `backquotes` around names that hold dots or commas",
    )


def add_where_and_rows(command: Options) -> None:
    command.add_argument(
        "--where",
        type=_parsed_by(lambda text: orcstream.Expr.parse(text)),
        metavar="TEXT",
        help="only rows of which this is true, such as \"amount > 100 and city = 'Oslo'\"",
    )
    command.add_argument(
        "--rows",
        type=_numbers_of("rows"),
        metavar="A:B",
        help="only rows A up to B, without B; they count from 0, and either may be left out",
    )


def add_schema(command: Options) -> None:
    command.add_argument(
        "--schema",
        type=_parsed_by(lambda text: orcstream.Schema.parse(text)),
        metavar="TEXT",
        help="the types to read the file as",
    )


def given_to(function: Callable[..., object], options: argparse.Namespace) -> dict[str, Any]:
    """The options that a function of the package takes by the same names."""
    names = inspect.signature(function).parameters
    return {name: value for name, value in vars(options).items() if name in names and value is not None}


def add_stripes(command: Options, purpose: str) -> None:
    command.add_argument("--stripes", type=_numbers_of("stripes"), metavar="A:B", help=purpose)


def add_unit(command: Options, default: str | None = "ns") -> None:
    command.add_argument(
        "--timestamp-unit",
        choices=("s", "ms", "us", "ns"),
        default=default,
        help="of times (default: ns, which reaches from 1677 to 2262 only)",
    )


def add_memory_limit(command: Options, default: int, purpose: str) -> None:
    command.add_argument(
        "--memory-limit",
        type=byte_size,
        default=default,
        metavar="SIZE",
        help=f"{purpose} (default: {default >> 20}MB)",
    )


# --- how they are spelled ----------------------------------------------------------------------------------


def byte_size(text: str) -> int:
    """Bytes; ``64m``, ``64MB`` and ``64MiB`` are 64 << 20."""
    found = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,6})?) ?([kmgt]?)(?:i?b)?", text.strip().lower())
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is no size; write 64MB or 1.5GB (units of 1024)")
    return int(float(found[1]) * _UNITS[found[2]])


def pair(text: str) -> tuple[str, str]:
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
