"""Every key store that there is a provider for, as the tests of the contract see them.

A store has keys, gives them new versions, refuses, and fails: by a proxy in front of it, or by itself.
"""
# ruff: noqa: ARG002 - no store needs everything that there is to say

from __future__ import annotations

import itertools
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import botocore.session

from orcstream.io.keys import (
    AwsKeyProvider,
    AzureKeyProvider,
    GcpKeyProvider,
    HadoopKeyProvider,
    InMemoryKeyProvider,
)
from tests.servers.azure_vault import Credential, VaultTransport, fake_vault
from tests.servers.google_kms import RING, fake_google_kms
from tests.servers.hadoop_kms import fake_kms
from tests.servers.kms import start_kms
from tests.servers.loopback import start_moto
from tests.servers.s3_proxy import S3Proxy, run_s3_proxy

__all__ = ["KINDS", "REMOTE_KINDS", "Fault", "KeyStore", "key_store"]

# An error of the server, a connection that ends without an answer, and none until the store is released.
Fault = Literal["error", "hang_up", "stall"]
KINDS = ("memory", "hadoop", "hadoop_real", "aws", "gcp", "azure")
REMOTE_KINDS = KINDS[1:]
_numbers = itertools.count()


class KeyStore(ABC):
    """A store, and how a test changes it."""

    versions = True  # whether versions of keys have numbers in files
    authenticated = True  # whether the store notices what it did not encrypt itself

    @abstractmethod
    def provider(self, bits: int = 256, **options: Any) -> Any:
        """A new provider, whose local keys of keys of `bits` bits have as many."""

    @abstractmethod
    def add(self, bits: int = 256) -> str:
        """The name of a new key."""

    @abstractmethod
    def roll(self, name: str, bits: int = 256) -> None:
        """A new version of a key."""

    @abstractmethod
    def refused(self, name: str) -> Any:
        """A provider for which this key is not."""

    @abstractmethod
    def fail(self, fault: Fault | None, count: int = 1 << 30) -> None:
        """From now on `count` requests fail so."""

    @abstractmethod
    def asked(self) -> int:
        """How many requests arrived."""

    @abstractmethod
    def wait_for_request(self, count: int) -> None:
        """Block until `count` requests have arrived; call it on a thread."""

    def missing(self) -> str:
        """The name of a key that is not there."""
        return "nothing"


class MemoryStore(KeyStore):
    authenticated = False

    def __init__(self) -> None:
        self._provider = InMemoryKeyProvider()
        self._versions = itertools.count()

    def provider(self, bits: int = 256, **options: Any) -> Any:
        return self._provider

    def add(self, bits: int = 256) -> str:
        name = f"key{next(_numbers)}"
        self.roll(name, bits)
        return name

    def roll(self, name: str, bits: int = 256) -> None:
        self._provider.add_key(name, os.urandom(bits // 8), next(self._versions))

    def refused(self, name: str) -> Any:
        return InMemoryKeyProvider()

    def fail(self, fault: Fault | None, count: int = 1 << 30) -> None:
        raise NotImplementedError("memory does not fail")

    def asked(self) -> int:
        return 0

    def wait_for_request(self, count: int) -> None:
        raise NotImplementedError("memory is not asked")


class ProxiedStore(KeyStore):
    """A store of HTTP with a proxy in front of it."""

    def __init__(self, proxy: S3Proxy) -> None:
        self._proxy = proxy

    def fail(self, fault: Fault | None, count: int = 1 << 30) -> None:
        if fault is None:
            self._proxy.pass_all()
            return
        last = len(self._proxy.asked) + count
        what: Any = {"error": "500", "hang_up": "refuse", "stall": "stall"}[fault]
        self._proxy.fault = lambda number, _asked: what if number < last else None

    def asked(self) -> int:
        return len(self._proxy.asked)

    def wait_for_request(self, count: int) -> None:
        self._proxy.wait_for_requests(count)


class HadoopStore(ProxiedStore):
    """Either the stand-in or Hadoop's own; they differ in how keys come in."""

    authenticated = False

    def __init__(
        self, proxy: S3Proxy, add: Callable[[str, bytes], None], roll: Callable[[str, bytes], None]
    ) -> None:
        super().__init__(proxy)
        self._add, self._roll = add, roll

    def provider(self, bits: int = 256, **options: Any) -> Any:
        return HadoopKeyProvider(
            f"kms://http@127.0.0.1:{self._proxy.port}/kms", **{"user": "someone", **options}
        )

    def add(self, bits: int = 256) -> str:
        name = f"key {next(_numbers)}/ü@%2f"
        self._add(name, os.urandom(bits // 8))
        return name

    def roll(self, name: str, bits: int = 256) -> None:
        self._roll(name, os.urandom(bits // 8))

    def refused(self, name: str) -> Any:
        return self.provider(user="refused")


class AwsStore(ProxiedStore):
    versions = False

    def __init__(self, proxy: S3Proxy) -> None:
        super().__init__(proxy)
        self._access = {
            "endpoint_url": f"http://127.0.0.1:{proxy.port}",
            "aws_access_key_id": "testing",
            "aws_secret_access_key": "testing",
        }
        session = botocore.session.get_session()
        self.client = session.create_client(
            "kms", region_name="us-east-1", **self._access | {"endpoint_url": start_moto().endpoint}
        )

    def provider(self, bits: int = 256, **options: Any) -> Any:
        given = {"algorithm": f"AES_CTR_{bits}", "client_options": self._access, **options}
        return AwsKeyProvider("us-east-1", **given)

    def add(self, bits: int = 256) -> str:
        key = self.client.create_key()["KeyMetadata"]["KeyId"]
        name = f"alias/key{next(_numbers)}-{os.urandom(4).hex()}"
        self.client.create_alias(AliasName=name, TargetKeyId=key)
        return name

    def roll(self, name: str, bits: int = 256) -> None:
        key = self.client.describe_key(KeyId=name)["KeyMetadata"]["KeyId"]
        self.client.rotate_key_on_demand(KeyId=key)

    def refused(self, name: str) -> Any:
        self._proxy.fault = lambda _number, _asked: "403"
        return self.provider()

    def missing(self) -> str:
        return "alias/nothing"


class GcpStore(KeyStore):
    def __init__(self, kms: Any) -> None:
        self.kms = kms

    def provider(self, bits: int = 256, **options: Any) -> Any:
        given = {"algorithm": f"AES_CTR_{bits}", "make_client": self.kms.make_client, **options}
        return GcpKeyProvider(RING, **given)

    def add(self, bits: int = 256) -> str:
        name = f"key{next(_numbers)}"
        self.roll(name)
        return name

    def roll(self, name: str, bits: int = 256) -> None:
        self.kms.keys.setdefault(name, []).append(os.urandom(32))

    def refused(self, name: str) -> Any:
        self.kms.refused.add(name)
        return self.provider()

    def fail(self, fault: Fault | None, count: int = 1 << 30) -> None:
        if fault is None:
            self.kms.released.set()
        last = 0 if fault is None else len(self.kms.asked) + count
        what = "stall" if fault == "stall" else {"error": "INTERNAL"}.get(fault or "", "UNAVAILABLE")
        self.kms.fault = lambda: what if len(self.kms.asked) <= last else None

    def asked(self) -> int:
        return len(self.kms.asked)

    def wait_for_request(self, count: int) -> None:
        with self.kms.arrived:
            assert self.kms.arrived.wait_for(lambda: len(self.kms.asked) >= count, timeout=60)


class AzureStore(ProxiedStore):
    versions = False

    def __init__(self, proxy: S3Proxy, vault: Any) -> None:
        super().__init__(proxy)
        self.vault = vault

    def provider(self, bits: int = 256, **options: Any) -> Any:
        given = {
            "algorithm": f"AES_CTR_{bits}",
            "make_credential": Credential,
            "make_transport": lambda: VaultTransport(self._proxy.port),
            **options,
        }
        return AzureKeyProvider("fake", **given)

    def add(self, bits: int = 256) -> str:
        name = f"key{next(_numbers)}"
        self.vault.add(name)
        return name

    def roll(self, name: str, bits: int = 256) -> None:
        self.vault.add(name)

    def refused(self, name: str) -> Any:
        self.vault.refused.add(name)
        return self.provider()


@contextmanager
def key_store(kind: str) -> Iterator[KeyStore]:
    """A store of its own for each test, or at least keys of its own."""
    if kind == "memory":
        yield MemoryStore()
    elif kind == "hadoop":
        with fake_kms() as kms, run_s3_proxy(f"http://127.0.0.1:{kms.port}") as proxy:
            kms.refused.add("refused")
            yield HadoopStore(
                proxy,
                lambda name, key: kms.keys.update({name: [key]}),
                lambda name, key: kms.keys[name].append(key),
            )
    elif kind == "hadoop_real":
        real = start_kms()
        with run_s3_proxy(f"http://127.0.0.1:{real.port}") as proxy:
            yield HadoopStore(proxy, real.add, real.roll)
    elif kind == "aws":
        with run_s3_proxy(start_moto().endpoint) as proxy:
            yield AwsStore(proxy)
    elif kind == "gcp":
        with fake_google_kms() as google:
            yield GcpStore(google)
    else:
        with fake_vault() as vault, run_s3_proxy(f"http://127.0.0.1:{vault.port}") as proxy:
            yield AzureStore(proxy, vault)
