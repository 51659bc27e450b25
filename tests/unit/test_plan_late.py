"""Whether a predicate's columns come first: by chance, bytes and latency."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orcstream.byterange import CostModel
from orcstream.plan.prune.prune import late_pays, match_chance
from orcstream.query.predicate import AllOf, AnyOf, Leaf, Negation, Op, Predicate
from orcstream.schema.types import Kind, Type

INT = Type(Kind.INT)


def leaf(op: Op = Op.IN, *literals: int) -> Leaf:
    return Leaf(("a",), INT, op, literals)


PREDICATES: st.SearchStrategy[Predicate] = st.recursive(
    st.builds(leaf, st.sampled_from(Op), st.integers(0, 9)),
    lambda parts: st.one_of(
        st.builds(Negation, parts),
        st.builds(lambda found: AllOf(tuple(found)), st.lists(parts, max_size=3)),
        st.builds(lambda found: AnyOf(tuple(found)), st.lists(parts, max_size=3)),
    ),
    max_leaves=8,
)


@given(PREDICATES)
def test_a_chance_is_one(predicate: Predicate) -> None:
    assert 0 <= match_chance(predicate) <= 1


@given(PREDICATES, PREDICATES)
def test_more_conditions_match_less(one: Predicate, other: Predicate) -> None:
    both = match_chance(AllOf((one, other)))
    either = match_chance(AnyOf((one, other)))
    assert both <= min(match_chance(one), match_chance(other)) + 1e-9
    assert either >= max(match_chance(one), match_chance(other)) - 1e-9


def test_nothing_matches_no_literal() -> None:
    assert match_chance(leaf(Op.IN)) == 0
    assert match_chance(leaf(Op.IN, 1)) < match_chance(leaf(Op.IN, 1, 2, 3))


@pytest.mark.parametrize(
    "cost", [CostModel.local(), CostModel.http(), CostModel.object_store(), CostModel.hdfs()]
)
def test_it_pays_for_many_bytes_and_not_for_few(cost: CostModel) -> None:
    rare = AllOf((leaf(Op.IN, 5), leaf(Op.IN, 6)))
    assert late_pays(rare, 1 << 30, cost)
    assert not late_pays(rare, int(cost.latency_s * cost.bandwidth), cost)
    assert not late_pays(rare, 0, cost)


def test_what_matches_everywhere_is_read_at_once() -> None:
    assert not late_pays(leaf(Op.LESS, 5), 1 << 40, CostModel.object_store())
    assert not late_pays(Negation(leaf(Op.IN, 5)), 1 << 40, CostModel.object_store())
