"""The command line: its commands and what they take; what is larger than a few lines is in `cli_*`.

Knows the package's public names and how their values look as text. Must not know what lies under them.
Contract: what is printed loses nothing (`cat`'s JSON holds decimals and large integers as exact numbers);
an error is one line on standard error that names the URL; the exit status is 2 for a call that has to be
changed, 1 for everything else that fails, and 141 where the reader of the output left early, as if the
signal for that had ended the process.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import sys
import warnings
from collections.abc import Awaitable, Callable, Iterable
from importlib import metadata
from typing import Any, TypeVar

import anyio

import orcstream
from orcstream.cli_acid import ACID_HELP, add_acid_options
from orcstream.cli_arguments import DURATION_S, duration_s
from orcstream.cli_convert import CONVERT_HELP, MASK_HELP, add_convert_options, add_mask_options, convert
from orcstream.cli_inspect import INSPECT_HELP, add_inspect_options, inspect_file
from orcstream.cli_job import JOB_HELP, add_job_options
from orcstream.cli_keys import (
    KEYS_HELP,
    STORES_HELP,
    add_keys,
    add_rekeying,
    key_lines,
    opened,
    opened_keys,
    rekeying,
    say_masked,
)
from orcstream.cli_progress import Progress
from orcstream.cli_text import csv_format, csv_row, json_format, json_row
from orcstream.cli_verify import VERIFY_HELP, add_verify_options, verify
from orcstream.figures import bytes_text, known_statistics, writer_name
from orcstream.schema import Kind

__all__ = ["main"]

_SIGPIPE_STATUS = 141
_SIGINT_STATUS = 130
# Enough for each hand-over to be cheap, few enough for the output to flow.
_BATCH_ROWS = 1 << 14
# Counts of rows have 64 bits in the format, and one of them is a sign in practice.
_COUNT_DIGITS = 18

T = TypeVar("T")
# A group takes arguments as a parser does; typing's name for what both are is no public one.
_Options = argparse._ActionsContainer  # noqa: SLF001
_EXAMPLES = """examples:
  orcstream meta s3://bucket/trips.orc --storage-options '{"anon": true}'
  orcstream cat trips.orc --columns id,stop.name --limit 10
  orcstream cat trips.orc --where "amount > 20 and city in ('Berlin', 'Celle')" --format csv
  orcstream cat trips.orc --rows 1000:1010 --row-numbers
  orcstream count trips.orc --where "started >= timestamp '2023-11-15 00:00:00'"
  orcstream keys trips.orc --keys kms://http@localhost:9600/kms
  orcstream mask trips.orc shared.orc --mask redact:city --mask sha256:stop.name
  orcstream plan trips.orc --where "id = 4711" --columns city
  orcstream inspect trips.orc -o trips.html --where "id = 4711" --run
  orcstream verify trips.orc
  orcstream merge all.orc trips.orc trips.orc
  orcstream merge all.orc trips.orc trips.orc --keys kms://http@localhost:9600/kms --rekey
  orcstream cleanup s3://bucket/tables/trips/ --older-than 2d --dry-run
  orcstream job compact s3://bucket/tables/trips/
  orcstream acid show s3://bucket/warehouse/orders
  orcstream convert trips.orc trips-of-berlin.orc --where "city = 'Berlin'" --bloom id

`orcstream COMMAND --help` says more about each."""
_WHERE_HELP = """--where takes what follows WHERE in SQL, as far as it asks about one column at a time:
  amount > 100 and city in ('Oslo', 'Rome') and not flag
  name starts with 'A' or stop.name is null or `odd name` between -1 and 1.5
  day = date '2020-01-31' and ts < timestamp '2020-01-31 12:00:00' and at < timestamp '2020-01-31 12:00:00Z'
A comparison with a null is neither true nor false, and rows are kept where the whole is true.

--schema reads columns as other types, such as 'struct<id:string,amount:decimal(10,2)>': columns that it
leaves out are not read, those that the file lacks are null, and so are values that do not fit."""
_MERGE_HELP = f"""The target appears whole or not at all, and may be one of the files. A file that does not go
with the first is an error, unless --skip-incompatible; what is left out is named on standard error.

Encrypted files need --keys. --rekey and --new-key encrypt their columns anew; one file is enough for that.

{STORES_HELP}"""


_CLEANUP_HELP = """URL is a file that was to be written, or a folder, of which everything below is looked at.
On S3 these are all unfinished uploads, whichever program began them; elsewhere temporary files of orcstream's
pattern."""


def main(arguments: list[str] | None = None) -> int:
    """Run one command; answers the exit status."""
    options = _parser().parse_args(arguments)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default", UserWarning)
            warnings.showwarning = _warn
            status: int | None = anyio.run(options.main, options)
        sys.stdout.flush()
    except BrokenPipeError:
        # What is still buffered has no reader; Python would complain about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _SIGPIPE_STATUS
    except KeyboardInterrupt:
        return _SIGINT_STATUS
    except (orcstream.OrcError, OSError, ImportError) as error:
        print("orcstream:", " ".join(str(error).split()), file=sys.stderr)
        return 2 if isinstance(error, orcstream.UsageError) else 1
    return status or 0


def _warn(message: Warning | str, *_: object, **__: object) -> None:
    """Without the place in the code, which says nothing to who sits before a terminal."""
    print("orcstream:", message, file=sys.stderr)


# --- what was asked for ------------------------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="orcstream",
        description="Looks into ORC files, makes and joins them: on disk, in object stores, on the web.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=_version())
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    meta = _looking(commands, "meta", _meta, "schema, rows, stripes, compression, writer and statistics")
    meta.add_argument("--json", action="store_true", help="as one JSON object")

    cat = _looking(commands, "cat", _cat, "the rows, as they arrive", _WHERE_HELP)
    _add_columns(cat)
    _add_selection(cat)
    cat.add_argument("--limit", type=_count, metavar="N", help="stop after N rows")
    cat.add_argument(
        "--format", choices=("json", "csv"), default="json", help="one JSON value a line, or CSV"
    )
    cat.add_argument(
        "--row-numbers", action="store_true", help="each row's number in the file, as row_number"
    )
    _add_unit(cat)

    count = _looking(commands, "count", _count_rows, "how many rows there are, or match", _WHERE_HELP)
    _add_selection(count)
    _add_unit(count)

    plan = _looking(
        commands, "plan", _plan, "what reading would ask the store for, without reading", _WHERE_HELP
    )
    _add_columns(plan)
    _add_selection(plan)

    _add_inspect(commands)

    keys = _looking(
        commands, "keys", _keys, "which columns are encrypted, with which keys, and which are open", KEYS_HELP
    )
    keys.add_argument("--json", action="store_true", help="as one JSON object")

    merge = _command(
        commands,
        "merge",
        _merge,
        "one file of several, stripe by stripe",
        "Joins files of the same schema, compression and writer into one, without decoding them.",
        _MERGE_HELP,
    )
    merge.add_argument("target", metavar="TARGET", help="what to write: a path, or a URL that can be written")
    merge.add_argument("urls", metavar="URL", nargs="+", help="what to join, in the order of the rows")
    merge.add_argument(
        "--skip-incompatible", action="store_true", help="leave out files that do not go with the first"
    )
    merge.add_argument("--no-overwrite", action="store_true", help="fail where there is a file already")
    _add_storage_options(merge)
    merge.add_argument(
        "--target-storage-options", type=_json_object, metavar="JSON", help="others, for TARGET"
    )
    add_rekeying(merge)

    purpose = "what killed writers left behind, which is removed"
    cleanup = _command(commands, "cleanup", _cleanup, purpose, f"Prints {purpose}.", _CLEANUP_HELP)
    _add_url(cleanup)
    cleanup.add_argument(
        "--older-than",
        type=duration_s,
        required=True,
        metavar="AGE",
        help="only what is at least so old: 90s, 15m, 2h, 7d. A writer at work must not lose its parts",
    )
    cleanup.add_argument("--dry-run", action="store_true", help="only say what would be removed")

    verifying = _command(
        commands,
        "verify",
        verify,
        "whether files can be read and are what they say",
        "Reads files to their end, and looks whether what they say of their values is true.",
        VERIFY_HELP,
    )
    add_verify_options(verifying)
    _add_storage_options(verifying)

    converting = _command(
        commands,
        "convert",
        convert,
        "CSV, JSON, Parquet and ORC into an ORC file",
        "Writes an ORC file of the rows of another file, whatever its size.",
        CONVERT_HELP,
    )
    add_convert_options(converting, _json_object, _columns)
    _add_source(converting, converting.add_argument_group("rows of ORC files; --schema is for all"))

    job = _command(
        commands,
        "job",
        None,
        "ingest, compact, verify and profile tables on Spark",
        "Works on tables of any size, on Spark.",
        JOB_HELP,
    )
    add_job_options(job, _json_object)

    tables = _command(
        commands,
        "acid",
        None,
        "Hive's transactional tables: what lies in them, compaction, cleaning",
        "Works on transactional tables.",
        ACID_HELP,
    )
    add_acid_options(tables, _json_object)

    masking = _command(
        commands,
        "mask",
        _mask,
        "a copy of an ORC file with columns masked",
        "Writes a copy of an ORC file whose columns hold what masks left of their values.",
        MASK_HELP,
    )
    add_mask_options(masking, _json_object, _columns)
    _add_source(masking, masking)
    return parser


def _add_inspect(commands: Any) -> None:
    inspecting = _command(
        commands,
        "inspect",
        inspect_file,
        "a file's layout, and what a question reads of it: as a page, or text",
        "Shows where the bytes of a file are, and which of them a question reads.",
        INSPECT_HELP,
    )
    _add_url(inspecting)
    add_inspect_options(inspecting)
    _add_columns(inspecting)
    _add_where_and_rows(inspecting)
    add_keys(inspecting)


def _command(
    commands: Any,
    name: str,
    main: Callable[[argparse.Namespace], Awaitable[int | None]] | None,
    purpose: str,
    description: str,
    epilog: str | None,
) -> argparse.ArgumentParser:
    """A command; `purpose` is what the list of all says of it. Without `main` it has some of its own."""
    command: argparse.ArgumentParser = commands.add_parser(
        name,
        help=purpose,
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.set_defaults(main=main)
    return command


def _looking(
    commands: Any,
    name: str,
    run: Callable[[orcstream.OrcFile, argparse.Namespace], Awaitable[None]],
    purpose: str,
    epilog: str | None = None,
) -> argparse.ArgumentParser:
    """A command that looks into one file, which is opened for it."""
    command = _command(commands, name, _look, purpose, f"Prints {purpose}.", epilog)
    command.set_defaults(run=run)
    _add_url(command)
    add_keys(command)
    return command


def _add_url(command: argparse.ArgumentParser) -> None:
    command.add_argument("url", metavar="URL", help="a path, or any URL that fsspec knows")
    _add_storage_options(command)


def _add_source(command: argparse.ArgumentParser, rows: _Options) -> None:
    """How a file is opened that is to be copied, and which of its `rows` are."""
    _add_columns(rows)
    _add_selection(rows)
    _add_unit(rows, default=None)
    _add_storage_options(command)
    add_keys(command)


def _add_storage_options(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--storage-options",
        type=_json_object,
        metavar="JSON",
        help="what fsspec's file system takes, such as '{\"anon\": true}'",
    )


def _add_columns(command: _Options) -> None:
    command.add_argument(
        "--columns",
        type=_columns,
        metavar="a,b.c",
        help="names, dots for fields; `backquotes` around names that hold dots or commas",
    )


def _add_selection(command: _Options) -> None:
    _add_where_and_rows(command)
    command.add_argument(
        "--schema",
        type=_parsed_by(orcstream.Schema.parse),
        metavar="TEXT",
        help="the types to read the file as",
    )


def _add_where_and_rows(command: _Options) -> None:
    command.add_argument(
        "--where",
        type=_parsed_by(orcstream.Expr.parse),
        metavar="TEXT",
        help="only rows of which this is true, such as \"amount > 100 and city = 'Oslo'\"",
    )
    command.add_argument(
        "--rows",
        type=_rows,
        metavar="A:B",
        help="only rows A up to B, without B; they count from 0, and either may be left out",
    )


def _add_unit(command: _Options, default: str | None = "ns") -> None:
    command.add_argument(
        "--timestamp-unit",
        choices=("s", "ms", "us", "ns"),
        default=default,
        help="of times (default: ns, which reaches from 1677 to 2262 only)",
    )


def _version() -> str:
    try:
        return f"orcstream {metadata.version('orcstream')}"
    except metadata.PackageNotFoundError:
        return "orcstream, not installed"


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > _COUNT_DIGITS:
        raise argparse.ArgumentTypeError(f"{text!r} is no count of rows")
    return int(text)


def _rows(text: str) -> range:
    start, colon, stop = text.partition(":")
    if not colon or not all(not part or (part.isascii() and part.isdigit()) for part in (start, stop)):
        raise argparse.ArgumentTypeError(f"{text!r} are no rows; write 1000:2000, 1000: or :2000")
    return range(_count(start or "0"), _count(stop) if stop else sys.maxsize)


def _parsed_by(parse: Callable[[str], T]) -> Callable[[str], T]:
    """What argparse takes as a type; it knows no errors of ours."""

    def parsed(text: str) -> T:
        try:
            return parse(text)
        except orcstream.OrcError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parsed


def _json_object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"no JSON: {error}") from None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError("must be a JSON object")
    return value


def _columns(text: str) -> list[str | tuple[str, ...]]:
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


async def _look(options: argparse.Namespace) -> None:
    async with opened_keys(options.keys) as keys, opened(options, options.url, keys) as file:
        await options.run(file, options)


def _write(lines: Iterable[str]) -> None:
    """Lines to standard output: always UTF-8, and at once."""
    sys.stdout.buffer.write("".join(line + "\n" for line in lines).encode())
    sys.stdout.buffer.flush()


def _selection(options: argparse.Namespace) -> dict[str, Any]:
    return {"where": options.where, "rows": options.rows, "schema": options.schema}


async def _mask(options: argparse.Namespace) -> None:
    if not options.mask and not options.encrypt:
        raise orcstream.UsageError("nothing would be masked: give --mask MASK:COLUMN")
    await convert(options)


# --- cleanup -----------------------------------------------------------------------------------------------


async def _cleanup(options: argparse.Namespace) -> None:
    found = await orcstream.cleanup(
        options.url,
        older_than_s=options.older_than,
        remove=not options.dry_run,
        storage_options=options.storage_options,
    )
    done = "would remove" if options.dry_run else "removed"
    _write(f"{done} {one.kind} {one.identity}" + _of_what(one) for one in found)
    _write([f"{len(found)} found"])


def _of_what(leftover: Any) -> str:
    target = f" to {leftover.url}" if leftover.url != leftover.identity else ""
    return target if leftover.age_s is None else f"{target}, {_age(leftover.age_s)} old"


def _age(age_s: float) -> str:
    """In the largest unit of which there is one, rounded down."""
    unit = next((unit for unit in "dhm" if age_s >= DURATION_S[unit]), "s")
    return f"{max(0, int(age_s // DURATION_S[unit]))}{unit}"


# --- meta, plan, keys and count ----------------------------------------------------------------------------


async def _plan(file: orcstream.OrcFile, options: argparse.Namespace) -> None:
    _write([str(await file.explain(columns=options.columns, **_selection(options)))])


async def _keys(file: orcstream.OrcFile, options: argparse.Namespace) -> None:
    _write(key_lines(file, as_json=options.json))


async def _count_rows(file: orcstream.OrcFile, options: argparse.Namespace) -> None:
    count = 0
    async with file.batches(
        columns=[], timestamp_unit=options.timestamp_unit, **_selection(options)
    ) as stream:
        async for batch in stream:
            count += batch.num_rows
    _write([str(count)])


async def _meta(file: orcstream.OrcFile, options: argparse.Namespace) -> None:
    facts = _facts(file)
    if options.json:
        _write([json.dumps(facts, ensure_ascii=False)])
        return
    stripes, statistics = facts.pop("stripes"), facts.pop("statistics")
    user_metadata = facts.pop("user_metadata")
    _write(f"{name.replace('_', ' ') + ':':<24}{value}" for name, value in facts.items() if value is not None)
    _write(f"user metadata:          {name} = {value}" for name, value in user_metadata.items())
    _write([f"stripes:                {len(stripes)}"])
    _write(
        f"  {number}: rows {stripe['rows']:,} from {stripe['first_row']:,}, {stripe['bytes']:,} bytes "
        f"at {stripe['file_offset']:,}"
        for number, stripe in enumerate(stripes)
    )
    _write(["statistics:"])
    _write(
        f"  {column}: " + ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in known.items())
        for column, known in statistics.items()
    )


def _facts(file: orcstream.OrcFile) -> dict[str, Any]:
    postscript, footer = file.tail.postscript, file.tail.footer
    return {
        "url": file.url,
        "rows": file.row_count,
        "schema": str(file.schema),
        "file_bytes": file.tail.file_length,
        "format_version": ".".join(map(str, postscript.version)),
        "compression": file.compression.name,
        "compression_block_size": postscript.compression_block_size,
        "writer": writer_name(footer.writer),
        "writer_version": postscript.writer_version,
        "software_version": footer.software_version,
        "calendar": footer.calendar.name,
        "row_index_stride": footer.row_index_stride,
        "encrypted": footer.encryption is not None,
        "user_metadata": {name: _text(value) for name, value in file.user_metadata.items()},
        "stripes": [
            {
                "file_offset": stripe.offset,
                "bytes": stripe.range.length,
                "first_row": stripe.first_row,
                "rows": stripe.row_count,
            }
            for stripe in file.stripes
        ],
        "statistics": {column: known_statistics(known) for column, known in file.statistics.items()},
    }


def _text(value: bytes) -> str:
    """Most user metadata is text; what is not comes in base64."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return "base64:" + base64.b64encode(value).decode()


# --- merge -------------------------------------------------------------------------------------------------


async def _merge(options: argparse.Namespace) -> None:
    async with Progress() as progress:

        def show(done: int, total: int) -> None:
            share = done / max(1, total)
            progress.text = lambda: f"{bytes_text(done)} of {bytes_text(total)} ({share:.0%})"

        async with opened_keys(options.keys) as keys, opened_keys(options.target_keys) as target_keys:
            result = await orcstream.merge(
                options.urls,
                options.target,
                storage_options=options.storage_options,
                target_storage_options=options.target_storage_options,
                overwrite=not options.no_overwrite,
                skip_incompatible=options.skip_incompatible,
                keys=keys,
                rekey=rekeying(options),
                target_keys=target_keys,
                progress=show,
            )
    for skipped in result.skipped:
        sys.stderr.write(f"orcstream: skipped {skipped.shown}: {skipped.message}\n")
    _write(
        [
            f"{result.url}: {result.row_count:,} rows in {result.stripe_count:,} stripes of "
            f"{len(result.files):,} files, {result.length:,} bytes"
        ]
    )


# --- cat ---------------------------------------------------------------------------------------------------


async def _cat(file: orcstream.OrcFile, options: argparse.Namespace) -> None:
    left = file.row_count if options.limit is None else min(options.limit, file.row_count)
    async with file.batches(
        columns=options.columns,
        **_selection(options),
        row_numbers=options.row_numbers,
        timestamp_unit=options.timestamp_unit,
        # The first rows need not wait for more than was asked for.
        batch_rows=max(1, min(left, _BATCH_ROWS)),
    ) as stream:
        say_masked(stream.masked_columns)
        root = stream.schema.root
        is_struct = root.kind is Kind.STRUCT
        names = root.field_names if is_struct else ("value",)
        types = root.children if is_struct else (root,)
        if options.format == "csv":
            _write([csv_row(names)])
            formats, row = [csv_format(type_) for type_ in types], ",".join
        else:
            formats = [json_format(type_) for type_ in types]
            row = json_row(names) if is_struct else "".join
        while left and (batch := await anext(stream, None)) is not None:
            batch = batch.slice(0, left)
            columns = [
                list(map(format_, batch.column(index).to_pylist())) for index, format_ in enumerate(formats)
            ]
            _write(map(row, zip(*columns, strict=True) if columns else [()] * batch.num_rows))
            left -= batch.num_rows
