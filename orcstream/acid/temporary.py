"""Errors of the folder for temporary files, in words that say what to do.

Knows where Python puts such files. Must not know what is put there.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from orcstream.errors import OrcError, SinkError


@contextmanager
def temporary_errors() -> Iterator[None]:
    """Raises SinkError, with the folder's name, where a temporary file cannot be written or read."""
    try:
        yield
    except OSError as error:
        reason = error.message if isinstance(error, OrcError) else error.strerror or str(error)
        folder = tempfile.tempdir or "the system's folder for temporary files"
        text = f"what does not fit into the memory limit cannot be put into {folder}: {reason}"
        raise SinkError(f"{text}; give a larger memory limit, or name another folder by TMPDIR") from error
