"""Which Kafka topics a topic has that a job reads: only Kafka tells a view from a topic."""

from types import SimpleNamespace
from typing import Any

import pytest

from sowline.config.kafka_names import KafkaNames
from sowline.spark.changes_topic import names_of

VIEW = KafkaNames.of_view("eu/v")


@pytest.mark.parametrize(
    ("there", "topic", "log", "expected"),
    [
        ({"eu.v", "eu.v.changes"}, "eu/v", None, KafkaNames.of_log("eu.v")),
        ({VIEW.log, VIEW.changes}, "eu/v", None, VIEW),
        ({VIEW.log, VIEW.changes}, "eu/v", VIEW.log, VIEW),
        ({"other", "other.changes", VIEW.log}, "eu/v", "other", KafkaNames.of_log("other")),
        ({VIEW.log, f"{VIEW.log}.changes"}, "eu/v", VIEW.log, KafkaNames.of_log(VIEW.log)),
        (set(), "eu/v", None, KafkaNames.of_log("eu.v")),
    ],
)
def test_a_view_is_known_by_its_log(
    there: set[str], topic: str, log: str | None, expected: KafkaNames
) -> None:
    """A view's bookmarks name its log, `<view>.partials`, and its changes are `<view>.changes`."""
    broker: Any = SimpleNamespace(has=there.__contains__)
    assert names_of(broker, topic, log) == expected
