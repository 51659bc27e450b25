"""The command line's `verify`: whether files can be read, and whether what they say of themselves is true.

Knows how findings look as text and as JSON. Must not know how they are made.
"""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

import orcstream
from orcstream._credentials import strip_credentials
from orcstream.cli.arguments import add_command, add_flag, add_options
from orcstream.cli.commands.keys import opened, opened_keys
from orcstream.cli.output import Progress, report
from orcstream.figures import counted
from orcstream.io.loop.uncancelled import run_in_thread

_HELP = """Every stripe is decoded, and the statistics of row groups, stripes and file are compared with
its values. The status is 1 where a file cannot be read or a claim is wrong that readers believe; what its
writer is known to get wrong is shown with --all. Bloom filters are not looked at."""
# So many findings are shown of a file; the others are counted.
_SHOWN = 20


def add_verify_command(commands: Any) -> None:
    """`verify`."""
    purpose = "whether files can be read and are what they say"
    description = "Reads files to their end, and looks whether what they say of their values is true."
    command = add_command(commands, "verify", _verify, purpose, description, _HELP)
    add_options(command, "urls")
    add_flag(command, "--all", "what does no harm, too, and every finding")
    add_options(command, "--memory-limit", help="what decoding may take (default: 256MB)")
    add_options(command, "--keys", "--require-keys", "--json", "--storage-options")


async def _verify(options: argparse.Namespace) -> int:
    """The exit status: 0 where all files are sound. Raises why files cannot be read, if that is all."""
    found: list[dict[str, Any]] = []
    unknown: list[Exception] = []
    async with opened_keys(options.keys) as keys, Progress() as progress:
        for url in options.urls:
            try:
                found.append(await _verified(options, url, keys, progress))
            except (orcstream.OrcError, OSError) as error:
                text = error.message if isinstance(error, orcstream.OrcError) else str(error)
                found.append({"url": strip_credentials(url), "sound": False, "error": text})
                unknown.append(error)
    is_sound = all(one["sound"] for one in found)
    lines = (line for one in found for line in _lines(one, show_all=options.all))
    report(options, {"sound": is_sound, "files": found}, lines)
    if unknown and len(unknown) == sum(not one["sound"] for one in found):
        raise unknown[0]  # of the store, or of how this was called
    return 0 if is_sound else 1


async def _verified(options: argparse.Namespace, url: str, keys: Any, progress: Progress) -> dict[str, Any]:
    shown = strip_credentials(url)
    try:
        async with opened(options, url, keys) as file:

            def on_rows(count: int) -> None:
                progress.text = lambda: f"{file.url}: {count:,} of {file.row_count:,} rows"

            found = await file.verify(on_rows=on_rows, memory_limit=options.memory_limit)
    except (orcstream.FormatError, orcstream.Unsupported) as error:
        return {"url": error.url or shown, "sound": False, "error": error.message}
    except FileNotFoundError as error:
        return {"url": shown, "sound": False, "error": str(error)}
    facts = {field.name: getattr(found, field.name) for field in dataclasses.fields(found)}
    # Each stripe can have one, of which a file of 2 KB can have 100,000.
    faults = await run_in_thread(
        lambda: [{**dataclasses.asdict(fault), "text": str(fault)} for fault in found.faults]
    )
    return {**facts, "sound": found.is_sound, "faults": faults}


def _lines(found: dict[str, Any], *, show_all: bool) -> list[str]:
    if "error" in found:
        return [f"{found['url']}: cannot be read: {found['error']}"]
    faults = [one for one in found["faults"] if show_all or not one["is_known"]]
    looked_at = ", ".join(
        counted(found[f"{name}_count"], words)
        for name, words in (
            ("row", "row"),
            ("stripe", "stripe"),
            ("row_group", "row group"),
            ("claim", "claim"),
        )
    )
    lines = [f"{found['url']}: {'sound' if found['sound'] else 'not sound'}: {looked_at}"]
    shown = faults if show_all else faults[:_SHOWN]
    lines += [f"  {one['text']}" for one in shown]
    if len(faults) > len(shown):
        lines.append(f"  and {len(faults) - len(shown):,} more; --all shows them")
    return lines
