"""`python -m orcstream` and the command `orcstream`: the command line, and Ctrl-C while it is imported."""

import sys

_SIGINT_STATUS = 130


def main() -> int:
    """Run the command line; answers the exit status."""
    try:
        from orcstream.cli import main as run

        return run()
    except KeyboardInterrupt:
        return _SIGINT_STATUS


if __name__ == "__main__":
    sys.exit(main())
