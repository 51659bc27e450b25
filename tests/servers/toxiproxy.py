"""toxiproxy, a network that misbehaves: connections through it are delayed, slowed, cut, held and dropped.

Knows its HTTP interface. Must not know what travels through it. One process of it serves all tests of this
one; each test makes the links that it needs, spoils them and makes them well again.
"""

from __future__ import annotations

import functools
import http.client
import itertools
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tests.servers.processes import await_port, free_port, new_folder, start_process
from tests.support.needs import not_here

__all__ = ["Link", "linked", "start_toxiproxy", "toxiproxy_path"]

Kind = Literal["latency", "bandwidth", "slow_close", "timeout", "reset_peer", "slicer", "limit_data"]

_numbers = itertools.count()


def toxiproxy_path() -> str | None:
    """Where `make servers` puts it, or where the system has it; None where there is none."""
    built = Path(__file__).resolve().parents[2] / ".cache" / "bin" / "toxiproxy"
    return str(built) if built.exists() else shutil.which("toxiproxy-server")


@dataclass
class Link:
    """A port that leads to `target`, another port of this host."""

    port: int
    name: str
    toxics: set[str] = field(default_factory=set)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def spoil(
        self, kind: Kind, stream: Literal["upstream", "downstream"] = "downstream", **attributes: int
    ) -> None:
        """From now on, connections suffer this; "downstream" is what the server sends.

        Attributes are toxiproxy's: milliseconds, KB a second, bytes.
        """
        toxic = {"name": f"{kind} {stream}", "type": kind, "stream": stream, "attributes": attributes}
        call("POST", f"/proxies/{self.name}/toxics", toxic)
        self.toxics.add(toxic["name"])  # type: ignore[arg-type]  # a text

    def heal(self) -> None:
        """What was spoiled is well again, for connections that are open, too."""
        while self.toxics:
            call("DELETE", f"/proxies/{self.name}/toxics/{self.toxics.pop().replace(' ', '%20')}")

    def cut(self) -> None:
        """All connections are closed and none is taken."""
        call("POST", f"/proxies/{self.name}", {"enabled": False})

    def join(self) -> None:
        """After `cut`."""
        call("POST", f"/proxies/{self.name}", {"enabled": True})


@contextmanager
def linked(target_port: int) -> Iterator[Link]:
    """A link to a port of this host. Skips the test, by its name, where there is no toxiproxy."""
    start_toxiproxy()
    name = f"link{next(_numbers)}"
    listening = {"name": name, "listen": "127.0.0.1:0", "upstream": f"127.0.0.1:{target_port}"}
    made = call("POST", "/proxies", listening)
    try:
        yield Link(int(made["listen"].rpartition(":")[2]), name)
    finally:
        call("DELETE", f"/proxies/{name}")


@functools.cache
def start_toxiproxy() -> int:
    """The port of the one toxiproxy of this process, stopped at exit."""
    path = toxiproxy_path()
    if path is None:
        not_here("no toxiproxy in .cache/bin: `make servers` builds it")
    port = free_port()
    folder = new_folder("toxiproxy")
    process = start_process([path, "-host", "127.0.0.1", "-port", str(port)], folder)
    await_port(process, port)
    return port


def call(method: str, path: str, value: object = None) -> Any:
    """One call of the interface; its answer, which is JSON or nothing."""
    connection = http.client.HTTPConnection("127.0.0.1", start_toxiproxy(), timeout=60)
    try:
        body = None if value is None else json.dumps(value)
        connection.request(method, path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = response.read()
        assert response.status < 300, (response.status, answer)
        return json.loads(answer) if answer else None
    finally:
        connection.close()
