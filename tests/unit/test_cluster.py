"""What a SOW topic's Kafka topics are set to, and how often a cluster is asked."""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from sowline.cluster import Cluster, kafka_topics, serves
from sowline.topics import TopicDefinition

HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("repeat_window", "resume_window", "kept_ms"),
    [("1m", "1m", 24 * HOUR_MS), ("7d", "1h", 7 * 24 * HOUR_MS), ("1m", "2d", 48 * HOUR_MS)],
)
def test_tombstones_outlast_a_load(repeat_window: str, resume_window: str, kept_ms: int) -> None:
    """They are kept for a day at the least, and as long as repeats are known and single changes are kept."""
    definition = TopicDefinition.model_validate(
        {"name": "orders", "key": "/id", "repeat_window": repeat_window, "resume_window": resume_window}
    )
    _, settings = kafka_topics(definition)["orders.changes"]
    assert int(settings["delete.retention.ms"]) == kept_ms
    found = [str(kept_ms - 1), str(kept_ms), str(kept_ms + 1)]
    assert [serves("delete.retention.ms", one, str(kept_ms)) for one in found] == [False, True, True]


@pytest.mark.parametrize(
    ("given", "hours"),
    [({}, 48), ({"history_ttl": "3h"}, 3), ({"history_ttl": "1h", "resume_window": "5h"}, 5)],
)
def test_compaction_leaves_timelines_alone(given: dict[str, str], hours: int) -> None:
    """No change of a document is taken before its timeline is to forget it."""
    definition = TopicDefinition.model_validate({"name": "reviews", "key": "/id", "documents": True, **given})
    _, settings = kafka_topics(definition)["reviews.changes"]
    assert int(settings["min.compaction.lag.ms"]) == hours * HOUR_MS


class Admin:
    """A Kafka client whose knowledge of who leads the partitions is too old until it looks again."""

    def __init__(self, refusal: int) -> None:
        self._refusal: int | None = refusal
        self.looks = 0

    def list_offsets(self, asked: dict[TopicPartition, Any], **given: Any) -> dict[TopicPartition, Any]:
        """Answer with the offset 7, once it has looked."""
        answer: Future[Any] = Future()
        if self._refusal is None:
            answer.set_result(SimpleNamespace(offset=7))
        else:
            answer.set_exception(KafkaException(KafkaError(self._refusal)))
        return dict.fromkeys(asked, answer)

    def list_topics(self, topic: str, seconds: float) -> None:
        """Look again."""
        self._refusal = None
        self.looks += 1


@pytest.mark.parametrize(
    "refusal",
    [KafkaError.FENCED_LEADER_EPOCH, KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError._UNKNOWN_PARTITION],
)
def test_a_partition_whose_leader_has_changed_is_looked_for(
    refusal: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it ends is asked again then, of whoever leads it now."""
    admin = Admin(refusal)
    monkeypatch.setattr("sowline.cluster.AdminClient", lambda options: admin)
    assert Cluster({}).ends("orders", [0]) == {0: 7}
    assert admin.looks == 1
