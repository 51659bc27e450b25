"""What is written down reads back the same: schemas of odd names, and predicates with odd literals."""

from __future__ import annotations

import datetime
import math
import pickle
import random
from decimal import Decimal
from typing import Any

import hypothesis
import numpy as np
from hypothesis import strategies as st

import orcstream
from orcstream import Expr, col
from tests.generators.odd import NAMES, Shape, draw_table
from tests.generators.odd_questions import Questions
from tests.generators.predicates import Both, Either, Node, Not, build

SHAPE = Shape(names=NAMES, unions=True, empty_structs=True, unit="us")
WORDS: dict[str, Any] = {"col": col, "datetime": datetime, "Decimal": Decimal, "np": np}


@hypothesis.given(seed=st.integers(0, 2**40))
def test_schemas_and_predicates(seed: int) -> None:
    rng = random.Random(seed)
    table = draw_table(rng, SHAPE, 30)
    text = str(table.type_)
    schema = orcstream.Schema.parse(text)
    assert str(schema) == text
    assert orcstream.Schema.parse(str(schema)) == schema
    assert pickle.loads(pickle.dumps(schema)) == schema
    for path, type_ in schema.walk():
        if path:
            assert schema[path] is type_
    asking = Questions(table.type_, table.rows, rng)
    for _ in range(10 if asking.possible else 0):
        node = asking.draw()
        expr: Expr = build(node, col)
        copies = pickle.loads(pickle.dumps(expr)), eval(repr(expr), WORDS)
        if not asks_about_nan(node):  # which is unequal to itself
            assert copies == (expr, expr)
        assert all(repr(copy) == repr(expr) for copy in copies)


def asks_about_nan(node: Node) -> bool:
    if isinstance(node, Not):
        return asks_about_nan(node.part)
    if isinstance(node, Both | Either):
        return asks_about_nan(node.left) or asks_about_nan(node.right)
    return any(isinstance(value, float) and math.isnan(value) for value in node.written)
