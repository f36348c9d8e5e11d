"""Expiration on a real Kafka: lifetimes of a second and less, by the log's clock."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson
import pytest

from sowline.changes.change import Change
from sowline.client.client import Client
from sowline.client.publisher import Publisher
from sowline.commands.command import DEFINE, EXPIRE, Headers
from sowline.kafka.admin import ensure_topics
from sowline.kafka.clients import exact_producer
from sowline_materializer.worker.worker import Worker
from tests.integration.recovery_rig import PARTITIONS, Rig, lose_both, lose_changes, lose_nothing, lose_store
from tests.integration.services import system
from tests.waiting import SECONDS_MAX, clock_reaches, wait_for

Make = Callable[..., "Expiring"]


class Expiring(Rig):
    """A topic whose records expire, and what became of them."""

    def publish(self, *ids: int | str, **about: Any) -> None:
        """Publish records."""
        with closing(Publisher(self.settings.kafka_client, self.topics)) as publisher:
            for number in ids:
                publisher.publish(self.topic.name, {"id": number}, **about)

    def append(self, partition: int, key: bytes, headers: Headers) -> None:
        """Write a log record without a body."""
        producer = exact_producer(self.settings.kafka_client)
        producer.produce(self.topic.log, None, key, partition, headers=headers)  # type: ignore[arg-type]
        assert producer.flush(SECONDS_MAX) == 0

    def all_changes(self) -> list[Change]:
        """Return the changes of all partitions."""
        events = [event for partition in range(PARTITIONS) for event in self.changes(partition)]
        return [event for event in events if isinstance(event, Change)]

    def ids(self, op: str) -> list[int | str]:
        """Return which records had a change of this kind."""
        bodies = (change.body or change.previous or b"" for change in self.all_changes() if change.op == op)
        return sorted((orjson.loads(body)["id"] for body in bodies), key=str)

    def expired(self, *ids: int | str) -> None:
        """Wait until exactly these have expired, each as often as it is named."""
        wait_for(lambda: len(self.ids(EXPIRE)) >= len(ids), f"{ids} to expire")
        assert self.ids(EXPIRE) == sorted(ids, key=str)

    def commands(self, command: str) -> int:
        """Return how many commands of a kind the logs hold."""
        header = ("sow.command", command.encode())
        return sum(header in (r.headers or ()) for p in range(PARTITIONS) for r in self.log(p))

    def live(self, worker: Worker) -> int:
        """Return how many records a worker holds."""
        return sum(partition.checkpoint.records for partition in worker._owned.partitions.values())


@pytest.fixture
def make(kafka: str, prefix: str, tmp_path: Path) -> Make:
    """A maker of a topic of the test's own."""

    def make(expiration: str) -> Expiring:
        rig = Expiring(kafka, f"{prefix}due", tmp_path / "sow", f"expiration: {expiration}")
        ensure_topics(rig.settings.kafka_client, rig.topics)
        return rig

    return make


def test_records_live_as_long_as_their_topic_or_their_message_says(make: Make) -> None:
    """A second by default; what comes with a message counts more; 0 is for ever; an update starts it again."""
    rig = make("1s")
    with rig.working() as worker:
        rig.publish(1, 2)
        rig.publish(3, expiration=0)
        rig.publish(4, expiration=600)
        rig.publish(5, expiration=0.2)
        rig.publish("a key", expiration=0.2)
        rig.expired(1, 2, 5, "a key")
        rig.publish(1)
        rig.expired(1, 1, 2, 5, "a key")
        rig.publish(4, expiration=0.1)
        rig.expired(1, 1, 2, 4, 5, "a key")
        assert rig.live(worker) == 1
        for change in rig.all_changes():
            assert change.reason == ("expired" if change.op == EXPIRE else None)
        assert worker.statistics().counts.commands[EXPIRE] == 6
    rig.check()


@pytest.mark.long
def test_updates_keep_a_record(make: Make) -> None:
    """As long as they come in time it stays, and the commands that come too late do nothing."""
    rig = make("1200ms")
    with rig.working():
        begun = time.time()
        for number in range(24):
            clock_reaches(begun + number / 10)
            rig.publish(1)
        wait_for(lambda: rig.all_changes()[-1].op == EXPIRE, "the record to expire")
    # On a busy machine, an update may come too late; the record then expires and is there again.
    for update, end in pairwise(rig.all_changes()):
        assert end.op != EXPIRE or end.time >= update.time + 1200
    rig.check()


def test_an_update_that_races_keeps_the_record(make: Make) -> None:
    """No matter who asks, and how often: what was updated since does not go."""
    rig = make("enabled")
    with rig.working() as worker:
        rig.publish(1, expiration=0.05)
        rig.expired(1)
        rig.publish(1, expiration=600)
        rig.settle(worker)
        (update,) = [change for change in rig.all_changes() if change.op == "publish" and change.expires][-1:]
        for partition in range(PARTITIONS):
            for guard in ("0", str(update.position)):
                rig.append(partition, b"1", [("sow.command", b"expire"), ("sow.guard", guard.encode())])
        rig.settle(worker)
        assert (rig.live(worker), rig.ids(EXPIRE)) == (1, [1])
    rig.check()


@pytest.mark.parametrize("lose", [lose_nothing, lose_store, lose_changes, lose_both])
def test_what_expired_without_a_worker_goes_at_the_start(make: Make, lose: Callable[[Rig], None]) -> None:
    """The due times are there after a recovery from each source."""
    rig = make("enabled")
    rig.publish(1, 2, expiration=1.5)
    rig.publish(3, 4, expiration=600)
    rig.work()
    lose(rig)
    with rig.working() as worker:
        rig.settle(worker)
        wait_for(lambda: rig.live(worker) == 2, "what is due to expire")
    rig.check()
    assert {r.expires is not None for p in range(PARTITIONS) for r in rig.state(p)[0].values() if r.body} == {
        True
    }


def test_changed_lifetimes_count_from_their_position_on(make: Make) -> None:
    """Due times that records have stay; those of a disabled topic count once it isn't any more."""
    rig = make("disabled")
    rig.publish(1, expiration=0.1)
    rig.publish(2)
    with rig.working() as worker:
        rig.settle(worker)
    assert (rig.ids(EXPIRE), rig.commands(DEFINE)) == ([], 0)
    rig.define("expiration: 500ms, records_max: 4")
    with rig.working() as worker:
        rig.expired(1)
        assert rig.commands(DEFINE) == PARTITIONS
        rig.publish(3)
        rig.expired(1, 3)
        rig.settle(worker)
        assert rig.live(worker) == 1
    lose_both(rig)
    rig.work()
    assert rig.ids(EXPIRE) == [1, 3]
    assert rig.commands(DEFINE) == PARTITIONS
    assert rig.state()[1].limits == rig.topic.limits


def test_many_that_are_due_at_once_go_in_portions(make: Make) -> None:
    """None is asked for twice, and what is written meanwhile is not kept waiting behind them all."""
    rig = make("enabled")
    rig.settings = rig.settings.model_copy(update={"batch_records_max": 1000})
    rig.publish(*range(5000), expiration=0.5)
    with rig.working():
        wait_for(lambda: len(rig.ids(EXPIRE)) > 0, "the first to expire")
        rig.publish(10_000)
        rig.expired(*range(5000))
    assert rig.commands(EXPIRE) == 5000
    assert 10_000 in rig.ids("publish")


def test_a_worker_may_stop_during_what_it_appends(make: Make) -> None:
    """It ends without an error, and the next one asks for what is still due."""
    rig = make("enabled")
    rig.publish(*range(3000), expiration=0.1)
    for _ in range(3):
        rig.work()
    with rig.working():
        rig.expired(*range(3000))


@pytest.fixture
def served(kafka: str, prefix: str, tmp_path: Path) -> Iterator[Any]:
    """A whole system with a topic whose records live for half a second."""
    name = f"{prefix}short"
    with system(kafka, tmp_path, [{"name": name, "key": "/id", "expiration": "500ms"}]) as made:
        made.service("materializer").start().wait_ready()
        query = made.service("query_service").start().wait_ready()
        yield name, query.url


def test_a_subscriber_gets_the_expiry_of_a_record(served: tuple[str, str]) -> None:
    """Out of focus, with the reason and the last body; the command publishes with a lifetime, too."""
    name, url = served
    with Client(url) as client:
        messages = client.sow_and_subscribe(name, options="oof")
        client.publish(name, {"id": 1, "a": 2})
        client.publish(name, {"id": 2}, expiration=0)
        gone = next(message for message in messages if message.command == "oof")
        assert (gone.reason, orjson.loads(gone.body)) == ("expired", {"id": 1, "a": 2})
        bodies = [message.body for message in client.sow(name) if message.command == "sow"]
        assert list(map(orjson.loads, bodies)) == [{"id": 2}]
