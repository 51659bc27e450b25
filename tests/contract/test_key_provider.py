"""What every provider of keys keeps, whichever store is behind it."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import logging
import threading
from collections.abc import Iterator
from typing import Any

import anyio
import anyio.to_thread
import pytest

from orcstream.encryption import EncryptionAlgorithm, EncryptionKey, LocalKey
from orcstream.errors import KeyUnavailable, RetriesExhausted
from orcstream.io.loop.clients import leased_clients
from tests.servers.key_stores import KINDS, REMOTE_KINDS, KeyStore, key_store

BITS = {128: EncryptionAlgorithm.AES_CTR_128, 256: EncryptionAlgorithm.AES_CTR_256}
remote = pytest.mark.parametrize("store", REMOTE_KINDS, indirect=True)


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest) -> Iterator[KeyStore]:
    with key_store(request.param) as opened:
        yield opened


async def refuses(call: Any) -> None:
    with pytest.raises(KeyUnavailable) as caught:
        await call
    assert caught.value.url is None or "@127" not in caught.value.url.replace("http@", "")


@pytest.mark.parametrize("bits", BITS)
async def test_a_local_key_is_opened_again(store: KeyStore, bits: int) -> None:
    name = store.add(bits)
    async with store.provider(bits) as provider:
        key = await provider.current_key(name)
        assert (key.name, key.algorithm) == (name, BITS[bits])
        first, second = await provider.create_local_key(key), await provider.create_local_key(key)
    assert len(first.key) == len(second.key) == bits // 8
    assert first.key != second.key and first.encrypted != second.encrypted
    assert first.key not in first.encrypted
    async with store.provider(bits) as other:
        assert await other.decrypt_local_key(key, first.encrypted) == first
        assert await other.decrypt_local_key(key, second.encrypted) == second
    assert leased_clients() == 0


async def test_old_files_open_after_a_key_was_rolled(store: KeyStore) -> None:
    name = store.add()
    async with store.provider() as provider:
        old_key = await provider.current_key(name)
        old = await provider.create_local_key(old_key)
        store.roll(name)
        new_key = await provider.current_key(name)
        new = await provider.create_local_key(new_key)
        assert (new_key.version > old_key.version) is store.versions
        assert await provider.decrypt_local_key(old_key, old.encrypted) == old
        assert await provider.decrypt_local_key(new_key, new.encrypted) == new


async def test_who_asks_for_the_version_of_the_file_gets_that_one(store: KeyStore) -> None:
    name = store.add()
    async with store.provider() as provider:
        old_key = await provider.current_key(name)
        store.roll(name)
        again = await provider.create_local_key(old_key)
        assert await provider.decrypt_local_key(old_key, again.encrypted) == again


async def test_a_key_that_is_not_there(store: KeyStore) -> None:
    async with store.provider() as provider:
        there = await provider.current_key(store.add())
        made = await provider.create_local_key(there)
        for name in (store.missing(), "", "\ud800", ".."):
            await refuses(provider.current_key(name))
            await refuses(provider.create_local_key(dataclasses.replace(there, name=name)))
            await refuses(provider.decrypt_local_key(dataclasses.replace(there, name=name), made.encrypted))
        unknown = dataclasses.replace(there, algorithm=EncryptionAlgorithm.UNKNOWN)
        await refuses(provider.create_local_key(unknown))
        await refuses(provider.decrypt_local_key(unknown, made.encrypted))


async def test_a_version_that_is_not_there(store: KeyStore) -> None:
    async with store.provider() as provider:
        key = await provider.current_key(store.add())
        made = await provider.create_local_key(key)
        later = dataclasses.replace(key, version=key.version + 1)
        if store.versions:
            await refuses(provider.create_local_key(later))
        if not store.authenticated:  # else the encrypted key itself says what it needs
            await refuses(provider.decrypt_local_key(later, made.encrypted))


async def test_a_key_that_is_not_for_us(store: KeyStore) -> None:
    name = store.add()
    async with store.provider() as provider:
        key = await provider.current_key(name)
        made = await provider.create_local_key(key)
    async with store.refused(name) as stranger:
        await refuses(stranger.current_key(name))
        await refuses(stranger.decrypt_local_key(key, made.encrypted))
        await refuses(stranger.create_local_key(key))


async def test_what_another_key_closed_stays_closed(store: KeyStore) -> None:
    async with store.provider() as provider:
        key, other = await provider.current_key(store.add()), await provider.current_key(store.add())
        made = await provider.create_local_key(key)
        if store.authenticated:
            await refuses(provider.decrypt_local_key(other, made.encrypted))
        else:
            opened = await provider.decrypt_local_key(other, made.encrypted)
            assert opened.key != made.key


async def test_bytes_that_are_no_local_key(store: KeyStore) -> None:
    async with store.provider() as provider:
        key = await provider.current_key(store.add())
        made = await provider.create_local_key(key)
        for damaged in (b"", b"x", made.encrypted[:-1], made.encrypted + b"x", bytes(5000)):
            await refuses(provider.decrypt_local_key(key, damaged))
        if store.authenticated:
            flipped = made.encrypted[:-1] + bytes([made.encrypted[-1] ^ 1])
            await refuses(provider.decrypt_local_key(key, flipped))


async def test_the_algorithm_of_the_file_must_be_the_one_of_the_key(store: KeyStore) -> None:
    async with store.provider(256) as provider:
        key = await provider.current_key(store.add(256))
        made = await provider.create_local_key(key)
        short = dataclasses.replace(key, algorithm=EncryptionAlgorithm.AES_CTR_128)
        await refuses(provider.decrypt_local_key(short, made.encrypted))


async def test_many_at_once(store: KeyStore) -> None:
    name = store.add()
    made: list[LocalKey] = []
    async with store.provider() as provider:
        key = await provider.current_key(name)

        async def one() -> None:
            local = await provider.create_local_key(key)
            assert await provider.decrypt_local_key(key, local.encrypted) == local
            made.append(local)

        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(one)
    assert len({local.key for local in made}) == len({local.encrypted for local in made}) == 20


async def test_closing_is_idempotent_and_not_the_end(store: KeyStore) -> None:
    name, provider = store.add(), store.provider()
    await provider.aclose()
    key = await provider.current_key(name)
    await provider.aclose()
    await provider.aclose()
    assert leased_clients() == 0
    assert await provider.current_key(name) == key
    await provider.aclose()
    assert leased_clients() == 0


def test_loops_one_after_another_and_side_by_side(store: KeyStore) -> None:
    name, provider = store.add(), store.provider()
    found: list[tuple[EncryptionKey, LocalKey]] = []

    async def use() -> None:
        async with provider:
            key = await provider.current_key(name)
            for other, local in found[:1]:
                assert await provider.decrypt_local_key(other, local.encrypted) == local
            found.append((key, await provider.create_local_key(key)))

    asyncio.run(use())
    asyncio.run(use())
    threads = [threading.Thread(target=asyncio.run, args=(use(),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(found) == 4 and len({local.key for _, local in found}) == 4


async def test_texts_show_no_keys(store: KeyStore, caplog: pytest.LogCaptureFixture) -> None:
    name, provider = store.add(), store.provider()
    with caplog.at_level(logging.INFO):
        async with provider:
            key = await provider.current_key(name)
            local = await provider.create_local_key(key)
            await provider.decrypt_local_key(key, local.encrypted)
    encoded = base64.b64encode(local.key).decode().rstrip("=")
    secrets = (repr(local.key)[2:-1], local.key.hex(), encoded, encoded.replace("+", "-").replace("/", "_"))
    for text in (repr(provider), repr(local), str(local), repr(key), caplog.text):
        assert not any(secret in text for secret in secrets)


@remote
@pytest.mark.parametrize("fault", ["error", "hang_up"])
async def test_an_outage_is_no_refusal(store: KeyStore, fault: Any) -> None:
    name = store.add()
    async with store.provider(retries=1) as provider:
        key = await provider.current_key(name)
        local = await provider.create_local_key(key)
        before = store.asked()
        store.fail(fault)
        for call in (provider.current_key(name), provider.decrypt_local_key(key, local.encrypted)):
            with pytest.raises(RetriesExhausted) as caught:
                await call
            assert "2 times" in str(caught.value)
        assert store.asked() >= before + 4
        store.fail(None)
        assert await provider.decrypt_local_key(key, local.encrypted) == local
    assert leased_clients() == 0


@remote
@pytest.mark.parametrize("fault", ["error", "hang_up"])
async def test_a_request_that_fails_is_made_again(store: KeyStore, fault: Any) -> None:
    name = store.add()
    async with store.provider() as provider:
        store.fail(fault, 1)
        key = await provider.current_key(name)
        store.fail(fault, 1)
        local = await provider.create_local_key(key)
        store.fail(fault, 2)
        assert await provider.decrypt_local_key(key, local.encrypted) == local


@remote
async def test_a_store_that_does_not_answer(store: KeyStore) -> None:
    name = store.add()
    async with store.provider(timeout_s=0.5, retries=1) as provider:
        store.fail("stall")
        with anyio.fail_after(20), pytest.raises(RetriesExhausted):
            await provider.current_key(name)
        store.fail(None)
    assert leased_clients() == 0


@remote
async def test_closing_does_not_disturb_a_call(store: KeyStore) -> None:
    name, provider = store.add(), store.provider()
    found: list[EncryptionKey] = []

    async def ask() -> None:
        found.append(await provider.current_key(name))

    store.fail("stall", 1)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await anyio.to_thread.run_sync(store.wait_for_request, 1)
        await provider.aclose()
        assert leased_clients() == 1
        store.fail(None)
    assert found == [await provider.current_key(name)]
    await provider.aclose()
    assert leased_clients() == 0


@remote
async def test_cancelling(store: KeyStore) -> None:
    name = store.add()
    async with store.provider() as provider:
        key = await provider.current_key(name)
        before = store.asked()
        store.fail("stall")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(provider.current_key, name)
            tasks.start_soon(provider.create_local_key, key)
            await anyio.to_thread.run_sync(store.wait_for_request, before + 2)
            tasks.cancel_scope.cancel()
        with anyio.move_on_after(0.2) as scope:
            await provider.current_key(name)
        assert scope.cancelled_caught
        store.fail(None)
        assert await provider.current_key(name) == key
    assert leased_clients() == 0
