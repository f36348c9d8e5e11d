"""What is known of several nodes together."""

from dataclasses import replace

from sowline.config.topics import parse_topics
from sowline.model.position import Position
from sowline_gateway.nodes.node_set import NodeSet
from sowline_gateway.nodes.routing import AnnouncedTopic, Announcement
from tests.unit.gateway.rig import rig

TOPICS = "topics: [{name: orders, key: /id}, {name: trades, key: /id}]"


def with_lag(node: Announcement, seconds: float | None) -> Announcement:
    """Return an announcement with another lag of its topics."""
    topics = {name: replace(topic, lag_seconds=seconds) for name, topic in node.topics.items()}
    return replace(node, topics=topics)


async def test_a_silent_node_of_two_shards_is_left() -> None:
    """While one of the nodes announces nothing, or not its lag, the lag of the other one stands for neither."""
    async with rig(["0/2", "1/2"]) as made:
        nodes, known = made.node_set, made.announced
        one, other = (node.url for node in made.nodes)
        known[one], known[other] = with_lag(known[one], 0.1), with_lag(known[other], 0.5)
        assert nodes.lag_seconds([one, other], ["orders"]) == 0.5
        assert nodes.lag_seconds([one], ["orders"]) == 0.1
        known[other] = with_lag(known[other], None)
        assert nodes.lag_seconds([one, other], ["orders"]) is None
        known[other] = with_lag(known[other], 0.5)
        del known[one]
        assert nodes.lag_seconds([one, other], ["orders"]) is None
        assert nodes.lag_seconds([other], ["orders"]) == 0.5


async def test_a_topic_that_loads_hides_no_other() -> None:
    """A node that can't load one of its topics answers for the others: only that one is missing."""
    topics = {topic.name: topic for topic in parse_topics(TOPICS).topics}
    async with rig(["0/1"]) as made:
        [url] = made.announced
        held = {0: Position(0, 5)}
        announced = {"orders": AnnouncedTopic(held), "trades": AnnouncedTopic(held, is_loading=True)}
        made.announced[url] = replace(made.announced[url], topics=announced)
        nodes = NodeSet(topics, made.node_set.announcements, made.node_set.connections)
        assert "for these partitions now: trades 0." in (nodes.missing() or "")
        announced["trades"] = AnnouncedTopic(held)
        assert nodes.missing() is None
