"""HTTP servers on threads of this process: what the stand-ins and proxies of these tests have in common.

Knows HTTP as far as `http.server` does. What is served, and how badly, is the `state` that each server is
given and its handlers look at.
"""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Generic, TypeVar

__all__ = ["Handler", "serving"]

S = TypeVar("S")


class Handler(BaseHTTPRequestHandler, Generic[S]):
    """Calls `serve` for each request by one of `methods`; others are 501."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else bodies wait 40 ms, until their headers are acknowledged
    methods: ClassVar[tuple[str, ...]]
    server: _Server[S]

    @property
    def state(self) -> S:
        return self.server.state

    def serve(self) -> None:
        raise NotImplementedError

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_") and name.removeprefix("do_") in self.methods:
            return self.serve  # what `http.server` looks for
        raise AttributeError(name)

    def read_body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def answer(
        self,
        status: int,
        body: bytes = b"",
        headers: Mapping[str, str] | Iterable[tuple[str, str]] = (),
        *,
        cut: int = 0,
        halfway: Callable[[], object] | None = None,
    ) -> None:
        """An answer with the length of its body; `cut` bytes of it are kept back, `halfway` is called in it.

        The answer to HEAD has no body and no length but the one among `headers`. Clients may be gone.
        """
        try:
            self.send_response_only(status)
            for name, value in headers.items() if isinstance(headers, Mapping) else headers:
                self.send_header(name, value)
            if self.command != "HEAD":
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                kept = body[: max(0, len(body) - cut)]
                if halfway is not None:
                    self.wfile.write(kept[: len(kept) // 2])
                    halfway()
                    kept = kept[len(kept) // 2 :]
                self.wfile.write(kept)
        except OSError:
            self.close_connection = True
        if cut:
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


class _Server(ThreadingHTTPServer, Generic[S]):
    daemon_threads = True
    request_queue_size = 128
    state: S

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients of these tests hang up in the middle."""


@contextmanager
def serving(
    handler: type[Handler[S]],
    state: Callable[[int], S],
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    tls: ssl.SSLContext | None = None,
) -> Iterator[S]:
    """Serve until left; `state` is called with the port. Handlers that wait must be let go before."""
    with _Server[S]((host, port), handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        server.state = state(server.server_address[1])
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server.state
        finally:
            server.shutdown()
            thread.join()
