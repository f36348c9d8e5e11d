"""Subscriptions at a gateway: a client holds what it would hold at one query service, whichever nodes fail."""

import random
from contextlib import AsyncExitStack
from functools import partial

import pytest

from sowline.language.filter import compile_filter
from sowline.model.bookmark import parse_bookmark
from sowline.model.key import hash_of
from sowline.serving.authorization.entitlements import EVERYTHING, Entitlement, Rights, to_read
from sowline_gateway.nodes import connections, failover
from tests.unit.gateway.rig import Json, Node, Rig, rig
from tests.unit.gateway.subscriber import Subscriber, change, has_groups, holds, matching, subscriber
from tests.waiting import loop_turns, pace, until

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("command", ["sow_and_subscribe", "sow_and_delta_subscribe"])
@pytest.mark.parametrize("shards", [["0/1"], ["0/2", "1/2"], ["0/3", "1/3", "2/3"]], ids=len)
async def test_a_client_holds_what_matches(shards: list[str], command: str) -> None:
    """From the snapshot on, through changes before, during and after it, with what goes out of focus."""
    seed = random.randrange(1 << 30)
    chance = random.Random(seed)
    async with rig(shards) as made:
        for _ in range(40):
            change(made, chance)
        fields = {"filter": "/v > 4", "options": "oof", "ack_type": "processed,completed,stats"}
        async with subscriber(made, EVERYTHING, command=command, **fields) as mine:
            for number in range(200):
                change(made, chance)
                if number % 20 == 0:
                    await loop_turns()
            wanted = matching(made, lambda record: record["v"] > 4)
            await mine.until(lambda: mine.held == wanted, f"seed {seed}")
            await mine.until(lambda: len(mine.acks()) == 3)
            assert mine.acks() == [("processed", ""), ("completed", ""), ("stats", "")]
            assert sum(one["command"] == "group_begin" for one in mine.messages) == 1


async def test_a_node_is_lost_under_load() -> None:
    """Its partitions continue at another replica, from the positions that the client was sent."""
    seed = random.randrange(1 << 30)
    chance = random.Random(seed)
    async with (
        rig(["0/2", "0/2", "1/2", "1/2"]) as made,
        subscriber(made, command="sow_and_subscribe", filter="/v > 4", options="oof") as mine,
    ):
        for turn in range(6):
            for _ in range(60):
                change(made, chance)
                if chance.random() < 0.1:
                    await pace(0.001)
            node = made.nodes[turn % 4]
            await node.stop()
            for _ in range(30):
                change(made, chance)
            await node.start()
            wanted = matching(made, lambda record: record["v"] > 4)
            await mine.until(lambda wanted=wanted: mine.held == wanted, f"seed {seed}, turn {turn}")
        assert not any(one.get("reason") == "shard unavailable" for one in mine.messages)


@pytest.mark.parametrize("options", ["oof", "oof,rate=1000"])
async def test_a_node_that_has_forgotten_its_connections(
    options: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It sends nothing, not even a reset, and answers new connections: subscriptions continue there."""
    monkeypatch.setattr(connections, "PROBE_AFTER_SECONDS", 1)
    async with rig(["0/1"]) as made, subscriber(made) as mine:
        mine.send("sow_and_subscribe", options=options, bookmark="now", ack_type="processed,completed")
        await mine.until(lambda: len(mine.acks()) == 2)
        made.put({"id": 1, "v": 1})
        await mine.until(lambda: mine.held == matching(made))
        made.nodes[0].forget_connections()
        made.put({"id": 2, "v": 1})
        await mine.until(lambda: mine.held == matching(made))
        assert mine.acks() == [("processed", ""), ("completed", "")]


async def test_the_number_of_shards_changes_under_load() -> None:
    """The partitions move to nodes of the other generation."""
    chance = random.Random(7)
    async with (
        rig(["0/2", "1/2", "0/3", "1/3", "2/3"]) as made,
        subscriber(made, command="sow_and_subscribe", filter="/v > 4", options="oof") as mine,
    ):
        for node in made.nodes[:2]:
            for _ in range(50):
                change(made, chance)
            await node.stop()
            wanted = matching(made, lambda record: record["v"] > 4)
            await mine.until(lambda wanted=wanted: mine.held == wanted)


async def test_a_shard_that_stays_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ends the subscription with an error that names the partitions; a client that returns gets the changes since."""
    monkeypatch.setattr(failover, "FAILOVER_SECONDS", 0.3)
    async with rig(["0/2", "1/2"]) as made:
        for number in range(10):
            made.put({"id": number, "v": 1})
        async with subscriber(made, command="sow_and_subscribe") as mine:
            await mine.until(lambda: len(mine.held) == 10)
            await made.nodes[0].stop()
            await mine.until(lambda: ("processed", "shard unavailable") in mine.acks())
            assert mine.messages[-1]["sub_id"] == "mine"
            for number in range(10):
                made.put({"id": number, "v": 2})
            await made.nodes[0].start()
            monkeypatch.setattr(failover, "FAILOVER_SECONDS", 10.0)
            bookmark = ";".join(
                f"{log}:{','.join(f'{n}@{p}' for n, p in held.items())}"
                for log, held in mine.bookmark.items()
            )
            mine.send("sow_and_subscribe", bookmark=bookmark)
            await mine.until(lambda: all(record["v"] == 2 for record in mine.held.values()))


async def test_a_checksum_over_all_nodes() -> None:
    """While changes come: it is of what the client holds when it arrives."""
    chance = random.Random(3)
    async with (
        rig(["0/2", "1/2"]) as made,
        subscriber(made, command="sow_and_subscribe", filter="/v > 4", options="oof") as mine,
    ):
        await mine.until(lambda: any(one["command"] == "group_end" for one in mine.messages))
        for turn in range(10):
            for _ in range(20):
                change(made, chance)
            mine.send("heartbeat", command_id=f"proof {turn}", topic="", ack_type="processed")
            for _ in range(20):
                change(made, chance)
                await loop_turns()
            await mine.until(lambda: ("processed", "") in mine.acks()[turn:])  # noqa: B023 - awaited here
        proofs = [one for one in mine.messages if one["command"] == "progress" and "hash" in one]
        assert len(proofs) == 10
        held: dict[str, Json] = {}
        replayed = Subscriber(made.client())
        for message in mine.messages:
            replayed.take(message)
            held = replayed.held
            if message["command"] == "progress" and "hash" in message:
                keys = [key.encode() for key in held]
                assert (message["records"], message["hash"]) == (len(keys), f"{hash_of(keys):016x}")


async def test_pause_and_resume_across_a_failover() -> None:
    """A paused subscription stays paused at another node, and continues from where it was."""
    async with (
        rig(["0/1", "0/1"]) as made,
        subscriber(made, command="sow_and_subscribe") as mine,
        subscriber(made, command="sow_and_subscribe") as other,
    ):
        for one in (mine, other):
            await one.until(partial(has_groups, one, 1))
        node = serving(made)
        mine.send("pause", command_id="p", ack_type="processed")
        made.put({"id": 1, "v": 1})
        await node.stop()
        await other.until(partial(holds, other, 1))
        assert not mine.held
        mine.send("resume", command_id="r", ack_type="processed")
        await mine.until(lambda: len(mine.held) == 1)
        mine.send("unsubscribe", command_id="u", ack_type="processed")
        made.put({"id": 2, "v": 1})
        await other.until(partial(holds, other, 2))
        assert len(mine.held) == 1


async def test_rights_of_a_subscriber() -> None:
    """Records that a user may not see never come, and leave when they become invisible."""
    rights = Rights(to_read(Entitlement("orders", compile_filter("/v > 4"))))
    chance = random.Random(5)
    async with (
        rig(["0/2", "1/2"]) as made,
        subscriber(made, rights, command="sow_and_subscribe", options="oof") as mine,
    ):
        for _ in range(150):
            change(made, chance)
            await loop_turns()
        wanted = matching(made, lambda record: record["v"] > 4)
        await mine.until(lambda: mine.held == wanted)
        assert all(one["data"]["v"] > 4 for one in mine.messages if one["command"] == "publish")


@pytest.mark.parametrize("command", ["sow_and_subscribe", "sow_and_delta_subscribe"])
async def test_conflated_messages_are_of_all_partitions(command: str) -> None:
    """Their bookmarks name all partitions, and each interval is one step, whichever nodes fail."""
    chance = random.Random(command)
    async with rig(["0/2", "0/2", "1/2", "1/2"]) as made:
        for _ in range(30):
            change(made, chance)
        async with subscriber(made, command=command, options="oof,conflation=200ms") as mine:
            await mine.until(lambda: mine.held == matching(made))
            for turn in range(120):
                change(made, chance)
                if turn in (40, 80):
                    await made.nodes[0 if turn == 40 else 3].stop()
                await pace(0.002)
            await mine.until(lambda: mine.held == matching(made))
            live = [message for message in mine.messages if message["command"] in ("publish", "oof")]
            assert all(parse_bookmark(one["bookmark"])["orders"].keys() == set(range(4)) for one in live)
            assert len([one for one in live if not one.get("more")]) < 30


async def test_a_key_conflates_records() -> None:
    """Of the records with one value only the last is sent, across all nodes."""
    async with (
        rig(["0/2", "1/2"]) as made,
        subscriber(
            made, command="subscribe", options="conflation=200ms,conflation_key=[/v]", ack_type="processed"
        ) as mine,
    ):
        await mine.until(lambda: bool(mine.acks()))
        for number in range(20):
            made.put({"id": number, "v": number % 2})
        await mine.until(lambda: len(mine.held) >= 2)
        made.put({"id": 20, "v": 2})
        await mine.until(lambda: len(mine.held) >= 3)
        assert sorted(record["v"] for record in mine.held.values()) == [0, 1, 2]


async def test_a_client_that_does_not_read_slows_only_itself() -> None:
    """Its messages wait at the nodes; others get theirs."""
    async with (
        rig(["0/2", "1/2"], backlog=20_000) as made,
        subscriber(made, command="sow_and_subscribe") as mine,
    ):
        await mine.until(lambda: any(one["command"] == "group_end" for one in mine.messages))
        slow = made.client()
        waiting = slow.session.receive_one(
            b'{"command":"sow_and_subscribe","command_id":"1","sub_id":"slow","topic":"orders"}'
        )
        assert waiting is None
        await until(lambda: slow.session.outbox.unsent_bytes)
        for number in range(3000):
            made.put({"id": number % 50, "v": number, "text": "x" * 1000})
            if number % 50 == 0:
                await pace(0.001)
        await mine.until(lambda: {record["v"] for record in mine.held.values()} == set(range(2950, 3000)))
        assert slow.session.outbox.unsent_bytes < 2 << 20
        slow.session.close()


async def test_live_subscriptions_are_counted() -> None:
    """To records and to views; not those that are paused, have a rate, or have ended."""
    async with rig(["0/2", "1/2"]) as made, AsyncExitStack() as stack:
        for number in range(5):
            made.put({"id": number, "v": 1})
        bookmark = (await made.client().ask("sow", top_n=0))[0]["bookmark"]
        found = [
            await stack.enter_async_context(
                subscriber(made, **{"command": "sow_and_subscribe", "ack_type": "completed"} | request)
            )
            for request in (
                {},
                {"options": "conflation=20ms"},
                {"bookmark": bookmark},
                {"topic": "^ord.*"},
                {"top_n": 2, "skip_n": 0},
                {"options": "grouping=[/v],projection=[/v,COUNT(1) AS /n]"},
                {"bookmark": bookmark, "options": "rate=100"},
            )
        ]
        for mine in found:
            await mine.until(lambda: bool(mine.acks()))  # noqa: B023 - awaited here
        live = made.context.live_subscriptions
        assert live() == {"orders": 6}
        for mine, command in ((found[0], "pause"), (found[4], "pause"), (found[3], "unsubscribe")):
            mine.send(command, command_id="2", topic="", ack_type="processed")
        for mine in (found[0], found[3], found[4]):
            await mine.until(lambda: ("processed", "") in mine.acks())  # noqa: B023 - awaited here
        assert live() == {"orders": 3}
        found[0].send("resume", command_id="3", topic="", ack_type="completed")
        made.put({"id": 1, "v": 2})
        await found[0].until(lambda: any(one["command"] == "publish" for one in found[0].messages))
        assert live() == {"orders": 4}


async def test_a_query_is_not_behind_live_messages() -> None:
    """The client has seen a change of a replica that is ahead: its next query is not answered by the other."""
    async with (
        rig(["0/1", "0/1"]) as made,
        subscriber(made, command="subscribe", ack_type="processed") as mine,
    ):
        await mine.until(lambda: bool(mine.acks()))
        ahead = serving(made)
        for number in range(20):
            made.put({"id": number, "v": 1}, of=[ahead])
            await mine.until(partial(holds, mine, number + 1))
            mine.send("sow", command_id=f"q{number}", sub_id="", ack_type="completed")
            await mine.until(partial(completed, mine, number + 1))
            ended = [one["records"] for one in mine.messages if one["command"] == "group_end"]
            assert ended[-1] == number + 1


def completed(mine: Subscriber, count: int) -> bool:
    """Return whether so many commands of a client are completed."""
    return [kind for kind, _ in mine.acks()].count("completed") == count


def serving(made: Rig) -> Node:
    """Return the one node that has subscriptions."""
    (node,) = (node for node in made.nodes if node.server.dispatcher.live)
    return node


@pytest.mark.parametrize(
    ("definition", "expected"),
    [
        ("{name: work, key: /v, partitions: 4}]\nviews: [{name: orders, from: work}", {"v": 1, "n": 2}),
        ("{name: work, key: /id, partitions: 4}]\nviews: [{name: orders, from: work}", {"id": 1, "n": 2}),
        (
            "{name: orders, key: {from: kafka_key}, message_type: binary, partitions: 4}",
            {"id": 1, "v": 1, "n": 2},
        ),
    ],
)
@pytest.mark.parametrize("more", [{}, {"options": "conflation=10ms"}, {"skip_n": 0, "top_n": 5}])
async def test_deltas(definition: str, expected: Json, more: Json) -> None:
    """They have the key fields of a view; a message type without deltas has whole records."""
    async with rig(["0/2", "1/2"], definition=definition) as made:
        made.put({"id": 1, "v": 1, "n": 1})
        request: Json = {"command": "sow_and_delta_subscribe", **more}
        async with subscriber(made, **request) as mine:
            await mine.until(lambda: bool(mine.held), "to hold the record")
            made.put({"id": 1, "v": 1, "n": 2})
            await mine.until(lambda: mine.messages[-1]["command"] == "publish", "to get the change")
            sent = mine.messages[-1]
            assert (sent["data"], sent.get("delta", False)) == (expected, "binary" not in definition)
