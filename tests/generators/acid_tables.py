"""Transactional tables for tests: what is in one, and one that is changed again and again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orcstream import acid

__all__ = ["SCHEMA", "rows_of"]

SCHEMA = "struct<id:int,name:string>"


async def rows_of(url: str, write_id: int | None = None, **options: Any) -> dict[int, str]:
    """The rows of a table of this schema, by id; each is there once."""
    async with acid.open_table(url, write_ids=write_id, **options) as table:
        rows = (await table.read(columns=["id", "name"])).to_pylist()
    found: Mapping[int, str] = {row["id"]: row["name"] for row in rows}
    assert len(found) == len(rows), "a row is there twice"
    return dict(found)
