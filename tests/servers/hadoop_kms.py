"""A stand-in for a Hadoop KMS, with as much of its interface as readers and writers of ORC use.

Its answers have the form of those of Hadoop 3.4, and its faults are those of networks and servers. It is a
thread of this process: neither Java nor jars are needed.
"""

from __future__ import annotations

import base64
import itertools
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import parse_qs, unquote, urlsplit

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from tests.servers.http_server import Handler, serving

__all__ = ["FakeKms", "KmsFault", "fake_kms"]

# Nothing is answered and the connection is closed; nothing is answered until the server is released; an
# answer that is none; or a status, without the form that the server gives its own refusals.
KmsFault = Literal["hang_up", "stall", "nonsense", "401", "403", "404", "500", "503"]


@dataclass(frozen=True)
class Asked:
    """A request as it arrived."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


@dataclass
class FakeKms:
    """`keys` are the versions of each; `fault` is asked for each request, None lets it pass.

    `cookies` are those that the server still takes; `tickets`, where there are some, are what it takes from
    who has a Kerberos ticket, and else it wants a user's name. `tokens` are for delegation.
    """

    port: int = 0
    keys: dict[str, list[bytes]] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    tokens: set[str] = field(default_factory=set)
    tickets: set[str] = field(default_factory=set)
    cookies: set[str] = field(default_factory=set)
    fault: Callable[[Asked], KmsFault | None] = lambda _asked: None
    asked: list[Asked] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)
    arrived: threading.Condition = field(default_factory=threading.Condition)
    numbers: Iterator[int] = field(default_factory=itertools.count)
    nonsense: bytes = b"<html>all is well</html>"

    @property
    def place(self) -> str:
        return f"kms://http@127.0.0.1:{self.port}/kms"

    def fail(self, fault: KmsFault | None, count: int = 1 << 30) -> None:
        """From now on `count` requests fail so."""
        last = len(self.asked) + count
        self.fault = lambda _asked: fault if len(self.asked) <= last else None

    @property
    def calls(self) -> list[str]:
        """The paths that were asked for, without what all of them begin with."""
        return [asked.path.removeprefix("/kms/v1/") for asked in self.asked]


class _Handler(Handler[FakeKms]):
    methods = ("OPTIONS", "GET", "POST")

    def serve(self) -> None:
        kms = self.state
        parts = urlsplit(self.path)
        text = self.read_body()
        asked = Asked(
            self.command,
            parts.path,
            {name: values[0] for name, values in parse_qs(parts.query).items()},
            {name.lower(): value for name, value in self.headers.items()},
            json.loads(text) if text else None,
        )
        with kms.arrived:
            kms.asked.append(asked)
            fault = kms.fault(asked)
            kms.arrived.notify_all()
        if fault == "stall":
            kms.released.wait(60)
        if fault in ("stall", "hang_up"):
            self.close_connection = True
        elif fault == "nonsense":
            self._say(200, kms.nonsense, "application/json")
        elif fault is not None:
            self._say(int(fault), b"<html>no</html>", "text/html")
        elif self._knows(asked):
            self._answer(kms, asked)

    def _knows(self, asked: Asked) -> bool:
        """Whether it is known who asks; answers otherwise. The answer then has a cookie."""
        kms = self.state
        cookie = asked.headers.get("cookie", "")
        if cookie:
            if cookie.removeprefix("hadoop.auth=") in kms.cookies:
                return True
        elif "delegation" in asked.query:
            if asked.query["delegation"] in kms.tokens:
                return True
            token = asked.query["delegation"]
            self._refuse(403, "AuthenticationException", f"token ({token}) can't be found in cache")
            return False
        elif kms.tickets:
            if asked.headers.get("authorization", "").removeprefix("Negotiate ") in kms.tickets:
                self._new_cookie = f'"u=ticket&s={next(kms.numbers)}="'
                return True
        elif "user.name" in asked.query:
            self._new_cookie = f'"u={asked.query["user.name"]}&s={next(kms.numbers)}="'
            return True
        way = "Negotiate" if kms.tickets else "PseudoAuth"
        headers = {"WWW-Authenticate": way, "Set-Cookie": "hadoop.auth=; HttpOnly"}
        self._say(401, b"<html>Authentication required</html>", "text/html", headers)
        return False

    def _answer(self, kms: FakeKms, asked: Asked) -> None:
        if self._new_cookie:
            kms.cookies.add(self._new_cookie)
        parts = asked.path.split("/")
        name = unquote(parts[4]) if len(parts) > 4 else ""
        user = asked.query.get("doas", asked.query.get("user.name"))
        if asked.method == "OPTIONS":  # Java asks so for its cookie
            self._say_json(200, [])
        elif user in kms.refused or name.rpartition("@")[0] in kms.refused or name in kms.refused:
            self._refuse(403, "AuthorizationException", f"User:{user} not allowed to do 'X' on '{name}'")
        elif parts[:4] == ["", "kms", "v1", "key"] and parts[5:] == ["_metadata"]:
            self._say_json(200, self._metadata(kms, name))
        elif parts[:4] == ["", "kms", "v1", "keyversion"] and parts[5:] == ["_eek"]:
            self._decrypt(kms, name, asked.body)
        else:
            self._say(404, b"<html>no such thing</html>", "text/html")

    def _metadata(self, kms: FakeKms, name: str) -> dict[str, object]:
        versions = kms.keys.get(name)
        if not versions:
            return {}
        return {
            "name": name,
            "cipher": "AES/CTR/NoPadding",
            "length": len(versions[-1]) * 8,
            "description": None,
            "attributes": {"key.acl.name": name},
            "created": 1700000000000,
            "versions": len(versions),
        }

    def _decrypt(self, kms: FakeKms, version_name: str, body: Any) -> None:
        name, _, version = version_name.rpartition("@")
        versions = kms.keys.get(name, [])
        if not version.isdigit() or int(version) >= len(versions):
            self._refuse(400, "IllegalArgumentException", f"'{version_name}' not found")
            return
        # The interface flips the bits of the initial vector.
        iv = bytes(byte ^ 0xFF for byte in base64.b64decode(body["iv"]))
        cipher = Cipher(algorithms.AES(versions[int(version)]), modes.CTR(iv)).decryptor()
        plain = cipher.update(base64.b64decode(body["material"])) + cipher.finalize()
        material = base64.urlsafe_b64encode(plain).decode().rstrip("=")
        self._say_json(200, {"material": material, "name": name, "versionName": "EK"})

    def _refuse(self, status: int, kind: str, message: str) -> None:
        java = {"message": message, "exception": kind, "javaClassName": f"org.apache.hadoop.{kind}"}
        self._say_json(status, {"RemoteException": java})

    def _say_json(self, status: int, value: object) -> None:
        self._say(status, json.dumps(value).encode(), "application/json")

    _new_cookie = ""

    def _say(self, status: int, body: bytes, kind: str, headers: dict[str, str] | None = None) -> None:
        headers = {**(headers or {}), "Content-Type": kind}
        if self._new_cookie:
            headers["Set-Cookie"] = f"hadoop.auth={self._new_cookie}; HttpOnly"
            self._new_cookie = ""
        self.answer(status, body, headers)


@contextmanager
def fake_kms(host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None) -> Iterator[FakeKms]:
    with serving(_Handler, FakeKms, host=host, port=port, tls=tls) as kms:
        try:
            yield kms
        finally:
            kms.released.set()
