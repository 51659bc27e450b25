"""Schemas as users give them."""

from __future__ import annotations

from orcstream.errors import UsageError
from orcstream.schema import Schema


def schema_of(value: object) -> Schema:
    """A schema from its text or itself."""
    if isinstance(value, Schema):
        return value
    if isinstance(value, str):
        return Schema.parse(value)
    raise UsageError("no schema")
