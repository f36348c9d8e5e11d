"""A set-up with nothing wrong, and set-ups that differ from it in one thing."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from sowline.cli.doctor.facts import (
    GroupFacts,
    KafkaFacts,
    PartitionFacts,
    TopicFacts,
)
from sowline.cli.doctor.finding import Finding
from sowline.cli.doctor.kafka_checks import kafka_findings
from sowline.config.settings import Settings
from sowline.config.topics import Topics, parse_topics
from sowline.kafka.topic_settings import kafka_topics

NOW = 1_790_000_000_000
TOPICS = parse_topics(
    "{topics: [{name: orders, key: /id, partitions: 2, replication: 2}],"
    " fanouts: [{name: late, topic: orders}]}"
)
ORDERS = TOPICS.named("orders")
SETTINGS = Settings(group="g", session_timeout_ms=6000)
GROUPS = {
    "g-materializer": GroupFacts(1, frozenset({("orders", 0), ("orders", 1)})),
    "g-fanout-late": GroupFacts(1, frozenset({("orders.changes", 0), ("orders.changes", 1)})),
}
PART = PartitionFacts(replicas=2, in_sync=2, start=0, end=10)


def sound_topics(topics: Topics = TOPICS) -> dict[str, TopicFacts]:
    """Return Kafka topics as the services make them."""
    return {
        name: TopicFacts(dict.fromkeys(range(partitions), PART), settings, NOW)
        for topic in topics.topics
        for name, (partitions, settings) in kafka_topics(topic).items()
    }


SOUND = KafkaFacts(3, NOW, sound_topics(), GROUPS, {("orders", 0): 9, ("orders", 1): 9}, session_min_ms=6000)


def wrong(findings: Iterable[Finding]) -> list[tuple[str, str, str]]:
    """Return code, severity and place of all that is not in order."""
    return [(one.code, one.severity, one.where) for one in findings if one.severity != "ok"]


def of_kafka(
    kafka: KafkaFacts, settings: Settings = SETTINGS, topics: Topics = TOPICS
) -> list[tuple[str, str, str]]:
    """Return what is not in order of a Kafka."""
    return wrong(kafka_findings(kafka, topics, settings))


def with_topic(name: str, **changed: Any) -> KafkaFacts:
    """Return a sound Kafka, but for one topic."""
    return replace(SOUND, topics={**SOUND.topics, name: replace(SOUND.topics[name], **changed)})


def with_settings(name: str, **settings: str) -> KafkaFacts:
    """Return a sound Kafka, but for some settings of one topic."""
    given = {key.replace("_", "."): value for key, value in settings.items()}
    return with_topic(name, settings={**SOUND.topics[name].settings, **given})


def with_parts(name: str, *parts: PartitionFacts) -> KafkaFacts:
    """Return a sound Kafka, but for the partitions of one topic."""
    return with_topic(name, partitions=dict(enumerate(parts)))


VIEWS = parse_topics(
    """
topics: [{name: orders, key: /id, partitions: 2, replication: 2}]
views:
  - {name: totals, from: orders, replication: 2, grouping: [/desk], projection: [COUNT(1) AS /n, MAX(/qty) AS /most]}
  - {name: open, from: orders, replication: 2, filter: "/status = 'open'"}
  - {name: brief, from: orders, replication: 2, projection: [/id, /desk, /qty * 2 AS /twice]}
  - {name: renamed, from: orders, replication: 2, grouping: [/desk], projection: [MAX(/qty) AS /desk]}
"""
)
WITH_VIEWS = replace(
    SOUND,
    topics=sound_topics(VIEWS),
    groups={
        "g-materializer": GroupFacts(1, frozenset((topic.log, n) for topic in VIEWS.topics for n in (0, 1))),
        **{f"g-view-{view.name}": GroupFacts(1, GROUPS["g-fanout-late"].owned) for view in VIEWS.views},
    },
    applied={(topic.log, n): 9 for topic in VIEWS.topics for n in (0, 1)},
    reflected={("totals.partials", 0): {0: 9, 1: 9}, ("totals.partials", 1): {0: 9, 1: 9}},
)
