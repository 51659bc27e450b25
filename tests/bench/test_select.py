"""What a bare GET of each wave is as long as: the longest answer among that wave's requests."""

from __future__ import annotations

from bench import select
from bench.proxy import Exchange


def test_the_longest_answer_of_each_wave() -> None:
    sent = [(0.0, 10), (1.0, 5), (1.1, 7), (2.0, 1), (2.1, 3), (2.2, 2), (9.0, 99)]
    log = [Exchange(0, at, at, at, size) for at, size in reversed(sent)]
    assert select.largest(log, [1, 2, 3]) == [10, 7, 3]
