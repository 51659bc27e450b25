"""The command line's `inspect`: where a file's bytes are, and what a question reads of them.

Knows where the page, the text and the JSON go. Must not know how they are made.
"""

from __future__ import annotations

import argparse
import sys

from orcstream._credentials import strip_credentials
from orcstream.cli.commands.keys import opened_keys
from orcstream.cli.output import add_json, write
from orcstream.cli.progress import Progress
from orcstream.figures import bytes_text

INSPECT_HELP = """Without -o, the same is printed as text. With --columns, --where or --rows it is shown which
bytes such a read would fetch, in which requests; with --run it is carried out and measured. The page shows
the smallest and the largest value of columns, those of encrypted columns only with their keys.

examples:
  orcstream inspect trips.orc
  orcstream inspect trips.orc -o trips.html --columns city --where "id = 4711" --run
  orcstream inspect trips.orc --json"""


def add_inspect_options(command: argparse.ArgumentParser) -> None:
    """What `inspect` takes besides the question."""
    command.add_argument(
        "-o", "--output", metavar="PAGE", help="write a page for the browser: a path, or a URL"
    )
    add_json(command)
    command.add_argument(
        "--run", action="store_true", help="read as asked, and show the time of each request"
    )


async def inspect_file(options: argparse.Namespace) -> int:
    """The exit status: 1 where something could not be shown, which is named."""
    from orcstream.inspect import inspect
    from orcstream.io import small_files

    async with opened_keys(options.keys) as keys, Progress() as progress:
        progress.text = lambda: f"looking at {strip_credentials(options.url)}"
        found = await inspect(
            options.url,
            columns=options.columns,
            where=options.where,
            rows=options.rows,
            run=options.run,
            storage_options=options.storage_options,
            keys=keys,
            require_keys=options.require_keys,
        )
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
