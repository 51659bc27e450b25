"""Hadoop's own key server for tests; what tests put there goes through `http.client`."""

from __future__ import annotations

import base64
import functools
import http.client
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.servers.java_server import start_java_server

__all__ = ["HadoopKms", "start_kms"]

PROGRAM = Path(__file__).with_name("kms_server") / "MiniKms.java"
# Its libraries make classes while they run; each new key costs so many rounds for every key that there is.
OPTIONS = ("--add-opens=java.base/java.lang=ALL-UNNAMED", "-Djdk.jceks.iterationCount=10000")
USER = "keeper"


@dataclass(frozen=True)
class HadoopKms:
    """The calls of a test, which may do everything."""

    port: int

    @property
    def place(self) -> str:
        return f"kms://http@127.0.0.1:{self.port}/kms"

    def call(self, method: str, path: str, body: object = None) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            mark = "&" if "?" in path else "?"
            connection.request(
                method,
                f"/kms/v1/{path}{mark}user.name={USER}",
                None if body is None else json.dumps(body),
                {"Content-Type": "application/json"},
            )
            response = connection.getresponse()
            answer = response.read()
        finally:
            connection.close()
        assert response.status in (200, 201), (response.status, answer)
        return json.loads(answer) if answer else None

    def add(self, name: str, key: bytes) -> None:
        text = base64.b64encode(key).decode()
        material = {"name": name, "cipher": "AES/CTR/NoPadding", "length": len(key) * 8, "material": text}
        self.call("POST", "keys", material)

    def roll(self, name: str, key: bytes) -> None:
        path = f"key/{quote(name, safe='')}"
        self.call("POST", path, {"material": base64.b64encode(key).decode()})
        self.call("POST", f"{path}/_invalidatecache")

    def token(self) -> str:
        """A delegation token of the user of these tests."""
        return str(self.call("GET", f"?op=GETDELEGATIONTOKEN&renewer={USER}")["Token"]["urlString"])


@functools.cache
def start_kms() -> HadoopKms:
    """The one key server of this process, started by whoever asks first."""
    return HadoopKms(*start_java_server("kms", PROGRAM, options=OPTIONS))
