"""The corpus of foreign files: where it is, what its manifest says, and what the files hold.

The corpus lives outside the project; only the variable ORCSTREAM_CORPUS knows where. Expected contents
come in the notations of their origins (JSON lines, CSV, JSON), all read by `from_text`, guided by the
file's type.
"""

from __future__ import annotations

import csv
import datetime
import functools
import gzip
import json
import os
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.support.compare import Printed
from tests.support.reference import values
from tests.support.reference.types import T, Union

VARIABLE = "ORCSTREAM_CORPUS"


def root() -> Path | None:
    """The corpus folder, or None where the variable is not set. Set but wrong is an error, never a skip."""
    text = os.environ.get(VARIABLE)
    if text is None:
        return None
    folder = Path(text)
    if not (folder / "MANIFEST.json").is_file():
        raise FileNotFoundError(f"{VARIABLE} is {text!r}, which holds no MANIFEST.json")
    return folder


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
    return [from_text(type_, item) for item in items]


def csv_rows(file: Path, type_: T) -> list[object]:
    """Rows of a CSV file without a header; a backslash and an N are null."""
    with file.open(newline="") as lines:
        return [
            tuple(
                cell.encode()
                if child.kind == "binary" and cell != "\\N"
                else from_text(child, None if cell == "\\N" else cell)
                for child, cell in zip(type_.children, line, strict=True)
            )
            for line in csv.reader(lines)
        ]


def from_text(type_: T, value: Any) -> object:
    """A value of any origin's notation in neutral form; a field that is left out is null."""
    kind = type_.kind
    if value is None:
        return None
    if kind == "struct":
        fields = {name.lower(): item for name, item in value.items()}
        children = zip(type_.names, type_.children, strict=True)
        return tuple(from_text(child, fields.get(name.lower())) for name, child in children)
    if kind == "array":
        return [from_text(type_.children[0], item) for item in value]
    if kind == "map":
        pairs = value.items() if isinstance(value, dict) else [(i["key"], i["value"]) for i in value]
        key, item = type_.children
        return [(from_text(key, k), from_text(item, v)) for k, v in pairs]
    if kind == "uniontype":
        tag = value["tag"]
        return Union(tag, from_text(type_.children[tag], value["value"]))
    return _scalar(type_, value)


def _scalar(type_: T, value: Any) -> object:
    kind = type_.kind
    if kind == "boolean":
        return value if isinstance(value, bool) else value == "TRUE"
    if kind in ("tinyint", "smallint", "int", "bigint"):
        return int(value)
    if kind == "double":
        return float(value)
    if kind == "float":
        return Printed(struct.unpack("<f", struct.pack("<f", float(value)))[0])
    if kind == "decimal":
        assert type_.scale is not None
        return Decimal(value).quantize(Decimal(1).scaleb(-type_.scale), context=values.EXACT)
    if kind == "date":
        return datetime.date.fromisoformat(value).toordinal() - 719_163
    if kind.startswith("timestamp"):
        return _timestamp(value)
    if kind == "binary":
        return bytes(value) if isinstance(value, list) else bytes.fromhex(value)
    assert isinstance(value, str), value
    return value


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
