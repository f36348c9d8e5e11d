"""A cluster that answers readers of changes topics at once; a test sets its answers."""

from collections.abc import Collection, Iterable
from types import SimpleNamespace
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from sowline.kafka.leaderless import KafkaPartition, Leaderless


class PlayedCluster:
    """A cluster whose partitions all begin and end at the same offsets; those of `lacking` have no leader."""

    def __init__(
        self,
        end: int,
        topic_id: str = "this",
        owned: Collection[KafkaPartition] = (),
        start: int = 0,
        partitions: int = 1,
    ) -> None:
        self.start, self.end, self.id, self._owned, self._count = start, end, topic_id, owned, partitions
        self.lacking: Leaderless = {}

    def leaderless(self, topics: Iterable[str]) -> Leaderless:
        """Return which partitions of topics have no leader."""
        names = set(topics)
        return {one: brokers for one, brokers in self.lacking.items() if one[0] in names}

    def starts(self, topic: str, numbers: Iterable[int]) -> dict[int, int]:
        """Return where partitions begin."""
        return self._offsets(topic, numbers, self.start)

    def ends(self, topic: str, numbers: Iterable[int]) -> dict[int, int]:
        """Return where partitions end."""
        return self._offsets(topic, numbers, self.end)

    def _offsets(self, topic: str, numbers: Iterable[int], offset: int) -> dict[int, int]:
        found = dict.fromkeys(numbers, offset)
        if any((topic, number) in self.lacking for number in found):
            raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
        return found

    def partitions(self, topic: str) -> int:
        """Return the number of partitions of a topic."""
        return self._count

    def topic_id(self, topic: str) -> str:
        """Return the topic's id."""
        return self.id

    def owned(self, group: str) -> Collection[KafkaPartition]:
        """Return which partitions workers own."""
        return self._owned

    def ask(
        self,
        partitions: Iterable[KafkaPartition] = (),
        *,
        starts: Iterable[KafkaPartition] = (),
        topics: Iterable[str] = (),
    ) -> Any:
        """Return a question that is answered with what is true when it is asked."""
        names = set(topics)
        led = [one for one in partitions if one not in self.lacking]
        first = [one for one in starts if one not in self.lacking]
        ids, leaderless = dict.fromkeys(names, self.id), self.leaderless(names)
        begin, end = dict.fromkeys(first, self.start), dict.fromkeys(led, self.end)
        return SimpleNamespace(
            is_answered=True,
            gone=frozenset,
            topic_ids=lambda gone: ids,
            leaderless=lambda gone: leaderless,
            starts=lambda gone: begin,
            ends=lambda gone: end,
        )


class SilentCluster(PlayedCluster):
    """A cluster that answers, except for what it is asked without waiting."""

    def ask(self, *_: object, **__: object) -> Any:
        """Return a question that stays open."""
        return SimpleNamespace(is_answered=False)
