"""What a person meets who slips: names what to write instead; and how objects show at a prompt."""

from __future__ import annotations

import io
import pickle
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import orcstream
from orcstream.errors import RetriesExhausted, SourceError, UsageError
from orcstream.io.contract.byte_source import RetryPolicy, Transient
from orcstream.io.keys import InMemoryKeyProvider


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = str(tmp_path / "t.orc")
    orcstream.blocking.write(
        path, [{"a": number, "b": None} for number in range(10)], "struct<a:int,b:string>"
    )
    return path


@pytest.mark.parametrize(
    ("made", "name"),
    [
        (lambda path: orcstream.open(path), "schema"),
        (lambda path: orcstream.open(path), "batches"),
        (lambda path: orcstream.create(path + "2", "struct<a:int>"), "write"),
        (lambda path: orcstream.ingest(path + "-{number}", "struct<a:int>"), "write"),
    ],
)
def test_a_forgotten_await_is_called_that(path: str, made: Any, name: str) -> None:
    pending = made(path)
    assert "await orcstream." in repr(pending)
    with pytest.raises(AttributeError, match=rf"'{name}'.*\bawait orcstream\."):
        getattr(pending, name)


async def test_what_a_prompt_shows(path: str) -> None:
    async with orcstream.open(path) as file:
        assert repr(file.statistics).startswith(f"<FileStatistics of {path}: 2 columns")
        stream = file.batches()
        assert repr(stream) == f"<BatchStream of {path}: 2 columns, open>"
        async for _ in stream:
            pass
        assert repr(stream) == f"<BatchStream of {path}: 2 columns, ended>"
        await stream.aclose()
        assert repr(stream) == f"<BatchStream of {path}: 2 columns, closed>"
    async with orcstream.create(io.BytesIO(), "struct<a:int>") as out:
        await out.write([{"a": 1}])
        assert repr(out).endswith(": 1 rows, open>")
    assert repr(out).endswith(": 1 rows, committed>")
    keys = InMemoryKeyProvider()
    keys.add_key("pii", b"0123456789abcdef")
    assert "pii" in repr(keys)
    assert "0123" not in repr(keys)


@pytest.mark.parametrize("codec", ["none", "zlib", "zstd"])
async def test_a_codec_is_shown_as_it_is_given(codec: str, tmp_path: Path) -> None:
    async with orcstream.create(tmp_path / "t.orc", "struct<a:int>", compression=codec):
        pass
    async with orcstream.open(tmp_path / "t.orc") as file:
        assert (str(file.compression), f"{file.compression:>5}") == (codec, f"{codec:>5}")


async def test_an_ingest_shows_how_far_it_is(path: str) -> None:
    async with orcstream.ingest(path + "-{number}", "struct<a:int>") as out:
        await out.write([{"a": 1}, {"a": 2}])
        assert repr(out) == "<Ingester: 2 rows, 0 files committed, open>"


def test_what_cannot_be_pickled_says_what_can(path: str) -> None:
    with orcstream.blocking.open(path) as file:
        result = file.read()
        (batch,) = result.batches
        for made, hint in [
            (result, r"result\.to_arrow\(\)"),
            (batch, r"batch\.to_arrow\(\)"),
            (batch.column("a"), r"pyarrow\.array\(column\)"),
        ]:
            with pytest.raises(TypeError, match=hint):
                pickle.dumps(made)
    tables = [result.to_arrow(), pa.Table.from_batches([batch.to_arrow()])]
    assert [table.num_rows for table in pickle.loads(pickle.dumps(tables))] == [10, 10]


async def test_an_open_file_says_what_to_pickle(path: str) -> None:
    async with orcstream.open(path) as file:
        with pytest.raises(TypeError, match=r"file\.tail\.to_bytes\(\)"):
            pickle.dumps(file)
        url, tail = pickle.loads(pickle.dumps((file.url, file.tail.to_bytes())))
    async with orcstream.open(url, tail=tail) as file:
        assert file.row_count == 10


def test_one_number_is_no_list_of_them(path: str) -> None:
    with (
        orcstream.blocking.open(path) as file,
        pytest.raises(UsageError, match=r"take\(\).*\[3\]"),
    ):
        file.take(3)  # type: ignore[arg-type]


def test_one_row_is_no_dictionary_of_columns() -> None:
    with pytest.raises(UsageError, match=r"'a'.*\bint\b.*\blist\b"):
        orcstream.blocking.write(io.BytesIO(), {"a": 1})


def test_one_filter_is_no_list_of_them(path: str) -> None:
    where: Any = ("a", ">", 5)
    with pytest.raises(UsageError, match=r"\[\('a', '>', 5\)\]"):
        orcstream.blocking.read(path, where=where)
    assert orcstream.blocking.read(path, where=[where]).num_rows == 4


@pytest.mark.parametrize("ending", ["", "/"])
def test_a_folder_is_called_that(tmp_path: Path, ending: str) -> None:
    with pytest.raises(SourceError, match=r"\bopen_many\b"):
        orcstream.blocking.read(f"{tmp_path}{ending}")


def test_a_text_is_parsed_where_somebody_says_so(path: str) -> None:
    where: Any = "a >= 8"
    with pytest.raises(UsageError, match=r"orcstream\.Expr\.parse\(\)"):
        orcstream.blocking.read(path, where=where)
    assert orcstream.blocking.read(path, where=orcstream.Expr.parse(where)).num_rows == 2


async def test_an_address_is_said_once() -> None:
    async def attempt() -> None:
        raise Transient("no answer", url="s3://bucket/a")

    with pytest.raises(RetriesExhausted) as caught:
        await RetryPolicy(retries=0, timeout_s=60).run(attempt, url="s3://bucket/a")
    assert str(caught.value).count("s3://bucket/a") == 1


async def test_a_class_is_no_key_provider() -> None:
    with pytest.raises(UsageError, match=r"\bclass InMemoryKeyProvider\b"):
        await orcstream.open(b"", keys=InMemoryKeyProvider)  # type: ignore[arg-type]


@pytest.mark.parametrize("age", [None, "1h", b"1", [3600]])
async def test_an_age_is_a_number_of_seconds(tmp_path: Path, age: Any) -> None:
    with pytest.raises(UsageError, match=r"\bolder_than_s\b"):
        await orcstream.cleanup(tmp_path, older_than_s=age)


@pytest.mark.parametrize("age", [None, "1h", float("nan")])
async def test_ages_of_transactional_tables_are_numbers_of_seconds(tmp_path: Path, age: Any) -> None:
    await orcstream.acid.create_table(tmp_path, "struct<a:int>")
    async with orcstream.acid.open_table(tmp_path) as table:
        for call in (table.clean, table.abort_dead):
            with pytest.raises(UsageError, match=r"\bolder_than_s\b"):
                await call(older_than_s=age)


@pytest.mark.parametrize("options", ["secret", 5, ["secret"], {5: "secret"}, [("key", "secret")]])
async def test_options_of_stores_are_a_dictionary(path: str, options: Any) -> None:
    given: Any = {"storage_options": options}

    async def refused(call: Awaitable[object]) -> None:
        with pytest.raises(UsageError, match=r"\bstorage_options\b") as caught:
            await call
        assert "secret" not in str(caught.value)

    await refused(orcstream.open(path, **given))
    await refused(orcstream.create(path, "struct<a:int>", **given))
    await refused(orcstream.create(path + "2", "struct<a:int>", growing=True, **given))
    await refused(orcstream.merge([path], path, **given))
    await refused(orcstream.cleanup(path, older_than_s=0, **given))
    await refused(orcstream.dataset(str(Path(path).parent), **given))
    assert orcstream.blocking.read(path).num_rows == 10


@pytest.mark.parametrize("odd", [[], {}, ["id"], slice(3)])
async def test_what_cannot_be_hashed_is_no_choice(path: str, odd: Any) -> None:
    async with orcstream.open(path) as file:
        for call in (file.read, file.explain):
            with pytest.raises(UsageError):
                await call(timestamp_unit=odd)
        with pytest.raises(UsageError):
            file.statistics[odd]
        with pytest.raises(UsageError):
            file.statistics.get(odd)


@pytest.mark.parametrize("limit", ["x", -1, 0, True, 1e9])
async def test_memory_limits_of_reads_are_integers(path: str, limit: Any) -> None:
    async with orcstream.open(path) as file, orcstream.dataset(path) as files:
        with pytest.raises(UsageError):
            await file.read(memory_limit=limit)
        with pytest.raises(UsageError):
            await files.read(memory_limit=limit)
