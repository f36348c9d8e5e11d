"""The correlation id of a command: which messages to subscribers have it."""

from collections.abc import Iterator

import pytest

from tests.property.clock import clock, on_clock
from tests.unit.query_service.sessions import Client, Json, Server

PAGE = {"order_by": "/n", "top_n": 5, "skip_n": 0}


@pytest.fixture
def server() -> Iterator[Server]:
    """A server with one record, whose ring of recent changes is short, so that a return reads the topic."""
    server = Server(ring=2).loaded()
    with server.patched():
        server.put({"id": 1, "n": 1}, correlation="begin")
        yield server


def write(server: Server) -> None:
    """Insert, update and delete: with a correlation, without one, and with one that JSON escapes."""
    server.put({"id": 2, "n": 1}, correlation="c1")
    server.put({"id": 2, "n": 2})
    server.put({"id": 2, "n": 9}, correlation='a "b"')
    server.put({"id": 2, "n": 9, "m": 1}, correlation="")
    server.put(None, 2, correlation="c4")


def received(messages: list[Json]) -> list[tuple[str, str | None]]:
    """Return of each live message its command and its correlation id."""
    return [(m["command"], m.get("correlation_id")) for m in messages if m["command"] in ("publish", "oof")]


async def asked(server: Server, command: str = "sow_and_subscribe", **fields: object) -> tuple[Client, Json]:
    """Return a client that has begun to read, and the last message of its begin."""
    client = server.connect()
    client.ask(command, sub_id="s", ack_type="processed", **fields)
    return client, (await client.read())[-1]


@pytest.mark.parametrize("command", ["subscribe", "sow_and_subscribe", "sow_and_delta_subscribe"])
@pytest.mark.parametrize("when", ["live", "returned"])
async def test_each_message_has_that_of_its_command(server: Server, command: str, when: str) -> None:
    """A subscriber that comes back later gets the same."""
    client, begun = await asked(server, command, options="oof", filter="/n < 5")
    write(server)
    if when == "returned":
        client = server.connect()
        client.ask(command, options="oof", filter="/n < 5", bookmark=begun["bookmark"])
    assert received(await client.read()) == [("publish", "c1"), ("publish", None), ("oof", 'a "b"')]


@on_clock
async def test_a_conflated_message_has_that_of_the_last_change(server: Server) -> None:
    """Also where that has none; an out-of-focus message as well."""
    client, _ = await asked(server, options="oof,conflation=1s", filter="/n < 5")
    server.put({"id": 2, "n": 1}, correlation="first")
    server.put({"id": 2, "n": 2}, correlation="last")
    server.put({"id": 1, "n": 2}, correlation="first")
    server.put({"id": 1, "n": 3})
    await clock().tick(1001)
    assert received(await client.read()) == [("publish", "last"), ("publish", None)]
    server.put({"id": 2, "n": 3}, correlation="first")
    server.put({"id": 2, "n": 8}, correlation="away")
    await clock().tick(1001)
    assert received(await client.read()) == [("oof", "away")]


@pytest.mark.parametrize(
    "fields",
    [
        {"options": "oof", **PAGE},
        {"options": "oof,grouping=[/n],projection=[/n,COUNT(/id) AS /c]"},
    ],
)
async def test_pages_and_groups_have_none(server: Server, fields: Json) -> None:
    """What they show is made of several commands."""
    client, _ = await asked(server, **fields)
    write(server)
    messages = await client.read()
    assert {command for command, _ in received(messages)} == {"publish", "oof"}
    assert not any("correlation_id" in message for message in messages)


async def test_a_group_has_none(server: Server) -> None:
    """Its records are state; a filter can ask for the correlation of a record's last update."""
    client = server.connect()
    client.ask("sow", filter="CORRELATION_ID() = 'begin'")
    messages = await client.read()
    assert [m["records"][0]["data"]["id"] for m in messages if m["command"] == "sow"] == [1]
    assert "correlation_id" not in str(messages)


async def test_what_a_replacement_takes_away_has_none(server: Server) -> None:
    """No command of a publisher has caused that."""
    client, _ = await asked(server, options="oof")
    client.ask("pause", sub_id="s")
    await client.read()
    server.put({"id": 1, "n": 7}, correlation="meanwhile")
    client.ask("sow_and_subscribe", sub_id="s", options="oof,replace", filter="/n < 5", command_id="2")
    assert received(await client.read()) == [("oof", None)]
