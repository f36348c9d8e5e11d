"""Which partitions of a worker need a leader that is missing, and which have it again."""

from typing import Any

import pytest

from sowline.config.topics import parse_topics
from sowline_materializer.worker.leaders import Leaders, WithoutLeader
from sowline_materializer.worker.owned import OwnedPartitions

TOPICS = parse_topics(
    "topics: [{name: orders, key: /id, partitions: 2}, {name: fix, key: /id, message_type: fix}]"
).topics
ONE, OTHER = ("orders", 0), ("orders", 1)


def leaders(*opened: tuple[str, int]) -> tuple[Leaders, OwnedPartitions]:
    """Return what a worker with open partitions knows: nothing yet."""
    owned = OwnedPartitions({one.log: one for one in TOPICS})
    partition: Any = None
    owned.partitions |= dict.fromkeys(opened, partition)
    return Leaders(owned), owned


@pytest.mark.parametrize("topic", ["orders", "orders.changes"])
def test_a_partition_needs_its_log_and_its_changes(topic: str) -> None:
    """Whatever its records are. It needs no other partition of them."""
    known, _ = leaders(ONE, OTHER)
    known.note({(topic, 1): (2,)})
    assert known.missed_by(ONE) == {}
    assert known.missed_by(OTHER) == {(topic, 1): (2,)}
    assert known.lost() == {OTHER: {(topic, 1): (2,)}}


def test_a_record_needs_what_it_is_written_to() -> None:
    """Only a partition with a dead letter needs the topic of dead letters."""
    known, _ = leaders(ONE)
    known.note({("orders.dead", 0): (2,)})
    assert known.lost() == {}
    known.require({OTHER})
    with pytest.raises(WithoutLeader) as error:
        known.require({OTHER, ("orders.dead", 0)})
    assert error.value.leaderless == {("orders.dead", 0): (2,)}


def test_a_partition_is_back_with_all_its_leaders() -> None:
    """Not with the one that it waited for, if another is missing by then."""
    known, owned = leaders()
    known.note({("orders", 1): (2,), ("orders.changes", 1): (2,)})
    owned.await_leader(OTHER, {("orders", 1): (2,)})
    assert known.back() == []
    known.note({("orders.changes", 1): (2,)})
    assert known.back() == []
    known.note({})
    assert known.back() == [OTHER]


def test_topics_are_asked_for_until_all_have_a_leader() -> None:
    """At first, all topics that owners read or write; later, those that lack a leader, also without an owner."""
    known, _ = leaders()
    names = ("orders", "orders.changes", "orders.dead", "fix", "fix.changes", "fix.dead", "fix.schemas")
    assert known.needed_topics() == set(names)
    assert known.topics == set()
    known.note({("orders.dead", 0): (2,)})
    assert known.topics == {"orders.dead"}
