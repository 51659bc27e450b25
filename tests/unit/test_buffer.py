"""Blocks of memory: aligned, as long as said, recycled by size class within a limit, from any thread."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator

import numpy as np
import pytest

from orcstream._buffer import Buffer, release_retained, retained_bytes, set_retain_limit, zeroed

POOLED_FROM = 16_384
LIMIT = 64 << 20


@pytest.fixture(autouse=True)
def _empty_pool() -> Iterator[None]:
    former = set_retain_limit(LIMIT)
    release_retained()
    yield
    set_retain_limit(former)
    release_retained()


@pytest.mark.parametrize(
    "size",
    [
        0,
        1,
        63,
        64,
        100,
        16_319,
        16_320,
        16_383,
        16_384,
        16_448,
        16_449,
        20_480,
        20_481,
        1 << 20,
        (1 << 20) + 1,
    ],
)
def test_blocks_are_aligned_and_as_long_as_asked(size: int) -> None:
    for _ in range(3):  # fresh, then from the pool
        block = Buffer(size)
        assert block.address % 64 == 0
        assert len(block) == block.nbytes == size == memoryview(block).nbytes
        view = np.frombuffer(memoryview(block), np.uint8)
        view[:] = 7
        assert int(view.sum()) == 7 * size
        del view, block


def test_blocks_are_writable_and_flat() -> None:
    view = memoryview(Buffer(10))
    assert (view.readonly, view.format, view.ndim, view.c_contiguous) == (False, "B", 1, True)


@pytest.mark.parametrize("size", [0, 1, 20_000])
def test_zeroed(size: int) -> None:
    dirty = Buffer(size)
    memoryview(dirty)[:] = b"\xff" * size
    del dirty
    assert bytes(zeroed(size)) == bytes(size)


@pytest.mark.parametrize("size", [-1, -(1 << 62)])
def test_sizes_that_are_none(size: int) -> None:
    with pytest.raises(ValueError, match="negative"):
        Buffer(size)


@pytest.mark.parametrize("size", [1 << 46, 1 << 50, 1 << 60, (1 << 63) - 1])
def test_sizes_beyond_all_memory(size: int) -> None:
    before = retained_bytes()
    with pytest.raises(MemoryError):
        Buffer(size)
    assert retained_bytes() == before


def test_large_blocks_are_reused_and_small_ones_are_not_kept() -> None:
    for size in (100, 10_000):
        Buffer(size)
        assert retained_bytes() == 0
    first = Buffer(1 << 20)
    address = first.address
    del first
    kept = retained_bytes()
    assert 1 << 20 < kept <= (1 << 20) + 128  # a power of two fills its class
    again = Buffer((1 << 20) - 5000)  # of the same class
    assert again.address == address
    del again
    again = Buffer((1 << 20) + 8)  # as many offsets, and the last one
    assert again.address == address
    assert retained_bytes() == 0
    del again
    assert retained_bytes() == kept
    other = Buffer(1 << 16)
    assert retained_bytes() == kept
    del other


def test_every_class_comes_back_to_itself() -> None:
    sizes = [int(POOLED_FROM * 1.07**step) for step in range(90)]
    for size in sizes:
        before = retained_bytes()
        block = Buffer(size)
        address = block.address
        del block
        kept = retained_bytes() - before
        assert kept == 0 or size <= kept <= size * 1.26 + 128
        assert Buffer(size).address == address
        release_retained()


def test_limit() -> None:
    blocks = [Buffer(1 << 20) for _ in range(100)]
    del blocks
    assert 0 < retained_bytes() <= LIMIT
    held = retained_bytes()
    assert set_retain_limit(0) == LIMIT
    assert retained_bytes() == held  # what is kept stays until it is used or released
    block = Buffer(1 << 20)
    less = retained_bytes()
    assert less < held
    del block
    assert retained_bytes() == less
    release_retained(less // 2)
    assert 0 < retained_bytes() <= less // 2
    release_retained()
    assert retained_bytes() == 0


def test_views_keep_their_block() -> None:
    view = memoryview(Buffer(1 << 20))
    view[:] = b"\x11" * (1 << 20)
    assert retained_bytes() == 0
    other = [Buffer(1 << 20) for _ in range(3)]
    for block in other:
        memoryview(block)[:] = bytes(1 << 20)
    assert bytes(view[-4:]) == b"\x11" * 4
    view.release()
    assert retained_bytes() > 0


def test_threads() -> None:
    """No block is lent to two users at once, and the account of what is kept is right afterwards."""
    failures: list[str] = []
    start = threading.Barrier(4)

    def work(number: int) -> None:
        rng = random.Random(number)
        held: list[tuple[memoryview, int]] = []
        start.wait()
        for step in range(400):
            size = rng.choice((17_000, 20_000, 70_000, 200_000))
            view = memoryview(Buffer(size))
            mark = number << 5 | step % 32
            view[:64] = view[-64:] = bytes((mark,)) * 64
            held.append((view, mark))
            if len(held) > 8:
                view, mark = held.pop(rng.randrange(len(held)))
                if bytes(view[:64]) + bytes(view[-64:]) != bytes((mark,)) * 128:
                    failures.append(f"thread {number}, step {step}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert 0 < retained_bytes() <= LIMIT
    release_retained()
    assert retained_bytes() == 0
