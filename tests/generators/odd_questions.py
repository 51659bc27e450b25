"""Predicates that nobody tunes for: deep trees, and literals that are not of the column's own kind.

Literals are values of the table, their neighbours, and the edges of the type, written in every way that a
column takes: integers as floats and decimals, days as midnights, texts as bytes, numbers beyond every column.
What they mean is told in neutral form, as the documentation of predicates has it, and `predicates.evaluate`
compares that.
"""

from __future__ import annotations

import datetime
import math
import random
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from tests.generators.predicates import COMPARED, Ask, Both, Either, Node, Not
from tests.generators.strategies import INTEGERS
from tests.reference.types import T
from tests.reference.values import EXACT, NANOS

__all__ = ["Questions"]

DAY_NS = 86_400 * NANOS
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
_EDGES = (0, 1, -1, 127, -128, 2**31 - 1, -(2**31), 2**53 + 1, 2**63 - 1, -(2**63))
_BEYOND = (2**63, -(2**63) - 1, 2**64, 10**40, -(10**40), 10**400)
Spelled = tuple[Any, Any]  # what it means, and how it is written


class Questions:
    """Draws predicates for the rows of one table."""

    def __init__(self, type_: T, rows: Sequence[Any], rng: random.Random) -> None:
        self._rng = rng
        self._asked = list(_reached(type_, rows, ()))

    @property
    def possible(self) -> bool:
        return bool(self._asked)

    def draw(self, depth: int | None = None) -> Node:
        rng = self._rng
        depth = rng.choice((0, 1, 2, 5)) if depth is None else depth
        if depth == 0 or rng.random() < 0.15:
            return self._ask()
        if rng.random() < 0.25:
            return Not(self.draw(depth - 1))
        make = rng.choice((Both, Either))
        return make(self.draw(depth - 1), self.draw(depth - 1))

    def _ask(self) -> Ask:
        rng = self._rng
        path, type_, values = rng.choice(self._asked)
        kind = type_.kind
        # Of char, neutral values have lost the padding that a file may hold and a comparison sees.
        if type_.children or kind in ("struct", "char") or rng.random() < 0.1:
            return Ask(path, type_, "is null")
        question = rng.choice((*COMPARED, "in", "in", "between"))
        if kind == "boolean":
            question = rng.choice(("=", "!=", "in"))
        elif kind in ("string", "varchar", "binary") and rng.random() < 0.2:
            value, _ = self._literal(type_, values)
            prefix = value[: rng.choice((0, 1, 2, 30, 2000))]
            return Ask(path, type_, "starts with", (prefix,))
        count = {"in": rng.choice((0, 1, 3, 200)), "between": 2}.get(question, 1)
        found = [self._literal(type_, values) for _ in range(count)]
        return Ask(path, type_, question, tuple(f[0] for f in found), tuple(f[1] for f in found))

    def _literal(self, type_: T, values: Sequence[Any]) -> Spelled:
        maker = "integer" if type_.kind in INTEGERS else type_.kind.split(" ")[0]
        value = self._rng.choice(values) if values and self._rng.random() < 0.8 else None
        found: Spelled = getattr(self, f"_{maker}")(type_, value)
        return found

    def _boolean(self, _: T, __: bool | None) -> Spelled:
        value = self._rng.random() < 0.5
        return value, self._rng.choice((value, np.bool_(value)))

    def _integer(self, type_: T, value: int | None) -> Spelled:
        rng = self._rng
        number = rng.choice((*_EDGES, *_BEYOND, 1 << INTEGERS[type_.kind] - 1)) if value is None else value
        number += rng.choice((0, 0, 0, 1, -1))
        manner = rng.random()
        if manner < 0.6:
            return number, number
        if manner < 0.7 and abs(number) < 10**300:  # the float is what is meant, exact or not
            near = rng.choice(
                (float(number), number + 0.5, number - 0.5, math.inf, -math.inf, math.nan, -0.0)
            )
            return near, near
        if manner < 0.8:
            near_decimal = EXACT.add(
                Decimal(number), rng.choice((Decimal("0.1"), Decimal("-1E-30"), Decimal(0)))
            )
            return near_decimal, near_decimal
        if -(2**63) <= number < 2**63:
            return number, np.int64(number)
        return number, number

    def _double(self, _: T, value: float | None) -> Spelled:
        rng = self._rng
        if value is None or rng.random() < 0.1:
            whole = rng.choice((*_EDGES, *_BEYOND))
            return whole, whole
        if math.isnan(value) or math.isinf(value):
            near = rng.choice((value, math.nan, math.inf, -math.inf, 1.7976931348623157e308))
            return near, near
        near = rng.choice(
            (value, value, math.nextafter(value, math.inf), math.nextafter(value, -math.inf), -value)
        )
        manner = rng.random()
        if manner < 0.2:
            return near, np.float64(near)
        if manner < 0.4:  # more digits than a double has
            return near, Decimal(near)
        return near, near

    _float = _double

    def _decimal(self, type_: T, value: Decimal | None) -> Spelled:
        rng = self._rng
        scale = type_.scale or 0
        if value is None:
            whole = rng.choice((*_EDGES, *_BEYOND[:-1], 10 ** ((type_.precision or 38) - scale)))
            return Decimal(whole), whole
        step = Decimal(1).scaleb(-scale, EXACT)
        near = EXACT.add(value, rng.choice((Decimal(0), Decimal(0), step, -step, step / 2, Decimal("1E-50"))))
        if rng.random() < 0.2:  # a float is what it is printed as
            as_float = float(near)
            return Decimal(repr(as_float)), as_float
        return near, near

    def _string(self, _: T, value: str | None) -> Spelled:
        rng = self._rng
        if value is None:
            value = rng.choice(("", "\0", "\U0010ffff", "\uffff", "\ud7ff", "a" * 1024, "a" * 1025, "m"))
        near = rng.choice((value, value, value + "\0", value[:-1], value + "\U0010ffff", value[:1024]))
        return near, rng.choice((near, near, near.encode()))

    _varchar = _string

    def _binary(self, _: T, value: bytes | None) -> Spelled:
        value = b"" if value is None else value
        near = self._rng.choice((value, value, value + b"\0", value[:-1], value + b"\xff"))
        return near, near

    def _date(self, _: T, value: int | None) -> Spelled:
        rng = self._rng
        day = rng.choice((0, _FIRST_DAY, _LAST_DAY, -141_427, -141_428)) if value is None else value
        day += rng.choice((0, 0, 1, -1))
        if rng.random() < 0.3 or not _FIRST_DAY <= day <= _LAST_DAY:
            return day, np.datetime64(day, "D")
        date = datetime.date.fromordinal(day - _FIRST_DAY + 1)
        return day, rng.choice((date, datetime.datetime.combine(date, datetime.time())))

    def _timestamp(self, type_: T, value: int | None) -> Spelled:
        rng = self._rng
        instant = type_.kind != "timestamp"
        time = rng.choice((0, 2**62, -(2**62), -1, 1_425_000 * 10**12)) if value is None else value
        time += rng.choice((0, 0, 0, 1, -1, 1000, -NANOS))
        if not instant and rng.random() < 0.15:
            day = max(_FIRST_DAY, min(_LAST_DAY, time // DAY_NS))
            return day * DAY_NS, datetime.date.fromordinal(day - _FIRST_DAY + 1)
        if rng.random() < 0.4 or not _FIRST_DAY * DAY_NS <= time < (_LAST_DAY + 1) * DAY_NS:
            if -(2**63) < time < 2**63:
                return time, np.datetime64(time, "ns")
            return time // 1000 * 1000, np.datetime64(time // 1000, "us")
        moment = _EPOCH + datetime.timedelta(microseconds=time // 1000)
        meant = time // 1000 * 1000
        if not instant:
            return meant, moment.replace(tzinfo=None)
        hours = rng.choice((0, 0, 5, -8))
        try:
            return meant, moment.astimezone(datetime.timezone(datetime.timedelta(hours=hours)))
        except OverflowError:
            return meant, moment


def _reached(
    type_: T, rows: Sequence[Any], path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], T, list[Any]]]:
    """Columns that can be asked about, with their values; a union that is delivered is never null."""
    for index, (name, child) in enumerate(zip(type_.names, type_.children, strict=True)):
        here = (*path, name)
        values = [row[index] for row in rows if row[index] is not None]
        if child.kind != "uniontype":
            yield here, child, values
        if child.kind == "struct":
            yield from _reached(child, values, here)
