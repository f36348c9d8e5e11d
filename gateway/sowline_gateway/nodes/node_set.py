"""The query services of a gateway, as far as it knows them: announcements, connections, definitions of topics."""

import random
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sowline.config.topic_definition import TopicDefinition
from sowline.errors import SowlineError
from sowline.model.bookmark import Positions, PositionsByLog
from sowline.serving.refusal import left_topic
from sowline_gateway.nodes.announcements import Announcements
from sowline_gateway.nodes.channel import NodeChannels
from sowline_gateway.nodes.connections import ConnectionPool
from sowline_gateway.nodes.routing import (
    LAG_UNKNOWN,
    Announcement,
    Candidates,
    Rank,
    Share,
    holder,
    partitions_of,
)

RETRY_REASONS = frozenset({"not ready", "behind", "stale", "gateway required", "busy", "auth unavailable"})
"""Errors of a node that another node may not have."""


class DefinedTopics(dict[str, TopicDefinition]):
    """The definitions of topics by name. A gateway's file may change while requests for a topic are in progress."""

    def __missing__(self, topic: str) -> TopicDefinition:
        raise left_topic(topic)


@dataclass(slots=True)
class NodeSet:
    """The nodes, and the topics that they hold together."""

    topics: Mapping[str, TopicDefinition]
    """By name. One object for all that need it: `redefine` changes its content."""
    announcements: Announcements
    connections: ConnectionPool
    chance: random.Random = field(default_factory=random.Random)
    channels: NodeChannels = field(init=False)
    names: Mapping[str, str] = field(init=False)
    """The name of the topic of each log."""
    _defined: DefinedTopics = field(init=False)
    _at_start: frozenset[str] = field(init=False)
    """The topics that startup waits for: those that have been defined since then."""

    def __post_init__(self) -> None:
        self.topics = self._defined = DefinedTopics(self.topics)
        self._at_start = frozenset(self.topics)
        self.names = _names(self.topics)
        assert len(self.names) == len(self.topics), "each topic has a log of its own"
        self.announcements.on_silence = self.connections.cut
        self.channels = NodeChannels(self.connections)

    def redefine(self, topics: Iterable[TopicDefinition]) -> None:
        """Take the definitions of a changed file. Requests for new topics succeed once nodes announce them."""
        after = {topic.name: topic for topic in topics}
        for name in self._defined.keys() - after.keys():
            del self._defined[name]
        self._defined.update(after)
        self.names = _names(self.topics)
        # A gateway that has started must not be taken out of service because nodes don't have a new topic yet.
        self._at_start &= after.keys()
        assert len(self.names) == len(self._defined), "each topic has a log of its own"
        assert self._at_start <= self._defined.keys(), "startup waits for topics that are defined"

    def candidates(
        self,
        topics: Collection[str],
        floor: Mapping[str, Positions],
        avoid: Collection[str] = (),
        needed: Share | None = None,
    ) -> Candidates:
        """Return the nodes for the partitions of the topics, or for those that are `needed`.

        Among nodes with the same partitions, those known to have reached `floor` come first, then those with
        the smallest lag.
        """
        rank = self._rank(topics, floor)
        return Candidates(self.announcements.nodes, self._counts(topics), rank, avoid, needed)

    def partitions(self, topics: Collection[str]) -> Share:
        """Return all partitions of these topics, whether a node holds them or not."""
        return partitions_of(self._counts(topics))

    def _counts(self, topics: Collection[str]) -> dict[str, int]:
        return {name: self.topics[name].partitions for name in topics}

    def _rank(self, topics: Collection[str], floor: Mapping[str, Positions]) -> Rank:
        def rank(node: Announcement) -> tuple[bool, int, float]:
            # Chance comes last: nodes with the same lag share the load.
            return not node.has_reached(floor), node.rank(topics), self.chance.random()

        return rank

    def holder(self, topic: str, number: int, avoid: Collection[str] = ()) -> Announcement:
        """Return the node with the smallest lag that holds a partition; raise `shard unavailable`."""

        def rank(node: Announcement) -> tuple[int, float]:
            return node.rank([topic]), self.chance.random()

        return holder(self.announcements.nodes, topic, number, rank, avoid)

    def announced(self, partitions: Share) -> PositionsByLog:
        """Return the newest positions that nodes announce for these partitions; omit those that no node announces."""
        found: PositionsByLog = {}
        # In one order, because a set has another one in each process, and bookmarks would differ between gateways.
        for name, number in sorted(partitions):
            held = [node.topics[name] for node in self.announcements.nodes if name in node.topics]
            positions = [
                # The positions of a node that is loading do not mean that it has the records.
                one.positions[number]
                for one in held
                if number in one.positions and not one.is_loading
            ]
            if positions:
                found.setdefault(self.topics[name].log, {})[number] = max(positions)
        return found

    def lag_seconds(self, urls: Collection[str], topics: Collection[str]) -> float | None:
        """Return the largest lag of some nodes in these topics, in seconds; None if that of any is unknown."""
        lags = {node.url: node.lag_seconds(topics) for node in self.announcements.nodes if node.url in urls}
        # A node that has fallen silent announces nothing: the lag of the others would hide that it is stuck
        # (test_a_silent_node_of_two_shards_is_left).
        found = max((lags.get(url, LAG_UNKNOWN) for url in urls), default=LAG_UNKNOWN)
        return None if found == LAG_UNKNOWN else found

    def described(self, topic: str) -> list[Mapping[str, Any]]:
        """Return the descriptions of a topic by the nodes that answer for it; none while partitions are missing."""
        try:
            urls = [route.node.url for route in self.candidates([topic], {}).routes()]
        except SowlineError:
            return []
        return [self.announcements.described(url)[topic] for url in urls]

    def by_topic(self, positions: Mapping[str, Positions]) -> dict[str, Positions]:
        """Return positions by topic instead of by log; those of unknown logs are left out."""
        return {self.names[log]: held for log, held in positions.items() if log in self.names}

    def note_shown(self, url: str, positions: PositionsByLog) -> None:
        """Note positions that a node has shown in a message: queries of clients that have seen them may ask it."""
        self.announcements.note(url, self.by_topic(positions))

    async def close(self) -> None:
        """End all connections."""
        await self.channels.close()
        await self.connections.close()

    def lost(self, url: str) -> None:
        """Note that a node could not be reached."""
        self.announcements.failed(url)
        self.connections.forget(url)

    def missing(self) -> str | None:
        """Return why some of the topics from the start can't be read; None if all can."""
        # Each alone: a node that loads one of these topics answers for the others
        # (test_a_topic_that_loads_hides_no_other).
        lacking = [name for name in sorted(self._at_start) if self._refusal([name]) is not None]
        return self._refusal(lacking)

    def _refusal(self, topics: Collection[str]) -> str | None:
        """Return why a request of these topics is refused now; None if it isn't."""
        try:
            self.candidates(topics, {}).routes()
        except SowlineError as error:
            return error.message
        return None


def _names(topics: Mapping[str, TopicDefinition]) -> dict[str, str]:
    return {topic.log: name for name, topic in topics.items()}
