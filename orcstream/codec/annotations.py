"""Attributes of types in which ORC Java notes how columns are encrypted, beside what the footer says.

They decide nothing about how a file is read. Must not know keys themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from orcstream.schema import Schema, Type

__all__ = ["renamed_keys", "without_encryption"]

_KEY, _MASK = "encrypt", "mask"
_Attributes = tuple[tuple[str, str], ...]


def renamed_keys(schema: Schema, rename: Mapping[str, str]) -> Schema:
    """With new names of keys."""
    return _changed(
        schema,
        lambda attributes: tuple(
            (name, rename.get(value, value) if name == _KEY else value) for name, value in attributes
        ),
    )


def without_encryption(schema: Schema) -> Schema:
    """As of a file that encrypts nothing."""
    return _changed(
        schema,
        lambda attributes: tuple(pair for pair in attributes if pair[0] not in (_KEY, _MASK)),
    )


def _changed(schema: Schema, change: Callable[[_Attributes], _Attributes]) -> Schema:
    if all(change(type_.attributes) == type_.attributes for type_ in schema.types):
        return schema
    done: list[Type] = []  # the types right of the one in hand, those nearest to it last
    for type_ in reversed(schema.types):
        children = tuple(done.pop() for _ in type_.children)
        done.append(replace(type_, children=children, attributes=change(type_.attributes)))
    return Schema(done[0])
