"""What the requests so far say of a store: its latency, its bandwidth, and how slow is unusually slow.

Knows sizes and durations, and no clock: times come in as numbers. Must not know who asks. The figures are
robust: medians, so that a few slow answers change nothing; bounded, so that no measurement, however wrong,
leads to a plan that is far from the preset's; and there are none before some requests have answered.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from statistics import median

from orcstream.byterange import CostModel

__all__ = ["BOUND", "LEAST_SAMPLES", "CostEstimate", "SlowRequests"]

# Requests before anything is said, and how many of the last ones are looked at.
LEAST_SAMPLES = 8
_KEPT_SAMPLES = 48
# An estimate is at most this many times the preset, and at least this part of it.
BOUND = 8.0
# Two requests tell something of the bandwidth only if one moved this many times the bytes of the other.
_SPREAD = 1.5
# Pairs of such requests before their slope is believed.
_LEAST_PAIRS = 8


@dataclass(frozen=True, slots=True)
class _Sample:
    """`load` is what the link moved meanwhile: the request's bytes, times the requests that shared it."""

    load: float
    duration_s: float


class CostEstimate:
    """Latency and bandwidth of one store, from its finished requests.

    A request among `concurrency` others takes ``latency + load / bandwidth``: the line through the samples
    is the median of the slopes between them (after Theil and Sen), the latency the median of what is left.
    """

    def __init__(self, preset: CostModel) -> None:
        self._preset = preset
        self._samples: deque[_Sample] = deque(maxlen=_KEPT_SAMPLES)
        self._model: CostModel | None = preset

    def observe(self, byte_count: int, start_s: float, stop_s: float, concurrency: float) -> None:
        """A request for `byte_count` bytes was answered; on average so many were under way meanwhile."""
        duration_s = stop_s - start_s
        if self._preset.adaptive and byte_count > 0 and duration_s > 0:
            self._samples.append(_Sample(byte_count * max(1.0, concurrency), duration_s))
            if len(self._samples) >= LEAST_SAMPLES:
                self._model = None

    def model(self) -> CostModel:
        """The preset, with latency and bandwidth as measured."""
        if self._model is None:
            latency_s, bandwidth = self._fit()
            self._model = replace(
                self._preset,
                latency_s=_bounded(latency_s, self._preset.latency_s),
                bandwidth=_bounded(bandwidth, self._preset.bandwidth),
            )
        return self._model

    def _fit(self) -> tuple[float, float]:
        samples = sorted(self._samples, key=lambda sample: sample.load)
        slopes = [
            (large.duration_s - small.duration_s) / (large.load - small.load)
            for number, small in enumerate(samples)
            for large in samples[number + 1 :]
            if large.load >= small.load * _SPREAD
        ]
        if len(slopes) < _LEAST_PAIRS:
            return self._fit_alike()
        slope = median(slopes)
        # No larger answer took longer: the link moves more than was ever asked of it.
        bandwidth = 1 / slope if slope > 0 else self._preset.bandwidth * BOUND
        return self._latency(bandwidth), bandwidth

    def _fit_alike(self) -> tuple[float, float]:
        """All requests moved about the same, so one figure is the preset's: the one that counts for less."""
        preset = self._preset
        load = median(sample.load for sample in self._samples)
        if load / preset.bandwidth < preset.latency_s:
            return self._latency(preset.bandwidth), preset.bandwidth
        moved_s = median(sample.duration_s for sample in self._samples) - preset.latency_s
        return preset.latency_s, load / moved_s if moved_s > 0 else preset.bandwidth * BOUND

    def _latency(self, bandwidth: float) -> float:
        # A negative rest is bounded by the caller.
        return median(sample.duration_s - sample.load / bandwidth for sample in self._samples)


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
