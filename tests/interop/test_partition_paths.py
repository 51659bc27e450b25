"""Names of partitions are those of Hive and Spark, and other programs find the values in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest

import orcstream
from orcstream.plan.acid.names import NULL_TEXT, escape
from orcstream.writer.template import UrlTemplate, text_of
from tests.reference import java_orc

TEXTS = [
    *(chr(code) for code in range(1, 128)),
    "a/b=c",
    "2024-01-01 00:00:00.5",
    "100%",
    "ß€😀",
    "a.b",
    "...",
    "{x}[y]^",
]


@pytest.mark.parametrize("judge", ["hive", "spark"])
def test_escapes_are_those_of(judge: str, java: None) -> None:
    for text in TEXTS:
        if text != ".":  # they would make it the folder itself
            assert escape(text) == java_orc.partition_text(judge, text), text


def test_what_would_be_another_folder() -> None:
    assert (escape("."), escape("..")) == ("%2E", "%2E%2E")


def test_nulls_are_named_as_hive_does(java: None) -> None:
    for empty in (None, ""):
        assert escape(text_of(empty)) == NULL_TEXT == java_orc.partition_text("hive", empty)


async def test_pyarrow_reads_the_partitions(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"n": number, "t": text, "i": number % 3} for number, text in enumerate(TEXTS)
    ]
    rows += [{"n": -1, "t": None, "i": None}]
    template = f"{tmp_path}/part-{{uuid}}.orc"
    schema = "struct<n:bigint,t:string,i:int>"
    async with orcstream.ingest(template, schema, partition_by=["t", "i"], max_open_files=500) as out:
        await out.write(rows)
    typed = pyarrow.schema([("t", pyarrow.string()), ("i", pyarrow.int32())])
    hive = pyarrow.dataset.partitioning(typed, flavor="hive")
    found = pyarrow.dataset.dataset(tmp_path, format="orc", partitioning=hive).to_table().to_pylist()
    assert sorted(found, key=lambda row: row["n"]) == sorted(rows, key=lambda row: row["n"])


def test_urls() -> None:
    made = UrlTemplate.parse("s3://b/{{x}}/d={d}/{number:05}-{d}.orc", None)
    assert made.columns == ("d",)
    assert made.url({"d": "1%2F2"}, 7) == "s3://b/{x}/d=1%2F2/00007-1%2F2.orc"
    assert not made.is_unique
    made = UrlTemplate.parse("{number}.orc", ["a:b", "c"])
    assert made.url({"a:b": "1", "c": "2"}, 0) == "a%3Ab=1/c=2/0.orc"
    made = UrlTemplate.parse("x/{uuid}", None)
    assert made.is_unique
    assert made.url({}, 0) != made.url({}, 0)
