"""Reads as OpenTelemetry's own SDK has them: which spans there are, under which, and what they say."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode, Tracer
from pyarrow import orc

import orcstream
from orcstream import acid, blocking, col
from orcstream.byterange import ByteRange, BytesLike
from orcstream.integrations.opentelemetry import tracing
from orcstream.io.contract.byte_source import OnBytes, Transient
from orcstream.io.stores.memory.source import BytesSource
from tests.generators.trips import trips
from tests.support.read_sources import NEAR, opened
from tests.support.recording import WrappedSource


class Traces:
    """A program's set-up, with what it exports in memory."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self._provider = TracerProvider()
        self._provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer: Tracer = self._provider.get_tracer("program")

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        return self._exporter.get_finished_spans()

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]

    def parent_of(self, span: ReadableSpan) -> str | None:
        if span.parent is None:
            return None
        (parent,) = [one for one in self.spans if one.context.span_id == span.parent.span_id]
        return parent.name

    def stop(self) -> None:
        self._provider.shutdown()


@pytest.fixture
def traces() -> Iterator[Traces]:
    made = Traces()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("traces") / "trips.orc"
    orc.write_table(trips(), str(path))
    return str(path)


def attributes_of(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


async def test_an_open_and_a_read_are_spans_of_the_program(traces: Traces, url: str) -> None:
    with traces.tracer.start_as_current_span("job"):
        async with orcstream.open(url, observer=tracing(traces.tracer)) as file:
            rows = await file.read(columns=["id"], where=col("id") < 100)
    (opening,), (read,) = traces.named("orcstream.open"), traces.named("orcstream.read")
    assert traces.parent_of(opening) == traces.parent_of(read) == "job"
    assert attributes_of(opening) == {"file.path": url}
    said = attributes_of(read)
    assert said["orcstream.row_count"] == rows.num_rows == 100
    assert said["orcstream.rows_pruned_by_row_group"] > 0
    assert said["orcstream.request_count"] == sum(
        traces.parent_of(span) != "orcstream.wave tail" for span in traces.named("orcstream.request")
    )
    assert read.status.status_code is StatusCode.UNSET
    for request in traces.named("orcstream.request"):
        assert (traces.parent_of(request) or "").startswith("orcstream.wave ")
        assert request.kind is SpanKind.CLIENT
        said = attributes_of(request)
        assert said["orcstream.range.stop"] - said["orcstream.range.start"] == said["orcstream.request.bytes"]
        assert said["orcstream.request.attempts"] == 1
    decodes = traces.named("orcstream.decode")
    assert sum(attributes_of(span)["orcstream.row_count"] for span in decodes) >= 100
    assert {traces.parent_of(span) for span in decodes} == {"orcstream.read"}
    assert all(attributes_of(span)["thread.name"] for span in decodes)
    assert len({span.context.trace_id for span in traces.spans}) == 1


async def test_spans_lie_within_their_parents(traces: Traces, url: str) -> None:
    async with orcstream.open(url, observer=tracing(traces.tracer)) as file:
        await file.read()
    by_id = {span.context.span_id: span for span in traces.spans}
    inner = [span for span in traces.spans if span.parent is not None]
    assert inner
    for span in inner:
        assert span.parent is not None
        around = by_id[span.parent.span_id]
        assert around.start_time is not None
        assert around.end_time is not None
        assert span.start_time is not None
        assert span.end_time is not None
        # Two clocks are held against each other at the beginning.
        assert around.start_time - 1_000_000 <= span.start_time
        assert span.start_time <= span.end_time <= around.end_time + 1_000_000


async def test_each_stream_and_each_seek_has_a_span(traces: Traces, url: str) -> None:
    async with orcstream.open(url, observer=tracing(traces.tracer, decoding=False)) as file:
        await file.row_index(0)
        async with file.batches(columns=["id"]) as unread:
            assert unread.stats.row_count == 0
        async with file.batches(columns=["id"]) as stream:
            await anext(stream)
            await stream.seek(11_000)
            await anext(stream)
        await file.explain(columns=["id"])
    assert len(traces.named("orcstream.read")) == 2
    assert len(traces.named("orcstream.metadata")) >= 1
    assert traces.named("orcstream.decode") == []


async def test_streams_side_by_side_have_the_spans_of_their_tasks(traces: Traces, url: str) -> None:
    observer = tracing(traces.tracer, decoding=False)

    async def work(name: str) -> None:
        with traces.tracer.start_as_current_span(name):
            await file.read(columns=["id"], rows=range(10))

    async with orcstream.open(url, observer=observer) as file:
        await asyncio.gather(work("one"), work("two"))
    assert {traces.parent_of(span) for span in traces.named("orcstream.read")} == {"one", "two"}


def test_calls_without_await_have_the_span_of_their_thread(traces: Traces, url: str) -> None:
    with traces.tracer.start_as_current_span("script"):
        blocking.read(url, columns=["id"], observer=tracing(traces.tracer))
    assert traces.parent_of(traces.named("orcstream.read")[0]) == "script"


async def test_many_files_and_tables(traces: Traces, url: str, tmp_path: Path) -> None:
    observer = tracing(traces.tracer, decoding=False)
    with traces.tracer.start_as_current_span("many"):
        async with orcstream.open_many([url] * 3, observer=observer) as files:
            async for file in files:
                await file.aclose()
    assert [traces.parent_of(span) for span in traces.named("orcstream.open")] == ["many"] * 3
    table = str(tmp_path / "table")
    await acid.create_table(table, "struct<id:bigint>")
    async with acid.open_table(table) as writing, await writing.transaction() as change:
        await change.insert([(1,), (2,)])
    async with acid.open_table(table, observer=observer) as reading:
        assert sum([batch.num_rows async for batch in reading.batches()]) == 2
    read = traces.named("orcstream.read")
    assert [attributes_of(span)["orcstream.row_count"] for span in read] == [2]
    assert Path(attributes_of(read[0])["file.path"]).is_relative_to(table)


# --- what goes wrong ---------------------------------------------------------------------------------------


class Failing(WrappedSource):
    """Fails the first requests for data, `count` of them."""

    count = 0
    error: Exception = Transient("busy")

    async def fetch(self, range: ByteRange, on_bytes: OnBytes | None = None) -> BytesLike:
        if self.count:
            self.count -= 1
            raise self.error
        return await super().fetch(range, on_bytes)


async def test_a_file_that_is_missing(traces: Traces, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await orcstream.open(tmp_path / "none.orc", observer=tracing(traces.tracer))
    (span,) = traces.named("orcstream.open")
    assert span.status.status_code is StatusCode.ERROR
    assert attributes_of(span)["error.type"] == "builtins.FileNotFoundError"


async def test_what_keeps_failing_is_in_the_request_and_the_read(traces: Traces, url: str) -> None:
    source = Failing(BytesSource(Path(url).read_bytes(), NEAR))
    async with opened(source, observer=tracing(traces.tracer), retries=1) as file:
        source.count = 1 << 30
        with pytest.raises(orcstream.RetriesExhausted):
            await file.read(rows=range(10))
        source.count = 1
        assert (await file.read(rows=range(10), columns=["id"])).num_rows == 10
    first, second = traces.named("orcstream.read")
    assert first.status.status_code is StatusCode.ERROR
    assert attributes_of(first)["error.type"] == "orcstream.errors.RetriesExhausted"
    assert [event.name for event in first.events] == ["exception"]
    assert second.status.status_code is StatusCode.UNSET
    failed = [one for one in traces.named("orcstream.request") if one.status.status_code is StatusCode.ERROR]
    assert failed
    assert all(attributes_of(one)["orcstream.request.attempts"] == 2 for one in failed)
    tries = [attributes_of(one)["orcstream.request.attempts"] for one in traces.named("orcstream.request")]
    assert max(tries) == 2


async def test_what_is_not_sampled_costs_no_spans(url: str) -> None:
    provider = TracerProvider(sampler=ALWAYS_OFF)
    exporter = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    async with orcstream.open(url, observer=tracing(provider.get_tracer("program"))) as file:
        assert (await file.read(columns=["id"])).num_rows == 12_000
    assert exporter.get_finished_spans() == ()
    provider.shutdown()


async def test_credentials_are_not_in_spans(traces: Traces) -> None:
    with pytest.raises(OSError, match="none"):
        await orcstream.open("memory://me:hunter2@there/none.orc", observer=tracing(traces.tracer))
    (span,) = traces.spans
    assert "hunter2" not in span.to_json()
    assert attributes_of(span)["url.full"] == "memory://there/none.orc"


@pytest.mark.parametrize("observer", [object(), 5, Tracer])
def test_what_cannot_observe(observer: Any, url: str) -> None:
    with pytest.raises(orcstream.UsageError, match=r"\bobserver="):
        orcstream.open(url, observer=observer)


async def test_a_tracer_that_fails_at_the_end_harms_no_read(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Ends:
        def begin(self, *_: str) -> Ends:
            return self

        def on_request(self, span: orcstream.RequestSpan) -> None: ...

        def on_decode(self, span: orcstream.DecodeSpan) -> None: ...

        def end(self, *_: object) -> None:
            raise ArithmeticError

    async with orcstream.open(url, observer=Ends()) as file:
        assert (await file.read(columns=["id"])).num_rows == 12_000
    assert "an observer of" in caplog.text
