"""The partitions of a worker: one that fails stops, and the others continue."""

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaException
from structlog.testing import capture_logs

from sowline.codecs.codec import CompilerAway
from sowline.errors import SowlineError
from sowline.kafka.leaderless import why_it_waits
from sowline_materializer.core.errors import NotApplicable, StoreDamaged
from sowline_materializer.core.fencing import Fenced
from sowline_materializer.emitter import NotWritten
from sowline_materializer.store.errors import DiskFull
from sowline_materializer.worker.leaders import WithoutLeader
from sowline_materializer.worker.owned import OwnedPartitions

ONE, OTHER = ("orders", 0), ("orders", 1)


class FakePartition:
    """A partition that knows whether it was closed."""

    def __init__(self) -> None:
        self.is_closed = False
        self.checkpoint = SimpleNamespace(next_offset=7)

    def close(self) -> None:
        """Close it."""
        self.is_closed = True


def owned() -> OwnedPartitions:
    """Return two open partitions."""
    made = OwnedPartitions({})
    for partition_id in (ONE, OTHER):
        given: Any = FakePartition()
        made.partitions[partition_id] = made.stores[partition_id] = given
        made.owner_commands[partition_id] = given
    return made


@pytest.mark.parametrize(
    "error",
    [
        StoreDamaged("damaged"),
        DiskFull("full"),
        CompilerAway("away"),
        NotWritten("refused"),
        Fenced("fenced"),
        KafkaException("away"),
        MemoryError(),
        OSError("away"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_says_nothing_about_a_partition_ends_the_worker(error: Exception) -> None:
    """Whatever the worker recovers from by itself goes on to it."""
    partitions = owned()
    with pytest.raises(type(error)), partitions.guarded(ONE):
        raise error
    assert partitions.stopped == {}
    assert list(partitions.partitions) == [ONE, OTHER]


def failed() -> NotApplicable:
    """Return why a record can't be applied, as the core raises it."""
    try:
        try:
            raise TypeError("nobody foresaw this")
        except TypeError as error:
            raise NotApplicable(9) from error
    except NotApplicable as error:
        return error


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (failed(), "the log record at offset 9, got TypeError: nobody foresaw this. "),
        (KeyError("id"), "the log records from offset 7 on, got KeyError: 'id'. "),
        (SowlineError("bad change", "expected a change"), "expected a change"),
    ],
)
def test_a_partition_that_fails_is_closed(error: Exception, says: str) -> None:
    """It says which record failed and why, nothing of it is written any more, and the other one continues."""
    partitions = owned()
    given: Any = partitions.partitions[ONE]
    with partitions.guarded(ONE):
        raise error
    assert given.is_closed
    assert says in partitions.stopped[ONE]
    for kept in (partitions.partitions, partitions.stores, partitions.owner_commands):
        assert list(kept) == [OTHER]
    assert partitions.assigned == [OTHER, ONE]


def test_a_partition_without_a_leader_is_closed() -> None:
    """Its state says which brokers it waits for, it is said once, and the other one continues."""
    partitions = owned()
    given: Any = partitions.partitions[ONE]
    with capture_logs() as logs, partitions.guarded(ONE):
        raise WithoutLeader({("orders.changes", 0): (3, 2), ("orders", 0): (2,)})
    assert given.is_closed
    assert list(partitions.partitions) == [OTHER]
    assert (partitions.stopped, partitions.assigned) == ({}, [OTHER, ONE])
    [line] = logs
    assert line["why"] == why_it_waits(partitions.leaderless[ONE])
    assert (
        "a leader of orders [0] and orders.changes [0] in Kafka: start a broker that has it (2, 3)"
        in line["why"]
    )
