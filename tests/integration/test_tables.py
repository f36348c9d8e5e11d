"""Tables of a real system, by a query service and by a gateway: joined in DuckDB, and read while records change."""

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any, NamedTuple

import duckdb
import pytest

from sowline import Client
from sowline.client.messages import Messages
from tests.integration.services import System, system
from tests.waiting import wait_for

PARTITIONS = 4
COUNT = 300
KINDS = ("query service", "gateway")
kinds = pytest.mark.parametrize("kind", KINDS)


class Tables(NamedTuple):
    """Two topics to join, one that changes, one with a history, and the URLs of what answers for them."""

    system: System
    orders: str
    clients: str
    changing: str
    past: str
    urls: dict[str, str]


@pytest.fixture(scope="module")
def tables(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tables]:
    """A query service with everything, and a gateway over two shards."""
    prefix = f"t{uuid.uuid4().hex[:12]}"
    orders, clients, changing = (f"{prefix}-{name}" for name in ("orders", "clients", "changing"))
    topics: list[dict[str, Any]] = [
        {"name": name, "key": "/id", "partitions": PARTITIONS} for name in (orders, clients, changing)
    ]
    topics.append({"name": f"{prefix}-past", "key": "/id", "history": {"window": "1h"}})
    with system(kafka, tmp_path_factory.mktemp("tables"), topics) as made:
        nodes = [made.node(f"{number}/2") for number in range(2)]
        whole = made.service("query_service")
        gateway = made.service("gateway", nodes=",".join(node.url for node in nodes))
        for service in (made.service("materializer"), whole, *nodes, gateway):
            service.start()
        for service in (whole, *nodes, gateway):
            service.wait_ready()
        for name in (orders, changing):
            made.write(
                name, *({"id": at, "client": at % 7, "qty": at, "price": at / 4} for at in range(COUNT))
            )
        made.write(clients, *({"id": at, "name": f"é{at}"} for at in range(7)))
        urls = dict(zip(KINDS, (whole.url, gateway.url), strict=True))
        for url in urls.values():
            for name in (orders, clients, changing):
                made.wait_settled(url, name)
        yield Tables(made, orders, clients, changing, f"{prefix}-past", urls)


@kinds
def test_two_topics_joined_in_duckdb(tables: Tables, kind: str) -> None:
    """Each table names its topic and its instant; together they are what the records are."""
    with Client(tables.urls[kind]) as client:
        orders = client.table(tables.orders, columns={"/client": "int64", "/qty": None})
        clients = client.table(tables.clients)
    joined = "SELECT name, sum(qty) FROM orders JOIN clients ON orders.client = clients.id GROUP BY ALL ORDER BY ALL"
    with duckdb.connect() as database:
        for name, table in (("orders", orders), ("clients", clients)):
            database.register(name, table)
        rows = database.sql(joined).fetchall()
    assert rows == [(f"é{one}", sum(range(one, COUNT, 7))) for one in range(7)]
    for topic, table in ((tables.orders, orders), (tables.clients, clients)):
        metadata = table.schema.metadata
        assert metadata[b"sowline.topic"].decode() == topic
        assert metadata[b"sowline.bookmark"].decode().startswith(f"{topic}:")


@kinds
def test_a_past_time(tables: Tables, kind: str) -> None:
    """A table has the records of that time, although later ones have other fields, and values of other types."""
    topic, mine = tables.past, f"/id = '{kind}'"
    with Client(tables.urls[kind]) as client:

        def written(name: object, **more: object) -> datetime:
            client.publish(topic, {"id": kind, "name": name, **more}, wait=True)
            (sow,) = (one for one in newest() if one.command == "sow")
            return datetime.fromisoformat(str(sow.timestamp))

        def newest() -> Messages:
            fresh = client.effect
            return client.sow(topic, filter=mine, options="timestamp", at_least=fresh)

        then = written("before")
        # The next write may be within the same millisecond.
        wait_for(lambda: written(7, more=True) > then, "the log's time to move on")
        table = client.table(topic, filter=mine, bookmark=then)
    assert table.to_pylist() == [{"id": kind, "name": "before"}]


@kinds
def test_tables_while_records_change(tables: Tables, kind: str) -> None:
    """Both passes are of one instant: a table has the records of a query at its bookmark, and their fields."""
    url, topic = tables.urls[kind], tables.changing

    def write() -> None:
        with Client(url) as client:
            for at in range(1500):
                client.publish(topic, {"id": at % 40, "qty": at, "price": 0.5, f"field {at // 50}": at})
            client.flush()

    with Client(url) as client, ThreadPoolExecutor(1) as pool:
        writing, seen = pool.submit(write), 0
        while not writing.done() or seen < 3:
            table = client.table(topic)
            bookmark = table.schema.metadata[b"sowline.bookmark"].decode()
            expected = {record["id"]: record for record in client.records(topic, bookmark=bookmark)}
            got = {row["id"]: _without_null(row) for row in table.to_pylist()}
            assert got == expected
            assert set(table.column_names) == {name for record in expected.values() for name in record}
            seen += 1
        writing.result()


def _without_null(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}
