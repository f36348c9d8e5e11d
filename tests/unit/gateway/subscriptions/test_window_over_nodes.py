"""Pages and groups at a gateway: what a client holds equals what one query service shows, whatever the nodes do."""

import random

import pytest

from sowline.language.filter import compile_filter
from sowline.model.bookmark import format_bookmark, parse_bookmark
from sowline.model.key import hash_of
from sowline.model.select import parse_select
from sowline.serving.authorization.entitlements import Entitlement, Rights, to_read
from sowline_gateway.nodes import failover
from tests.unit.gateway.rig import Json, rig
from tests.unit.gateway.subscriber import change, changes, paced_changes, subscriber
from tests.unit.gateway.subscriptions.windows import KINDS, settled, steps

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("command", ["sow_and_subscribe", "sow_and_delta_subscribe"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shards", [["0/1"], ["0/2", "1/2"], ["0/3", "1/3", "2/3"]], ids=len)
async def test_a_client_holds_what_is_shown(shards: list[str], kind: str, command: str) -> None:
    """From the group on, through changes before, during and after it."""
    chance = random.Random(f"{shards} {kind} {command}")
    async with rig(shards) as made:
        changes(made, chance, 40)
        async with subscriber(made, command=command, **KINDS[kind]) as mine:
            await paced_changes(made, chance, 120)
            await settled(mine, made, KINDS[kind])


@pytest.mark.parametrize("kind", KINDS)
async def test_each_change_is_one_step(kind: str) -> None:
    """The same as at one query service, with the same reasons."""
    chance = random.Random(kind)
    async with rig(["0/2", "1/2"]) as made:
        changes(made, chance, 30)
        one = made.whole.connect()
        made.sessions.append(one.session)
        async with subscriber(made, command="sow_and_subscribe", **KINDS[kind]) as mine:
            one.ask("sow_and_subscribe", sub_id="mine", **KINDS[kind])
            wanted = await one.read()
            await mine.until(lambda: any(message["command"] == "group_end" for message in mine.messages))
            for _ in range(60):
                change(made, chance)
                wanted += await one.read()
                count = len(steps(wanted))
                await mine.until(lambda count=count: len(steps(mine.messages)) >= count)
            assert steps(mine.messages) == steps(wanted)
            begun = [[m for m in found if m["command"] == "group_begin"] for found in (wanted, mine.messages)]
            assert len(begun[0]) == len(begun[1]) == 1


@pytest.mark.parametrize("kind", KINDS)
async def test_what_changed_in_an_interval_is_one_step(kind: str) -> None:
    """With conflation."""
    chance = random.Random(kind)
    fields = KINDS[kind] | {"options": f"{KINDS[kind]['options']},conflation=50ms"}
    async with rig(["0/2", "1/2"]) as made:
        changes(made, chance, 30)
        async with subscriber(made, command="sow_and_delta_subscribe", **fields) as mine:
            await mine.until(lambda: any(message["command"] == "group_end" for message in mine.messages))
            changes(made, chance, 100)
            await settled(mine, made, KINDS[kind])
            assert len(steps(mine.messages)) <= 6


@pytest.mark.parametrize("kind", KINDS)
async def test_a_pause_ends_with_the_difference(kind: str) -> None:
    """However many changes there were."""
    chance = random.Random(kind)
    async with rig(["0/2", "1/2"]) as made:
        changes(made, chance, 30)
        async with subscriber(made, command="sow_and_subscribe", **KINDS[kind]) as mine:
            await settled(mine, made, KINDS[kind])
            mine.send("pause", command_id="2", sub_id="mine")
            before = dict(mine.held)
            changes(made, chance, 60)
            async with subscriber(made, command="sow_and_subscribe", **KINDS[kind]) as other:
                await settled(other, made, KINDS[kind])
            assert mine.held == before
            mine.send("resume", command_id="3", sub_id="mine")
            await settled(mine, made, KINDS[kind])
            assert len(steps(mine.messages)) <= 1


@pytest.mark.parametrize("kind", KINDS)
async def test_a_lost_node_is_one_step(kind: str) -> None:
    """Another replica, which may be ahead, shows the same or more; nothing goes back."""
    chance = random.Random(kind)
    async with rig(["0/2", "0/2", "1/2", "1/2"]) as made:
        changes(made, chance, 40)
        async with subscriber(made, command="sow_and_subscribe", **KINDS[kind]) as mine:
            await settled(mine, made, KINDS[kind])
            for node in (made.nodes[0], made.nodes[2], made.nodes[1]):
                await node.stop()
                changes(made, chance, 10)
                await settled(mine, made, KINDS[kind])
                await node.start()
                changes(made, chance, 5)
                await settled(mine, made, KINDS[kind])


@pytest.mark.parametrize(
    ("before", "now", "mark"),
    [
        ("page", "page by key", "replace"),
        ("groups", "page of groups", "replace"),
        ("groups", "page", "reset"),
    ],
)
async def test_a_view_replaces_another(before: str, now: str, mark: str) -> None:
    """The client is sent what leaves, and what it lacks; or everything, if it is of another kind."""
    chance = random.Random(now)
    async with rig(["0/2", "1/2"]) as made:
        changes(made, chance, 40)
        async with subscriber(made, command="sow_and_subscribe", **KINDS[before]) as mine:
            await settled(mine, made, KINDS[before])
            fields = KINDS[now] | {
                "options": f"{KINDS[now]['options']},replace",
                "order_by": KINDS[now].get("order_by", "/id"),
            }
            wanted = fields | {"options": KINDS[now]["options"]}
            mine.send("sow_and_subscribe", **fields)
            await settled(mine, made, wanted)
            begins = [message for message in mine.messages if message["command"] == "group_begin"]
            assert [mark in begin for begin in begins] == [False, True]
            changes(made, chance, 20)
            await settled(mine, made, wanted)


@pytest.mark.parametrize("between", ["page", "groups"])
async def test_a_view_is_replaced_before_it_has_begun(between: str) -> None:
    """The client still holds the window before it: it is sent the difference from that, or everything if unknown."""
    async with rig(["0/2", "1/2"]) as made:
        changes(made, random.Random(3), 40)
        async with subscriber(made, command="sow_and_subscribe", **KINDS["page"]) as mine:
            await settled(mine, made, KINDS["page"])
            for number, kind in enumerate((KINDS[between], KINDS["page by key"])):
                fields = {"order_by": "/id", **kind, "options": f"{kind['options']},replace"}
                fields |= {"skip_n": 1, "top_n": 6, "command_id": f"r{number}"}
                mine.send("sow_and_subscribe", **fields)
            await mine.until(lambda: [one["command"] for one in mine.messages].count("group_end") == 2)
            begins = [message for message in mine.messages if message["command"] == "group_begin"]
            assert begins[1].get("reset" if between == "groups" else "replace")
            await settled(mine, made, {"order_by": "/id", "skip_n": 1, "top_n": 6, "options": "oof"})
            assert mine.acks() == [("processed", "replaced")]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_view_is_proved(kind: str) -> None:
    """The checksum is about what the client holds at its bookmark."""
    chance = random.Random(kind)
    async with rig(["0/2", "1/2"]) as made:
        changes(made, chance, 40)
        async with subscriber(made, command="sow_and_subscribe", **KINDS[kind]) as mine:
            changes(made, chance, 10)
            await settled(mine, made, KINDS[kind])
            mine.send("heartbeat", command_id="2", sub_id="mine")
            await mine.until(lambda: mine.messages[-1]["command"] == "progress")
            proof = mine.messages[-1]
            assert proof["records"] == len(mine.held)
            assert int(proof["hash"], 16) == hash_of(key.encode() for key in mine.held)
            assert parse_bookmark(proof["bookmark"])["orders"].keys() == set(range(made.partitions))


async def test_what_may_be_seen_is_shown() -> None:
    """Records that leave what the user may see leave the page, with what the client holds of them."""
    rights = Rights(read=to_read(Entitlement("orders", compile_filter("/v < 5"))))
    async with rig(["0/2", "1/2"]) as made:
        for number in range(12):
            made.put({"id": number, "v": number})
        kind = KINDS["page"] | {"skip_n": 0}
        async with subscriber(made, rights, command="sow_and_subscribe", **kind) as mine:
            await mine.until(lambda: {one["v"] for one in mine.held.values()} == {0, 1, 2, 3, 4})
            made.put({"id": 2, "v": 9})
            await mine.until(lambda: {one["v"] for one in mine.held.values()} == {0, 1, 3, 4})
            [left] = [message for message in mine.messages if message["command"] == "oof"]
            assert (left["reason"], left["data"]) == ("entitlement", {"id": 2, "v": 2})


async def test_a_record_that_left_has_no_hidden_fields() -> None:
    """Also if the gateway must ask why it is not shown any more."""
    rights = Rights(read=to_read(Entitlement("orders", select=parse_select("[-/,+/id,+/v]"))))
    kind: Json = {"order_by": "/v", "skip_n": 0, "top_n": 2, "options": "oof"}
    async with rig(["0/2", "1/2"]) as made:
        for number in range(8):
            made.put({"id": number, "v": number, "secret": 7})
        async with subscriber(made, rights, command="sow_and_subscribe", **kind) as mine:
            await mine.until(lambda: len(mine.held) == 2)
            await mine.until(lambda: mine.messages[-1]["command"] == "group_end")
            held, bookmark = dict(mine.held), format_bookmark(mine.bookmark)
        for number in range(2, 8):
            made.put({"id": number, "v": -number, "secret": 7})
        async with subscriber(made, rights, command="sow_and_subscribe", **kind, bookmark=bookmark) as again:
            again.held = held
            await again.until(lambda: {one["v"] for one in again.held.values()} == {-7, -6})
            left = [message for message in again.messages if message["command"] == "oof"]
            assert [(one["reason"], one["data"].keys()) for one in left] == [("match", {"id", "v"})] * 2


async def test_a_page_that_replaces_another_tells_what_is_still_there() -> None:
    """A record that the nodes do not show for the new page was not deleted."""
    async with rig(["0/2", "1/2"]) as made:
        for number in range(30):
            made.put({"id": number, "v": number})
        page: Json = {"order_by": "/v", "top_n": 3}
        async with subscriber(made, command="sow_and_subscribe", skip_n=20, options="oof", **page) as mine:
            await mine.until(lambda: len(mine.held) == 3)
            mine.send("sow_and_subscribe", skip_n=0, options="oof,replace", **page)
            await mine.until(lambda: {one["v"] for one in mine.held.values()} == {0, 1, 2})
            left = [message for message in mine.messages if message["command"] == "oof"]
            assert [one["reason"] for one in left] == ["match"] * 3


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"skip_n": 0, "top_n": 5, "options": "rate=5", "bookmark": "epoch"}, "invalid options"),
        ({"skip_n": 0, "top_n": 5, "up_to": "now"}, "not supported"),
        ({"skip_n": 9_990, "top_n": 20}, "invalid top_n"),
        ({"skip_n": 0, "top_n": 5, "sow_keys": ["a"]}, "not supported"),
        ({"skip_n": 0, "top_n": 5, "filter": "/v ="}, "bad filter"),
        ({"skip_n": 0, "top_n": 5, "topic": "^ord.*"}, "regex topic not supported"),
        (
            {"options": "projection=[/v,COUNT(1) AS /n],grouping=[/v],conflation=1s,conflation_key=[/id]"},
            "invalid options",
        ),
    ],
)
async def test_views_that_are_refused(fields: Json, reason: str) -> None:
    """Before anything is sent."""
    async with rig(["0/2", "1/2"]) as made:
        answer = await made.client().ask("sow_and_subscribe", sub_id="s", **fields)
        assert [one["reason"] for one in answer] == [reason], answer


async def test_a_missing_shard_ends_a_view(monkeypatch: pytest.MonkeyPatch) -> None:
    """With an error that names its partitions: no page lacks records without saying so."""
    monkeypatch.setattr(failover, "FAILOVER_SECONDS", 0.2)
    async with (
        rig(["0/2", "1/2"]) as made,
        subscriber(made, command="sow_and_subscribe", **KINDS["page"]) as mine,
    ):
        await mine.until(lambda: any(one["command"] == "group_end" for one in mine.messages))
        await made.nodes[1].stop()
        await mine.until(lambda: bool(mine.acks()))
        assert mine.acks()[-1] == ("processed", "shard unavailable")


async def test_an_oof_of_a_conflated_topic_has_what_the_client_holds() -> None:
    """Of records, and of a page."""
    slow = "{name: work, key: /id, partitions: 4}]\nconflated: [{name: orders, from: work, interval: 1s}"
    asked: Json = {"command": "sow_and_subscribe", "filter": "/v = 1", "options": "oof"}
    async with rig(["0/2", "1/2"], definition=slow) as made:
        held = {"id": 1, "v": 1}
        made.put(held)
        for request in (asked, {**asked, "skip_n": 0, "top_n": 5}):
            async with subscriber(made, **request) as mine:
                await mine.until(lambda: list(mine.held.values()) == [held], "to hold the record")
                made.put({"id": 1, "v": 2})
                await mine.until(lambda: not mine.held, "to lose the record")
                found = [one for one in mine.messages if one["command"] == "oof"]
                assert [(one["reason"], one["data"]) for one in found] == [("match", held)]
            made.put(held)
