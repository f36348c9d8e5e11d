"""Who is told that Kafka did not accept a command: a flush that is given up, several at a time, a client's end."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError

from sowline.client.async_client import AsyncClient
from sowline.client.http_api import HttpClient
from sowline.client.write_failures import SILENT_SECONDS, FlushAttempt, WriteFailures
from sowline.config.topics import parse_topics
from sowline.errors import SowlineError
from tests.waiting import until

TOPICS = parse_topics("topics: [{name: orders, key: /id}]")


class SlowProducer:
    """Kafka's client, whose flush takes until the test lets it report."""

    def __init__(self) -> None:
        self.reports: list[Any] = []
        self.flushes = 0
        self.may_report = threading.Event()

    def produce(
        self, topic: str, value: Any, key: Any, partition: int, on_delivery: Any, headers: Any
    ) -> None:
        """Take a message."""
        self.reports.append(on_delivery)

    def poll(self, seconds: float) -> int:
        """Report nothing."""
        return 0

    def flush(self, seconds: float) -> int:
        """Report that Kafka took nothing, when the test lets it."""
        self.flushes += 1
        assert self.may_report.wait(seconds)
        while self.reports:
            self.reports.pop()(KafkaError(KafkaError._MSG_TIMED_OUT), None)
        return 0


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowProducer]:
    """The producer that a publisher gets."""
    made = SlowProducer()
    monkeypatch.setattr("sowline.client.publisher.exact_producer", lambda *_, **__: made)
    yield made
    made.may_report.set()


async def writing_client() -> AsyncClient:
    """Return a client that has a publisher."""

    async def topics(_: HttpClient) -> dict[str, Any]:
        return {"kafka": "127.0.0.1:1"}

    client = AsyncClient()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HttpClient, "topics", topics)
        patch.setattr("sowline.client.writing.topics_of", lambda _: TOPICS)
        await client.publisher("orders")
    return client


async def test_a_flush_that_is_given_up_takes_no_failure(producer: SlowProducer) -> None:
    """Its thread goes on: the record was never written, and the next flush says so."""
    client = await writing_client()
    await client.publish("orders", {"id": 1})
    flushing = asyncio.create_task(client.flush())
    await until(lambda: producer.flushes)
    flushing.cancel()
    await asyncio.gather(flushing, return_exceptions=True)
    producer.may_report.set()
    await until(lambda: not producer.reports)
    with pytest.raises(SowlineError, match="did not accept an earlier command") as error:
        await client.flush()
    assert error.value.reason == "not written"
    await client.flush()


async def test_flushes_at_the_same_time_all_raise(producer: SlowProducer) -> None:
    """Each of two tasks has written, and would take its record for written. A later flush has nothing to say."""
    client = await writing_client()
    await client.publish("orders", {"id": 1})
    await client.publish("orders", {"id": 2})
    flushes = [asyncio.create_task(client.flush()) for _ in range(2)]
    await until(lambda: producer.flushes == 2)
    producer.may_report.set()
    errors = await asyncio.gather(*flushes, return_exceptions=True)
    assert [getattr(error, "reason", None) for error in errors] == ["not written"] * 2
    await client.flush()


async def test_a_closed_client_takes_no_commands(producer: SlowProducer) -> None:
    """Also while it still flushes: what came after the flush might never be written."""
    client = await writing_client()
    await client.publish("orders", {"id": 1})
    closing = asyncio.create_task(client.close())
    await until(lambda: producer.flushes)
    for _ in range(2):
        for call in (
            client.publish("orders", {"id": 2}),
            client.delta("orders", "2", "{}"),
            client.publish("orders", {"id": 2}, wait=True),
            client.flush(),
            client.topics(),
        ):
            with pytest.raises(SowlineError, match="the client was closed") as error:
                await call
            assert error.value.reason == "disconnected"
        if not closing.done():
            assert len(producer.reports) == 1
        producer.may_report.set()
        await asyncio.gather(closing, return_exceptions=True)
    assert isinstance(closing.exception(), SowlineError)


def test_a_flush_that_takes_long_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """It waits for as long as before; a short one does not say anything."""
    waits = list[float]()

    def wait(seconds: float) -> int:
        waits.append(seconds)
        return len(waits) % 2

    FlushAttempt(WriteFailures(), wait, 60).wait()
    assert (waits, len(caplog.messages)) == ([SILENT_SECONDS, 60 - SILENT_SECONDS], 1)
    short = FlushAttempt(WriteFailures(), wait, 2)
    short.wait()
    assert (waits[-1], len(caplog.messages)) == (2, 1)
    with pytest.raises(SowlineError, match="1 commands within 2 s"):
        short.check()
