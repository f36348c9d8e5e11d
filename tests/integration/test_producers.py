"""No matter who writes the log, and how: the State of the World is the same."""

import asyncio
import random
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import pytest
from confluent_kafka import Producer

from sowline.model.key import partition_of
from tests.integration.changes import read_changes
from tests.integration.load import check_all, model_of, new_seed
from tests.integration.model import FILTERS, Body
from tests.integration.producers.programs import PROGRAMS, SOURCES, Program
from tests.integration.producers.records import Delivered, History, history, records, sow
from tests.integration.services import Service, System, headers_of, system
from tests.integration.wire import Json, Wire, wire
from tests.waiting import SECONDS_MAX, wait_for

PARTITIONS = 4
KINDS = ("murmur2", "crc32", "plain", "keys", "filter", *PROGRAMS)
PAGE = Path(__file__).parents[2] / "docs" / "producers.md"


class Served:
    """A system with a topic for each kind of producer."""

    def __init__(self, made: System, names: dict[str, str], query: Service) -> None:
        self.system = made
        self.names = names
        self.query = query

    def wait_settled(self, name: str) -> None:
        """Wait until every forward is on the log and everything is applied."""
        self.system.wait_settled(self.query.url, name)
        wait_for(lambda: not model_of(self.system, name).missing, "every forward to be on the log")
        self.system.wait_settled(self.query.url, name)

    def sow(self, name: str) -> dict[str, Body]:
        """Check everything about a topic, and return its records by their `id`."""
        model = model_of(self.system, name)
        asyncio.run(check_all(model, self.system, self.query.url, name))
        return {str(body["id"]): body for body in model.sow().values()}


@pytest.fixture(scope="module")
def served(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One materializer and one query service for all tests here."""
    names = {kind: f"t{uuid.uuid4().hex[:12]}-{kind}" for kind in KINDS}
    topics = [
        {"name": name, "key": ["/id"], "partitions": PARTITIONS, "key_domain": "orders"}
        for name in names.values()
    ]
    with system(kafka, tmp_path_factory.mktemp("producers"), topics) as made:
        services = [made.service(module).start() for module in ("materializer", "query_service")]
        for service in services:
            service.wait_ready()
        yield Served(made, names, services[1])


def commands(dice: random.Random) -> list[tuple[str, str, Body]]:
    """Return commands in the order they are written, as (command, key, body)."""
    found = []
    for _ in range(3000):
        key = f"k{dice.randrange(200)}"
        command = dice.choices(("publish", "delta_publish", "sow_delete"), (5, 4, 1))[0]
        body: Body = (
            {"id": key} if command == "sow_delete" else {"id": key, f"f{dice.randrange(3)}": dice.random()}
        )
        found.append((command, key, body))
    return found


def write(kafka: str, topic: str, partitioner: str, given: list[tuple[str, str, Body]]) -> None:
    """Write commands with plain headers, by a producer that knows nothing of Sowline."""
    producer = Producer({"bootstrap.servers": kafka, "partitioner": partitioner, "enable.idempotence": True})
    for command, key, body in given:
        producer.produce(topic, orjson.dumps(body), key, headers=[("sow.command", command.encode())])
    assert producer.flush(SECONDS_MAX) == 0


def misplaced(served: Served, name: str) -> int:
    """Return how many records of a log were written to a partition that is not their key's."""
    records = [message for message in served.system.read(name) if "sow.origin" not in headers_of(message)]
    keys = [(str(orjson.loads(message.value() or b"")["id"]), message.partition()) for message in records]
    return sum(partition_of(key, PARTITIONS) != partition for key, partition in keys)


def test_another_keyed_partitioner(served: Served) -> None:
    """Records that lie where another partitioner sends their keys are forwarded in order: one State of the World."""
    given = commands(random.Random(new_seed()))
    for kind, partitioner in (("murmur2", "murmur2_random"), ("crc32", "consistent_random")):
        write(served.system.kafka, served.names[kind], partitioner, given)
        served.wait_settled(served.names[kind])
    assert misplaced(served, served.names["murmur2"]) == 0
    assert misplaced(served, served.names["crc32"]) > 1000
    assert served.sow(served.names["crc32"]) == served.sow(served.names["murmur2"])


def test_plain_producer(served: Served) -> None:
    """A producer without keys and headers loses nothing: each record it wrote once is there."""
    name = served.names["plain"]
    wanted = {str(number): {"id": number, "text": f"é{number}"} for number in range(2000)}
    producer = Producer({"bootstrap.servers": served.system.kafka, "sticky.partitioning.linger.ms": 0})
    for body in wanted.values():
        producer.produce(name, orjson.dumps(body))
    assert producer.flush(SECONDS_MAX) == 0
    served.wait_settled(name)
    assert misplaced(served, name) > 1000
    assert served.sow(name) == wanted


def by_filter(served: Served, name: str) -> None:
    """Delete by a filter, from partition 2."""
    headers = [("sow.command", b"sow_delete"), ("sow.filter", b"/qty > 50")]
    served.system.produce(name, None, None, 2, headers)


def by_keys(served: Served, name: str) -> None:
    """Delete by SOW keys, from partition 2."""
    model = model_of(served.system, name)
    chosen = [key for key, body in model.sow().items() if FILTERS["/qty > 50"](body)]
    headers = [("sow.command", b"sow_delete"), ("sow.keys", ",".join(chosen).encode())]
    served.system.produce(name, None, None, 2, headers)


@pytest.mark.parametrize(("kind", "delete"), [("filter", by_filter), ("keys", by_keys)])
def test_delete_for_all_partitions(served: Served, kind: str, delete: Callable[[Served, str], None]) -> None:
    """A delete by filter or by SOW keys reaches every partition, whichever it was written to."""
    name = served.names[kind]
    served.system.write(name, *({"id": number, "qty": number} for number in range(100)))
    served.wait_settled(name)
    delete(served, name)
    served.wait_settled(name)
    assert served.sow(name).keys() == {str(number) for number in range(51)}
    forwards = [message for message in served.system.read(name) if "sow.origin" in headers_of(message)]
    assert {message.partition() for message in forwards} == {0, 1, 3}


def share_in_own_partition(served: Served, name: str) -> float:
    """Return which part of the records with a key was written to the partition that the key belongs in."""
    written = [message for message in served.system.read(name) if "sow.origin" not in headers_of(message)]
    keys = [(key.decode(), message.partition()) for message in written if (key := message.key())]
    return sum(partition_of(key, PARTITIONS) == partition for key, partition in keys) / len(keys)


def read_live(client: Wire, served: Served, name: str, count: int) -> dict[str, list[tuple[str, Body]]]:
    """Return what a subscriber is told of each record: so many messages, and whatever comes beyond them."""
    messages: list[Json] = [client.receive() for _ in range(count)]
    served.system.wait_settled(served.query.url, name)
    received: dict[str, list[tuple[str, Body]]] = {}
    for message in [*messages, *client.heartbeat()]:
        received.setdefault(str(message["data"]["id"]), []).append((message["command"], message["data"]))
    return received


def changes_received(served: Served, name: str) -> History:
    """Return what the changes topic says of each record."""
    deliveries: History = {}
    for event in read_changes(served.system, name)[0]:
        command, body = ("publish", event.body) if event.body is not None else ("oof", event.previous)
        assert body is not None
        step = Delivered(command, body, event.about.get("correlation"))
        deliveries.setdefault(str(body["id"]), []).append(step)
    return deliveries


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.needs(*one.needs)) for name, one in PROGRAMS.items()]
)
def test_a_producer_that_knows_nothing_of_sowline(name: str, served: Served, tmp_path: Path) -> None:
    """Each key's commands take effect in their order and once, wherever the program's own partitioner puts them."""
    program, topic = PROGRAMS[name], served.names[name]
    with wire(served.query.url) as client:
        client.send("sow_and_subscribe", topic=topic, options="oof")
        client.group()
        given = records(random.Random(new_seed()), 900)
        wanted = history(program.write(served.system.kafka, topic, given, tmp_path))
        live = read_live(client, served, topic, sum(map(len, wanted.values())))
        assert live == {key: [step[:2] for step in steps] for key, steps in wanted.items()}
        client.send("sow", topic=topic, batch_size=1000)
        found = [record["data"] for message in client.group()[1:-1] for record in message["records"]]
    assert {str(body["id"]): body for body in found} == sow(wanted)
    assert changes_received(served, topic) == wanted
    assert served.system.read(served.system.topic(topic).kafka.dead) == []
    assert (share_in_own_partition(served, topic) == 1) == program.is_partitioned


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_the_page_shows_the_programs(program: Program) -> None:
    """What one copies from the page is what runs here."""
    assert f"\n{(SOURCES / program.source).read_text()}```\n" in PAGE.read_text()
