"""A stand-in for Google's Cloud KMS: a gRPC server on the loopback, and a client of Google's that asks it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from google.cloud import kms_v1
from google.cloud.kms_v1.services.key_management_service import transports

__all__ = ["RING", "FakeGoogleKms", "fake_google_kms"]

RING = "projects/p/locations/l/keyRings/r"
SERVICE = "google.cloud.kms.v1.KeyManagementService"


@dataclass
class FakeGoogleKms:
    """`keys` are the versions of each, from 1 on; `fault` is asked for each call and may name a status."""

    port: int = 0
    keys: dict[str, list[bytes]] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    disabled: set[str] = field(default_factory=set)
    fault: Callable[[], str | None] = lambda: None
    asked: list[str] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)
    arrived: threading.Condition = field(default_factory=threading.Condition)

    def make_client(self) -> Any:
        channel = grpc.aio.insecure_channel(f"127.0.0.1:{self.port}")
        transport = transports.KeyManagementServiceGrpcAsyncIOTransport(channel=channel)
        return kms_v1.KeyManagementServiceAsyncClient(transport=transport)

    def answer(self, operation: str, request: Any, context: Any) -> Any:
        with self.arrived:
            self.asked.append(operation)
            fault = self.fault()
            self.arrived.notify_all()
        if fault == "stall":
            self.released.wait(60)
        if fault is not None:
            context.abort(
                getattr(grpc.StatusCode, {"stall": "UNAVAILABLE"}.get(fault, fault)), "as it was told"
            )
        path, _, version = request.name.partition("/cryptoKeyVersions/")
        name = path.removeprefix(f"{RING}/cryptoKeys/")
        if name in self.refused:
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "not for you")
        versions = self.keys.get(name, [])
        if not versions or int(version or 1) > len(versions):
            context.abort(grpc.StatusCode.NOT_FOUND, f"no {request.name}")
        number = int(version or len(versions))
        if operation == "get":
            state = "DISABLED" if name in self.disabled else "ENABLED"
            primary = {"name": f"{path}/cryptoKeyVersions/{number}", "state": state}
            return kms_v1.CryptoKey(name=path, primary=primary, purpose="ENCRYPT_DECRYPT")
        if operation == "encrypt":
            nonce = os.urandom(12)
            sealed = AESGCM(versions[number - 1]).encrypt(nonce, request.plaintext, None)
            return kms_v1.EncryptResponse(name=request.name, ciphertext=bytes([number]) + nonce + sealed)
        text = request.ciphertext
        try:
            plain = AESGCM(versions[text[0] - 1]).decrypt(text[1:13], text[13:], None)
        except (InvalidTag, IndexError, ValueError):
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "Decryption failed")
        return kms_v1.DecryptResponse(plaintext=plain)


@contextmanager
def fake_google_kms() -> Iterator[FakeGoogleKms]:
    kms = FakeGoogleKms()
    operations = {
        "GetCryptoKey": ("get", kms_v1.GetCryptoKeyRequest, kms_v1.CryptoKey),
        "Encrypt": ("encrypt", kms_v1.EncryptRequest, kms_v1.EncryptResponse),
        "Decrypt": ("decrypt", kms_v1.DecryptRequest, kms_v1.DecryptResponse),
    }

    def handler(operation: str, request: Any, response: Any) -> Any:
        return grpc.unary_unary_rpc_method_handler(
            lambda asked, context: kms.answer(operation, asked, context),
            request_deserializer=request.deserialize,
            response_serializer=response.serialize,
        )

    server = grpc.server(ThreadPoolExecutor(32))
    handlers = {name: handler(*parts) for name, parts in operations.items()}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    kms.port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield kms
    finally:
        kms.released.set()
        server.stop(None).wait()
