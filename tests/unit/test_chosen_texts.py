"""Texts that were chosen to have one hash, or look alike, cost no more than others; its seed never shows."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
import time

import numpy as np
from numpy.typing import NDArray

from orcstream.codec.encode._dictionary import DictionaryBuilder
from orcstream.codec.vectors._filter import Texts, TextSet

_Words = NDArray[np.uint64]
COUNT = 30_000
MULTIPLIER = np.uint64(0xD6E8FEB86659FD93)
START = np.uint64(0x9E3779B97F4A7C15 ^ 32)
NEXT = np.uint64(0x4141414141414141)
HALF, LOW = np.uint64(32), np.uint64(0xFFFFFFFF)


def mixed(a: _Words, b: np.uint64) -> _Words:
    """Both halves of a product of 128 bits, joined."""
    low, high = a & LOW, a >> HALF
    first = low * (b & LOW)
    second = high * (b & LOW) + (first >> HALF)
    third = low * (b >> HALF) + (second & LOW)
    product: _Words = (a * b) ^ (high * (b >> HALF) + (second >> HALF) + (third >> HALF))
    return product


def chosen_texts() -> list[bytes]:
    """Texts of 32 bytes that agree after two steps of a multiplicative hash whose seeds are known."""
    texts: list[bytes] = []
    for base in range(0, 1 << 40, 1 << 20):
        numbers = np.arange(base, base + (1 << 20), dtype=np.uint64)
        head = np.zeros_like(numbers)
        for digit in range(8):
            nibble = (numbers >> np.uint64(4 * digit)) & np.uint64(15)
            head |= (np.uint64(48) + nibble) << np.uint64(8 * digit)
        tail = mixed(START ^ head, MULTIPLIER) ^ NEXT
        is_ascii = tail & np.uint64(0x8080808080808080) == 0
        data = np.stack([head[is_ascii], tail[is_ascii]], 1).astype("<u8").tobytes()
        texts += [data[at : at + 16] + b"D" * 16 for at in range(0, len(data), 16)]
        if len(texts) >= COUNT:
            break
    return texts[:COUNT]


def seconds_of(values: list[bytes]) -> float:
    offsets = np.arange(len(values) + 1, dtype=np.int32) * 32
    texts = Texts(offsets.tobytes(), b"".join(values), 0, len(values))
    best = float("inf")
    for _ in range(3):
        start = time.process_time()
        DictionaryBuilder().add(texts)
        best = min(best, time.process_time() - start)
    return best


def test_chosen_texts_take_as_long_as_others() -> None:
    """Compared one with the other, they take some hundred times as long."""
    others = [random.Random(number).randbytes(32) for number in range(COUNT)]
    assert seconds_of(chosen_texts()) < 20 * seconds_of(others) + 0.02


def seconds_of_set(literals: list[bytes]) -> float:
    start = time.process_time()
    TextSet(literals)
    return time.process_time() - start


def test_literals_that_differ_in_the_middle_take_as_long_as_others() -> None:
    """Such as addresses of pages: by their ends alone they would all have one hash."""
    numbers = [b"%08d" % number for number in range(COUNT)]
    pages = [b"https://example.com/items/" + number + b"/index.html" for number in numbers]
    others = [number + b"https://example.com/items//index.html" for number in numbers]
    assert seconds_of_set(pages) < 20 * min(seconds_of_set(others) for _ in range(3)) + 0.02


WRITE = """
import hashlib, io, orcstream.blocking as ob
target = io.BytesIO()
texts = [f"{number * number % 1009} of some length" for number in range(20_000)]
ob.write(target, {"s": texts}, "struct<s:string>")
print(hashlib.sha256(target.getvalue()).hexdigest())
"""


def test_files_are_the_same_whatever_the_seed() -> None:
    digests = {
        subprocess.run(
            [sys.executable, "-c", WRITE],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "random")
    }
    assert len(digests) == 1
    assert len(digests.pop().strip()) == 2 * hashlib.sha256().digest_size
