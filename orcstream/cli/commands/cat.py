"""The commands that read rows: `cat` and `count`, of a file, or of many files as one table.

Knows how rows look as text (`cli.text`), and which of a URL and a folder is meant. Must not know how they are
read.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orcstream
from orcstream.cli.arguments import (
    WHERE_HELP,
    add_columns,
    add_memory_limit,
    add_schema,
    add_storage_options,
    add_unit,
    add_where_and_rows,
    given_to,
    given_url,
    row_count,
)
from orcstream.cli.commands.keys import add_keys, opened, opened_keys, say_masked
from orcstream.cli.output import add_json, report, write
from orcstream.cli.parser import Parser, add_command
from orcstream.cli.progress import Progress
from orcstream.cli.text import csv_format, csv_row, json_format, json_row
from orcstream.figures import counted
from orcstream.io.globs import is_pattern_url
from orcstream.io.keys.provider import KeyProvider
from orcstream.schema.types import Kind

_MANY_HELP = f"""Several files, a folder (with / at its end, or local) or a pattern ('logs/day=*/*.orc') are
read as one table: folders named column=value are columns of it.

{WHERE_HELP}"""
# Enough for each hand-over to be cheap, few enough for the output to flow.
_BATCH_ROWS = 1 << 14
_MEMORY_LIMIT = 256 << 20
# What only rows of one file have.
_OF_A_FILE = ("rows", "row_numbers")


def add_row_commands(commands: Any) -> None:
    """`cat` and `count`."""
    cat = _reading(commands, "cat", _cat, "the rows, as they arrive")
    add_columns(cat)
    cat.add_argument("--limit", type=row_count, metavar="N", help="stop after N rows")
    cat.add_argument(
        "--format", choices=("json", "csv"), default="json", help="one JSON value a line, or CSV"
    )
    cat.add_argument(
        "--row-numbers", action="store_true", help="each row's number in the file, as row_number"
    )
    count = _reading(commands, "count", _count, "how many rows there are, or match")
    count.set_defaults(columns=[], limit=None, row_numbers=False)
    add_json(count)


def _reading(commands: Any, name: str, main: Any, purpose: str) -> Parser:
    command = add_command(commands, name, main, purpose, f"Prints {purpose}.", _MANY_HELP)
    command.add_argument(
        "urls", type=given_url, metavar="URL", nargs="+", help="paths, or any URLs that fsspec knows"
    )
    add_storage_options(command)
    add_where_and_rows(command)
    add_schema(command)
    add_unit(command)
    add_memory_limit(command, _MEMORY_LIMIT, "what reading may take")
    add_keys(command)
    return command


# --- what is read ------------------------------------------------------------------------------------------


def _is_table(urls: list[str]) -> bool:
    """Whether many files are meant, or may be."""
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
    async with orcstream.dataset(
        options.urls,
        schema=options.schema,
        storage_options=options.storage_options,
        keys=keys,
        require_keys=options.require_keys,
    ) as files:
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
