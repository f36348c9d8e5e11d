"""Nexmark's queries as views: their records equal the tables of Kafka Streams, and a plain recomputation."""

import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
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
from sowline.config.topic_definition import define_topic
from tests.integration.load import new_seed
from tests.integration.services import System, system
from tests.waiting import wait_for

DEFINED = Path(examples.nexmark.__file__).with_name("topics.yaml")
SOURCES = ("persons", "auctions", "bids")
QUERIES = ("q0", "q1", "q2", "q3", "q4")
EVENTS = 4000
PARTITIONS = 2

Row = dict[str, Any]
Rows = Counter[bytes]
"""How often each row is in a table."""


class AuctionSite:
    """The topics and views of the example under names of their own, and those that Kafka Streams writes."""

    def __init__(self, made: System, prefix: str) -> None:
        self.made = made
        self._prefix = prefix
        made.create_topics()
        for table in self.tables:
            definition = define_topic(name=table, key=("/id",), partitions=PARTITIONS)
            made.cluster.ensure_topic(definition)

    def name(self, name: str) -> str:
        """Return the name of a topic or view."""
        return self._prefix + name

    @property
    def tables(self) -> list[str]:
        """The topics that Kafka Streams writes the tables of the queries to."""
        return [f"{self.name(query)}-table" for query in QUERIES]

    def write(self, some: list[Event]) -> None:
        """Publish events."""
        publisher = self.made.publisher()
        for event in some:
            publisher.publish(self.name(event.topic), event.body)
        publisher.flush()

    def rows_of_table(self, table: str) -> Rows:
        """Return what Kafka Streams has written by now."""
        last = {message.key(): message.value() for message in self.made.read(table)}
        return rows(orjson.loads(value) for value in last.values() if value is not None)


def rows(some: Iterable[Row]) -> Rows:
    """Return how often each row is among these; the order of its fields does not count."""
    return Counter(orjson.dumps(row, option=orjson.OPT_SORT_KEYS) for row in some)


def rows_of_view(client: Client, view: str) -> Rows:
    """Return the records of a view."""
    return rows(message.data for message in client.sow(view) if message.command == "sow")


def recomputed(generated: list[Event]) -> dict[str, Rows]:
    """Return the result of each query."""
    persons, auctions, bids = (
        [event.body for event in generated if event.topic == topic] for topic in SOURCES
    )
    seller_of = {person["id"]: person for person in persons}
    auction_of = {auction["id"]: auction for auction in auctions}
    final: dict[int, int] = defaultdict(int)
    for bid in bids:
        auction = auction_of[bid["auction"]]
        if auction["dateTime"] <= bid["dateTime"] <= auction["expires"]:
            final[bid["auction"]] = max(final[bid["auction"]], bid["price"])
    prices: dict[int, list[int]] = defaultdict(list)
    for id, price in final.items():
        prices[auction_of[id]["category"]].append(price)
    kept = ("auction", "bidder", "dateTime", "extra")
    return {
        "q0": rows(bids),
        "q1": rows({**{name: bid[name] for name in kept}, "price": bid["price"] * 0.908} for bid in bids),
        "q2": rows(
            {"auction": bid["auction"], "price": bid["price"]} for bid in bids if bid["auction"] % 123 == 0
        ),
        "q3": rows(
            {**{name: seller_of[auction["seller"]][name] for name in ("name", "city", "state")}, "id": id}
            for id, auction in auction_of.items()
            if auction["category"] == 10 and seller_of[auction["seller"]]["state"] in ("OR", "ID", "CA")
        ),
        "q4": rows({"category": one, "average": sum(some) / len(some)} for one, some in prices.items()),
    }


def wait_for_rows(read: Callable[[], Rows], expected: Rows, what: str) -> None:
    """Wait until a table has these rows."""
    wait_for(lambda: read() == expected, what)


@pytest.fixture
def site(kafka: str, tmp_path: Path) -> Iterator[AuctionSite]:
    """The site, without services."""
    prefix = f"t{uuid.uuid4().hex[:12]}-"
    defined = yaml.load(DEFINED.read_text(), yaml.BaseLoader)  # elsewhere, `on` is a boolean
    for one in (*defined["topics"], *defined["views"]):
        one["name"] = prefix + one["name"]
    for view in defined["views"]:
        view["from"] = prefix + view["from"]
        for join in view.get("join", ()):
            join["topic"] = prefix + join["topic"]
    with system(kafka, tmp_path, defined["topics"], views=defined["views"]) as made:
        yield AuctionSite(made, prefix)


@pytest.mark.long
@pytest.mark.needs("javac")
def test_nexmark_equals_kafka_streams(site: AuctionSite) -> None:
    """Half of the input is there when the views begin, the other half comes while they run."""
    generated = list(events(EVENTS, new_seed()))
    half = len(generated) // 2
    expected = recomputed(generated)
    assert all(expected.values())
    made = site.made
    topics = [*map(site.name, SOURCES), *site.tables]
    with table_application("Nexmark", made.kafka, topics) as entrant, entered(entrant):
        site.write(generated[:half])
        query, *others = [
            made.service(module).start() for module in ("query_service", "materializer", "views")
        ]
        for service in (query, *others):
            service.wait_ready()
        site.write(generated[half:])
        for name, table in zip(QUERIES, site.tables, strict=True):
            wait_for_rows(partial(site.rows_of_table, table), expected[name], f"the table of {name}")
    with Client(query.url) as client:
        for name in QUERIES:
            wait_for_rows(partial(rows_of_view, client, site.name(name)), expected[name], f"view {name}")
