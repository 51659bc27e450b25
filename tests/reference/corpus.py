"""The corpus of foreign files: what its manifest says, and what the files hold.

The corpus lives outside the project; the fixture `corpus_folder` knows where. Expected contents
come in the notations of their origins (JSON lines, CSV, JSON), all read by `_FromText`, guided by the
file's type.
"""

from __future__ import annotations

import csv
import datetime
import functools
import gzip
import json
import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.reference import values
from tests.reference.columnwise import Conversion
from tests.reference.compare import Printed
from tests.reference.types import T


@functools.cache
def manifest(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "MANIFEST.json").read_text())
    return found


def entry(folder: Path, path: str) -> dict[str, Any]:
    """The manifest's entry of one file."""
    found: dict[str, Any] = next(item for item in manifest(folder)["files"] if item["path"] == path)
    return found


def json_rows(file: Path, type_: T) -> list[object]:
    """Rows of a file of JSON lines, or of one JSON array."""
    text = gzip.decompress(file.read_bytes()).decode() if file.suffix == ".gz" else file.read_text()
    if text.lstrip().startswith("["):
        items = json.loads(text, parse_float=Decimal)
    else:
        items = [json.loads(line, parse_float=Decimal) for line in text.splitlines() if line.strip()]
    return _FROM_TEXT.convert(type_, items)


def csv_rows(file: Path, type_: T) -> list[object]:
    """Rows of a CSV file without a header; a backslash and an N are null."""
    with file.open(newline="") as lines:
        return _FROM_CSV.convert(type_, list(csv.reader(lines)))


class _FromText(Conversion):
    """Any origin's notation; a field that is left out is null."""

    def fields(self, type_: T, values: list[Any], /) -> Sequence[Sequence[Any]]:
        rows = [{name.lower(): item for name, item in value.items()} for value in values]
        return [[row.get(name.lower()) for row in rows] for name in type_.names]

    def pairs(self, value: Any, /) -> list[Any]:
        return list(value.items()) if isinstance(value, dict) else [(i["key"], i["value"]) for i in value]

    def tagged(self, value: Any, /) -> tuple[int, Any]:
        return value["tag"], value["value"]

    def leaf(self, type_: T, /) -> Callable[[Any], object] | None:
        if type_.kind == "decimal":
            assert type_.scale is not None
            unit = Decimal(1).scaleb(-type_.scale)
            return lambda value: Decimal(value).quantize(unit, context=values.EXACT)
        return _timestamp if type_.kind.startswith("timestamp") else _SCALARS.get(type_.kind, _text)


class _FromCsv(_FromText):
    def fields(self, _: T, values: list[Any], /) -> Sequence[Sequence[Any]]:
        columns = zip(*values, strict=True)
        return [[None if cell == "\\N" else cell for cell in column] for column in columns]

    def leaf(self, type_: T, /) -> Callable[[Any], object] | None:
        return str.encode if type_.kind == "binary" else super().leaf(type_)


def _text(value: Any) -> str:
    assert isinstance(value, str), value
    return value


def _float(value: Any) -> Printed:
    return Printed(struct.unpack("<f", struct.pack("<f", float(value)))[0])


def _date(text: str) -> int:
    return datetime.date.fromisoformat(text).toordinal() - 719_163


def _timestamp(text: str) -> int:
    """Wall clock, or UTC where the text has an offset, to the nanosecond."""
    day, time = text.replace("T", " ").split(" ", 1)
    clock, _, zone = time.partition(" ")
    if not zone and "-" in clock:
        clock, _, zone = clock.partition("-")
        zone = f"-{zone}00"
    seconds, _, fraction = clock.partition(".")
    when = datetime.datetime.fromisoformat(f"{day} {seconds}+00:00")
    total = int((when - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)).total_seconds())
    if zone:
        total -= (1 if zone[0] == "+" else -1) * (int(zone[1:3]) * 3600 + int(zone[3:5]) * 60)
    return total * values.NANOS + int(f"{fraction:0<9}")


_SCALARS: dict[str, Callable[[Any], object]] = {
    "boolean": lambda value: value if isinstance(value, bool) else value == "TRUE",
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), int),
    "double": float,
    "float": _float,
    "date": _date,
    "binary": lambda value: bytes(value) if isinstance(value, list) else bytes.fromhex(value),
}
_FROM_TEXT, _FROM_CSV = _FromText(), _FromCsv()
