"""From the vectors that a file's columns decode to, to those that a reader asked for.

Knows how vectors of nested types are built, and that the vectors of a stripe share dictionaries. Must not
know how values are converted (`codec.convert.rules`), nor how read columns find their file columns
(`plan.projection`): a struct's fields are matched by name here, in the order they stand, and what the file
lacks is null. Subtrees that stay as they are share their memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from orcstream._buffer import Buffer
from orcstream.codec.convert.rules import Case, ConvertOptions, mask_of, rule_of, view, with_nulls
from orcstream.codec.vectors.column import DTYPES, Field, Vector, bits_of, field_of, items_of, nulls_of, pack
from orcstream.errors import Unsupported
from orcstream.schema.types import TEXTS, Kind, Type, decimal_shape

Convert = Callable[[Vector], Vector]


def can_convert(source: Type, target: Type) -> bool:
    """Whether values of one scalar type can be read as another, of another kind."""
    return rule_of(source, target) is not None


def transform_of(source: Type, target: Type, options: ConvertOptions | None = None) -> Convert | None:
    """The function that makes a vector of `target` of one of `source`; None where nothing is to be done.

    `source` is the projected type that was decoded, `target` the type to read it as, which
    `plan.projection` has found to fit. A struct's fields are matched by name; of several that bear one
    name the first is taken first. The function is pure and may run on several threads at once. It raises
    `Unsupported` for a time beyond 64 bits of its unit and for texts beyond 2 GiB together. Keys of maps may
    become null, as all that does not fit.
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
    is_same = _shape(source) == _shape(target)
    return None if is_same else _scalar(Case(source, target, options))


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


# --- scalars ---------------------------------------------------------------------------------------


def _shape(type_: Type) -> tuple[object, ...]:
    """What values of a type depend on."""
    return (type_.kind, type_.max_length, decimal_shape(type_))


def _scalar(case: Case) -> Convert:
    source, target = case.source, case.target
    rule = rule_of(source, target)
    assert rule is not None, f"no {source} can be read as {target}"

    def convert(vector: Vector) -> Vector:
        try:
            return rule(vector, case)
        except OverflowError:
            message = (
                f"texts of {target} made of {source} are longer than 2 GiB together; read fewer rows at once"
            )
            raise Unsupported(message, reason="converted_text_too_long", column=source.column_id) from None

    by_entries = source.kind in TEXTS and target.kind is not Kind.BINARY
    return _by_entries(convert, case) if by_entries else convert


def _by_entries(convert: Convert, case: Case) -> Convert:
    """Converts each entry of a dictionary once for the vectors that share it, which are those of a stripe."""
    known: list[tuple[object, Vector]] = []

    def run(vector: Vector) -> Vector:
        entries = vector.dictionary
        if entries is None:
            return convert(vector)
        # One slot, written whole: another thread sees this pair or another one, never half of it.
        found = known[0] if known else None
        if found is None or found[0] is not entries.buffers[1]:
            found = (entries.buffers[1], convert(entries))
            known[:] = [found]
        if case.target.kind in TEXTS:
            return replace(vector, dictionary=found[1])
        return _gathered(vector, found[1], case)

    return run


def _gathered(vector: Vector, entries: Vector, case: Case) -> Vector:
    """Row by row the converted entry that the row's index names; entries have a fixed width."""
    kind = case.target.kind
    if not entries.length:
        return nulls_of(field_of("", case.target, case.options.vectors), vector.length)
    mask = mask_of(vector)
    rows = np.where(mask, items_of(vector, "i4"), 0)
    mask &= mask_of(entries)[rows]
    if kind is Kind.BOOLEAN:
        return with_nulls(mask, pack(bits_of(entries)[rows]))
    dtype = "V16" if kind is Kind.DECIMAL else DTYPES[kind]
    out = Buffer(np.dtype(dtype).itemsize * vector.length)
    np.take(items_of(entries, dtype), rows, out=view(out, dtype), mode="clip")
    return with_nulls(mask, out)
