"""The command line: the list of its commands, those that are short, and how calls end.

Knows the package's public names and how their values look as text. Must not know what lies under them.
Contract: what is printed loses nothing (`cat`'s JSON holds decimals and large integers as exact numbers);
an error is one line on standard error that names the URL and says what to do; the exit status says whose
fault it is (`_STATUS`), and is 141 where the reader of the output left early, as if the signal for that had
ended the process.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Sequence
from importlib import resources
from typing import Any

import anyio

import orcstream
from orcstream._credentials import strip_credentials
from orcstream._printable import printable
from orcstream.cli.arguments import (
    DURATION_S,
    USAGE_STATUS,
    Parser,
    add_command,
    add_flag,
    add_options,
    given_to,
)
from orcstream.cli.commands.acid import ACID_HELP, add_acid_options
from orcstream.cli.commands.cat import add_row_commands
from orcstream.cli.commands.file import add_file_commands
from orcstream.cli.commands.job import JOB_HELP, add_job_options
from orcstream.cli.commands.keys import STORES_HELP, add_rekeying, opened_keys, rekeying
from orcstream.cli.commands.verify import add_verify_command
from orcstream.cli.convert.convert import add_convert_commands
from orcstream.cli.output import Progress, report, write
from orcstream.figures import bytes_text, counted

# Whose fault it is, by the first class that fits; commands that look whether something is right answer 1.
_STATUS: tuple[tuple[type[Exception], int], ...] = (
    (orcstream.UsageError, USAGE_STATUS),
    (ImportError, USAGE_STATUS),
    (orcstream.FormatError, 3),
    (orcstream.Unsupported, 3),
    (orcstream.KeyUnavailable, 5),
    (OSError, 4),
    (orcstream.OrcError, 1),
)
_SIGPIPE_STATUS = 141
_SIGINT_STATUS = 130

_EXAMPLES = """examples:
  orcstream meta s3://bucket/trips.orc --storage-options '{"anon": true}'
  orcstream stats trips.orc --columns amount,city
  orcstream stripes trips.orc --encodings
  orcstream index trips.orc --columns id --stripes 0:1
  orcstream cat trips.orc --columns id,stop.name --limit 10
  orcstream cat trips.orc --where "amount > 20 and city in ('Berlin', 'Celle')" --format csv
  orcstream cat trips.orc --rows 1000:1010 --row-numbers
  orcstream count s3://bucket/tables/trips/ --where "day = date '2023-11-15'"
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
  orcstream completion bash

`orcstream COMMAND --help` says more about each. The exit status is 0 where all went well, 1 where something
is not as it should be (`verify`), 2 for a call that has to be changed, 3 for a file that cannot be read, 4
where the store fails or has no such file, 5 where a key cannot be had."""
_MERGE_HELP = f"""The target appears whole or not at all, and may be one of the files. A file that does not go
with the first is an error, unless --skip-incompatible; what is left out is named on standard error.

Encrypted files need --keys. --rekey and --new-key encrypt their columns anew; one file is enough for that.

{STORES_HELP}"""
# The names under which shells look for them.
SHELLS = {"bash": "orcstream.bash", "zsh": "_orcstream", "fish": "orcstream.fish"}
_COMPLETION_HELP = """bash, in ~/.bashrc:             eval "$(orcstream completion bash)"
zsh, in a folder of $fpath:     orcstream completion zsh > ~/.zfunc/_orcstream
fish:                           orcstream completion fish > ~/.config/fish/completions/orcstream.fish"""
_CLEANUP_HELP = """URL is a file that was to be written, or a folder, of which everything below is looked at.
On S3 these are all unfinished uploads, whichever program began them; elsewhere temporary files of orcstream's
pattern."""


def main(arguments: list[str] | None = None) -> int:
    """Run one command; answers the exit status."""
    try:
        options = _parse(arguments)
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
    except tuple(kind for kind, _ in _STATUS) as error:
        print("orcstream:", printable(" ".join(str(error).split())), file=sys.stderr)
        return _status_of(error)
    return status or 0


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    try:
        return make_parser().parse_args(arguments)
    except SystemExit:
        sys.stdout.flush()  # of --help and --version; what cannot be written is told like any output
        raise


def _status_of(error: Exception) -> int:
    if isinstance(error, orcstream.Unsupported) and error.reason == "missing_dependency":
        return USAGE_STATUS
    return next(status for kind, status in _STATUS if isinstance(error, kind))


def _warn(message: Warning | str, *_: object, **__: object) -> None:
    """Without the place in the code, which says nothing to who sits before a terminal."""
    print("orcstream:", printable(str(message)), file=sys.stderr)


# --- what was asked for ------------------------------------------------------------------------------------


def make_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    parser = Parser(
        prog="orcstream",
        description="Looks into ORC files, makes and joins them: on disk, in object stores, on the web.",
        epilog=_EXAMPLES,
    )
    parser.add_argument("--version", action=_Version, help="show the version and exit")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    add_file_commands(commands)
    add_row_commands(commands)
    add_verify_command(commands)
    add_convert_commands(commands)
    _add_merge(commands)
    _add_cleanup(commands)
    purpose = "Hive's transactional tables: what lies in them, compaction, cleaning"
    add_acid_options(
        add_command(commands, "acid", None, purpose, "Works on transactional tables.", ACID_HELP)
    )
    purpose, description = (
        "ingest, compact, verify and profile tables on Spark",
        "Works on tables of any size, on Spark.",
    )
    add_job_options(add_command(commands, "job", None, purpose, description, JOB_HELP))
    purpose = "what makes a shell complete commands and options"
    completion = add_command(
        commands, "completion", _print_completion, purpose, f"Prints {purpose}.", _COMPLETION_HELP
    )
    completion.add_argument("shell", choices=tuple(SHELLS), help="the shell that is to load it")
    return parser


def _add_merge(commands: Any) -> None:
    purpose = "one file of several, stripe by stripe"
    description = "Joins files of the same schema, compression and writer into one, without decoding them."
    merge = add_command(commands, "merge", _merge, purpose, description, _MERGE_HELP)
    add_options(merge, "target", help="what to write: a path, or a URL that can be written")
    add_options(merge, "urls", help="what to join, in the order of the rows")
    add_flag(merge, "--skip-incompatible", "leave out files that do not go with the first")
    add_options(merge, "--no-overwrite", "--storage-options", "--target-storage-options")
    add_rekeying(merge)
    add_options(merge, "--json")


def _add_cleanup(commands: Any) -> None:
    purpose = "what killed writers left behind, which is removed"
    cleanup = add_command(commands, "cleanup", _cleanup, purpose, f"Prints {purpose}.", _CLEANUP_HELP)
    add_options(cleanup, "url", "--storage-options")
    purpose = "only what is at least so old: 90s, 15m, 2h, 7d. A writer at work must not lose its parts"
    add_options(cleanup, "--older-than", required=True, help=purpose)
    add_flag(cleanup, "--dry-run", "only say what would be removed", action="store_false", dest="remove")
    add_options(cleanup, "--json")


class _Version(argparse.Action):
    """Looks the version up when it is asked for, which takes a while."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str) -> None:
        super().__init__(option_strings, dest, nargs=0, default=argparse.SUPPRESS, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib import metadata

        try:
            version = metadata.version("orcstream")
        except metadata.PackageNotFoundError:
            version = "that is not installed"
        sys.stdout.write(f"orcstream {version}\n")
        parser.exit()


# --- cleanup -----------------------------------------------------------------------------------------------


async def _cleanup(options: argparse.Namespace) -> None:
    async with Progress() as progress:
        progress.text = lambda: f"looking below {strip_credentials(options.url)}"
        found = await orcstream.cleanup(**given_to(orcstream.cleanup, options))
    done = "removed" if options.remove else "would remove"
    lines = [f"{done} {one.kind} {one.identity}" + _of_what(one) for one in found]
    leftovers = [
        {"kind": one.kind, "identity": one.identity, "url": one.url, "age_s": one.age_s} for one in found
    ]
    report(options, {"removed": options.remove, "leftovers": leftovers}, [*lines, f"{len(found)} found"])


def _of_what(leftover: Any) -> str:
    target = f" to {leftover.url}" if leftover.url != leftover.identity else ""
    return target if leftover.age_s is None else f"{target}, {_age(leftover.age_s)} old"


def _age(age_s: float) -> str:
    """In the largest unit of which there is one, rounded down."""
    unit = next((unit for unit in "dhm" if age_s >= DURATION_S[unit]), "s")
    return f"{max(0, int(age_s // DURATION_S[unit]))}{unit}"


# --- merge -------------------------------------------------------------------------------------------------


async def _merge(options: argparse.Namespace) -> None:
    async with Progress() as progress:

        def show(done: int, total: int) -> None:
            share = done / max(1, total)
            progress.text = lambda: f"{bytes_text(done)} of {bytes_text(total)} ({share:.0%})"

        async with opened_keys(options.keys) as keys, opened_keys(options.target_keys) as target_keys:
            given = given_to(
                orcstream.merge,
                options,
                keys=keys,
                rekey=rekeying(options),
                target_keys=target_keys,
                progress=show,
            )
            result = await orcstream.merge(**given)
    for skipped in result.skipped:
        sys.stderr.write(f"orcstream: skipped {printable(f'{skipped.shown}: {skipped.message}')}\n")
    document = {
        "url": result.url,
        "row_count": result.row_count,
        "stripe_count": result.stripe_count,
        "length": result.length,
        "file_count": len(result.files),
        "skipped": [
            {"url": one.shown, "reason": one.reason, "message": one.message} for one in result.skipped
        ],
    }
    text = (
        f"{result.url}: {counted(result.row_count, 'row')} in {counted(result.stripe_count, 'stripe')} of "
        f"{counted(len(result.files), 'file')}, {bytes_text(result.length)}"
    )
    report(options, document, [text])


# --- completion --------------------------------------------------------------------------------------------


async def _print_completion(options: argparse.Namespace) -> None:
    """The script of one shell, made beforehand of the parser by `scripts/command_line.py`."""
    folder = resources.files("orcstream") / "completions"
    write([(folder / SHELLS[options.shell]).read_text("utf-8").rstrip("\n")])
