"""A gateway over nodes with shards, as processes over a real Kafka, which are killed while everything moves."""

import asyncio
import json
import uuid
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import chain
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import pytest

from sowline import Client, LocalView
from sowline.config.shard import Shard
from sowline.config.topic_definition import TopicDefinition
from tests.integration.load import Publishers, check_sow, model_of, new_seed
from tests.integration.model import FILTERS, Body
from tests.integration.services import Service, System, http_text, post_commands, system
from tests.waiting import wait_for

PARTITIONS = 6
FILTER = next(filter for filter in FILTERS if filter)


class Sharded(NamedTuple):
    """Topics, two replicas of each of three shards, and a gateway."""

    system: System
    loaded: str
    counted: str
    written: str
    nodes: list[Service]
    gateway: Service

    def gateway_records(self, topic: str) -> int:
        """Return how many records of a topic the gateway has, by its list of topics."""
        found = json.loads(http_text(f"{self.gateway.url}/v1/topics"))["topics"]
        return next(int(one["records"]) for one in found if one["name"] == topic)


@pytest.fixture(scope="module")
def sharded(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sharded]:
    """A running system whose query services hold a third of the partitions each."""
    prefix = f"t{uuid.uuid4().hex[:12]}"
    loaded, counted, written = (f"{prefix}-{name}" for name in ("loaded", "counted", "written"))
    topics = [{"name": name, "key": ["/id"], "partitions": PARTITIONS} for name in (loaded, counted, written)]
    with system(kafka, tmp_path_factory.mktemp("sharded"), topics) as made:
        nodes = [made.node(f"{number}/3") for number in (0, 1, 2, 0, 1, 2)]
        gateway = made.service("gateway", nodes=",".join(node.url for node in nodes))
        made.service("materializer").start()
        for service in (*nodes, gateway):
            service.start()
        for service in (*nodes, gateway):
            service.wait_ready()
        yield Sharded(made, loaded, counted, written, nodes, gateway)


def holds(wanted: Mapping[str, Body], view: LocalView) -> bool:
    """Return whether a view holds these records."""
    return dict(view) == wanted


def test_views_equal_the_model_while_processes_are_killed(sharded: Sharded) -> None:
    """Nodes and the gateway are killed under load: clients lose no change, and queries lack no record."""
    made, topic, nodes, gateway = sharded.system, sharded.loaded, sharded.nodes, sharded.gateway
    with (
        Client(gateway.url) as client,
        client.local_view(topic) as whole,
        client.local_view(topic, filter=FILTER) as some,
    ):
        with Publishers(made, topic, new_seed(), count=2) as publishers:
            killed = (nodes[0], nodes[4], gateway, nodes[2])
            for service in killed:
                goal = publishers.written + 100
                wait_for(lambda goal=goal: publishers.written >= goal, "the load to move on")
                service.kill()
                service.start()
            # Not within the loop: publishers write only so many commands, and a start may take long.
            for service in killed:
                service.wait_ready()
        wait_for(lambda: not model_of(made, topic).missing, "every forward to be on the log")
        made.wait_settled(gateway.url, topic)
        model = model_of(made, topic)
        for view, filter in ((whole, ""), (some, FILTER)):
            view.wait_for(partial(holds, model.sow(filter)), 60)
    asyncio.run(check_sow(model, gateway.url, topic))


def test_each_node_reads_only_its_partitions(sharded: Sharded) -> None:
    """From Kafka it fetches no bytes of others: its consumer is assigned to its own."""
    topic, count = sharded.counted, 60
    sharded.system.write(topic, *({"id": number} for number in range(count)))
    replicas = sharded.nodes[:3], sharded.nodes[3:]

    def held(node: Service) -> float:
        return node.metric(f'sowline_records{{topic="{topic}"}}')

    def counts() -> list[float]:
        return [sharded.gateway_records(topic), *(sum(map(held, one)) for one in replicas)]

    wait_for(lambda: counts() == [count] * 3, "all to have their records")
    assert all(held(node) < count for node in sharded.nodes)


def test_a_node_refuses_other_clients(sharded: Sharded) -> None:
    """Its answer would lack the other shards' records."""
    answer = post_commands(sharded.nodes[0].url, sharded.written, "sow", b"", "")
    assert (answer["status"], answer["reason"]) == (421, "gateway required")


def test_writes_and_fields(sharded: Sharded) -> None:
    """A write's outcome comes back through the gateway, and a node that it asks knows the fields."""
    url, topic = sharded.gateway.url, sharded.written
    lines = b"\n".join(b'{"id": "written %d", "desk": "NY"}' % number for number in range(20))
    answer = post_commands(url, topic, "publish", lines, "application/x-ndjson", ack="processed")
    assert (answer["status"], answer["outcomes"]) == (200, {"applied": 20})
    wait_for(lambda: "/desk" in http_text(f"{url}/v1/topics/{topic}/fields"), "the field to be known")
    answer = post_commands(url, topic, "sow_delete", b"", "", filter="/desk = 'NY'", ack="processed")
    assert (answer["status"], answer["records_deleted"]) == (200, 20)


def test_pages_far_down(sharded: Sharded) -> None:
    """Pages after many records continue each other, and together are what a query without a page finds."""
    url, topic = sharded.gateway.url, sharded.written
    lines = b"\n".join(b'{"id": "deep %d", "rank": %d}' % (number, number % 7) for number in range(1500))
    answer = post_commands(url, topic, "publish", lines, "application/x-ndjson", ack="processed")
    assert (answer["status"], answer["outcomes"]) == (200, {"applied": 1500})
    with Client(url) as client:
        expected = keys(client, topic)
        pages = [keys(client, topic, skip_n=skip, top_n=250) for skip in range(0, 1750, 250)]
    assert len(expected) == 1500
    assert [len(page) for page in pages] == [250] * 6 + [0]
    assert list(chain(*pages)) == expected
    answer = post_commands(url, topic, "sow_delete", b"", "", filter="/rank >= 0", ack="processed")
    assert (answer["status"], answer["records_deleted"]) == (200, 1500)


def keys(client: Client, topic: str, **page: Any) -> list[str | None]:
    """Return the SOW keys of ranked records in their order."""
    messages = client.sow(topic, filter="/rank >= 0", order_by="/rank DESC", batch_size=1000, **page)
    return [message.sow_key for message in messages if message.command == "sow"]


def test_a_view_of_a_view_whose_partitions_are_elsewhere(
    kafka: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A read of it waits for a write to the first source, though no query service holds both views."""
    shards = [Shard(number, 2) for number in range(2)]
    names = (f"t{uuid.uuid4().hex[:12]}" for _ in range(100))
    name = next(name for name in names if _holder(shards, f"{name}-all") != _holder(shards, f"{name}-open"))
    views: list[dict[str, Any]] = [
        {"name": f"{name}-all", "from": name, "projection": ["/id", "/state"]},
        {"name": f"{name}-open", "from": f"{name}-all", "filter": "/state = 'open'"},
    ]
    topics = [{"name": name, "key": "/id", "partitions": 1}]
    with system(kafka, tmp_path_factory.mktemp("elsewhere"), topics, views=views) as made:
        nodes = [made.node(str(shard)).start() for shard in shards]
        gateway = made.service("gateway", nodes=",".join(node.url for node in nodes)).start()
        others = [made.service(service).start() for service in ("materializer", "views")]
        for service in (*nodes, gateway, *others):
            service.wait_ready()
        with Client(gateway.url) as client:
            for number, state in enumerate(("open", "closed", "open")):
                record = {"id": 1, "number": number, "state": state}
                bookmark = client.publish(name, record, wait=True) or ""
                expected = [{"id": 1, "state": "open"}] * (state == "open")
                answer = client.sow(f"{name}-open", at_least=bookmark)
                found = [message for message in answer if message.command == "sow"]
                assert [message.data for message in found] == expected
                read = [client.record(f"{name}-open", one.sow_key or "", at_least=bookmark) for one in found]
                assert read == expected
                assert client.explain(f"{name}-open", at_least=bookmark)


def _holder(shards: list[Shard], topic: str) -> list[int]:
    """Return which shards hold a topic of one partition."""
    definition = SimpleNamespace(name=topic, partitions=1)
    return [shard.number for shard in shards if shard.partitions(cast("TopicDefinition", definition))]
