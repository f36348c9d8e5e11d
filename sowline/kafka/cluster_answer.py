"""Questions about many partitions whose answer nobody waits for: where they begin and end, and their topics' ids."""

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import (
    OFFSET_INVALID,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec


class ClusterAnswer:
    """A pending request to the cluster for the offsets at which partitions end, and the ids of their topics.

    With `starts`, also for the offsets at which they begin; with `uncommitted`, at which their newest records end.
    """

    def __init__(
        self,
        admin: AdminClient,
        partitions: Iterable[tuple[str, int]],
        starts: bool = False,
        uncommitted: bool = False,
    ) -> None:
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        asked = {TopicPartition(*topic_partition): latest for topic_partition in partitions}
        self._ends = admin.list_offsets(asked, isolation_level=IsolationLevel.READ_COMMITTED)
        every = IsolationLevel.READ_UNCOMMITTED
        self._newest = admin.list_offsets(asked, isolation_level=every) if uncommitted else {}
        earliest = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
        self._starts = admin.list_offsets(dict.fromkeys(asked, earliest)) if starts else {}
        self._topics = admin.describe_topics(
            TopicCollection(sorted({topic_partition.topic for topic_partition in asked}))
        )

    @property
    def is_answered(self) -> bool:
        """Whether all answers are there, or will not come."""
        answers = (self._ends, self._newest, self._starts, self._topics)
        return all(future.done() for pending in answers for future in pending.values())

    def ends(self) -> dict[tuple[str, int], int]:
        """Return the offset behind the last committed record of each partition; raises what Kafka refused."""
        return _known_offsets(self._ends)

    def newest_ends(self) -> dict[tuple[str, int], int]:
        """Return the offset behind the last record of each partition, committed or not; raises what Kafka refused."""
        return _known_offsets(self._newest)

    def starts(self) -> dict[tuple[str, int], int]:
        """Return the offset of the first record of each partition; raises what Kafka refused."""
        return _known_offsets(self._starts)

    def topic_ids(self) -> dict[str, str]:
        """Return Kafka's id of each topic; raises what Kafka refused."""
        return {name: str(future.result(0).topic_id) for name, future in self._topics.items()}


def _known_offsets(answers: Mapping[TopicPartition, "Future[Any]"]) -> dict[tuple[str, int], int]:
    return {
        (topic_partition.topic, topic_partition.partition): known_offset(topic_partition, one.result(0))
        for topic_partition, one in answers.items()
    }


def known_offset(topic_partition: TopicPartition, answer: Any) -> int:
    """Return the offset that is an answer. A client whose connection was lost may give one that is none."""
    if answer.offset == OFFSET_INVALID:
        raise KafkaException(
            KafkaError(
                KafkaError._NOENT,
                f"no offset of {topic_partition.topic} [{topic_partition.partition}] was reported",
            )
        )
    return int(answer.offset)
