"""What a SOW topic's Kafka topics are set to, and which settings of existing ones suit."""

import pytest

from sowline.config.topic_definition import define_topic
from sowline.kafka.topic_settings import kafka_topics, serves

HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("repeat_window", "resume_window", "kept_ms"),
    [("1m", "1m", 24 * HOUR_MS), ("7d", "1h", 7 * 24 * HOUR_MS), ("1m", "2d", 48 * HOUR_MS)],
)
def test_tombstones_outlast_a_load(repeat_window: str, resume_window: str, kept_ms: int) -> None:
    """They are kept for a day at the least, and as long as repeats are known and single changes are kept."""
    definition = define_topic(
        name="orders", key="/id", repeat_window=repeat_window, resume_window=resume_window
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
    definition = define_topic(**{"name": "reviews", "key": "/id", "documents": True, **given})
    _, settings = kafka_topics(definition)["reviews.changes"]
    assert int(settings["min.compaction.lag.ms"]) == hours * HOUR_MS


def test_changes_without_a_sow_are_not_compacted() -> None:
    """There is no newest of a key: what is older than the window goes."""
    topic = define_topic(name="ticks", sow=False, partitions=2)
    partitions, config = kafka_topics(topic)["ticks.changes"]
    assert (partitions, config["cleanup.policy"], config["retention.ms"]) == (2, "delete", "3600000")
    assert "min.compaction.lag.ms" not in config
    short = define_topic(name="ticks", sow=False, resume_window="1s")
    assert kafka_topics(short)["ticks.changes"][1]["retention.ms"] == "600000"


def test_a_longer_retention_serves() -> None:
    """A shorter one is raised."""
    assert [serves("retention.ms", found, "600000") for found in ("-1", "600000", "599999")] == [
        True,
        True,
        False,
    ]
