"""Spans of a record's way from publish to delivery: the one module that knows OpenTelemetry.

Services make spans if the usual variables (`OTEL_EXPORTER_OTLP_ENDPOINT` and its like) ask for that and the extra
`otel` is installed; a client's publishes have spans if its application has set OpenTelemetry up. Only what carries a
sampled `traceparent` gets a span. Nothing is imported before it is needed.
"""

import logging
import os
import sys
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import structlog

from sowline.protocol.traceparent import TRACEPARENT, is_sampled
from sowline.version import __version__

if TYPE_CHECKING:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider

log = structlog.get_logger()

ASKING: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
"""Of these variables, each that is set asks for traces; so does `OTEL_TRACES_EXPORTER=otlp`."""

Attributes = Mapping[str, str | int]
LogPosition = tuple[int, str]
"""A partition of a topic's log, and a position in it."""

CLOSE_SECONDS_MAX: Final = 2.0
"""Seconds that a stopping service waits for its last spans to be sent."""

_tracer: "trace.Tracer | None" = None
_provider: "TracerProvider | None" = None


class TraceSpan:
    """A step of a record's way, which has begun; `traceparent` is what the next one is a child of."""

    def __init__(self, span: "trace.Span", traceparent: str) -> None:
        self._span = span
        self.traceparent = traceparent

    def end(self, about: Attributes | None = None, error: str | None = None) -> None:
        """Say that it is done, what there is to say of it, and what it failed with."""
        for name, value in (about or {}).items():
            self._span.set_attribute(f"sowline.{name}", value)
        if error is not None:
            from opentelemetry.trace import Status, StatusCode

            self._span.set_status(Status(StatusCode.ERROR, error))
        self._span.end()


def is_wanted(environment: Mapping[str, str]) -> bool:
    """Tell whether the variables ask for traces."""
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    exporter = environment.get("OTEL_TRACES_EXPORTER", "")
    return exporter == "otlp" or (not exporter and any(environment.get(name) for name in ASKING))


def set_up(service: str) -> None:
    """Make spans in this process and send them away, if the environment asks for that.

    `service` is its name where that gives none.
    """
    if not is_wanted(os.environ):
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        log.warning("tracing not installed", why=f"OTEL_… requests traces; install sowline[otel]: {error}")
        return
    _log_complaints()
    named = {"service.version": __version__}
    if "OTEL_SERVICE_NAME" not in os.environ:
        named["service.name"] = service
    provider = TracerProvider(resource=Resource.create(named), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    use(provider)


def use(provider: "TracerProvider | None") -> None:
    """Make spans of this provider from now on; none of None."""
    global _tracer, _provider
    _provider = provider
    _tracer = None if provider is None else provider.get_tracer("sowline", __version__)


def close() -> None:
    """Send the pending spans; a collector that does not answer delays this only briefly."""
    if _provider is None:
        return
    sending = threading.Thread(target=_provider.shutdown, name="last-spans", daemon=True)
    sending.start()
    sending.join(CLOSE_SECONDS_MAX)
    use(None)


def is_on() -> bool:
    """Tell whether this process makes spans."""
    return _tracer is not None


def begin(
    step: str, topic: str, parent: str, at: LogPosition | None = None, began_ns: int | None = None
) -> TraceSpan | None:
    """Begin a step below `parent`; None where that is not recorded. `began_ns` is when, if not now, since 1970.

    A step that has no place on a log yet is one that writes.
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
    """Begin a publish below whatever the application is doing; None where it records nothing."""
    if "opentelemetry.trace" not in sys.modules:
        return None
    from opentelemetry import trace

    tracer = _tracer or trace.get_tracer("sowline", __version__)
    attributes = {"sowline.topic": topic}
    return _recorded(tracer.start_span(f"publish {topic}", None, trace.SpanKind.PRODUCER, attributes))


def _recorded(span: "trace.Span") -> TraceSpan | None:
    """Return a span as others may use it; None where it is not recorded."""
    if not span.is_recording():
        return None
    span_context = span.get_span_context()
    return TraceSpan(
        span, f"00-{span_context.trace_id:032x}-{span_context.span_id:016x}-{span_context.trace_flags:02x}"
    )


class _Complaints(logging.Handler):
    """OpenTelemetry's own reports, as lines of our log."""

    def emit(self, record: logging.LogRecord) -> None:
        log.warning("traces are not sent", why=record.getMessage())


def _log_complaints() -> None:
    theirs = logging.getLogger("opentelemetry")
    theirs.propagate = False
    theirs.handlers = [_Complaints(logging.WARNING)]
