"""Folders of files that are about to be written, where a store has folders that must be there.

Knows local paths; all other stores make them with the file.
"""

from __future__ import annotations

from pathlib import Path

from orcstream.io.sink_local import in_thread
from orcstream.io.urls import local_path, protocol_of, strip_credentials

__all__ = ["make_folder_of"]


async def make_folder_of(url: str) -> None:
    """Make the folder that a file is to be in, and those above it, where there is none."""
    if protocol_of(url) in ("file", "local"):
        folder = Path(local_path(url)).parent
        await in_thread(lambda: folder.mkdir(parents=True, exist_ok=True), strip_credentials(url))
