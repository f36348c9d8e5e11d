"""The positions up to which all partitions of a view reflect the changes of a topic that it reads.

A view without joins has these positions of its source. In a view with joins, the owner of each source partition names
what it has taken of its own partition, and of all partitions of each joined topic.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from sowline.config.topic_definition import TopicDefinition
from sowline.model.bookmark import Positions, parse_bookmark
from sowline.model.position import Position
from sowline_query_service.replica.partition_replica import PartitionReplica
from sowline_query_service.topics.topic_state import TopicState

BOOKMARKS_CACHED = 1 << 12
"""Bookmarks whose positions are remembered: a read that waits looks at them after each batch."""


def reflected(view: TopicState, read: TopicDefinition, source: TopicDefinition) -> Positions:
    """Return up to where a view reflects `read`, its source or a joined topic; `source` is its source.

    Partitions whose changes are not reflected yet, at least in one partition of the view, are left out.
    """
    return _least([_of_partition(partition, view, read, source) for partition in view.partitions.values()])


def reflects(view: TopicState, read: TopicDefinition, source: TopicDefinition, positions: Positions) -> bool:
    """Whether a view reflects the changes of a topic that it reads up to these positions."""
    found = reflected(view, read, source)
    return all(number in found and found[number] >= position for number, position in positions.items())


def _of_partition(
    partition: PartitionReplica, view: TopicState, read: TopicDefinition, source: TopicDefinition
) -> Positions:
    definition = view.definition.view
    assert definition is not None, "it is a view"
    if not definition.joins:
        return partition.reflected
    taken = {
        owner: _positions(bookmark).get(read.log, {})
        for owner, bookmark in list(partition.taken.items())
        if owner < source.partitions
    }
    # An owner takes its own partition of the source, and all of a joined topic: the least of all owners is reflected
    # (test_a_joined_topic_is_reflected_by_all_owners).
    if all(join.topic != read.name for join in definition.joins):
        return {owner: positions[owner] for owner, positions in taken.items() if owner in positions}
    return _least([taken.get(owner, {}) for owner in range(source.partitions)])


def _least(several: Sequence[Mapping[int, Position]]) -> Positions:
    """Return the lowest position of each partition that all of them have."""
    common = set[int].intersection(*map(set, several)) if several else set[int]()
    return {number: min(one[number] for one in several) for number in sorted(common)}


_positions = lru_cache(BOOKMARKS_CACHED)(parse_bookmark)
