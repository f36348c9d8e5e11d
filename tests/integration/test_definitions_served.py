"""`topics.yaml` changes while a query service runs: clients find new topics, and others notice nothing."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from sowline import Client
from sowline.cli.connection import ConnectionOptions
from sowline.cli.definitions import require_applied
from sowline.errors import SowlineError
from tests.integration.services import System, http_message, http_status, http_text, system
from tests.waiting import SECONDS_MAX, wait_for

TIMES = int(os.environ.get("TIMES", "5"))
"""How often definitions are added and removed in a row; `make test-all` does it 200 times."""


class Serving:
    """A system with a topic that stays, whose services run."""

    def __init__(self, made: System, prefix: str) -> None:
        self.system = made
        self.prefix = prefix
        self.materializer = made.service("materializer").start().wait_ready()
        self.query = made.service("query_service").start().wait_ready()

    def name(self, topic: str) -> str:
        """Return the whole name of a topic."""
        return f"{self.prefix}-{topic}"

    def topic(self, name: str, **fields: Any) -> dict[str, Any]:
        """Return the definition of a topic."""
        return {"name": self.name(name), "key": "/id", "partitions": 2, **fields}

    def redefine(self, *topics: dict[str, Any], **lists: list[dict[str, Any]]) -> None:
        """Write the file, and wait until both services run by it."""
        self.system.redefine(topics=list(topics), **lists)
        names = {one["name"] for one in topics}
        wait_for(
            lambda: all(names == set(self.described(url)) for url in self.urls),
            "the services to take the file",
        )

    @property
    def urls(self) -> tuple[str, str]:
        """The services."""
        return self.materializer.url, self.query.url

    def described(self, url: str) -> dict[str, dict[str, Any]]:
        """Return the definitions by which a service runs, by name."""
        return {
            one["name"]: one for one in json.loads(http_text(f"{url}/status"))["definitions"]["described"]
        }

    def about(self, name: str) -> dict[str, Any]:
        """Return the description of a topic by the query service."""
        listed = json.loads(http_text(f"{self.query.url}/v1/topics"))["topics"]
        found: dict[str, Any] = next(one for one in listed if one["name"] == self.name(name))
        return found

    def ids(self, name: str, **asked: Any) -> list[int]:
        """Return the records of a topic."""
        with Client(self.query.url) as client:
            return sorted(
                one.data["id"] for one in client.sow(self.name(name), **asked) if one.command == "sow"
            )

    def wait_ids(self, name: str, *ids: int) -> None:
        """Wait until a topic has exactly these records."""

        def found() -> bool:
            try:
                return self.ids(name) == [*ids]
            except SowlineError:
                return False

        wait_for(found, f"{name} to have {ids}")


@pytest.fixture
def serving(kafka: str, tmp_path: Path, prefix: str) -> Iterator[Serving]:
    """Return a system with one topic."""
    with system(kafka, tmp_path, [{"name": f"{prefix}-orders", "key": "/id", "partitions": 2}]) as made:
        yield Serving(made, prefix)


def test_a_new_topic_is_served_to_connected_clients(serving: Serving) -> None:
    """One that subscribes to another topic reads on by the same connection, and finds the new one."""
    with Client(serving.query.url) as client:
        orders = client.sow_and_subscribe(serving.name("orders"))
        assert next(orders).command == "group_begin"
        serving.redefine(serving.topic("orders"), serving.topic("trades"))
        wait_for(lambda: not serving.about("trades")["loading"], "the topic to be loaded")
        trades = client.subscribe(serving.name("trades"))
        client.publish(serving.name("trades"), {"id": 1})
        client.publish(serving.name("orders"), {"id": 7})
        assert next(trades).data == {"id": 1}
        assert next(one for one in orders if one.command == "publish").data == {"id": 7}
    assert serving.ids("trades") == [1]
    assert "lost" not in serving.query.log


def test_a_connected_client_writes_to_a_new_topic(serving: Serving) -> None:
    """Its publisher, which knows the topics of its first write, asks for the new one; a larger record has room."""
    with Client(serving.query.url) as client:
        client.publish(serving.name("orders"), {"id": 1})
        serving.redefine(serving.topic("orders"), serving.topic("trades", record_bytes_max=2_000_000))
        client.publish(serving.name("trades"), {"id": 2, "text": "x" * 1_500_000})
        client.flush()
        serving.wait_ids("trades", 2)
        with pytest.raises(SowlineError, match="expected a topic"):
            client.publish(serving.name("unknown"), {"id": 3})


def test_a_connected_client_writes_by_a_raised_limit(serving: Serving) -> None:
    """What was too large is written once the limit is applied; what is too large still is an error."""
    name = serving.name("orders")

    def limit(bytes_max: int) -> None:
        serving.redefine(serving.topic("orders", record_bytes_max=bytes_max))
        require_applied(serving.urls, serving.system.topics, SECONDS_MAX, ConnectionOptions())

    limit(1000)
    with Client(serving.query.url) as client:
        large = {"id": 1, "text": "x" * 2000}
        with pytest.raises(SowlineError, match="at most 1000 bytes"):
            client.publish(name, large)
        limit(5000)
        client.publish(name, large)
        with pytest.raises(SowlineError, match="at most 5000 bytes"):
            client.publish(name, {"id": 2, "text": "x" * 6000})
        client.flush()
    serving.wait_ids("orders", 1)


def test_a_new_topic_leaves_the_service_ready(serving: Serving) -> None:
    """A load balancer does not take it away while the topic has no owner: no materializer runs."""
    serving.materializer.stop()
    serving.system.redefine(topics=[serving.topic("orders"), serving.topic("trades")])
    wait_for(lambda: len(serving.described(serving.query.url)) == 2, "the service to take the file")
    assert serving.about("trades")["loading"]
    assert (http_status(f"{serving.query.url}/readyz"), http_status(f"{serving.query.url}/startupz")) == (
        200,
        200,
    )
    assert http_status(f"{serving.query.url}/v1/topics/{serving.name('trades')}/records/1") == 503
    serving.materializer.start().wait_ready()
    serving.wait_ids("trades")


def test_a_removed_topic_ends_its_subscriptions(serving: Serving) -> None:
    """With a reason; others go on. It comes back with the records that it had."""
    serving.redefine(serving.topic("orders"), serving.topic("trades"))
    serving.system.write(serving.name("trades"), {"id": 1})
    serving.wait_ids("trades", 1)
    with Client(serving.query.url) as client:
        orders, trades = (
            client.subscribe(serving.name("orders")),
            client.sow_and_subscribe(serving.name("trades")),
        )
        page = client.sow_and_subscribe(serving.name("trades"), order_by="/id", top_n=5, skip_n=0)
        assert [next(stream).command for stream in (trades, page)] == ["group_begin"] * 2
        serving.redefine(serving.topic("orders"))
        for stream in (trades, page):
            with pytest.raises(SowlineError, match=r"which has left it") as ended:
                list(stream)
            assert ended.value.reason == "invalid topic"
        client.publish(serving.name("orders"), {"id": 7})
        assert next(orders).data == {"id": 7}
        with pytest.raises(SowlineError, match="expected a topic"):
            client.subscribe(serving.name("trades"))
    serving.redefine(serving.topic("orders"), serving.topic("trades"))
    serving.wait_ids("trades", 1)


def test_indexes_and_history_change_while_it_runs(serving: Serving) -> None:
    """A subscription reads on; the past begins where the history does, and ends with it."""
    with Client(serving.query.url) as client:
        orders = client.subscribe(serving.name("orders"))
        client.publish(serving.name("orders"), {"id": 1, "desk": "a"})
        assert next(orders).data["id"] == 1
        fields = {"indexes": ["/desk"], "hash_indexes": [["/desk", "/id"]], "history": {"window": "1h"}}
        serving.redefine(serving.topic("orders", **fields))
        wait_for(
            lambda: "history" in serving.described(serving.query.url)[serving.name("orders")]["fields"], "it"
        )
        wait_for(lambda: len(serving.about("orders")["indexes"]) >= 2, "its indexes")
        client.publish(serving.name("orders"), {"id": 2, "desk": "a"})
        assert next(orders).data["id"] == 2
        assert serving.ids("orders", filter="/desk = 'a'") == [1, 2]
        wait_for(lambda: serving.query.metric("sowline_history_oldest_seconds") > 0, "its history")
        serving.redefine(serving.topic("orders"))
        wait_for(lambda: not serving.query.metric("sowline_history_oldest_seconds"), "the history to go")
        client.publish(serving.name("orders"), {"id": 3})
        assert next(orders).data["id"] == 3


@pytest.mark.parametrize("step", ["at once", "when it knows"])
def test_a_query_service_that_is_killed_during_a_change(serving: Serving, step: str) -> None:
    """It starts with the new file, and has everything."""
    serving.system.write(serving.name("orders"), {"id": 1})
    serving.system.redefine(topics=[serving.topic("orders", indexes=["/desk"]), serving.topic("trades")])
    if step == "when it knows":
        wait_for(lambda: "definitions changed" in serving.query.log, "the service to take the file")
    serving.query.kill()
    serving.query.start().wait_ready()
    serving.system.write(serving.name("trades"), {"id": 2})
    serving.wait_ids("trades", 2)
    serving.wait_ids("orders", 1)


@pytest.mark.long
def test_many_changes_leave_nothing_behind(serving: Serving) -> None:
    """No thread, no descriptor, no topic in the metrics; and the topic that stays misses nothing."""
    query = serving.query

    def add_and_remove(number: int) -> None:
        serving.redefine(
            serving.topic("orders"), serving.topic(f"trades{number % 3}", history={"window": "1h"})
        )
        serving.redefine(serving.topic("orders"))

    with Client(query.url) as client:
        orders = client.subscribe(serving.name("orders"))
        for number in range(3):
            add_and_remove(number)
        before = query.threads, query.descriptors
        for number in range(TIMES):
            client.publish(serving.name("orders"), {"id": number})
            add_and_remove(number)
        assert [next(orders).data["id"] for _ in range(TIMES)] == [*range(TIMES)]

        def settled() -> bool:
            return query.threads <= before[0] and query.descriptors <= before[1]

        wait_for(settled, "threads and descriptors to go", SECONDS_MAX)
    wait_for(lambda: "trades" not in http_text(f"{query.url}/metrics"), "its metrics to go")


def test_a_gateway_follows_too(serving: Serving) -> None:
    """Its clients find the new topic by their connection, and learn that a topic has left."""
    gateway = serving.system.service("gateway", nodes=serving.query.url).start().wait_ready()
    with Client(gateway.url) as client:
        orders = client.subscribe(serving.name("orders"))
        serving.redefine(serving.topic("orders"), serving.topic("trades"))
        wait_for(lambda: len(serving.described(gateway.url)) == 2, "the gateway to take the file")
        serving.system.write(serving.name("trades"), {"id": 1})
        serving.wait_ids("trades", 1)
        trades = client.sow_and_subscribe(serving.name("trades"))
        assert [next(trades).command for _ in range(3)] == ["group_begin", "sow", "group_end"]
        client.publish(serving.name("trades"), {"id": 2})
        assert next(trades).data == {"id": 2}
        serving.redefine(serving.topic("orders"))
        with pytest.raises(SowlineError) as ended:
            list(trades)
        assert ended.value.reason in ("invalid topic", "shard unavailable")
        client.publish(serving.name("orders"), {"id": 7})
        assert next(orders).data == {"id": 7}


@pytest.mark.parametrize("step", ["at once", "when it knows"])
def test_a_gateway_that_is_killed_during_a_change(serving: Serving, step: str) -> None:
    """It starts with the new file; a subscription goes on by itself, and the new topic is there."""
    gateway = serving.system.service("gateway", nodes=serving.query.url).start().wait_ready()
    with Client(gateway.url) as client:
        orders = client.sow_and_subscribe(serving.name("orders"))
        assert [next(orders).command for _ in range(2)] == ["group_begin", "group_end"]
        serving.system.redefine(topics=[serving.topic("orders"), serving.topic("trades")])
        if step == "when it knows":
            wait_for(lambda: "definitions changed" in gateway.log, "the gateway to take the file")
        gateway.kill()
        serving.system.write(serving.name("orders"), {"id": 1})
        serving.system.write(serving.name("trades"), {"id": 2})
        gateway.start().wait_ready()
        assert next(orders).data == {"id": 1}
        serving.wait_ids("trades", 2)
        trades = client.sow(serving.name("trades"), at_least=serving.about("trades")["bookmark"])
        assert [one.data for one in trades if one.command == "sow"] == [{"id": 2}]


@pytest.mark.long
def test_a_file_that_differs_from_the_log_is_reported(serving: Serving, tmp_path: Path) -> None:
    """A service with an older file names what differs, and only that; it serves what the materializer makes."""
    others: list[dict[str, Any]] = [
        serving.topic("notes", documents=True),
        serving.topic("fix", message_type="fix", key="/11", expiration="1h"),
    ]
    view = {"from": serving.name("orders"), "grouping": ["/desk"], "projection": ["COUNT(1) AS /count"]}
    views = [{"name": serving.name("counts"), **view}]
    conflated = [{"name": serving.name("slow"), "from": serving.name("orders"), "interval": "1s"}]
    older = tmp_path / "older.yaml"
    topics = [serving.topic("orders", records_max=5), serving.topic("trades", key="/other"), *others]
    older.write_text(yaml.safe_dump({"topics": topics, "views": views, "conflated": conflated}))
    topics[:2] = [serving.topic("orders"), serving.topic("trades")]
    serving.system.redefine(topics=topics, views=views, conflated=conflated)
    runner = serving.system.service("views").start().wait_ready()
    query = serving.system.service("query_service", config=older).start().wait_ready()
    serving.system.write(serving.name("orders"), *({"id": number} for number in range(7)))

    def reported() -> list[str]:
        return sorted(json.loads(http_text(f"{query.url}/status"))["definitions"]["log_differences"])

    wait_for(
        lambda: query.metric("sowline_definitions_differing") == 2,
        "two definitions to be differing for a while",
    )
    orders, trades = reported()
    assert orders == f"{serving.name('orders')} (records_max): the log has another definition"
    assert trades == f"{serving.name('trades')}: its changes are made by another definition"
    wait_for(lambda: orders in http_message(f"{query.url}/readyz"), "the service to name the definition")
    assert "definition differs from the log" in query.log
    with Client(query.url) as client:
        assert sum(one.command == "sow" for one in client.sow(serving.name("orders"))) == 7
    assert json.loads(http_text(f"{serving.query.url}/status"))["definitions"]["log_differences"] == []
    runner.stop()
