"""Replacing a subscription in place: what its client holds is turned into what it asks for now."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from sowline.model.key import digest_of, sow_key
from tests.unit.query_service.sessions import DOMAIN, Client, Json, Server, settled

GROUPS = "oof,grouping=[/g],projection=[/g,COUNT(/id) AS /c]"
PAGE: dict[str, Any] = {"order_by": "/n", "top_n": 2, "skip_n": 0, "options": "oof"}


@pytest.fixture
def server() -> Iterator[Server]:
    """A server with four records."""
    server = Server().loaded()
    with server.patched():
        for number in range(4):
            server.put({"id": number, "n": number, "g": number % 2})
        yield server


async def begun(server: Server, command: str = "sow_and_subscribe", **fields: object) -> Client:
    """Return a client whose subscription `s` has begun."""
    client = server.connect()
    client.ask(command, **{"sub_id": "s", "options": "oof"} | fields)
    await client.read()
    return client


def replace(client: Client, command: str = "sow_and_subscribe", **fields: object) -> None:
    """Ask for something else in place of it."""
    fields = {"command_id": "2", "sub_id": "s", "options": "oof"} | fields
    fields["options"] = f"{fields['options']},replace"
    client.ask(command, **fields)


def summaries(messages: list[Json]) -> list[str]:
    """Return in a word what each message says, and of which record."""
    words = []
    for m in messages:
        if m["command"] == "group_begin":
            words.append(next((mark for mark in ("replace", "reset") if mark in m), "group"))
        elif m["command"] == "sow":
            words += [f"sow {record['data']['id']}" for record in m["records"]]
        elif m["command"] in ("publish", "oof"):
            words.append(f"{m['command']} {m['data']['id']}" + (" more" if "more" in m else ""))
        elif m["command"] == "ack":
            words.append(m["reason"] if "reason" in m else m["ack_type"])
    return words


async def test_the_exact_messages(server: Server) -> None:
    """First what leaves, before the place where the new one begins; then a group of what is lacking."""
    client = await begun(server, filter="/n < 2")
    replace(client, filter="/n > 0 AND /n < 3", ack_type="processed")
    assert await client.read() == [
        {
            "command": "ack",
            "ack_type": "processed",
            "command_id": "2",
            "status": "success",
            "sub_id": "s",
            "bookmark": "orders:0@3",
        },
        {
            "command": "oof",
            "sids": ["s"],
            "more": True,
            "reason": "match",
            "topic": "orders",
            "sow_key": sow_key(DOMAIN, "0").decode(),
            "bookmark": "orders:0@3",
            "data": {"id": 0, "n": 0, "g": 0},
        },
        {
            "command": "group_begin",
            "query_id": "2",
            "topic": "orders",
            "bookmark": "orders:0@3",
            "replace": True,
        },
        {
            "command": "sow",
            "query_id": "2",
            "topic": "orders",
            "records": [
                {
                    "sow_key": sow_key(DOMAIN, "2").decode(),
                    "updated_at": "orders:0@2",
                    "data": {"id": 2, "n": 2, "g": 0},
                }
            ],
        },
        {
            "command": "group_end",
            "query_id": "2",
            "topic": "orders",
            "bookmark": "orders:0@3",
            "records": 1,
            "hash": f"{digest_of(sow_key(DOMAIN, '2')):016x}",
        },
    ]


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ({}, {}, ["replace"]),
        ({"filter": "/n > 1"}, {}, ["replace", "sow 0", "sow 1"]),
        ({}, {"filter": "/n > 2"}, ["oof 0 more", "oof 1 more", "oof 2 more", "replace"]),
        ({}, {"filter": "/n > 2", "options": ""}, ["replace"]),
        (
            {"options": ""},
            {"filter": "/n > 2", "options": "oof"},
            ["oof 0 more", "oof 1 more", "oof 2 more", "replace"],
        ),
        ({}, {"options": "select=[-/,+/id]"}, ["replace", "sow 0", "sow 1", "sow 2", "sow 3"]),
        ({}, {"topic": "^ord.*"}, ["replace"]),
        ({}, {"order_by": "/n DESC"}, ["replace"]),
        ({"top_n": 1}, {"top_n": 9}, ["reset", "sow 0", "sow 1", "sow 2", "sow 3"]),
        ({"filter": "/n > 3"}, {"order_by": "/n DESC"}, ["replace", "sow 3", "sow 2", "sow 1", "sow 0"]),
        (
            {"sow_keys": [sow_key(DOMAIN, "1").decode()]},
            {},
            ["replace", "sow 0", "sow 2", "sow 3"],
        ),
    ],
)
async def test_records(server: Server, before: Json, now: Json, expected: list[str]) -> None:
    """Whatever changes, the client is told what leaves and what it lacks, and nothing else."""
    client = await begun(server, **before)
    replace(client, **now)
    messages = summaries(await client.read())
    ordered = "order_by" in now
    assert (messages if ordered else sorted(messages)) == (expected if ordered else sorted(expected))
    server.put({"id": 3, "n": 3, "g": 5})
    assert summaries(await client.read()) == ["publish 3"]


async def test_deltas_begin(server: Server) -> None:
    """What the client holds already is told in deltas from then on."""
    client = await begun(server)
    replace(client, "sow_and_delta_subscribe")
    assert summaries(await client.read()) == ["replace"]
    server.put({"id": 3, "n": 7, "g": 1})
    (message,) = await client.read()
    assert (message["delta"], message["data"]) == (True, {"id": 3, "n": 7})


async def test_plain_subscriptions(server: Server) -> None:
    """They have no group: only what leaves is told. A group in their place is the whole one."""
    client = await begun(server, "subscribe")
    server.put({"id": 0, "n": 5})
    await client.read()
    replace(client, "subscribe", filter="/n > 0 AND /n < 5")
    assert summaries(await client.read()) == ["oof 0"]
    replace(client, filter="/n > 0", command_id="3")
    assert sorted(summaries(await client.read())) == ["reset", "sow 0", "sow 1", "sow 2", "sow 3"]


async def test_what_has_changed_meanwhile_is_sent() -> None:
    """A client that is behind is brought to the new subscription from where it stands."""
    server = Server(backlog=200).loaded()
    with server.patched():
        for number in range(4):
            server.put({"id": number, "n": number})
        client = await begun(server, filter="/n < 10")
        for n in range(20):
            server.put({"id": 0, "n": n})
        server.put({"id": 1, "n": 7})
        replace(client, filter="/n = 3 OR /n = 7")
        messages = summaries(await client.read())
        assert messages[:2] == ["publish 0", "publish 0"]
        assert sorted(messages[2:4]) == ["oof 0 more", "oof 2 more"]
        assert messages[4:] == ["replace", "sow 1"]
        server.put({"id": 2, "n": 3})
        assert summaries(await client.read()) == ["publish 2"]


async def test_while_the_snapshot_is_being_sent(server: Server) -> None:
    """The old group ends nowhere; the new one is all there is."""
    client = server.connect()
    client.ask("sow_and_subscribe", sub_id="s")
    replace(client, filter="/n > 2")
    assert summaries(await client.read()) == ["replaced", "reset", "sow 3"]


async def test_twice_in_a_row(server: Server) -> None:
    """What counts is what the client holds; anyone who asked for what never began is told so."""
    client = await begun(server, filter="/n = 0")
    replace(client, filter="/n > 0")
    replace(client, filter="/n > 1", command_id="3")
    assert sorted(summaries(await client.read())) == ["oof 0 more", "replace", "replaced", "sow 2", "sow 3"]


@pytest.mark.parametrize(
    ("command", "fields", "reason"),
    [
        ("sow_and_subscribe", {"filter": "/n >"}, "bad filter"),
        ("sow_and_subscribe", {"topic": "nosuch"}, "invalid topic"),
        ("sow_and_subscribe", {"options": "nosuch"}, "invalid options"),
        ("sow_and_subscribe", {"options": "oof,conflation=1s,conflation_key=[/n]"}, "invalid options"),
        ("sow_and_subscribe", {"bookmark": "orders:0@1"}, "invalid bookmark"),
        ("sow_and_subscribe", PAGE, "not supported"),
        ("sow_and_subscribe", {"options": GROUPS}, "not supported"),
        ("sow_and_subscribe", {"filter": "UNIX_TIMESTAMP() > 1"}, "bad filter"),
    ],
)
async def test_what_is_refused_changes_nothing(
    server: Server, command: str, fields: Json, reason: str
) -> None:
    """The old subscription goes on as if nobody had asked."""
    client = await begun(server, filter="/n > 1")
    replace(client, command, **fields)
    server.put({"id": 2, "n": 0})
    server.put({"id": 1, "n": 5})
    assert summaries(await client.read()) == [reason, "oof 2", "publish 1"]


async def test_nothing_to_replace(server: Server) -> None:
    """Then it begins like any other."""
    client = server.connect()
    replace(client, filter="/n > 2")
    assert summaries(await client.read()) == ["group", "sow 3"]


async def test_without_the_option_the_name_is_taken(server: Server) -> None:
    """And the subscription stays."""
    client = await begun(server)
    client.ask("sow_and_subscribe", command_id="2", sub_id="s")
    assert summaries(await client.read()) == ["subid in use"]
    assert server.dispatcher.live == 1


async def test_a_page_instead_of_a_page(server: Server) -> None:
    """Of the same order it is another window on the same sorted set."""
    client = await begun(server, **PAGE)
    (before,) = server.dispatcher.windows
    replace(client, **PAGE | {"skip_n": 1})
    assert summaries(await client.read()) == ["oof 0 more", "replace", "sow 2"]
    (now,) = server.dispatcher.windows
    assert now is before
    replace(client, **PAGE | {"order_by": "/n DESC"}, command_id="3")
    assert summaries(await client.read()) == ["oof 1 more", "replace", "sow 3"]
    server.put({"id": 3, "n": -1})
    assert summaries(await client.read()) == ["oof 3 more", "publish 1"]


@pytest.mark.parametrize(
    ("left_out", "reason"),
    [("order_by", "invalid order by"), ("top_n", "invalid skip_n"), ("skip_n", "not supported")],
)
async def test_a_page_is_restated(server: Server, left_out: str, reason: str) -> None:
    """A command that replaces a page and leaves one of its options out is refused, and the page goes on."""
    client = await begun(server, **PAGE)
    replace(client, **{name: value for name, value in PAGE.items() if name != left_out})
    server.put({"id": 0, "n": 9})
    assert summaries(await client.read()) == [reason, "oof 0 more", "publish 2"]


@pytest.mark.parametrize("left_out", ["order_by", "top_n", "skip_n"])
async def test_a_page_is_restated_by_groups(server: Server, left_out: str) -> None:
    """Groups in place of a page restate its options too."""
    client = await begun(server, **PAGE)
    about = {name: value for name, value in PAGE.items() if name not in (left_out, "options")}
    if left_out == "top_n":
        del about["skip_n"]
    replace(client, **about | {"options": GROUPS})
    server.put({"id": 0, "n": 9})
    refused, *rest = summaries(await client.read())
    assert (refused, rest) == (f"invalid {left_out.replace('_by', ' by')}", ["oof 0 more", "publish 2"])


async def test_a_page_in_no_order_restates_none(server: Server) -> None:
    """Only what the page had must be restated; an order may be added."""
    client = await begun(server, top_n=2, skip_n=0)
    replace(client, top_n=4, skip_n=0)
    messages = await client.read()
    assert messages[0].get("replace")
    replace(client, **PAGE | {"top_n": 4}, command_id="3")
    assert summaries(await client.read()) == ["replace"]


async def test_groups_instead_of_a_page(server: Server) -> None:
    """All groups are sent as a reset, nothing of the records, and nothing is kept of the page."""
    client = await begun(server, **PAGE)
    replace(client, **PAGE | {"order_by": "/g", "options": GROUPS})
    messages = await client.read()
    assert [m["command"] for m in messages] == ["group_begin", "sow", "sow", "group_end"]
    assert messages[0]["reset"]
    groups = [record["data"] for m in messages if m["command"] == "sow" for record in m["records"]]
    assert sorted(group["g"] for group in groups) == [0, 1]
    assert len(server.dispatcher.windows) == 1
    client.ask("unsubscribe", sub_id="s")
    await settled()
    assert (server.dispatcher.windows, server.dispatcher.live) == ([], 0)


async def test_records_do_not_replace_a_page(server: Server) -> None:
    """The page goes on."""
    client = await begun(server, **PAGE)
    replace(client)
    server.put({"id": 0, "n": 9})
    assert summaries(await client.read()) == ["not supported", "oof 0 more", "publish 2"]


@pytest.mark.parametrize(
    ("left_out", "reason"), [("order_by", "invalid order by"), ("top_n", "invalid top_n")]
)
async def test_the_first_records_are_restated(server: Server, left_out: str, reason: str) -> None:
    """A command that replaces a subscription without a page restates its options, too, or is refused."""
    first: dict[str, Any] = {"top_n": 2, "order_by": "/n"}
    client = await begun(server, **first)
    replace(client, **{name: value for name, value in first.items() if name != left_out})
    server.put({"id": 0, "n": 9})
    assert summaries(await client.read()) == [reason, "publish 0"]
    replace(client, command_id="3", **first | {"order_by": "/n DESC"})
    assert (await client.read())[0]["command"] == "group_begin"


async def test_what_leaves_waits_for_its_client(server: Server) -> None:
    """A full outbox gets nothing more, and each record leaves once."""
    client = server.connect(backlog=1)
    client.ask("sow_and_subscribe", sub_id="s", options="oof")
    await client.read()
    replace(client, filter="/n < 0")
    await settled()
    portions = []
    while taken := client.outbox.take_now():
        portions.append(summaries([json.loads(message) for message in taken]))
        await settled()
    leaving = [[word for word in words if word.startswith("oof")] for words in portions]
    assert max(map(len, leaving)) == 1
    assert sorted(word.split()[1] for words in leaving for word in words) == ["0", "1", "2", "3"]
