"""The error of a fanout whose message a real Kafka refuses."""

import os

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from sowline.changes.change import Change
from sowline.config.kafka_options import kafka_config
from sowline.config.topics import parse_topics
from sowline.errors import SowlineError
from sowline.model.position import Position
from sowline.subscriptions.engine.subscription import PUBLISH, Delivery
from sowline_fanout.output import FanoutOutput


def test_a_refused_message_is_named(kafka: str, prefix: str) -> None:
    """The producer has failed by then as well, and says so first: that is not the reason to show."""
    topics = parse_topics(
        f"{{topics: [{{name: {prefix}t, key: /id}}], fanouts: [{{name: {prefix}f, topic: {prefix}t}}]}}"
    )
    (fanout,), (source,) = topics.fanouts, topics.topics
    small = NewTopic(fanout.output, 1, config={"max.message.bytes": "1000"})
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_topics([small])[fanout.output].result()
    output = FanoutOutput(kafka_config(kafka), fanout, source)
    for number in range(5):
        # Bytes that don't get smaller by compression.
        body = b'{"id":1,"text":"%s"}' % os.urandom(2000 if number == 2 else 10).hex().encode()
        change = Change(b"1", body, None, Position(0, number), Position(0, number - 1), "publish", 1000)
        output.send(0, change, Delivery(PUBLISH, body))
    assert output.flush(lambda: False)
    with pytest.raises(SowlineError, match="Message size too large") as error:
        output.require_written()
    assert error.value.reason == "not written"
    output.close()
