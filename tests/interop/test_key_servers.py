"""Files under the keys of a key server: what Java encrypts is opened here, and local keys made here by Java.

Java's client and ours ask the same server: Hadoop's own, or the stand-in.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import orcstream
from orcstream._proto import orc_proto as pb
from orcstream.codec.crypto.streams import stream_cipher
from orcstream.codec.metadata.structure import StreamKind
from orcstream.codec.streams.compression import decompress_metadata
from orcstream.encryption import KeyProviderKind
from orcstream.io.keys import HadoopKeyProvider
from orcstream.plan.tail import Tail, plan_tail
from tests.reference import java_keys
from tests.servers.hadoop_kms import fake_kms
from tests.servers.kms import start_kms

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("java")]

NUMBERS = list(range(-500, 500, 7))
Server = tuple[str, Callable[[str, bytes], None]]


@pytest.fixture(params=["stand-in", "real"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Where the key server is, and how it is given keys."""
    if request.param == "real":
        real = start_kms()
        yield real.place, real.add
    else:
        with fake_kms() as kms:
            yield kms.place, lambda name, key: kms.keys.update({name: [key]})


@pytest.mark.parametrize("length", [16, 32])
async def test_java_encrypts_and_we_open(server: Server, length: int, tmp_path: Path) -> None:
    place, add = server
    name, path = f"java{length}_{os.urandom(4).hex()}", tmp_path / "java.orc"
    add(name, os.urandom(length))
    java_keys.write_longs(path, java_keys.key_provider(place), name, NUMBERS)
    data = path.read_bytes()
    tail = plan_tail(memoryview(data), len(data))
    assert isinstance(tail, Tail)
    encryption = tail.footer.encryption
    assert encryption is not None and encryption.key_provider is KeyProviderKind.HADOOP
    (variant,), (key,) = encryption.variants, encryption.keys
    assert (key.name, key.version, key.algorithm.key_bytes) == (name, 0, length)
    async with HadoopKeyProvider(place, user="reader") as provider:
        assert await provider.current_key(name) == key
        local = await provider.decrypt_local_key(key, variant.encrypted_key)
        async with orcstream.open(path, keys=provider) as file:
            rows = (await file.read()).to_pylist()
    assert [(row["secret"], row["clear"]) for row in rows] == [(n, n) for n in NUMBERS]
    cipher = stream_cipher(local.key, variant.root, StreamKind.FILE_STATISTICS, len(tail.footer.stripes) + 1)
    plain = memoryview(cipher.apply(variant.file_statistics))
    message = decompress_metadata(
        plain, tail.postscript.compression, tail.postscript.compression_block_size, 1 << 20
    )
    (column,) = pb.FileStatistics.FromString(message).column
    found = column.int_statistics
    assert (column.number_of_values, found.minimum, found.maximum) == (len(NUMBERS), -500, NUMBERS[-1])


@pytest.mark.parametrize("length", [16, 32])
async def test_local_keys_of_ours_are_opened_by_java(server: Server, length: int) -> None:
    place, add = server
    name = f"ours-{length}-{os.urandom(4).hex()}"
    add(name, os.urandom(length))
    java = java_keys.key_provider(place)
    async with HadoopKeyProvider(place, user="writer") as provider:
        key = await provider.current_key(name)
        local = await provider.create_local_key(key)
    assert java_keys.open_local_key(java, key, local.encrypted) == local.key


async def test_who_is_refused_reads_the_mask_as_java_does(tmp_path: Path) -> None:
    with fake_kms() as kms:
        kms.keys["pii"] = [os.urandom(32)]
        path = tmp_path / "java.orc"
        provider = java_keys.key_provider(kms.place)
        java_keys.write_longs(path, provider, "pii", NUMBERS)
        assert java_keys.read_longs(path, provider) == NUMBERS
        kms.refused.add("stranger")
        async with (
            HadoopKeyProvider(kms.place, user="stranger") as stranger,
            orcstream.open(path, keys=stranger) as file,
        ):
            rows = (await file.read()).to_pylist()
    assert [(row["secret"], row["clear"]) for row in rows] == [(None, n) for n in NUMBERS]
