"""What a session refuses, and that it goes on afterwards."""

import json
from typing import Any

import pytest

from tests.unit.query_service.server.loaded_server import commands, server
from tests.unit.query_service.sessions import Server

__all__ = ["server"]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"command": "dance"}, "unknown command"),
        ({"command": "sow", "color": "red"}, "bad request"),
        ({"command": "sow", "batch_size": "x"}, "bad request"),
        ({"command": "sow", "batch_size": 0}, "invalid batch size"),
        ({"command": "sow", "topic": "none"}, "invalid topic"),
        ({"command": "sow", "filter": "/a >"}, "bad filter"),
        ({"command": "sow", "options": "off"}, "invalid options"),
        ({"command": "sow", "ack_type": "all"}, "invalid ack type"),
        ({"command": "sow", "bookmark": "epoch"}, "invalid bookmark"),
        ({"command": "sow", "bookmark": '["orders:0@1", "orders:0@2"]'}, "invalid bookmark"),
        ({"command": "subscribe", "filter": "("}, "bad filter"),
        ({"command": "subscribe", "options": "off"}, "invalid options"),
        ({"command": "subscribe", "bookmark": "yesterday"}, "invalid bookmark"),
        ({"command": "subscribe", "bookmark": "trades:0@1"}, "invalid bookmark"),
        ({"command": "subscribe", "bookmark": "orders:1@1"}, "invalid bookmark"),
        ({"command": "subscribe", "command_id": None}, "invalid subid"),
        ({"command": "sow_and_subscribe", "topic": "none"}, "invalid topic"),
        ({"command": "unsubscribe"}, "invalid subid"),
        ({"command": "pause"}, "invalid subid"),
        ({"command": "resume", "sub_id": "nobody"}, "invalid subid"),
        ({"command": "heartbeat", "sub_id": "nobody"}, "invalid subid"),
        ({"command": "sow", "bookmark": "20261121T120000Z"}, "no history"),
        ({"command": "explain", "bookmark": "20261121T120000Z"}, "no history"),
        ({"command": "sow_and_subscribe", "bookmark": "20261121T120000Z"}, "no history"),
        ({"command": "subscribe", "bookmark": "29990101T000000Z"}, "invalid bookmark"),
        ({"command": "subscribe", "up_to": "orders:1@1"}, "invalid bookmark"),
        ({"command": "subscribe", "bookmark": "[epoch..now]", "up_to": "now"}, "invalid bookmark"),
        ({"command": "subscribe", "options": "rate=5"}, "invalid options"),
        (
            {"command": "sow_and_subscribe", "skip_n": 0, "top_n": 1, "bookmark": "now", "options": "rate=5"},
            "invalid options",
        ),
        ({"command": "sow_and_subscribe", "skip_n": 0, "top_n": 1, "up_to": "now"}, "not supported"),
    ],
)
async def test_what_can_not_be_done_is_refused(server: Server, fields: dict[str, Any], reason: str) -> None:
    """Each refusal has its code and a sentence, names the command, and leaves nothing behind."""
    client = server.connect()
    client.ask(**fields)
    (failure,) = await client.read()
    assert (failure["status"], failure["reason"]) == ("failure", reason)
    assert failure.get("command_id") == (None if "command_id" in fields else "1")
    assert failure["message"]
    assert server.dispatcher.live == 0


async def test_an_id_is_used_once(server: Server) -> None:
    """A second subscription of the same id is refused, and the first goes on."""
    client = server.connect()
    client.ask("subscribe", sub_id="s")
    client.ask("subscribe", sub_id="s", command_id="2")
    (failure,) = await client.read()
    assert (failure["command_id"], failure["reason"]) == ("2", "subid in use")
    server.put({"id": 1})
    assert commands(await client.read()) == ["publish"]


async def test_a_refused_subscription_leaves_its_id_free(server: Server) -> None:
    """After a failure the same id may be used again."""
    client = server.connect()
    for bad in ({"filter": "("}, {"bookmark": "x"}, {"options": "x"}):
        client.ask("subscribe", sub_id="s", **bad)
    client.ask("subscribe", sub_id="s", ack_type="processed")
    assert (await client.read())[-1]["status"] == "success"


async def test_a_topic_that_is_being_loaded_is_not_ready() -> None:
    """Until a replica is loaded nobody gets a part of it."""
    client = Server().connect()
    client.ask("sow")
    (failure,) = await client.read()
    assert failure["reason"] == "not ready"


@pytest.mark.parametrize(
    "frame", [b"", b"x", b"5", b"[", b"[" * 100_000, b'[{"command":"sow"', b"\xff", b'"sow"', b"null"]
)
async def test_a_frame_that_is_none_is_refused(server: Server, frame: bytes) -> None:
    """Garbage is answered, and the session goes on."""
    client = server.connect()
    await client.session.receive(frame)
    client.ask("heartbeat")
    failure, heartbeat = await client.read()
    assert (failure["reason"], heartbeat["command"]) == ("bad request", "heartbeat")


async def test_a_frame_may_hold_many_commands(server: Server) -> None:
    """Each command of an array is answered for itself."""
    client = server.connect()
    frame = [{"command": "heartbeat", "command_id": "1"}, {"command": "?", "command_id": "2"}, 3]
    await client.session.receive(json.dumps([*frame, {"command": "heartbeat", "command_id": "4"}]).encode())
    messages = await client.read()
    assert [m.get("command_id") for m in messages] == ["1", "2", None, "4"]
    assert [m.get("reason") for m in messages] == [None, "unknown command", "bad request", None]
