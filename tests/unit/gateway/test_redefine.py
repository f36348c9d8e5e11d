"""A gateway whose file of topics changes: topics that come, and the end of what uses those that leave."""

import asyncio
import json

from sowline.config.definition_changes import followed
from sowline.config.topics import parse_topics
from tests.unit.gateway.rig import rig
from tests.waiting import until

ORDERS = "{name: orders, key: /id, partitions: 4}"
TRADES = "{name: trades, key: /id, partitions: 4}"
OLD = parse_topics(f"topics: [{ORDERS}]")
BOTH = parse_topics(f"topics: [{ORDERS}, {TRADES}]")
NEW = parse_topics(f"topics: [{TRADES}]")
SENTENCE = "expected a topic in topics.yaml, got orders, which has left it"


async def test_a_topic_that_leaves_ends_its_subscriptions() -> None:
    """Each with its reason; later requests are refused, and no stream stays."""
    async with rig(["0/2", "1/2"]) as made:
        client = made.client()
        await client.ask("subscribe", sub_id="s", ack_type="processed")
        made.context.redefine(followed(OLD, NEW), client.session.commands.end_subscriptions_to)
        async with asyncio.timeout(10):
            [ended] = map(json.loads, await client.session.outbox.take())
        assert (ended["status"], ended["reason"], ended["sub_id"]) == ("failure", "invalid topic", "s")
        assert SENTENCE in ended["message"]
        await until(lambda: not len(made.context.streams) and not list(made.context.subscriptions))
        [refused] = await client.ask("sow")
        assert refused["reason"] == "invalid topic"
        assert made.node_set.names == {"trades": "trades"}


async def test_a_new_topic_is_not_there_until_nodes_announce_it() -> None:
    """Other topics go on, and the gateway stays started."""
    async with rig(["0/2", "1/2"]) as made:
        client = made.client()
        await client.ask("subscribe", sub_id="s", ack_type="processed")
        made.context.redefine(followed(OLD, BOTH), client.session.commands.end_subscriptions_to)
        [refused] = await client.ask("sow", topic="trades")
        assert refused["reason"] == "shard unavailable"
        assert made.node_set.missing() is None
        made.put({"id": 1, "v": 1})
        async with asyncio.timeout(10):
            [change] = map(json.loads, await client.session.outbox.take())
        assert (change["command"], change["data"]) == ("publish", {"id": 1, "v": 1})
