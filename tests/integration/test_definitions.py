"""`topics.yaml` changes while materializers run: topics come, change and go, and the others notice nothing."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.changes import read_changes
from tests.integration.services import System, http_message, http_text, system
from tests.waiting import wait_for

TIMES = int(os.environ.get("TIMES", "5"))
"""How often definitions are added and removed in a row; `make test-all` does it 200 times."""

LEFT_MAX = 5
"""Threads and descriptors that may come and go with a connection to Kafka."""


class Running:
    """A topic that stays, and the materializers of one group."""

    def __init__(self, made: System, prefix: str) -> None:
        self.system = made
        self.prefix = prefix
        self.workers = [made.service("materializer", data_dir=made.directory / "disk0").start().wait_ready()]

    def topic(self, name: str, **fields: Any) -> dict[str, Any]:
        """Return the definition of a topic."""
        return {"name": f"{self.prefix}-{name}", "key": "/id", "partitions": 2, **fields}

    def redefine(self, *topics: dict[str, Any], **lists: list[dict[str, Any]]) -> None:
        """Write the file."""
        self.system.redefine(topics=list(topics), **lists)

    def publish(self, name: str, *ids: int) -> None:
        """Publish records to a topic of the file, and wait until Kafka has them."""
        self.system.write(f"{self.prefix}-{name}", *({"id": one} for one in ids))

    def ops(self, name: str) -> list[tuple[str, int]]:
        """Return the changes of a topic: what happened to which record."""
        events, _ = read_changes(self.system, f"{self.prefix}-{name}")
        bodies = [(event.about["op"], event.body or event.previous or {}) for event in events]
        return sorted((op, body["id"]) for op, body in bodies)

    def wait_published(self, name: str, *ids: int) -> None:
        """Wait until exactly these records were published to a topic, each once."""
        wanted = [("publish", one) for one in ids]
        wait_for(lambda: len(self.ops(name)) >= len(wanted), f"{name} to have {len(ids)} changes")
        assert self.ops(name) == wanted

    def wait_partitions(self, *counts: int) -> None:
        """Wait until the workers have so many partitions."""
        wait_for(
            lambda: (
                [int(one.metric("sowline_partitions")) if one.answers else 0 for one in self.workers]
                == [*counts]
            ),
            f"the workers to have {counts} partitions",
        )

    def status(self) -> dict[str, Any]:
        """Return the definitions that the first worker reports at `/status`."""
        found: dict[str, Any] = json.loads(http_text(f"{self.workers[0].url}/status"))["definitions"]
        return found

    def openings(self, name: str) -> int:
        """Return how often the workers have opened a partition of a topic."""
        opened = re.compile(rf'"topic": "{self.prefix}-{name}".*"event": "partition opened"')
        return sum(len(opened.findall(worker.log)) for worker in self.workers)


@pytest.fixture
def running(kafka: str, tmp_path: Path, prefix: str) -> Iterator[Running]:
    """Return a system with one topic, and its materializer."""
    with system(kafka, tmp_path, [{"name": f"{prefix}-orders", "key": "/id", "partitions": 2}]) as made:
        yield Running(made, prefix)


def test_a_topic_is_added(running: Running) -> None:
    """With its Kafka topics; the partitions of the other topic are not opened again."""
    running.redefine(running.topic("orders"), running.topic("trades"))
    running.wait_partitions(4)
    running.publish("trades", 1, 2)
    running.publish("orders", 7)
    running.wait_published("trades", 1, 2)
    running.wait_published("orders", 7)
    assert (running.openings("orders"), running.openings("trades")) == (2, 2)


def test_a_view_is_added(running: Running) -> None:
    """The materializer applies the log of its partial states."""
    view = {"name": f"{running.prefix}-all", "from": f"{running.prefix}-orders", "grouping": ["/id"]}
    view["projection"] = ["COUNT(1) AS /n"]
    running.redefine(running.topic("orders"), views=[view])
    running.wait_partitions(4)
    assert running.openings("orders") == 2


def test_limits_change_while_it_runs(running: Running) -> None:
    """The owner appends them to the log, for what is written after that."""
    running.publish("orders", 1)
    running.wait_published("orders", 1)
    running.redefine(running.topic("orders", expiration="500ms"), running.topic("trades"))
    log = f"{running.prefix}-orders"
    wait_for(lambda: sum(one.key() is None for one in running.system.read(log)) == 2, "each owner's `define`")
    running.publish("orders", 2)
    wait_for(lambda: running.ops("orders")[0] == ("expire", 2), "the record to expire")
    running.publish("trades", 3)
    running.wait_published("trades", 3)
    assert (running.openings("orders"), running.openings("trades")) == (4, 2)


def test_a_key_does_not_change_and_the_rest_of_the_file_does(running: Running) -> None:
    """The service says which definition it keeps, in its health, its status, its metrics and its log."""
    running.redefine(running.topic("orders", key="/other"), running.topic("trades"))
    running.wait_partitions(4)
    worker = running.workers[0]
    wait_for(lambda: worker.metric("sowline_definitions_refused") == 1, "the definition to be refused")
    sentence = f"{running.prefix}-orders (key) needs a rebuild"
    # On a loaded machine, it may not be ready for another reason meanwhile.
    wait_for(lambda: sentence in http_message(f"{worker.url}/readyz"), "the worker to name the definition")
    assert running.status()["not_in_effect"][0].startswith(sentence)
    assert re.search(rf"topics.yaml, line \d+: topics.0.key \({running.prefix}-orders\)", worker.log)
    running.system.produce(f"{running.prefix}-orders", b'{"id": 1}')
    running.wait_published("orders", 1)


def test_a_topic_is_removed_and_comes_back(running: Running) -> None:
    """Nothing is deleted, so that it continues where it was."""
    running.redefine(running.topic("orders"), running.topic("trades"))
    running.wait_partitions(4)
    running.publish("trades", 1)
    running.wait_published("trades", 1)
    running.redefine(running.topic("orders"))
    running.wait_partitions(2)
    assert (running.system.directory / "disk0" / f"{running.prefix}-trades" / "0").is_dir()
    running.redefine(running.topic("orders"), running.topic("trades"))
    running.publish("trades", 2)
    running.wait_partitions(4)
    running.wait_published("trades", 1, 2)
    assert running.openings("orders") == 2


def test_two_workers_share_a_new_topic(running: Running) -> None:
    """The group hands out its partitions, also while only one of them knows the topic yet."""
    running.workers.append(
        running.system.service("materializer", data_dir=running.system.directory / "disk1")
        .start()
        .wait_ready()
    )
    running.wait_partitions(1, 1)
    running.redefine(running.topic("orders"), running.topic("trades"))
    running.publish("orders", *range(20))
    running.wait_partitions(2, 2)
    running.publish("trades", *range(20))
    running.wait_published("trades", *range(20))
    running.wait_published("orders", *range(20))


def test_a_worker_with_copies_takes_new_definitions(running: Running) -> None:
    """A copy is of the definition that its owner has, and there is none of a topic that left."""
    disk = running.system.directory / "disk1"
    copying = running.system.service("materializer", data_dir=disk, standby="true").start().wait_ready()
    running.workers.append(copying)
    running.redefine(running.topic("orders", expiration="1h"), running.topic("trades"))
    running.wait_partitions(2, 2)
    wait_for(lambda: copying.metric("sowline_standby_copies") == 2, "a copy of each other partition")
    running.publish("trades", *range(20))
    running.wait_published("trades", *range(20))
    running.redefine(running.topic("orders", expiration="1h"))
    running.wait_partitions(1, 1)
    wait_for(lambda: copying.metric("sowline_standby_copies") == 1, "the copies of the topic to end")
    running.workers[0].kill()
    running.publish("orders", 5)
    running.wait_published("orders", 5)


@pytest.mark.parametrize("step", ["at once", "when it knows", "when it has the partitions"])
def test_a_worker_that_is_killed_during_a_change(running: Running, step: str) -> None:
    """Whatever it has done of it, the next one completes it."""
    worker = running.workers[0]
    running.publish("orders", 1)
    running.wait_published("orders", 1)
    running.redefine(running.topic("orders", expiration="1h"), running.topic("trades"))
    if step == "when it knows":
        wait_for(lambda: "definitions changed" in worker.log, "the worker to take the file")
    elif step == "when it has the partitions":
        running.wait_partitions(4)
    worker.kill()
    worker.start().wait_ready()
    running.publish("trades", 2)
    running.publish("orders", 3)
    running.wait_published("trades", 2)
    running.wait_published("orders", 1, 3)
    assert running.status()["not_in_effect"] == []


@pytest.mark.long
def test_many_changes_leave_nothing_behind(running: Running) -> None:
    """No thread, no descriptor, no partition."""
    worker = running.workers[0]

    def add_and_remove(number: int) -> None:
        running.redefine(running.topic("orders"), running.topic(f"trades{number % 3}"))
        running.wait_partitions(4)
        running.redefine(running.topic("orders"))
        running.wait_partitions(2)

    for number in range(3):
        add_and_remove(number)
    before = worker.threads, worker.descriptors
    for number in range(TIMES):
        add_and_remove(number)
    # A connection to Kafka may come or go; what each change left behind would be more.
    assert worker.threads - before[0] < LEFT_MAX
    assert worker.descriptors - before[1] < LEFT_MAX
    running.publish("orders", 1)
    running.wait_published("orders", 1)
