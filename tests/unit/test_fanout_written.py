"""What a fanout does where Kafka has not taken what it wrote."""

import threading
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from fanout.runner import Runner
from sowline.errors import SowlineError
from sowline.settings import Settings
from sowline.topics import parse_topics

NOBODY: Any = None


@pytest.fixture
def runner() -> Runner:
    """One that has not begun."""
    topics = parse_topics("{topics: [{name: t, key: /id}], fanouts: [{name: f, topic: t}]}")
    settings = Settings(kafka="127.0.0.1:1")
    return Runner(settings, topics.fanouts[0], topics.topics[0], threading.Event())


def test_a_producer_that_has_come_to_its_end_makes_it_begin_again(runner: Runner) -> None:
    """As after a Kafka that was killed: a new one writes what was not committed."""
    runner._check_written()
    runner._on_delivery(None, NOBODY)
    runner._check_written()
    runner._on_error(KafkaError(KafkaError._TRANSPORT))
    runner._check_written()
    runner._on_error(KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, "lost", fatal=True))
    with pytest.raises(KafkaException, match="lost"):
        runner._check_written()


def test_a_message_that_is_refused_stops_it(runner: Runner) -> None:
    """Whatever the producer says because of it: it would be refused again."""
    runner._on_error(KafkaError(KafkaError._GAPLESS_GUARANTEE, "a gap", fatal=True))
    runner._on_delivery(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "too large"), NOBODY)
    runner._on_delivery(KafkaError(KafkaError._PURGE_QUEUE), NOBODY)
    with pytest.raises(SowlineError, match="too large") as error:
        runner._check_written()
    assert error.value.reason == "not written"
