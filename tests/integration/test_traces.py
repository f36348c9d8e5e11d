"""Traces over real services: a publish, by each kind of client, and its delivery are spans of one trace."""

import asyncio
import json
import threading
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from sowline import AsyncClient
from sowline.runtime import tracing
from tests.integration.services import Service, System, headers_of, system
from tests.waiting import wait_for

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
SERVICES = ("materializer", "query_service", "fanout")
SENDERS = {"sowline-materializer", "sowline-query-service", "sowline-fanout"}


class Span(NamedTuple):
    """A span that a service has sent."""

    service: str
    name: str
    trace: str
    id: str
    parent: str
    about: dict[str, str | int]


class Collector:
    """Takes what services send to an OpenTelemetry collector."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        spans = self.spans

        class Taking(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                spans.extend(read(body))
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *given: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Taking)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    @contextmanager
    def taking(self) -> Iterator[None]:
        """Take what is sent."""
        thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        thread.start()
        yield
        self._server.shutdown()
        thread.join()
        self._server.server_close()

    def of(self, trace: str) -> list[Span]:
        """Return what there is of a trace so far."""
        return [span for span in self.spans if span.trace == trace]


def read(body: bytes) -> Iterator[Span]:
    """Yield the spans of a request."""
    for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
        named = {one.key: one.value.string_value for one in resource.resource.attributes}
        for scope in resource.scope_spans:
            for span in scope.spans:
                about = {
                    one.key.removeprefix("sowline."): getattr(one.value, one.value.WhichOneof("value") or "")
                    for one in span.attributes
                }
                ids = (span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex())
                yield Span(named["service.name"], span.name, *ids, about)


class Traced(NamedTuple):
    """Services that send what they trace."""

    system: System
    topic: str
    query: Service
    fanout: Service
    collector: Collector

    def spans(self, trace: str, count: int) -> dict[str, Span]:
        """Wait until so many spans of a trace were sent; return them by the step that each is."""
        wait_for(lambda: len(self.collector.of(trace)) >= count, f"{count} spans")
        found = {span.name.removesuffix(f" {self.topic}"): span for span in self.collector.of(trace)}
        assert len(found) == len(self.collector.of(trace)) == count, self.collector.of(trace)
        return found


@pytest.fixture(scope="module")
def traced(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traced]:
    """All services, over a topic with a fanout."""
    name = f"t{uuid.uuid4().hex[:12]}"
    topics = [{"name": name, "key": "/id", "partitions": 1}]
    directory: Path = tmp_path_factory.mktemp("traces")
    collector = Collector()
    with pytest.MonkeyPatch.context() as patch, collector.taking():
        patch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        patch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        with system(kafka, directory, topics, [{"name": name, "topic": name}]) as made:
            services = [made.service(module).start() for module in SERVICES]
            for service in services:
                service.wait_ready()
            yield Traced(made, name, services[1], services[2], collector)


def post(traced: Traced, body: dict[str, Any], traceparent: str) -> None:
    """Publish a record over HTTP."""
    url = f"{traced.query.url}/v1/topics/{traced.topic}/publish"
    asked = urllib.request.Request(url, json.dumps(body).encode(), {"traceparent": traceparent})
    with urllib.request.urlopen(asked, timeout=30) as answer:
        assert answer.status == 200


def wait_until_live(traced: Traced) -> None:
    """Wait until the subscription and the fanout are told of each change as it comes."""
    wait_for(lambda: traced.query.metric("sowline_subscriptions_live") == 1, "the subscription to be live")
    wait_for(lambda: traced.fanout.metric("sowline_fanout_messages_total") == 1, "the fanout to have begun")


@pytest.fixture
def mine() -> Iterator[TracerProvider]:
    """What an application has set up that traces what it does."""
    provider = TracerProvider(shutdown_on_exit=False)
    tracing.use(provider)
    yield provider
    tracing.use(None)


async def test_a_publish_and_its_delivery_are_one_trace(traced: Traced, mine: TracerProvider) -> None:
    """Of the Python client below what the application does, over HTTP below what the request says."""
    ended = InMemorySpanExporter()
    async with (
        AsyncClient(traced.query.url, kafka=traced.system.kafka) as client,
        aclosing(client.subscribe(traced.topic, bookmark="epoch")) as messages,  # type: ignore[type-var]
    ):
        await client.publish(traced.topic, {"id": 0})
        await client.flush()
        await anext(messages)
        await asyncio.to_thread(wait_until_live, traced)
        mine.add_span_processor(SimpleSpanProcessor(ended))
        with mine.get_tracer("application").start_as_current_span("an order comes in"):
            await client.publish(traced.topic, {"id": 1})
        await client.flush()
        await anext(messages)
        for number, sampled in ((2, "01"), (3, "00")):
            await asyncio.to_thread(post, traced, {"id": number}, f"00-{TRACE}-{PARENT}-{sampled}")
            assert (await anext(messages)).data["id"] == number

    mine_by_name = {span.name: span for span in ended.get_finished_spans()}
    assert mine_by_name.keys() == {"an order comes in", f"publish {traced.topic}"}
    publish = mine_by_name[f"publish {traced.topic}"]
    trace, by_client = f"{publish.context.trace_id:032x}", f"{publish.context.span_id:016x}"
    spans = traced.spans(trace, 3)
    applied = spans["apply"]
    assert {name: span.parent for name, span in spans.items()} == {
        "apply": by_client,
        "deliver": applied.id,
        "fanout": applied.id,
    }
    assert {span.service for span in spans.values()} == SENDERS
    assert applied.about | {"position": "1", "outcome": "applied", "changes": 1} == applied.about
    assert spans["deliver"].about["subscriptions"] == 1

    posted = traced.spans(TRACE, 4)
    assert {name: span.parent for name, span in posted.items()} == {
        "publish": PARENT,
        "apply": posted["publish"].id,
        "deliver": posted["apply"].id,
        "fanout": posted["apply"].id,
    }
    output = traced.system.topics.fanouts[0].output
    wait_for(lambda: len(traced.system.read(output)) == 4, "the fanout to write all")
    carried = [headers_of(message).get("traceparent", b"") for message in traced.system.read(output)]
    assert [parent.decode()[3:52] for parent in carried[1:]] == [
        f"{trace}-{spans['fanout'].id}",
        f"{TRACE}-{posted['fanout'].id}",
        f"{TRACE}-{PARENT}",
    ]
