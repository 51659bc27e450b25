"""Reads as spans of OpenTelemetry: what `open(observer=)` is told, as traces have it.

Knows OpenTelemetry's interface and what the package says of reads in public. Must not know how traces are
exported: that is the program's to set up. Needs ``orcstream[otel]``.
"""

from __future__ import annotations

import threading
import time
from dataclasses import asdict
from typing import TYPE_CHECKING

import orcstream

try:
    from opentelemetry import trace
except ImportError as error:
    raise ImportError(
        "tracing needs OpenTelemetry's interface, which is not there: pip install 'orcstream[otel]'"
    ) from error

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.util.types import AttributeValue

__all__ = ["tracing"]

_NANOSECONDS = 1_000_000_000


def tracing(tracer: trace.Tracer | None = None, *, decoding: bool = True) -> orcstream.ReadTracer:
    """What `orcstream.open(observer=)` takes, to have each open and read as a span.

    Its parent is the span that is current where the program opens or reads; below it there is a span for each
    wave, with one for each request, and one for each step of the decoders: without `decoding`, none of these,
    of which a long read has many. `tracer` is the program's, or that of the library's own name.
    """
    return _Tracing(tracer or trace.get_tracer("orcstream", orcstream.__version__), decoding)


class _Tracing:
    """One for any number of files."""

    def __init__(self, tracer: trace.Tracer, decoding: bool) -> None:
        self._tracer = tracer
        self._decoding = decoding

    def begin(self, operation: str, url: str) -> orcstream.TracedRead:
        return _Operation(self._tracer, operation, url, decoding=self._decoding)


class _Operation:
    """One open, read or look; its requests and decoders may be told of until `end`."""

    def __init__(self, tracer: trace.Tracer, operation: str, url: str, *, decoding: bool) -> None:
        self._tracer = tracer
        self._begin_ns = time.time_ns() - int(time.perf_counter() * _NANOSECONDS)
        # The conventions have one name for URLs and another for paths.
        name = "url.full" if "://" in url else "file.path"
        self._span = tracer.start_span(f"orcstream.{operation}", attributes={name: url})
        self._is_wanted = self._span.is_recording()
        self._has_decoding = decoding and self._is_wanted
        self._context = trace.set_span_in_context(self._span)
        self._waves: dict[str, _Wave] = {}

    def on_request(self, span: orcstream.RequestSpan) -> None:
        if not self._is_wanted:
            return
        start_ns, stop_ns = self._ns(span.start_s), self._ns(span.stop_s)
        wave = self._waves.get(span.wave)
        if wave is None:
            # Requests are told of when they are over; the first of them is as good as the wave's beginning.
            wave = self._waves[span.wave] = _Wave(self._tracer, span.wave, self._context, start_ns)
        wave.stop_ns = max(wave.stop_ns, stop_ns)
        request = self._tracer.start_span(
            "orcstream.request",
            context=wave.context,
            kind=trace.SpanKind.CLIENT,
            start_time=start_ns,
            attributes={
                "orcstream.range.start": span.range.start,
                "orcstream.range.stop": span.range.stop,
                "orcstream.request.bytes": span.range.length,
                "orcstream.request.attempts": span.attempt_count,
            },
        )
        if span.error is not None:
            _fail(request, span.error, stop_ns)
        request.end(stop_ns)

    def on_decode(self, span: orcstream.DecodeSpan) -> None:
        if not self._has_decoding:
            return
        thread = threading.current_thread()
        attributes: dict[str, AttributeValue] = {
            "orcstream.stripe": span.stripe,
            "orcstream.column_id": span.column_id,
            "orcstream.row_count": span.row_count,
            "thread.id": thread.ident or 0,
            "thread.name": thread.name,
        }
        start_ns, stop_ns = self._ns(span.start_s), self._ns(span.stop_s)
        decode = self._tracer.start_span(
            "orcstream.decode", context=self._context, start_time=start_ns, attributes=attributes
        )
        decode.end(stop_ns)

    def end(self, statistics: orcstream.ReadStatistics | None, error: BaseException | None) -> None:
        for wave in self._waves.values():
            wave.span.end(wave.stop_ns)
        if statistics is not None:
            self._span.set_attributes({f"orcstream.{key}": one for key, one in asdict(statistics).items()})
        if error is not None:
            _fail(self._span, error)
        self._span.end()

    def _ns(self, time_s: float) -> int:
        return self._begin_ns + int(time_s * _NANOSECONDS)


class _Wave:
    """Requests that were sent for one reason. It ends with the last of them, which only the end knows."""

    def __init__(self, tracer: trace.Tracer, name: str, context: Context, start_ns: int) -> None:
        self.span = tracer.start_span(
            f"orcstream.wave {name}",
            context=context,
            start_time=start_ns,
            attributes={"orcstream.wave": name},
        )
        self.context = trace.set_span_in_context(self.span)
        self.stop_ns = start_ns


def _fail(span: trace.Span, error: BaseException, stop_ns: int | None = None) -> None:
    kind = type(error)
    span.set_attribute("error.type", f"{kind.__module__}.{kind.__qualname__}")
    span.record_exception(error, timestamp=stop_ns)
    span.set_status(trace.Status(trace.StatusCode.ERROR, str(error)))
