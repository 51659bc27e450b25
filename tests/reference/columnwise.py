"""Values of one notation turned into those of another, column by column.

What a type asks for is decided once for all of its values, which takes a fraction of what it takes for each.
Knows the neutral form; other notations say where they differ from it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

from tests.reference.types import T, Union


class Conversion:
    """From the neutral form to itself; subclasses say what is otherwise in theirs."""

    def leaf(self, _type: T, /) -> Callable[[Any], object] | None:
        """What is done with each value that has no children and is no null; None leaves all as they are."""
        return None

    def null(self, _type: T, /) -> object:
        return None

    def fields(self, _type: T, values: list[Any], /) -> Sequence[Sequence[Any]]:
        """The fields of structs: for each field its values, where there is at least one struct."""
        return list(zip(*values, strict=True))

    def pairs(self, value: Any, /) -> list[Any]:
        """The keys and values of a map."""
        return list(value)

    def tagged(self, value: Any, /) -> tuple[int, Any]:
        """A union's tag and value."""
        tag, inner = value
        return tag, inner

    def convert(self, type_: T, values: Sequence[Any]) -> list[Any]:
        present = [value for value in values if value is not None]
        found = self._present(type_, present)
        if len(present) == len(values):
            return found
        rest, null = iter(found), self.null(type_)
        return [null if value is None else next(rest) for value in values]

    def _present(self, type_: T, values: list[Any]) -> list[Any]:
        if type_.kind == "struct":
            return self._structs(type_, values)
        if type_.kind == "array":
            return _cut(self.convert(type_.children[0], list(chain.from_iterable(values))), values)
        if type_.kind == "map":
            maps = list(map(self.pairs, values))
            pairs = list(chain.from_iterable(maps))
            keys, items = (self.convert(t, [pair[i] for pair in pairs]) for i, t in enumerate(type_.children))
            return _cut(list(zip(keys, items, strict=True)), maps)
        if type_.kind == "uniontype":
            return self._unions(type_, values)
        leaf = self.leaf(type_)
        return values if leaf is None else list(map(leaf, values))

    def _structs(self, type_: T, values: list[Any]) -> list[Any]:
        if not values:
            return []
        columns = zip(type_.children, self.fields(type_, values), strict=True)
        found = [self.convert(child, column) for child, column in columns]
        return list(zip(*found, strict=True)) if found else [()] * len(values)

    def _unions(self, type_: T, values: list[Any]) -> list[Any]:
        tagged = list(map(self.tagged, values))
        parts: list[list[Any]] = [[] for _ in type_.children]
        for tag, inner in tagged:
            parts[tag].append(inner)
        rest = [iter(self.convert(t, part)) for t, part in zip(type_.children, parts, strict=True)]
        return [Union(tag, next(rest[tag])) for tag, _ in tagged]


def _cut(items: list[Any], lists: Sequence[Sequence[Any]]) -> list[Any]:
    """Items that follow each other in pieces as long as these lists."""
    found, start = [], 0
    for one in lists:
        found.append(items[start : start + len(one)])
        start += len(one)
    return found
