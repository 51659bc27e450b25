"""Encrypted files on S3, over the real client: written, read, joined under new keys; what is asked for."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import orcstream
from orcstream import Encrypt
from orcstream.errors import KeyUnavailable
from orcstream.io.loop.clients import leased_clients
from orcstream.query.expr import col
from tests.generators.encrypting import CountedKeys
from tests.servers.loopback import MotoServer
from tests.servers.s3_proxy import S3_KINDS, S3Proxy, s3_proxies
from tests.servers.sink_stores import SinkStore, make_store, s3_store

__all__ = ["s3_proxies"]  # a fixture

ENCRYPT = [Encrypt("pii", ["text"]), Encrypt("pay", ["n"])]
# Some parts of 5 MiB, which is the least that S3 takes, in several stripes.
COUNT = 700_000
_NUMBERS = np.random.default_rng(1).integers(0, 1 << 62, COUNT)
TABLE = pa.table(
    {"id": np.arange(COUNT), "n": _NUMBERS, "text": [f"{number:x}" for number in _NUMBERS.tolist()]}
)


async def write(store: SinkStore, name: str, encrypt: list[Encrypt], *, rows: int = COUNT) -> None:
    out = await orcstream.create(
        store.url_of(name),
        TABLE.schema,
        encrypt=encrypt,
        keys=CountedKeys() if encrypt else None,
        stripe_bytes=4 << 20,
        storage_options=store.options,
        sink_options=store.tuned(),
    )
    async with out:
        for batch in TABLE.slice(0, rows).to_batches(max_chunksize=50_000):
            await out.write(batch)


async def read(store: SinkStore, name: str, **options: Any) -> pa.Table:
    url = store.url_of(name)
    async with orcstream.open(
        url,
        storage_options=store.options,
        io_options={"adaptive": False},
        keys=CountedKeys(),
        require_keys=True,
    ) as file:
        return pa.table(await file.read(**options))


@pytest.mark.parametrize("kind", S3_KINDS)
async def test_written_read_and_joined(tmp_path: Path, kind: str) -> None:
    store = make_store(kind, tmp_path)
    await write(store, "a.orc", ENCRYPT)
    assert (await read(store, "a.orc")).equals(TABLE)
    some = await read(store, "a.orc", columns=["text"], where=col("n") == int(_NUMBERS[77_777]))
    assert some.column("text").to_pylist() == [f"{_NUMBERS[77_777]:x}"]
    async with orcstream.open(store.url_of("a.orc"), storage_options=store.options) as file:
        masked = pa.table(await file.read(rows=range(300_000, 300_010)))
        assert masked.column("id").to_pylist() == list(range(300_000, 300_010))
        assert masked.column("text").null_count == masked.column("n").null_count == 10
    for options in ({"rekey": True}, {"rekey": {"pii": "zz"}}, {}):
        await orcstream.merge(
            [store.url_of("a.orc")] * 3,
            store.url_of("all.orc"),
            storage_options=store.options,
            sink_options=store.tuned(),
            keys=CountedKeys(),
            **options,
        )
        assert (await read(store, "all.orc")).equals(pa.concat_tables([TABLE] * 3))
    assert store.left() == []
    assert leased_clients() == 0


@pytest.mark.parametrize("kind", S3_KINDS)
async def test_what_fails_for_a_key_leaves_nothing(tmp_path: Path, kind: str) -> None:
    store = make_store(kind, tmp_path)
    await write(store, "a.orc", ENCRYPT, rows=1000)
    with pytest.raises(KeyUnavailable):
        await write(store, "b.orc", [Encrypt("nobody", ["n"])])
    with pytest.raises(KeyUnavailable):
        await orcstream.merge(
            [store.url_of("a.orc")],
            store.url_of("b.orc"),
            storage_options=store.options,
            sink_options=store.tuned(),
            keys=CountedKeys(),
            rekey={"pii": "nobody"},
        )
    with pytest.raises(KeyUnavailable):
        await orcstream.open(
            store.url_of("a.orc"), storage_options=store.options, keys=CountedKeys({}), require_keys=["pay"]
        )
    assert store.seen("b.orc") is None
    assert store.left() == []
    assert leased_clients() == 0


async def test_requests_are_those_of_files_in_the_clear(
    s3_proxies: tuple[MotoServer, S3Proxy], tmp_path: Path
) -> None:
    server, proxy = s3_proxies
    store = s3_store(server, tmp_path.name, proxy.endpoint)
    asked: dict[str, list[Counter[str]]] = {}
    for name, encrypt in (("plain.orc", []), ("encrypted.orc", ENCRYPT)):
        found = asked[name] = []

        def note(found: list[Counter[str]] = found) -> None:
            found.append(Counter(one.method for one in proxy.asked))
            proxy.asked.clear()

        await write(store, name, encrypt)
        note()
        await read(store, name)
        note()
        await read(store, name, columns=["text"], rows=range(400_000, 400_100))
        note()
        await orcstream.merge(
            [store.url_of(name)],
            store.url_of("target.orc"),
            storage_options=store.options,
            sink_options=store.tuned(),
            keys=CountedKeys() if encrypt else None,
            rekey=bool(encrypt),
        )
        note()
    written, *reads, joined = asked["plain.orc"]
    *same, rekeyed = asked["encrypted.orc"]
    assert same == [written, *reads]
    # A piece that cuts a stripe is encrypted anew by the stripe's footer, which may come with a later piece.
    assert rekeyed in (joined, joined + Counter(GET=1))
    assert written["PUT"] >= 2
    assert joined["PUT"] >= 2
    assert all(set(one) == {"GET"} for one in reads)
