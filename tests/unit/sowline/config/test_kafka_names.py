"""The names of a topic's Kafka topics."""

from typing import Any

from sowline.config.kafka_names import KafkaNames, default_log
from sowline.config.topic_definition import TopicDefinition, define_topic


def define(**given: Any) -> TopicDefinition:
    """Return the definition of `orders` with what is given."""
    return define_topic(**{"name": "orders", "key": "/id", **given})


def test_a_slash_in_a_name_is_a_dot_on_kafka() -> None:
    """Kafka topics have no slashes; the name and the key domain keep theirs."""
    topic = define(name="eu/orders")
    assert (topic.log, topic.changes, topic.declared.key_domain) == (
        "eu.orders",
        "eu.orders.changes",
        "eu/orders",
    )


def test_the_topics_of_a_topic_begin_with_its_log() -> None:
    """A log may have any name, and the other topics follow it."""
    names = KafkaNames.of_log("other")
    assert (names.changes, names.dead, names.schema_log) == ("other.changes", "other.dead", "other.schemas")


def test_the_log_of_a_view_has_partial_states() -> None:
    """Its changes and dead letters are named like those of any topic."""
    names = KafkaNames.of_view("eu/late")
    assert names.log == "eu.late.partials"
    assert (names.changes, names.dead) == ("eu.late.changes", "eu.late.dead")
    assert default_log("eu/late") == "eu.late"
