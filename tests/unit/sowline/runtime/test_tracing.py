"""Spans of a record's way: what makes one, what it says, and what makes none."""

import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    SimpleSpanProcessor,
    SpanExporter,
    SpanExportResult,
)
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from structlog.testing import capture_logs

from sowline.changes.change import Change
from sowline.commands.command import LogRecord, command_headers
from sowline.commands.traceparent import TRACEPARENT
from sowline.language.filter import compile_filter
from sowline.model.position import Position
from sowline.runtime import tracing
from sowline.serving.outbox.outbox import Outbox
from sowline.serving.writes.requests import fields_of
from sowline.subscriptions.engine.subscription import Subscription
from sowline.wire.options import Options
from sowline.wire.request import Publish
from sowline_materializer.batch_trace import BatchTrace
from sowline_materializer.partition.partition import Partition
from sowline_query_service.live.subscription import LiveSubscription
from sowline_query_service.query.selection import Selection
from tests.memory_store import MemoryStore
from tests.unit.materializer.partition.batches import DEFINITION, opened, record
from tests.unit.query_service.sessions import Server

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"
UNSAMPLED = PARENT[:-1] + "0"


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    """What is exported while spans are made."""
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing.use(provider)
    yield exporter
    tracing.use(None)


def traced(offset: int, value: bytes, parent: str = PARENT) -> LogRecord:
    """Return a log record that carries a place."""
    return LogRecord(offset, 0, None, value, [(TRACEPARENT, parent.encode())])


def attributes_of(span: ReadableSpan) -> dict[str, Any]:
    """Return a span's attributes without their prefix."""
    return {name.removeprefix("sowline."): value for name, value in (span.attributes or {}).items()}


def traceparent_of(span: ReadableSpan) -> str:
    """Return what a child of the span would carry."""
    at = span.get_span_context()
    assert at is not None
    return f"00-{at.trace_id:032x}-{at.span_id:016x}-{at.trace_flags:02x}"


def apply(records: list[LogRecord], emitted_to: Position | None = None) -> list[Change]:
    """Apply a batch as a worker does, and return its changes."""
    more = {} if emitted_to is None else {"emitted_to": emitted_to}
    partition, applying = Partition(DEFINITION, 0, opened(MemoryStore(), **more)), BatchTrace()
    prepared = partition.prepare(records, 100)
    handed_on = applying.traced(partition, prepared, 1_000_000_000)
    applying.end()
    return [event for event in handed_on.events if isinstance(event, Change)]


def test_a_record_is_applied_in_a_span(spans: InMemorySpanExporter) -> None:
    """Of one that carries a place: below that place, with what became of it, from when its batch began."""
    changes = apply([record(0, b'{"id":1}'), traced(1, b'{"id":2}'), traced(2, b"{")])
    applied, refused = spans.get_finished_spans()
    assert [change.traceparent for change in changes] == [None, traceparent_of(applied)]
    assert (applied.name, applied.start_time) == ("apply orders", 1_000_000_000)
    assert applied.parent is not None
    assert (f"{applied.parent.trace_id:032x}", f"{applied.parent.span_id:016x}") == (TRACE, PARENT[36:52])
    about = {"topic": "orders", "partition": 0}
    assert attributes_of(applied) == {**about, "position": "1", "outcome": "applied", "changes": 1}
    assert attributes_of(refused) == {**about, "position": "2", "outcome": "dead:not json"}
    assert (applied.status.is_ok, refused.status.is_ok) == (True, False)


def test_all_changes_of_a_record_get_its_traceparent(spans: InMemorySpanExporter) -> None:
    """A delete by filter makes many; it has one span."""
    headers = command_headers("sow_delete", filter="1=1", traceparent=PARENT)
    delete = LogRecord(2, 0, None, None, headers)
    changes = apply([record(0, b'{"id":1}'), record(1, b'{"id":2}'), delete])
    (span,) = spans.get_finished_spans()
    assert [change.traceparent for change in changes] == [
        None,
        None,
        traceparent_of(span),
        traceparent_of(span),
    ]
    assert attributes_of(span)["changes"] == 2


def test_what_was_emitted_before_has_had_its_span(spans: InMemorySpanExporter) -> None:
    """A new owner applies again what the one before did not commit, and makes no span of that."""
    changes = apply([traced(0, b'{"id":1}'), traced(1, b'{"id":2}')], emitted_to=Position(0, 0))
    (span,) = spans.get_finished_spans()
    assert attributes_of(span)["position"] == "1"
    assert [(change.position.offset, change.traceparent) for change in changes] == [(1, traceparent_of(span))]


def test_where_no_spans_are_made_the_traceparent_goes_along() -> None:
    """So that those who make some are below the publisher's."""
    assert [change.traceparent for change in apply([traced(0, b'{"id":1}')])] == [PARENT]


def test_a_trace_that_is_not_recorded_makes_no_span(spans: InMemorySpanExporter) -> None:
    """Its place goes along as it is."""
    assert [change.traceparent for change in apply([traced(0, b'{"id":1}', UNSAMPLED)])] == [UNSAMPLED]
    assert spans.get_finished_spans() == ()


async def test_a_delivery_is_a_span(spans: InMemorySpanExporter) -> None:
    """It says where the change stands, and how many subscriptions it went to; other changes have none."""
    server = Server().loaded()
    for name, text in (("a", ""), ("b", "/id = 7"), ("c", "/id = 8")):
        engine = Subscription(compile_filter(text), oof=True)
        selection = Selection(options=Options(oof=True))
        server.dispatcher.add(LiveSubscription(Outbox(1000), name, server.topic, engine, selection))
    server.put({"id": 1})
    assert spans.get_finished_spans() == ()
    before, at = Position(0, 0), Position(0, 1)
    server.take(Change(b"7", b'{"id":7}', None, at, before, "publish", 0, traceparent=PARENT))
    (span,) = spans.get_finished_spans()
    assert (span.name, attributes_of(span)["subscriptions"], attributes_of(span)["position"]) == (
        "deliver orders",
        2,
        "1",
    )


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318", "OTEL_TRACES_EXPORTER": "none"}, False),
        ({"OTEL_TRACES_EXPORTER": "otlp", "OTEL_SDK_DISABLED": "true"}, False),
    ],
)
def test_the_usual_variables_decide(environment: dict[str, str], wanted: bool) -> None:
    """Spans are made where something is said of whereto; `none` and the switch count more."""
    assert tracing.is_wanted(environment) == wanted


def test_without_the_extra_a_service_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says what to install."""
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with capture_logs() as logs:
        tracing.set_up("sowline-materializer")
    assert [line["event"] for line in logs] == ["tracing not installed"]
    assert not tracing.is_on()


class Deaf(SpanExporter):
    """A collector that takes nothing and does not say so."""

    def __init__(self) -> None:
        self.asked, self.let_go = threading.Event(), threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Wait until somebody lets go."""
        self.asked.set()
        self.let_go.wait()
        return SpanExportResult.FAILURE


def test_a_collector_that_does_not_answer_holds_no_end_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end waits for a short while, and goes on with spans that nobody took."""
    monkeypatch.setattr(tracing, "CLOSE_SECONDS_MAX", 0.01)
    collector, provider = Deaf(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(collector))
    tracing.use(provider)
    begun = tracing.begin("apply", "orders", PARENT)
    assert begun is not None
    begun.end()
    try:
        tracing.close()
        assert collector.asked.wait(60)
        assert not tracing.is_on()
    finally:
        collector.let_go.set()


@pytest.mark.parametrize(("given", "carried"), [(PARENT, PARENT), ("none", None), ("", None)])
def test_a_command_of_a_websocket_may_have_a_traceparent(given: str, carried: str | None) -> None:
    """It goes to the log with the command, if it is one."""
    assert fields_of(Publish(traceparent=given))[TRACEPARENT] == carried
