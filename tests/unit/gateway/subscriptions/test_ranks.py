"""Ranks: a subscriber that holds a list and applies them holds each page in its order, without comparing records."""

import json
import random
from typing import Any

import pytest

from sowline.language.filter import compile_filter
from sowline.serving.authorization.entitlements import EVERYTHING, Entitlement, Rights, to_read
from tests.unit.gateway.rig import Json, Rig, RigClient, rig
from tests.unit.gateway.subscriber import Subscriber, changes, paced_changes, subscriber

COUNTS = "grouping=[/v],projection=[/v,COUNT(1) AS /n]"
PAGES: dict[str, Json] = {
    "page": {"order_by": "/v DESC", "skip_n": 3, "top_n": 5, "options": "oof,rank,select=[-/,+/id]"},
    "page by key": {"skip_n": 0, "top_n": 4, "options": "oof,rank"},
    "conflated": {"order_by": "/v", "skip_n": 1, "top_n": 9, "options": "oof,rank,conflation=5ms"},
    "groups": {"order_by": "/n DESC,/v", "skip_n": 1, "top_n": 3, "options": f"oof,rank,{COUNTS}"},
}
SHARDS = (["0/1"], ["0/2", "1/2"])
FEW = Rights(read=to_read(Entitlement("orders", compile_filter("/v < 5"))))


class InOrder:
    """The SOW keys of a page in order, by ranks alone."""

    def __init__(self, skip: int) -> None:
        self.skip = skip
        self.keys: list[str] = []
        self._gone: set[str] = set()
        self._ranks: dict[str, int] = {}

    def take(self, message: Json) -> None:
        """Take a message; the last of a step applies all of it."""
        match message["command"]:
            case "group_begin" if not message.get("replace"):
                self.keys, self._gone, self._ranks = [], set(), {}
            case "sow":
                self._ranks |= {record["sow_key"]: record["rank"] for record in message["records"]}
            case "publish":
                self._ranks[message["sow_key"]] = message["rank"]
            case "oof":
                assert "rank" not in message
                self._gone.add(message["sow_key"])
        if message["command"] in ("publish", "oof", "group_end") and not message.get("more"):
            self._apply()

    def _apply(self) -> None:
        self.keys = [key for key in self.keys if key not in self._gone and key not in self._ranks]
        for key, rank in sorted(self._ranks.items(), key=lambda one: one[1]):
            assert 0 <= rank - self.skip <= len(self.keys), (rank, self.keys)
            self.keys.insert(rank - self.skip, key)
        self._gone, self._ranks = set(), {}


async def asked(client: RigClient, page: Json, **fields: Any) -> list[tuple[int | None, str]]:
    """Return the rank and the SOW key of each record that a query finds."""
    options = [one for one in page["options"].split(",") if one != "oof" and not one.startswith("conflation")]
    answer = await client.ask("sow", **{**page, "options": ",".join(options), **fields})
    assert answer[-1]["status"] == "success", answer[-1]
    found = [record for message in answer if message["command"] == "sow" for record in message["records"]]
    return [(record.get("rank"), record["sow_key"]) for record in found]


async def check_order(mine: Subscriber, made: Rig, page: Json, rights: Rights = EVERYTHING) -> None:
    """Wait until ranks alone give the order that one query service answers."""
    wanted = [key for _, key in await asked(made.whole_client(rights), page)]

    def keys() -> list[str]:
        held = InOrder(page["skip_n"])
        for message in mine.messages:
            held.take(message)
        return held.keys

    await mine.until(lambda: keys() == wanted, f"the order {wanted}")


@pytest.mark.parametrize("command", ["sow_and_subscribe", "sow_and_delta_subscribe"])
@pytest.mark.parametrize("kind", PAGES)
@pytest.mark.parametrize("shards", SHARDS, ids=len)
async def test_ranks_give_the_order(shards: list[str], kind: str, command: str) -> None:
    """Also if the fields of the order are not selected, and for what was changed while the client was too slow."""
    chance = random.Random(f"{kind} {command}")
    async with rig(shards) as made:
        changes(made, chance, 40)
        async with subscriber(made, command=command, **PAGES[kind]) as mine:
            await paced_changes(made, chance, 80)
            await check_order(mine, made, PAGES[kind])


@pytest.mark.parametrize("command", ["sow_and_subscribe", "sow_and_delta_subscribe"])
@pytest.mark.parametrize("kind", PAGES)
async def test_ranks_of_one_query_service_give_the_order(kind: str, command: str) -> None:
    """It makes the messages of pages itself."""
    chance = random.Random(f"{command} {kind}")
    async with rig(["0/1"]) as made:
        changes(made, chance, 40)
        mine = Subscriber(made.whole_client())
        made.sessions.append(mine.client.session)
        mine.send(command, **PAGES[kind])
        held = InOrder(PAGES[kind]["skip_n"])
        changes(made, chance, 80)
        wanted = [key for _, key in await asked(made.whole_client(), PAGES[kind])]
        while held.keys != wanted:
            for message in await next_messages(mine):
                held.take(message)


async def next_messages(mine: Subscriber) -> list[Json]:
    """Wait for messages of the one query service."""
    return [json.loads(text) for text in await mine.client.session.outbox.take()]


@pytest.mark.parametrize("shards", SHARDS, ids=len)
async def test_records_of_a_query_have_their_ranks(shards: list[str]) -> None:
    """They continue from page to page, at a gateway and at one query service."""
    async with rig(shards) as made:
        for number in range(30):
            made.put({"id": number, "v": number % 7})
        everything = [key for _, key in await asked(made.whole_client(), {"options": "", "order_by": "/v"})]
        for client in (made.client, made.whole_client):
            for skip in (0, 7):
                page = {"options": "rank", "order_by": "/v", "skip_n": skip, "top_n": 10}
                expected = list(enumerate(everything))[skip : skip + 10]
                assert await asked(client(), page) == expected
            groups = {"options": f"rank,{COUNTS}", "order_by": "/n", "skip_n": 2, "top_n": 3}
            assert [rank for rank, _ in await asked(client(), groups)] == [2, 3, 4]


@pytest.mark.parametrize("shards", SHARDS, ids=len)
async def test_ranks_do_not_count_what_may_not_be_read(shards: list[str]) -> None:
    """A rank would tell how many records there are that the user may not read, and when one of them moves."""
    page: Json = {"order_by": "/v DESC", "skip_n": 0, "top_n": 3, "options": "oof,rank"}
    async with rig(shards) as made:
        for number in range(10):
            made.put({"id": number, "v": number})
        for client in (made.client, made.whole_client):
            assert [rank for rank, _ in await asked(client(FEW), page)] == [0, 1, 2]
            assert [rank for rank, _ in await asked(client(FEW), page, skip_n=3)] == [3, 4]
        async with subscriber(made, FEW, command="sow_and_subscribe", **page) as mine:
            await mine.until(lambda: len(mine.held) == 3)
            count = len(mine.messages)
            for number in range(6, 10):
                made.put({"id": number, "v": 100 - number})
                made.put({"id": 20 + number, "v": 50})
            made.put({"id": 0, "v": 3.5})
            await check_order(mine, made, page, FEW)
            published = [one for one in mine.messages[count:] if one["command"] == "publish"]
            assert [one["rank"] for one in published] == [1], "nothing is sent of the others"


@pytest.mark.parametrize("shards", SHARDS, ids=len)
async def test_another_order_replaces_the_first(shards: list[str]) -> None:
    """Records that stay on the page get their new ranks."""
    async with rig(shards) as made:
        for number in range(12):
            made.put({"id": number, "v": 7 * number % 12})
        page: Json = {"order_by": "/id", "skip_n": 0, "top_n": 8, "options": "oof,rank"}
        async with subscriber(made, command="sow_and_subscribe", **page) as mine:
            await check_order(mine, made, page)
            page["order_by"] = "/v DESC"
            mine.send("sow_and_subscribe", **{**page, "options": "oof,rank,replace"})
            await check_order(mine, made, page)
            made.put({"id": 3, "v": 100})
            await check_order(mine, made, page)


@pytest.mark.parametrize(
    ("command", "fields"),
    [
        ("sow", {}),
        ("subscribe", {}),
        ("sow_and_subscribe", {"order_by": "/v"}),
        ("sow_and_subscribe", {"order_by": "/v", "top_n": 3}),
        ("sow_and_subscribe", {"options": f"rank,{COUNTS}"}),
        ("sow", {"order_by": "/v", "options": "rank,no_empties"}),
    ],
)
async def test_what_has_no_order_has_no_ranks(command: str, fields: Json) -> None:
    """A subscription without a page sends changes of all records."""
    async with rig(["0/1"]) as made:
        for client in (made.client(), made.whole_client()):
            answer = await client.ask(command, **{"options": "rank", "ack_type": "processed", **fields})
            assert answer[-1]["reason"] == "invalid options"
