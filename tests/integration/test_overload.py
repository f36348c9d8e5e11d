"""More than a query service can bear: each limit holds, the reason is given, and all others go on meanwhile."""

import asyncio
import contextlib
import json
import signal
import socket
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from sowline.client.publisher import Publisher
from sowline.config.kafka_options import kafka_config
from sowline.wire.client_message import Received, read_frame
from tests.integration.load import Life, check_sow, model_of, write_marks
from tests.integration.services import Service, System, system
from tests.integration.watchers import watching
from tests.integration.wire import Json, Wire, wire
from tests.waiting import wait_for

MIB = 1 << 20
SESSIONS_MAX = 1000
LIMITS = {
    "backlog_bytes_max": MIB,
    "backlogs_bytes_max": 8 * MIB,
    "sessions_max": SESSIONS_MAX,
    "ring_changes_max": 200,
    "frame_bytes_max": MIB,
    "result_records_max": 300,
    "result_bytes_max": 1_000_000,
    "queries_max": 4,
    "query_unread_seconds_max": 0.5,
}
HANDSHAKE = (
    b"GET /v1 HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
TEXT = "x" * 4000
ROUNDS = 17
KEYS = 150
MORE_BYTES_MAX = 120 * MIB
"""What a service may need more while it is overloaded: for the backlogs, a portion or two, and what Python keeps."""


class Served:
    """A system with small limits, and topics for the tests."""

    def __init__(self, made: System, worker: Service, query: Service, prefix: str) -> None:
        self.system = made
        self.worker = worker
        self.query = query
        self._prefix = prefix

    def topic(self, name: str) -> str:
        """Return a topic's whole name."""
        return f"{self._prefix}-{name}"

    def write(self, name: str, *records: Json) -> None:
        """Publish records, and wait until the query service has them."""
        self.system.write(self.topic(name), *records)
        self.system.wait_settled(self.query.url, self.topic(name))


@pytest.fixture(scope="module")
def running(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One of each service."""
    prefix = f"t{uuid.uuid4().hex[:12]}"
    names = ("slow", "crowd", "fast", "warned", "large", "unread")
    topics = [{"name": f"{prefix}-{name}", "key": ["/id"], "partitions": 2} for name in names]
    with system(kafka, tmp_path_factory.mktemp("overload"), topics) as made:
        worker = made.service("materializer").start()
        query = made.service("query_service", **LIMITS).start()
        for service in (worker, query):
            service.wait_ready()
        yield Served(made, worker, query, prefix)


@pytest.fixture
def served(running: Served) -> Served:
    """The same, once the clients of the test before are gone: they would count."""
    for name in ("sowline_sessions", "sowline_subscriptions_live", "sowline_unsent_bytes"):
        wait_for(lambda name=name: running.query.metric(name) == 0, f"{name} to be 0")
    return running


def write_much(served: Served) -> None:
    """Change every record again and again."""
    publisher = served.system.publisher()
    for number in range(ROUNDS):
        for id in range(KEYS):
            publisher.publish(served.topic("slow"), {"id": id, "qty": number, "text": TEXT})
    publisher.close()


def take(life: Life, messages: list[Json]) -> None:
    """Let a subscriber write down what came over a raw connection."""
    for one in messages:
        for received in read_frame(json.dumps(one).encode()):
            if isinstance(received, Received) and received.command != "ack":
                for message in received.messages():
                    life.take(message)


@contextmanager
def deaf(url: str, topic: str) -> Iterator[socket.socket]:
    """Lend a connection that has subscribed and never reads: with an answer to neither a message nor a close."""
    host, port = url.removeprefix("http://").split(":")
    request = {"command": "sow_and_subscribe", "topic": topic, "sub_id": "s", "options": "oof"}
    payload = json.dumps(request).encode().ljust(200)
    with socket.socket() as made:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        made.connect((host, int(port)))
        made.sendall(HANDSHAKE)
        assert made.recv(4096).endswith(b"\r\n\r\n")
        made.sendall(b"\x81\xfe" + len(payload).to_bytes(2, "big") + bytes(4) + payload)
        yield made


async def test_clients_that_do_not_read(served: Served) -> None:
    """They are served from Kafka when they read again; nobody waits for them, and they need little memory."""
    topic = served.topic("slow")
    served.write("slow", {"id": 0, "qty": 0, "text": TEXT})
    with served.query.needing_at_most(MORE_BYTES_MAX), ExitStack() as stack:
        idle = [stack.enter_context(deaf(served.query.url, topic)) for _ in range(30)]
        slow = stack.enter_context(wire(served.query.url, receive_bytes=1 << 16))
        slow.send("sow_and_subscribe", topic=topic, options="oof", sub_id="s")
        async with watching(served.query.url, topic, "", "/qty > 50") as watchers:

            def are_live() -> bool:
                return served.query.metric("sowline_subscriptions_live") == len(idle) + 3

            await asyncio.to_thread(wait_for, are_live, "all to be live")
            await asyncio.to_thread(write_much, served)
            marks = await asyncio.to_thread(write_marks, served.system, served.query.url, topic)
            await watchers.wait_for(marks)
        assert served.query.metric("sowline_subscriptions_live") <= len(idle) * 0.5
        model = await asyncio.to_thread(model_of, served.system, topic)
        for life in watchers.lives:
            life.check(model)
        late = Life("", oof=True)
        while any(late.position(partition) < mark for partition, mark in marks.items()):
            take(late, [await asyncio.to_thread(slow.receive)])
        late.check(model)
    await check_sow(model, served.query.url, topic)


async def subscribe(url: str, topic: str) -> str:
    """Connect, subscribe, and wait for the first message; returns what came: its command, or why none will."""
    try:
        async with connect(
            url.replace("http", "ws") + "/v1", compression=None, open_timeout=60
        ) as connection:
            await connection.send(json.dumps({"command": "subscribe", "topic": topic, "sub_id": "s"}))
            first = json.loads(await connection.recv())
            return str((first[0] if isinstance(first, list) else first)["command"])
    except InvalidStatus as refused:
        return f"{refused.response.status_code} {json.loads(refused.response.body or b'{}')['reason']}"


async def test_a_thousand_at_once(served: Served) -> None:
    """As many as may come are served; one more is told to come later, and those who were there notice nothing."""
    topic = served.topic("crowd")
    more = 50
    before = served.query.resident_bytes
    refused = served.query.metric("sowline_sessions_refused_total")
    async with watching(served.query.url, topic, "") as watchers:
        crowd = [
            asyncio.create_task(subscribe(served.query.url, topic)) for _ in range(SESSIONS_MAX - 1 + more)
        ]

        def all_there() -> bool:
            with contextlib.suppress(TimeoutError):
                now = served.query.metric("sowline_sessions_refused_total") - refused
                return now == more and served.query.metric("sowline_subscriptions_live") == SESSIONS_MAX
            return False

        await asyncio.to_thread(wait_for, all_there, "all to have come")
        assert served.query.resident_bytes - before < MORE_BYTES_MAX
        await asyncio.to_thread(served.write, "crowd", {"id": 1, "qty": 1})
        answers = await asyncio.gather(*crowd)
        marks = await asyncio.to_thread(write_marks, served.system, served.query.url, topic)
        await watchers.wait_for(marks)
    assert sorted(set(answers)) == ["503 busy", "publish"]
    assert answers.count("503 busy") == more
    (life,) = watchers.lives
    life.check(await asyncio.to_thread(model_of, served.system, topic))
    wait_for(lambda: served.query.metric("sowline_sessions") == 0, "all to be gone")


def test_a_publisher_that_is_too_fast_waits(served: Served) -> None:
    """Its queue has a bound: publishing takes as long as Kafka does, and nothing is left out."""
    topic, records = served.topic("fast"), 5000
    options: dict[str, Any] = {"queue.buffering.max.messages": 50}
    publisher = Publisher(kafka_config(served.system.kafka), served.system.topics, **options)
    for number in range(records):
        publisher.publish(topic, {"id": number % 100, "qty": number})
    publisher.close()
    ends = served.system.cluster.ends(topic, range(2))
    assert sum(ends.values()) == records
    served.system.wait_settled(served.query.url, topic)
    asyncio.run(check_sow(model_of(served.system, topic), served.query.url, topic))


def test_a_connection_that_publishes_too_fast_is_warned(served: Served) -> None:
    """With 10,000 commands under way the next is refused as busy; those before it have their effect."""
    topic = served.topic("warned")
    requests = [
        {"command": "publish", "command_id": str(n), "topic": topic, "data": {"id": "gate", "n": n}}
        for n in range(10_001)
    ]
    with wire(served.query.url) as client:
        served.worker.signal(signal.SIGSTOP)
        try:
            for start in range(0, len(requests), 2000):
                client.send_text(json.dumps(requests[start : start + 2000]))
            refused = client.receive()
        finally:
            served.worker.signal(signal.SIGCONT)
        assert (refused["command_id"], refused["reason"]) == ("10000", "busy")

    def last_is_there() -> bool:
        with wire(served.query.url) as client:
            client.send("sow", topic=topic, filter="/id = 'gate' AND /n = 9999")
            return bool(client.group()[-1]["records"] == 1)

    wait_for(last_is_there, "the last command that was taken to have its effect")


def http_failure(url: str, body: bytes) -> tuple[int, str]:
    """Return status and reason of a POST that must be refused."""
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(url, body, timeout=30)
    with refused.value as answer:
        return answer.code, json.loads(answer.read())["reason"]


def test_what_is_too_large_or_too_much_is_refused(served: Served) -> None:
    """Results, frames and bodies beyond a limit; other connections and the same one go on."""
    topic, url = served.topic("large"), f"{served.query.url}/v1/topics/{served.topic('large')}"
    served.write("large", *({"id": number, "qty": number, "text": TEXT} for number in range(350)))
    with wire(served.query.url) as client, wire(served.query.url) as other:
        other.send("subscribe", topic=topic)
        client.send("sow", topic=topic, options="select=[-/,+/id]", batch_size=500)
        assert last(client)["reason"] == "result too large"
        client.send("sow", topic=topic, filter="/qty < 290", batch_size=500)
        assert last(client)["reason"] == "result too large"
        assert http_failure(f"{url}/publish", b"x" * (MIB + 1)) == (413, "too large")
        assert (
            http_failure(f"{url}/sow", json.dumps({"options": "select=[-/,+/text]"}).encode())[1]
            == "result too large"
        )
        with pytest.raises(ConnectionClosed, match="1009"):
            announce(served.query.url, 2 * MIB)
        served.write("large", {"id": 1, "qty": -1})
        assert [message["data"]["qty"] for message in other.heartbeat()] == [-1]


@contextmanager
def unread(url: str, request: str, body: bytes = b"") -> Iterator[None]:
    """Send a request over HTTP, and read nothing of its answer during the block."""
    host, port = url.removeprefix("http://").split(":")
    with socket.socket() as made:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        made.connect((host, int(port)))
        made.sendall(
            f"{request} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
        )
        yield


def test_unread_queries_make_way(served: Served) -> None:
    """More of them than may run: each has its turn and ends, and a client that reads gets its answer."""
    topic, url, metric = served.topic("unread"), served.query.url, served.query.metric
    served.write("unread", *({"id": number, "text": TEXT} for number in range(230)))
    ended = metric("sowline_queries_unread_total")
    with ExitStack() as stack:
        for _ in range(8):
            stack.enter_context(unread(url, f"POST /v1/topics/{topic}/sow", b"{}"))
            stack.enter_context(unread(url, f"GET /v1/topics/{topic}/subscribe?command=sow_and_subscribe"))
        with wire(url) as client:
            client.send("sow", topic=topic, batch_size=50)
            assert client.group()[-1]["records"] == 230
        wait_for(lambda: metric("sowline_queries_unread_total") > ended, "queries to make way")
    wait_for(lambda: metric("sowline_queries") == 0, "all queries to end")
    wait_for(lambda: metric("sowline_unsent_bytes") == 0, "nothing to be unsent")


def announce(url: str, size: int) -> None:
    """Send the head of a frame of a size, and listen: the service needs no more to know that it is too large."""
    masked_text = b"\x81\xff"
    with wire(url) as client:
        client.send_bytes(masked_text + size.to_bytes(8, "big") + b"mask")
        client.receive()


def last(client: Wire) -> Json:
    """Return how a query ends."""
    return client.receive_until(lambda message: message["command"] == "ack")[-1]
