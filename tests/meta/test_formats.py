"""docs/formats.md names everything that the format has, and says of it what the code does."""

from __future__ import annotations

import enum
import io
import re

import pyarrow as pa
import pytest

import orcstream
from orcstream.codec.encode.bloom_build import can_have_bloom
from orcstream.codec.metadata.structure import Calendar, EncodingKind, StreamKind
from orcstream.codec.streams.compression import Compression
from orcstream.encryption import EncryptionAlgorithm, KeyProviderKind
from orcstream.plan.prune.proof import _STATISTICS
from orcstream.schema.types import Kind
from tests.meta.tree import ROOT

PAGE = (ROOT / "docs" / "formats.md").read_text()
PROTO = (ROOT / "proto" / "orc_proto.proto").read_text()
# Names that stand for "not said", in the format or in ours.
UNSAID = {"UNKNOWN", "UNKNOWN_CALENDAR", "UNKNOWN_ENCRYPTION"}


def _rows(first_cell: str) -> dict[str, list[str]]:
    """The table whose head begins so: its rows by their first cells, without backquotes."""
    table = re.search(rf"^\| {first_cell} \|.*\n\| [- |]+\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    assert table, first_cell
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table[1].splitlines()]
    return {row[0].strip("`"): row[1:] for row in rows}


def _section(heading: str) -> set[str]:
    """The first cells of the first table below a heading."""
    part = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return set(re.findall(r"^\| `([^`]+)` \|", part, re.MULTILINE))


def _proto(message: str, name: str = "Kind") -> set[str]:
    """The names of an enum of the format's protobuf messages; `message` is empty for those outside."""
    text = re.search(rf"^message {message} {{(.*?)^}}", PROTO, re.MULTILINE | re.DOTALL) if message else None
    found = re.search(rf"enum {name} {{(.*?)}}", text[1] if text else PROTO, re.DOTALL)
    assert found
    return set(re.findall(r"^ *(\w+) = \d+;", found[1], re.MULTILINE)) - UNSAID


@pytest.mark.parametrize(
    ("heading", "members", "written"),
    [
        ("Types", Kind, _proto("Type")),
        ("Compression", Compression, _proto("", "CompressionKind")),
        ("Encodings", EncodingKind, _proto("ColumnEncoding")),
        ("Streams", StreamKind, _proto("Stream")),
        ("Calendars", Calendar, _proto("", "CalendarKind")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_all_there_is_is_in_its_table(heading: str, members: type[enum.Enum], written: set[str]) -> None:
    assert _section(heading) == written
    assert {member.name for member in members} - UNSAID == written


def test_encryption_is_in_its_tables() -> None:
    algorithms = _proto("", "EncryptionAlgorithm")
    providers = _proto("", "KeyProviderKind")
    assert _section("Encryption") == algorithms | providers
    assert {one.name for one in EncryptionAlgorithm} - UNSAID == algorithms
    assert {one.name for one in KeyProviderKind} - UNSAID == providers


def _written(type_: str = "int", **options: object) -> bytes:
    target = io.BytesIO()
    with orcstream.blocking.create(target, f"struct<v:{type_}>", **options) as out:  # type: ignore[arg-type]
        out.write([{"v": None}])
    return target.getvalue()


@pytest.mark.parametrize(("kind", "cells"), _rows("kind \\| text").items())
def test_types_are_what_the_table_says(kind: str, cells: list[str]) -> None:
    text, arrow, bounds, bloom = (cell.strip("`") for cell in cells)
    with orcstream.blocking.open(_written(text)) as file:
        type_ = file.schema["v"]
        assert type_.kind.name == kind
        assert str(pa.schema(file.batches().batch_schema).field("v").type) == arrow
        assert file.read().to_pylist() == [{"v": None}]
    assert (bloom == "yes") == can_have_bloom(type_)
    # Statistics of booleans are counts, those of binaries say how long they are together.
    has_bounds = _STATISTICS.get(type_.kind) not in (None, "boolean", "binary")
    assert (bounds == "yes") == has_bounds


@pytest.mark.parametrize(("kind", "cells"), _rows("kind \\| word").items())
def test_codecs_are_written_and_read(kind: str, cells: list[str]) -> None:
    with orcstream.blocking.open(_written(compression=cells[0].strip("`"))) as file:
        assert file.compression.name == kind
        assert file.read().num_rows == 1


@pytest.mark.parametrize("version", _rows("version"))
def test_file_versions_are_written_and_read(version: str) -> None:
    with orcstream.blocking.open(_written("string", file_version=version)) as file:
        assert file.read().num_rows == 1
        kind = file.stripe_footer(0).encodings[1].kind
        assert (kind in (EncodingKind.DIRECT, EncodingKind.DICTIONARY)) == (version == "0.11")


def test_the_named_tests_are_there() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)`", PAGE)
    assert len(named) > 10
    assert [path for path in named if not (ROOT / path).is_file()] == []
