"""Small varied real files to damage, written by pyarrow, pyorc and the builder.

Those with encrypted columns are this package's own. CORPUS_SEEDS are names of files in the corpus.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
from fsspec.implementations.memory import MemoryFileSystem
from pyarrow import orc

import orcstream
from orcstream import Encrypt
from tests.generators import arrow, strategies
from tests.generators.encrypting import CountedKeys, written
from tests.reference import columns, compression, peers
from tests.reference.builder import Options
from tests.reference.types import struct

FLAT = struct(
    b="boolean", t="tinyint", i="int", l="bigint", f="float", d="double", s="string", x="binary",
    a="date", w="timestamp", n="decimal(12,3)", h="decimal(30,5)",
)  # fmt: skip
NESTED = struct(
    l="array<array<int>>",
    m="map<string,struct<a:int,b:string>>",
    s="struct<x:struct<y:bigint>,z:array<string>>",
)
UNIONS = struct(u="uniontype<int,string,array<double>>", i="timestamp with local time zone", v="varchar(9)")
CORPUS_SEEDS = (
    "apache-orc/TestOrcFile.test1.orc",
    "apache-orc/java/orc-file-dst-no-timezone.orc",
    "apache-orc/decimal64_v2_cplusplus.orc",
    "apache-orc/encrypted/sample1.orc",
    "apache-orc/TestOrcFile.testTimestamp.orc",
    "orc-rust/alltypes.lzo.orc",
    "orc-rust/alltypes.lz4.orc",
    "paimon-cpp/append_with_bitmap_multi_stripes/bucket-0/data-55e21ed3-d118-4d75-a0fd-cd52039cb634-0.orc",
)


def write_all(folder: Path) -> dict[str, bytes]:
    """The seeds by name; `folder` is for writers that need one."""
    limits = strategies.Limits()
    found: dict[str, bytes] = {}
    path = folder / "seed.orc"
    for number, kind in enumerate(strategies.CPP_COMPRESSIONS):
        table = strategies.make_table(FLAT, 300, number, limits)
        orc.write_table(arrow.table_of(table.type_, table.rows), path, compression=kind, row_index_stride=100)
        found[f"pyarrow-{kind}"] = path.read_bytes()
    table = strategies.make_table(NESTED, 100, 7, limits)
    peers.write_pyorc(path, table.type_, table.rows, row_index_stride=50, bloom_filter_columns=[])
    found["pyorc-nested"] = path.read_bytes()
    unions = strategies.make_table(UNIONS, 100, 8, limits)
    found["built-unions"] = columns.make_file(UNIONS, unions.rows)
    old = strategies.make_table(FLAT, 150, 9, limits)
    options = Options(compression=compression.ZLIB, block_size=64, version=(0, 11))
    found["built-version-1"] = columns.make_file(
        FLAT, old.rows, columns.Encoder(version=1, dictionary=True), options
    )
    found.update(encrypted())
    return found


def encrypted_rows(start: int, stop: int) -> list[dict[str, Any]]:
    return [
        {
            "id": row,
            "who": {"ssn": f"ssn-{row % 7}", "born": datetime.date(1970, 1, 1 + row % 28)},
            "tags": [f"tag {row}"] * (row % 3),
            "pay": row,
        }
        for row in range(start, stop)
    ]


def encrypted() -> dict[str, bytes]:
    """Files with encrypted columns; their master keys are those of `encrypting.SECRETS`."""
    schema = "struct<id:int,who:struct<ssn:string,born:date>,tags:array<string>,pay:decimal(10,2)>"
    encrypt = [Encrypt("pii", ["who", "tags"], "redact"), Encrypt("pay", ["pay"])]
    options: dict[str, Any] = {"stripe_bytes": 1024, "row_index_stride": 1000, "blooms": ["who.ssn", "pay"]}
    parts = [encrypted_rows(start, start + 1100) for start in (0, 1100)]
    found = {
        f"encrypted-{kind}": written(schema, parts, encrypt, compression=kind, **options)
        for kind in ("none", "zlib", "zstd")
    }
    # Stripes under other local keys than the tail.
    keys = CountedKeys()
    files = [written(schema, [part], encrypt, keys=keys, compression="none", **options) for part in parts]
    found["encrypted-merged"] = merged(files, keys)
    return found


def merged(files: Sequence[bytes], keys: CountedKeys) -> bytes:
    url = "memory://seeds/merged.orc"
    anyio.run(lambda: orcstream.merge(files, url, keys=keys))
    return bytes(MemoryFileSystem.store.pop("/seeds/merged.orc").getvalue())
