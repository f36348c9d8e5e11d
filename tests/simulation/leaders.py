"""Leaders that go and come back: Kafka reports some partitions without a leader, and still takes their records.

What is written and read stays the same, so a worker may let a partition wait at any moment.
"""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

from sowline.kafka import cluster_answer
from tests.simulation.broker import Broker

if TYPE_CHECKING:
    from tests.simulation.world import Simulation

SHARE: Final = 0.12
"""Of the seeds, in how many leaders go."""

LOSSES: Final = 0.1
"""Of the steps, in how many one goes."""

STEPS_MAX: Final = 20


def answered_by(broker: Broker) -> list[AbstractContextManager[object]]:
    """Return patches with which a broker reports at once which partitions have no leader."""

    def leaderless(topics: Iterable[str]) -> dict[tuple[str, int], tuple[int, ...]]:
        names = set(topics)
        return {one: (1,) for one in broker.leaderless if one[0] in names}

    known_offsets = cluster_answer.known_offsets

    def led(*asked: Any) -> dict[tuple[str, int], int]:
        found = known_offsets(*asked)
        return {one: offset for one, offset in found.items() if one not in broker.leaderless}

    def answer(topics: Iterable[str]) -> Any:
        return SimpleNamespace(is_answered=True, gone=frozenset, leaderless=lambda but: leaderless(topics))

    return [
        patch("sowline.kafka.admin.Cluster.leaderless", lambda _, topics: leaderless(topics)),
        patch("sowline.kafka.leader_watch.LeaderWatch._ask", lambda _, topics: answer(topics)),
        patch("sowline.kafka.cluster_answer.known_offsets", led),
    ]


class LeaderPlay:
    """What lost leaders add to a simulation. They have their own random generator."""

    def __init__(self, world: "Simulation", chance: Random) -> None:
        self._world = world
        self._chance = chance
        self._until: dict[tuple[str, int], int] = {}

    def step(self) -> None:
        """Let some leaders come back, and now and then one of the log or the changes go."""
        world, chance = self._world, self._chance
        if chance.random() < LOSSES:
            topic = chance.choice((world.definition.log, world.definition.changes))
            partition_id = topic, chance.randrange(world.definition.partitions)
            world.trace("no leader of", partition_id)
            self._until[partition_id] = world.step + chance.randint(1, STEPS_MAX)
        world.broker.leaderless = {one for one, until in self._until.items() if until > world.step}

    def finish(self) -> None:
        """Let all leaders be there."""
        self.deliver()

    def deliver(self) -> None:
        """Let all leaders be there."""
        self._world.broker.leaderless = set()

    @staticmethod
    def unrest() -> list[str]:
        """Return nothing: what waits for a leader is behind its log."""
        return []
