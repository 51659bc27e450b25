"""Keys for tests that encrypt, and ways to name columns of random types."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Sequence
from typing import Any

import anyio
import anyio.lowlevel

import orcstream
from orcstream.encryption import EncryptionKey, LocalKey
from orcstream.io.keys import InMemoryKeyProvider
from tests.reference.types import T

SECRETS = {"pii": bytes(range(32)), "pay": bytes(range(100, 116)), "zz": bytes(range(50, 82))}


class CountedKeys(InMemoryKeyProvider):
    """The master keys `SECRETS`; its local keys are always the same ones, and each is another."""

    def __init__(self, secrets: dict[str, bytes] | None = None) -> None:
        super().__init__()
        self.drawn: list[LocalKey] = []
        self.is_closed = False
        for name, secret in (SECRETS if secrets is None else secrets).items():
            self.add_key(name, secret)

    async def create_local_key(self, key: EncryptionKey) -> LocalKey:
        seed = hashlib.sha256(f"local key {len(self.drawn)}".encode()).digest()
        self.drawn.append(await self.decrypt_local_key(key, seed[: key.algorithm.key_bytes]))
        return self.drawn[-1]

    async def aclose(self) -> None:
        self.is_closed = True


class ProbeKeys(CountedKeys):
    """Numbers the local keys it is asked to open from 0, counts calls under way, answers after some turns.

    `on_call(number)` is called when a call starts; what it raises is the call's failure. Cancelled calls are
    seen to end like others.
    """

    def __init__(self, on_call: Callable[[int], None] = lambda _: None, turns: int = 3) -> None:
        super().__init__()
        self.asked: list[bytes] = []
        self.open_count = 0
        self.on_call = on_call
        self._turns = turns

    async def current_key(self, name: str) -> EncryptionKey:
        await self._wait()
        return await super().current_key(name)

    async def create_local_key(self, key: EncryptionKey) -> LocalKey:
        await self._wait()
        seed = hashlib.sha256(f"local key {len(self.drawn)}".encode()).digest()
        self.drawn.append(await super().decrypt_local_key(key, seed[: key.algorithm.key_bytes]))
        return self.drawn[-1]

    async def decrypt_local_key(self, key: EncryptionKey, encrypted: bytes) -> LocalKey:
        number = len(self.asked)
        self.asked.append(encrypted)
        await self._wait()
        self.on_call(number)
        return await super().decrypt_local_key(key, encrypted)

    async def _wait(self) -> None:
        self.open_count += 1
        try:
            for _ in range(self._turns):
                await anyio.lowlevel.checkpoint()
        finally:
            self.open_count -= 1


def written(
    schema: object, parts: Sequence[object], encrypt: Sequence[orcstream.Encrypt], **options: Any
) -> bytes:
    """A file; its local keys depend on nothing but their number."""
    buffer = io.BytesIO()
    options.setdefault("keys", CountedKeys())

    async def run() -> None:
        with anyio.fail_after(60):
            async with orcstream.create(buffer, schema, encrypt=encrypt, **options) as out:
                for part in parts:
                    await out.write(part)

    anyio.run(run)
    return buffer.getvalue()


def paths_of(type_: T, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The name of each column, by column id, as `Encrypt` takes it; the root's is empty."""
    steps = {
        "struct": type_.names,
        "array": ("_elem",),
        "map": ("_key", "_value"),
        "uniontype": tuple(f"_union_{tag}" for tag in range(len(type_.children))),
    }.get(type_.kind, ())
    found = [path]
    for step, child in zip(steps, type_.children, strict=True):
        found += paths_of(child, (*path, step))
    return found
