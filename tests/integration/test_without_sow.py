"""A topic without a SOW on a real Kafka: its messages become changes, once each, and nothing is kept."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import ConfigResource, ResourceType

from sowline.changes.change import Change
from sowline.client.publisher import Publisher
from sowline.config.topics import parse_topics
from sowline.errors import SowlineError
from sowline.kafka.admin import ensure_topics
from tests.integration.recovery_rig import PARTITIONS, Rig, lose_nothing, lose_store
from tests.waiting import SECONDS_MAX


class Stream(Rig):
    """A topic without a SOW."""

    def define(self, more: str) -> None:
        """Say what is defined."""
        self.topics = parse_topics(f"topics: [{{name: {self.name}, sow: false, partitions: {PARTITIONS}}}]")

    def publish(self, *numbers: int) -> None:
        """Publish messages, each with an id that others have, too."""
        with closing(Publisher(self.settings.kafka_client, self.topics)) as publisher:
            for number in numbers:
                publisher.publish(self.name, {"id": number % 2, "n": number})

    def bodies(self) -> list[bytes]:
        """Return the bodies of all changes, sorted."""
        events = [event for partition in range(PARTITIONS) for event in self.changes(partition)]
        return sorted(event.body or b"" for event in events if isinstance(event, Change))

    def settings_of(self, topic: str) -> dict[str, Any]:
        """Return a Kafka topic's settings."""
        resource = ConfigResource(ResourceType.TOPIC, topic)
        found = self.admin.describe_configs([resource])[resource]
        return {name: entry.value for name, entry in found.result(SECONDS_MAX).items()}


@pytest.mark.parametrize("lose", [lose_nothing, lose_store])
def test_messages_are_sent_once(kafka: str, prefix: str, tmp_path: Path, lose: Callable[[Rig], None]) -> None:
    """Whether the disk is there or not; deletes are dead letters; what is older than the window may go."""
    rig = Stream(kafka, f"{prefix}ticks", tmp_path / "sow")
    ensure_topics(rig.settings.kafka_client, rig.topics)
    rig.publish(*range(20))
    rig.work()
    lose(rig)
    rig.publish(*range(20, 30))
    rig.work()
    assert rig.bodies() == sorted(b'{"id":%d,"n":%d}' % (n % 2, n) for n in range(30))
    for partition in range(PARTITIONS):
        records, checkpoint = rig.state(partition)
        assert (records, checkpoint.records) == ({}, 0)
    changes = rig.settings_of(rig.topic.changes)
    assert (changes["cleanup.policy"], changes["retention.ms"]) == ("delete", "3600000")


def test_a_topic_with_a_sow_is_not_made_one_without(kafka: str, prefix: str, tmp_path: Path) -> None:
    """Its changes would be deleted in time: the service stops with a sentence before anything is touched."""
    rig = Rig(kafka, f"{prefix}kept", tmp_path / "sow")
    ensure_topics(rig.settings.kafka_client, rig.topics)
    without = Stream(kafka, f"{prefix}kept", tmp_path / "sow")
    with pytest.raises(SowlineError, match="expected no changes topic of a topic with a SOW") as error:
        ensure_topics(rig.settings.kafka_client, without.topics)
    assert error.value.reason == "bad topic"
    assert without.settings_of(rig.topic.changes)["cleanup.policy"] == "compact"
