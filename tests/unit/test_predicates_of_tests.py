"""The judge of filtered reads is judged first: three truths, and drawn predicates that ask something."""

from __future__ import annotations

import hypothesis
import pytest
from hypothesis import strategies as st

from tests.generators import strategies
from tests.generators.predicates import (
    Ask,
    Both,
    Either,
    Node,
    Not,
    Predicates,
    as_tuples,
    evaluate,
    matching,
)
from tests.reference.types import parse

TYPE = parse("struct<n:int,d:double,s:struct<x:string>>")
N = TYPE.children[0]
ROW = (1, float("nan"), None)


def truth(node: Node) -> bool | None:
    return evaluate(node, parse("struct<n:int,m:int>"), (1, None))


T_ = Ask(("n",), N, "=", (1,))
F_ = Ask(("n",), N, "<", (1,))
U_ = Ask(("m",), N, "=", (1,))


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (Both(T_, T_), True), (Both(T_, F_), False), (Both(T_, U_), None), (Both(U_, F_), False),
        (Either(F_, F_), False), (Either(U_, T_), True), (Either(F_, U_), None), (Either(U_, U_), None),
        (Not(T_), False), (Not(U_), None), (Ask(("m",), N, "is null"), True),
        (Ask(("m",), N, "in", ()), None), (Ask(("n",), N, "in", ()), False),
        (Ask(("m",), N, "!=", (1,)), None),
    ],
)  # fmt: skip
def test_three_truths(node: Node, expected: bool | None) -> None:
    assert truth(node) is expected


def test_paths_and_values() -> None:
    x = parse("string")
    assert evaluate(Ask(("s", "x"), x, "is null"), TYPE, ROW) is True
    assert evaluate(Ask(("s", "x"), x, "starts with", ("a",)), TYPE, (1, 1.0, ("ab",))) is True
    assert evaluate(Ask(("d",), TYPE.children[1], "!=", (1.0,)), TYPE, ROW) is True
    assert evaluate(Ask(("d",), TYPE.children[1], "<=", (1.0,)), TYPE, ROW) is False
    assert evaluate(Ask(("d",), TYPE.children[1], "=", (0.0,)), TYPE, (1, -0.0, None)) is True


def test_tuples() -> None:
    node = Both(T_, Ask(("s", "x"), parse("string"), "in", ("a", "b")))
    assert as_tuples(node) == [("n", "==", 1), ("s.x", "in", ["a", "b"])]
    assert as_tuples(Either(T_, F_)) is None


@hypothesis.given(
    table=strategies.tables(strategies.schemas(strategies.EVERYTHING, unions=True)), seed=st.integers(0, 999)
)
def test_any_table_can_be_asked(table: strategies.Table, seed: int) -> None:
    asking = Predicates(table.type_, table.rows, seed)
    if asking.possible:
        node = asking.draw()
        assert set(matching(node, table.type_, table.rows)) <= set(range(len(table.rows)))


def test_drawn_predicates_ask_something() -> None:
    """Most keep some rows and drop some."""
    type_ = parse("struct<a:int,b:string,c:double,d:date,e:decimal(9,2),f:timestamp>")
    telling = 0
    for seed in range(200):
        rows = strategies.make_table(type_, 200, seed, strategies.Limits()).rows
        kept = len(matching(Predicates(type_, rows, seed).draw(), type_, rows))
        telling += 0 < kept < len(rows)
    assert telling > 80
