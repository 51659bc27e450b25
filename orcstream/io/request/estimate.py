"""What the requests so far say of a store: its latency, its bandwidth, and how slow is unusually slow.

Knows sizes and durations, and no clock: times come in as numbers. Must not know who asks. The figures are
robust: medians, so that a few slow answers change nothing; bounded, so that no measurement, however wrong,
leads to a plan that is far from the preset's; and there are none before some requests have answered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from statistics import median
from typing import NamedTuple

from orcstream.byterange import CostModel

# Requests before anything is said, and how many of the last ones are looked at.
LEAST_SAMPLES = 8
_KEPT_SAMPLES = 32
# So many more requests before the figures are made anew.
_REFIT_SAMPLES = 4
# An estimate is at most this many times the preset, and at least this part of it.
BOUND = 8.0
# Requests differ in size, so that latency and bandwidth can be told apart, if the largest quarter of them
# moved this many times the bytes of the smallest one.
_SPREAD = 2.0
_ROUNDS = 3
# At least this share of a request's time is taken for the arrival of its bytes.
_LEAST_MOVING = 0.01


class _Sample(NamedTuple):
    byte_count: int
    start_s: float
    stop_s: float
    concurrency: float

    @property
    def duration_s(self) -> float:
        return self.stop_s - self.start_s


class CostEstimate:
    """Latency and bandwidth of one store, from its finished requests.

    A request is silent for the latency, then its bytes arrive. While those of a large request arrive the
    link is in use: what all requests together moved meanwhile gives the bandwidth. Of a small request's time
    nearly all is latency; the rest is its share of the link, with as many others as were under way. Each
    figure needs the other, so they are found in turn.
    """

    def __init__(self, preset: CostModel) -> None:
        self._preset = preset
        self._samples: deque[_Sample] = deque(maxlen=_KEPT_SAMPLES)
        self._model = preset
        self._new_count = 0

    def observe(self, byte_count: int, start_s: float, stop_s: float, concurrency: float) -> None:
        """A request for `byte_count` bytes was answered; on average so many were under way meanwhile."""
        if self._preset.adaptive and byte_count > 0 and stop_s > start_s:
            self._samples.append(_Sample(byte_count, start_s, stop_s, max(1.0, concurrency)))
            self._new_count += 1

    def model(self) -> CostModel:
        """The preset, with latency and bandwidth as measured."""
        if len(self._samples) >= LEAST_SAMPLES and self._new_count >= _REFIT_SAMPLES:
            self._new_count = 0
            latency_s, bandwidth = self._fit()
            self._model = replace(
                self._preset,
                latency_s=_bounded(latency_s, self._preset.latency_s),
                bandwidth=_bounded(bandwidth, self._preset.bandwidth),
            )
        return self._model

    def _fit(self) -> tuple[float, float]:
        samples = sorted(self._samples, key=lambda sample: sample.byte_count)
        quarter = len(samples) // 4
        small, large = samples[:quarter], samples[-quarter:]
        if _bytes_of(large) < _SPREAD * _bytes_of(small):
            return self._fit_alike()
        latency_s = min(sample.duration_s for sample in samples)
        bandwidth = self._preset.bandwidth
        for _ in range(_ROUNDS):
            bandwidth = _bandwidth(samples, large, latency_s)
            latency_s = max(0.0, _latency(small, bandwidth))
        return latency_s, bandwidth

    def _fit_alike(self) -> tuple[float, float]:
        """All requests moved about the same, so one figure is the preset's: the one that counts for less."""
        preset = self._preset
        load = median(sample.byte_count * sample.concurrency for sample in self._samples)
        if load / preset.bandwidth < preset.latency_s:
            return _latency(self._samples, preset.bandwidth), preset.bandwidth
        moving_s = median(sample.duration_s for sample in self._samples) - preset.latency_s
        return preset.latency_s, load / moving_s if moving_s > 0 else preset.bandwidth * BOUND


def _bytes_of(samples: Iterable[_Sample]) -> int:
    return sum(sample.byte_count for sample in samples)


def _latency(samples: Iterable[_Sample], bandwidth: float) -> float:
    return median(one.duration_s - one.byte_count * one.concurrency / bandwidth for one in samples)


def _bandwidth(samples: Iterable[_Sample], large: Iterable[_Sample], latency_s: float) -> float:
    """What all `samples` moved while the bytes of one arrived, in the median over the `large` ones."""
    moving = [
        (
            min(one.start_s + latency_s, one.stop_s - _LEAST_MOVING * one.duration_s),
            one.stop_s,
            one.byte_count,
        )
        for one in samples
    ]
    rates = []
    for one in large:
        start_s = min(one.start_s + latency_s, one.stop_s - _LEAST_MOVING * one.duration_s)
        moved = 0.0
        for other_start_s, other_stop_s, byte_count in moving:
            shared_s = min(one.stop_s, other_stop_s) - max(start_s, other_start_s)
            if shared_s > 0:
                moved += byte_count * shared_s / (other_stop_s - other_start_s)
        rates.append(moved / (one.stop_s - start_s))
    return median(rates)


def _bounded(value: float, preset: float) -> float:
    return min(max(value, preset / BOUND), preset * BOUND)


# Requests of a size before one of it can be unusually slow.
_LEAST_ALIKE = 20
_KEPT_ALIKE = 256
# What is sent a second time took at least so many times what half of them take.
_TIMES_MEDIAN = 3.0
_HEDGED_SHARE = 0.01


class SlowRequests:
    """How long requests of about the same size take, and so when to send one a second time.

    Sizes are told apart by powers of four. At most one request in 100 may be hedged, and one at first.
    """

    def __init__(self) -> None:
        self._durations: dict[int, deque[float]] = {}
        self._limits: dict[int, float | None] = {}
        self._request_count = 0
        self.hedge_count = 0

    def observe(self, byte_count: int, duration_s: float) -> None:
        size = _size_class(byte_count)
        self._durations.setdefault(size, deque(maxlen=_KEPT_ALIKE)).append(duration_s)
        self._limits.pop(size, None)
        self._request_count += 1

    def limit_s(self, byte_count: int) -> float | None:
        """After how long a request of this size is slow; None while too little is known."""
        size = _size_class(byte_count)
        if size not in self._limits:
            self._limits[size] = self._limit_s(self._durations.get(size, ()))
        return self._limits[size]

    def may_hedge(self) -> bool:
        """Whether one more second request keeps to the limit; the caller counts it in `hedge_count`."""
        return self.hedge_count <= self._request_count * _HEDGED_SHARE - 1 or self.hedge_count == 0

    @staticmethod
    def _limit_s(durations: deque[float] | tuple[()]) -> float | None:
        if len(durations) < _LEAST_ALIKE:
            return None
        ordered = sorted(durations)
        slowest = ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]
        return max(slowest, _TIMES_MEDIAN * ordered[len(ordered) // 2])


def _size_class(byte_count: int) -> int:
    return byte_count.bit_length() // 2
