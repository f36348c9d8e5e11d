"""The names of a topic's Kafka topics."""

from typing import Any

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
