"""Watching: an owner that has nothing to write sees what others have written, and a topic that went."""

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from materializer.emitter import NotWritten
from materializer.stale_write_monitor import LOOK_SECONDS, KnownEnd, StaleWriteMonitor

PARTITION = ("orders.changes", 1)
KNOWN = {PARTITION: KnownEnd("id", 7)}


class Cluster:
    """A cluster that answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def ask(self, partitions: Any, *, starts: bool) -> Any:
        """Take a question."""
        self.asked.append(SimpleNamespace(partitions=list(partitions), is_answered=False))
        return self.asked[-1]

    def answer(self, id: str, end: int, start: int = 0) -> None:
        """Answer the last one."""
        asked = self.asked[-1]
        asked.is_answered, asked.topic_ids = True, lambda: {PARTITION[0]: id}
        asked.starts, asked.ends = lambda: {PARTITION: start}, lambda: {PARTITION: end}

    def refuse(self, code: int) -> None:
        """Answer that it can't be."""

        def refused() -> Any:
            raise KafkaException(KafkaError(code))

        self.asked[-1].is_answered, self.asked[-1].topic_ids = True, refused


def asked() -> tuple[Cluster, StaleWriteMonitor]:
    """Return a look that is on its way."""
    cluster = Cluster()
    monitor = StaleWriteMonitor(cluster)  # type: ignore[arg-type]
    assert monitor.look(lambda: KNOWN, 100) == {}
    return cluster, monitor


def test_a_look_waits_for_nothing() -> None:
    """It is asked for, and told once it is answered; the next one comes some seconds later."""
    cluster, monitor = asked()
    assert monitor.look(lambda: KNOWN, 101) == {}
    cluster.answer("id", 9)
    assert monitor.look(lambda: KNOWN, 102) == {PARTITION: 9}
    assert monitor.look(lambda: KNOWN, 99 + LOOK_SECONDS) == {}
    assert len(cluster.asked) == 1
    monitor.look(lambda: KNOWN, 100 + LOOK_SECONDS)
    assert [one.partitions for one in cluster.asked] == [[PARTITION], [PARTITION]]


def test_nothing_is_asked_about_nothing() -> None:
    """A worker without partitions leaves the cluster alone."""
    cluster = Cluster()
    assert StaleWriteMonitor(cluster).look(dict, 100) == {}  # type: ignore[arg-type]
    assert cluster.asked == []


@pytest.mark.parametrize(("id", "end", "start"), [("other", 9, 0), ("id", 6, 0), ("id", 9, 1)])
def test_a_topic_that_was_made_again(id: str, end: int, start: int) -> None:
    """Its id is another, or it has lost its end or its head: all is to be written again."""
    cluster, monitor = asked()
    cluster.answer(id, end, start)
    with pytest.raises(NotWritten):
        monitor.look(lambda: KNOWN, 101)


@pytest.mark.parametrize("known", [KnownEnd("id@5", 7), KnownEnd("id", 7, has_sow=False)])
def test_a_head_that_is_known_to_be_gone(known: KnownEnd) -> None:
    """It was written again already, or the topic has no SOW: its changes are deleted by age."""
    cluster = Cluster()
    monitor = StaleWriteMonitor(cluster)  # type: ignore[arg-type]
    monitor.look(lambda: {PARTITION: known}, 100)
    cluster.answer("id", 9, 5)
    assert monitor.look(dict, 101) == {PARTITION: 9}


def test_a_topic_that_is_gone() -> None:
    """It is to be made again, by beginning again."""
    cluster, monitor = asked()
    cluster.refuse(KafkaError.UNKNOWN_TOPIC_OR_PART)
    with pytest.raises(NotWritten):
        monitor.look(lambda: KNOWN, 101)


def test_a_look_that_fails_is_one_that_was_not_taken() -> None:
    """A broker that is away for a while is no reason to begin again."""
    cluster, monitor = asked()
    cluster.refuse(KafkaError._TRANSPORT)
    assert monitor.look(lambda: KNOWN, 101) == {}
