"""Subscriptions at a gateway that are replaced: the answer is that of one query service."""

import asyncio
import random
from functools import partial
from typing import Any

import pytest

from sowline.model.bookmark import format_bookmark
from tests.unit.gateway.rig import Json, rig
from tests.unit.gateway.subscriber import change, has_groups, matching, subscriber
from tests.waiting import loop_turns

pytestmark = pytest.mark.slow


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
