"""What the names in Hive's tables say: partitions; in transactional ones directories, files and columns, too.

Knows Hive's patterns (`AcidUtils.java`, `BucketCodec.java`, `FileUtils.java`) and the six columns of events.
Must not know which of the directories anybody reads, nor stores. Any text in; what is not of a pattern is
None or an original file.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from typing import Final, NamedTuple
from urllib.parse import unquote

from orcstream.errors import SchemaMismatch
from orcstream.schema.schema import Schema, numbered
from orcstream.schema.types import Kind, Type

# Write ids are Java's longs. A base of the least one is of the rows from before the table was transactional.
_MOST = (1 << 63) - 1
NO_STATEMENT = -1
MOST_STATEMENT = (1 << 12) - 1
MOST_BUCKET = (1 << 12) - 1
FLUSH_LENGTH_SUFFIX = "_flush_length"
# Hive keeps the manifests of statements that insert in such folders of the table, until the statements end.
_STAGED = "-tmp."

# What Hive puts for a null; for an empty text, too, since a folder has to have a name.
NULL_TEXT: Final = "__HIVE_DEFAULT_PARTITION__"
_ESCAPED: Final = re.compile("[\x01-\x1f\x7f\"#%'*/:=?\\\\{\\[\\]^]")

_DIRECTORY = re.compile(
    r"(?:(?P<base>base)_(?P<write_id>-?[0-9]{1,19})"
    r"|(?P<delta>delta|delete_delta)_(?P<first>[0-9]{1,19})_(?P<last>[0-9]{1,19})(?:_(?P<statement>[0-9]{1,9}))?)"
    r"(?:_v(?P<visibility>[0-9]{1,19}))?",
    re.ASCII,
)
_BUCKET = re.compile(r"bucket_([0-9]{1,9})(?:_[0-9]{1,9})?", re.ASCII)
_ORIGINAL = re.compile(r"([0-9]{1,9})_[0-9]{1,9}(?:_copy_([0-9]{1,9}))?", re.ASCII)

VERSION_SHIFT = 29
BUCKET_SHIFT = 16


class DirectoryKind(enum.Enum):
    """What the rows of a directory are to those of others."""

    BASE = "base"  # all rows up to its write id; what is older does not count
    DELTA = "delta"  # rows inserted; before Hive 3 also updates and deletes
    DELETE_DELTA = "delete_delta"  # keys of rows that were deleted


@dataclass(frozen=True, slots=True)
class AcidDirectory:
    """A directory of events, by its `name`, which says the `kind`.

    Its rows are of the write ids `first_write_id` to `last_write_id`. `statement` is -1 for what a compaction
    or a writer without statements made; `visibility` is the transaction whose commit makes it visible, 0 for
    none.
    """

    name: str
    kind: DirectoryKind
    first_write_id: int
    last_write_id: int
    statement: int = NO_STATEMENT
    visibility: int = 0

    @property
    def is_base(self) -> bool:
        """Whether it stands in for everything older."""
        return self.kind is DirectoryKind.BASE

    @property
    def is_overwrite(self) -> bool:
        """Whether rows of one transaction may replace all others; older compactions have such names, too."""
        return self.is_base and not self.visibility

    @property
    def order(self) -> tuple[int, int, int, int, str]:
        """Hive's order: wider before narrower, compacted before single statements, newer before older."""
        return (self.first_write_id, -self.last_write_id, self.statement, -self.visibility, self.name)


def parse_directory(name: str) -> AcidDirectory | None:
    """A directory of events; None for any other name."""
    found = _DIRECTORY.fullmatch(name)
    if found is None:
        return None
    visibility = int(found["visibility"] or 0)
    if found["base"]:
        first, last, statement, kind = -_MOST - 1, int(found["write_id"]), NO_STATEMENT, DirectoryKind.BASE
    else:
        first, last = int(found["first"]), int(found["last"])
        statement = NO_STATEMENT if found["statement"] is None else int(found["statement"])
        kind = DirectoryKind(found["delta"])
    if first > last or max(last, visibility) > _MOST:
        return None
    return AcidDirectory(name, kind, first, last, statement, visibility)


def delta_name(
    kind: DirectoryKind, first: int, last: int, statement: int = NO_STATEMENT, visibility: int = 0
) -> str:
    """The name of a directory as Hive writes it; `first` does not matter to a base."""
    ids = f"{last:07d}" if kind is DirectoryKind.BASE else f"{first:07d}_{last:07d}"
    of_statement = "" if statement == NO_STATEMENT else f"_{statement:04d}"
    seen = f"_v{visibility:07d}" if visibility else ""
    return f"{kind.value}_{ids}{of_statement}{seen}"


def is_hidden(name: str) -> bool:
    """Whether a file or directory is none of the table's data; a partition of a column `_x` is."""
    return name.startswith(".") or (name.startswith(("_", _STAGED)) and "=" not in name)


# --- files -----------------------------------------------------------------------------------------


def bucket_of(file_name: str) -> int | None:
    """The bucket of a file such as `bucket_00001`, `bucket_00001_0` (an attempt's) or `000001_0_copy_2`."""
    found = _BUCKET.fullmatch(file_name) or _ORIGINAL.fullmatch(file_name)
    return None if found is None else int(found[1])


def copy_of(file_name: str) -> int:
    """Which file of its bucket and name an original file is: 2 for `000001_0_copy_2`."""
    found = _ORIGINAL.fullmatch(file_name)
    return int(found[2] or 0) if found else 0


def is_table_file(path: str) -> bool:
    """Whether a file is one bucket of a directory of events, so that its rows need not be a table's."""
    *folders, name = path.split("/")
    return bucket_of(name) is not None and any(parse_directory(folder) for folder in folders)


# --- the bucket column -----------------------------------------------------------------------------


def bucket_property(bucket: int, statement: int = NO_STATEMENT) -> int:
    """The number in the column `bucket` of a row, as Hive 3 and newer write it.

    Three bits of version, 1 here; twelve of the bucket; twelve of the statement, 0 where there is none. Of
    larger numbers, which only names of files can have, the upper bits are lost.
    """
    return 1 << VERSION_SHIFT | (bucket & MOST_BUCKET) << BUCKET_SHIFT | max(statement, 0) & MOST_STATEMENT


def bucket_number(value: int) -> int:
    """The bucket of such a number, of either version."""
    return value if value >> VERSION_SHIFT != 1 else value >> BUCKET_SHIFT & MOST_BUCKET


def statement_of(value: int) -> int:
    """The statement of such a number; 0 for the older version."""
    return 0 if value >> VERSION_SHIFT != 1 else value & MOST_STATEMENT


# --- partitions ------------------------------------------------------------------------------------


def escape(text: str) -> str:
    """A value, or the name of a column, as part of a path."""
    if text in (".", ".."):  # where a template has a whole segment for it, these would be other folders
        return text.replace(".", "%2E")
    return _ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", text)


def parse_folder(folder: str, *, errors: str = "strict") -> tuple[str, str | None]:
    """The column and the value's text that a folder names; None is a null.

    `errors` says what becomes of bytes that are no UTF-8, as for `bytes.decode`; strictly, `SchemaMismatch`.
    """
    name, _, text = folder.partition("=")
    try:
        return unquote(name, errors=errors), None if text == NULL_TEXT else unquote(text, errors=errors)
    except UnicodeDecodeError:
        raise SchemaMismatch(f"the name of the folder {folder!r} is no UTF-8") from None


# --- columns of events ------------------------------------------------------------------------------

_KINDS = (Kind.INT, Kind.LONG, Kind.INT, Kind.LONG, Kind.LONG, Kind.STRUCT)


class EventColumns(NamedTuple):
    """The names of the six columns in one file: compactions by query write them in lower case."""

    operation: str
    original_write_id: str
    bucket: str
    row_id: str
    current_write_id: str
    row: str


HIVES_NAMES = EventColumns("operation", "originalTransaction", "bucket", "rowId", "currentTransaction", "row")


def event_columns(schema: Schema) -> EventColumns | None:
    """Those of a file of events; None of any other."""
    root = schema.root
    names = [name.lower() for name in root.field_names]
    if names != [name.lower() for name in HIVES_NAMES]:
        return None
    if tuple(child.kind for child in root.children) != _KINDS:
        return None
    return EventColumns(*root.field_names)


def event_schema(row: Schema, names: EventColumns = HIVES_NAMES) -> Schema:
    """The schema of events of such rows."""
    types = (*map(Type, _KINDS[:-1]), row.root)
    return numbered(Type(Kind.STRUCT, types, tuple(names)), attributes=False)
