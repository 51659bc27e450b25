"""The commands that read rows: `cat` and `count`, of a file, or of many files as one table.

Knows how rows look as text, and which of a URL and a folder is meant. Must not know how they are read.
Contract: nothing is lost. JSON numbers have all their digits (decimals, 64-bit integers); NaN and the
infinities, which JSON lacks, come as strings; times have as many digits as they need, up to nine; binary is
base64; maps are lists of `{"key": ..., "value": ...}`, because keys may be of any type, and unions
`{"tag": ..., "value": ...}`. In CSV (RFC 4180) null is nothing and the empty text is `""`; nested values are
JSON within a field.
"""

from __future__ import annotations

import argparse
import base64
import datetime
import json
import math
import re
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orcstream
from orcstream.cli.arguments import WHERE_HELP, add_command, add_flag, add_options, given_to, row_count
from orcstream.cli.commands.keys import opened, opened_keys, say_masked
from orcstream.cli.output import Progress, report, write
from orcstream.encryption import KeyProvider
from orcstream.figures import counted
from orcstream.schema.types import Kind, Type

if TYPE_CHECKING:
    import numpy as np

_MANY_HELP = f"""Several files, a folder (with / at its end, or local) or a pattern ('logs/day=*/*.orc') are
read as one table: folders named column=value are columns of it.

{WHERE_HELP}"""
# Enough for each hand-over to be cheap, few enough for the output to flow.
_BATCH_ROWS = 1 << 14
# What only rows of one file have.
_OF_A_FILE = ("rows", "row_numbers")
# What JSON leaves and a terminal may take for an order: DEL, C1, and marks that turn the line around.
_ORDERS = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")

_NESTED = (Kind.STRUCT, Kind.LIST, Kind.MAP, Kind.UNION)

Format = Callable[[Any], str]


def add_row_commands(commands: Any) -> None:
    """`cat` and `count`."""
    cat = _reading(commands, "cat", _cat, "the rows, as they arrive")
    add_options(cat, "--columns")
    cat.add_argument("--limit", type=row_count, metavar="N", help="stop after N rows")
    purpose = "one JSON value a line, or CSV"
    cat.add_argument("--format", choices=("json", "csv"), default="json", help=purpose)
    add_flag(cat, "--row-numbers", "each row's number in the file, as row_number")
    count = _reading(commands, "count", _count, "how many rows there are, or match")
    count.set_defaults(columns=[], limit=None, row_numbers=False)
    add_options(count, "--json")


def _reading(commands: Any, name: str, main: Any, purpose: str) -> argparse.ArgumentParser:
    command = add_command(commands, name, main, purpose, f"Prints {purpose}.", _MANY_HELP)
    add_options(command, "urls", "--storage-options", "--where", "--rows", "--schema")
    add_options(command, "--timestamp-unit", default="ns")
    add_options(command, "--memory-limit", help="what reading may take (default: 256MB)")
    add_options(command, "--keys", "--require-keys")
    return command


# --- what is read ------------------------------------------------------------------------------------------


def _is_table(urls: list[str]) -> bool:
    """Whether many files are meant, or may be."""
    from orcstream.io.folders import is_pattern_url

    (url, *others) = urls
    if not others and Path(url).is_file():
        return False
    return bool(others) or url.endswith("/") or is_pattern_url(url) or Path(url).is_dir()


@asynccontextmanager
async def _dataset(options: argparse.Namespace, keys: KeyProvider | None) -> AsyncIterator[Any]:
    for name in _OF_A_FILE:
        if getattr(options, name) not in (None, False):
            raise orcstream.UsageError(
                f"--{name.replace('_', '-')} is for one file, not for a table of several"
            )
    async with orcstream.dataset(options.urls, **given_to(orcstream.dataset, options, keys=keys)) as files:
        yield files


@asynccontextmanager
async def _rows(options: argparse.Namespace, keys: KeyProvider | None) -> AsyncIterator[Any]:
    """The stream of all rows that were asked for."""
    # The first rows need not wait for more than was asked for.
    batch_rows = max(1, min(_BATCH_ROWS, _BATCH_ROWS if options.limit is None else options.limit))
    if _is_table(options.urls):
        async with (
            _dataset(options, keys) as files,
            files.batches(batch_rows=batch_rows, **given_to(files.batches, options)) as stream,
        ):
            yield stream
        return
    async with opened(options, options.urls[0], keys) as file:
        reading = given_to(file.batches, options)
        if not options.columns and file.schema.root.kind is not Kind.STRUCT:
            reading["columns"] = None  # there are none to choose from
        async with file.batches(batch_rows=batch_rows, **reading) as stream:
            yield stream


# --- count -------------------------------------------------------------------------------------------------


async def _count(options: argparse.Namespace) -> None:
    count = 0
    async with opened_keys(options.keys) as keys, Progress() as progress:
        progress.text = lambda: f"{counted(count, 'row')} so far"
        if _is_table(options.urls):
            async with _dataset(options, keys) as files:
                count = await files.count(options.where, memory_limit=options.memory_limit)
        else:
            async with _rows(options, keys) as stream:
                async for batch in stream:
                    count += batch.num_rows
    report(options, {"row_count": count}, [str(count)])


# --- cat ---------------------------------------------------------------------------------------------------


async def _cat(options: argparse.Namespace) -> None:
    # Where rows go to a terminal, they are the progress.
    async with (
        opened_keys(options.keys) as keys,
        Progress(shown=not sys.stdout.isatty()) as progress,
        _rows(options, keys) as stream,
    ):
        await _print_rows(stream, options, progress)


async def _print_rows(stream: Any, options: argparse.Namespace, progress: Progress) -> None:
    written = 0
    progress.text = lambda: f"{counted(written, 'row')} so far"
    say_masked(stream.batch_schema.masked)
    root = stream.schema.root
    is_struct = root.kind is Kind.STRUCT
    names = root.field_names if is_struct else ("value",)
    types = root.children if is_struct else (root,)
    if options.format == "csv":
        write([csv_row(names)])
        formats, row = [csv_format(type_) for type_ in types], ",".join
    else:
        formats = [json_format(type_) for type_ in types]
        row = json_row(names) if is_struct else "".join
    left = sys.maxsize if options.limit is None else options.limit
    while left and (batch := await anext(stream, None)) is not None:
        batch = batch.slice(0, left)
        columns = [
            list(map(format_, batch.column(index).to_pylist())) for index, format_ in enumerate(formats)
        ]
        write(map(row, zip(*columns, strict=True) if columns else [()] * batch.num_rows))
        left -= batch.num_rows
        written += batch.num_rows


# --- rows as text ------------------------------------------------------------------------------------------


def json_format(type_: Type) -> Format:
    """What turns a value of the type, or None, into JSON."""
    plain = _json_nested(type_) if type_.kind in _NESTED else _json_plain(type_)
    return lambda value: "null" if value is None else plain(value)


def csv_format(type_: Type) -> Format:
    """What turns a value of the type, or None, into a CSV field."""
    plain = json_format(type_) if type_.kind in _NESTED else _plain(type_)
    return lambda value: "" if value is None else _csv_field(plain(value))


def json_row(names: Iterable[str]) -> Callable[[Iterable[str]], str]:
    """What turns a row's JSON values into a JSON object; names may occur twice in ORC, and so here."""
    keys = [_json_text(name) + ": " for name in names]

    def row(cells: Iterable[str]) -> str:
        return "{" + ", ".join(map(str.__add__, keys, cells)) + "}"

    return row


def csv_row(texts: Iterable[str]) -> str:
    """A line of CSV."""
    return ",".join(map(_csv_field, texts))


# --- plain values ------------------------------------------------------------------------------------------


def _plain(type_: Type) -> Format:
    """Text without quotes."""
    import numpy as np

    match type_.kind:
        case Kind.BOOLEAN:
            return lambda value: "true" if value else "false"
        case Kind.DECIMAL:
            return lambda value: format(value, "f")
        case Kind.FLOAT:
            return lambda value: _number(value, str(np.float32(value)))
        case Kind.DOUBLE:
            return lambda value: _number(value, repr(value))
        case Kind.BINARY | Kind.GEOMETRY | Kind.GEOGRAPHY:
            return lambda value: base64.b64encode(value).decode()
        case Kind.TIMESTAMP:
            return _time
        case Kind.TIMESTAMP_INSTANT:
            return lambda value: _time(value) + "Z"
    return str


def _json_plain(type_: Type) -> Format:
    plain = _plain(type_)
    match type_.kind:
        case Kind.BOOLEAN | Kind.BYTE | Kind.SHORT | Kind.INT | Kind.LONG | Kind.DECIMAL:
            return plain
        case Kind.FLOAT | Kind.DOUBLE:
            return lambda value: plain(value) if math.isfinite(value) else f'"{plain(value)}"'
    return lambda value: _json_text(plain(value))


def _number(value: float, text: str) -> str:
    if math.isfinite(value):
        return text
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _time(value: datetime.datetime | np.datetime64) -> str:
    """Wall clock, without a zone (`datetime64` has none, and a `datetime` loses it here)."""
    if isinstance(value, datetime.datetime):
        text = value.replace(tzinfo=None).isoformat(" ")
    else:
        text = str(value).replace("T", " ")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _json_text(text: str) -> str:
    return _ORDERS.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(text, ensure_ascii=False))


def _csv_field(text: str) -> str:
    if text and not any(character in text for character in ',"\r\n'):
        return text
    return '"' + text.replace('"', '""') + '"'


# --- nested values -----------------------------------------------------------------------------------------


def _json_nested(type_: Type) -> Format:
    formats = [json_format(child) for child in type_.children]
    match type_.kind:
        case Kind.STRUCT:
            row = json_row(type_.field_names)
            return lambda value: row(f(v) for f, v in zip(formats, value.values(), strict=True))
        case Kind.LIST:
            (item,) = formats
            return lambda value: "[" + ", ".join(map(item, value)) + "]"
        case Kind.MAP:
            key, val = formats
            return lambda value: (
                "[" + ", ".join(f'{{"key": {key(k)}, "value": {val(v)}}}' for k, v in value) + "]"
            )
    return lambda value: f'{{"tag": {value.tag}, "value": {formats[value.tag](value.value)}}}'
