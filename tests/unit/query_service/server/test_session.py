"""Sessions: what a client gets for its commands, without Kafka and without a socket."""

import json
from typing import Any

import pytest

from sowline.changes.change import Change
from sowline.model.position import Position
from sowline.serving.result import QueryLimits
from sowline.serving.sessions.command_runner import QUERIES_MAX
from tests.unit.query_service.server.loaded_server import commands, key_of, server
from tests.unit.query_service.sessions import Server, settled, view_of

__all__ = ["server"]


# queries


async def test_a_sow_is_one_group(server: Server) -> None:
    """A query is its begin, the records, its end with count and hash, all at one bookmark."""
    server.put({"id": 1, "a": 1})
    server.put({"id": 2, "a": 2})
    client = server.connect()
    client.ask("sow", filter="/a = 2", ack_type="received,processed,completed,stats", query_id="q")
    messages = await client.read()
    assert commands(messages) == ["ack", "ack", "group_begin", "sow", "group_end", "ack", "ack"]
    assert [m["ack_type"] for m in messages if m["command"] == "ack"] == [
        "received",
        "processed",
        "completed",
        "stats",
    ]
    begin, sow, end = messages[2:5]
    assert begin == {"command": "group_begin", "query_id": "q", "topic": "orders", "bookmark": "orders:0@1"}
    assert sow["records"] == [{"sow_key": key_of(2), "updated_at": "orders:0@1", "data": {"id": 2, "a": 2}}]
    assert (end["bookmark"], end["records"], len(end["hash"])) == ("orders:0@1", 1, 16)
    assert messages[-1] | {"command": ""} == {
        "command": "",
        "ack_type": "stats",
        "command_id": "1",
        "status": "success",
        "topic_matches": 2,
        "matches": 1,
        "records_returned": 1,
        "records_deleted": 0,
    }


async def test_records_travel_in_batches(server: Server) -> None:
    """`batch_size` records go into a message; one by default."""
    for number in range(5):
        server.put({"id": number})
    client = server.connect()
    client.ask("sow", batch_size=2)
    client.ask("sow", command_id="2")
    sizes = [(m["query_id"], len(m["records"])) for m in await client.read() if m["command"] == "sow"]
    assert sorted(sizes) == [("1", 1), ("1", 2), ("1", 2)] + [("2", 1)] * 5


async def test_a_query_is_of_one_instant(server: Server) -> None:
    """What changes while a query runs is not in its result."""
    server.put({"id": 1})
    client = server.connect()
    client.ask("sow")
    server.put({"id": 2})
    server.put(None, key=1)
    assert view_of(await client.read()) == {key_of(1): {"id": 1}}


async def test_options_change_what_is_sent(server: Server) -> None:
    """The key may be left out and the time asked for."""
    server.put({"id": 1})
    client = server.connect()
    client.ask("sow", options="no_sowkey,timestamp")
    (record,) = next(m for m in await client.read() if m["command"] == "sow")["records"]
    assert record == {
        "updated_at": "orders:0@0",
        "data": {"id": 1},
        "timestamp": "1970-01-01T00:00:01.000000Z",
    }


async def test_large_requests_are_parsed_in_a_thread(server: Server) -> None:
    """Others get turns meanwhile; what it leads to is the same, refusals too."""
    server.put({"id": 1})
    client = server.connect()
    for filter, expected in [("/id = 1" + " OR /id = 2" * 200, "group_end"), ("/id = 1 OR " * 200, "ack")]:
        text = json.dumps({"command": "sow", "command_id": "1", "topic": "orders", "filter": filter})
        waiting = client.session.receive_one(text.encode())
        assert waiting is not None
        await waiting
        messages = await client.read()
        assert (messages[-1]["command"], messages[-1].get("reason")) == (
            expected,
            "bad filter" if expected == "ack" else None,
        )
    small = b'{"command": "sow", "command_id": "1", "topic": "orders", "filter": "/id = 1"}'
    assert client.session.receive_one(small) is None


async def test_a_result_has_a_largest_size() -> None:
    """Too many records are refused with the limit, never cut."""
    server = Server(limits=QueryLimits(records_max=2)).loaded()
    for number in range(3):
        server.put({"id": number})
    client = server.connect()
    client.ask("sow")
    failure = (await client.read())[-1]
    assert (failure["status"], failure["reason"], failure["ack_type"]) == (
        "failure",
        "result too large",
        "completed",
    )


# subscriptions


async def test_a_sow_and_subscribe_is_one_instant(server: Server) -> None:
    """The snapshot, then every change after it; none twice, however late the snapshot is sent."""
    server.put({"id": 1, "a": 1})
    client = server.connect()
    client.ask("sow_and_subscribe", filter="/a = 1", options="oof", sub_id="s")
    server.put({"id": 2, "a": 1})
    server.put({"id": 1, "a": 2})
    messages = await client.read()
    server.put({"id": 3, "a": 1})
    server.put(None, key=2)
    messages += await client.read()
    assert commands(messages) == ["group_begin", "sow", "group_end", "publish", "oof", "publish", "oof"]
    assert [m["bookmark"] for m in messages if m["command"] != "sow"] == [
        f"orders:0@{n}" for n in (0, 0, 1, 2, 3, 4)
    ]
    assert view_of(messages) == {key_of(3): {"id": 3, "a": 1}}
    match, deleted = (m for m in messages if m["command"] == "oof")
    assert (match["reason"], match["data"], match["sids"]) == ("match", {"id": 1, "a": 2}, ["s"])
    assert (deleted["reason"], deleted["data"]) == ("deleted", {"id": 2, "a": 1})


async def test_a_query_id_ends_the_subscription_of_its_snapshot() -> None:
    """Without the whole snapshot the subscription would be of no use; afterwards the id means nothing."""
    server = Server(backlog=200).loaded()
    for number in range(3000):
        server.put({"id": number})
    client = server.connect()
    client.ask("sow_and_subscribe", sub_id="s", query_id="q")
    await settled()
    client.ask("unsubscribe", command_id="2", query_id="q")
    last = (await client.read())[-1]
    assert (last["reason"], last["sub_id"], last["command_id"]) == ("query aborted", "s", "1")
    server = Server().loaded()
    client = server.connect()
    client.ask("sow_and_subscribe", sub_id="s", query_id="q")
    await client.read()
    client.ask("unsubscribe", command_id="2", query_id="q")
    server.put({"id": 1})
    assert [m["command"] for m in await client.read()] == ["publish"]


async def test_a_page_is_aborted_before_its_view_is_filled(server: Server) -> None:
    """As a snapshot of records is that waits."""
    client = server.connect()
    client.ask("sow_and_subscribe", sub_id="s", query_id="q", skip_n=0, top_n=2, order_by="/n")
    client.ask("unsubscribe", query_id="q")
    messages = await client.read()
    assert [m["reason"] for m in messages if m.get("status") == "failure"] == ["query aborted"]
    assert "group_begin" not in commands(messages)


async def test_a_live_filter_may_ask_for_the_bookmark(server: Server) -> None:
    """A change has one, unlike a record that is queried."""
    client = server.connect()
    client.ask("subscribe", filter="BOOKMARK() = 'orders:0@1' AND TOPIC_NAME() = 'orders'")
    await settled()
    for number in range(3):
        server.put({"id": number})
    assert [m["data"]["id"] for m in await client.read()] == [1]


async def test_a_subscribe_begins_now(server: Server) -> None:
    """Without a snapshot, changes come from the instant of the command, which the ack names."""
    server.put({"id": 1})
    client = server.connect()
    client.ask("subscribe", ack_type="processed")
    server.put({"id": 2})
    ack, publish = await client.read()
    assert (ack["ack_type"], ack["bookmark"], ack["sub_id"]) == ("processed", "orders:0@0", "1")
    assert (publish["data"], publish["bookmark"]) == ({"id": 2}, "orders:0@1")


async def test_without_oof_no_client_is_sent_what_left(server: Server) -> None:
    """Only publishes come where `oof` was not asked for."""
    client = server.connect()
    client.ask("subscribe", filter="/a = 1")
    server.put({"id": 1, "a": 1})
    server.put({"id": 1, "a": 2})
    assert commands(await client.read()) == ["publish"]


async def test_one_client_gets_a_change_once_for_all_its_subscriptions(server: Server) -> None:
    """Subscriptions of one connection share a message: it holds what any of them needs."""
    client = server.connect()
    client.ask("subscribe", sub_id="a")
    client.ask("subscribe", sub_id="b", filter="/x = 1")
    client.ask("subscribe", sub_id="c", filter="/x = 2", options="oof")
    client.ask("subscribe", sub_id="d", options="no_sowkey")
    await settled()
    server.put({"id": 1, "x": 2})
    server.put({"id": 1, "x": 1})
    messages = [(m["command"], m["sids"], "sow_key" in m) for m in await client.read()]
    assert messages == [
        ("publish", ["a", "c", "d"], True),
        ("publish", ["a", "b", "d"], True),
        ("oof", ["c"], True),
    ]


@pytest.mark.parametrize("named", ["s", "t, s", "all"])
async def test_after_unsubscribe_nothing_comes(server: Server, named: str) -> None:
    """A subscription ends by its id, in a list, or with all others; its id is free again."""
    client = server.connect()
    for sub_id in ("s", "t"):
        client.ask("subscribe", sub_id=sub_id)
    await client.read()
    client.ask("unsubscribe", sub_id=named, command_id="2", ack_type="processed")
    server.put({"id": 1})
    left = [message.get("sids") for message in await client.read()]
    assert left == ([None, ["t"]] if named == "s" else [None])
    assert server.dispatcher.live == (1 if named == "s" else 0)
    client.ask("subscribe", sub_id="s")
    assert await client.read() == []


async def test_a_closed_session_leaves_nothing_behind(server: Server) -> None:
    """A client that went away is not served any more, whatever it had asked for."""
    client = server.connect()
    client.ask("sow_and_subscribe", sub_id="a")
    client.ask("subscribe", sub_id="b")
    client.ask("sow", query_id="q")
    await settled()
    client.session.close()
    await settled()
    assert server.dispatcher.live == 0


# topics without a SOW


@pytest.fixture
def without_sow() -> Server:
    """A server of a topic that keeps no records."""
    return Server(definition="{name: orders, sow: false}").loaded()


def pass_on(server: Server, n: int) -> None:
    """Let a message come."""
    position = Position(0, server.last[0].offset + 1)
    key = f"0@{position.offset}".encode()
    server.take(Change(key, b'{"n":%d}' % n, None, position, server.last[0], "publish", 1000))


async def test_messages_without_a_sow_are_sent_and_not_kept(without_sow: Server) -> None:
    """To each client that is connected or comes back; whole, for there is nothing to compare them with."""
    client = without_sow.connect()
    client.ask("sow_and_subscribe", sub_id="s", options="oof", filter="/n > 0")
    client.ask("delta_subscribe", sub_id="d", filter="/n > 0")
    assert commands(await client.read()) == ["group_begin", "group_end"]
    for n in range(3):
        pass_on(without_sow, n)
    messages = await client.read()
    assert [(sorted(message["sids"]), message["data"]["n"]) for message in messages] == [
        (["d", "s"], 1),
        (["d", "s"], 2),
    ]
    assert not any("sow_key" in message or "delta" in message for message in messages)
    assert without_sow.topic.record_count == 0
    client.ask("subscribe", sub_id="b", bookmark="orders:0@0")
    assert [message["data"]["n"] for message in await client.read()] == [1, 2]


@pytest.mark.parametrize(
    "fields",
    [
        {"command": "sow"},
        {"command": "explain"},
        {"command": "sow_and_subscribe", "skip_n": 0, "top_n": 1},
        {"command": "sow_and_subscribe", "options": "grouping=[/n],projection=[/n]"},
    ],
)
async def test_without_a_sow_there_are_no_records_to_ask_for(
    without_sow: Server, fields: dict[str, Any]
) -> None:
    """What is about records is refused, and a proof of them, too."""
    client = without_sow.connect()
    client.ask(**fields)
    client.ask("subscribe", sub_id="s")
    client.ask("heartbeat", sub_id="s")
    assert [message["reason"] for message in await client.read()] == ["no sow", "no sow"]


async def test_queries_of_a_connection_have_a_limit() -> None:
    """One more than may run is refused as busy; those before it are answered, and then there is room again."""
    server = Server().loaded()
    server.put({"id": 1})
    client = server.connect()
    for number in range(QUERIES_MAX + 1):
        client.ask("sow", command_id=str(number))
    messages = await client.read()
    refused = [m for m in messages if m["command"] == "ack"]
    assert [(m["command_id"], m["reason"]) for m in refused] == [(str(QUERIES_MAX), "busy")]
    assert sum(m["command"] == "group_end" for m in messages) == QUERIES_MAX
    client.ask("sow", command_id="again")
    assert [m["command"] for m in await client.read()] == ["group_begin", "sow", "group_end"]
