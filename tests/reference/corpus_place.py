"""Where the corpus of foreign files is: in the folder that ORCSTREAM_CORPUS names.

Tests request the fixture `corpus_folder` instead, which skips them where there is no corpus;
`tests/meta/test_corpus_fixture.py` checks that no test imports this module.
"""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "ORCSTREAM_CORPUS"


def root() -> Path | None:
    """Return the corpus folder, or None if the variable is not set; a wrong value is an error."""
    text = os.environ.get(VARIABLE)
    if text is None:
        return None
    folder = Path(text)
    if not (folder / "MANIFEST.json").is_file():
        raise FileNotFoundError(f"{VARIABLE} is {text!r}, which holds no MANIFEST.json")
    return folder
