"""The Kafka topics of a topic: their names and limits."""

from typing import Any

import pytest

from sowline.config.topic_definition import TopicDefinition, define_topic


def define(**given: Any) -> TopicDefinition:
    """Return the definition of `orders` with what is given."""
    return define_topic(**{"name": "orders", "key": "/id", **given})


def test_what_fits_does_not_depend_on_deltas() -> None:
    """They may come and go: the limit has room for three bodies either way."""
    plain, with_deltas = define(record_bytes_max=1000), define(record_bytes_max=1000, delta=True)
    assert plain.kafka.log_bytes_max == with_deltas.kafka.log_bytes_max > 3000
    assert plain.kafka.dead_bytes_max == with_deltas.kafka.dead_bytes_max > plain.kafka.log_bytes_max


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({}, ("orders", "orders.changes", "orders.dead")),
        ({"message_type": "msgpack"}, ("orders", "orders.changes", "orders.dead", "orders.schemas")),
        ({"log": "old", "name": "eu/orders"}, ("old", "old.changes", "old.dead")),
    ],
)
def test_a_topic_has_a_log_changes_and_dead_letters(given: dict[str, Any], names: tuple[str, ...]) -> None:
    """And the schemas of its messages, in other message types than JSON."""
    assert define(**given).kafka.names == names


@pytest.mark.parametrize(
    ("given", "window"),
    [
        ({}, 3_600_000),
        ({"history": {"window": "2h"}}, 7_200_000),
        ({"history": {"window": "1h"}, "resume_window": "3h"}, 10_800_000),
        ({"documents": True, "history_ttl": "1d"}, 86_400_000),
    ],
)
def test_changes_are_kept_for_the_longest_window(given: dict[str, Any], window: int) -> None:
    """A service that starts reads histories and timelines from them."""
    assert define(**given).kafka.change_window_ms == window
