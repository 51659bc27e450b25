"""`python -m orcstream`: the command line."""

import sys

from orcstream.cli import main

if __name__ == "__main__":
    sys.exit(main())
