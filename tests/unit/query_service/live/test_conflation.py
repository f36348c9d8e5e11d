"""Conflated subscriptions, end to end, on a clock that the test owns."""

from collections.abc import Iterator

import pytest

from tests.property.clock import clock, on_clock
from tests.unit.query_service.sessions import Json, Server, view_of


@pytest.fixture
def server() -> Iterator[Server]:
    """A server of one partition, loaded and empty."""
    server = Server().loaded()
    with server.patched():
        yield server


def received(messages: list[Json]) -> list[tuple[str, bool, str, Json]]:
    """Return of each live message the command, whether there is more, the bookmark and the body."""
    return [
        (m["command"], "more" in m, m["bookmark"], m["data"])
        for m in messages
        if m["command"] in ("publish", "oof")
    ]


@on_clock
async def test_an_interval_begins_with_the_first_change(server: Server) -> None:
    """At its end each record is told once, as it is then; the next one begins with the next change."""
    client = server.connect()
    client.ask("subscribe", options="conflation=100ms")
    await client.read()
    await clock().tick(70)
    server.put({"id": 1, "n": 1})
    await clock().tick(99)
    server.put({"id": 1, "n": 2})
    assert await client.read() == []
    await clock().tick(1)
    assert received(await client.read()) == [("publish", False, "orders:0@1", {"id": 1, "n": 2})]
    await clock().tick(50)
    server.put({"id": 1, "n": 3})
    await clock().tick(99)
    assert await client.read() == []
    await clock().tick(1)
    assert received(await client.read()) == [("publish", False, "orders:0@2", {"id": 1, "n": 3})]


@on_clock
async def test_a_snapshot_is_sent_at_once(server: Server) -> None:
    """Only what happens behind it waits."""
    server.put({"id": 1})
    client = server.connect()
    client.ask("sow_and_subscribe", options="conflation=1h")
    assert [m["command"] for m in await client.read()] == ["group_begin", "sow", "group_end"]


@on_clock
async def test_the_messages_of_an_interval_are_one_step() -> None:
    """All but the last name the place before it, of all partitions, and say that there is more."""
    server = Server(partitions=2).loaded()
    server.put({"id": 1, "n": 1})
    client = server.connect()
    client.ask("sow_and_subscribe", filter="/n < 5", options="oof,timestamp,conflation=1s")
    await client.read()
    server.put({"id": 2, "n": 2}, partition=1)
    server.put({"id": 1, "n": 3})
    server.put({"id": 1, "n": 7})
    await clock().tick(1000)
    messages = await client.read()
    assert received(messages) == [
        ("publish", True, "orders:0@0,1@-1", {"id": 2, "n": 2}),
        ("oof", False, "orders:0@2,1@0", {"id": 1, "n": 1}),
    ]
    assert [m["timestamp"][-7:] for m in messages] == ["000000Z", "001000Z"]


@on_clock
async def test_who_comes_back_during_conflation_misses_nothing(server: Server) -> None:
    """What waited when the connection was lost is told after the bookmark."""
    server.put({"id": 1, "n": 1})
    client = server.connect()
    client.ask("sow_and_subscribe", options="conflation=1s")
    await client.read()
    server.put({"id": 1, "n": 2})
    await clock().tick(500)
    client.session.close()
    back = server.connect()
    back.ask("sow_and_subscribe", options="conflation=1s", bookmark="orders:0@0")
    assert await back.read() == []
    await clock().tick(1000)
    assert received(await back.read()) == [("publish", False, "orders:0@1", {"id": 1, "n": 2})]


@on_clock
async def test_auto_sends_at_once_to_who_keeps_up(server: Server) -> None:
    """And less often to who does not, until that one has caught up."""
    client = server.connect()
    client.ask("subscribe", options="conflation=auto")
    await client.read()
    body = "x" * 70_000
    sent = []
    for number in range(8):
        server.put({"id": 1, "n": number, "body": body})
        await clock().tick(1)
        sent.append(client.outbox.unsent_bytes // len(body))
    assert sent[:2] == [1, 2]
    assert len(set(sent[2:])) < 6
    for number in range(40):
        await client.read()
        server.put({"id": 1, "n": number})
        await clock().tick(20)
    await client.read()
    server.put({"id": 1, "n": 99})
    assert [body["n"] for *_, body in received(await client.read())] == [99]


@on_clock
async def test_what_waits_for_a_client_that_does_not_read_is_bounded() -> None:
    """Once it is more than the outbox may hold the subscription falls behind; then it is told the outcome."""
    server = Server(backlog=500).loaded()
    with server.patched():
        client = server.connect()
        client.ask("sow_and_subscribe", filter="/n < 50", options="oof,conflation=10ms")
        view = view_of(await client.read())
        for n in range(60):
            for number in range(20):
                server.put({"id": number, "n": n})
            await clock().tick(5)
            assert client.outbox.unsent_bytes < 10_000
        for _ in range(4):
            view = view_of(await client.read(), view)
            await clock().tick(10)
        assert view == {}


@on_clock
async def test_pages_and_groups_are_conflated(server: Server) -> None:
    """What enters a page and leaves it within an interval is not mentioned."""
    for number in (1, 2, 3):
        server.put({"id": number, "n": number * 10})
    client = server.connect()
    options = "oof,conflation=1s"
    client.ask("sow_and_subscribe", sub_id="p", order_by="/n", top_n=1, skip_n=0, options=options)
    await client.read()
    server.put({"id": 3, "n": 5})
    server.put({"id": 3, "n": 30})
    server.put({"id": 2, "n": 1})
    await clock().tick(1000)
    assert sorted(t[0] + str(t[3]["id"]) for t in received(await client.read())) == ["oof1", "publish2"]
    client.ask("unsubscribe", sub_id="p")
    grouping = f"{options},grouping=[/g],projection=[/g,SUM(/n) AS /sum]"
    client.ask("sow_and_subscribe", command_id="2", sub_id="g", options=grouping)
    await client.read()
    server.put({"id": 4, "g": 1, "n": 1})
    server.put({"id": 5, "g": 1, "n": 2})
    await clock().tick(1000)
    assert [t[3] for t in received(await client.read())] == [{"g": 1, "sum": 3}]


@on_clock
async def test_a_conflation_key_takes_the_last_of_several_records(server: Server) -> None:
    """Records with equal values are one message; of a record only its newest state is told."""
    client = server.connect()
    client.ask("subscribe", options="conflation=1s,conflation_key=[/a]")
    await client.read()
    server.put({"id": 1, "a": 1})
    server.put({"id": 2, "a": 1})
    await clock().tick(1000)
    assert [t[3] for t in received(await client.read())] == [{"id": 2, "a": 1}]
    for a in (2, 1, 2):
        server.put({"id": 3, "a": a})
    await clock().tick(1000)
    assert [t[3] for t in received(await client.read())] == [{"id": 3, "a": 2}]


@pytest.mark.parametrize("key", ["/id", "/a"])
@pytest.mark.parametrize(
    ("command", "fields"),
    [
        ("subscribe", {"options": "oof"}),
        ("delta_subscribe", {"options": "no_empties"}),
        ("sow_and_subscribe", {"options": "timestamp", "top_n": 1, "skip_n": 0}),
    ],
)
@on_clock
async def test_where_each_record_is_sent_the_key_is_the_records(
    server: Server, command: str, fields: Json, key: str
) -> None:
    """Any other conflation key is refused there."""
    client = server.connect()
    options = f"{fields['options']},conflation=1s,conflation_key=[{key}]"
    client.ask(command, **fields | {"options": options})
    failures = [m["reason"] for m in await client.read() if m["command"] == "ack"]
    assert failures == ([] if key == "/id" else ["invalid options"])
    assert server.dispatcher.live == (key == "/id")


@on_clock
async def test_an_interval_begins_before_all_messages_of_a_change(server: Server) -> None:
    """Not between two of them: a group that came and went within it was never told of, and is not now."""
    server.put({"id": 1, "g": "a"})
    server.put({"id": 2, "g": "a"})
    client = server.connect()
    client.ask(
        "sow_and_subscribe", options="oof,conflation=1s,grouping=[/g],projection=[/g,COUNT(/id) AS /n]"
    )
    await client.read()
    server.put({"id": 3, "g": "b"})
    server.put({"id": 3, "g": "c"})
    server.put({"id": 2, "g": "d"})
    await clock().tick(1000)
    messages = received(await client.read())
    assert {bookmark for _, more, bookmark, _ in messages if more} == {"orders:0@1"}
    assert sorted(body["g"] for *_, body in messages) == ["a", "c", "d"]


@on_clock
async def test_an_interval_that_grows_too_large_ends_early() -> None:
    """What waits to be told is bounded, however long the interval."""
    server = Server(backlog=300).loaded()
    with server.patched():
        client = server.connect()
        client.ask("subscribe", options="conflation=1h")
        await client.read()
        for number in range(40):
            server.put({"id": number, "pad": "x" * 40})
        early = len(received(await client.read()))
        assert early > 30
        await clock().tick(3_600_000)
        assert early + len(received(await client.read())) == 40


@on_clock
async def test_nothing_to_tell_moves_the_position_on(server: Server) -> None:
    """The messages of an interval name the place where it began, however long nothing was told before it."""
    server.put({"id": 1, "n": 0})
    client = server.connect()
    client.ask("sow_and_subscribe", filter="/n < 5", options="oof,conflation=1s")
    await client.read()
    for number in range(10, 20):
        server.put({"id": 2, "n": number})
    server.put({"id": 1, "n": 1})
    server.put({"id": 3, "n": 1})
    await clock().tick(1000)
    positions = [(more, bookmark) for _, more, bookmark, _ in received(await client.read())]
    assert positions == [(True, "orders:0@10"), (False, "orders:0@12")]
