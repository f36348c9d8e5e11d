"""A log that is deleted and created again under a running worker: a new era begins, and its records are applied."""

import json
import signal
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from sowline.changes.change import Change
from sowline.config.settings import WORKERS
from sowline.kafka.messages import event_of
from sowline.model.position import Position
from tests.integration.services import Service, System, http_refusal, http_text, system
from tests.waiting import wait_for

OLD = 3
"""Records that an old log has at least."""


class Replaced(NamedTuple):
    """A topic whose log is to be replaced, another one, and the services over both."""

    made: System
    topic: str
    other: str
    materializer: Service
    query: Service
    numbers: Iterator[int]
    """Of the commands on the topic: applied after a later one, a command would count as a repeat."""

    def replace_log(self) -> None:
        """Delete the log and create it again, as fast as Kafka allows, so that no client asks in between."""
        admin = AdminClient({"bootstrap.servers": self.made.kafka})
        admin.delete_topics([self.topic])[self.topic].result()

        def created() -> bool:
            try:
                admin.create_topics([NewTopic(self.topic, 1, 1)])[self.topic].result()
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise
                return False
            return True

        wait_for(created, "a new log")

    def add(self) -> int:
        """Publish the only record, with the next number, which is returned."""
        number = next(self.numbers)
        headers = [("sow.publisher", b"p"), ("sow.sequence", b"%d" % number)]
        self.made.produce(self.topic, b'{"id":1,"n":%d}' % number, headers=headers)
        return number

    def apply(self, count: int) -> list[Change]:
        """Publish so many commands, wait until they are applied, and return all changes of the topic."""
        wanted = len(self.changes()) + count
        for _ in range(count):
            self.add()
        wait_for(lambda: len(self.changes()) == wanted, "the changes of the log")
        return self.changes()

    def changes(self) -> list[Change]:
        """Return all changes of the topic."""
        events = map(event_of, self.made.read(self.made.topic(self.topic).changes))
        return [event for event in events if isinstance(event, Change)]

    def positions(self) -> list[Position]:
        """Return the positions of all changes of the topic."""
        return [change.position for change in self.changes()]

    def lag(self) -> int | None:
        """Return the lag that the query service reports."""
        topics = json.loads(http_text(f"{self.query.url}/v1/topics"))["topics"]
        lag: int | None = next(one["lag"] for one in topics if one["name"] == self.topic)
        return lag


@contextmanager
def to_be_replaced(kafka: str, directory: Path) -> Iterator[Replaced]:
    """Lend a topic, another one, and running services."""
    name = f"t{uuid.uuid4().hex[:12]}"
    topics = [
        {"name": name, "key": ["/id"]},
        {"name": f"{name}-other", "key": ["/id"]},
    ]
    with system(kafka, directory, topics) as made:
        materializer, query = (made.service(service).start() for service in ("materializer", "query_service"))
        for service in (materializer, query):
            service.wait_ready()
        yield Replaced(made, name, f"{name}-other", materializer, query, count(1))


@pytest.fixture(scope="module")
def replaced(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replaced]:
    """One for all tests after which the partitions go on."""
    with to_be_replaced(kafka, tmp_path_factory.mktemp("replaced")) as made:
        yield made


@pytest.mark.parametrize("more", [2, -2])
def test_a_log_that_is_replaced_under_a_running_worker(replaced: Replaced, more: int) -> None:
    """The new log may be longer or shorter than the old one. Each of its records is applied once, in a new era."""
    before = replaced.apply(OLD)
    era = before[-1].position.era + 1
    records = sum(change.position.era == era - 1 for change in before) + more
    replaced.replace_log()
    last = [replaced.add() for _ in range(records)][-1]
    expected = [Position(era, offset) for offset in range(records)]
    wait_for(lambda: len(replaced.changes()) >= len(before) + records, "the changes of the new log")
    assert replaced.positions() == [change.position for change in before] + expected
    assert json.loads(replaced.changes()[-1].body or b"") == {"id": 1, "n": last}
    wait_for(lambda: replaced.lag() == 0, "a known lag")
    replaced.made.write(replaced.other, {"id": era})
    replaced.made.wait_settled(replaced.query.url, replaced.other)
    assert "restarting" not in replaced.materializer.log


@pytest.mark.long
@pytest.mark.parametrize("has_owner", [True, False])
def test_a_log_that_is_gone_for_a_while(replaced: Replaced, has_owner: bool) -> None:
    """The service says that it is gone, and a new era begins when it is there again.

    Kafka's client learns with its next refresh that the log is gone, and the group takes the partition away.
    """
    before = replaced.apply(1)
    admin = AdminClient({"bootstrap.servers": replaced.made.kafka})
    admin.delete_topics([replaced.topic])[replaced.topic].result()
    if not has_owner:
        group = replaced.made.group + WORKERS
        wait_for(lambda: (replaced.topic, 0) not in replaced.made.cluster.owned(group), "no owner")
    wait_for(lambda: not ready(replaced.materializer), "a sentence")
    assert f"{replaced.topic} was deleted" in why_not_ready(replaced.materializer)
    admin.create_topics([NewTopic(replaced.topic, 1, 1)])[replaced.topic].result()
    replaced.add()
    expected = [change.position for change in before] + [Position(before[-1].position.era + 1, 0)]
    wait_for(lambda: replaced.positions() == expected, "the change of the new log")
    replaced.materializer.wait_ready()


def test_a_log_whose_head_goes_before_it_is_applied(kafka: str, tmp_path: Path) -> None:
    """The consumer finds nothing at its offset. The partition stops with a sentence; the other continues."""
    with to_be_replaced(kafka, tmp_path) as stopping:
        made, log = stopping.made, stopping.other
        made.write(log, {"id": 0})
        made.wait_settled(stopping.query.url, log)
        stopping.materializer.signal(signal.SIGSTOP)
        # A fetch that was under way returns the first of these at the most.
        last = [made.produce(log, b'{"id":%d}' % number) for number in range(5)][-1]
        admin = AdminClient({"bootstrap.servers": made.kafka})
        for deleted in admin.delete_records([TopicPartition(log, 0, last)]).values():
            deleted.result()
        stopping.materializer.signal(signal.SIGCONT)
        wait_for(
            lambda: "are gone and were never applied" in why_not_ready(stopping.materializer), "a sentence"
        )
        assert len(stopping.apply(1)) == 1
        assert "restarting" not in stopping.materializer.log


def ready(service: Service) -> bool:
    """Whether a service is ready."""
    return why_not_ready(service) == ""


def why_not_ready(service: Service) -> str:
    """Return why a service is not ready; nothing if it is."""
    return http_refusal(f"{service.url}/readyz")
