"""Apache Hive for tests: SQL on transactional tables, compaction, and the metastore's Thrift, in one JVM.

`make servers` fetches its jars. Jobs run in the process (local MapReduce), the metastore is in memory.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from tests.servers.java_server import start_java_server

__all__ = ["Hive", "HiveError", "start_hive"]

FOLDER = Path(__file__).with_name("hive_server")
# What Hive's own start script opens to its reflection.
OPENED = (
    "java.lang",
    "java.lang.reflect",
    "java.io",
    "java.math",
    "java.net",
    "java.nio",
    "java.text",
    "java.time",
    "java.util",
    "java.util.concurrent",
    "java.util.concurrent.atomic",
    "java.util.regex",
)
OPTIONS = tuple(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED)
TIMEOUT_S = 300
# A worker does one of the compactions that were asked for, the oldest first; others may have asked before.
_REQUESTS = 4
_MINOR_OR_MAJOR = ("minor", "major")
_CLEANED_S = 30


class HiveError(Exception):
    """What Hive said no to; the text is its stack trace."""


class Hive:
    """One session of a Hive, for one statement at a time. Its tables are folders of `warehouse`."""

    def __init__(self, warehouse: Path, sql_port: int, thrift_port: int) -> None:
        self.warehouse = warehouse
        self.sql_port = sql_port
        self.thrift_port = thrift_port
        self._socket = socket.create_connection(("127.0.0.1", sql_port), TIMEOUT_S)
        self._lines = self._socket.makefile("rw", encoding="utf-8")

    def sql(self, text: str) -> list[tuple[Any, ...]]:
        """The rows of one statement, none for most.

        Decimals, dates and timestamps are Hive's text, float and double floats, binary bytes; lists, maps and
        structs are parsed from Hive's JSON.
        """
        return self.query(text)[1]

    def query(self, text: str) -> tuple[list[tuple[str, str]], list[tuple[Any, ...]]]:
        """Name and type of each column, and the rows."""
        answer = self._ask({"sql": text})
        columns = [(name, kind) for name, kind in answer["columns"]]
        parsers = [_parser(kind) for _, kind in columns]
        return columns, [
            tuple(None if value is None else parse(value) for parse, value in zip(parsers, row, strict=True))
            for row in answer["rows"]
        ]

    def run(self, *statements: str) -> None:
        """One after the other."""
        for statement in statements:
            self.sql(statement)

    def snapshot(self, table: str) -> tuple[str, str]:
        """Hive's text of the write ids of a table, and of the transactions, that are committed now."""
        answer = self._ask({"snapshot": f"default.{table}"})
        return answer["write_ids"], answer["transactions"]

    def compact(self, table: str, kind: str, partition: str | None = None) -> None:
        """Compact a table, or a partition given as ``p='x'``, to the end; the old directories stay."""
        assert kind in _MINOR_OR_MAJOR, kind
        of = f" PARTITION ({partition})" if partition else ""
        deadline_s = time.monotonic() + _CLEANED_S
        while True:
            try:
                self.sql(f"ALTER TABLE {table}{of} COMPACT '{kind}'")
                break
            except HiveError as error:
                # What is left of an earlier one is cleaned when its transaction is a second old.
                if "ready for cleaning" not in str(error) or time.monotonic() > deadline_s:
                    raise
            time.sleep(0.3)
            self._ask({"run": "cleaner"})
        for _ in range(_REQUESTS):
            self._ask({"run": "worker"})

    def clean(self) -> None:
        """Remove the directories that compactions made obsolete, and those of aborted transactions."""
        self._ask({"run": "initiator"})
        self._ask({"run": "cleaner"})

    def location(self, table: str) -> Path:
        """The folder of a table of the database ``default``."""
        return self.warehouse / table.lower()

    def close(self) -> None:
        """End the session; Hive itself goes on."""
        self._lines.close()
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _ask(self, question: dict[str, str]) -> dict[str, Any]:
        self._lines.write(json.dumps(question) + "\n")
        self._lines.flush()
        answer: dict[str, Any] = json.loads(self._lines.readline())
        if "error" in answer:
            raise HiveError(f"{next(iter(question.values()))}: {answer['error']}")
        return answer


def _parser(kind: str) -> Callable[[Any], Any]:
    if kind in ("float", "double"):
        return float
    if kind == "binary":
        return bytes.fromhex
    if kind.startswith(("array<", "map<", "struct<", "uniontype<")):
        return json.loads
    return lambda value: value


def start_hive(warehouse: Path) -> Hive:
    """A Hive of its own, with its tables in this folder; it ends with this process."""
    sql_port, thrift_port = start_java_server(
        "hive",
        FOLDER / "HiveGateway.java",
        str(warehouse),
        str(FOLDER / "transaction_tables.sql"),
        options=OPTIONS,
    )
    return Hive(warehouse, sql_port, thrift_port)
