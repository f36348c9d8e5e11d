"""The Kafka topics of a topic: their names and limits."""

from typing import Any

from sowline.config.topic_definition import TopicDefinition, define_topic


def define(**given: Any) -> TopicDefinition:
    """Return the definition of `orders` with what is given."""
    return define_topic(**{"name": "orders", "key": "/id", **given})


def test_what_fits_does_not_depend_on_deltas() -> None:
    """They may come and go: the limit has room for three bodies either way."""
    plain, with_deltas = define(record_bytes_max=1000), define(record_bytes_max=1000, delta=True)
    assert plain.kafka.log_bytes_max == with_deltas.kafka.log_bytes_max > 3000
    assert plain.kafka.dead_bytes_max == with_deltas.kafka.dead_bytes_max > plain.kafka.log_bytes_max
