"""Kafka goes away, for a moment and for long: everybody waits for it, says so, and goes on without a word."""

import asyncio
import json
import os
import signal
import uuid
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from sowline.runtime.local_kafka import LocalKafka
from sowline.runtime.ports import HOST, free_port
from sowline_fanout.message import OutputMessage, ReaderState
from tests.integration.load import Publishers, new_seed, write_marks
from tests.integration.model import Model
from tests.integration.services import Service, System, http_refusal, http_text, system
from tests.integration.watchers import watching
from tests.waiting import wait_for

OPTIONS = {"socket.timeout.ms": "1000", "reconnect.backoff.max.ms": "500"}
"""Of the services' clients: what they wait for at most is over several times while Kafka is away."""

AWAY_SECONDS = 4.0
FILTERS = ("", "/qty > 50")


class Served:
    """A system over a Kafka of its own, which is yet to be started."""

    def __init__(self, kafka: LocalKafka, made: System) -> None:
        self.kafka = kafka
        self.system = made
        self.topic = made.topics.topics[0].name
        self.fanout = made.topics.fanouts[0]
        options = json.dumps(OPTIONS)
        names = ("materializer", "query_service", "fanout")
        self.worker, self.query, self.writer = self.services = tuple(
            made.service(name, kafka_options=options).start() for name in names
        )

    def wait_ready(self) -> None:
        """Wait until all services are ready, and none of them waits for Kafka."""
        for service in self.services:
            service.wait_ready()
        wait_for(
            lambda: http_text(f"{self.query.url}/readyz") == '{"status":"ok"}', "Kafka to be found again"
        )

    def records(self) -> int:
        """Return how many records the query service answers with."""
        return http_text(f"{self.query.url}/v1/topics/{self.topic}/sow", b"").count("\n")

    def wait_away(self, seconds: float) -> None:
        """Wait until Kafka has been away for so long, and everybody says so."""
        for service in self.services:
            wait_for(lambda service=service: away_seconds(service) > seconds, "Kafka to be away")
            assert service.answers
        sentence = f"Kafka at {self.system.kafka} has not answered for"
        for service in (self.worker, self.writer):
            assert sentence in http_refusal(f"{service.url}/readyz")


def away_seconds(service: Service) -> float:
    """Return how long a service has not heard of Kafka."""
    return service.metric("sowline_kafka_away_seconds") if service.answers else 0.0


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """Services that were started before their Kafka was."""
    name = f"t{uuid.uuid4().hex[:12]}-away"
    topics = [{"name": name, "key": ["/id"], "partitions": 2}]
    fanouts = [{"name": f"{name}-big", "topic": name, "filter": "/qty > 50", "options": "oof"}]
    port = free_port()
    kafka = LocalKafka(tmp_path / "kafka", port)
    with system(f"{HOST}:{port}", tmp_path, topics, fanouts) as made:
        try:
            yield Served(kafka, made)
        finally:
            made.close()
            kafka.stop()


def disturb(served: Served, publishers: Publishers) -> None:
    """Kill Kafka and start it again, then let it stand still for longer than anybody's patience; the load goes on."""
    wait_moved(publishers)
    served.kafka.kill()
    served.kafka.start()
    served.wait_ready()
    wait_moved(publishers)
    # Publishers resume sooner than the materializer does: without this line the SOW was still empty once.
    wait_for(lambda: served.records() > 0, "the query service to have records")
    assert served.kafka.pid is not None
    os.kill(served.kafka.pid, signal.SIGSTOP)
    try:
        served.wait_away(AWAY_SECONDS)
        sentence = json.loads(http_text(f"{served.query.url}/readyz"))["message"]
        assert "has not answered for" in sentence, "the query service answers from what it has"
        assert served.records() > 0
    finally:
        os.kill(served.kafka.pid, signal.SIGCONT)
    served.wait_ready()
    wait_moved(publishers)


def wait_moved(publishers: Publishers) -> None:
    """Wait until the load has moved on."""
    goal = publishers.written + 100
    wait_for(lambda: publishers.written >= goal, "the load to move on")


async def test_broker_that_goes_and_comes(served: Served) -> None:
    """Publishers, services, subscribers and clients go on by themselves; nothing is lost, and nothing comes twice."""
    served.wait_away(0.0)
    served.kafka.start()
    served.wait_ready()
    async with watching(served.query.url, served.topic, *FILTERS) as watchers:
        with Publishers(served.system, served.topic, new_seed(), count=1) as publishers:
            await asyncio.to_thread(disturb, served, publishers)
        marks = await asyncio.to_thread(write_marks, served.system, served.query.url, served.topic)
        await watchers.wait_for(marks)
    model = await watchers.check(served.system, served.query.url, served.topic)
    assert served.system.read(served.system.topic(served.topic).kafka.dead) == []
    wait_for(lambda: fanned_out(served, model), "the fanout to have everything")


def fanned_out(served: Served, model: Model) -> bool:
    """Tell whether a reader of the fanout holds what matches."""
    held: dict[int | None, ReaderState] = defaultdict(ReaderState)
    for message in served.system.read(served.fanout.output):
        written = OutputMessage.read(message.value(), message.headers())  # type: ignore[arg-type]
        held[message.partition()].take(message.key() or b"", written)
    bodies = {key.decode(): body for one in held.values() for key, body in one.bodies.items()}
    return {key: json.loads(body) for key, body in bodies.items()} == model.sow("/qty > 50")
