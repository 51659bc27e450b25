"""Written files are no larger than those that ORC Java makes of the same values with the same options."""

from __future__ import annotations

import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.generators import arrow
from tests.reference import java_orc
from tests.reference.types import parse
from tests.support import writing

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("java")]

COUNT = 50_000
COLUMNS: dict[str, tuple[str, Callable[[random.Random, int], Any]]] = {
    "words": ("string", lambda rng, _: rng.choice(("alpha", "beta", "gamma", "delta", "epsilon"))),
    "keys": ("string", lambda rng, _: f"{rng.getrandbits(64):016x}"),
    "sorted keys": ("string", lambda _, n: f"key-{n // 3:08}"),
    "ids": ("bigint", lambda _, n: 10**9 + n),
    "random": ("bigint", lambda rng, _: rng.getrandbits(40)),
    "prices": ("int", lambda rng, _: int(rng.lognormvariate(7, 1.5))),
    "doubles": ("double", lambda rng, _: rng.gauss(0, 1e6)),
    "cents": ("double", lambda rng, _: round(rng.lognormvariate(3, 1), 2)),
    "times": ("timestamp", lambda rng, n: 17 * 10**17 + n * 25 * 10**7 + rng.randrange(10**5) * 1000),
    "decimals": ("decimal(12,2)", lambda rng, _: Decimal(rng.randrange(10**7)).scaleb(-2)),
    "days": ("date", lambda rng, _: 19_000 + rng.randrange(2000)),
    "flags": ("boolean", lambda rng, _: rng.random() < 0.1),
    "nulls": ("int", lambda rng, _: None if rng.random() < 0.3 else rng.randrange(1000)),
    "lists": ("array<int>", lambda rng, _: [rng.randrange(100) for _ in range(rng.randrange(5))]),
}


def sizes(folder: Path, text: str, values: list[Any], compression: str) -> tuple[int, int]:
    type_ = parse(f"struct<a:{text}>")
    rows = [(value,) for value in values]
    options = {"orc.compress": compression, "orc.compression.zstd.level": 3}
    java_orc.write(folder / "java.orc", type_, rows, options=options)
    ours = folder / "ours.orc"
    writing.write(ours, type_, [arrow.table_of(type_, rows)], compression=compression.lower())
    return ours.stat().st_size, (folder / "java.orc").stat().st_size


@pytest.mark.sampled
@pytest.mark.parametrize("compression", ["NONE", "ZSTD"])
@pytest.mark.parametrize("name", COLUMNS)
def test_no_larger_than_java(tmp_path: Path, name: str, compression: str) -> None:
    text, make = COLUMNS[name]
    rng = random.Random(name)
    values = [make(rng, number) for number in range(COUNT)]
    ours, java = sizes(tmp_path, text, values, compression)
    # Our name is longer than theirs.
    assert ours <= 1.02 * java + 40, (ours, java)


@pytest.mark.sampled
@pytest.mark.parametrize(
    "pattern", ["customer-{:06}", "{:x}.user@mail.example.org", "https://host.example/a/{}/index.html"]
)
@pytest.mark.parametrize("distinct", [1000, 5000, 20_000])
def test_dictionaries(tmp_path: Path, pattern: str, distinct: int) -> None:
    rng = random.Random(5)
    values = [pattern.format(rng.randrange(distinct) * 7919) for _ in range(4 * COUNT)]
    ours, java = sizes(tmp_path, "string", values, "ZSTD")
    assert ours <= 1.02 * java, (ours, java)
