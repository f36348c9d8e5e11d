"""Delta subscriptions to views and conflated topics: each delta has the fields that make the record's key."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.query_service.sessions import Json, Server, settled

SOURCE = "{name: work, key: [/id, /day]}"
WHO: Json = {"who": "ann", "hours": 4, "note": "x"}


def server_of(view: str, kind: str = "views") -> Server:
    """Return a server of a view `orders` of the topic `work`, with one record."""
    made = Server(definition=f"{SOURCE}]\n{kind}: [{{name: orders, from: work, {view}}}").loaded()
    made.put_at(b"1", WHO)
    return made


@pytest.fixture
def server() -> Iterator[Server]:
    """A server of hours by person."""
    server = server_of("grouping: [/who], projection: [SUM(/hours) AS /hours, MAX(/note) AS /note]")
    with server.patched():
        yield server


async def deltas(server: Server, **fields: Any) -> list[Json]:
    """Return the deltas that a subscription gets of one change."""
    client = server.connect()
    client.ask("sow_and_delta_subscribe", **fields)
    assert [m["command"] for m in await client.read()] == ["group_begin", "sow", "group_end"]
    server.put_at(b"1", {**WHO, "hours": 5})
    await settled()
    return [message["data"] for message in await client.read() if message["command"] == "publish"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {"who": "ann", "hours": 5}),
        ({"skip_n": 0, "top_n": 5, "order_by": "/who"}, {"who": "ann", "hours": 5}),
        ({"options": "select=[-/,+/hours]"}, {"hours": 5}),
        ({"options": "grouping=[/note],projection=[/note,SUM(/hours) AS /all]"}, {"note": "x", "all": 5}),
        ({"options": "grouping=[/note],projection=[/note AS /n,SUM(/hours) AS /all]"}, {"n": "x", "all": 5}),
    ],
)
async def test_a_delta_of_a_group_has_its_grouping_fields(
    server: Server, fields: Json, expected: Json
) -> None:
    """Also on a page. A select list may leave them out, and groups of the view have their own."""
    assert await deltas(server, **fields) == [expected]


@pytest.mark.parametrize(
    ("view", "kind", "expected"),
    [
        ("filter: /hours > 1", "views", {"who": "ann", "hours": 5}),
        ("projection: [/id AS /who, /hours, /note]", "views", {"who": "ann", "hours": 5}),
        ("projection: [/hours, /note]", "views", {"hours": 5}),
        ("interval: 1s", "conflated", {"who": "ann", "hours": 5}),
    ],
)
async def test_a_delta_of_a_single_record_has_the_key_fields_it_shows(
    view: str, kind: str, expected: Json
) -> None:
    """They are those of the source, under the names that the projection gives them."""
    key = "{name: work, key: /id}" if "AS /who" in view else "{name: work, key: /who}"
    definition = f"{key}]\n{kind}: [{{name: orders, from: work, {view}}}"
    server = Server(definition=definition).loaded()
    server.put_at(b"1", WHO)
    with server.patched():
        assert await deltas(server) == [expected]


async def test_a_replay_has_the_same_deltas(server: Server) -> None:
    """A client that comes back with a bookmark gets the key fields too."""
    client = server.connect()
    client.ask("delta_subscribe", ack_type="processed")
    (ack,) = await client.read()
    server.put_at(b"1", {**WHO, "hours": 5})
    (live,) = await client.read()
    again = server.connect()
    again.ask("delta_subscribe", bookmark=ack["bookmark"])
    messages = [message for message in await again.read() if message["command"] == "publish"]
    assert [message["data"] for message in (live, *messages)] == [{"who": "ann", "hours": 5}] * 2


async def test_a_part_of_the_key_is_no_conflation_key() -> None:
    """Records that are equal in the part that the view shows are not one: a delta subscription refuses it."""
    server = server_of("projection: [/id, /hours, /note]")
    with server.patched():
        for command, refused in (("delta_subscribe", True), ("subscribe", False)):
            client = server.connect()
            client.ask(command, ack_type="processed", options="conflation=1s,conflation_key=[/id]")
            (ack,) = await client.read()
            assert (ack["status"] == "failure", "expected no conflation_key with" in json.dumps(ack)) == (
                refused,
                refused,
            )


async def test_the_grouping_is_a_conflation_key(server: Server) -> None:
    """There is one record for each combination of its values."""
    client = server.connect()
    client.ask("delta_subscribe", ack_type="processed", options="conflation=1s,conflation_key=[/who]")
    (ack,) = await client.read()
    assert ack["status"] == "success"
