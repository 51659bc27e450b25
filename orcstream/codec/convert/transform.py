"""From the vectors a file's columns decode to, to those a reader asked for.

Knows how vectors of nested types are built. Must not know how values are converted
(`codec.convert.conversion`), nor how read columns find their file columns (`plan.projection`): a struct's
fields are matched by name here, in the order they stand, and what the file lacks is null. Subtrees that
stay as they are share their memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from orcstream.codec.convert.conversion import Convert, ConvertOptions, conversion_of
from orcstream.codec.vectors.column import Field, Vector, field_of, nulls_of
from orcstream.schema.types import Kind, Type


def transform_of(source: Type, target: Type, options: ConvertOptions | None = None) -> Convert | None:
    """The function that makes a vector of `target` of one of `source`; None where nothing is to be done.

    `source` is the projected type that was decoded, `target` the type to read it as, which
    `plan.projection` has found to fit. A struct's fields are matched by name; of several that bear one
    name the first is taken first. The function is pure and may run on several threads at once. It raises
    `Unsupported` as `conversion_of` does. Keys of maps may become null, as all that does not fit.
    """
    return _transform(source, target, options or ConvertOptions())


def _transform(source: Type, target: Type, options: ConvertOptions) -> Convert | None:
    if source.kind is Kind.STRUCT:
        return _struct(source, target, options)
    if source.kind in (Kind.LIST, Kind.MAP, Kind.UNION):
        pairs = zip(source.children, target.children, strict=True)
        run = _children([_transform(s, t, options) for s, t in pairs])
        # A map is a list of entries.
        return run if run is None or source.kind is not Kind.MAP else _children([run])
    return conversion_of(source, target, options)


def _children(converts: Sequence[Convert | None]) -> Convert | None:
    """Each child by its own function, all else kept: lists, entries of maps, unions."""
    if not any(converts):
        return None

    def run(vector: Vector) -> Vector:
        pairs = zip(vector.children, converts, strict=True)
        return replace(vector, children=tuple(c if fn is None else fn(c) for c, fn in pairs))

    return run


def _struct(source: Type, target: Type, options: ConvertOptions) -> Convert | None:
    places: dict[str, list[int]] = {}
    for place, name in enumerate(source.field_names):
        places.setdefault(name, []).append(place)
    plan: list[tuple[int | None, Convert | None, Field]] = []
    for name, type_ in zip(target.field_names, target.children, strict=True):
        field = field_of(name, type_, options.vectors)
        if places.get(name):
            place = places[name].pop(0)
            plan.append((place, _transform(source.children[place], type_, options), field))
        else:
            plan.append((None, None, field))
    if [place for place, _, _ in plan] == list(range(len(source.children))) and not any(
        fn for _, fn, _ in plan
    ):
        return None

    def run(vector: Vector) -> Vector:
        # A struct's children are read from its offset on.
        count = vector.offset + vector.length
        children = []
        for place, fn, field in plan:
            if place is None:
                children.append(nulls_of(field, count))
            else:
                child = vector.children[place]
                children.append(child if fn is None else fn(child))
        return replace(vector, children=tuple(children))

    return run
