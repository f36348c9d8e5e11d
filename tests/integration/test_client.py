"""The Python clients as their users meet them."""

import asyncio
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from sowline.client.async_client import AsyncClient
from sowline.client.client import Client
from sowline.client.stream import WAITING_MAX, Stream
from sowline.client.write_options import DeliveryReport
from sowline.errors import SowlineError
from sowline.subscriptions.ask import Ask
from sowline.wire.client_message import Message
from tests.integration.load import Publishers, new_seed
from tests.integration.services import Service, System, system
from tests.waiting import SECONDS_MAX, pace, until

KINDS = (
    "sync",
    "async",
    "dicts",
    "restart",
    "left",
    "gone",
    "asked",
    "silent",
    "ways",
    "views-one",
    "views-two",
    "replaced",
)


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
    topics = [
        {"name": name, "key": ["/id"], "partitions": 2 if "views" in name else 1} for name in names.values()
    ]
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
        assert client.sow_delete(topic, data={"id": 2}) == 1
        seen = [next(changes) for _ in range(5)]
        assert [(m.command, m.data["id"], m.reason) for m in seen] == [
            ("publish", 1, None),
            ("publish", 1, None),
            ("oof", 1, "match"),
            ("publish", 2, None),
            ("oof", 2, "deleted"),
        ]
        assert [m.correlation_id for m in seen] == [None, None, None, "mine", None]
        changes.close()
        records = [message.data for message in client.sow(topic) if message.command == "sow"]
        assert records == [{"id": 1, "qty": 1, "text": "é"}]
        keys = [message.sow_key or "" for message in client.sow(topic) if message.command == "sow"]
        assert client.sow_delete(topic, keys=[*keys, *map(str, range(2000))]) == 1
        assert client.sow_delete(topic, filter="1=1") == 0
        reports: list[DeliveryReport] = []
        client.publish(topic, {"id": 1, "qty": 1, "text": "é"}, on_delivery=reports.append)
        client.flush()
        [(name, partition, position, error)] = reports
        log_end = served.system.read(topic)[-1].offset()
        assert (name, partition, position, error) == (topic, 0, log_end, None)
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


def test_ways_to_ask(served: Served) -> None:
    """Order, limits, keys, fields, patterns and groups are asked for by their names; so is the access path."""
    topic = served.names["ways"]
    with Client(served.url) as client:
        for number in range(6):
            client.publish(topic, {"id": number, "g": "ab"[number % 2], "n": 10 - number})
        client.flush()
        served.system.wait_settled(served.url, topic)

        def asked(name: str = topic, **reading: Any) -> list[Any]:
            return [message.data for message in client.sow(name, **reading) if message.command == "sow"]

        assert [body["id"] for body in asked(order_by="/n", top_n=2, skip_n=1)] == [4, 3]
        (key,) = [m.sow_key for m in client.sow(topic, filter="/id = 3") if m.command == "sow"]
        assert key is not None
        assert asked(sow_keys=[key]) == [{"id": 3, "g": "b", "n": 7}]
        assert asked(options="select=[-/,+/n]", filter="/id = 3") == [{"n": 7}]
        pattern = f"^{topic[:-1]}[r-t]"
        assert len(asked(pattern)) == 6
        options = "grouping=[/g],projection=[/g,SUM(/n) AS /sum]"
        assert asked(options=options, order_by="/g") == [{"g": "a", "sum": 24}, {"g": "b", "sum": 21}]
        *_, end = client.sow(topic, top_n=0)
        assert (end.command, end.records) == ("group_end", 0)
        (access_path,) = client.explain(topic, filter="/n > 5 AND /g = 'a'", top_n=1)["access_paths"]
        assert (access_path["topic"], access_path["access_path"], access_path["matches"]) == (
            topic,
            "memo index",
            3,
        )
        with pytest.raises(SowlineError, match="expected a path at column 1"):
            asked(order_by=",")
        with pytest.raises(SowlineError, match="expected a topic"):
            client.explain("nothing")


async def test_records_as_dicts(served: Served) -> None:
    """One by one from both clients; who leaves in the middle ends the query, and the client goes on."""
    topic = served.names["dicts"]
    records = [{"id": number, "n": 10**20 + number} for number in range(300)]
    with Client(served.url) as client:
        client.publish_all(topic, records)
        assert list(client.records(topic, order_by="/id")) == records
        assert list(client.records(topic, filter="/id = 7", options="select=[-/,+/n]")) == [{"n": 10**20 + 7}]
        left = client.records(topic, order_by="/id", batch_size=1)
        assert [next(left), next(left)] == records[:2]
        del left
        with pytest.raises(SowlineError, match="operand"):
            list(client.records(topic, filter="/a >"))
        assert next(client.records(topic, order_by="/id DESC")) == records[-1]
    async with AsyncClient(served.url) as client:
        assert [one async for one in client.records(topic, order_by="/id")] == records
        async for one in client.records(topic, order_by="/id", batch_size=1):
            assert one == records[0]
            break
        assert [one async for one in client.records(topic, top_n=1, order_by="/id DESC")] == records[-1:]


def test_query_that_is_left(served: Served) -> None:
    """A query whose caller has seen enough is ended, and the client goes on."""
    topic = served.names["sync"]
    with Client(served.url) as client:
        client.sow_delete(topic, filter="1=1")
        client.publish(topic, {"id": 1})
        client.publish(topic, {"id": 2})
        client.flush()
        client.sow_delete(topic, data={"id": 2})
        found = client.sow(topic, batch_size=1)
        assert next(found).command == "group_begin"
        found.close()
        assert [message.command for message in client.sow(topic)] == ["group_begin", "sow", "group_end"]


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


class Shown:
    """What a subscriber shows: its records by topic and SOW key, kept up to date from what it is told."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.records: dict[tuple[str, str | None], Any] = {}
        self.groups = 0

    async def follow(self) -> None:
        """Take what comes, for ever."""
        async for message in self.stream:
            key = message.topic, message.sow_key
            if message.command in ("sow", "publish"):
                self.records[key] = message.data
            elif message.command == "oof":
                del self.records[key]
            self.groups += message.command == "group_begin"


async def test_views_outlive_their_service(served: Served, running: Service) -> None:
    """Pages, groups and patterns go on where they were when a service is killed during changes and started again."""
    one, two = served.names["views-one"], served.names["views-two"]
    asks: list[tuple[str, Any]] = [
        (one, {"order_by": "/qty DESC, /id", "top_n": 10, "skip_n": 3, "options": "oof"}),
        (two, {"filter": "/qty > 50", "top_n": 5, "skip_n": 0, "options": "oof"}),
        (one, {"options": "oof,grouping=[/region],projection=[/region,COUNT(1) AS /n,MAX(/qty) AS /most]"}),
        (f"^{one[:-3]}(one|two)", {"filter": "/qty > 50", "options": "oof"}),
    ]
    seed = new_seed()
    async with AsyncClient(served.url) as client, asyncio.timeout(SECONDS_MAX):
        views = [
            Shown(await client.open(Ask("sow_and_subscribe", topic, **reading))) for topic, reading in asks
        ]
        following = [asyncio.create_task(view.follow()) for view in views]
        await until(lambda: all(view.stream.bookmark for view in views))  # otherwise groups are begun again
        for turn in range(2):
            seeds = seed + 2 * turn, seed + 2 * turn + 1
            # no longer: how many changes pages and groups go back over has a limit, and a start may take long
            with Publishers(served.system, one, seeds[0], 1), Publishers(served.system, two, seeds[1], 1):
                await pace(0.5)
                running.kill()
                await pace(0.2)
            running.start()
            await asyncio.to_thread(running.wait_ready)
        with Publishers(served.system, one, seed + 4, 1), Publishers(served.system, two, seed + 5, 1):
            await pace(0.3)
        for topic in (one, two):
            await asyncio.to_thread(served.system.wait_settled, served.url, topic)

        async def fresh(topic: str, reading: Any) -> dict[tuple[str, str | None], Any]:
            asked = reading | {"options": reading["options"].removeprefix("oof").removeprefix(",")}
            found = client.sow(topic, **asked)
            return {(m.topic, m.sow_key): m.data async for m in found if m.command == "sow"}

        for view, (topic, reading) in zip(views, asks, strict=True):

            async def is_fresh(view: Shown = view, topic: str = topic, reading: Any = reading) -> bool:
                assert not (ended := [task.exception() for task in following if task.done()]), ended
                return view.records == await fresh(topic, reading)

            await until(is_fresh, f"the view of {topic}")
            assert view.groups == 1
        for task in following:
            task.cancel()


async def test_a_subscription_is_replaced(served: Served, running: Service) -> None:
    """Its stream tells what leaves and what comes; a refusal changes nothing; it comes back as the new one."""
    topic = served.names["replaced"]
    served.system.write(topic, *({"id": number, "b": number % 2} for number in range(4)))
    await asyncio.to_thread(served.system.wait_settled, served.url, topic)

    def shown(messages: list[Message]) -> list[Any]:
        return [(m.command, m.data.get("id"), m.replace) for m in messages]

    async with AsyncClient(served.url) as client, asyncio.timeout(SECONDS_MAX):
        stream = await client.open(Ask("sow_and_subscribe", topic, filter="/b = 0", options="oof"))
        assert [(await anext(stream)).command for _ in range(4)][-1] == "group_end"
        with pytest.raises(SowlineError) as error:
            await client.replace(stream, filter="/b =")
        assert (error.value.reason, stream.bookmark) == ("bad filter", f"{topic}:0@3")
        await client.replace(stream, filter="/id > 1")
        messages = [await anext(stream) for _ in range(4)]
        assert shown(messages) == [
            ("oof", 0, False),
            ("group_begin", None, True),
            ("sow", 3, False),
            ("group_end", None, False),
        ]
        assert [m.more for m in messages] == [True, False, False, False]
        running.kill()
        served.system.write(topic, {"id": 0}, {"id": 2, "b": 5})
        running.start()
        assert shown([await anext(stream)]) == [("publish", 2, False)]
        await client.end(stream)
        with pytest.raises(SowlineError, match="ended"):
            await client.replace(stream, filter="")


def test_closing_the_client_wakes_its_readers(served: Served) -> None:
    """Anyone who waits for messages in another thread is told that none will come."""
    client = Client(served.url)
    changes = client.subscribe(served.names["gone"])
    woken: list[BaseException] = []

    def read() -> None:
        try:
            next(changes)
        except SowlineError as error:
            woken.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    client.close()
    reader.join(SECONDS_MAX)
    assert [getattr(error, "reason", "") for error in woken] == ["disconnected"]
    with pytest.raises(SowlineError, match="closed"):
        client.topics()


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
    monkeypatch.setattr("sowline.client.connection.SILENCE_SECONDS_MAX", 0.2)
    async with AsyncClient(served.url) as client, asyncio.timeout(SECONDS_MAX):
        changes = client.subscribe(topic, bookmark="epoch")
        served.system.write(topic, {"id": 1})
        assert (await anext(changes)).data == {"id": 1}
        running.signal(signal.SIGSTOP)
        await until(lambda: not client._connection.is_open)
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
        await until(lambda: len(stream.machine.taken.inbox) >= WAITING_MAX)
        await client.end(stream)
        assert len([message async for message in client.sow(topic) if message.command == "sow"]) == 10


def test_a_program_ends_that_closes_nothing(served: Served) -> None:
    """Where it has left neither its client nor its subscription."""
    program = (
        "import sys; from sowline import Client\n"
        "messages = Client(sys.argv[1]).sow_and_subscribe(sys.argv[2]); print(next(messages).command)"
    )
    command = [sys.executable, "-c", program, served.url, served.names["sync"]]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=True)
    assert (ended.stdout, ended.stderr) == ("group_begin\n", "")
