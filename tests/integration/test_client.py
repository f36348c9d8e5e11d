"""The Python clients as their users meet them."""

import asyncio
import signal
import threading
import uuid
from collections.abc import Iterator

import pytest

from sowline.async_client import AsyncClient
from sowline.client import Client
from sowline.errors import SowlineError
from sowline.message import Message
from sowline.stream import WAITING_MAX, Ask
from tests.integration.services import SECONDS_MAX, Service, System, system

KINDS = ("sync", "async", "restart", "left", "gone", "asked", "silent")


class Served:
    """A system with a topic for each test."""

    def __init__(self, made: System, names: dict[str, str], query: Service) -> None:
        self.system = made
        self.names = names
        self.query = query
        self.url = query.url


@pytest.fixture(scope="module")
def served(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One materializer and one query service for all tests here."""
    prefix = f"t{uuid.uuid4().hex[:12]}"
    names = {kind: f"{prefix}-{kind}" for kind in KINDS}
    topics = [{"name": name, "key": ["/id"]} for name in names.values()]
    with system(kafka, tmp_path_factory.mktemp("client"), topics) as made:
        services = [made.service(module).start() for module in ("materializer", "query_service")]
        for service in services:
            service.wait_ready()
        yield Served(made, names, services[1])


@pytest.fixture
def running(served: Served) -> Iterator[Service]:
    """The query service, for a test that stops it; it runs again afterwards."""
    yield served.query
    if not served.query.running:
        served.query.start()
    served.query.wait_ready()


def test_client(served: Served) -> None:
    """The synchronous client publishes, merges, deletes, queries and subscribes."""
    topic = served.names["sync"]
    with Client(served.url) as client:
        changes = client.sow_and_subscribe(topic, filter="/qty > 5", options="oof")
        assert [next(changes).command for _ in range(2)] == ["group_begin", "group_end"]
        client.publish(topic, {"id": 1, "qty": 10})
        client.delta_publish(topic, {"id": 1, "text": "é"})
        client.delta_publish(topic, {"id": 1, "qty": 1})
        client.publish(topic, b'{"id": 2, "qty": 20}', correlation="mine")
        client.sow_delete(topic, data={"id": 2})
        client.flush()
        seen = [next(changes) for _ in range(5)]
        assert [(m.command, m.data["id"], m.reason) for m in seen] == [
            ("publish", 1, None),
            ("publish", 1, None),
            ("oof", 1, "match"),
            ("publish", 2, None),
            ("oof", 2, "deleted"),
        ]
        changes.close()
        records = [message.data for message in client.sow(topic) if message.command == "sow"]
        assert records == [{"id": 1, "qty": 1, "text": "é"}]
        assert topic in {one["name"] for one in client.topics()["topics"]}


def test_errors(served: Served) -> None:
    """What can't be done is raised where it was asked for, and the client goes on."""
    topic = served.names["sync"]
    with Client(served.url) as client:
        with pytest.raises(SowlineError, match="operand") as caught:
            list(client.sow(topic, filter="/a >"))
        assert caught.value.reason == "bad filter"
        with pytest.raises(SowlineError, match="expected a topic"):
            next(client.subscribe("nothing"))
        with pytest.raises(SowlineError, match="key field /id"):
            client.publish(topic, {"qty": 1})
        with pytest.raises(SowlineError, match="exactly one"):
            client.sow_delete(topic)
        assert list(client.sow(topic))


def test_not_connected() -> None:
    """A URL that can't be one is refused at once."""
    with pytest.raises(SowlineError, match="expected a URL"):
        Client("127.0.0.1:8080")


async def test_async_client(served: Served) -> None:
    """The asynchronous client serves several subscriptions and queries at a time over one connection."""
    topic = served.names["async"]
    async with AsyncClient(served.url) as client:
        for number in range(20):
            await client.publish(topic, {"id": number, "qty": number})
        await client.flush()

        async def first(count: int, filter: str) -> list[Message]:
            found = []
            async for message in client.subscribe(topic, filter=filter, bookmark="epoch"):
                found.append(message)
                if len(found) == count:
                    break
            return found

        async with asyncio.timeout(SECONDS_MAX):
            everything, large = await asyncio.gather(first(20, ""), first(5, "/qty >= 15"))
        assert [message.data["id"] for message in everything] == list(range(20))
        assert [message.data["id"] for message in large] == list(range(15, 20))
        found = [message async for message in client.sow(topic, filter="/qty < 3", batch_size=1)]
        assert [message.command for message in found] == ["group_begin", "sow", "sow", "sow", "group_end"]


def test_restart_goes_unnoticed(served: Served, running: Service) -> None:
    """A service that is stopped and started again is nothing that a subscriber would notice."""
    topic = served.names["restart"]
    with Client(served.url) as client:
        changes = client.subscribe(topic, bookmark="epoch")
        served.system.write(topic, {"id": 1})
        assert next(changes).data == {"id": 1}
        assert running.stop() == 0
        served.system.write(topic, {"id": 2})
        running.start()
        served.system.write(topic, {"id": 3})
        assert [next(changes).data["id"] for _ in range(2)] == [2, 3]
        assert [message.data["id"] for message in client.sow(topic) if message.command == "sow"] == [1, 2, 3]


async def test_question_while_the_service_is_away(served: Served, running: Service) -> None:
    """What is asked while the service is away or still loading is answered once it can be."""
    topic = served.names["asked"]
    served.system.write(topic, {"id": 1})
    async with AsyncClient(served.url) as client, asyncio.timeout(SECONDS_MAX):
        running.kill()
        running.start()
        found = [message async for message in client.sow(topic)]
        assert [message.data for message in found if message.command == "sow"] == [{"id": 1}]


async def test_service_that_falls_silent(
    served: Served, running: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service that gives no sign of life is given up, and the subscription goes on once there is one again."""
    topic = served.names["silent"]
    monkeypatch.setattr("sowline.async_client.SILENCE_SECONDS_MAX", 0.2)
    async with AsyncClient(served.url) as client, asyncio.timeout(SECONDS_MAX):
        changes = client.subscribe(topic, bookmark="epoch")
        served.system.write(topic, {"id": 1})
        assert (await anext(changes)).data == {"id": 1}
        running.signal(signal.SIGSTOP)
        while client._connected.is_set():
            await asyncio.sleep(0.01)
        running.signal(signal.SIGCONT)
        served.system.write(topic, {"id": 2})
        assert (await anext(changes)).data == {"id": 2}
        await changes.aclose()  # type: ignore[attr-defined]


def test_leaving_while_the_service_is_away(served: Served, running: Service) -> None:
    """A subscriber may leave, and close its client, without the service."""
    topic = served.names["gone"]
    served.system.write(topic, {"id": 1})
    left = threading.Event()

    def leave() -> None:
        with Client(served.url) as client:
            for _ in client.sow_and_subscribe(topic):
                running.kill()
                break
        left.set()

    threading.Thread(target=leave, daemon=True).start()
    assert left.wait(20)


async def test_leaving_with_messages_unread(served: Served) -> None:
    """A subscriber that leaves more unread than its client holds does not keep the others waiting."""
    topic = served.names["left"]
    publisher = served.system.publisher()
    for number in range(3 * WAITING_MAX):
        publisher.publish(topic, {"id": number % 10, "n": number})
    publisher.flush()
    await asyncio.to_thread(served.system.wait_settled, served.url, topic)
    async with AsyncClient(served.url) as client, asyncio.timeout(SECONDS_MAX):
        stream = await client.open(Ask("subscribe", topic, bookmark="epoch"))
        while len(stream._waiting) < WAITING_MAX:
            await asyncio.sleep(0.01)
        await client.end(stream)
        assert len([message async for message in client.sow(topic) if message.command == "sow"]) == 10
