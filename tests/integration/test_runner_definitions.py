"""`topics.yaml` changes while views and fanouts run: they come, change and go, and the others notice nothing."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sowline.config.fanouts import FanoutDefinition
from sowline.config.kafka_options import kafka_config
from sowline.kafka.admin import Cluster
from tests.integration.changes import read_changes
from tests.integration.services import Service, System, http_status, http_text, system
from tests.waiting import wait_for

TIMES = int(os.environ.get("TIMES", "5"))
"""How often definitions are added and removed in a row; `make test-all` does it 200 times."""


class Running:
    """A topic, its materializer, and the services of views and fanouts, which have nothing to do yet."""

    def __init__(self, made: System, prefix: str) -> None:
        self.system = made
        self.prefix = prefix
        self.views, self.fanouts, _ = [
            made.service(name).start().wait_ready() for name in ("views", "fanout", "materializer")
        ]

    def orders(self, **fields: Any) -> dict[str, Any]:
        """Return the definition of the topic."""
        return {"name": f"{self.prefix}-orders", "key": "/id", "partitions": 2, **fields}

    def view(self, name: str, **fields: Any) -> dict[str, Any]:
        """Return the definition of a view that counts the records of each desk."""
        count = {"grouping": ["/desk"], "projection": ["/desk", "COUNT(1) AS /n"]}
        return {"name": f"{self.prefix}-{name}", "from": f"{self.prefix}-orders", **count, **fields}

    def fanout(self, name: str, **fields: Any) -> dict[str, Any]:
        """Return the definition of a fanout."""
        return {"name": f"{self.prefix}-{name}", "topic": f"{self.prefix}-orders", **fields}

    def redefine(self, *, orders: dict[str, Any] | None = None, **lists: list[dict[str, Any]]) -> None:
        """Write the file."""
        self.system.redefine(topics=[orders or self.orders()], **lists)

    def publish(self, *ids: int) -> None:
        """Publish records, all of one desk."""
        self.system.write(f"{self.prefix}-orders", *({"id": one, "desk": "a"} for one in ids))

    def wait_counted(self, name: str, count: int) -> None:
        """Wait until a view has so many records."""

        def counts() -> list[int]:
            events, _ = read_changes(self.system, f"{self.prefix}-{name}")
            return [event.body["n"] for event in events if event.body]

        wait_for(lambda: counts()[-1:] == [count], f"{name} to count {count} records")

    def wait_written(self, name: str, *ids: int) -> None:
        """Wait until a fanout has written exactly these records, each once."""
        output = FanoutDefinition.model_validate(self.fanout(name)).output

        def written() -> list[int]:
            messages = self.system.read(output)
            return sorted(json.loads(one.value() or b"{}")["id"] for one in messages if one.value())

        wait_for(lambda: len(written()) >= len(ids), f"{name} to have {len(ids)} messages")
        assert written() == sorted(ids)

    def wait_named(self, service: Service, label: str, *names: str) -> None:
        """Wait until a service's metrics are of exactly these names."""
        wanted = {f"{self.prefix}-{name}" for name in names}

        def found() -> set[str]:
            text = http_text(f"{service.url}/metrics")
            return set(
                re.findall(rf'^sowline_{label}_behind_changes{{{label}="([^"]*)"}}', text, re.MULTILINE)
            )

        wait_for(lambda: found() == wanted, f"the service to run {wanted}")

    def beginnings(self, name: str) -> int:
        """Return how often the views service has begun to load a partition for a view."""
        begun = re.compile(rf'"view": "{self.prefix}-{name}".*"event": "view loads its source"')
        return len(begun.findall(self.views.log))


@pytest.fixture
def running(kafka: str, tmp_path: Path, prefix: str) -> Iterator[Running]:
    """Return a system with one topic, and its services."""
    with system(kafka, tmp_path, [{"name": f"{prefix}-orders", "key": "/id", "partitions": 2}]) as made:
        yield Running(made, prefix)


def test_views_come_and_go(running: Running) -> None:
    """The first one too, and one that goes takes its metrics with it; the others are not loaded again."""
    running.publish(1, 2)
    running.redefine(views=[running.view("first")])
    running.wait_counted("first", 2)
    running.redefine(views=[running.view("first"), running.view("second")])
    running.wait_counted("second", 2)
    running.wait_named(running.views, "view", "first", "second")
    assert (running.beginnings("first"), running.beginnings("second")) == (2, 2)
    running.redefine(views=[running.view("second")])
    running.wait_named(running.views, "view", "second")
    running.publish(3)
    running.wait_counted("second", 3)
    assert running.beginnings("second") == 2
    assert http_status(f"{running.views.url}/startupz") == http_status(f"{running.views.url}/readyz") == 200


def test_a_view_with_a_join_comes(running: Running) -> None:
    """Its memory is shared out when it comes: there was no directory for joins before."""
    desks = {"name": f"{running.prefix}-desks", "key": "/desk", "partitions": 1}
    joined = [{"topic": desks["name"], "on": "/desk = /desk", "as": "about"}]
    running.publish(1)
    for names in (["first"], ["first", "second"]):
        views = [running.view(name, join=joined) for name in names]
        running.system.redefine(topics=[running.orders(), desks], views=views)
        running.wait_counted(names[-1], 1)
    assert running.beginnings("first") == 2


def test_a_changed_view_begins_again(running: Running) -> None:
    """Another index of its source alone doesn't make it load again; the fanout of that topic goes on, too."""
    running.redefine(fanouts=[running.fanout("out")], views=[running.view("all")])
    running.publish(1)
    running.wait_written("out", 1)
    running.wait_counted("all", 1)
    indexed = running.orders(indexes=["/desk"])
    running.redefine(orders=indexed, fanouts=[running.fanout("out")], views=[running.view("all")])
    wait_for(lambda: '"live": ["' in running.fanouts.log, "the service to take the file")
    assert running.beginnings("all") == 2
    view = running.view("all") | {"indexes": ["/n"]}
    running.redefine(orders=indexed, fanouts=[running.fanout("out")], views=[view])
    wait_for(lambda: running.beginnings("all") == 4, "the view to load its source again")
    running.publish(2)
    running.wait_written("out", 1, 2)
    running.wait_counted("all", 2)


def test_a_fanout_takes_larger_records(running: Running) -> None:
    """Its topic takes what the topic takes that it reads, also once that takes more."""
    running.redefine(fanouts=[running.fanout("f")])
    running.wait_named(running.fanouts, "fanout", "f")
    cluster = Cluster(kafka_config(running.system.kafka))
    output = FanoutDefinition.model_validate(running.fanout("f")).output
    before = int(cluster.settings(output)["max.message.bytes"])
    running.redefine(orders=running.orders(record_bytes_max=before + 1), fanouts=[running.fanout("f")])
    wait_for(
        lambda: int(cluster.settings(output)["max.message.bytes"]) > before,
        "the topic to have room",
    )


def test_a_fanout_changes_and_goes(running: Running) -> None:
    """It continues with its new filter; once it is gone, it writes nothing, and coming back it misses nothing."""
    running.redefine(fanouts=[running.fanout("out"), running.fanout("other")])
    running.publish(1)
    running.wait_written("out", 1)
    running.redefine(fanouts=[running.fanout("out", filter="/id > 5"), running.fanout("other")])
    service = running.fanouts
    wait_for(lambda: '"live": ["' in service.log, "the service to take the file")
    running.publish(2, 7)
    running.wait_written("out", 1, 7)
    running.wait_written("other", 1, 2, 7)
    running.redefine(fanouts=[running.fanout("other")])
    running.wait_named(service, "fanout", "other")
    running.publish(8)
    running.wait_written("other", 1, 2, 7, 8)
    running.wait_written("out", 1, 7)
    running.redefine(fanouts=[running.fanout("out", filter="/id > 5"), running.fanout("other")])
    running.wait_written("out", 1, 7, 8)


@pytest.mark.parametrize("is_known", [False, True])
def test_services_that_are_killed_during_a_change(running: Running, is_known: bool) -> None:
    """Whatever they have done of it, the next ones complete it."""
    running.publish(1)
    running.redefine(fanouts=[running.fanout("out")], views=[running.view("all")])
    for service in (running.views, running.fanouts):
        if is_known:
            wait_for(lambda one=service: "definitions changed" in one.log, "the service to take the file")
        service.kill()
        service.start().wait_ready()
    running.wait_counted("all", 1)
    running.wait_written("out", 1)


@pytest.mark.long
def test_many_changes_leave_nothing_behind(running: Running) -> None:
    """No thread, no descriptor, no label of a metric."""
    services = running.views, running.fanouts

    def add_and_remove(number: int) -> None:
        name = f"extra{number % 3}"
        kept_view, kept_fanout = running.view("all"), running.fanout("out")
        running.redefine(
            views=[kept_view, running.view(name)], fanouts=[kept_fanout, running.fanout(f"{name}-out")]
        )
        running.wait_named(running.views, "view", "all", name)
        running.wait_named(running.fanouts, "fanout", "out", f"{name}-out")
        running.redefine(views=[kept_view], fanouts=[kept_fanout])
        running.wait_named(running.views, "view", "all")
        running.wait_named(running.fanouts, "fanout", "out")

    for number in range(3):
        add_and_remove(number)
    before = [(one.threads, one.descriptors) for one in services]
    for number in range(TIMES):
        add_and_remove(number)
    for service, (threads, descriptors) in zip(services, before, strict=True):
        wait_for(lambda one=service, most=threads: one.threads <= most, f"at most {threads} threads")
        wait_for(
            lambda one=service, most=descriptors: one.descriptors <= most,
            f"at most {descriptors} descriptors",
        )
    assert running.beginnings("all") == 2
    running.publish(1)
    running.wait_counted("all", 1)
    running.wait_written("out", 1)
