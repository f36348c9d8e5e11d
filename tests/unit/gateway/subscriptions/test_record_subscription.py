"""Subscriptions at a gateway: a client holds what it would hold at one query service, whichever nodes fail."""

import asyncio
import random
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import pytest

from sowline.language.filter import compile_filter
from sowline.model.bookmark import format_bookmark, parse_bookmark
from sowline.model.key import hash_of
from sowline.serving.authorization.entitlements import EVERYTHING, Entitlement, Rights, to_read
from sowline_gateway.nodes import connections, failover
from tests.unit.gateway.rig import Json, Node, Rig, rig
from tests.unit.gateway.subscriber import Subscriber, change, matching, subscriber
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


async def test_a_subscription_from_now_and_from_a_bookmark() -> None:
    """From now on only changes come; from a bookmark, all changes since then, each once."""
    async with rig(["0/2", "1/2"]) as made:
        for number in range(10):
            made.put({"id": number, "v": 1})
        bookmark = (await made.client().ask("sow", top_n=0))[0]["bookmark"]
        async with subscriber(made, command="subscribe", ack_type="processed,completed") as mine:
            await mine.until(lambda: len(mine.acks()) == 2)
            for number in range(10):
                made.put({"id": number, "v": 2})
            await mine.until(lambda: len(mine.held) == 10)
        async with subscriber(
            made, command="sow_and_subscribe", bookmark=bookmark, ack_type="processed,completed,stats"
        ) as mine:
            await mine.until(lambda: len(mine.acks()) == 3)
            await mine.until(lambda: len(mine.held) == 10)
            assert all(record["v"] == 2 for record in mine.held.values())
            assert sum(one["command"] == "publish" for one in mine.messages) == 10
            assert sum(one["command"] == "group_begin" for one in mine.messages) == 0


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


REPLACED: list[Json] = [
    {"filter": "/v < 5"},
    {"filter": "/v < 5", "command": "sow_and_delta_subscribe", "options": "conflation=1h"},
    {"sow_keys": ["15178519319658293642", "7087513560840384718"], "options": "select=[-/v]"},
    {"filter": "/v < 5", "command": "subscribe"},
    {"top_n": 3},
    {"filter": "/v < UNIX_TIMESTAMP()"},
]
REPLACING: list[Json] = [
    {"filter": "/v > 2", "options": "oof"},
    {"filter": "/v > 2", "options": "oof", "order_by": "/v DESC", "top_n": 4},
    {"filter": "/v > 2", "options": "no_sowkey,oof,conflation=1h", "topic": "^ord.*"},
    {"filter": "/v > 2", "options": ""},
    {"options": "oof,select=[-/v]", "batch_size": 7},
    {"filter": "/v > 2", "command": "subscribe", "options": "oof"},
    {"filter": "/v > 2", "command": "delta_subscribe", "options": "oof,timestamp"},
]


@pytest.mark.parametrize("more", ["", "at_least", "up_to"])
@pytest.mark.parametrize("now", range(len(REPLACING)))
@pytest.mark.parametrize("before", range(len(REPLACED)))
async def test_a_replacement_is_that_of_one_query_service(before: int, now: int, more: str) -> None:
    """What leaves, what the group has, marks, bookmarks, counts: also of records that have changed meanwhile.

    With an end, a gateway does not compute what leaves. It answers as one query service does that does not know what
    the client holds.
    """
    seed = random.randrange(1 << 30)
    chance = random.Random(seed)
    async with rig(["0/3", "1/3", "2/3"]) as made:
        for _ in range(60):
            change(made, chance)
        clients = made.whole_client(), made.client()
        with made.patched():
            for client in clients:
                first = {"command": "sow_and_subscribe", "sub_id": "mine", "ack_type": "completed"}
                given = first | REPLACED[before]
                if more == "up_to" and client is clients[0]:
                    given |= {
                        "command": "sow_and_subscribe",
                        "filter": "/v < UNIX_TIMESTAMP()",
                        "options": "",
                    }
                await client.ask(**given)
            for client in clients:
                await client.ask("pause", command_id="2", topic=None, sub_id="mine", ack_type="completed")
            for _ in range(30):
                change(made, chance)
            answers = []
            for client in clients:
                second = {"command": "sow_and_subscribe", "sub_id": "mine", "command_id": "3"}
                asked = second | REPLACING[now]
                if more:
                    asked[more] = format_bookmark({"orders": made.whole.topic.positions})
                answers.append(comparable(await client.ask(**replacing(asked))))
            clients[0].session.close()
            assert answers[1] == answers[0], f"seed {seed}"


@pytest.mark.parametrize("more", ["", "at_least", "up_to"])
@pytest.mark.parametrize("command", ["subscribe", "delta_subscribe", "sow_and_subscribe"])
@pytest.mark.parametrize("has_sow", [True, False])
async def test_a_replacement_within_a_group_is_that_of_one_query_service(
    has_sow: bool, command: str, more: str
) -> None:
    """The client is owed a whole group, also if it asks for none; that of a topic without a SOW is empty."""
    definition = "" if has_sow else "{name: orders, sow: false, partitions: 4}"
    async with rig(["0/2", "1/2"], definition=definition) as made:
        for number in range(20 if has_sow else 0):
            made.put({"id": number, "v": number})
        asked: Json = {"command": command, "command_id": "2", "sub_id": "mine", "options": "oof"}
        if more:
            asked[more] = format_bookmark({"orders": made.whole.topic.positions})
        clients, answers = (made.whole_client(), made.client()), []
        for client in clients:
            async with client.session.outbox.group():
                await client.ask("sow_and_subscribe", sub_id="mine", ack_type="processed")
                second = asyncio.create_task(client.ask(**replacing(asked)))
                await loop_turns()
            answers.append(comparable(await second))
        clients[0].session.close()
        assert [one.get("reset") for one in answers[0][-1] if one["command"] == "group_begin"] == [True]
        assert answers[1] == answers[0]


@pytest.mark.parametrize("more", [{}, {"up_to": "now"}])
@pytest.mark.parametrize("command", ["subscribe", "delta_subscribe"])
async def test_a_replacement_of_a_topic_without_a_sow_is_that_of_one_query_service(
    command: str, more: Json
) -> None:
    """Nothing leaves a client that holds no records."""
    async with rig(["0/2", "1/2"], definition="{name: orders, sow: false, partitions: 4}") as made:
        first: Json = {"command": command, "sub_id": "mine", "ack_type": "processed,completed"}
        second = replacing(first | {"command_id": "2", "options": "oof", **more})
        clients, answers = (made.whole_client(), made.client()), []
        with made.patched():
            for client in clients:
                await client.ask(**first)
                answers.append(await client.ask(**second))
        clients[0].session.close()
        assert answers[1] == answers[0]


def replacing(asked: Json) -> Json:
    """Return the command that replaces a subscription, with all acknowledgements; the last one ends the answer."""
    options = ",".join(filter(None, [asked.get("options", ""), "replace"]))
    acks = ["processed", "completed"]
    if asked["command"].startswith("sow"):
        # `completed` is the last message before an end, and else belongs to the group.
        acks.insert(1 if "up_to" in asked else 2, "stats")
    return asked | {"options": options, "ack_type": ",".join(acks)}


def comparable(messages: list[Json]) -> Any:
    """Return the messages of a replacement, without the order of those of several nodes."""
    kinds = [message["command"] for message in messages if message["command"] != "sow"]
    leaving = [message for message in messages if message["command"] == "oof"]
    # The last one may end the step.
    ends = [(message.pop("more", False), message.pop("bookmark")) for message in leaving]
    records = [str(one) for message in messages if message["command"] == "sow" for one in message["records"]]
    others = [message for message in messages if message["command"] not in ("oof", "sow")]
    return kinds, sorted(map(str, leaving)), ends, sorted(records), others


def has_groups(mine: Subscriber, count: int) -> bool:
    """Return whether a client was sent so many groups."""
    return [one["command"] for one in mine.messages].count("group_end") == count


async def test_a_subscription_replaces_another() -> None:
    """While changes come, twice in a row: the client holds all that it asks for last."""
    chance = random.Random(7)
    async with (
        rig(["0/2", "1/2"]) as made,
        subscriber(made, command="sow_and_subscribe", filter="/v < 5", options="oof") as mine,
    ):
        for _ in range(40):
            change(made, chance)
        await mine.until(lambda: mine.held == matching(made, lambda record: record["v"] < 5))
        for turn in range(5):
            # Within its group it is unknown what the client holds.
            await mine.until(partial(has_groups, mine, turn + 1))
            bound = chance.randrange(9)
            mine.send("sow_and_subscribe", filter="/v = 9", options="oof,replace")
            mine.send("sow_and_subscribe", filter=f"/v > {bound}", options="oof,replace")
            for number in range(40):
                change(made, chance)
                if number % 5 == 0:
                    await loop_turns()
            await mine.until(lambda: mine.held == matching(made, lambda record: record["v"] > bound))  # noqa: B023 - awaited here
        begins = [message for message in mine.messages if message["command"] == "group_begin"]
        assert [bool(begin.get("replace")) for begin in begins] == [False, *[True] * 5]
        assert mine.acks().count(("processed", "replaced")) == 5


@pytest.mark.parametrize("command", ["subscribe", "delta_subscribe"])
@pytest.mark.parametrize(
    "fields", [{"up_to": "now"}, {"options": "rate=100000"}, {"up_to": "now", "options": "conflation=20ms"}]
)
async def test_a_replay_is_in_the_order_of_time(fields: Json, command: str) -> None:
    """Across all nodes; with an end, it ends there, and says so last."""
    async with rig(["0/3", "1/3", "2/3"]) as made:
        for number in range(60):
            made.put({"id": number % 20, "v": number})
        end = format_bookmark({"orders": made.whole.topic.positions})
        given = {"ack_type": "processed,completed", "bookmark": "epoch", **fields}
        given["options"] = ",".join(filter(None, ["timestamp", given.get("options", "")]))
        with made.patched():
            async with subscriber(made, command=command, **given) as mine:
                await mine.until(lambda: ("completed", "") in mine.acks())
                assert mine.acks() == [("processed", ""), ("completed", "")]
                live = [message for message in mine.messages if message["command"] == "publish"]
                times = [message["timestamp"] for message in live]
                assert mine.held == matching(made)
                if "conflation" not in given["options"]:
                    assert times == sorted(times)
                    assert len(live) == 60
                assert mine.bookmark == parse_bookmark(end)
                made.put({"id": 1, "v": 100})
                if "up_to" in fields:
                    async with subscriber(made, command="sow_and_subscribe") as other:
                        await other.until(lambda: other.held == matching(made))
                    assert mine.held != matching(made)
                    assert mine.messages[-1]["ack_type"] == "completed"
                else:
                    await mine.until(lambda: mine.held == matching(made))


async def test_a_refused_replacement_changes_nothing() -> None:
    """The subscription that it names goes on."""
    async with (
        rig(["0/2", "1/2"]) as made,
        subscriber(made, command="sow_and_subscribe", options="oof") as mine,
    ):
        await mine.until(lambda: any(one["command"] == "group_end" for one in mine.messages))
        mine.send("subscribe", command_id="2", options="replace,oof,conflation=1s,conflation_key=[/v]")
        await mine.until(lambda: mine.acks() == [("processed", "invalid options")])
        made.put({"id": 1, "v": 1})
        await mine.until(lambda: mine.held == matching(made))


async def test_a_replay_ends_at_its_end() -> None:
    """Its last bookmark is the end also of partitions without a change that matches."""
    async with rig(["0/2", "1/2"]) as made:
        for number in range(40):
            made.put({"id": number, "v": number})
        end = {"orders": made.whole.topic.positions}
        fields: Json = {"bookmark": "epoch", "up_to": format_bookmark(end), "filter": "/v = 7"}
        with made.patched():
            async with subscriber(
                made, command="subscribe", ack_type="processed,completed", **fields
            ) as mine:
                await mine.until(lambda: ("completed", "") in mine.acks())
                assert parse_bookmark(mine.messages[-1]["bookmark"]) == end


async def test_a_replay_continues_at_another_node() -> None:
    """Nothing is left out or repeated, and the end stays the one of the beginning."""
    async with rig(["0/2", "0/2", "1/2", "1/2"]) as made:
        for number in range(400):
            made.put({"id": number, "v": number})
        with made.patched():
            async with subscriber(
                made,
                command="subscribe",
                bookmark="epoch",
                up_to="now",
                options="rate=2000",
                ack_type="processed,completed",
            ) as mine:
                await mine.until(lambda: len(mine.held) > 20)
                made.put({"id": 999, "v": 1})
                await made.nodes[0].stop()
                await made.nodes[2].stop()
                await mine.until(lambda: ("completed", "") in mine.acks())
                assert sorted(record["id"] for record in mine.held.values()) == list(range(400))
                assert len([one for one in mine.messages if one["command"] == "publish"]) == 400


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


@pytest.mark.parametrize("command", ["subscribe", "sow_and_subscribe"])
async def test_a_bookmark_that_has_expired(command: str) -> None:
    """With `reset` the client gets everything again, from all nodes; without it, the error of the node."""
    async with rig(["0/2", "1/2"], ring=3) as made:
        for number in range(10):
            made.put({"id": number, "v": 1})
        bookmark = (await made.client().ask("sow", top_n=0))[0]["bookmark"]
        for turn in range(10):
            for number in range(10):
                made.put({"id": number, "v": turn})
        gone = made.nodes[0].server
        gone.written[_held_by(made, 0)[0]].clear()
        with gone.patched(), made.nodes[1].server.patched():
            async with subscriber(made, command=command, bookmark=bookmark, options="reset") as mine:
                await mine.until(lambda: any(one.get("reset") for one in mine.messages))
                await mine.until(lambda: mine.held == matching(made))
                made.put({"id": 3, "v": 77})
                await mine.until(lambda: mine.held == matching(made))
            async with subscriber(made, command=command, bookmark=bookmark) as mine:
                await mine.until(lambda: ("processed", "bookmark_expired") in mine.acks())


def _held_by(made: Rig, number: int) -> list[int]:
    return list(made.nodes[number].server.topic.partitions)


async def test_pause_resume_and_checksums_while_it_begins() -> None:
    """A pause holds although no node had begun; a checksum is refused, and does not hang."""
    async with rig(["0/2", "1/2"]) as made:
        made.put({"id": 1, "v": 1})
        for node in made.nodes:
            await node.stop()
        async with subscriber(made, command="subscribe", ack_type="processed") as mine:
            mine.send("heartbeat", command_id="h", topic="")
            await mine.until(lambda: ("processed", "not ready") in mine.acks())
            mine.send("pause", command_id="p", ack_type="processed")
            mine.send("heartbeat", command_id="i", topic="")
            await mine.until(lambda: ("processed", "not supported") in mine.acks())
            for node in made.nodes:
                await node.start()
            await mine.until(lambda: any("bookmark" in one for one in mine.messages))
            async with subscriber(made, command="sow_and_subscribe") as other:
                await other.until(partial(holds, other, 1))
                made.put({"id": 2, "v": 2})
                await other.until(partial(holds, other, 2))
            assert not mine.held
            mine.send("resume", command_id="r", ack_type="processed")
            await mine.until(lambda: len(mine.held) == 1)


@pytest.mark.parametrize("options", ["pause", "pause,rate=1000"])
async def test_a_pause_ends_while_a_subscription_begins(options: str) -> None:
    """Its nodes are asked while it is paused, and begin after that: it gets the changes since its bookmark."""
    async with rig(["0/1"]) as made:
        bookmark = (await made.client().ask("sow", top_n=0))[0]["bookmark"]
        made.put({"id": 1, "v": 1})
        await made.nodes[0].stop()
        with made.patched():
            async with subscriber(made, command="subscribe", bookmark=bookmark, options=options) as mine:
                await until(lambda: made.node_set.announcements.lost)
                mine.send("resume", command_id="r")
                await made.nodes[0].start()
                await mine.until(lambda: mine.held == matching(made))


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


def holds(mine: Subscriber, count: int) -> bool:
    """Return whether a client holds so many records."""
    return len(mine.held) == count


def completed(mine: Subscriber, count: int) -> bool:
    """Return whether so many commands of a client are completed."""
    return [kind for kind, _ in mine.acks()].count("completed") == count


def serving(made: Rig) -> Node:
    """Return the one node that has subscriptions."""
    (node,) = (node for node in made.nodes if node.server.dispatcher.live)
    return node


@pytest.mark.parametrize("options", ["", "pause"])
async def test_pause_and_resume_while_the_snapshot_is_sent(options: str) -> None:
    """The last command counts once the snapshot has been sent, whether the subscription began paused or not."""
    async with rig(["0/2", "1/2"], partitions=2) as made:
        for number in range(3000):
            made.put({"id": number, "v": 1, "text": "x" * 500})
        client = made.client()
        mine = Subscriber(client)
        mine.send("sow_and_subscribe", options=options)
        await until(lambda: client.session.outbox.unsent_bytes)
        mine.send("resume" if options else "pause", command_id="p")
        reading = asyncio.create_task(mine.read())
        await mine.until(lambda: len(mine.held) == 3000)
        async with subscriber(made, command="subscribe", ack_type="processed") as other:
            await other.until(lambda: bool(other.acks()))
            made.put({"id": 1, "v": 2})
            await other.until(partial(holds, other, 1))
        if not options:
            assert not any(one["command"] == "publish" for one in mine.messages)
            mine.send("resume", command_id="r")
        await mine.until(lambda: any(one["command"] == "publish" for one in mine.messages))
        reading.cancel()
        await asyncio.wait([reading])


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
