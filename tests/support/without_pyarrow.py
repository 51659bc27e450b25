"""The command line where pyarrow is not installed: `python -m tests.support.without_pyarrow COMMAND ...`."""

from __future__ import annotations

import sys

if __name__ == "__main__":
    sys.modules["pyarrow"] = None  # type: ignore[assignment]  # the import fails then

    from orcstream.__main__ import end
    from orcstream.cli.main import main

    status = main()
    assert not any(name.startswith("pyarrow.") for name in sys.modules)
    end(status)
