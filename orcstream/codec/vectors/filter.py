"""Predicates over vectors: which rows a bound predicate is true of.

Knows the Arrow layout of vectors and the three values of SQL's logic. Must not know the user's expressions,
statistics, files or batches. Contract: exact, for what the vectors hold (a union has no validity in Arrow, so
it counts as null where child 0 is); what stands in the buffers where nulls are changes no answer.

Every part of a predicate is asked for the rows it is true of, or for those it is false of: a null is
neither, and negation only turns the question round. So one mask for each part is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from orcstream._buffer import Buffer
from orcstream.codec.vectors._filter import (
    NumberSet,
    Texts,
    TextSet,
    compare_decimals,
    compare_texts,
    match_decimals,
    match_integers,
    match_texts,
)
from orcstream.codec.vectors.cells import texts_of
from orcstream.codec.vectors.column import (
    DTYPES,
    Array,
    Mask,
    Vector,
    bits_of,
    both,
    items_of,
    validity,
    validity_bits,
    window,
)
from orcstream.query.predicate import AllOf, AnyOf, Leaf, Negation, Op, Predicate
from orcstream.schema.types import FLOATS, TEXTS, Kind, Type

_Test: TypeAlias = Callable[[Vector], Mask]

_CODES = {Op.LESS: 0, Op.LESS_EQUAL: 1, Op.GREATER: 2, Op.GREATER_EQUAL: 3, Op.STARTS_WITH: 4}
_COMPARE: dict[Op, Any] = {
    Op.LESS: np.less,
    Op.LESS_EQUAL: np.less_equal,
    Op.GREATER: np.greater,
    Op.GREATER_EQUAL: np.greater_equal,
}
# Up to here asking for each literal in turn is faster than searching them.
_FEW = 4
_LEAST_DECIMAL, _LARGEST_DECIMAL = -(2**127), 2**127 - 1


class RowFilter:
    """A predicate made ready for vectors of one shape; any thread may use it.

    `root` is the struct that the vectors are of: the read schema, or a projection of it that has the
    predicate's columns. Raises ValueError where it has not.
    """

    __slots__ = ("_node",)

    def __init__(self, predicate: Predicate, root: Type) -> None:
        self._node = _ready(predicate, root, wanted=True)

    def evaluate(self, vectors: Sequence[Vector], rows: int) -> Buffer:
        """One byte for each row, 1 where the predicate is true.

        `vectors` are those of the children of `root`, in their order, of `rows` rows each; children that
        the predicate does not name are not looked at.
        """
        out = Buffer(rows)
        if rows:
            # Some platforms report comparisons with a signalling NaN.
            with np.errstate(invalid="ignore"):
                window(out, "?", 0, rows)[:] = self._node(vectors, rows)
        return out


_Node: TypeAlias = Callable[[Sequence[Vector], int], Mask]


def _ready(predicate: Predicate, root: Type, *, wanted: bool) -> _Node:
    """Answers the rows that `predicate` is true of, or (not `wanted`) false of."""
    match predicate:
        case Leaf():
            return _LeafNode(_indices(root, predicate.path), predicate.type, wanted, _test_of(predicate))
        case Negation():
            return _ready(predicate.part, root, wanted=not wanted)
        case AllOf() | AnyOf():
            parts = tuple(_ready(part, root, wanted=wanted) for part in predicate.parts)
            return _Joined(parts, isinstance(predicate, AllOf) == wanted)


def _indices(node: Type, path: tuple[str, ...]) -> tuple[int, ...]:
    indices = []
    for name in path:
        if node.kind is not Kind.STRUCT or node.field_names.count(name) != 1:
            raise ValueError(f"the vectors have no column {'.'.join(path)!r}")
        indices.append(node.field_names.index(name))
        node = node.children[indices[-1]]
    return tuple(indices)


@dataclass(frozen=True, slots=True)
class _Joined:
    """Rows that all parts answer, or any of them."""

    parts: tuple[_Node, ...]
    all: bool

    def __call__(self, vectors: Sequence[Vector], rows: int) -> Mask:
        mask = np.full(rows, self.all)
        for part in self.parts:
            if self.all:
                mask &= part(vectors, rows)
            else:
                mask |= part(vectors, rows)
            # Nothing that follows could change it.
            if mask.all() != self.all and mask.any() != self.all:
                break
        return mask


@dataclass(frozen=True, slots=True)
class _LeafNode:
    """The rows that a question is true of, or false; of a null it is neither, unless nulls are asked for."""

    path: tuple[int, ...]
    type: Type
    wanted: bool
    test: _Test | None

    def __call__(self, vectors: Sequence[Vector], rows: int) -> Mask:
        vector = vectors[self.path[0]]
        if vector.length != rows:
            raise ValueError(f"a vector of {vector.length} rows among vectors of {rows}")
        valid: Mask | None = None
        for index in self.path[1:]:
            valid = both(valid, validity_bits(vector))
            child = vector.children[index]
            vector = child.slice(vector.offset, vector.offset + vector.length)
        valid = both(valid, validity(self.type, vector))
        if self.test is None:
            if valid is None:
                return np.full(rows, not self.wanted)
            return ~valid if self.wanted else valid
        mask = self.test(vector)
        if not self.wanted:
            np.logical_not(mask, out=mask)
        if valid is not None:
            mask &= valid
        return mask


# --- questions of each kind: a mask of its own for each call ----------------------------------------


def _test_of(leaf: Leaf) -> _Test | None:
    kind = leaf.type.kind
    if leaf.op is Op.IS_NULL:
        return None
    if kind is Kind.BOOLEAN:
        return _boolean_test(leaf)
    if kind in FLOATS:
        return _float_test(leaf, DTYPES[kind])
    if kind in DTYPES:
        return _integer_test(leaf, DTYPES[kind])
    if kind is Kind.DECIMAL:
        return _decimal_test(leaf)
    if kind in TEXTS or kind is Kind.BINARY:
        return _text_test(leaf)
    raise ValueError(f"a {leaf.type} cannot be asked {leaf.op.value!r}")


def _constant(answer: bool) -> _Test:
    return lambda vector: np.full(vector.length, answer)


def _by_kernel(kernel: Callable[..., Buffer], *question: Any) -> _Test:
    """A kernel's answer for values of a fixed width."""
    return lambda vector: _as_mask(kernel(vector.buffers[1], vector.offset, vector.length, *question), vector)


def _one_of(values: Array, literals: Array) -> Mask:
    """Rows equal to one of the literals, which are sorted."""
    if len(literals) <= _FEW:
        mask = np.zeros(len(values), np.bool_)
        for literal in literals:
            mask |= values == literal
        return mask
    places = np.searchsorted(literals, values)
    np.minimum(places, len(literals) - 1, out=places)
    found: Mask = literals[places] == values
    return found


def _boolean_test(leaf: Leaf) -> _Test:
    if leaf.op is Op.IN:
        accepted = {bool(literal) for literal in leaf.literals}
    else:
        compare, literal = _COMPARE[leaf.op], leaf.literals[0]
        accepted = {value for value in (False, True) if compare(value, literal)}
    if len(accepted) != 1:
        return _constant(bool(accepted))
    if True in accepted:
        return lambda vector: bits_of(vector)
    return lambda vector: ~bits_of(vector)


def _integer_test(leaf: Leaf, dtype: str) -> _Test:
    least, largest = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    unit = leaf.unit_ns
    numbers = [int(literal) for literal in leaf.literals]
    if leaf.op is Op.IN:
        delivered = [number // unit for number in numbers if number % unit == 0]
        literals = [number for number in delivered if least <= number <= largest]
        if len(literals) > _FEW:
            wanted, width = NumberSet(literals), np.dtype(dtype).itemsize
            return _by_kernel(match_integers, width, wanted)
        few = np.array(literals, dtype)
        return lambda vector: _one_of(items_of(vector, dtype), few)
    # Integers are less than a number where they are at most the one before it.
    number = numbers[0]
    if leaf.op in (Op.LESS, Op.LESS_EQUAL):
        bound = (number - (leaf.op is Op.LESS)) // unit
        if not least <= bound < largest:
            return _constant(bound >= largest)
        at_most = np.array(bound, dtype)
        return lambda vector: items_of(vector, dtype) <= at_most
    bound = -(-(number + (leaf.op is Op.GREATER)) // unit)
    if not least < bound <= largest:
        return _constant(bound <= least)
    at_least = np.array(bound, dtype)
    return lambda vector: items_of(vector, dtype) >= at_least


def _float_test(leaf: Leaf, dtype: str) -> _Test:
    if leaf.op is Op.IN:
        literals = np.array(leaf.literals, "f8")
        return lambda vector: _one_of(items_of(vector, dtype).astype("f8", copy=False), literals)
    compare, literal = _COMPARE[leaf.op], np.float64(leaf.literals[0])

    def test(vector: Vector) -> Mask:
        mask: Mask = compare(items_of(vector, dtype).astype("f8", copy=False), literal)
        return mask

    return test


def _decimal_test(leaf: Leaf) -> _Test:
    numbers = [int(literal) for literal in leaf.literals]
    if leaf.op is Op.IN:
        stored = [number for number in numbers if _LEAST_DECIMAL <= number <= _LARGEST_DECIMAL]
        literals = b"".join(number.to_bytes(16, "little", signed=True) for number in stored)
        return _by_kernel(match_decimals, literals)
    code, number = _CODES[leaf.op], numbers[0]
    if not _LEAST_DECIMAL <= number <= _LARGEST_DECIMAL:
        return _constant((number > 0) == (leaf.op in (Op.LESS, Op.LESS_EQUAL)))
    return _by_kernel(compare_decimals, code, number >> 64, number & (2**64 - 1))


def _text_test(leaf: Leaf) -> _Test:
    literals = [bytes(literal) for literal in leaf.literals if isinstance(literal, bytes)]
    ask: Callable[[Texts], Buffer]
    if leaf.op is Op.IN:
        wanted = TextSet(literals)
        ask = lambda texts: match_texts(texts, wanted)  # noqa: E731  # one of two
    else:
        code, literal = _CODES[leaf.op], literals[0]
        ask = lambda texts: compare_texts(texts, code, literal)  # noqa: E731

    def test(vector: Vector) -> Mask:
        if not vector.length:
            return np.empty(0, np.bool_)
        entries = vector.dictionary
        # Of a large dictionary few entries are asked for, so each row is compared by itself.
        if entries is None or entries.offset or entries.length > vector.length:
            return _as_mask(ask(texts_of(vector)), vector)
        if not entries.length:
            return np.zeros(vector.length, np.bool_)
        holds = _as_mask(ask(texts_of(entries)), entries)
        # A null's index may be anything.
        return holds.take(items_of(vector, "i4"), mode="clip")

    return test


def _as_mask(buffer: Buffer, vector: Vector) -> Mask:
    return window(buffer, "?", 0, vector.length)
