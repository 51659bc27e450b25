"""A TCP proxy that puts a distance between a client and a server on the same machine.

Knows sockets and the clock; no HTTP. Every burst of a client reaches the server DELAY later; every
connection's requests and answers flow at RATE each, and all answers together at that of the link, where it
has one. One thread waits for all connections in one epoll, and answers pass through a pipe with splice(2), so
that their bytes never enter this process: it shall not be the bottleneck that is measured. (Threads with
blocking reads and asyncio streams were tried: both copy each byte twice.)

    python -m bench.proxy LISTEN_PORT TARGET_PORT --delay-ms 30 --mbps 90 [--link-mbps 200]

Reads commands from standard input, one a line: `log` prints what happened since the last one as one line of
JSON (see `Exchange`), `quit` ends the process, and so does the end of the input.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import heapq
import itertools
import json
import math
import os
import select
import socket
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

# The most that moves at once: at 90 MB/s a connection waits 3 ms for its next turn, epoll's timer has 1 ms.
QUANTUM_BYTES = 256 * 1024
# A turn may come this late and be made up for; more would let bursts through.
LATE_S = 0.004
F_SETPIPE_SZ = 1031


@dataclass(slots=True)
class Exchange:
    """One request and its answer, on the proxy's clock: seconds and bytes.

    A client's bytes begin a new request when bytes of an answer have passed since the last one.
    """

    connection: int
    sent_s: float
    first_byte_s: float = 0.0
    last_byte_s: float = 0.0
    answer_bytes: int = 0


@dataclass(slots=True, eq=False)
class Link:
    """A client's connection, the server's behind it, and what is on its way between them."""

    number: int
    client: socket.socket
    server: socket.socket
    pipe_out: int
    pipe_in: int
    to_server: deque[tuple[float, bytes]] = field(default_factory=deque)
    in_pipe: int = 0
    free_at: float = 0.0
    waiting_turn: bool = False
    requests_free_at: float = 0.0
    paused: bool = False
    blocked: bool = False
    exchange: Exchange | None = None


class Proxy:
    """All links, their timers, and the log."""

    def __init__(self, listen: int, target: int, delay_s: float, rate: float, link_rate: float) -> None:
        self._target = target
        self._delay_s = delay_s
        self._rate = rate
        self._link_rate = link_rate
        self._link_free_at = 0.0
        self._listener = socket.create_server(("127.0.0.1", listen), backlog=256)
        self._listener.setblocking(False)
        self._epoll = select.epoll()
        self._handlers: dict[int, Callable[[int], None]] = {}
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._links: set[Link] = set()
        self._connections = 0
        self._log: list[Exchange] = []
        self._running = True

    def run(self) -> None:
        self._watch(self._listener.fileno(), select.EPOLLIN, lambda _: self._accept())
        self._watch(sys.stdin.fileno(), select.EPOLLIN, lambda _: self._command())
        print("ready", flush=True)
        while self._running:
            wait = self._timers[0][0] - time.monotonic() if self._timers else -1
            for descriptor, events in self._epoll.poll(max(0.0, wait) if self._timers else -1):
                # A handler may have closed what a later event of this round is about.
                if handler := self._handlers.get(descriptor):
                    handler(events)
            now = time.monotonic()
            while self._timers and self._timers[0][0] <= now:
                heapq.heappop(self._timers)[2]()

    def _watch(self, descriptor: int, events: int, handler: Callable[[int], None]) -> None:
        self._handlers[descriptor] = handler
        self._epoll.register(descriptor, events)

    def _after(self, due: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._timers, (due, next(self._order), action))

    # --- commands ---

    def _command(self) -> None:
        command = sys.stdin.readline().strip()
        if command == "log":
            print(json.dumps([asdict(exchange) for exchange in self._log]), flush=True)
            self._log.clear()
        elif command in ("quit", ""):
            self._running = False

    # --- links ---

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        try:
            server = socket.create_connection(("127.0.0.1", self._target))
        except OSError:
            client.close()
            return
        for end in (client, server):
            end.setblocking(False)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        pipe_out, pipe_in = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        fcntl.fcntl(pipe_in, F_SETPIPE_SZ, 4 * QUANTUM_BYTES)
        link = Link(self._connections, client, server, pipe_out, pipe_in)
        self._connections += 1
        self._links.add(link)
        self._watch(client.fileno(), select.EPOLLIN, lambda events: self._client_event(link, events))
        self._watch(server.fileno(), select.EPOLLIN, lambda events: self._server_event(link, events))

    def _close(self, link: Link) -> None:
        if link not in self._links:
            return
        self._links.remove(link)
        for end in (link.client, link.server):
            del self._handlers[end.fileno()]
            self._epoll.unregister(end.fileno())
            end.close()
        os.close(link.pipe_out)
        os.close(link.pipe_in)

    def _client_event(self, link: Link, events: int) -> None:
        if events & select.EPOLLOUT:
            self._drain(link)
        if events & (select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR) and link in self._links:
            self._ask(link)

    def _watch_client(self, link: Link) -> None:
        """What a client is waited for: requests, unless paused, and room for answers, where blocked."""
        events = (0 if link.paused else select.EPOLLIN) | (select.EPOLLOUT if link.blocked else 0)
        self._epoll.modify(link.client.fileno(), events)

    # --- requests: paced and held back ---

    def _resume(self, link: Link) -> None:
        link.paused = False
        if link in self._links:
            self._watch_client(link)

    def _ask(self, link: Link) -> None:
        now = time.monotonic()
        if link.paused:
            return
        if now < link.requests_free_at:
            link.paused = True
            self._watch_client(link)
            self._after(link.requests_free_at, lambda: self._resume(link))
            return
        try:
            data = link.client.recv(QUANTUM_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._close(link)
            return
        link.requests_free_at = max(link.requests_free_at, now - LATE_S) + len(data) / self._rate
        if link.exchange is None or link.exchange.answer_bytes:
            link.exchange = Exchange(link.number, now)
            self._log.append(link.exchange)
        link.to_server.append((now + self._delay_s, data))
        if len(link.to_server) == 1:
            self._after(now + self._delay_s, lambda: self._forward(link))

    def _forward(self, link: Link) -> None:
        """Send what is due; a server that is slow to read is asked again a millisecond later."""
        if link not in self._links:
            return
        try:
            while link.to_server and link.to_server[0][0] <= time.monotonic():
                due, data = link.to_server.popleft()
                try:
                    sent = link.server.send(data)
                except BlockingIOError:
                    sent = 0
                if sent < len(data):
                    link.to_server.appendleft((due, data[sent:]))
                    break
        except OSError:
            self._close(link)
            return
        if link.to_server:
            due = max(link.to_server[0][0], time.monotonic() + 0.001)
            self._after(due, lambda: self._forward(link))

    # --- answers: paced, spliced ---

    def _server_event(self, link: Link, _events: int) -> None:
        now = time.monotonic()
        if link.in_pipe or now < self._turn_of(link):
            # Not its turn: look away until then.
            self._epoll.modify(link.server.fileno(), 0)
            if not link.in_pipe:
                self._wait_turn(link)
            return
        try:
            count = os.splice(link.server.fileno(), link.pipe_in, QUANTUM_BYTES, flags=os.SPLICE_F_MOVE)
        except BlockingIOError:
            return
        except OSError:
            count = 0
        if not count:
            self._close(link)
            return
        link.free_at = max(link.free_at, now - LATE_S) + count / self._rate
        self._link_free_at = max(self._link_free_at, now - LATE_S) + count / self._link_rate
        link.in_pipe += count
        if link.exchange:
            link.exchange.first_byte_s = link.exchange.first_byte_s or now
            link.exchange.answer_bytes += count
        self._drain(link)

    def _turn_of(self, link: Link) -> float:
        """When the next bytes of a connection may pass."""
        return max(link.free_at, self._link_free_at)

    def _wait_turn(self, link: Link) -> None:
        if not link.waiting_turn:
            link.waiting_turn = True
            self._after(self._turn_of(link), lambda: self._turn(link))

    def _turn(self, link: Link) -> None:
        link.waiting_turn = False
        if link in self._links and not link.in_pipe:
            self._epoll.modify(link.server.fileno(), select.EPOLLIN)

    def _drain(self, link: Link) -> None:
        """Pipe to client; a client that does not read stops its server."""
        try:
            while link.in_pipe:
                link.in_pipe -= os.splice(link.pipe_out, link.client.fileno(), link.in_pipe)
        except BlockingIOError:
            link.blocked = True
            self._watch_client(link)
            self._epoll.modify(link.server.fileno(), 0)
            return
        except OSError:
            self._close(link)
            return
        if link.exchange:
            link.exchange.last_byte_s = time.monotonic()
        link.blocked = False
        self._watch_client(link)
        self._epoll.modify(link.server.fileno(), 0)
        self._wait_turn(link)


def main() -> None:
    parser = argparse.ArgumentParser(description="puts a distance between a client and a server")
    parser.add_argument("listen", type=int)
    parser.add_argument("target", type=int)
    parser.add_argument("--delay-ms", type=float, default=30)
    parser.add_argument("--mbps", type=float, default=90)
    parser.add_argument("--link-mbps", type=float, default=math.inf)
    arguments = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        Proxy(
            arguments.listen,
            arguments.target,
            arguments.delay_ms / 1e3,
            arguments.mbps * 1e6,
            arguments.link_mbps * 1e6,
        ).run()


if __name__ == "__main__":
    main()
