"""Delta subscriptions over a real Kafka: the chapter's orders, published whole and as deltas, told as deltas."""

import uuid
from collections.abc import Iterator

import pytest

from sowline import Client
from tests.integration.services import Service, System, system
from tests.integration.wire import Json, Wire, wire

ORDERS: list[Json] = [
    {"order": 1, "customer": "Patrick", "status": "new", "qty": 1000, "ticker": "IBM"},
    {"order": 2, "customer": "Smith", "status": "new", "qty": 100, "ticker": "MSFT"},
    {"order": 3, "customer": "Patrick", "status": "new", "qty": 1000, "ticker": "MSFT"},
]


class Served:
    """A system with one topic of orders."""

    def __init__(self, made: System, query: Service) -> None:
        self.system = made
        self.url = query.url
        self.topic = made.topics.topics[0].name
        self._publisher = made.publisher()

    def write(self, *orders: Json, delta: bool = False) -> None:
        """Publish orders, or deltas of them, and wait until the query service has them."""
        for order in orders:
            write = self._publisher.delta_publish if delta else self._publisher.publish
            write(self.topic, order)
        self._publisher.flush()
        self.system.wait_settled(self.url, self.topic)


@pytest.fixture(scope="module")
def served(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One materializer and one query service."""
    topics = [{"name": f"t{uuid.uuid4().hex[:12]}-orders", "key": ["/order"], "partitions": 1}]
    with system(kafka, tmp_path_factory.mktemp("deltas"), topics) as made:
        services = [made.service(module).start() for module in ("materializer", "query_service")]
        for service in services:
            service.wait_ready()
        yield Served(made, services[1])


@pytest.fixture
def client(served: Served) -> Iterator[Wire]:
    """A raw connection, to a topic that holds the three orders."""
    served.write(*ORDERS)
    with wire(served.url) as client:
        yield client


def test_the_chapters_update(client: Wire, served: Served) -> None:
    """An update, however it was published, is told as the key and what has changed."""
    client.send("sow_and_delta_subscribe", topic=served.topic, batch_size=10)
    assert [record["data"] for record in client.group()[1]["records"]] == ORDERS
    served.write(ORDERS[2] | {"status": "pending"})
    served.write({"order": 3, "qty": 900}, delta=True)
    served.write({"order": 3, "ticker": "MSFT"}, delta=True)
    told = [client.receive() for _ in range(3)]
    assert [message["data"] for message in told] == [
        {"order": 3, "status": "pending"},
        {"order": 3, "qty": 900},
        {"order": 3},
    ]
    assert all(message["delta"] and message["sow_key"] for message in told)


def test_options(client: Wire, served: Served) -> None:
    """`no_empties` keeps quiet, `no_sowkey` leaves the key out, `oof` tells what leaves, and what comes is whole."""
    client.send(
        "delta_subscribe",
        topic=served.topic,
        filter="/status = 'new'",
        options="oof,no_empties,no_sowkey,send_keys",
    )
    assert client.heartbeat() == []
    served.write(ORDERS[0], ORDERS[0] | {"status": "done"}, ORDERS[0], {"order": 1, "status": "new"})
    left, came, lost = (client.receive() for _ in range(3))
    assert (left["command"], left["reason"]) == ("oof", "match")
    assert (came["data"], "delta" in came, "sow_key" in came) == (ORDERS[0], False, False)
    assert (lost["data"], sorted(lost["removed"])) == ({"order": 1}, ["/customer", "/qty", "/ticker"])


def test_the_python_client(served: Served) -> None:
    """Deltas are marked, and the client goes on with them."""
    served.write(*ORDERS)
    with Client(served.url) as client:
        messages = client.sow_and_delta_subscribe(served.topic, filter="/order = 2", batch_size=10)
        assert [next(messages).command for _ in range(3)] == ["group_begin", "sow", "group_end"]
        served.write({"order": 2, "qty": 101}, delta=True)
        message = next(messages)
        assert (message.delta, message.data, message.removed) == (True, {"order": 2, "qty": 101}, ())
