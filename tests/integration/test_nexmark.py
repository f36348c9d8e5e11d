"""Nexmark's queries as views: their records equal the tables of Kafka Streams on the same input."""

import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

import examples.nexmark
from bench.merging import entered
from bench.peers.views import table_application
from examples.nexmark.generator import Event, events
from sowline.client.client import Client
from sowline.config.topics import TopicDefinition
from tests.integration.load import new_seed
from tests.integration.services import System, system, wait_for

TOPICS = Path(examples.nexmark.__file__).with_name("topics.yaml")
QUERIES = ("q0", "q1", "q2")
EVENTS = 4000
PARTITIONS = 2

Rows = Counter[bytes]


class AuctionSite:
    """The topics and views of the example under names of their own, and those that Kafka Streams writes."""

    def __init__(self, made: System, prefix: str) -> None:
        self.made = made
        self.prefix = prefix
        made.create_topics()
        for query in QUERIES:
            made.cluster.ensure_topic(
                TopicDefinition(name=self.table(query), key=("/id",), partitions=PARTITIONS)
            )

    def name(self, name: str) -> str:
        """Return the name of a topic or view."""
        return self.prefix + name

    def table(self, query: str) -> str:
        """Return the name of the topic that Kafka Streams writes a query's table to."""
        return f"{self.prefix}{query}-table"

    def write(self, some: list[Event]) -> None:
        """Publish events."""
        publisher = self.made.publisher()
        for event in some:
            publisher.publish(self.name(event.topic), event.body)
        publisher.flush()

    def has_tables_of(self, bids: int) -> bool:
        """Whether Kafka Streams has written an update, or a deletion, of each query for each bid."""
        ends = [self.made.cluster.ends(self.table(query), range(PARTITIONS)) for query in QUERIES]
        return all(sum(end.values()) >= bids for end in ends)

    def rows_of_table(self, query: str) -> Rows:
        """Return how often each row is in the table that Kafka Streams has written."""
        last = {message.key(): message.value() for message in self.made.read(self.table(query))}
        return Counter(in_order(orjson.loads(value)) for value in last.values() if value is not None)


def in_order(row: dict[str, Any]) -> bytes:
    """Return a row as text that does not depend on the order of its fields."""
    return orjson.dumps(row, option=orjson.OPT_SORT_KEYS)


def rows_of_view(client: Client, view: str) -> Rows:
    """Return how often each row is in a view."""
    return Counter(in_order(message.data) for message in client.sow(view) if message.command == "sow")


@pytest.fixture
def site(kafka: str, tmp_path: Path) -> Iterator[AuctionSite]:
    """The site, without services."""
    prefix = f"t{uuid.uuid4().hex[:12]}-"
    defined = yaml.safe_load(TOPICS.read_text())
    for one in (*defined["topics"], *defined["views"]):
        one["name"] = prefix + one["name"]
    for view in defined["views"]:
        view["from"] = prefix + view["from"]
    with system(kafka, tmp_path, defined["topics"], views=defined["views"]) as made:
        yield AuctionSite(made, prefix)


@pytest.mark.needs("javac")
def test_queries_0_to_2_equal_kafka_streams(site: AuctionSite) -> None:
    """Half of the input is there when the views begin, the other half comes while they run."""
    generated = list(events(EVENTS, new_seed()))
    bids = sum(event.topic == "bids" for event in generated)
    half = len(generated) // 2
    made = site.made
    topics = [site.name("bids"), *map(site.table, QUERIES)]
    with table_application("Nexmark", made.kafka, topics) as entrant, entered(entrant):
        site.write(generated[:half])
        query, *others = [made.service(name).start() for name in ("query_service", "materializer", "views")]
        for service in (query, *others):
            service.wait_ready()
        site.write(generated[half:])
        wait_for(lambda: site.has_tables_of(bids), "Kafka Streams' tables")
    expected = {query: site.rows_of_table(query) for query in QUERIES}
    assert expected["q0"].total() == expected["q1"].total() == bids
    assert 0 < expected["q2"].total() < bids
    with Client(query.url) as client:
        for name in QUERIES:
            wait_for(
                lambda name=name: rows_of_view(client, site.name(name)) == expected[name], f"view {name}"
            )
