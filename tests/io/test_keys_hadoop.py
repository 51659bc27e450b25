"""What a key server of Hadoop's is asked, how it is told who asks, and what its answers mean."""

from __future__ import annotations

import base64
import contextlib
import errno
import inspect
import json
import os
import ssl
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
import spnego
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st

from orcstream.encryption import EncryptionAlgorithm, EncryptionKey, KeyProviderKind
from orcstream.errors import KeyUnavailable, RetriesExhausted, SourceError, Unsupported, UsageError
from orcstream.io.keys import HadoopKeyProvider, InMemoryKeyProvider
from orcstream.io.loop.clients import leased_clients
from orcstream.io.stores.hdfs.hadoop_rest import Reply
from tests.servers.certificates import certificate
from tests.servers.hadoop_kms import FakeKms, fake_kms
from tests.servers.kms import start_kms

AES_128, AES_256 = EncryptionAlgorithm.AES_CTR_128, EncryptionAlgorithm.AES_CTR_256
MASTER = bytes(range(16))
KEY = EncryptionKey("pii", 0, AES_128)


@pytest.fixture
def kms() -> Iterator[FakeKms]:
    with fake_kms() as server:
        server.keys["pii"] = [MASTER]
        yield server


def expected_key(master: bytes, encrypted: bytes) -> bytes:
    """As the reference implementation has it: the key decrypts the bytes, which begin with the counter."""
    cipher = Cipher(algorithms.AES(master), modes.CTR(encrypted[:16])).decryptor()
    return cipher.update(encrypted) + cipher.finalize()


@dataclass(frozen=True)
class Server:
    """Hadoop's own, or the stand-in; the user "refused" is refused."""

    place: str
    add: Callable[[str, bytes], None]
    token: Callable[[], str]


@pytest.fixture(params=["stand-in", "real"])
def server(request: pytest.FixtureRequest, kms: FakeKms) -> Server:
    if request.param == "real":
        real = start_kms()
        return Server(real.place, real.add, real.token)
    kms.refused.add("refused")
    kms.tokens.add("a+b/c=" + "x" * 40)
    return Server(kms.place, lambda name, key: kms.keys.update({name: [key]}), lambda: next(iter(kms.tokens)))


def new_name() -> str:
    return f"key-{os.urandom(6).hex()}"


@pytest.mark.parametrize("length", [16, 32])
async def test_local_keys_are_those_of_the_reference_implementation(server: Server, length: int) -> None:
    name, master = new_name(), os.urandom(length)
    server.add(name, master)
    memory = InMemoryKeyProvider()
    memory.add_key(name, master)
    async with HadoopKeyProvider(server.place, user="me") as provider:
        assert provider.kind is KeyProviderKind.HADOOP
        key = await provider.current_key(name)
        assert key == EncryptionKey(name, 0, AES_128 if length == 16 else AES_256)
        local = await provider.create_local_key(key)
        assert local.key == expected_key(master, local.encrypted)
        assert await memory.decrypt_local_key(key, local.encrypted) == local


async def test_what_is_asked(kms: FakeKms) -> None:
    kms.keys["a b/ü@2%2F"] = [MASTER, bytes(16)]
    async with HadoopKeyProvider(kms.place + "/", user="m e&x") as provider:
        key = await provider.current_key("a b/ü@2%2F")
        await provider.decrypt_local_key(EncryptionKey(key.name, 0, AES_128), bytes(range(200, 216)))
    assert kms.calls == [
        "key/a%20b%2F%C3%BC%402%252F/_metadata",
        "keyversion/a%20b%2F%C3%BC%402%252F%400/_eek",
    ]
    asked = kms.asked[1]
    assert asked.method == "POST" and asked.query == {"eek_op": "decrypt", "user.name": "m e&x"}
    assert asked.headers["content-type"] == "application/json"
    assert asked.body == {
        "name": "a b/ü@2%2F",
        "iv": base64.b64encode(bytes(255 - i for i in range(200, 216))).decode(),
        "material": base64.b64encode(bytes(range(200, 216))).decode(),
    }


async def test_versions_and_lengths(kms: FakeKms) -> None:
    kms.keys |= {"rolled": [MASTER] * 7, "odd": [bytes(24)], "long": [bytes(32)]}
    async with HadoopKeyProvider(kms.place, user="me") as provider:
        assert await provider.current_key("rolled") == EncryptionKey("rolled", 6, AES_128)
        # As ORC Java has it: what is not 128 bits long makes keys of 256.
        assert (await provider.current_key("odd")).algorithm is AES_256
        assert (await provider.current_key("long")).algorithm is AES_256


STATUSES = [("401", KeyUnavailable, 1), ("403", KeyUnavailable, 1), ("404", SourceError, 1)]
STATUSES += [("500", RetriesExhausted, 3), ("503", RetriesExhausted, 3), ("hang_up", RetriesExhausted, 3)]
STATUSES += [("stall", RetriesExhausted, 3), ("nonsense", SourceError, 1)]


@pytest.mark.parametrize(("fault", "error", "attempts"), STATUSES)
async def test_refusals_and_outages(kms: FakeKms, fault: Any, error: type[Exception], attempts: int) -> None:
    kms.fail(fault)
    async with HadoopKeyProvider(kms.place, user="me", timeout_s=0.3, retries=2) as provider:
        with pytest.raises(error) as caught:
            await provider.current_key("pii")
    assert type(caught.value) is error
    # aiohttp sends a GET again by itself when its connection ends.
    assert len(kms.asked) == attempts or (fault == "hang_up" and len(kms.asked) > attempts)
    assert leased_clients() == 0


NONSENSE = [b"", b"[]", b"null", b'"x"', b"5", b"{", b"[" * 60_000, b"\xff", b'{"name":"pii"}']
NONSENSE += [b'{"versions":0,"length":128,"cipher":"AES/CTR/NoPadding"}']
NONSENSE += [b'{"versions":true,"length":128,"cipher":"AES/CTR/NoPadding"}']
NONSENSE += [b'{"versions":1,"length":128,"cipher":"DES/CBC/NoPadding"}']
NONSENSE += [b'{"material":5}', b'{"material":"*"}', b'{"material":"AAA"}', b" " * 100_000]


@pytest.mark.parametrize("body", NONSENSE, ids=lambda body: body[:20])
async def test_answers_that_are_none(kms: FakeKms, body: bytes) -> None:
    kms.nonsense = body
    kms.fail("nonsense")
    async with HadoopKeyProvider(kms.place, user="me", retries=0) as provider:
        for call in (
            provider.current_key("pii"),
            provider.decrypt_local_key(KEY, bytes(16)),
        ):
            with pytest.raises((SourceError, KeyUnavailable)):
                await call


STATUS = st.sampled_from([200, 201, 204, 301, 400, 401, 403, 404, 407, 410, 413, 429, 500, 502, 503, 599])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["RemoteException", "exception", "message", "versions", "length", "cipher", "material"]
        ),
        inner,
    ),
    max_leaves=8,
)


@given(STATUS, st.binary(max_size=40) | VALUES.map(lambda value: json.dumps(value).encode()))
def test_any_answer_is_understood_or_an_error(status: int, body: bytes) -> None:
    class Answering(HadoopKeyProvider):
        async def _exchange(self, *_: Any) -> Reply:
            return Reply(status, {"Content-Type": "application/json"}, bytearray(body))

    async def ask() -> None:
        async with Answering("kms://http@host/kms", retries=0) as provider:
            with contextlib.suppress(KeyUnavailable, SourceError):
                await provider.current_key("pii")
            with contextlib.suppress(KeyUnavailable, SourceError):
                await provider.decrypt_local_key(KEY, bytes(16))

    anyio.run(ask)


async def test_a_cookie_stands_for_who_got_it_until_it_is_refused(kms: FakeKms) -> None:
    async with HadoopKeyProvider(kms.place, user="me", retries=0) as provider:
        await provider.current_key("pii")
        await provider.current_key("pii")
        first = kms.asked[1].headers["cookie"]
        assert first.removeprefix("hadoop.auth=") in kms.cookies
        kms.cookies.clear()
        await provider.current_key("pii")
        assert [asked.headers.get("cookie") for asked in kms.asked] == [None, first, first, None]
        await provider.current_key("pii")
        assert kms.asked[-1].headers["cookie"] not in (None, first)
        # A refusal by the server itself says nothing against the cookie.
        kms.refused.add("pii")
        before = len(kms.asked)
        with pytest.raises(KeyUnavailable, match="not allowed"):
            await provider.current_key("pii")
        assert len(kms.asked) == before + 1


async def test_acting_for_others(server: Server) -> None:
    name = new_name()
    server.add(name, MASTER)
    async with HadoopKeyProvider(server.place, user="service", proxy_to="somebody") as provider:
        await provider.current_key(name)
    async with HadoopKeyProvider(server.place, user="service", proxy_to="refused") as provider:
        with pytest.raises(KeyUnavailable, match="refused not allowed"):
            await provider.current_key(name)


async def test_delegation_tokens(server: Server) -> None:
    name = new_name()
    server.add(name, MASTER)
    token = server.token()
    async with HadoopKeyProvider(server.place, token=token) as provider:
        await provider.create_local_key(await provider.current_key(name))
        assert token not in repr(provider)
    wrong = token[:-24] + "AAAAAAAA" + token[-16:]  # within its signature
    for text in ("secret-token", wrong):
        async with HadoopKeyProvider(server.place, token=text) as provider:
            with pytest.raises(KeyUnavailable) as caught:
                await provider.current_key(name)
            assert text not in str(caught.value) + repr(provider)


async def test_who_asks_without_a_name_is_refused(server: Server) -> None:
    async with HadoopKeyProvider(server.place) as provider:
        with pytest.raises(KeyUnavailable, match="401"):
            await provider.current_key("pii")


class Tickets:
    """What pyspnego makes of a ticket, without any Kerberos."""

    def __init__(self) -> None:
        self.asked: list[dict[str, str]] = []
        self.failure: Exception | None = None

    def client(self, **options: str) -> Any:
        self.asked.append(options)
        if self.failure is not None:
            raise self.failure
        return types.SimpleNamespace(step=lambda: b"ticket%d" % len(self.asked))


@pytest.fixture
def tickets(monkeypatch: pytest.MonkeyPatch) -> Tickets:
    found = Tickets()
    module = types.ModuleType("spnego")
    monkeypatch.setattr(module, "client", found.client, raising=False)
    monkeypatch.setitem(sys.modules, "spnego", module)
    return found


async def test_a_ticket_is_shown_once(kms: FakeKms, tickets: Tickets) -> None:
    kms.tickets = {base64.b64encode(b"ticket%d" % n).decode() for n in (1, 2)}
    async with HadoopKeyProvider(kms.place, kerberos=True, retries=0) as provider:
        await provider.current_key("pii")
        await provider.current_key("pii")
        assert tickets.asked == [{"hostname": "127.0.0.1", "service": "HTTP", "protocol": "kerberos"}]
        kms.cookies.clear()
        await provider.current_key("pii")
        assert len(tickets.asked) == 2
        kms.cookies.clear()
        with pytest.raises(KeyUnavailable):  # the third ticket is not taken
            await provider.current_key("pii")
    inspect.signature(spnego.client).bind(**tickets.asked[0])


async def test_no_ticket(kms: FakeKms, tickets: Tickets) -> None:
    kms.tickets = {"x"}
    async with HadoopKeyProvider(kms.place, user="me") as provider:
        with pytest.raises(KeyUnavailable, match=r"\b401\b.*\bKerberos\b"):
            await provider.current_key("pii")
    async with HadoopKeyProvider(kms.place, kerberos=True) as provider:
        tickets.failure = ImportError("no gssapi")
        with pytest.raises(Unsupported, match=r"orcstream\[kerberos\]"):
            await provider.current_key("pii")
        tickets.failure = RuntimeError("No credentials cache found")
        with pytest.raises(KeyUnavailable, match="No credentials cache found"):
            await provider.current_key("pii")
    assert len(kms.asked) == 1


async def test_without_the_library(kms: FakeKms, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "spnego", None)
    async with HadoopKeyProvider(kms.place, kerberos=True) as provider:
        with pytest.raises(Unsupported, match=r"orcstream\[kerberos\]") as caught:
            await provider.current_key("pii")
    assert caught.value.reason == "missing_dependency"


@contextlib.contextmanager
def two_kms() -> Iterator[tuple[FakeKms, FakeKms]]:
    """At one port of 127.0.0.2 and 127.0.0.1: another one, where somebody else has it of the second."""
    for _ in range(20):
        with contextlib.ExitStack() as stack:
            first = stack.enter_context(fake_kms("127.0.0.2"))
            try:
                second = stack.enter_context(fake_kms("127.0.0.1", first.port))
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                continue
            yield first, second
            return
    raise AssertionError("no port is free of both addresses")


@pytest.mark.parametrize("fault", ["500", "hang_up", "stall"])
async def test_another_server_stands_in(fault: Any) -> None:
    with two_kms() as (broken, sound):
        broken.fail(fault)
        sound.keys["pii"] = [MASTER]
        place = f"kms://http@127.0.0.2;127.0.0.1:{broken.port}/kms"
        tries = 0
        while tries < 3 or (not broken.asked and tries < 100):  # the first server is drawn
            tries += 1
            async with HadoopKeyProvider(place, user="me", timeout_s=0.3, retries=0) as provider:
                await provider.current_key("pii")
                before = len(broken.asked)
                await provider.current_key("pii")
                assert len(broken.asked) == before
        assert len(sound.asked) == 2 * tries and broken.asked


async def test_a_refusal_is_not_taken_to_another_server() -> None:
    with two_kms() as (one, other):
        async with HadoopKeyProvider(f"kms://http@127.0.0.2;127.0.0.1:{one.port}/kms", user="me") as provider:
            with pytest.raises(KeyUnavailable, match=r"\bkey 'pii'"):
                await provider.current_key("pii")
        assert len(one.asked) + len(other.asked) == 1


async def test_no_server_at_all(kms: FakeKms) -> None:
    async with HadoopKeyProvider(
        f"kms://http@127.0.0.3;127.0.0.2:{kms.port}/kms", user="me", retries=0
    ) as provider:
        with anyio.fail_after(10), pytest.raises(RetriesExhausted, match="2 times"):
            await provider.current_key("pii")


async def test_over_tls(tmp_path: Path) -> None:
    path = certificate(tmp_path)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(path)
    with fake_kms(tls=tls) as kms:
        kms.keys["pii"] = [MASTER]
        place = kms.place.replace("http@", "https@")
        for verify in (str(path), False):
            async with HadoopKeyProvider(place, user="me", verify=verify) as provider:
                await provider.current_key("pii")
        async with HadoopKeyProvider(place, user="me") as provider:
            with pytest.raises(SourceError, match="Certificate"):
                await provider.current_key("pii")
        async with HadoopKeyProvider(place, user="me", verify=str(tmp_path / "none")) as provider:
            with pytest.raises(UsageError, match="verify"):
                await provider.current_key("pii")


WRONG = ["kms://host:1/kms", "kms://ftp@host/kms", "kms://http@/kms", "kms://http@a:b/kms", "http://a/kms"]
WRONG += [
    "kms://http@a:99999/kms",
    "kms://http@;/kms",
    "kms://http@u:secret@h/kms",
    "kms://http@a/k?token=secret",
]


@pytest.mark.parametrize("place", WRONG)
def test_places_that_are_none(place: str) -> None:
    with pytest.raises(UsageError) as caught:
        HadoopKeyProvider(place)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {"user": "me", "token": "x"},
        {"user": "me", "kerberos": True},
        {"token": "x", "kerberos": True},
        {"timeout_s": 0},
        {"retries": -1},
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        HadoopKeyProvider("kms://http@host:9600/kms", **options)
