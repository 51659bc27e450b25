"""The command line's transactional tables: what lies in them, compaction, cleaning.

Knows the public names of `orcstream.acid` and how a directory looks as text. Must not know how tables are
read.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import Any

from orcstream import acid
from orcstream.cli_arguments import byte_size, duration_s
from orcstream.cli_progress import Progress
from orcstream.figures import bytes_text, counted, printable

__all__ = ["ACID_HELP", "add_acid_options", "compaction_lines"]

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


def add_acid_options(command: argparse.ArgumentParser, json_object: Callable[[str], Any]) -> None:
    """The commands on tables."""
    commands = command.add_subparsers(required=True, metavar="COMMAND")

    show = _command(commands, "show", _show, "directories, write ids, rows and deletes", _SHOW_HELP)
    show.add_argument(
        "--write-ids", type=_write_ids, metavar="N", help="as of a write id, or Hive's text of visible ids"
    )
    show.add_argument("--no-count", action="store_true", help="open no file: no rows, no deletes")
    _add_common(show, json_object)

    compact = _command(commands, "compact", _compact, "few large directories in place of many", _COMPACT_HELP)
    compact.add_argument("--kind", choices=("minor", "major"), default="minor")
    compact.add_argument(
        "--partition", action="append", metavar="PATH", help="only this one, such as country=DE; repeatable"
    )
    compact.add_argument("--memory", type=byte_size, default=256 << 20, metavar="SIZE", help="default: 256m")
    _add_common(compact, json_object)

    clean = _command(commands, "clean", _clean, "remove directories that no reader can need", _CLEAN_HELP)
    clean.add_argument(
        "--older-than", type=duration_s, default=3600, metavar="DURATION", help="default: 1h; such as 90s, 2d"
    )
    clean.add_argument(
        "--give-up",
        type=duration_s,
        metavar="DURATION",
        help="before, abort transactions that showed no sign of life for so long",
    )
    clean.add_argument("--dry-run", action="store_true", help="only say what would go")
    _add_common(clean, json_object)


def _command(commands: Any, name: str, main: Any, purpose: str, epilog: str) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(
        name, help=purpose, epilog=epilog, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    command.set_defaults(main=main)
    return command


def _add_common(command: argparse.ArgumentParser, json_object: Callable[[str], Any]) -> None:
    command.add_argument("url", metavar="URL", help="the table's directory")
    command.add_argument(
        "--metastore", metavar="URL", help="of Hive, such as thrift://host:9083; with --table"
    )
    command.add_argument("--table", metavar="NAME", help="in the metastore, as database.table")
    command.add_argument("--json", action="store_true", help="the result as one JSON object")
    command.add_argument(
        "--storage-options", type=json_object, metavar="JSON", help="what fsspec's file system takes"
    )


def _write_ids(text: str) -> int | str:
    return int(text) if text.isascii() and text.isdigit() else text


def _opened(options: argparse.Namespace, write_ids: int | str | None = None) -> Any:
    return acid.open_table(
        options.url,
        write_ids=write_ids,
        metastore=options.metastore,
        table=options.table,
        storage_options=options.storage_options,
    )


# --- show --------------------------------------------------------------------------------------------------


async def _show(options: argparse.Namespace) -> None:
    opening = _opened(options, options.write_ids)
    async with Progress() as progress, opening as table:
        progress.text = lambda: "looking into the table's files"
        found = await table.describe(count=not options.no_count)
        rows = None if options.no_count else await _row_count(table, progress)
    if options.json:
        print(json.dumps({**_facts(table, rows), "directories": [_record(one) for one in found]}))
        return
    print(f"{printable(table.url)}\nwrite ids  {_ids_text(table.write_ids)}")
    print(f"schema     {printable(str(table.schema))}")
    for path, some in _by_partition(found).items():
        print(f"\n{printable(path) or 'directories'}")
        for line in _aligned([_HEADS, *map(_cells, some)]):
            print(f"  {line}")
    if rows is not None:
        print(f"\n{counted(rows, 'row')}")


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
    name = printable(one.name) if one.name is not None else "(original files)"
    return (name, ids, one.state, str(one.file_count), bytes_text(one.size_bytes), *counts)


def _aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """Texts to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    texts = 3
    return [
        "  ".join(
            cell.ljust(width) if at < texts else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


# --- compact and clean -------------------------------------------------------------------------------------


async def _compact(options: argparse.Namespace) -> None:
    opening = _opened(options)
    async with Progress() as progress, opening as table:
        written = 0

        def tell(count: int) -> None:
            nonlocal written
            written = count

        progress.text = lambda: f"{counted(written, 'row')} written"
        done = await table.compact(
            options.kind, partitions=options.partition, memory_limit=options.memory, on_rows=tell
        )
    if options.json:
        print(json.dumps(asdict(done)))
        return
    for line in compaction_lines(done):
        print(line)


def compaction_lines(done: acid.Compaction) -> list[str]:
    """What a compaction did, as text."""
    return [_compacted(one) for one in done.partitions] or ["nothing to compact"]


def _compacted(one: acid.CompactedPartition) -> str:
    made = ", ".join(map(printable, one.directories))
    deletes = f", {counted(one.delete_count, 'delete')}" if one.delete_count else ""
    return f"{made}: {counted(one.row_count, 'row')}{deletes}, in place of {len(one.replaces)}"


async def _clean(options: argparse.Namespace) -> None:
    async with _opened(options) as table:
        if options.give_up is not None and not options.dry_run:
            dead = await table.abort_dead(older_than_s=options.give_up)
            if dead and not options.json:
                print(f"given up: {', '.join(map(str, dead))}")
        done = await table.clean(older_than_s=options.older_than, remove=not options.dry_run)
    if options.json:
        print(json.dumps(asdict(done)))
        return
    for path in (*done.directories, *done.files):
        print(printable(path))
    verb = "would be removed" if options.dry_run else "removed"
    count = counted(len(done.directories) + len(done.files), "place")
    kept = f"; {len(done.kept)} kept for readers" if done.kept else ""
    print(f"{bytes_text(done.removed_bytes)} in {count} {verb}{kept}")
