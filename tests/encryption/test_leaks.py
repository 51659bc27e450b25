"""Nothing of the values of encrypted columns stands in clear: every type and compression, searched through.

Each rule of writing is broken once on purpose, and the search finds it.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from orcstream import Encrypt
from orcstream.codec.crypto import sealing
from orcstream.codec.crypto import streams as encryption
from orcstream.codec.encode import encoders, file_encoder
from orcstream.codec.encode.encoded import EncodedColumn, EncodedStream, encoded
from orcstream.codec.metadata.structure import StreamKind
from tests.generators.encrypting import SECRETS, written
from tests.reference import compare
from tests.reference.encryption import Locked
from tests.reference.types import T, Union, parse
from tests.reference.values import EXACT
from tests.support import writing
from tests.support.effort import pairs
from tests.support.leaks import clear_parts, leaks, traces_of_file, traces_of_values

COMPRESSIONS = ("none", "zlib", "snappy", "lzo", "lz4", "zstd", "brotli")
DAY = 86_400 * 10**9
COUNT = 120
MAKERS: dict[str, Callable[[random.Random], Any]] = {
    "boolean": lambda rng: rng.random() < 0.5,
    "tinyint": lambda rng: rng.randint(-128, 127),
    "smallint": lambda rng: rng.randint(-(1 << 15), (1 << 15) - 1),
    "int": lambda rng: rng.randint(1 << 29, (1 << 31) - 1),
    "bigint": lambda rng: rng.randint(-(1 << 62), 1 << 62),
    "float": lambda rng: rng.randint(1 << 22, 1 << 23) * 0.5,
    "double": lambda rng: rng.gauss(0, 1e100),
    "string": lambda rng: f"secret {rng.randrange(150):03} of Ärger",
    "varchar(30)": lambda rng: f"varied {rng.randrange(1 << 40):015}",
    "char(24)": lambda rng: f"charred {rng.randrange(1 << 40):015}",
    "binary": lambda rng: rng.randbytes(rng.randint(8, 20)),
    "date": lambda rng: rng.randint(2_200_000, 2_800_000),
    "timestamp": lambda rng: rng.randrange(DAY * 90_000) + 1,
    "timestamp with local time zone": lambda rng: rng.randrange(DAY * 90_000) + 1,
    "decimal(18,4)": lambda rng: Decimal(10 * rng.randint(10**15, 10**16) + 7).scaleb(-4, EXACT),
    "decimal(38,10)": lambda rng: Decimal(10 * rng.randint(-(10**29), 10**29) + 7).scaleb(-10, EXACT),
}
PLAIN = T("struct", tuple(map(parse, MAKERS)), tuple(f"c{i}" for i in range(len(MAKERS))))
# Each type by itself, once more in a struct, a list, a map and a union, and clear columns around.
NESTED = parse("struct<l:array<string>,m:map<string,bigint>,u:uniontype<bigint,string>,s:struct<x:string>>")
TYPE = T(
    "struct",
    (T("int"), *PLAIN.children, *NESTED.children, PLAIN, T("string")),
    ("first", *PLAIN.names, *NESTED.names, "inner", "last"),
)
COLUMNS: list[str | tuple[str, ...]] = [*PLAIN.names, *NESTED.names[:3], "s.x"]
COLUMNS += [f"inner.{name}" for name in PLAIN.names]
ENCRYPT = (Encrypt("pii", COLUMNS[::2]), Encrypt("pay", COLUMNS[1::2]))


def _rows() -> list[Any]:
    rng = random.Random(5)
    texts, longs = MAKERS["string"], MAKERS["bigint"]

    def plain() -> tuple[Any, ...]:
        return tuple(None if rng.random() < 0.1 else make(rng) for make in MAKERS.values())

    def nested() -> tuple[Any, ...]:
        union = Union(1, texts(rng)) if rng.random() < 0.5 else Union(0, longs(rng))
        items, pairs = [texts(rng) for _ in range(rng.randrange(4))], [(texts(rng), longs(rng))]
        return items, pairs, union, (texts(rng),)

    return [(number, *plain(), *nested(), plain(), f"clear {number}") for number in range(COUNT)]


ROWS = _rows()
PARTS = [[writing.python_value(TYPE, row) for row in ROWS[at : at + 60]] for at in range(0, COUNT, 60)]
BLOOMS = [
    path
    for path, type_ in zip(
        COLUMNS, (*PLAIN.children, *NESTED.children[:3], T("string"), *PLAIN.children), strict=True
    )
    if type_.kind not in ("boolean", "array", "map", "uniontype")
]
OPTIONS: dict[str, Any] = {
    "row_index_stride": 30,
    # Two stripes. Statistics of a few rows are short, and would be found by chance.
    "stripe_bytes": 20 << 10,
    "blooms": BLOOMS,
    "original_blooms": True,
    "dictionary_threshold": 1,
    "user_metadata": {"about": "what the user says is clear"},
}


def file_of(encrypt: Any, **options: Any) -> bytes:
    return written(str(TYPE), PARTS, encrypt, **{**OPTIONS, **options})


@functools.cache
def traces(**options: Any) -> dict[str, Any]:
    """Of the values, and of a file that is like ours but not encrypted."""
    clear = {0, 1, *(column for column, path in enumerate(_paths()) if path in ("last", "s", "inner"))}
    columns = set(range(len(TYPE.flatten()))) - clear
    found: dict[str, Any] = dict(traces_of_file(file_of([], **options), columns))
    for index, type_ in enumerate(PLAIN.children, 1):
        values = [row[index] for row in ROWS] + [row[-2][index - 1] for row in ROWS]
        if type_.kind not in ("boolean", "tinyint", "smallint", "date"):
            found[f"values of {type_}"] = traces_of_values(type_, values)
    return found


def _paths() -> list[str]:
    """The names of columns, by column id."""
    found = [""]
    for name, child in zip(TYPE.names, TYPE.children, strict=True):
        found += [name, *[f"{name}."] * (len(child.flatten()) - 1)]
    return found


@pytest.mark.parametrize(
    ("compression", "threshold", "version"),
    [
        *((*both, "0.12") for both in pairs(COMPRESSIONS, (0, 1))),
        ("none", 1, "0.11"),
        ("zlib", 0, "UNSTABLE-PRE-2.0"),
    ],
)
def test_nothing_is_found(compression: str, threshold: float, version: str) -> None:
    options: dict[str, Any] = {
        "compression": compression,
        "dictionary_threshold": threshold,
        "file_version": version,
    }
    data = file_of(ENCRYPT, **options)
    assert len(Locked(data).stripes) > 1
    found = traces(**options)
    assert leaks(data, found) == []
    clear = leaks(file_of([], **options), found)
    for what in found:
        assert any(text.startswith(what) for text in clear), f"{what} would not be found, if they were there"


def test_what_can_be_read_is_searched() -> None:
    names = {name for name, _ in clear_parts(file_of(ENCRYPT))}
    assert {"the file", "the footer", "the metadata", "a stripe footer"} < names
    columns = range(len(TYPE.flatten()))
    assert {f"stream 6 of column {column}" for column in columns} < names, "the clear row indexes"


# --- broken on purpose -----------------------------------------------------------------------------


def _both(columns: list[EncodedColumn]) -> dict[int, tuple[EncodedColumn, EncodedColumn]]:
    clear = {column.column: column for column in columns if column.variant is None}
    return {c.column: (clear[c.column], c) for c in columns if c.variant is not None}


def _copies(streams: tuple[EncodedStream, ...]) -> tuple[EncodedStream, ...]:
    """Encryption takes place in the others."""
    return tuple(EncodedStream(stream.information, list(stream.pieces)) for stream in streams)


def _mixed(mix: Callable[[EncodedColumn, EncodedColumn], EncodedColumn]) -> Any:
    def mixed_up(*arguments: Any) -> list[EncodedColumn]:
        columns = encoded(*arguments)
        both = _both(columns)
        mixed = {number: mix(*pair) for number, pair in both.items()}
        return [mixed.get(one.column, one) if one.variant is None else one for one in columns]

    return mixed_up


def _statistics(monkeypatch: pytest.MonkeyPatch) -> None:
    mixed = _mixed(lambda clear, hidden: replace(clear, statistics=hidden.statistics))
    monkeypatch.setattr(file_encoder, "encoded", mixed)


def _indexes(monkeypatch: pytest.MonkeyPatch) -> None:
    mixed = _mixed(lambda clear, hidden: replace(clear, index=_copies(hidden.index[:1])))
    monkeypatch.setattr(file_encoder, "encoded", mixed)


def _filters(monkeypatch: pytest.MonkeyPatch) -> None:
    mixed = _mixed(lambda clear, hidden: replace(clear, index=(*clear.index, *_copies(hidden.index[1:]))))
    monkeypatch.setattr(file_encoder, "encoded", mixed)


def _data(monkeypatch: pytest.MonkeyPatch) -> None:
    mixed = _mixed(lambda clear, hidden: replace(clear, data=_copies(hidden.data)))
    monkeypatch.setattr(file_encoder, "encoded", mixed)


class _NoMask:
    def apply(self, _: Any, vector: Any) -> Any:
        return vector


def _values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoders, "mask_of", lambda *_: _NoMask())


def _encrypt_nothing_of(kinds: set[StreamKind]) -> Callable[[pytest.MonkeyPatch], None]:
    def broken(monkeypatch: pytest.MonkeyPatch) -> None:
        stream_cipher = encryption.stream_cipher

        class Nothing:
            def apply(self, data: Any, _: int = 0) -> bytes:
                return bytes(data)

        def cipher(key: bytes, column: int, kind: StreamKind, stripe_id: int) -> Any:
            return Nothing() if kind in kinds else stream_cipher(key, column, kind, stripe_id)

        for module in (file_encoder, sealing):
            monkeypatch.setattr(module, "stream_cipher", cipher)

    return broken


BROKEN: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "statistics of values in clear": _statistics,
    "row indexes in clear": _indexes,
    "filters in clear": _filters,
    "data in clear": _data,
    "no masks": _values,
    **{
        f"{kind.name} is not encrypted": _encrypt_nothing_of({kind})
        for kind in StreamKind
        if kind not in (StreamKind.UNKNOWN, StreamKind.PRESENT, StreamKind.DICTIONARY_COUNT)
        and not kind.name.startswith("ENCRYPTED")
    },
}


@pytest.mark.parametrize(("broken", "compression"), pairs(BROKEN, ["none", "zlib"]))
def test_a_broken_rule_is_found(broken: str, compression: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = traces(compression=compression)
    BROKEN[broken](monkeypatch)
    assert leaks(file_of(ENCRYPT, compression=compression), found) != []


def test_the_values_are_there_for_who_has_the_keys() -> None:
    compare.assert_same_rows(TYPE, Locked(file_of(ENCRYPT)).rows(SECRETS), ROWS)
