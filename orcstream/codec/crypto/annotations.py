"""Attributes of types in which ORC Java notes how columns are encrypted, beside what the footer says.

They decide nothing about how a file is read. Must not know keys themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from orcstream.schema.schema import Schema
from orcstream.schema.types import FileColumn, Type

_KEY, _MASK = "encrypt", "mask"
_Attributes = tuple[tuple[str, str], ...]


def with_encryption(schema: Schema, encrypted: Mapping[FileColumn, tuple[str, str]]) -> Schema:
    """With the key and the mask (as text) of each encrypted column, in place of what it says now.

    ORC Java merges files by these.
    """

    def noted(type_: Type) -> _Attributes:
        found = encrypted.get(type_.column_id)
        own = () if found is None else ((_KEY, found[0]), (_MASK, found[1]))
        return (*_other(type_), *own)

    return _changed(schema, noted)


def without_encryption(schema: Schema) -> Schema:
    """As of a file that encrypts nothing."""
    return _changed(schema, _other)


def renamed_keys(schema: Schema, rename: Mapping[str, str]) -> Schema:
    """With new names of keys."""
    return _changed(
        schema,
        lambda type_: tuple(
            (name, rename.get(value, value) if name == _KEY else value) for name, value in type_.attributes
        ),
    )


def _other(type_: Type) -> _Attributes:
    return tuple(pair for pair in type_.attributes if pair[0] not in (_KEY, _MASK))


def _changed(schema: Schema, attributes_of: Callable[[Type], _Attributes]) -> Schema:
    if all(attributes_of(type_) == type_.attributes for type_ in schema.types):
        return schema
    done: list[Type] = []  # the types right of the one in hand, those nearest to it last
    for type_ in reversed(schema.types):
        children = tuple(done.pop() for _ in type_.children)
        done.append(replace(type_, children=children, attributes=attributes_of(type_)))
    return Schema(done[0])
