"""URLs of the files that an ingest makes, from a template and the values of partition columns.

Knows templates, and how Hive and Spark write values. Must not know rows or stores.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from uuid import uuid4

from orcstream.errors import UsageError
from orcstream.plan.acid.names import NULL_TEXT, escape
from orcstream.schema.types import Kind, Type

# Names may have 255 bytes on most file systems.
LONGEST_SEGMENT_BYTES = 255
_NUMBER, _UUID = "number", "uuid"
# Stands for a column, and is in no URL; a text's character takes so many bytes at most, escaped or not.
_COLUMN, _CHARACTER_BYTES = "\0", 4
# As many digits as numbers of files may have.
_LARGE_NUMBER = 10**9
_TOKEN = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_NUMBER_FORMAT = re.compile(r"0?[0-9]{0,2}d?")


@dataclass(frozen=True, slots=True)
class UrlTemplate:
    """`columns` are the partition columns; `parts` are texts, and names in braces with their formats."""

    columns: tuple[str, ...]
    parts: tuple[str | tuple[str, str], ...]

    @classmethod
    def parse(cls, text: object, partition_by: Sequence[str] | None) -> UrlTemplate:
        """Raises UsageError for templates that name no files, or the same file twice."""
        if not isinstance(text, str):
            raise UsageError(f"the template is text, not {type(text).__name__}")
        if isinstance(partition_by, str):
            raise UsageError(f"partition_by is a list of column names, not {partition_by!r}")
        wanted = tuple(partition_by or ())
        parts = _parts(text)
        named = tuple(dict.fromkeys(p[0] for p in parts if isinstance(p, tuple)))
        columns = tuple(name for name in named if name not in (_NUMBER, _UUID))
        if wanted and not columns:
            columns, parts = wanted, _with_folders(text, wanted)
        elif wanted and sorted(wanted) != sorted(columns):
            raise UsageError(f"the template names the columns {columns} and partition_by {wanted}")
        if not {_NUMBER, _UUID} & set(named):
            raise UsageError("the template needs {number} or {uuid}, or all files would have one name")
        return cls(columns, tuple(parts))

    @classmethod
    def of_folders(cls, columns: Sequence[str]) -> UrlTemplate:
        """Numbered files in a folder ``name=value`` for each column."""
        return cls.parse("{number}", columns)

    @property
    def has_number(self) -> bool:
        """Whether the last segment has the number, so that a folder tells which numbers are taken."""
        at = next((at for at, part in enumerate(self.parts) if part[0] == _NUMBER), None)
        return at is not None and not any(isinstance(part, str) and "/" in part for part in self.parts[at:])

    @property
    def is_unique(self) -> bool:
        """Whether no other ingest makes a URL that this one makes."""
        return any(isinstance(part, tuple) and part[0] == _UUID for part in self.parts)

    def url(self, texts: Mapping[str, str], number: int) -> str:
        """The URL of file `number` of a partition; `texts` are its values, escaped."""
        found = []
        for part in self.parts:
            if isinstance(part, str):
                found.append(part)
            elif part[0] == _NUMBER:
                found.append(format(number, part[1]))
            else:
                found.append(str(uuid4()) if part[0] == _UUID else texts[part[0]])
        return "".join(found)

    def longest_segment(self, texts: Mapping[str, str]) -> str:
        """The longest name of a file or folder in the URLs of a partition."""
        return max(self.url(texts, _LARGE_NUMBER).split("/"), key=lambda segment: len(segment.encode()))

    def longest_texts(self) -> dict[str, int]:
        """Characters that the text of each column may have, whatever the others have, to fit into a path."""
        fixed = self.url(dict.fromkeys(self.columns, _COLUMN), _LARGE_NUMBER)
        found: dict[str, int] = {}
        at = iter(part[0] for part in self.parts if isinstance(part, tuple) and part[0] in self.columns)
        for segment in fixed.split("/"):
            count = segment.count(_COLUMN)
            for name in [next(at) for _ in range(count)]:
                room = (LONGEST_SEGMENT_BYTES - len(segment.encode())) // count // _CHARACTER_BYTES
                found[name] = max(0, min(room, found.get(name, room)))
        return found

    def numbers_in(self, texts: Mapping[str, str], paths: Iterable[str]) -> Iterator[int]:
        """The numbers of the files among `paths` that belong to a partition, by their names."""
        pattern = self._last_segment(texts)
        for path in paths:
            match = pattern.fullmatch(path.rpartition("/")[2])
            if match is not None:
                yield int(match[1])

    def _last_segment(self, texts: Mapping[str, str]) -> re.Pattern[str]:
        """A pattern whose first group is the number."""
        found = ""
        for part in self.parts:
            if isinstance(part, str):
                head, slash, tail = part.rpartition("/")
                found = re.escape(tail) if slash else found + re.escape(head + tail)
            elif part[0] == _NUMBER:
                found += "([0-9]+)" if "(" not in found.replace("\\(", "") else "[0-9]+"
            else:
                found += re.escape(texts[part[0]])
        return re.compile(found)


def _parts(text: str) -> list[str | tuple[str, str]]:
    parts: list[str | tuple[str, str]] = []
    at = 0
    for match in _TOKEN.finditer(text):
        parts.append(text[at : match.start()])
        at = match.end()
        if match[0] in ("{{", "}}"):
            parts.append(match[0][0])
            continue
        if match[1] is None:
            raise UsageError(f"a single {match[0]!r} in the template {text!r}; write it twice")
        name, _, form = match[1].partition(":")
        if not name or (form and (name != _NUMBER or not _NUMBER_FORMAT.fullmatch(form))):
            raise UsageError(f"the template has {match[0]!r}; there are {{column}}, {{uuid}}, {{number:05}}")
        parts.append((name, form))
    return [part for part in [*parts, text[at:]] if part]


def _with_folders(text: str, columns: Sequence[str]) -> list[str | tuple[str, str]]:
    """With a folder for each column before the last segment."""
    at = text.rfind("/") + 1
    folders: list[str | tuple[str, str]] = []
    for name in columns:
        folders += [f"{escape(name)}=", (name, ""), "/"]
    return [*_parts(text[:at]), *folders, *_parts(text[at:])]


def text_of(value: object) -> str:
    """A partition value as Spark writes it, not escaped."""
    match value:
        case None | "":
            return NULL_TEXT
        case bool():
            return "true" if value else "false"
        case Decimal():
            return format(value, "f")
        case datetime.date():
            return f"{value.year:04}-{value.month:02}-{value.day:02}"
        case _:
            return str(value)


def hive_text_of(value: object, type_: Type) -> str:
    """A partition value as Hive writes it, not escaped: the same, but for decimals and CHAR."""
    if isinstance(value, Decimal):
        text = format(value, "f")
        return text.rstrip("0").rstrip(".") if "." in text else text
    if type_.kind is Kind.CHAR and isinstance(value, str):
        return value.ljust(type_.max_length or 0)
    return text_of(value)
