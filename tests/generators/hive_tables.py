"""Tables that Apache Hive wrote, with its own answers: rows, row ids, and which write ids are committed.

All are made in one session (`make_tables`), of as few statements as tell apart what directories can hold,
which takes minutes. So an archive keeps them; `python -m tests.generators.hive_tables` makes it anew. Where
everything is tried, Hive makes them again. Nothing here knows how such tables are read.
"""

from __future__ import annotations

import json
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from tests.servers.hive import Hive, start_hive

__all__ = ["TABLES", "HiveTable", "kept_tables", "make_tables"]

ARCHIVE: Final = Path(__file__).parents[1] / "data" / "hive_tables.zip"
ANSWERS: Final = "answers.json"
ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
RowId: TypeAlias = tuple[int, int, int]

INSERT_ONLY = "STORED AS ORC TBLPROPERTIES ('transactional'='true', 'transactional_properties'='insert_only')"


@dataclass(frozen=True)
class HiveTable:
    """A table as it lies in its folder, and what Hive reads there.

    `columns` are name and type of each, those of partitions last. A row of `rows` is its id (write id, bucket
    property, row id; None for tables that only take inserts) and its values, as `Hive.sql` has them.
    `write_ids` and `transactions` are Hive's text of what was committed.
    """

    name: str
    path: Path
    columns: list[tuple[str, str]]
    rows: list[tuple[RowId | None, tuple[Any, ...]]]
    write_ids: str
    transactions: str


def kept_tables(folder: Path) -> dict[str, HiveTable]:
    """All of `TABLES`, by their names, unpacked into this folder."""
    with zipfile.ZipFile(ARCHIVE) as archive:
        archive.extractall(folder)
    answers = json.loads((folder / ANSWERS).read_text(), object_hook=_bytes_of)
    return {name: _table_of(name, folder / name, answer) for name, answer in answers.items()}


def make_tables(hive: Hive) -> dict[str, HiveTable]:
    """The same from a Hive, where they lie in its warehouse."""
    made = {}
    for make in TABLES:
        name = make.__name__
        make(hive)
        made[name] = _described(hive, name)
    return made


def _keep(warehouse: Path, tables: dict[str, HiveTable]) -> None:
    """Write the archive, its entries in order and without times of their own."""
    answers = {
        name: {
            "columns": table.columns,
            "rows": table.rows,
            "write_ids": table.write_ids,
            "transactions": table.transactions,
        }
        for name, table in tables.items()
    }
    ARCHIVE.parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(ARCHIVE, "w", zipfile.ZIP_DEFLATED) as archive:
        text = json.dumps(answers, default=_json_of, indent=0)
        archive.writestr(zipfile.ZipInfo(ANSWERS), text, zipfile.ZIP_DEFLATED)
        for name in tables:
            for path in sorted((warehouse / name).rglob("*")):
                entry, is_folder = path.relative_to(warehouse).as_posix(), path.is_dir()
                data = b"" if is_folder else path.read_bytes()
                archive.writestr(
                    zipfile.ZipInfo(f"{entry}/" if is_folder else entry), data, zipfile.ZIP_DEFLATED
                )


def _json_of(value: bytes) -> dict[str, str]:
    return {"bytes in hex": value.hex()}


def _bytes_of(value: dict[str, Any]) -> Any:
    return bytes.fromhex(value["bytes in hex"]) if "bytes in hex" in value else value


def _table_of(name: str, path: Path, answer: dict[str, Any]) -> HiveTable:
    rows = [(None if ids is None else tuple(ids), tuple(values)) for ids, values in answer["rows"]]
    columns = [(column, kind) for column, kind in answer["columns"]]
    return HiveTable(name, path, columns, rows, answer["write_ids"], answer["transactions"])


def _described(hive: Hive, name: str) -> HiveTable:
    is_insert_only = name in INSERT_ONLY_TABLES
    columns, rows = hive.query(f"SELECT {'' if is_insert_only else 'row__id, '}* FROM {name}")
    described = [(column.removeprefix(f"{name}."), kind) for column, kind in columns]
    with_ids: list[tuple[RowId | None, tuple[Any, ...]]]
    if is_insert_only:
        with_ids = [(None, row) for row in rows]
    else:
        del described[0]
        with_ids = [((row[0]["writeid"], row[0]["bucketid"], row[0]["rowid"]), row[1:]) for row in rows]
    write_ids, transactions = hive.snapshot(name)
    return HiveTable(name, hive.location(name), described, with_ids, write_ids, transactions)


def changed(hive: Hive) -> None:
    """Each statement has its own write id."""
    hive.run(
        f"CREATE TABLE changed (a INT, b STRING) {ACID}",
        "INSERT INTO changed VALUES (1, 'one'), (2, 'two'), (3, NULL), (4, 'four')",
        "INSERT INTO changed VALUES (5, 'five')",
        "UPDATE changed SET b = 'three' WHERE a = 3",
        "DELETE FROM changed WHERE a = 2",
    )


def of_statements(hive: Hive) -> None:
    """Several statements in one transaction; then one that is taken back; then one that goes on."""
    hive.run(
        f"CREATE TABLE of_statements (a INT, b STRING) {ACID}",
        "START TRANSACTION",
        "INSERT INTO of_statements VALUES (1, 'one'), (2, 'two')",
        "INSERT INTO of_statements VALUES (3, 'three')",
        "DELETE FROM of_statements WHERE a = 1",
        "COMMIT",
        "START TRANSACTION",
        "INSERT INTO of_statements VALUES (4, 'never')",
        "DELETE FROM of_statements WHERE a = 3",
        "ROLLBACK",
        "INSERT INTO of_statements VALUES (5, 'five')",
    )


def merged(hive: Hive) -> None:
    """MERGE inserts, updates and deletes in one statement."""
    hive.run(
        f"CREATE TABLE merged (a INT, b STRING) {ACID}",
        "INSERT INTO merged VALUES (1, 'one'), (2, 'two'), (3, 'three')",
        "MERGE INTO merged t USING (SELECT a + 1 AS a, upper(b) AS b FROM merged) s ON t.a = s.a"
        " WHEN MATCHED AND t.a = 2 THEN DELETE"
        " WHEN MATCHED THEN UPDATE SET b = s.b"
        " WHEN NOT MATCHED THEN INSERT VALUES (s.a, s.b)",
    )


def compacted_minor(hive: Hive) -> None:
    """A minor compaction between changes, obsolete directories still there."""
    hive.run(
        f"CREATE TABLE compacted_minor (a INT, b STRING) {ACID}",
        "INSERT INTO compacted_minor VALUES (1, 'one'), (2, 'two'), (3, 'three'), (4, 'four')",
        "UPDATE compacted_minor SET b = 'second' WHERE a = 2",
    )
    hive.compact("compacted_minor", "minor")
    hive.run("DELETE FROM compacted_minor WHERE a < 3")


def compacted_major(hive: Hive) -> None:
    """A major compaction between changes, obsolete directories removed."""
    hive.run(
        f"CREATE TABLE compacted_major (a INT, b STRING) {ACID}",
        "INSERT INTO compacted_major VALUES (1, 'one'), (2, 'two'), (3, 'three'), (4, 'four')",
        "DELETE FROM compacted_major WHERE a = 1",
    )
    hive.compact("compacted_major", "major")
    hive.clean()
    hive.run("UPDATE compacted_major SET b = 'third' WHERE a = 3")


def partitioned(hive: Hive) -> None:
    """Two levels of partitions, one of them without a value; one is compacted by itself."""
    hive.run(
        f"CREATE TABLE partitioned (a INT) PARTITIONED BY (country STRING, year INT) {ACID}",
        "INSERT INTO partitioned VALUES (1, 'DE', 2024), (2, 'DE', 2025), (3, 'a b/c=d', 2025),"
        " (4, NULL, 2025), (5, 'DE', 2025), (6, 'DE', 2024)",
        "DELETE FROM partitioned WHERE a IN (1, 5)",
    )
    hive.compact("partitioned", "major", "country='DE', year=2025")


def bucketed(hive: Hive) -> None:
    """Many rows in three buckets, of which every third is deleted and some are changed twice."""
    hive.run(
        f"CREATE TABLE bucketed (a INT, b STRING) CLUSTERED BY (a) INTO 3 BUCKETS {ACID}",
        "INSERT INTO bucketed SELECT n, concat('row ', n) FROM"
        " (SELECT posexplode(split(space(2999), ' ')) AS (n, x)) numbers",
        "DELETE FROM bucketed WHERE a % 3 = 1",
        "UPDATE bucketed SET b = concat(b, '!') WHERE a % 7 = 0",
        "UPDATE bucketed SET b = concat(b, '?') WHERE a % 14 = 0",
    )


def bucketed_compacted(hive: Hive) -> None:
    """The same changes to fewer rows, compacted twice."""
    hive.run(
        f"CREATE TABLE bucketed_compacted (a INT, b STRING) CLUSTERED BY (a) INTO 2 BUCKETS {ACID}",
        "INSERT INTO bucketed_compacted SELECT a, b FROM bucketed WHERE a < 300",
        "DELETE FROM bucketed_compacted WHERE a % 4 = 1",
    )
    hive.compact("bucketed_compacted", "minor")
    hive.run("UPDATE bucketed_compacted SET b = concat(b, '!') WHERE a % 14 = 0")
    hive.compact("bucketed_compacted", "major")


def typed(hive: Hive) -> None:
    """Every type there is, with and without values; a column is added in between."""
    hive.run(
        "CREATE TABLE typed (bo BOOLEAN, ti TINYINT, si SMALLINT, i INT, bi BIGINT, f FLOAT, d DOUBLE,"
        " de DECIMAL(20,4), s STRING, vc VARCHAR(5), c CHAR(4), bin BINARY, da DATE, ts TIMESTAMP,"
        f" li ARRAY<INT>, ma MAP<STRING,INT>, st STRUCT<x:INT,y:STRING>) {ACID}",
        "INSERT INTO typed SELECT true, 1Y, 2S, 3, 4L, CAST(0.1 AS FLOAT), 0.2D, 123456789.5BD, 'äöü',"
        " CAST('vc' AS VARCHAR(5)), CAST('c' AS CHAR(4)), CAST('bytes' AS BINARY), DATE '1969-12-31',"
        " TIMESTAMP '2024-02-29 12:34:56.123456789', array(1, 2), map('k', 1),"
        " named_struct('x', 1, 'y', 'y')",
        "INSERT INTO typed (i) VALUES (5), (6)",
        "ALTER TABLE typed ADD COLUMNS (added STRING)",
        "UPDATE typed SET s = 'changed', added = 'new' WHERE i = 3",
        "INSERT INTO typed (i, added) VALUES (7, 'seven')",
    )


def insert_only(hive: Hive) -> None:
    """Plain files in deltas; what was there is overwritten once."""
    hive.run(
        f"CREATE TABLE insert_only (a INT, b STRING) {INSERT_ONLY}",
        "INSERT INTO insert_only VALUES (1, 'one')",
        "INSERT OVERWRITE TABLE insert_only SELECT 2, 'two'",
        "INSERT INTO insert_only VALUES (3, 'three')",
    )


def overwritten(hive: Hive) -> None:
    """A base that is no compaction's, and a change of it."""
    hive.run(
        f"CREATE TABLE overwritten (a INT, b STRING) {ACID}",
        "INSERT INTO overwritten VALUES (1, 'one')",
        "INSERT OVERWRITE TABLE overwritten SELECT a, b FROM changed",
        "DELETE FROM overwritten WHERE a = 4",
    )


def emptied(hive: Hive) -> None:
    """A base without rows stands in for what was there."""
    hive.run(
        f"CREATE TABLE emptied (a INT) {ACID}",
        "INSERT INTO emptied VALUES (1)",
        "TRUNCATE TABLE emptied",
    )


def converted(hive: Hive) -> None:
    """Files from before the table was transactional: several of one bucket, and those of subfolders."""
    hive.run(
        "CREATE TABLE converted (a INT, b STRING) CLUSTERED BY (a) INTO 2 BUCKETS STORED AS ORC"
        " TBLPROPERTIES ('transactional'='false')",
        "INSERT INTO converted SELECT a, b FROM changed",
        "INSERT INTO converted SELECT a + 10, b FROM changed",
        "ALTER TABLE converted SET TBLPROPERTIES ('transactional'='true')",
        "DELETE FROM converted WHERE a = 11",
        "UPDATE converted SET b = 'after' WHERE a = 4",
    )


def of_unions(hive: Hive) -> None:
    """Files in subfolders, as other engines leave those of a union, from before it was transactional."""
    hive.run(
        "SET mapreduce.input.fileinputformat.input.dir.recursive=true",
        "CREATE TABLE of_unions (a INT, b STRING) STORED AS ORC TBLPROPERTIES ('transactional'='false')",
        "INSERT INTO of_unions SELECT a, b FROM changed",
        "INSERT INTO of_unions SELECT a + 10, b FROM changed",
    )
    for number, name in enumerate(("000000_0", "000000_0_copy_1"), 1):
        folder = hive.location("of_unions") / f"HIVE_UNION_SUBDIR_{number}"
        folder.mkdir()
        for prefix, suffix in (("", ""), (".", ".crc")):
            (folder.parent / f"{prefix}{name}{suffix}").rename(folder / f"{prefix}000000_0{suffix}")
    hive.run(
        "ALTER TABLE of_unions SET TBLPROPERTIES ('transactional'='true')",
        "DELETE FROM of_unions WHERE a = 11",
    )


def loaded(hive: Hive) -> None:
    """Plain files that were moved into a delta, and a change of their rows."""
    hive.run(
        "CREATE TABLE to_load (a INT, b STRING) STORED AS ORC TBLPROPERTIES ('transactional'='false')",
        "INSERT INTO to_load SELECT a, b FROM changed",
        f"CREATE TABLE loaded (a INT, b STRING) {ACID}",
        "INSERT INTO loaded VALUES (10, 'ten')",
        f"LOAD DATA LOCAL INPATH '{hive.location('to_load')}/000000_0' INTO TABLE loaded",
        "DELETE FROM loaded WHERE a = 3",
    )


TABLES: tuple[Callable[[Hive], None], ...] = (
    changed,
    of_statements,
    merged,
    compacted_minor,
    compacted_major,
    partitioned,
    bucketed,
    bucketed_compacted,
    typed,
    insert_only,
    overwritten,
    emptied,
    converted,
    of_unions,
    loaded,
)
INSERT_ONLY_TABLES = {"insert_only"}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="orcstream-tables") as place, start_hive(Path(place)) as hive:
        _keep(Path(place), make_tables(hive))
