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
from orcstream.cli.arguments import add_command, add_flag, add_options, duration_s, given_to
from orcstream.cli.commands.keys import opened_keys
from orcstream.cli.output import Progress, aligned, report
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
    purpose = "as of a write id, or Hive's text of visible ids"
    show.add_argument("--write-ids", type=_write_ids, metavar="N", help=purpose)
    purpose = "with --metastore: hold no shared lock while reading; Hive may remove files meanwhile"
    add_flag(show, "--no-read-lock", purpose, action="store_false", dest="read_lock")
    add_flag(show, "--no-count", "open no file: no rows, no deletes", action="store_false", dest="count")
    _add_common(show)

    purpose = "few large directories in place of many"
    compact = add_command(commands, "compact", _compact, purpose, f"Makes {purpose}.", _COMPACT_HELP)
    add_options(compact, "--kind", "--partition")
    add_options(compact, "--memory-limit", help="what it may take (default: 256MB)")
    _add_common(compact)

    purpose = "directories that no reader can need, which are removed"
    clean = add_command(commands, "clean", _clean, purpose, f"Prints {purpose}.", _CLEAN_HELP)
    add_options(clean, "--older-than", default=3600, help="default: 1h; such as 90s, 2d")
    purpose = "before, abort transactions that showed no sign of life for so long"
    clean.add_argument("--give-up", type=duration_s, metavar="AGE", help=purpose)
    add_flag(clean, "--dry-run", "only say what would go", action="store_false", dest="remove")
    _add_common(clean)


def _add_common(command: argparse.ArgumentParser) -> None:
    add_options(command, "url", help="the table's directory")
    purpose = "of Hive, such as thrift://host:9083; with --table"
    command.add_argument("--metastore", metavar="URL", help=purpose)
    command.add_argument("--table", metavar="NAME", help="in the metastore, as database.table")
    add_options(command, "--storage-options", "--keys", "--require-keys", "--json")


def _write_ids(text: str) -> int | str:
    return int(text) if text.isascii() and text.isdigit() else text


@asynccontextmanager
async def _opened(options: argparse.Namespace) -> AsyncIterator[tuple[acid.AcidTable, Progress]]:
    """The table, and the progress of what is done with it."""
    from orcstream import acid

    async with opened_keys(options.keys) as keys, Progress() as progress:
        progress.text = lambda: f"listing {strip_credentials(options.url)}"
        async with acid.open_table(**given_to(acid.open_table, options, keys=keys)) as table:
            yield table, progress


# --- show --------------------------------------------------------------------------------------------------


async def _show(options: argparse.Namespace) -> None:
    async with _opened(options) as (table, progress):
        progress.text = lambda: "looking into the table's files"
        found = await table.describe(count=options.count)
        rows = await _row_count(table, progress) if options.count else None
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
        done = await table.compact(**given_to(table.compact, options, on_rows=tell))
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
        if options.give_up is not None and options.remove:
            dead = await table.abort_dead(older_than_s=options.give_up)
        progress.text = lambda: "looking for what no reader needs"
        done = await table.clean(**given_to(table.clean, options))
    document = {**asdict(done), "removed": options.remove, "given_up": list(dead)}
    report(options, document, _cleaned(done, dead, removed=options.remove))


def _cleaned(done: acid.Cleaned, dead: Sequence[int], *, removed: bool) -> Iterator[str]:
    if dead:
        yield f"given up: {', '.join(map(str, dead))}"
    yield from (*done.directories, *done.files)
    verb = "removed" if removed else "would be removed"
    count = counted(len(done.directories) + len(done.files), "place")
    kept = f"; {len(done.kept)} kept for readers" if done.kept else ""
    yield f"{bytes_text(done.removed_bytes)} in {count} {verb}{kept}"
