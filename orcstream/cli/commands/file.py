"""What one file says of itself: `meta`, `stripes`, `index`, `stats`, `keys`, `plan` and `inspect`.

Knows the package's public names and how their values look, as JSON and as text. Must not know what lies under
them. Each command answers a document and lines, which are made of it.
"""

from __future__ import annotations

import argparse
import base64
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import orcstream
from orcstream._credentials import strip_credentials
from orcstream.cli.arguments import WHERE_HELP, add_command, add_flag, add_options, given_to
from orcstream.cli.commands.keys import KEYS_HELP, key_facts, key_lines, opened, opened_keys
from orcstream.cli.output import Progress, aligned, report, short, write
from orcstream.figures import bytes_text, counted, known_statistics, writer_name

# What only one command needs is imported there: `orcstream --help` is to be quick.
if TYPE_CHECKING:
    from orcstream.schema.types import Type

T = TypeVar("T")
Report: TypeAlias = tuple[Any, Iterable[str]]
Look: TypeAlias = "Callable[[orcstream.OrcFile, argparse.Namespace, Progress], Awaitable[Report]]"

_STATS_HELP = """What the writer recorded: how many values are not null, whether some are, the smallest, the
largest, and the sum (of text, its bytes). Encrypted columns have statistics with their keys only."""
_INDEX_HELP = """A row group is what can be skipped within a stripe: so many rows as the file's
row_index_stride. With --positions it is shown where each begins in the column's streams."""
INSPECT_HELP = """Without -o, the same is printed as text. With --columns, --where or --rows it is shown which
bytes such a read would fetch, in which requests; with --run it is carried out and measured. The page shows
the smallest and the largest value of columns, those of encrypted columns only with their keys.

examples:
  orcstream inspect trips.orc
  orcstream inspect trips.orc -o trips.html --columns city --where "id = 4711" --run
  orcstream inspect trips.orc --json"""


def add_file_commands(commands: Any) -> None:
    """Those that open one file and look into it."""
    _looking(commands, "meta", _meta, "schema, rows, size, compression and writer")

    stripes = _looking(commands, "stripes", _stripes, "where each stripe lies, and how many rows it has")
    add_options(stripes, "--stripes")
    add_flag(stripes, "--encodings", "how each column is encoded in each stripe")

    purpose = "the row groups of columns, and their bloom filters"
    index = _looking(commands, "index", _index, purpose, _INDEX_HELP)
    add_options(index, "--columns", required=True)
    add_options(index, "--stripes")
    add_flag(index, "--positions", "where row groups begin in streams")

    stats = _looking(commands, "stats", _stats, "the statistics of columns", _STATS_HELP)
    add_options(stats, "--columns")
    add_options(stats, "--stripes", help="those of stripes, too: A up to B, without B; : for all")

    purpose = "what reading would ask the store for, without reading"
    plan = _looking(commands, "plan", _plan, purpose, WHERE_HELP)
    add_options(plan, "--columns", "--where", "--rows", "--schema")
    add_options(plan, "--memory-limit", help="what reading may take (default: 256MB)")

    purpose = "which columns are encrypted, with which keys, and which are open"
    _looking(commands, "keys", _keys, purpose, KEYS_HELP)

    purpose = "a file's layout, and what a question reads of it: as a page, or text"
    description = "Shows where the bytes of a file are, and which of them a question reads."
    inspecting = add_command(commands, "inspect", _inspect, purpose, description, INSPECT_HELP)
    add_options(inspecting, "url", "--storage-options")
    purpose = "write a page for the browser: a path, or a URL"
    inspecting.add_argument("-o", "--output", metavar="PAGE", help=purpose)
    add_options(inspecting, "--json")
    add_flag(inspecting, "--run", "read as asked, and show the time of each request")
    add_options(inspecting, "--columns", "--where", "--rows", "--keys", "--require-keys")


def _looking(
    commands: Any, name: str, run: Look, purpose: str, epilog: str | None = None
) -> argparse.ArgumentParser:
    command = add_command(commands, name, _look, purpose, f"Prints {purpose}.", epilog)
    command.set_defaults(run=run)
    add_options(command, "url", "--storage-options", "--keys", "--require-keys", "--json")
    return command


async def _look(options: argparse.Namespace) -> None:
    async with opened_keys(options.keys) as keys, Progress() as progress:
        progress.text = lambda: f"opening {strip_credentials(options.url)}"
        async with opened(options, options.url, keys) as file:
            document, lines = await options.run(file, options, progress)
    report(options, document, lines)


# --- meta --------------------------------------------------------------------------------------------------


async def _meta(file: orcstream.OrcFile, _: argparse.Namespace, __: Progress) -> Report:
    postscript, footer = file.tail.postscript, file.tail.footer
    facts = {
        "url": file.url,
        "row_count": file.row_count,
        "stripe_count": len(file.stripes),
        "length": file.tail.file_length,
        "schema": str(file.schema),
        "compression": file.compression.name,
        "compression_block_size": postscript.compression_block_size,
        "row_index_stride": footer.row_index_stride,
        "format_version": ".".join(map(str, postscript.version)),
        "writer": writer_name(footer.writer),
        "writer_version": postscript.writer_version,
        "software_version": footer.software_version,
        "calendar": footer.calendar.name,
        "encrypted": footer.encryption is not None,
        "user_metadata": {name: _text(value) for name, value in file.user_metadata.items()},
    }
    return facts, _meta_lines(facts)


def _meta_lines(facts: dict[str, Any]) -> Iterator[str]:
    for name, value in facts.items():
        if value is None or name == "user_metadata":
            continue
        if name in ("length", "compression_block_size"):
            value = f"{bytes_text(value)} ({value:,} bytes)"
        elif type(value) is int:
            value = f"{value:,}"
        elif type(value) is bool:
            value = "yes" if value else "no"
        yield f"{name.replace('_', ' ') + ':':<24}{value}"
    for name, value in facts["user_metadata"].items():
        yield f"user metadata:          {name} = {value}"


def _text(value: bytes) -> str:
    """Most user metadata is text; what is not comes in base64."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return "base64:" + base64.b64encode(value).decode()


# --- stripes -----------------------------------------------------------------------------------------------


async def _stripes(file: orcstream.OrcFile, options: argparse.Namespace, progress: Progress) -> Report:
    from orcstream.io.loop.tasks import side_by_side

    wanted = _stripe_numbers(file, options.stripes)
    encodings: list[list[dict[str, Any]] | None] = [None] * len(wanted)
    if options.encodings:
        names = _names(file)
        show = _counting(progress, "stripe footer", len(wanted))
        encodings = list(await side_by_side(wanted, lambda stripe: show(_encodings(file, stripe, names))))
    stripes = [
        {
            "stripe": stripe,
            "first_row": file.stripes[stripe].first_row,
            "row_count": file.stripes[stripe].row_count,
            "file_offset": file.stripes[stripe].offset,
            "index_bytes": file.stripes[stripe].index_length,
            "data_bytes": file.stripes[stripe].data_length,
            "footer_bytes": file.stripes[stripe].footer_length,
            "encodings": found,
        }
        for stripe, found in zip(wanted, encodings, strict=True)
    ]
    return {"url": file.url, "stripes": stripes}, _stripe_lines(stripes)


async def _encodings(file: orcstream.OrcFile, stripe: int, names: Sequence[str]) -> list[dict[str, Any]]:
    from orcstream.inspect.row_groups import encodings_of

    found = encodings_of(await file.stripe_footer(stripe))
    return [
        {
            "column_id": column,
            "column": names[column],
            "encrypted": number > 0,
            "encoding": encoding.kind.name,
            "dictionary_size": encoding.dictionary_size,
        }
        for column in sorted(found)
        for number, encoding in enumerate(found[column])
    ]


def _stripe_lines(stripes: Sequence[dict[str, Any]]) -> Iterator[str]:
    heads = ("stripe", "rows", "from row", "offset", "index", "data", "footer")
    rows = [
        (
            str(one["stripe"]),
            *(f"{one[key]:,}" for key in ("row_count", "first_row", "file_offset")),
            *(bytes_text(one[key]) for key in ("index_bytes", "data_bytes", "footer_bytes")),
        )
        for one in stripes
    ]
    head, *lines = aligned([heads, *rows], 0)
    yield head
    for line, stripe in zip(lines, stripes, strict=True):
        yield line
        for one in stripe["encodings"] or ():
            size = one["dictionary_size"]
            entries = f", {size:,} {'entry' if size == 1 else 'entries'}" if size else ""
            encrypted = ", encrypted" if one["encrypted"] else ""
            yield f"    {one['column'] or '(the rows)'}: {one['encoding']}{entries}{encrypted}"


# --- index -------------------------------------------------------------------------------------------------


async def _index(file: orcstream.OrcFile, options: argparse.Namespace, progress: Progress) -> Report:
    from orcstream.inspect.row_groups import stripe_index
    from orcstream.io.loop.tasks import side_by_side

    names = _names(file)
    columns = [(names[type_.column_id], type_) for type_ in _chosen(file, options.columns)]
    wanted = _stripe_numbers(file, options.stripes)
    show = _counting(progress, "index", len(wanted))
    found = list(await side_by_side(wanted, lambda stripe: show(stripe_index(file, columns, stripe))))
    return {"url": file.url, "stripes": found}, _index_lines(found, positions=options.positions)


def _index_lines(stripes: Iterable[dict[str, Any]], *, positions: bool) -> Iterator[str]:
    for stripe in stripes:
        for column in stripe["columns"]:
            blooms = [f"{kind} {bytes_text(size)}" for kind, size in column["bloom_filter_bytes"].items()]
            facts = [
                counted(len(column["row_groups"]), "row group"),
                column["encoding"],
                f"index {bytes_text(column['index_bytes'])}",
                *(blooms or ["no bloom filter"]),
            ]
            yield f"stripe {stripe['stripe']}, {column['column'] or '(the rows)'}: {', '.join(facts)}"
            yield from _group_lines(column["row_groups"], positions=positions)


def _group_lines(groups: Sequence[dict[str, Any]], *, positions: bool) -> Iterator[str]:
    if not groups:
        return
    rows = [
        (str(at), f"{one['first_row']:,}", f"{one['row_count']:,}", *_statistics_cells(one["statistics"]))
        for at, one in enumerate(groups)
    ]
    head, *lines = aligned([("row group", "from row", "rows", *_STATISTICS_HEADS), *rows], 0)
    yield f"  {head}"
    for line, group in zip(lines, groups, strict=True):
        yield f"  {line}"
        for stream, places in group["positions"].items() if positions else ():
            yield f"      {stream}: " + ", ".join(f"{name} {place:,}" for name, place in places.items())


# --- statistics --------------------------------------------------------------------------------------------

_STATISTICS_HEADS = ("values", "nulls", "minimum", "maximum", "sum")


async def _stats(file: orcstream.OrcFile, options: argparse.Namespace, progress: Progress) -> Report:
    from orcstream.io.loop.uncancelled import run_in_thread

    types = _chosen(file, options.columns)
    stripes: dict[int, Any] | None = None
    if options.stripes is not None:
        progress.text = lambda: "reading the statistics of stripes"
        found = await file.stripe_statistics()
        stripes = {one: found[one] for one in _stripe_numbers(file, options.stripes) if one < len(found)}
    return await run_in_thread(partial(_stats_report, file, types, stripes))  # there may be millions


def _stats_report(
    file: orcstream.OrcFile, types: Sequence[Type], stripes: Mapping[int, Any] | None
) -> Report:
    paths = [path for path, _ in file.schema.walk()]
    columns = [
        {
            "column_id": type_.column_id,
            "column": ".".join(paths[type_.column_id]),
            "type": type_.kind.name.lower() if type_.children else str(type_),
            "statistics": _of_file(file, paths[type_.column_id]),
            "stripes": None
            if stripes is None
            else [
                {"stripe": stripe, "statistics": _known(known.get(type_.column_id))}
                for stripe, known in stripes.items()
            ],
        }
        for type_ in types
    ]
    return {"url": file.url, "row_count": file.row_count, "columns": columns}, _stats_lines(columns)


def _of_file(file: orcstream.OrcFile, path: tuple[str, ...]) -> dict[str, Any] | None:
    """None where there are none: the writer left them out, or nobody knows of which column they are."""
    try:
        return _known(file.statistics[path])
    except orcstream.UsageError:
        return None


def _known(statistics: Any) -> dict[str, Any] | None:
    return None if statistics is None else known_statistics(statistics)


def _stats_lines(columns: Sequence[dict[str, Any]]) -> list[str]:
    rows: list[tuple[str, ...]] = [("column", "type", *_STATISTICS_HEADS)]
    for one in columns:
        name = short(one["column"] or "(the rows)")
        rows.append((name, short(one["type"]), *_statistics_cells(one["statistics"])))
        rows += (
            (f"  stripe {stripe['stripe']}", "", *_statistics_cells(stripe["statistics"]))
            for stripe in one["stripes"] or ()
        )
    return aligned(rows, 2)


def _statistics_cells(known: Mapping[str, Any] | None) -> tuple[str, ...]:
    """In the order of the heads; a bound that was cut for its length ends in an ellipsis."""
    if known is None:
        return ("",) * len(_STATISTICS_HEADS)
    has_null = known.get("has_null")
    lower, upper = (f"{known[key]}…" if key in known else None for key in ("lower_bound", "upper_bound"))
    return (
        short(known.get("value_count")),
        "" if has_null is None else "yes" if has_null else "no",
        short(known.get("minimum", lower)),
        short(known.get("maximum", upper)),
        short(known.get("sum")),
    )


# --- plan, keys and inspect ---------------------------------------------------------------------------------


async def _plan(file: orcstream.OrcFile, options: argparse.Namespace, progress: Progress) -> Report:
    from orcstream.inspect.facts import plain

    progress.text = lambda: "reading what says which bytes are needed"
    found = await file.explain(**given_to(file.explain, options))
    totals = {
        name: getattr(found, name) for name in ("hop_count", "request_count", "bytes_wanted", "bytes_read")
    }
    return {**plain(found), **totals}, str(found).splitlines()


async def _keys(file: orcstream.OrcFile, _: argparse.Namespace, __: Progress) -> Report:
    facts = key_facts(file)
    return facts, key_lines(facts)


async def _inspect(options: argparse.Namespace) -> int:
    """The exit status: 1 where something could not be shown, which is named."""
    from orcstream.inspect import inspect
    from orcstream.io import small_files

    async with opened_keys(options.keys) as keys, Progress() as progress:
        progress.text = lambda: f"looking at {strip_credentials(options.url)}"
        found = await inspect(**given_to(inspect, options, keys=keys))
    said = None
    if options.output is not None:
        page = found.to_html().encode()
        await small_files.put(options.output, page, overwrite=True, storage_options=None)
        said = f"{strip_credentials(options.output)}: a page of {bytes_text(len(page))}, for a browser"
    text = found.to_json() if options.json else said or found.to_text()
    write([text])
    for problem in found.problems:
        sys.stderr.write(f"orcstream: {problem}\n")
    return 1 if found.problems else 0


# --- helpers -----------------------------------------------------------------------------------------------


def _names(file: orcstream.OrcFile) -> list[str]:
    """The dotted name of each column, by its id; that of the root is empty."""
    from orcstream.schema.types import dotted_names

    return dotted_names(file.schema.root)


def _chosen(file: orcstream.OrcFile, columns: Sequence[str | tuple[str, ...]] | None) -> list[Type]:
    """The columns that were named, with what is below them; all without names, but for the struct of all."""
    if columns is None:
        types = list(file.schema.types)
        return types[1:] or types
    try:
        return [type_ for column in columns for _, type_ in file.schema[column].walk()]
    except orcstream.OrcError as error:
        raise error.locate(url=file.url) from None


def _stripe_numbers(file: orcstream.OrcFile, wanted: range | None) -> range:
    """Those that there are of the stripes that were asked for."""
    there = range(len(file.stripes))
    return there if wanted is None else there[wanted.start : wanted.stop]


def _counting(progress: Progress, what: str, total: int) -> Callable[[Awaitable[T]], Awaitable[T]]:
    """Waits for one after another, and has the progress say how many there were."""
    count = 0
    progress.text = lambda: f"{what} {count:,} of {total:,}"

    async def counted_one(work: Awaitable[T]) -> T:
        nonlocal count
        found = await work
        count += 1
        return found

    return counted_one
