"""The benchmark's proxy: bytes unchanged, late by the delay, at the rate, and written down."""

from __future__ import annotations

import contextlib
import math
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from bench import servers
from bench.proxy import Exchange

DELAY_S = 0.05
RATE = 20e6
ANSWER = os.urandom(2_000_000)


def busy_periods(exchanges: list[Exchange]) -> int:
    """How many stretches of time had a request in flight: what latency is paid for."""
    periods, until = 0, -math.inf
    for exchange in sorted(exchanges, key=lambda e: e.sent_s):
        if exchange.sent_s > until:
            periods += 1
        until = max(until, exchange.last_byte_s)
    return periods


@contextlib.contextmanager
def answering_server() -> Iterator[int]:
    """Answers every five bytes with two megabytes, on any number of connections."""

    def serve(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            while connection.recv(5, socket.MSG_WAITALL):
                connection.sendall(ANSWER)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1]
        # Wakes the thread that accepts, which closing alone does not.
        listener.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def distance() -> Iterator[servers.Distance]:
    near = answering_server()
    with near as port, servers.distant(servers.Store(port), DELAY_S * 1e3, RATE / 1e6) as distance:
        yield distance


def ask(connection: socket.socket) -> float:
    """One request; answers how long its answer took, which is whole."""
    start = time.perf_counter()
    connection.sendall(b"bytes")
    received = bytearray()
    while len(received) < len(ANSWER):
        received += connection.recv(1 << 20)
    took = time.perf_counter() - start
    assert received == ANSWER
    return took


def test_every_request_is_late_and_every_answer_paced(distance: servers.Distance) -> None:
    with socket.create_connection(("127.0.0.1", distance.store.port)) as connection:
        took = [ask(connection) for _ in range(2)]
    # The first quantum may pass at once, and a turn be made up for; a busy machine may make it later.
    assert min(took) > DELAY_S + (len(ANSWER) - 400_000) / RATE
    log = distance.log()
    assert [exchange.answer_bytes for exchange in log] == [len(ANSWER)] * 2
    assert all(exchange.first_byte_s - exchange.sent_s >= DELAY_S for exchange in log)
    assert busy_periods(log) == 2
    assert distance.log() == []


def test_connections_do_not_wait_for_each_other(distance: servers.Distance) -> None:
    connections = [socket.create_connection(("127.0.0.1", distance.store.port)) for _ in range(4)]
    with contextlib.ExitStack() as stack:
        threads = []
        for connection in connections:
            stack.enter_context(connection)
            threads.append(threading.Thread(target=ask, args=(connection,)))
            threads[-1].start()
        for thread in threads:
            thread.join()
    log = distance.log()
    assert len({exchange.connection for exchange in log}) == 4
    assert busy_periods(log) == 1


def test_requests_are_paced() -> None:
    size = 2_000_000

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            assert len(connection.recv(size, socket.MSG_WAITALL)) == size
            connection.sendall(b"k")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, daemon=True).start()
        near = servers.Store(listener.getsockname()[1])
        with (
            servers.distant(near, DELAY_S * 1e3, RATE / 1e6) as distance,
            socket.create_connection(("127.0.0.1", distance.store.port)) as connection,
        ):
            start = time.perf_counter()
            connection.sendall(os.urandom(size))
            assert connection.recv(1) == b"k"
            took = time.perf_counter() - start
    assert DELAY_S + 0.8 * size / RATE < took < DELAY_S + 5 * size / RATE


def test_it_ends_with_its_input() -> None:
    command = [sys.executable, "-m", "bench.proxy", "0", "1"]
    run = subprocess.run(
        command, input=b"log\n", cwd=servers.ROOT, capture_output=True, timeout=30, check=True
    )
    assert run.stdout.split() == [b"ready", b"[]"]


def test_busy_periods() -> None:
    def exchange(sent: float, last: float) -> Exchange:
        return Exchange(0, sent, sent, last, 1)

    assert busy_periods([]) == 0
    assert busy_periods([exchange(0, 1), exchange(0.5, 2), exchange(1.5, 1.6), exchange(3, 4)]) == 2
