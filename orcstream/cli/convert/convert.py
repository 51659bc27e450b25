"""The command `orcstream convert`: CSV, JSON, Parquet and ORC into one ORC file.

Knows the sources' formats by name, and `orcstream.create`. Must not know how rows lie in files
(`cli.convert.rows`, `cli.convert.arrow`). Contract: the target appears whole or not at all, whatever goes
wrong; rows flow, so that memory does not grow with the source; what was done is one line.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import anyio
import anyio.to_thread

import orcstream
from orcstream._credentials import strip_credentials
from orcstream.cli.arguments import (
    Options,
    add_command,
    add_flag,
    add_options,
    add_pairs,
    byte_size,
    given_to,
)
from orcstream.cli.commands.keys import (
    add_encryption,
    check_hidden,
    encryption,
    hidden_columns,
    opened,
    opened_keys,
    say_masked,
)
from orcstream.cli.convert.arrow import (
    arrow_csv_rows,
    arrow_json_rows,
    has_pyarrow,
    parquet_rows,
    reads_json,
    system_pool,
)
from orcstream.cli.convert.input import STANDARD_INPUT, Input, Origin, open_input, open_seekable, suffixes
from orcstream.cli.convert.rows import ADVICE, CsvOptions, Rows, csv_rows, json_rows
from orcstream.cli.output import Progress, report
from orcstream.encryption import KeyProvider
from orcstream.figures import bytes_text, counted
from orcstream.io.urls import protocol_of

_CONVERT_HELP = """SOURCE and TARGET are paths or URLs of fsspec; SOURCE - is standard input. The format is
that of its name: .csv, .tsv, .json, .jsonl, .ndjson, .parquet or .orc; text with .gz, .bz2, .xz, .zst or .lz4
after that is decompressed.

In CSV, an empty field is null and "" the empty text; the first line has the names. Types come from the first
rows, or from --schema, such as 'struct<id:bigint,zip:string,price:decimal(10,2)>': columns that it leaves out
are not read. Parquet needs pyarrow; CSV and JSON are read faster with it.

The target appears whole or not at all. Options that say how it is written are those of orcstream.create."""
_MASK_HELP = """--mask takes the name of a mask, its parameters after commas, and columns after a colon:
nullify:a,b or sha256:email or redact:ssn or 'redact,`__9`:phone'. docs/masks.md says what becomes of what.
Encrypted columns are read with --keys, or else as their masks left them. Those that are open have to be
masked or encrypted in the copy, too, or left out; --decrypt writes them in the clear.

The copy appears whole or not at all."""
_FORMATS = {
    "csv": "csv",
    "tsv": "csv",
    "json": "json",
    "jsonl": "json",
    "ndjson": "json",
    "parquet": "parquet",
    "orc": "orc",
}
# What only some sources take, by the names of the options.
_ONLY_CSV = ("delimiter", "no_header", "column_names", "null")
_ONLY_ORC = ("columns", "where", "rows", "timestamp_unit")
_LEAST_MEMORY = 32 << 20
# Rows of CSV and JSON may be so long, and a 64th of the memory.
_LEAST_ROW = 1 << 20
_LOCAL = ("file", "local")

T = TypeVar("T")


# --- what was asked for ------------------------------------------------------------------------------------


def add_convert_commands(commands: Any) -> None:
    """`convert` and `mask`."""
    purpose = "CSV, JSON, Parquet and ORC into an ORC file"
    description = "Writes an ORC file of the rows of another file, whatever its size."
    command = add_command(commands, "convert", _convert, purpose, description, _CONVERT_HELP)
    add_options(command, "source", help="what to convert: a path, a URL, or -")
    _add_target(command)
    command.add_argument("--from", dest="format", choices=sorted(_FORMATS), help="the format of SOURCE")
    source = command.add_argument_group("CSV")
    purpose = "between fields (default: , or tab for .tsv)"
    source.add_argument("--delimiter", type=_delimiter, metavar="C", help=purpose)
    add_flag(source, "--no-header", "the first line is a row", default=None)
    source.add_argument("--column-names", type=_names, metavar="a,b", help="in place of those of the header")
    purpose = "what null is in place of the empty field; repeatable"
    source.add_argument("--null", action="append", metavar="TEXT", help=purpose)
    _add_writing(command, compression="zstd")
    _add_reading(command, command.add_argument_group("rows of ORC files; --schema is for all"))

    purpose = "a copy of an ORC file with columns masked"
    description = "Writes a copy of an ORC file whose columns hold what masks left of their values."
    command = add_command(commands, "mask", _mask, purpose, description, _MASK_HELP)
    add_options(command, "source", help="an ORC file: a path or a URL")
    _add_target(command)
    command.set_defaults(format="orc", **dict.fromkeys(_ONLY_CSV))
    _add_writing(command, compression=None)
    _add_reading(command, command)


def _add_target(command: argparse.ArgumentParser) -> None:
    add_options(command, "target", help="the ORC file: a path, or a URL that can be written")


def _add_writing(command: argparse.ArgumentParser, *, compression: str | None) -> None:
    target = command.add_argument_group("the file that is written")
    purpose = f"none, zlib, snappy, lz4, zstd, … (default: {compression or 'that of SOURCE'})"
    target.add_argument("--compression", default=compression, metavar="NAME", help=purpose)
    target.add_argument("--compression-level", type=int, metavar="N", help="on the codec's own scale")
    purpose = "(default: 64MB)"
    target.add_argument("--stripe-bytes", type=byte_size, default=64 << 20, metavar="SIZE", help=purpose)
    purpose = "a column that gets bloom filters; repeatable"
    target.add_argument("--bloom", dest="blooms", action="append", metavar="COLUMN", help=purpose)
    target.add_argument("--timezone", default="UTC", help="in which timestamps are stored; their values stay")
    purpose = "also take times of the last second before 1970, which readers give back as a second later"
    add_flag(target, "--lossy-timestamps", purpose)
    add_pairs(target, "--meta", "user_metadata", "user metadata; repeatable")
    add_options(target, "--no-overwrite")
    add_encryption(target)
    purpose = "at least 32MB, half for reading and half for writing (default: 512MB)"
    add_options(command, "--memory-limit", default=512 << 20, help=purpose)
    add_options(command, "--target-storage-options")


def _add_reading(command: argparse.ArgumentParser, rows: Options) -> None:
    """How a file is opened that is to be copied, and which of its `rows` are."""
    add_options(rows, "--columns", "--where", "--rows", "--schema", "--timestamp-unit")
    add_options(command, "--storage-options", "--keys", "--require-keys", "--json")


def _delimiter(text: str) -> str:
    text = {"\\t": "\t", "tab": "\t"}.get(text, text)
    if len(text) != 1 or not text.isascii() or text in '"\r\n':
        raise argparse.ArgumentTypeError(f"{text!r} is no single character that can stand between fields")
    return text


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _check_target(target: str) -> None:
    """What is written is ORC: under the name of another format nobody would look for it."""
    shown = strip_credentials(target)
    if target == STANDARD_INPUT:
        raise orcstream.UsageError("an ORC file is not written to standard output: name a file", url=shown)
    if _FORMATS.get(suffixes(target)[0], "orc") != "orc":
        raise orcstream.UsageError(
            "what is written is an ORC file, and this is the name of another format; "
            "`orcstream cat SOURCE`, with --format csv or json, prints the rows of one",
            url=shown,
        )


def _format(options: argparse.Namespace) -> str:
    found: str | None = _FORMATS.get(options.format or suffixes(options.source)[0])
    shown = strip_credentials(options.source)
    if found is None:
        raise orcstream.UsageError("the name does not say what this is; give --from", url=shown)
    for only, names in (("csv", _ONLY_CSV), ("orc", _ONLY_ORC)):
        given = next((name for name in names if getattr(options, name) is not None), None)
        if given is not None and found != only:
            option = given.replace("_", "-")
            raise orcstream.UsageError(f"--{option} is for {only.upper()} and not for {found}", url=shown)
    if found in ("parquet", "orc") and (options.source == STANDARD_INPUT or suffixes(options.source)[1]):
        raise orcstream.UsageError(
            f"{found} is read from several places at once: give a file that is not compressed as a whole",
            url=shown,
        )
    if options.memory_limit < _LEAST_MEMORY:
        raise orcstream.UsageError("--memory-limit must be at least 32MB")
    return found


# --- the work ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Reading:
    """A source that is open: `next` answers rows for `OrcWriter.write`, or None at the end."""

    schema: Any
    compression: str
    next: Callable[[], Any]
    done: Callable[[], tuple[int, int | None]]
    metadata: Mapping[str, bytes]
    shown: str


async def _convert(options: argparse.Namespace) -> None:
    """Convert as asked. Raises what reading and `create` raise."""
    format_ = _format(options)
    _check_target(options.target)
    target_options = options.target_storage_options
    encrypt, masks = encryption(options)
    async with (
        Progress() as progress,
        opened_keys(options.keys) as keys,
        (_reading_orc if format_ == "orc" else _reading_other)(options, format_, progress, keys) as reading,
        orcstream.create(
            options.target,
            **given_to(
                orcstream.create,
                options,
                schema=reading.schema,
                encrypt=encrypt,
                masks=masks,
                keys=keys,
                compression=options.compression or reading.compression,
                user_metadata={**reading.metadata, **dict(options.user_metadata)},
                memory_limit=options.memory_limit // 2,
                storage_options=options.storage_options if target_options is None else target_options,
            ),
        ) as out,
    ):
        await _copy(reading, out, progress)
    result = out.result
    document = {
        "url": result.url,
        "row_count": result.row_count,
        "stripe_count": result.stripe_count,
        "length": result.length,
        "elapsed_s": round(progress.elapsed_s, 3),
    }
    text = (
        f"{result.url}: {counted(result.row_count, 'row')} in {counted(result.stripe_count, 'stripe')}, "
        f"{bytes_text(result.length)}, {progress.elapsed_s:.1f} s"
    )
    report(options, document, [text])


async def _mask(options: argparse.Namespace) -> None:
    """Convert an ORC file, some of whose columns have to be hidden."""
    if not options.mask and not options.encrypt:
        raise orcstream.UsageError("nothing would be masked: give --mask MASK:COLUMN")
    await _convert(options)


async def _copy(reading: _Reading, out: orcstream.OrcWriter, progress: Progress) -> None:
    progress.text = lambda: f"{out.row_count:,} rows, {_done(reading.done(), progress)}"
    while (rows := await reading.next()) is not None:
        try:
            await out.write(rows)
        except orcstream.SchemaMismatch as error:
            # Rows of the data become rows of the source, whose fault it is.
            error.row = None if error.row is None else error.row + out.row_count
            error.url, error.column = reading.shown, None
            error.message += f"; {ADVICE}"
            raise


def _done(counts: tuple[int, int | None], progress: Progress) -> str:
    done, total = counts
    share = f" of {bytes_text(total)} ({done / total:.0%})" if total else ""
    return f"{bytes_text(done)}{share}, {bytes_text(done / progress.elapsed_s)}/s"


# --- sources -----------------------------------------------------------------------------------------------


@asynccontextmanager
async def _reading_orc(
    options: argparse.Namespace, _: str, __: Progress, keys: KeyProvider | None
) -> AsyncIterator[_Reading]:
    async with (
        opened(options, options.source, keys) as file,
        file.batches(**given_to(file.batches, options, memory_limit=options.memory_limit // 2)) as stream,
    ):
        check_hidden(file, stream.schema, options)
        say_masked(stream.masked_columns)
        whole = options.columns is None and options.where is None and options.rows is None
        total = file.tail.file_length if whole and options.schema is None else None
        yield _Reading(
            stream.schema,
            str(file.compression),
            lambda: anext(stream, None),
            lambda: (stream.stats.bytes_read, total),
            file.user_metadata,
            file.url,
        )


@asynccontextmanager
async def _reading_other(
    options: argparse.Namespace, format_: str, progress: Progress, _: KeyProvider | None
) -> AsyncIterator[_Reading]:
    storage_options = options.storage_options or {}
    if format_ == "parquet":
        async with _reading_parquet(options, storage_options) as parquet:
            yield parquet
        return
    source = await _on_thread(partial(open_input, options.source, storage_options))
    progress.text = lambda: _done((source.bytes_read, source.total_bytes), progress)
    with _closed(source):
        rows = await _on_thread(partial(_text_rows, source, options, format_))
        yield _Reading(
            rows.schema,
            "zstd",
            lambda: _on_thread(lambda: next(rows.batches, None)),
            lambda: (source.bytes_read, source.total_bytes),
            {},
            source.shown,
        )


@asynccontextmanager
async def _reading_parquet(
    options: argparse.Namespace, storage_options: Mapping[str, Any]
) -> AsyncIterator[_Reading]:
    shown = strip_credentials(options.source)
    if not has_pyarrow():
        raise orcstream.UsageError(
            "Parquet is read by pyarrow, which is not installed: pip install pyarrow", url=shown
        )
    file = await _on_thread(partial(open_seekable, options.source, storage_options))
    is_local = protocol_of(options.source) in _LOCAL
    memory_bytes = options.memory_limit // 16
    with system_pool(), _closed(file):
        rows = await _on_thread(
            partial(parquet_rows, file, options.schema, shown, memory_bytes, is_local=is_local)
        )
        total = getattr(file, "size", None)
        yield _Reading(
            rows.schema,
            "zstd",
            lambda: _on_thread(lambda: next(rows.batches, None)),
            lambda: (file.tell(), total),
            {},
            shown,
        )


@contextmanager
def _closed(file: Any) -> Iterator[None]:
    """Close the file in the end, unless a thread that nobody waits for may be at it."""
    try:
        yield
    except asyncio.CancelledError:
        raise
    except BaseException:
        file.close()
        raise
    file.close()


def _text_rows(source: Input, options: argparse.Namespace, format_: str) -> Rows:
    longest = max(_LEAST_ROW, options.memory_limit // 64)
    origin = Origin(source.shown, longest, hidden_columns(options))
    rows: Rows | None = None
    if format_ == "csv":
        is_tsv = (options.format or suffixes(options.source)[0]) == "tsv"
        layout = CsvOptions(
            options.delimiter or ("\t" if is_tsv else ","),
            not options.no_header,
            options.column_names or (),
            ("",) if options.null is None else tuple(options.null),
        )
        if has_pyarrow():
            rows = arrow_csv_rows(source, layout, options.schema, origin)
        return rows or csv_rows(source, layout, options.schema, origin)
    if has_pyarrow() and reads_json(options.schema) and not source.head(1 << 10).lstrip().startswith(b"["):
        rows = arrow_json_rows(source, options.schema, origin)
    return rows or json_rows(source, options.schema, origin)


async def _on_thread(work: Callable[[], T]) -> T:
    """The answer of something that blocks. Who is cancelled does not wait for bytes that never come."""
    return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
