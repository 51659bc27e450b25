"""The command line's transactional tables: what lies in them, compaction, cleaning.

Knows the public names of `orcstream.acid` and how a directory looks as text. Must not know how tables are
read.
"""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from orcstream._credentials import strip_credentials
from orcstream.cli.arguments import add_memory_limit, add_storage_options, duration_s, given_url
from orcstream.cli.commands.keys import add_keys, opened_keys
from orcstream.cli.output import add_json, aligned, report
from orcstream.cli.parser import add_command
from orcstream.cli.progress import Progress
from orcstream.figures import bytes_text, counted

# Imported when there is a table: `orcstream --help` is to be quick.
if TYPE_CHECKING:
    from orcstream import acid

ACID_HELP = """URL is the directory of a Hive transactional table, or of one that this package made.

  orcstream acid show hdfs://namenode/warehouse/orders --write-ids 7
  orcstream acid compact s3://bucket/tables/orders --kind major
  orcstream acid clean s3://bucket/tables/orders --older-than 1d --dry-run"""
_SHOW_HELP = """A directory is read, obsolete (others stand in for it), aborted, or not visible to this
reader. Rows and deletes are those of all transactions; what a reader sees is counted at the end."""
_COMPACT_HELP = """A minor compaction brings deltas together, a major one makes a new base. What was compacted
stays until `orcstream acid clean`. The table has to have a log of its own, or --metastore."""
_CLEAN_HELP = """A directory goes when what stands in for it has been there for so long, and no transaction is
open that began before. Readers of the past are told what is gone."""
_ALL = (1 << 63) - 1
_HEADS = ("directory", "write ids", "state", "files", "bytes", "rows", "deletes")


def add_acid_options(command: argparse.ArgumentParser) -> None:
    """The commands on tables."""
    commands = command.add_subparsers(required=True, metavar="COMMAND")

    purpose = "directories, write ids, rows and deletes"
    show = add_command(commands, "show", _show, purpose, f"Prints {purpose}.", _SHOW_HELP)
    show.add_argument(
        "--write-ids", type=_write_ids, metavar="N", help="as of a write id, or Hive's text of visible ids"
    )
    show.add_argument(
        "--no-read-lock",
        action="store_true",
        help="with --metastore: hold no shared lock while reading; Hive may remove files meanwhile",
    )
    show.add_argument("--no-count", action="store_true", help="open no file: no rows, no deletes")
    _add_common(show)

    purpose = "few large directories in place of many"
    compact = add_command(commands, "compact", _compact, purpose, f"Makes {purpose}.", _COMPACT_HELP)
    compact.add_argument("--kind", choices=("minor", "major"), default="minor")
    compact.add_argument(
        "--partition", action="append", metavar="PATH", help="only this one, such as country=DE; repeatable"
    )
    add_memory_limit(compact, 256 << 20, "what it may take")
    _add_common(compact)

    purpose = "directories that no reader can need, which are removed"
    clean = add_command(commands, "clean", _clean, purpose, f"Prints {purpose}.", _CLEAN_HELP)
    clean.add_argument(
        "--older-than", type=duration_s, default=3600, metavar="AGE", help="default: 1h; such as 90s, 2d"
    )
    clean.add_argument(
        "--give-up",
        type=duration_s,
        metavar="AGE",
        help="before, abort transactions that showed no sign of life for so long",
    )
    clean.add_argument("--dry-run", action="store_true", help="only say what would go")
    _add_common(clean)


def _add_common(command: argparse.ArgumentParser) -> None:
    command.add_argument("url", type=given_url, metavar="URL", help="the table's directory")
    command.add_argument(
        "--metastore", metavar="URL", help="of Hive, such as thrift://host:9083; with --table"
    )
    command.add_argument("--table", metavar="NAME", help="in the metastore, as database.table")
    add_storage_options(command)
    add_keys(command)
    add_json(command)


def _write_ids(text: str) -> int | str:
    return int(text) if text.isascii() and text.isdigit() else text


@asynccontextmanager
async def _opened(
    options: argparse.Namespace, write_ids: int | str | None = None, *, read_lock: bool = True
) -> AsyncIterator[tuple[acid.AcidTable, Progress]]:
    """The table, and the progress of what is done with it."""
    from orcstream import acid

    async with opened_keys(options.keys) as keys, Progress() as progress:
        progress.text = lambda: f"listing {strip_credentials(options.url)}"
        opening = acid.open_table(
            options.url,
            write_ids=write_ids,
            metastore=options.metastore,
            table=options.table,
            read_lock=read_lock,
            storage_options=options.storage_options,
            keys=keys,
            require_keys=options.require_keys,
        )
        async with opening as table:
            yield table, progress


# --- show --------------------------------------------------------------------------------------------------


async def _show(options: argparse.Namespace) -> None:
    async with _opened(options, options.write_ids, read_lock=not options.no_read_lock) as (table, progress):
        progress.text = lambda: "looking into the table's files"
        found = await table.describe(count=not options.no_count)
        rows = None if options.no_count else await _row_count(table, progress)
    document = {**_facts(table, rows), "directories": [_record(one) for one in found]}
    report(options, document, _shown(table, found, rows))


def _shown(
    table: acid.AcidTable, found: Iterable[acid.DirectoryDescription], rows: int | None
) -> Iterator[str]:
    yield table.url
    yield f"write ids  {_ids_text(table.write_ids)}"
    yield f"schema     {table.schema}"
    for path, some in _by_partition(found).items():
        yield ""
        yield path or "directories"
        yield from (f"  {line}" for line in aligned([_HEADS, *map(_cells, some)], 3))
    if rows is not None:
        yield ""
        yield counted(rows, "row")


async def _row_count(table: acid.AcidTable, progress: Progress) -> int:
    count = 0
    progress.text = lambda: f"{counted(count, 'row')} so far"
    async with table.batches(columns=[]) as stream:
        async for batch in stream:
            count += batch.num_rows
    return count


def _facts(table: acid.AcidTable, rows: int | None) -> dict[str, Any]:
    ids = table.write_ids
    return {
        "url": table.url,
        "schema": str(table.schema),
        "partition_columns": list(table.partition_columns),
        "high_watermark": ids.high_watermark,
        "open": list(ids.open),
        "aborted": list(ids.aborted),
        "row_count": rows,
    }


def _record(one: acid.DirectoryDescription) -> dict[str, Any]:
    return {**asdict(one), "kind": None if one.kind is None else one.kind.value}


def _ids_text(ids: acid.WriteIds) -> str:
    parts = ["all" if ids.high_watermark >= _ALL else f"up to {ids.high_watermark}"]
    parts += [f"without {', '.join(map(str, ids.open))} (open)"] if ids.open else []
    parts += [f"without {', '.join(map(str, ids.aborted))} (aborted)"] if ids.aborted else []
    return ", ".join(parts)


def _by_partition(
    found: Iterable[acid.DirectoryDescription],
) -> dict[str, list[acid.DirectoryDescription]]:
    sorted_out: dict[str, list[acid.DirectoryDescription]] = {}
    for one in found:
        sorted_out.setdefault(one.partition, []).append(one)
    return sorted_out


def _cells(one: acid.DirectoryDescription) -> tuple[str, ...]:
    first, last = one.first_write_id, one.last_write_id
    ids = f"to {last}" if first is None else str(first) if first == last else f"{first} to {last}"
    counts = ("" if count is None else f"{count:,}" for count in (one.row_count, one.delete_count))
    name = one.name if one.name is not None else "(original files)"
    return (name, ids, one.state, str(one.file_count), bytes_text(one.size_bytes), *counts)


# --- compact and clean -------------------------------------------------------------------------------------


async def _compact(options: argparse.Namespace) -> None:
    async with _opened(options) as (table, progress):
        written = 0

        def tell(count: int) -> None:
            nonlocal written
            written = count

        progress.text = lambda: f"{counted(written, 'row')} written"
        done = await table.compact(
            options.kind, partitions=options.partition, memory_limit=options.memory_limit, on_rows=tell
        )
    report(options, asdict(done), compaction_lines(done))


def compaction_lines(done: acid.Compaction) -> list[str]:
    """What a compaction did, as text."""
    return [_compacted(one) for one in done.partitions] or ["nothing to compact"]


def _compacted(one: acid.CompactedPartition) -> str:
    made = ", ".join(one.directories)
    deletes = f", {counted(one.delete_count, 'delete')}" if one.delete_count else ""
    return f"{made}: {counted(one.row_count, 'row')}{deletes}, in place of {len(one.replaces)}"


async def _clean(options: argparse.Namespace) -> None:
    dead: Sequence[int] = ()
    async with _opened(options) as (table, progress):
        if options.give_up is not None and not options.dry_run:
            dead = await table.abort_dead(older_than_s=options.give_up)
        progress.text = lambda: "looking for what no reader needs"
        done = await table.clean(older_than_s=options.older_than, remove=not options.dry_run)
    document = {**asdict(done), "removed": not options.dry_run, "given_up": list(dead)}
    report(options, document, _cleaned(done, dead, dry_run=options.dry_run))


def _cleaned(done: acid.Cleaned, dead: Sequence[int], *, dry_run: bool) -> Iterator[str]:
    if dead:
        yield f"given up: {', '.join(map(str, dead))}"
    yield from (*done.directories, *done.files)
    verb = "would be removed" if dry_run else "removed"
    count = counted(len(done.directories) + len(done.files), "place")
    kept = f"; {len(done.kept)} kept for readers" if done.kept else ""
    yield f"{bytes_text(done.removed_bytes)} in {count} {verb}{kept}"
