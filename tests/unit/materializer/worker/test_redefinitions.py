"""Definitions that change while a worker runs."""

from unittest.mock import Mock, call

from sowline.config.definition_changes import ChangeEffect
from sowline.config.topics import parse_topics
from sowline_materializer.worker.owned import OwnedPartitions
from sowline_materializer.worker.redefinitions import Redefinitions

TOPICS = parse_topics("topics: [{name: orders, key: /id}]")


def test_a_worker_without_partitions_of_the_topic_copies_it_again() -> None:
    """Its warm copies end with the old definition, and begin with the new one."""
    owned, standby = OwnedPartitions({one.log: one for one in TOPICS.topics}), Mock()
    redefinitions = Redefinitions(owned, Mock(), standby, Mock())
    followed = Mock(topics=TOPICS)
    followed.topics_that_are.side_effect = lambda effect: {"orders"} if effect is ChangeEffect.LIVE else set()
    redefinitions.put(followed)
    redefinitions.take(Mock())
    assert standby.mock_calls == [call.end_copies({"orders"}), call.cover([])]
