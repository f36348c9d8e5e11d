"""Acknowledgements: each that is asked for is sent once or refused, and docs/api.md shows the table."""

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from sowline.wire.acks import ACK_TYPES, COMPLETED, PROCESSED, SENT, STATS, refusal
from sowline.wire.request_fields import COMMANDS
from tests.unit.query_service.sessions import Json, Server

DOCS = Path(__file__).parents[4] / "docs" / "api.md"


def rows() -> Iterator[str]:
    """Yield the table of acknowledgements as docs/api.md has it; commands that have the same share a row."""
    yield f"| command | {' | '.join(f'`{kind}`' for kind in ACK_TYPES)} |"
    yield "|---" * (len(ACK_TYPES) + 1) + "|"
    for sent, commands in groupby(SENT, SENT.__getitem__):
        names = ", ".join(f"`{command}`" for command in commands)
        yield f"| {names} | {' | '.join(sent.get(kind, 'rejected') for kind in ACK_TYPES)} |"


def test_the_page_shows_the_table() -> None:
    """All commands are in it, each with all kinds."""
    assert set(SENT) == set(COMMANDS)
    assert "\n".join(rows()) in DOCS.read_text()


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("ack_type", ACK_TYPES)
async def test_what_is_not_sent_is_refused(command: str, ack_type: str) -> None:
    """The refusal is the only answer: nothing else happens, not even `received`."""
    refused = refusal(command, ack_type)
    if refused is None:
        return
    client = Server().loaded().connect()
    client.ask(command, ack_type=f"received,{ack_type}", sub_id="s")
    [answer] = await client.read()
    assert answer == {
        "command": "ack",
        "ack_type": "processed",
        "command_id": "1",
        "status": "failure",
        "reason": "invalid ack type",
        "message": refused.message,
    }
    assert command in refused.message
    assert client.session.commands.subscriptions_count == 0


BEGINS: dict[str, Json] = {
    "from now": {},
    "from now, by name": {"bookmark": "now"},
    "from now, paused": {"options": "pause"},
    "from now, at a rate": {"bookmark": "now", "options": "rate=100"},
    "from now, conflated": {"options": "conflation=1ms"},
    "from a place": {"bookmark": "orders:0@0"},
    "from the oldest place": {"bookmark": "epoch"},
    "with an end": {"up_to": "now"},
    "from a place to an end": {"bookmark": "orders:0@0", "up_to": "now"},
}
VIEWS: dict[str, Json] = {
    "a page": {"top_n": 2, "skip_n": 0},
    "groups": {"options": "grouping=[/id],projection=[/id,COUNT(1) AS /n]"},
    "a page from a place": {"top_n": 2, "skip_n": 0, "bookmark": "orders:0@0"},
    "groups from a place": {
        "options": "grouping=[/id],projection=[/id,COUNT(1) AS /n]",
        "bookmark": "orders:0@0",
    },
}


def kinds(messages: list[Json]) -> list[Any]:
    """Return the kinds of the acknowledgements, which must all say that it went well."""
    acks = [message for message in messages if message["command"] == "ack"]
    assert {ack["status"] for ack in acks} <= {"success"}
    return [ack["ack_type"] for ack in acks]


@pytest.mark.parametrize("begin", [*BEGINS, *VIEWS])
@pytest.mark.parametrize("command", [command for command in COMMANDS if "subscribe" in command])
async def test_a_subscription_gets_every_ack_it_asked_for_once(command: str, begin: str) -> None:
    """Wherever it begins and ends, and also where it takes the place of another."""
    if command == "unsubscribe" or (begin in VIEWS and not command.startswith("sow")):
        return
    server = Server().loaded()
    with server.patched():
        for number in range(3):
            server.put({"id": number})
        client = server.connect()
        fields = (BEGINS | VIEWS)[begin]
        client.ask(command, sub_id="s", ack_type=",".join(SENT[command]), **fields)
        got = kinds(await client.read())
        assert sorted(got) == sorted(SENT[command])
        server.put({"id": 1, "n": 1})
        assert kinds(await client.read()) == []
        if "bookmark" in fields or "up_to" in fields:
            return
        options = f"replace,{fields.get('options', '')}"
        again = fields | {"options": options, "filter": "/id > 0"}
        client.ask(command, sub_id="s", ack_type=",".join(SENT[command]), **again)
        assert sorted(kinds(await client.read())) == sorted(SENT[command])


async def test_a_group_that_comes_instead_of_a_replay_is_counted() -> None:
    """Where the bookmark has expired and a reset was asked for; without any group, the counts are 0."""
    server = Server(ring=1).loaded()
    with server.patched():
        for number in range(3):
            server.put({"id": number})
        client = server.connect()
        about: Json = {"bookmark": "orders:0@0", "ack_type": STATS}
        client.ask("sow_and_subscribe", sub_id="a", **about)
        [nothing] = [message for message in await client.read() if message["command"] == "ack"]
        assert (nothing["topic_matches"], nothing["records_returned"]) == (0, 0)
        del server.written[0][:2]
        client.ask("sow_and_subscribe", sub_id="b", options="reset", **about)
        [all_there_is] = [message for message in await client.read() if message["command"] == "ack"]
        assert (all_there_is["topic_matches"], all_there_is["records_returned"]) == (3, 3)


@pytest.mark.parametrize("command", ["unsubscribe", "pause", "resume", "heartbeat", "explain", "flush"])
async def test_what_is_done_at_once_is_completed(command: str) -> None:
    """`completed` comes directly behind `processed`, and behind the answer where there is one."""
    client = Server().loaded().connect()
    client.ask("subscribe", sub_id="s")
    await client.read()
    about = {} if command in ("explain", "flush") else {"sub_id": "s"}
    client.ask(command, command_id="2", ack_type=",".join(SENT[command]), **about)
    messages = await client.read()
    answered = {"heartbeat": "progress", "explain": "explain"}.get(command)
    order = [message["ack_type"] if "ack_type" in message else message["command"] for message in messages]
    assert sorted(order) == sorted([*SENT[command], *([answered] if answered else [])])
    assert order[0] == "received"
    assert order[-1] == COMPLETED
    assert order.index(PROCESSED) < order.index(COMPLETED)


@pytest.mark.parametrize("named", ["t", "s,t", ""])
async def test_unsubscribe_of_what_does_not_exist_fails(named: str) -> None:
    """As `pause` does: and then no other subscription is ended either."""
    client = Server().loaded().connect()
    client.ask("subscribe", sub_id="s")
    await client.read()
    client.ask("unsubscribe", command_id="2", sub_id=named)
    [failure] = await client.read()
    assert (failure["command_id"], failure["status"], failure["reason"]) == ("2", "failure", "invalid subid")
    assert client.session.commands.subscriptions_count == 1
    client.ask("unsubscribe", command_id="3", sub_id="all")
    client.ask("unsubscribe", command_id="4", sub_id="all", ack_type="processed")
    assert [message["command_id"] for message in await client.read()] == ["4"]
    assert client.session.commands.subscriptions_count == 0
