"""Verifying files: those of every writer are sound, and every lie about values is found."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import hypothesis
import pytest

import orcstream
from orcstream.cli import main as cli
from orcstream.codec.encode.statistics import statistics_of
from orcstream.reader import verifying
from orcstream.reader.verifying import Verification
from tests.generators import strategies
from tests.generators.encrypting import CountedKeys
from tests.generators.seeds import encrypted
from tests.golden.corpus_table import TABLE
from tests.interop import test_java_written, test_pyarrow_written, test_written
from tests.reference.builder import FileBuilder, Options
from tests.reference.columns import Encoder, add_stripe, make_file
from tests.reference.indexes import Index
from tests.reference.statistics import Statistics, honest
from tests.reference.types import T
from tests.support import writing
from tests.support.effort import share, some

SOUND = [path for path, row in TABLE.items() if row.judge != "refused"]
TYPE = T(
    "struct",
    (T("bigint"), T("double"), T("string"), T("date"), T("array", (T("int"),))),
    ("n", "x", "text", "day", "list"),
)
FIRST_DAY = date(2020, 1, 1).toordinal() - date(1970, 1, 1).toordinal()
ROWS = [
    (n, n / 4, f"text {n:04}" if n % 7 else None, FIRST_DAY + n, list(range(n % 5 + 1))) for n in range(1000)
]


async def verified(target: Any, **options: Any) -> Verification:
    async with orcstream.open(target, **options) as file:
        return await file.verify()


@pytest.mark.parametrize("path", some(SOUND))
async def test_files_of_the_corpus_are_sound(corpus_folder: Path, path: str) -> None:
    """What their writers are known to get wrong excepted."""
    options = {name: value for name, value in TABLE[path].options.items() if name != "timestamp_unit"}
    found = await verified(corpus_folder / path, **options)
    assert found.is_sound, [str(fault) for fault in found.faults if not fault.is_known]


@pytest.mark.java
@pytest.mark.usefixtures("java")
@hypothesis.settings(max_examples=share(25))
@hypothesis.given(
    table=strategies.tables(strategies.schemas(strategies.EVERYTHING, unions=True)),
    options=strategies.java_options(),
)
def test_files_of_java_are_sound(
    tmp_path_factory: pytest.TempPathFactory, table: strategies.Table, options: dict[str, object]
) -> None:
    path = tmp_path_factory.mktemp("java") / "any.orc"
    test_java_written.write(path, table, options)
    assert_sound(path)


@hypothesis.settings(max_examples=share(25))
@hypothesis.given(table=strategies.tables(test_pyarrow_written.SCHEMAS), options=strategies.cpp_options())
def test_files_of_pyarrow_are_sound(
    tmp_path_factory: pytest.TempPathFactory, table: strategies.Table, options: dict[str, Any]
) -> None:
    path = tmp_path_factory.mktemp("pyarrow") / "any.orc"
    test_pyarrow_written.write(path, table, options)
    assert_sound(path)


@hypothesis.settings(max_examples=share(40))
@hypothesis.given(table=strategies.tables(test_written.SCHEMAS), options=writing.options())
def test_our_files_are_sound(
    tmp_path_factory: pytest.TempPathFactory, table: strategies.Table, options: dict[str, Any]
) -> None:
    path = tmp_path_factory.mktemp("ours") / "any.orc"
    parts = writing.pieces(table.type_, table.rows, table.seed)
    writing.write(path, table.type_, parts, **writing.with_blooms(table.type_, options))
    found = assert_sound(path)
    assert found.faults == ()


def assert_sound(path: Path) -> Verification:
    found: Verification = anyio.run(verified, path)
    assert found.is_sound, [str(fault) for fault in found.faults if not fault.is_known]
    return found


def test_encrypted_files_with_and_without_keys() -> None:
    for data in encrypted().values():
        for keys in (CountedKeys(), None):
            found = anyio.run(partial(verified, data, keys=keys))
            assert (found.is_sound, found.faults) == (True, ())


def lie(change: Callable[[list[Any]], list[Any]], column: str) -> Statistics:
    """Honest statistics of other values, for the column of this type."""

    def make(type_: T, found: Sequence[Any]) -> bytes:
        return honest(type_, change(list(found)) if type_.kind == column and found else found)

    return make


def without_largest(found: list[Any]) -> list[Any]:
    there = sorted({value for value in found if value is not None})
    return [there[-2] if value == there[-1] else value for value in found]


def without_least(found: list[Any]) -> list[Any]:
    there = sorted({value for value in found if value is not None})
    return [there[1] if value == there[0] else value for value in found]


def without_nulls(found: list[Any]) -> list[Any]:
    return ["text 0001" if value is None else value for value in found]


def one_more(found: list[Any]) -> list[Any]:
    return [*found, found[1]]


def longer(found: list[Any]) -> list[Any]:
    return [[*value, 0] for value in found]


LIES = [
    ("bigint", without_largest, "n", "maximum"),
    ("bigint", without_least, "n", "minimum"),
    ("bigint", without_least, "n", "sum"),
    ("bigint", one_more, "n", "value_count"),
    ("double", without_largest, "x", "maximum"),
    ("double", without_least, "x", "minimum"),
    ("double", without_largest, "x", "sum"),
    ("string", without_largest, "text", "maximum"),
    ("string", without_least, "text", "minimum"),
    ("string", without_nulls, "text", "has_null"),
    ("date", without_largest, "day", "maximum"),
    ("date", without_least, "day", "minimum"),
]


@pytest.mark.parametrize("place", ["row group", "stripe and file"])
@pytest.mark.parametrize(("kind", "change", "column", "expected"), LIES)
async def test_a_lie_is_found_where_it_is(
    place: str, kind: str, change: Callable[[list[Any]], list[Any]], column: str, expected: str
) -> None:
    false = lie(change, kind)
    group, above = (false, honest) if place == "row group" else (honest, false)
    options = Options(stride=300, statistics=above, writer_version=9)
    found = await verified(make_file(TYPE, ROWS, Encoder(index=Index(300, group)), options))
    assert not found.is_sound
    assert expected in {fault.kind for fault in found.faults}
    assert {fault.column for fault in found.faults} == {column}
    places = {(fault.stripe, fault.row_group) for fault in found.faults}
    groups: set[tuple[int | None, int | None]] = {(0, number) for number in range(4)}
    assert places == (groups if place == "row group" else {(0, None), (None, None)})


async def test_honest_files_are_sound() -> None:
    options = Options(stride=300, statistics=honest)
    found = await verified(make_file(TYPE, ROWS, Encoder(index=Index(300)), options))
    assert (found.row_count, found.stripe_count, found.row_group_count, found.faults) == (1000, 1, 4, ())
    assert found.claim_count == 7 * (4 + 1 + 1)


@pytest.mark.parametrize("place", ["row group", "stripe and file"])
async def test_a_wrong_count_of_rows_is_found(place: str) -> None:
    """The root has no name, so its statistics are found by column id only."""
    false = lie(lambda found: [*found, found[0]], "struct")
    group, above = (false, honest) if place == "row group" else (honest, false)
    options = Options(stride=300, statistics=above, writer_version=9)
    found = await verified(make_file(TYPE, ROWS, Encoder(index=Index(300, group)), options))
    assert not found.is_sound
    assert {(fault.kind, fault.column) for fault in found.faults} == {("value_count", "")}
    places = {(fault.stripe, fault.row_group) for fault in found.faults}
    groups: set[tuple[int | None, int | None]] = {(0, number) for number in range(4)}
    assert places == (groups if place == "row group" else {(0, None), (None, None)})


async def test_columns_of_one_name_are_compared() -> None:
    """A dotted name that two columns share names neither."""
    type_ = T("struct", (T("struct", (T("bigint"),), ("b",)), T("bigint")), ("a", "a.b"))
    false = lie(without_largest, "bigint")
    data = make_file(type_, [((n,), n) for n in range(10)], options=Options(statistics=false))
    found = await verified(data)
    places = [(fault.stripe, fault.column) for fault in found.faults if fault.kind == "maximum"]
    assert places == [(0, "a.b"), (0, "a.b"), (None, "a.b"), (None, "a.b")]


async def test_children_of_a_writer_that_counts_them() -> None:
    options = Options(stride=300, writer=1, software="2.0.0", statistics=honest)
    found = await verified(make_file(TYPE, ROWS, Encoder(index=Index(300, lie(longer, "array"))), options))
    assert {(fault.kind, fault.column) for fault in found.faults} == {("children", "list")}
    assert not found.is_sound


async def test_what_a_writer_is_known_for_does_no_harm() -> None:
    """Bounds of texts by ORC Java before HIVE-8732 are not believed, those of numbers are."""
    false = lie(without_largest, "string")
    options = Options(stride=300, writer_version=0)
    found = await verified(make_file(TYPE, ROWS, Encoder(index=Index(300, false)), options))
    assert found.is_sound
    assert {(fault.kind, fault.is_known) for fault in found.faults} >= {("maximum", True)}


def three_stripes() -> bytes:
    builder = FileBuilder(TYPE, Options(statistics=honest))
    for first in (0, 100, 200):
        add_stripe(builder, ROWS[first : first + 100])
    return builder.build()


async def test_damage_is_named_and_the_rest_looked_at() -> None:
    data = bytearray(three_stripes())
    async with orcstream.open(bytes(data)) as file:
        second = file.stripes[1].data_range
    data[second.start : second.stop] = b"\xff" * second.length
    found = await verified(bytes(data))
    (fault,) = found.faults
    assert (fault.kind, fault.stripe, found.stripe_count) == ("unreadable", 1, 2), str(fault)
    assert not found.is_sound


async def test_some_stripes_only() -> None:
    async with orcstream.open(three_stripes()) as file:
        seen: list[int] = []
        found = await file.verify(stripes=range(1, 3), on_rows=seen.append)
    assert (found.stripe_count, found.row_count, found.faults) == (2, 200, ())
    assert seen[-1] == 200


@pytest.mark.parametrize("stripes", [range(2, 4), range(-1, 1), range(3, 2, -1)])
async def test_stripes_that_are_not_there(stripes: range) -> None:
    async with orcstream.open(three_stripes()) as file:
        with pytest.raises(orcstream.UsageError, match=r"\bstripe (3|-1): .*\b3\b"):
            await file.verify(stripes=stripes)
        assert (await file.verify(stripes=range(3, 3))).is_sound


async def test_values_are_looked_at_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many columns that takes longer than a loop may be held up."""
    threads = set()

    def seen(*arguments: Any) -> Any:
        threads.add(threading.get_ident())
        return statistics_of(*arguments)

    monkeypatch.setattr(verifying, "statistics_of", seen)
    assert (await verified(three_stripes())).is_sound
    assert threads
    assert threading.get_ident() not in threads


def test_the_command_line_shows_no_passwords_and_obeys_no_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for more in ([], ["--json"]):
        assert cli.main(["verify", *more, "memory://me:hunter2@there/none.orc"]) == 1
        assert "hunter2" not in capsys.readouterr().out
    type_ = T("struct", (T("bigint"),), ("a\x1b[2Jb\nc.orc: sound",))
    rows = [(n,) for n in range(10)]
    false = lie(without_largest, "bigint")
    path = tmp_path / "bad.orc"
    path.write_bytes(make_file(type_, rows, Encoder(index=Index(300, false)), Options(stride=300)))
    assert cli.main(["verify", str(path)]) == 1
    first, *others = capsys.readouterr().out.splitlines()
    assert "not sound" in first
    assert others
    assert all(r", a\x1b[2Jb\nc.orc: sound: " in line for line in others)


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad, odd = tmp_path / "good.orc", tmp_path / "bad.orc", tmp_path / "odd.orc"
    good.write_bytes(make_file(TYPE, ROWS, Encoder(index=Index(300)), Options(stride=300, statistics=honest)))
    false = lie(without_largest, "bigint")
    bad.write_bytes(make_file(TYPE, ROWS, Encoder(index=Index(300, false)), Options(stride=300)))
    odd.write_bytes(b"no ORC")
    assert cli.main(["verify", str(good)]) == 0
    assert capsys.readouterr().out == (f"{good}: sound: 1,000 rows, 1 stripe, 4 row groups, 42 claims\n")
    missing = str(tmp_path / "missing.orc")
    assert cli.main(["verify", str(good), str(bad), str(odd), missing]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(": ")[2].partition(":")[0] for line in lines if not line.startswith(" ")] == [
        "sound",
        "not sound",
        "cannot be read",
        "cannot be read",
    ]
    assert "  stripe 0, row group 3, n: maximum is 998, the values say 999" in lines
    assert cli.main(["verify", "--json", str(bad)]) == 1
    printed = json.loads(capsys.readouterr().out)
    (found,) = printed["files"]
    assert printed["sound"] is False
    assert (found["sound"], found["row_count"], found["faults"][0]["column"]) == (False, 1000, "n")
