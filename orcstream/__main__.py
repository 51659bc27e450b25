"""`python -m orcstream` and the command `orcstream`: the command line, Ctrl-C before it, and how it ends."""

import os
import sys
from contextlib import suppress
from typing import NoReturn

_SIGINT_STATUS = 130


def main() -> NoReturn:
    """Run the command line and end the program with its exit status."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed; what is opened next must not get its number
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115, PTH123
    try:
        from orcstream.cli.main import main as run

        status = run()
    except KeyboardInterrupt:
        status = _SIGINT_STATUS
    end(status)


def end(status: int) -> NoReturn:
    """End the program: at once where it has failed or was interrupted.

    All that is ours has been given back then, but threads of libraries may be in a read that waits for bytes:
    the interpreter would wait for them too, and pyarrow's abort it if bytes come while it ends.
    """
    if status == 0:
        sys.exit()
    with suppress(OSError, ValueError, KeyboardInterrupt):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    main()
