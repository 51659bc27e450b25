"""Any columns of any schema encrypted: who has the keys reads the rows, and nobody else learns of them.

Decryption is that of `reference.encryption`, which shares nothing with the package.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import hypothesis
from hypothesis import strategies as st

from orcstream import Encrypt, Mask
from tests.generators import strategies
from tests.generators.encrypted_columns import places
from tests.generators.encrypting import SECRETS, CountedKeys, written
from tests.generators.masks import masked
from tests.reference import compare, reader, wire
from tests.reference.encryption import Locked
from tests.reference.types import T
from tests.support import writing
from tests.support.effort import share

UNIONS = strategies.schemas(strategies.EVERYTHING, unions=True)
MASKS: tuple[str | Mask, ...] = ("nullify", "redact", "sha256", Mask("redact", ("", "_ 10 10")))


@st.composite
def encrypts(draw: st.DrawFn, type_: T) -> list[Encrypt]:
    """Some columns, none within another, each with a key and a mask of its own; keys may repeat."""
    taken: list[Any] = []
    for place in draw(st.permutations([place for place in places(type_) if place.column])):
        if all(place.last < other.column or other.last < place.column for other in taken):
            taken.append(place)
    count = draw(st.integers(1, min(4, len(taken))))
    keys, masks = st.sampled_from(sorted(SECRETS)), st.sampled_from(MASKS)
    return [Encrypt(draw(keys), [place.steps], draw(masks)) for place in taken[:count]]


@hypothesis.settings(max_examples=share(60))
@hypothesis.given(table=strategies.tables(UNIONS), options=writing.options(), data=st.data())
def test_who_has_the_keys_reads_the_rows(
    table: strategies.Table, options: dict[str, Any], data: st.DataObject
) -> None:
    encrypt = data.draw(encrypts(table.type_))
    chosen = writing.with_blooms(table.type_, options)
    parts = writing.pieces(table.type_, table.rows, table.seed)
    locked = Locked(written(str(table.type_), parts, encrypt, **chosen))
    assert len(locked.variants) == len(encrypt)
    expected = [writing.in_file(table.type_, row) for row in table.rows]
    compare.assert_same_rows(table.type_, locked.rows(SECRETS), expected)


@hypothesis.settings(max_examples=share(40))
@hypothesis.given(
    table=strategies.tables(strategies.structs(strategies.leaves(strategies.EVERYTHING))),
    options=writing.options(),
    data=st.data(),
)
def test_who_has_no_keys_reads_what_masks_leave(
    table: strategies.Table, options: dict[str, Any], data: st.DataObject
) -> None:
    type_ = table.type_
    masks = {i: data.draw(st.sampled_from((None, *MASKS)), label=name) for i, name in enumerate(type_.names)}
    encrypt = [Encrypt("pii", [(type_.names[i],)], mask) for i, mask in masks.items() if mask is not None]
    parts = writing.pieces(type_, table.rows, table.seed)
    file = written(str(type_), parts, encrypt, **writing.with_blooms(type_, options))
    columns = [[row[i] for row in table.rows] for i in masks]
    for i, mask in masks.items():
        if mask is not None:
            columns[i] = masked(type_.children[i], mask, columns[i])
    expected = list(zip(*columns, strict=True))
    compare.assert_same_rows(type_, reader.read(file)[1], expected)


@hypothesis.settings(max_examples=share(40))
@hypothesis.given(
    types=st.tuples(*[strategies.schemas(strategies.EVERYTHING, unions=True)] * 2),
    count=st.sampled_from((0, 1, 10, 300, 1100)),
    seeds=st.tuples(*[st.integers(0, 2**32)] * 3),
    options=writing.options(),
)
def test_files_that_differ_in_what_is_encrypted_differ_nowhere_else(
    types: tuple[T, T], count: int, seeds: tuple[int, int, int], options: dict[str, Any]
) -> None:
    """Nothing that can be read depends on the values, but how long the encrypted streams are."""
    clear_type, secret_type = types
    type_ = T("struct", (clear_type, secret_type), ("clear", "secret"))
    limits = strategies.Limits()
    clear = strategies.make_table(T("struct", (clear_type,), ("clear",)), count, seeds[0], limits).rows
    if options.pop("bloom", False) and options.get("row_index_stride") != 0:
        options["blooms"] = _leaves(type_)
    options["stripe_bytes"] = 1 << 20  # or lengths decide where stripes end
    found = []
    for seed in seeds[1:]:
        secret = strategies.make_table(T("struct", (secret_type,), ("secret",)), count, seed, limits).rows
        rows = [(*one, *other) for one, other in zip(clear, secret, strict=True)]
        part = [writing.python_value(type_, row) for row in rows]
        file = written(str(type_), [part], [Encrypt("pii", ["secret"])], keys=CountedKeys(), **options)
        found.append(list(_readable(file)))
    assert found[0] == found[1]


def _leaves(type_: T) -> list[tuple[str, ...]]:
    return [
        place.steps
        for place in places(type_)
        if not place.type_.children and place.type_.kind not in ("boolean", "struct")
    ]


def _readable(data: bytes) -> Iterator[Any]:
    """All that can be read without keys; lengths of what cannot, and where things lie, are left out."""
    locked = Locked(data)
    yield locked.metadata_bytes
    yield {key: values for key, values in locked.footer.items() if key not in (2, 3, 10)}
    yield list(locked.variants), locked.encryption[1], locked.encryption[2]
    for stripe in locked.stripes:
        yield stripe.id, stripe.span.row_count
        footer = wire.parse(locked.stripe_footer(stripe.span))
        yield footer[2], footer.get(3)
        yield [
            (stream.column, stream.kind, stream.data) for stream in stripe.streams if stream.variant is None
        ]
