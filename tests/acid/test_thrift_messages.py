"""Messages of Thrift as bytes, against thriftpy2's own encoder; and messages that claim too much."""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orcstream.acid.transactions import thrift_messages as messages
from orcstream.acid.transactions.metastore_client import MetastoreClient, services
from orcstream.errors import SourceError
from tests.servers.metastores import server

TEXT = st.text(max_size=8)
COLUMNS = st.lists(st.tuples(TEXT, TEXT), max_size=4)


def table_of(name: str, columns: list[tuple[str, str]], parameters: dict[str, str]) -> Any:
    types = services()
    cols = [types.FieldSchema(name=one, type=kind) for one, kind in columns]
    storage = types.StorageDescriptor(cols=cols, location=name, numBuckets=-1, compressed=True)
    return types.Table(tableName=name, sd=storage, partitionKeys=cols, parameters=parameters)


def message_of(value: Any, number: int = 7) -> bytes:
    """As thriftpy2 writes the answer of `get_table_req`."""
    types = services()
    result = types.ThriftHiveMetastore.get_table_req_result(success=types.GetTableResult(table=value))
    return messages.encoded_call("get_table_req", number, messages.encoded(result))


TABLES = st.builds(table_of, TEXT, COLUMNS, st.dictionaries(TEXT, TEXT, max_size=4))


@given(TABLES, st.data())
def test_a_message_is_whole_at_its_last_byte(table: Any, data: st.DataObject) -> None:
    whole = message_of(table)
    cuts = sorted(data.draw(st.sets(st.integers(1, len(whole) - 1), max_size=8)))
    message = messages.Message()
    for first, last in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        assert not message.is_whole
        message.feed(whole[first:last])
    assert message.is_whole
    assert message.data == whole
    kind, method, number, at = messages.message_head(whole)
    assert (kind, method, number) == (messages.CALL, "get_table_req", 7)
    found = services().ThriftHiveMetastore.get_table_req_result()
    assert messages.decoded(whole, at, found).success.table == table


@given(TABLES, st.integers(-(1 << 63), (1 << 63) - 1), st.binary(max_size=4))
def test_other_fields_of_a_struct_stay_as_they_are(table: Any, write_id: int, unknown: bytes) -> None:
    """Those that no version has as well."""
    raw = messages.encoded(table)
    later = {99: (11, struct.pack(">i", len(unknown)) + unknown)}
    data = messages.with_fields(messages.with_fields(raw, later), {19: (10, struct.pack(">q", write_id))})
    found = messages.fields(data)
    assert found[99] == later[99]
    assert found[19] == (10, struct.pack(">q", write_id))
    assert messages.decoded(data, 0, services().Table()) == table
    assert {one: value for one, value in found.items() if one not in (19, 99)} == messages.fields(raw)


@given(st.lists(TABLES, max_size=3))
def test_elements_of_a_list(tables: list[Any]) -> None:
    types = services()
    parts = [types.Partition(values=[one.tableName], sd=one.sd) for one in tables]
    raw = messages.encoded(types.GetPartitionsByNamesResult(partitions=parts))
    found = messages.elements(messages.fields(raw)[1][1])
    assert [messages.decoded(one, 0, types.Partition()) for one in found] == parts


@given(TABLES, st.data())
def test_damaged_messages_are_one_error(table: Any, data: st.DataObject) -> None:
    whole = bytearray(message_of(table))
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    message = messages.Message()
    try:
        message.feed(bytes(whole))
        if message.is_whole:
            *_, at = messages.message_head(bytes(whole))
            messages.fields(bytes(whole), at)  # of what is bounded, all can be looked at
    except messages.MessageError:
        pass


# --- what a metastore may claim ----------------------------------------------------------------------------

MOST = (1 << 31) - 1
HEAD = b"\x0c\x00\x00"  # the answer, a struct
CLAIMS = {
    "a text": HEAD + b"\x0b\x00\x01" + struct.pack(">i", MOST),
    "a text of less than nothing": HEAD + b"\x0b\x00\x63" + struct.pack(">i", -5) + b"abc",
    "a list of what takes no bytes": HEAD + b"\x0f\x00\x63" + b"\x01" + struct.pack(">i", MOST) + b"\0\0",
    "a list of texts": HEAD + b"\x0f\x00\x63" + b"\x0b" + struct.pack(">i", MOST),
    "a list of numbers": HEAD + b"\x0f\x00\x02" + b"\x0a" + struct.pack(">i", MOST),
    "a set of structs": HEAD + b"\x0e\x00\x63" + b"\x0c" + struct.pack(">i", MOST),
    "a map": HEAD + b"\x0d\x00\x63" + b"\x0b\x0b" + struct.pack(">i", MOST),
    "a list of less than nothing": HEAD + b"\x0f\x00\x63" + b"\x0b" + struct.pack(">i", -1),
    "flags": HEAD + b"\x0f\x00\x63" + b"\x02" + struct.pack(">i", messages.Bounds.VALUES + 1),
    "structs in structs": HEAD + b"\x0c\x00\x63" * 1000,
    "lists in lists": HEAD + b"\x0f\x00\x63" + (b"\x0f" + struct.pack(">i", 1)) * 1000,
    "an unknown type": HEAD + b"\x09\x00\x63",
}


async def answer_with(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pieces: AsyncIterator[bytes]
) -> None:
    """Let a client say who it is, then answer its call with these bytes."""
    try:
        while data := await reader.read(65536):
            name, number = data[8 : data.index(b"\0", 8)], data[12 + data[7] - 4 : 12 + data[7]]
            head = struct.pack(">II", 0x80010002, len(name)) + name + number
            if name == b"set_ugi":
                writer.write(head + b"\x0f\x00\x00\x0b" + struct.pack(">i", 0) + b"\0")
                continue
            writer.write(head)
            async for piece in pieces:
                writer.write(piece)
                await writer.drain()
            await reader.read()
    except ConnectionError:
        pass
    finally:
        writer.transport.abort()


async def refusal(pieces: AsyncIterator[bytes], timeout_s: float) -> tuple[str, float]:
    """What the client says, and how long it took."""
    async with server(lambda reader, writer: answer_with(reader, writer, pieces)) as url:
        client = MetastoreClient(url, user="someone", timeout_s=timeout_s)
        begun_s = time.monotonic()
        with pytest.raises(SourceError, match=r"\bget_open_txns\b") as caught:
            await client.call("get_open_txns")
        took_s = time.monotonic() - begun_s
        await client.aclose()
    return caught.value.message, took_s


@pytest.mark.parametrize("claim", CLAIMS)
async def test_claims_are_refused_before_they_come(claim: str) -> None:
    """The bytes never come: who waited for them would say that it was too late."""

    async def pieces() -> AsyncIterator[bytes]:
        yield CLAIMS[claim]

    message, _ = await refusal(pieces(), timeout_s=60)
    assert "60 s" not in message
    assert "claims" in message or "type" in message or "nests" in message or "values" in message


async def test_the_time_limit_is_of_the_whole_call() -> None:
    """A byte comes now and then; and bytes come without an end, as fast as they are taken."""
    claim = HEAD + b"\x0f\x00\x63" + b"\x0b" + struct.pack(">i", messages.Bounds.VALUES - 10)

    async def drips() -> AsyncIterator[bytes]:
        yield claim
        while True:
            yield b"\0"
            await asyncio.sleep(0.01)

    async def floods() -> AsyncIterator[bytes]:
        yield claim
        while True:
            yield bytes(1 << 14)
            await asyncio.sleep(0.001)

    for pieces in (drips(), floods()):
        message, took_s = await refusal(pieces, timeout_s=0.3)
        assert message.endswith("not within 0.3 s")
        assert took_s < 10


def test_objects_are_not_made_beyond_the_deadline() -> None:
    ids = services().GetOpenTxnsResponse(
        txn_high_water_mark=1, open_txns=list(range(10_000)), abortedBits=b""
    )
    data = messages.encoded(ids)
    assert messages.decoded(data, 0, services().GetOpenTxnsResponse(), time.monotonic() + 60) == ids
    with pytest.raises(TimeoutError):
        messages.decoded(data, 0, services().GetOpenTxnsResponse(), time.monotonic() - 1)
