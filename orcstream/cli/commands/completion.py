"""The command line's `completion`: scripts that shells load, made beforehand of the parser.

Knows where the scripts lie; `scripts/command_line.py` makes them, and a test holds them to the parser. So
completing takes no time of Python's, and printing a script needs no library.
"""

from __future__ import annotations

import argparse
from importlib import resources

from orcstream.cli.output import write

# The names under which shells look for them.
SHELLS = {"bash": "orcstream.bash", "zsh": "_orcstream", "fish": "orcstream.fish"}
COMPLETION_HELP = """bash, in ~/.bashrc:             eval "$(orcstream completion bash)"
zsh, in a folder of $fpath:     orcstream completion zsh > ~/.zfunc/_orcstream
fish:                           orcstream completion fish > ~/.config/fish/completions/orcstream.fish"""


def add_completion_options(command: argparse.ArgumentParser) -> None:
    """Which shell it is for."""
    command.add_argument("shell", choices=tuple(SHELLS), help="the shell that is to load it")


async def print_completion(options: argparse.Namespace) -> None:
    """The script of one shell."""
    folder = resources.files("orcstream") / "completions"
    write([(folder / SHELLS[options.shell]).read_text("utf-8").rstrip("\n")])
