"""New keys for merged files: what the user may ask for, and what it costs."""

from __future__ import annotations

import io
from typing import Any

import pytest

import orcstream
from orcstream import Encrypt
from orcstream.errors import UsageError
from tests.support.encrypting import CountedKeys, written

SCHEMA = "struct<a:int,b:string,c:string>"
ROWS = [(i, f"b{i}", f"c{i}") for i in range(10)]
PII = written(SCHEMA, [ROWS], [Encrypt("pii", ["b"])])
PAY = written(SCHEMA, [ROWS], [Encrypt("pay", ["b"])])
PLAIN = written(SCHEMA, [ROWS], [])


@pytest.mark.parametrize(
    ("files", "rekey", "message"),
    [
        ([PII], {"piii": "pay"}, "'piii', and the files are encrypted with 'pii'"),
        ([PII], {"pii": "pay", "zz": "pay"}, "'zz'"),
        ([PLAIN], {"pii": "pay"}, "encrypted with no key"),
    ],
)
async def test_a_key_that_no_file_has_is_not_replaced_in_silence(
    files: list[bytes], rekey: dict[str, str], message: str
) -> None:
    target = io.BytesIO()
    with pytest.raises(UsageError, match=message):
        await orcstream.merge(files, target, keys=CountedKeys(), rekey=rekey)
    assert target.getvalue() == b""


async def test_files_of_different_keys_go_together_under_a_new_one() -> None:
    target = io.BytesIO()
    await orcstream.merge([PII, PAY], target, keys=CountedKeys(), rekey={"pii": "zz", "pay": "zz"})
    async with orcstream.open(target.getvalue(), keys=CountedKeys(), require_keys=True) as file:
        assert [column.key.name for column in file.encrypted_columns] == ["zz"]
        assert [tuple(row.values()) for row in (await file.read()).to_pylist()] == ROWS * 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"keys": "keys.json"}, "keys must be a key provider, not str"),
        ({"keys": CountedKeys(), "rekey": True, "target_keys": {}}, "target_keys must be a key provider"),
        ({"keys": CountedKeys(), "rekey": {"pii": 5}}, "old and new names"),
    ],
)
async def test_what_is_no_key(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        await orcstream.merge([PII], io.BytesIO(), **options)
