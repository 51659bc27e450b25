"""The numbers of the files of an ingest, which go on where an earlier ingest of the same template ended.

Knows templates and listings. Must not know rows or files under construction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orcstream.errors import Unsupported
from orcstream.io.folders import list_files
from orcstream.writer.template import UrlTemplate


class FileNumbers:
    """Lists each folder once, before its first file, unless names are unique or may be replaced."""

    def __init__(
        self, template: UrlTemplate, storage_options: Mapping[str, Any] | None, *, overwrite: bool
    ) -> None:
        self._template = template
        self._storage_options = storage_options
        self._lists = template.has_number and not template.is_unique and not overwrite
        self._listed: set[str] = set()
        self._next = 0

    async def next_url(self, texts: Mapping[str, str]) -> str:
        """The URL of the next file of a partition, given the escaped texts of its columns."""
        folder = self._template.url(texts, self._next).rpartition("/")[0]
        if self._lists and folder not in self._listed:
            taken = await self._taken(folder, texts)
            self._next = max(self._next, taken + 1)
            self._listed.add(folder)
        number, self._next = self._next, self._next + 1
        return self._template.url(texts, number)

    async def _taken(self, folder: str, texts: Mapping[str, str]) -> int:
        """The largest number in the folder; -1 without any."""
        try:
            files = await list_files(folder or ".", storage_options=self._storage_options)
        except (FileNotFoundError, PermissionError, Unsupported):  # the commit checks what cannot be listed
            return -1
        names = (file.path for file in files if "/" not in file.path)
        return max(self._template.numbers_in(texts, names), default=-1)
