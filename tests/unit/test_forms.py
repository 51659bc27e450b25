"""Which streams, encodings and row index entries make up the form in which columns are read."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from orcstream.codec.crypto.forms import FileForm
from orcstream.codec.crypto.sealing import plan_rekeying
from orcstream.codec.metadata.indexes import RowIndex
from orcstream.codec.metadata.parse import check_variants
from orcstream.codec.metadata.structure import (
    ColumnEncoding,
    EncodingKind,
    Encryption,
    EncryptionVariant,
    StreamInformation,
    StreamKind,
    StripeFooter,
    StripeInformation,
    StripeVariant,
)
from orcstream.encryption import EncryptionAlgorithm, EncryptionKey, KeyProviderKind
from orcstream.errors import CorruptTail, Unsupported
from orcstream.schema.schema import Schema
from orcstream.schema.types import FileColumn
from tests.support.errors import because

SCHEMA = Schema.parse("struct<a:int,b:struct<c:int,d:int>>")
KEYS = tuple(EncryptionKey(name, 0, EncryptionAlgorithm.AES_CTR_128) for name in ("k0", "k1"))
# b for two readers, and a for one.
ROOTS = (2, 2, 1)
VARIANTS = tuple(
    EncryptionVariant(FileColumn(root), number % 2, b"", (), b"") for number, root in enumerate(ROOTS)
)
ENCRYPTION = Encryption((), KEYS, VARIANTS, KeyProviderKind.HADOOP)
LOCAL = {number: bytes([number]) * 16 for number in range(3)}
CLEAR = ColumnEncoding(EncodingKind.DIRECT)


def stream(kind: StreamKind, column: int, length: int, variant: int | None = None) -> StreamInformation:
    return StreamInformation(kind, FileColumn(column), length, variant)


def variant(number: int, root: int, columns: int) -> StripeVariant:
    encodings = tuple(ColumnEncoding(EncodingKind.DIRECT_V2, 10 * number + c) for c in range(columns))
    streams = tuple(
        stream(kind, root + c, 1, number)
        for c in range(columns)
        for kind in (StreamKind.ROW_INDEX, StreamKind.DATA)
    )
    return StripeVariant(FileColumn(root), streams, encodings)


FOOTER = StripeFooter(
    streams=(
        *(stream(StreamKind.ROW_INDEX, column, 1) for column in range(5)),
        stream(StreamKind.ENCRYPTED_INDEX, 0, 7),
        *(stream(StreamKind.DATA, column, 1) for column in range(1, 5)),
        stream(StreamKind.ENCRYPTED_DATA, 0, 7),
    ),
    encodings=(CLEAR,) * 5,
    variants=(variant(0, 2, 3), variant(1, 2, 3), variant(2, 1, 1)),
)
STRIPE = StripeInformation(0, 100, 12, 11, 5, 10, 0, encrypt_stripe_id=7)


@pytest.mark.parametrize(
    ("open_variants", "expected"),
    [
        ((), {}),
        ((0,), {2: 0, 3: 0, 4: 0}),
        ((1,), {2: 1, 3: 1, 4: 1}),
        ((0, 1, 2), {1: 2, 2: 0, 3: 0, 4: 0}),  # the first one that opens
    ],
)
def test_the_variant_of_each_column(open_variants: tuple[int, ...], expected: dict[int, int]) -> None:
    form = FileForm(ENCRYPTION, SCHEMA, open_variants)
    assert form.variant_of == expected
    assert form.encrypted == {1, 2, 3, 4}
    assert [form.is_masked(FileColumn(c)) for c in range(5)] == [
        column > 0 and column not in expected for column in range(5)
    ]
    found = form.of_stripe(STRIPE, FOOTER, LOCAL)
    assert {(s.column, s.kind): s.information.variant for s in found.streams} == {
        (column, kind): expected.get(column)
        for column in range(5)
        for kind in (StreamKind.ROW_INDEX, StreamKind.DATA)
        if column or kind is StreamKind.ROW_INDEX
    }
    assert [encoding.dictionary_size for encoding in found.encodings] == [
        10 * expected[c] + c - ROOTS[expected[c]] if c in expected else 0 for c in range(5)
    ]
    for placed in found.streams:
        if placed.information.variant is None:
            assert placed.cipher is None
        else:
            assert placed.cipher is not None
            assert placed.cipher.key == LOCAL[placed.information.variant]
            column, kind = int(placed.column), int(placed.kind)
            assert placed.cipher.iv == bytes([0, 0, column, 0, kind, 0, 0, 7]) + bytes(8)


def test_ranges_are_those_of_the_whole_stripe() -> None:
    """What is not read takes up its room."""
    found = FileForm(ENCRYPTION, SCHEMA, (1,)).of_stripe(STRIPE, FOOTER, LOCAL)
    places = {(s.column, s.kind, s.information.variant): s.range.start for s in found.streams}
    assert places[FileColumn(2), StreamKind.ROW_INDEX, 1] == 100 + 5 + 3
    assert places[FileColumn(4), StreamKind.DATA, 1] == 112 + 4 + 3 + 2


def index_of(count: int) -> RowIndex:
    positions = np.arange(count, dtype=np.uint64)
    return RowIndex(positions, np.arange(count + 1), tuple(bytes([at]) for at in range(count)))


@pytest.mark.parametrize(
    ("entry_count", "of_clear", "of_open"),
    [(3, [0, 1, 2], []), (6, [3, 4, 5], [0, 1, 2]), (5, [0, 1, 2, 3, 4], [])],
)
def test_index_of_both_forms(entry_count: int, of_clear: list[int], of_open: list[int]) -> None:
    """ORC-991: a clear index has the entries of the encrypted form first, or none of them."""
    in_clear = stream(StreamKind.ROW_INDEX, 1, 1)
    masked, opened = FileForm(ENCRYPTION, SCHEMA), FileForm(ENCRYPTION, SCHEMA, (2,))
    for form, expected in ((masked, of_clear), (opened, of_open)):
        index = form.row_index(in_clear, index_of(entry_count), 3)
        assert [int(index.entry(at)[0]) for at in range(len(index))] == expected
        assert index.serialized_statistics == tuple(bytes([at]) for at in expected)
    own = stream(StreamKind.ROW_INDEX, 1, 1, 2)
    assert len(opened.row_index(own, index_of(entry_count), 3)) == entry_count
    assert len(masked.row_index(stream(StreamKind.ROW_INDEX, 0, 1), index_of(6), 3)) == 6
    assert (masked.most_entries(FileColumn(1), 3), masked.most_entries(FileColumn(0), 3)) == (6, 3)


def test_index_in_the_clear_alone() -> None:
    """Where a variant has no index, the clear stream is fetched for it."""
    bare = replace(FOOTER.variants[2], streams=FOOTER.variants[2].streams[1:])
    footer = replace(FOOTER, variants=(*FOOTER.variants[:2], bare))
    found = FileForm(ENCRYPTION, SCHEMA, (0, 2)).of_stripe(STRIPE, footer, LOCAL)
    indexes = [(s.column, s.information.variant) for s in found.streams if s.kind is StreamKind.ROW_INDEX]
    assert indexes == [(0, None), (1, None), (2, 0), (3, 0), (4, 0)]


def test_many_variants_of_one_tree_cost_no_more_than_one() -> None:
    """A few bytes name a variant, and another few a column: both together must not be multiplied."""
    count = 20_000
    schema = Schema.parse(f"struct<{','.join(f'c{number}:int' for number in range(count))}>")
    variants = (EncryptionVariant(FileColumn(0), 0, b"", (), b""),) * count
    started = time.process_time()
    form = FileForm(Encryption((), KEYS, variants, KeyProviderKind.HADOOP), schema, range(7, count))
    assert time.process_time() - started < 5, "the product takes minutes"
    assert len(form.encrypted) == count + 1
    assert set(form.variant_of.values()) == {7}


@pytest.mark.parametrize("roots", [(2, 3), (3, 2), (2, 4), (2, 3, 2), (0, 1), (1, 0), (0, 4)])
def test_one_encrypted_column_within_another(roots: tuple[int, ...]) -> None:
    """No writer makes it, and forms are not asked what to do: such a tail is refused."""
    variants = tuple(EncryptionVariant(FileColumn(root), 0, b"", (), b"") for root in roots)
    with pytest.raises(CorruptTail) as caught:
        check_variants(variants, SCHEMA)
    assert caught.value.column in roots
    assert caught.value.column != min(roots), "the outer one"


@pytest.mark.parametrize("roots", [(1, 2), (2, 1, 2), (3, 4), (4, 1, 3), (0, 0)])
def test_encrypted_columns_side_by_side(roots: tuple[int, ...]) -> None:
    variants = tuple(EncryptionVariant(FileColumn(root), 0, b"", (), b"") for root in roots)
    check_variants(variants, SCHEMA)


def test_streams_of_a_later_format_within_a_variant_take_up_room() -> None:
    first, *others = FOOTER.variants
    later = replace(first, streams=(*first.streams, stream(StreamKind.UNKNOWN, 3, 2, 0)))
    placeholder = replace(FOOTER.streams[-1], length=9)
    footer = replace(FOOTER, streams=(*FOOTER.streams[:-1], placeholder), variants=(later, *others))
    form = FileForm(ENCRYPTION, SCHEMA, (0, 2)).of_stripe(STRIPE, footer, LOCAL)
    assert StreamKind.UNKNOWN not in [one.kind for one in form.streams]
    (last,) = [one for one in form.streams if (one.kind, one.column) == (StreamKind.DATA, 1)]
    assert last.range.start == 100 + 5 + 7 + 4 + 3 + 2 + 3
    with pytest.raises(Unsupported, check=because("unknown_stream")):
        plan_rekeying(STRIPE, footer, LOCAL, LOCAL, 1)
