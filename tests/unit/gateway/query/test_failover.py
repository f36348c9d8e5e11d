"""What a gateway answers while nodes fail, come back, lag, or change their shards."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from sowline.model.key import partition_of
from sowline.serving.query_slots import QuerySlots, SlotLimits
from sowline_gateway.nodes import failover
from sowline_gateway.nodes.announcements import Announcements
from sowline_gateway.nodes.routing import Announcement
from sowline_query_service.query import freshness
from tests.unit.gateway.rig import Json, Rig, RigClient, rig
from tests.waiting import as_soon_as, until

pytestmark = pytest.mark.slow


def ids(messages: list[Json]) -> list[int]:
    """Return the ids of the records in an answer."""
    batches = [message["records"] for message in messages if message["command"] == "sow"]
    return [record["data"]["id"] for records in batches for record in records]


def filled(made: Rig, count: int = 40) -> Rig:
    """Write records."""
    for number in range(count):
        made.put({"id": number, "v": 1})
    return made


async def read(client: RigClient) -> list[int]:
    """Return the ids of all records, which must have been answered."""
    answer = await client.ask("sow", order_by="/id")
    assert answer[-1]["status"] == "success", answer
    return ids(answer)


async def test_a_replica_answers_for_one_that_is_gone() -> None:
    """Before the gateway knows that it is gone, and afterwards; and again once it is back."""
    async with rig(["0/2", "0/2", "1/2", "1/2"]) as made:
        filled(made)
        client = made.client()
        for node in (made.nodes[0], made.nodes[2]):
            await node.stop()
            for _ in range(10):
                assert await read(client) == list(range(40))
        for node in (made.nodes[0], made.nodes[2]):
            await node.start()
        await made.nodes[1].stop()
        assert await read(client) == list(range(40))


async def test_a_missing_shard_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """It names the partitions: no answer lacks records without saying so."""
    monkeypatch.setattr(failover, "FAILOVER_SECONDS", 0.2)
    async with rig(["0/2", "1/2"]) as made:
        filled(made)
        client = made.client()
        await made.nodes[1].stop()
        missing = ", ".join(map(str, made.nodes[1].shard.partitions(made.whole.topics.topics[0])))
        for request in (
            {},
            {"top_n": 1},
            {"order_by": "/id"},
            {"options": "projection=[/v,COUNT(1) AS /n],grouping=[/v]"},
        ):
            answer = await client.ask("sow", **request)
            assert [(one["command"], one["reason"]) for one in answer] == [("ack", "shard unavailable")]
            assert f"orders {missing}." in answer[0]["message"]
        await made.nodes[1].start()
        monkeypatch.setattr(failover, "FAILOVER_SECONDS", 5.0)
        assert await read(client) == list(range(40))


async def test_a_partial_answer_says_what_is_missing() -> None:
    """At once, and in each group; a subscription is never partial, and without any node there is an error."""
    async with rig(["0/2", "1/2"]) as made:
        filled(made)
        client = made.client()
        gone = list(made.nodes[1].shard.partitions(made.whole.topics.topics[0]))
        there = [number for number in range(40) if partition_of(str(number), made.partitions) not in gone]
        answer = await client.ask("sow", options="partial")
        assert sorted(ids(answer)) == list(range(40))
        assert not any("missing" in message or "warnings" in message for message in answer)
        await made.nodes[1].stop()
        for request in ({}, {"order_by": "/id"}, {"options": "partial,grouping=[/id],projection=[/id]"}):
            answer = await client.ask("sow", **{"options": "partial", **request})
            (begin,) = [message for message in answer if message["command"] == "group_begin"]
            assert begin["missing"] == {"orders": gone}
            assert "the answer is partial" in begin["warnings"][0]
            assert sorted(ids(answer)) == there
        (refused,) = await client.ask("sow_and_subscribe", options="partial", ack_type="processed")
        assert refused["reason"] == "invalid options"
        (refused,) = await made.whole_client().ask("subscribe", options="partial", ack_type="processed")
        assert refused["reason"] == "invalid options"
        await made.nodes[0].stop()
        (refused,) = await client.ask("sow", options="partial")
        assert refused["reason"] == "shard unavailable"


async def test_a_query_waits_for_a_node_that_comes_back() -> None:
    """For some seconds: a restart is not an error."""
    async with rig(["0/2", "1/2"]) as made:
        filled(made)
        client = made.client()
        await made.nodes[1].stop()
        asked = asyncio.create_task(read(client))
        partial = await made.client().ask("sow", options="partial")
        assert any("missing" in message for message in partial)
        assert not asked.done()
        await made.nodes[1].start()
        assert await asked == list(range(40))


async def test_the_number_of_shards_changes() -> None:
    """At each moment of it the answers are whole: both generations run for a while."""
    async with rig(["0/2", "1/2", "0/3", "1/3", "2/3"]) as made:
        filled(made)
        client = made.client()
        assert await read(client) == list(range(40))
        for node in made.nodes[:2]:
            await node.stop()
            assert await read(client) == list(range(40))
        for node in made.nodes[:2]:
            await node.start()
        await made.nodes[3].stop()
        assert await read(client) == list(range(40))


async def test_an_answer_never_goes_behind_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica that is behind is asked last; if no other is left, the query waits for it, or is refused."""
    async with rig(["0/1", "0/1"]) as made:
        ahead, behind = made.nodes
        filled(made)
        for number in range(40, 50):
            made.put({"id": number}, of=[ahead])
        client = made.client()
        while await read(client) != list(range(50)):
            pass
        for _ in range(20):
            assert await read(client) == list(range(50))
        await ahead.stop()
        asked = asyncio.create_task(read(client))
        assert await read(made.client()) == list(range(40))
        assert not asked.done()
        monkeypatch.setattr(freshness, "AT_LEAST_SECONDS_MAX", 0.1)
        monkeypatch.setattr(failover, "FAILOVER_SECONDS", 0.1)
        for number in range(40, 50):
            behind.server.put({"id": number}, None, partition_of(str(number), made.partitions))
        assert await asked == list(range(50))


async def test_a_replica_that_stays_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the positions, and only for the client that has seen more."""
    monkeypatch.setattr(freshness, "AT_LEAST_SECONDS_MAX", 0.1)
    async with rig(["0/1", "0/1"]) as made:
        ahead, _ = made.nodes
        filled(made, 5)
        client, other = made.client(), made.client()
        made.put({"id": 5}, of=[ahead])
        while await read(client) != list(range(6)):
            pass
        await ahead.stop()
        # Not before: on a busy machine, the replica that is ahead may take longer to answer.
        monkeypatch.setattr(failover, "FAILOVER_SECONDS", 0.3)
        answer = await client.ask("sow")
        assert answer[-1]["reason"] == "behind"
        assert "before orders:" in answer[-1]["message"]
        assert await read(other) == list(range(5))


async def test_a_node_that_is_lost_while_it_answers() -> None:
    """Ends the query with an error: its client knows that records are missing."""
    async with rig(["0/2", "1/2"], partitions=2) as made:
        for number in range(30_000):
            made.put({"id": number, "text": "x" * 300})
        client = made.client()
        request: dict[str, Any] = {"batch_size": 100}
        asked = asyncio.create_task(client.ask("sow", **request))
        await as_soon_as(lambda: client.session.outbox.sent)
        await made.nodes[0].stop()
        answer = await asked
        assert answer[-1]["status"] == "failure"
        assert answer[-1]["reason"] == "shard unavailable"
        assert "lost while it answered" in answer[-1]["message"]
        assert 0 < len(ids(answer)) < 30_000


async def test_a_node_that_was_restarted_as_another_shard() -> None:
    """What it announced no longer holds: the answer's own positions show it, and the query begins again."""
    async with rig(["0/2", "1/2"]) as made:
        filled(made)
        client = made.client()
        known = made.announced
        one, other = (known[node.url] for node in made.nodes)
        known[one.url] = Announcement(one.url, other.shard, other.topics)
        known[other.url] = Announcement(other.url, one.shard, one.topics)
        assert await read(client) == list(range(40))


async def test_a_node_that_holds_less_than_it_announced() -> None:
    """Also for a bookmark of the past: the partitions that the answer names decide, and the query begins again."""
    async with rig(["0/2", "1/2"]) as made:
        filled(made)
        client = made.client()
        bookmark = (await client.ask("sow", top_n=0))[0]["bookmark"]
        known = made.announced
        one, other = (known[node.url] for node in made.nodes)
        positions = one.topics["orders"].positions | other.topics["orders"].positions
        both = {"orders": replace(one.topics["orders"], positions=positions)}
        for request in ({}, {"bookmark": bookmark}):
            known[one.url] = Announcement(one.url, one.shard, both)
            assert ids(await client.ask("sow", order_by="/id", **request)) == list(range(40))


async def test_a_node_that_holds_nothing_any_more() -> None:
    """Restarted as a shard without a partition of the topic, it answers with the bookmark `epoch`."""
    async with rig(["0/2", "1/2"], partitions=1) as made:
        filled(made)
        client = made.client()
        known = made.announced
        (holder,) = (node for node in known.values() if node.topics["orders"].positions)
        (empty,) = (node for node in known.values() if not node.topics["orders"].positions)
        known[empty.url] = replace(empty, topics=holder.topics)
        del known[holder.url]
        assert await read(client) == list(range(40))


async def test_connections_that_ended_while_they_were_idle() -> None:
    """They are not used again, and their node does not count as lost."""
    async with rig(["0/1"]) as made:
        filled(made)
        client = made.client()
        for _ in range(3):
            assert await read(client) == list(range(40))
            await made.nodes[0].stop()
            await made.nodes[0].start()
            while not made.node_set.announcements.nodes:
                await made.node_set.announcements.wait_for_news(1)
        assert made.node_set.announcements.lost == 0


@pytest.mark.parametrize(
    "read",
    [
        {"command": "sow"},
        {"command": "explain", "ack_type": "processed,completed"},
        {"command": "sow_and_subscribe"},
        {"command": "sow_and_subscribe", "order_by": "/id", "skip_n": 0, "top_n": 1},
        {"command": "subscribe", "bookmark": "epoch", "ack_type": "processed,completed"},
    ],
    ids=["query", "explain", "snapshot", "page", "missed changes"],
)
async def test_a_query_that_waits_for_nodes_holds_no_turn(
    read: Json, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others have its turn meanwhile; it goes on when the node is back."""
    slots, catching_up = QuerySlots(SlotLimits(service=1)), asyncio.Semaphore(1)
    running, wait_for_news = list[int](), Announcements.wait_for_news

    async def noted(announcements: Announcements, seconds_max: float) -> None:
        running.append(slots.running + catching_up.locked())
        await wait_for_news(announcements, seconds_max)

    async with rig(["0/2", "1/2"]) as made:
        filled(made, 4)
        made.context = replace(made.context, slots=slots, catch_up_slots=catching_up)
        monkeypatch.setattr(Announcements, "wait_for_news", noted)
        await made.nodes[1].stop()
        answering = asyncio.create_task(made.client().ask(**read, sub_id="s", query_id="q"))
        await until(lambda: running)
        await made.nodes[1].start()
        assert (await answering)[-1].get("reason") is None
        assert set(running) == {0}
        assert slots.running + catching_up.locked() == 0
