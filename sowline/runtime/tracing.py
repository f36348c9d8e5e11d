"""Traces records from publish to delivery. This is the only module that uses OpenTelemetry.

Services make spans if the standard variables (such as `OTEL_EXPORTER_OTLP_ENDPOINT`) request it and the extra `otel`
is installed. A client's publishes have spans if the application has set up OpenTelemetry. Only records with a sampled
`traceparent` get spans. OpenTelemetry is imported only when it is needed.
"""

import logging
import os
import sys
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from sowline.commands.traceparent import TRACEPARENT, is_sampled
from sowline.lazy_log import log
from sowline.version import __version__, installing

if TYPE_CHECKING:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider

ASKING: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
"""Each of these variables requests traces if it is set, and so does `OTEL_TRACES_EXPORTER=otlp`."""

Attributes = Mapping[str, str | int]
LogPosition = tuple[int, str]
"""A partition of a topic's log, and a position in the partition."""

CLOSE_SECONDS_MAX: Final = 2.0
"""Seconds that a stopping service waits for its last spans to be sent."""

_tracer: "trace.Tracer | None" = None
_provider: "TracerProvider | None" = None


class TraceSpan:
    """A span for one step of a record, started. The spans of later steps are children of its `traceparent`."""

    def __init__(self, span: "trace.Span", traceparent: str) -> None:
        self._span = span
        self.traceparent = traceparent

    def end(self, about: Attributes | None = None, error: str | None = None) -> None:
        """End the span, with attributes, and with the error if the step failed."""
        for name, value in (about or {}).items():
            self._span.set_attribute(f"sowline.{name}", value)
        if error is not None:
            from opentelemetry.trace import Status, StatusCode

            self._span.set_status(Status(StatusCode.ERROR, error))
        self._span.end()


def is_wanted(environment: Mapping[str, str]) -> bool:
    """Return whether the environment variables request traces."""
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    exporter = environment.get("OTEL_TRACES_EXPORTER", "")
    return exporter == "otlp" or (not exporter and any(environment.get(name) for name in ASKING))


def set_up(service: str) -> None:
    """Make and export spans in this process, if the environment requests it.

    `service` is the service's name if the environment has none.
    """
    if not is_wanted(os.environ):
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        log.warning("tracing not installed", why=f"OTEL_… requests traces: {installing('otel')}: {error}")
        return
    _log_complaints()
    named = {"service.version": __version__}
    if "OTEL_SERVICE_NAME" not in os.environ:
        named["service.name"] = service
    # At exit, OpenTelemetry would wait for a collector that does not answer; `close` waits for a limited time.
    provider = TracerProvider(resource=Resource.create(named), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    use(provider)


def use(provider: "TracerProvider | None") -> None:
    """Make spans with this provider from now on; None stops making spans."""
    global _tracer, _provider  # noqa: PLW0603 - one provider for the process
    _provider = provider
    _tracer = None if provider is None else provider.get_tracer("sowline", __version__)


def close() -> None:
    """Send the pending spans; a collector that does not answer delays this only briefly."""
    if _provider is None:
        return
    # A collector that does not answer must not delay the end of the service for long
    # (test_a_collector_that_does_not_answer_holds_no_end_up).
    sending = threading.Thread(target=_provider.shutdown, name="last-spans", daemon=True)
    sending.start()
    sending.join(CLOSE_SECONDS_MAX)
    use(None)


def is_on() -> bool:
    """Return whether this process makes spans."""
    return _tracer is not None


def begin(
    step: str, topic: str, parent: str, at: LogPosition | None = None, began_ns: int | None = None
) -> TraceSpan | None:
    """Start a span for a step, as a child of `parent`; return None if `parent` is not recorded.

    `at` is the record's position; None makes the span of a producer. `began_ns` is the start time in ns since 1970,
    by default now.
    """
    if _tracer is None or not is_sampled(parent):
        return None
    from opentelemetry.trace import SpanKind
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    context = TraceContextTextMapPropagator().extract({TRACEPARENT: parent})
    attributes: dict[str, str | int] = {"sowline.topic": topic}
    if at is not None:
        attributes |= {"sowline.partition": at[0], "sowline.position": at[1]}
    kind = SpanKind.PRODUCER if at is None else SpanKind.CONSUMER
    return _recorded(_tracer.start_span(f"{step} {topic}", context, kind, attributes, start_time=began_ns))


def begin_publish(topic: str) -> TraceSpan | None:
    """Start a span for a publish, as a child of the application's current span; None if it is not recorded."""
    # An application that has set up OpenTelemetry has imported it. Others need neither the package nor the time.
    if "opentelemetry.trace" not in sys.modules:
        return None
    from opentelemetry import trace

    tracer = _tracer or trace.get_tracer("sowline", __version__)
    attributes = {"sowline.topic": topic}
    return _recorded(tracer.start_span(f"publish {topic}", None, trace.SpanKind.PRODUCER, attributes))


def _recorded(span: "trace.Span") -> TraceSpan | None:
    """Return the span with its traceparent; None if it is not recorded."""
    if not span.is_recording():
        return None
    span_context = span.get_span_context()
    return TraceSpan(
        span, f"00-{span_context.trace_id:032x}-{span_context.span_id:016x}-{span_context.trace_flags:02x}"
    )


class _Complaints(logging.Handler):
    """Writes OpenTelemetry's log messages to the service's log."""

    def emit(self, record: logging.LogRecord) -> None:
        log.warning("traces are not sent", why=record.getMessage())


def _log_complaints() -> None:
    theirs = logging.getLogger("opentelemetry")
    theirs.propagate = False
    theirs.handlers = [_Complaints(logging.WARNING)]
