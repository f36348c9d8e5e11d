"""Pages and groups at a gateway that clients come back to, or that begin at an earlier time."""

import asyncio
import random
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sowline.language.filter import compile_filter
from sowline.model.bookmark import format_bookmark, parse_bookmark
from sowline.serving.authorization.entitlements import Entitlement, Rights, to_read
from sowline.serving.query_slots import QuerySlots, SlotLimits
from sowline.serving.result import QueryLimits
from sowline_gateway.nodes import failover
from sowline_gateway.query.keyed_records import records_of
from sowline_gateway.subscriptions import window_parts
from tests.unit.gateway.rig import Json, rig
from tests.unit.gateway.subscriber import change, changes, subscriber
from tests.unit.gateway.subscriptions.windows import KINDS, settled, steps

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", KINDS)
async def test_a_client_comes_back_with_its_bookmark(kind: str) -> None:
    """It gets the difference from what it holds, and then that its return is completed."""
    chance = random.Random(kind)
    async with rig(["0/2", "1/2"]) as made:
        changes(made, chance, 40)
        fields = {"command": "sow_and_subscribe", "ack_type": "processed,completed", **KINDS[kind]}
        async with subscriber(made, **fields) as mine:
            await settled(mine, made, KINDS[kind])
            change(made, chance)
            await settled(mine, made, KINDS[kind])
            held, bookmark = dict(mine.held), format_bookmark(mine.bookmark)
        changes(made, chance, 25)
        async with subscriber(made, **fields, bookmark=bookmark) as again:
            again.held = held
            await settled(again, made, KINDS[kind])
            await again.until(lambda: ("completed", "") in again.acks())
            assert again.acks() == [("processed", ""), ("completed", "")]
            assert not any(one["command"] == "group_begin" for one in again.messages)
            change(made, chance)
            await settled(again, made, KINDS[kind])


async def test_what_begins_again_takes_its_turn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A window that gave up waiting for a node has lent its turn, and reads all parts again within another."""
    fields = {"command": "sow_and_subscribe", **KINDS["page by key"]}
    slots, running = QuerySlots(SlotLimits(service=1)), list[int]()
    async with rig(["0/1"]) as made:
        made.context = replace(made.context, slots=slots)

        async def looked_up(*given: Any) -> dict[bytes, bytes]:
            running.append(slots.running)
            if len(running) > 1:
                return await records_of(*given)
            await made.nodes[0].stop()
            try:
                with monkeypatch.context() as impatient:
                    impatient.setattr(failover, "FAILOVER_SECONDS", 0.1)
                    return await records_of(*given)
            finally:
                assert slots.running == 0
                await made.nodes[0].start()

        for number in range(6):
            made.put({"id": number, "v": 1})
        bookmark = made.whole.topic.bookmark(made.whole.topic.positions)
        made.put(None, 0)
        monkeypatch.setattr(window_parts, "records_of", looked_up)
        async with subscriber(made, **fields, bookmark=bookmark) as mine:
            await mine.until(lambda: steps(mine.messages))
        assert running == [1, 1]
        assert slots.running == 0


@pytest.mark.parametrize("start", ["epoch", "list", "epoch in a list", "now in a list"])
@pytest.mark.parametrize("kind", KINDS)
async def test_a_window_starts_where_that_of_one_query_service_does(kind: str, start: str) -> None:
    """At any start: the difference up to now is the same, and so are its bookmarks."""
    chance = random.Random(f"{kind} {start}")
    async with rig(["0/3", "1/3", "2/3"]) as made:
        changes(made, chance, 20)
        early = dict(made.whole.topic.positions)
        changes(made, chance, 20)
        late = made.whole.topic.positions
        mixed = [
            {number: (early, late)[bool(number % 2) is odd][number] for number in late}
            for odd in (True, False)
        ]
        one, other = (format_bookmark({"orders": positions}) for positions in mixed)
        bookmark: Any = {
            "epoch": "epoch",
            "list": [one, other],
            "epoch in a list": [one, "epoch"],
            "now in a list": ["now", other],
        }[start]
        changes(made, chance, 20)
        whole, gateway = made.whole_client(), made.client()
        fields = {**KINDS[kind], "bookmark": bookmark, "ack_type": "processed,completed"}
        with made.patched(), made.whole.patched():
            expected = await whole.ask("sow_and_subscribe", **fields)
            got = await gateway.ask("sow_and_subscribe", **fields)
        whole.session.close()
        assert expected[-1]["status"] == "success", expected
        assert steps(got) == steps(expected)
        assert [one for one in got if one["command"] == "ack"] == [
            one for one in expected if one["command"] == "ack"
        ]


@pytest.mark.parametrize("not_found", ["now", "reset"])
@pytest.mark.parametrize("kind", KINDS)
async def test_a_view_whose_start_is_gone_begins_with_a_group(kind: str, not_found: str) -> None:
    """All of it is in the group: `completed` is that of the group, and comes before the counts."""
    chance = random.Random(f"{kind} {not_found}")
    async with rig(["0/3", "1/3", "2/3"], ring=3) as made:
        changes(made, chance, 20)
        bookmark = format_bookmark({"orders": made.whole.topic.positions})
        changes(made, chance, 60)
        for node in made.nodes:
            for written in node.server.written:
                written.clear()
        fields = KINDS[kind] | {"bookmark": bookmark, "ack_type": "processed,completed,stats"}
        fields["options"] += f",bookmark_not_found={not_found}"
        with made.patched():
            got = await made.client().ask("sow_and_subscribe", **fields)
        assert [one["command"] for one in got if one["command"] != "sow"] == [
            "ack",
            "group_begin",
            "group_end",
            "ack",
            "ack",
        ]
        processed, completed, stats = (one for one in got if one["command"] == "ack")
        begin = next(one for one in got if one["command"] == "group_begin")
        assert (processed["ack_type"], completed["ack_type"], stats["ack_type"]) == (
            "processed",
            "completed",
            "stats",
        )
        assert begin["reset"]
        assert completed["bookmark"] == begin["bookmark"]
        assert "sub_id" not in completed


async def test_a_client_that_comes_back_does_not_go_back() -> None:
    """Its bookmark is of a replica that is ahead; the one that it is shown then waits until it is as far."""
    async with rig(["0/1", "0/1"]) as made:
        ahead, behind = made.nodes
        for number in range(3):
            made.put({"id": number, "v": 1})
        made.put({"id": 0, "v": 2}, of=[ahead])
        topic = ahead.server.topic
        held = topic.positions
        # The window of the past is read from the one that is ahead, the window of now from the other one.
        urls = [node.url for node in made.node_set.announcements.nodes]
        luck = [0.0, 1.0, 1.0, 0.0] if urls[0] == ahead.url else [1.0, 0.0, 0.0, 1.0]
        made.node_set.chance = cast("Any", SimpleNamespace(random=iter([*luck, *[0.5] * 1000]).__next__))
        fields = {"command": "sow_and_subscribe", "ack_type": "processed,completed", **KINDS["page by key"]}
        asyncio.get_running_loop().call_later(0.5, made.put, {"id": 0, "v": 2}, None, [behind])
        async with subscriber(made, **fields, bookmark=topic.bookmark(held)) as again:
            await again.until(lambda: ("completed", "") in again.acks())
            shown = [parse_bookmark(one["bookmark"])["orders"] for one in again.messages if "bookmark" in one]
            assert all(positions[number] >= held[number] for positions in shown for number in positions)
            assert steps(again.messages) == []


async def test_groups_of_a_field_that_is_named_like_an_option_come_back() -> None:
    """A part of a clause is no option."""
    options = "oof,grouping=[/roof,/v],projection=[/roof,/v,COUNT(1) AS /n]"
    async with rig(["0/2", "1/2"]) as made:
        for number in range(10):
            made.put({"id": number, "v": number % 2, "roof": "red"})
        bookmark = format_bookmark({"orders": made.whole.topic.positions})
        made.put({"id": 3, "v": 0, "roof": "red"})
        async with subscriber(made, command="sow_and_subscribe", options=options, bookmark=bookmark) as mine:
            await mine.until(lambda: len(steps(mine.messages)) == 1)
            assert sorted((one["v"], one["n"]) for one in mine.held.values()) == [(0, 6), (1, 4)]


@pytest.mark.parametrize("kind", KINDS)
async def test_the_current_records_instead_of_those_of_a_time(kind: str) -> None:
    """With the option `current`, a window of a topic without a history begins as one of now: it replaces nothing."""
    asked = KINDS[kind] | {"options": f"{KINDS[kind]['options']},current"}
    async with rig(["0/2", "1/2"]) as made:
        changes(made, random.Random(kind), 40)
        fields: Json = {"command": "sow_and_subscribe", "bookmark": "20261101T000000Z", **asked}
        async with subscriber(made, **fields) as mine:
            await settled(mine, made, KINDS[kind])
            begins = [message for message in mine.messages if message["command"] == "group_begin"]
            assert [begin.get("reset") for begin in begins] == [None]


@pytest.mark.parametrize("is_known", [True, False])
async def test_how_a_record_left_is_no_longer_known(*, is_known: bool) -> None:
    """Whether it was deleted in sight is told if it is known; what happened out of sight is never told."""
    rights = Rights(read=to_read(Entitlement("orders", compile_filter("/v < 5"))))
    limits = QueryLimits(undo_max=20_000 if is_known else 4)
    page: Json = {
        "command": "sow_and_subscribe",
        "order_by": "/id",
        "skip_n": 0,
        "top_n": 9,
        "options": "oof",
    }
    async with rig(["0/2", "1/2"], limits=limits) as made:
        for number in range(5):
            made.put({"id": number, "v": number})
        async with subscriber(made, rights, **page) as mine:
            await mine.until(lambda: mine.messages and mine.messages[-1]["command"] == "group_end")
            mine.send("pause", command_id="2", sub_id="mine")
            made.put({"id": 1, "v": 9})
            made.put(None, 1)
            made.put(None, 2)
            made.put(None, 4)
            for node in made.nodes:
                await node.stop()
            for number, v in ((3, 7), (3, 8), (3, 9), (0, 9), (4, 9)):
                made.put({"id": number, "v": v})
            made.put(None, 0)
            for node in made.nodes:
                await node.start()
            mine.send("resume", command_id="3", sub_id="mine")
            await mine.until(lambda: not mine.held)
            left = {one["data"]["id"]: one["reason"] for one in mine.messages if one["command"] == "oof"}
            deleted = (2, 4) if is_known else ()
            assert left == dict.fromkeys(range(5), "entitlement") | dict.fromkeys(deleted, "deleted")
