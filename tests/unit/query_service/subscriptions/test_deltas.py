"""Delta subscriptions: what has changed of a record that the subscriber holds, else the whole record."""

import json
import random
from collections.abc import Iterator

import pytest

from sowline.model.key import sow_key
from tests.unit.query_service.sessions import DOMAIN, Json, Server, settled


@pytest.fixture
def server() -> Iterator[Server]:
    """A server of one partition, loaded and empty."""
    server = Server().loaded()
    with server.patched():
        yield server


ORDER = {"id": 3, "customer": "Patrick", "status": "new", "qty": 1000, "ticker": "MSFT"}


def received(messages: list[Json]) -> list[tuple[bool, Json]]:
    """Return of each live message whether it is a delta, and its body."""
    return [("delta" in m, m["data"]) for m in messages if m["command"] in ("publish", "oof")]


async def test_the_chapters_update(server: Server) -> None:
    """Key fields and changed fields only; of a new record all of it."""
    server.put(ORDER)
    client = server.connect()
    client.ask("sow_and_delta_subscribe")
    assert [m["command"] for m in await client.read()] == ["group_begin", "sow", "group_end"]
    server.put(ORDER | {"status": "pending"})
    server.put({"id": 4, "status": "new"})
    assert received(await client.read()) == [
        (True, {"id": 3, "status": "pending"}),
        (False, {"id": 4, "status": "new"}),
    ]


async def test_an_update_without_a_change_holds_the_keys(server: Server) -> None:
    """Or is not sent, where nobody wants to hear of it; of fields that are not selected nobody does either."""
    server.put(ORDER)
    plain, no_empties, selected = (server.connect() for _ in range(3))
    plain.ask("delta_subscribe")
    no_empties.ask("delta_subscribe", options="no_empties,no_sowkey")
    selected.ask("delta_subscribe", options="no_empties,send_keys,select=[-/,+/id,+/qty]")
    await settled()
    server.put(ORDER)
    server.put(ORDER | {"status": "open"})
    server.put(ORDER | {"status": "open", "qty": 5})
    status, qty = (True, {"id": 3, "status": "open"}), (True, {"id": 3, "qty": 5})
    assert received(await plain.read()) == [(True, {"id": 3}), status, qty]
    messages = await no_empties.read()
    assert (received(messages), "sow_key" in messages[0]) == ([status, qty], False)
    assert received(await selected.read()) == [qty]


async def test_a_key_field_with_another_value_is_a_change(server: Server) -> None:
    """It is sent with `no_empties`, too, unless it is not selected."""
    server.put(ORDER)
    no_empties, selected = server.connect(), server.connect()
    no_empties.ask("delta_subscribe", options="no_empties")
    selected.ask("delta_subscribe", options="no_empties,select=[-/id]")
    await settled()
    server.put(ORDER | {"id": "3"})
    assert received(await no_empties.read()) == [(True, {"id": "3"})]
    assert received(await selected.read()) == []


async def test_a_field_that_goes_is_named(server: Server) -> None:
    """So that nobody keeps it."""
    server.put(ORDER)
    client = server.connect()
    client.ask("delta_subscribe")
    await settled()
    server.put({name: value for name, value in ORDER.items() if name not in ("qty", "ticker")})
    (message,) = await client.read()
    assert (message["data"], sorted(message["removed"])) == ({"id": 3}, ["/qty", "/ticker"])


@pytest.mark.parametrize("options", ["", "oof"])
async def test_what_comes_into_focus_is_whole(server: Server, options: str) -> None:
    """Also where one field has changed: the subscriber may hold nothing of it."""
    server.put(ORDER)
    client = server.connect()
    client.ask("sow_and_delta_subscribe", filter="/qty > 10", options=options)
    await client.read()
    server.put(ORDER | {"qty": 5})
    server.put(ORDER | {"qty": 20})
    messages = received(await client.read())
    assert messages[-1] == (False, ORDER | {"qty": 20})
    assert messages[:-1] == ([(False, ORDER | {"qty": 5})] if options else [])


async def test_subscriptions_of_one_client_share_what_is_whole(server: Server) -> None:
    """A message is sent once; if one of them needs the whole record, it tells the others as much."""
    server.put(ORDER)
    client = server.connect()
    client.ask("delta_subscribe", sub_id="a")
    client.ask("delta_subscribe", sub_id="b", filter="/qty > 10", options="no_empties")
    await settled()
    server.put(ORDER | {"qty": 20})
    server.put(ORDER | {"qty": 20})
    client.ask("subscribe", sub_id="c")
    await settled()
    server.put(ORDER | {"qty": 30})
    messages = await client.read()
    assert [message["sids"] for message in messages] == [["a", "b"], ["a"], ["a", "b", "c"]]
    assert received(messages) == [
        (True, {"id": 3, "qty": 20}),
        (True, {"id": 3}),
        (False, ORDER | {"qty": 30}),
    ]


async def test_deltas_go_on_from_a_bookmark(server: Server) -> None:
    """The changes after it, as deltas: the client holds what was before them."""
    for number in range(3):
        server.put(ORDER | {"qty": number})
    client = server.connect()
    client.ask("sow_and_delta_subscribe", bookmark="orders:0@0")
    assert received(await client.read()) == [(True, {"id": 3, "qty": 1}), (True, {"id": 3, "qty": 2})]


async def test_pages_have_deltas(server: Server) -> None:
    """Of what stays in the window; what enters it is whole."""
    for number in (1, 2, 3):
        server.put({"id": number, "a": 0, "b": 0})
    client = server.connect()
    client.ask("sow_and_delta_subscribe", top_n=2, skip_n=0, order_by="/a,/id", options="oof")
    assert [m["command"] for m in await client.read()] == ["group_begin", "sow", "sow", "group_end"]
    server.put({"id": 1, "a": 0, "b": 1})
    server.put({"id": 2, "a": 1, "b": 0})
    assert received(await client.read()) == [
        (True, {"id": 1, "b": 1}),
        (False, {"id": 2, "a": 1, "b": 0}),
        (False, {"id": 3, "a": 0, "b": 0}),
    ]


async def test_groups_have_deltas(server: Server) -> None:
    """What groups are made by is their key."""
    server.put({"id": 1, "a": "x", "b": 1})
    client = server.connect()
    options = "no_empties,grouping=[/a],projection=[/a,SUM(/b) AS /sum,COUNT(/id) AS /count]"
    client.ask("sow_and_delta_subscribe", options=options)
    await client.read()
    server.put({"id": 1, "a": "x", "b": 1, "c": 5})
    server.put({"id": 1, "a": "x", "b": 2})
    server.put({"id": 2, "a": "y", "b": 2})
    assert received(await client.read()) == [
        (True, {"a": "x", "sum": 2}),
        (False, {"a": "y", "sum": 2, "count": 1}),
    ]


@pytest.mark.parametrize("seed", range(10))
async def test_who_applies_deltas_holds_the_records(seed: int) -> None:
    """Also a client that is too slow, and records that come and go."""
    server, chance = Server(backlog=500).loaded(), random.Random(seed)
    with server.patched():
        client = server.connect()
        client.ask("sow_and_delta_subscribe", filter="/n > 1", options="oof")
        held: dict[str, Json] = {}
        for _ in range(10):
            for _ in range(chance.randrange(12)):
                number = chance.randrange(4)
                if sow_key(DOMAIN, str(number)) in server.bodies and chance.random() < 0.2:
                    server.put(None, key=number)
                    continue
                fields = {
                    name: chance.choice((1, 1.0, "x", {"c": 1}, {"c": {"d": [1]}}, None)) for name in "ab"
                }
                kept = {name: value for name, value in fields.items() if value is not None}
                server.put({"id": number, "n": chance.randrange(4)} | kept)
            for message in await client.read():
                apply(held, message)
            assert held == {key.decode(): body for key, body in current(server).items() if body["n"] > 1}


def current(server: Server) -> dict[bytes, Json]:
    """Return the records as they are."""
    return {key: json.loads(body) for key, body in server.bodies.items()}


def apply(held: dict[str, Json], message: Json) -> None:
    """Do what the documents say that a subscriber does."""
    if message["command"] == "oof":
        del held[message["sow_key"]]
    elif message["command"] == "publish" and "delta" not in message:
        held[message["sow_key"]] = message["data"]
    elif message["command"] == "publish":
        merge(held[message["sow_key"]], message["data"])
        for path in message.get("removed", ()):
            *above, name = path.split("/")[1:]
            node = held[message["sow_key"]]
            for step in above:
                node = node[step]
            del node[name]


def merge(record: Json, delta: Json) -> None:
    """Merge objects field by field."""
    for name, value in delta.items():
        if isinstance(value, dict) and isinstance(record.get(name), dict):
            merge(record[name], value)
        else:
            record[name] = value


@pytest.mark.parametrize(
    ("first", "before", "now", "is_delta"),
    [
        ("[-/,+/id,+/qty]", {"qty": 1, "note": "a"}, {"qty": 2, "note": "b"}, True),
        ("[-/,+/id,+/o/b]", {"o": {"a": 1, "b": 2}}, {"o": {"a": 2, "b": 3}}, True),
        # Of an object of which it is sent nothing, the first would not be told whether it is there.
        ("[-/o/b]", {"o": 5}, {"o": {"b": 2}}, False),
        ("[-/o/b]", {"o": {"a": 1, "b": 2}}, {"o": {"b": 2}}, False),
        ("[-/o/b]", {"o": {"b": 2}}, {"o": {}}, False),
    ],
)
async def test_deltas_are_shared_where_they_tell_each_enough(
    server: Server, first: str, before: Json, now: Json, is_delta: bool
) -> None:
    """The delta of all that the subscriptions select; else the record, with that."""
    server.put({"id": 3} | before)
    client = server.connect()
    client.ask("delta_subscribe", sub_id="a", options=f"select={first}")
    client.ask("delta_subscribe", sub_id="b")
    await settled()
    server.put({"id": 3} | now)
    (message,) = await client.read()
    assert (message["sids"], message.get("delta", False)) == (["a", "b"], is_delta)
    if not is_delta:
        assert message["data"] == {"id": 3} | now
