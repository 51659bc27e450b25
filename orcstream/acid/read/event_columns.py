"""The six columns of a file of events."""

from __future__ import annotations

from typing import NamedTuple

from orcstream.schema.schema import Schema, numbered
from orcstream.schema.types import Kind, Type

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
