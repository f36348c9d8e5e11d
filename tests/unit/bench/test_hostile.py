"""What one client can ask for at its worst: each command is answered, and the session goes on."""

import asyncio
from collections.abc import Iterator
from unittest.mock import patch

import pytest

from bench.hostile import FRAME_BYTES, PATTERNS, PATTERNS_TOO_LARGE, Command, commands
from sowline.serving.authorization.entitlements import Rights
from tests.unit.materializer.core.test_applier import Core, reasons
from tests.unit.query_service.sessions import Json, Server

QUICK = (1000, FRAME_BYTES)
"""The sizes of commands that are answered at once: others are parsed for a second, and belong to `bench turns`."""

WRITES = ("publish", "delta", "sow_delete")

REFUSALS = {
    "bad condition",
    "bad filter",
    "bad key",
    "bad regex topic",
    "bad request",
    "invalid ack type",
    "invalid bookmark",
    "invalid grouping",
    "invalid options",
    "invalid order by",
    "invalid projection",
    "invalid subid",
    "invalid topic",
    "no documents",
    "projection clause too large",
    "too many keys",
}
MESSAGE_CHARS_MAX = 2000


def quick_commands() -> Iterator[tuple[str, Command]]:
    """The commands that take no long parsing; what writes would need Kafka."""
    for name, command in commands():
        _, comma, size = name.rpartition(", ")
        if command["command"] not in WRITES and (not size.isdigit() or not comma or int(size) in QUICK):
            yield name, command


def _is_refusal(message: Json) -> bool:
    return message["reason"] in REFUSALS and len(message["message"]) <= MESSAGE_CHARS_MAX


async def answered(server: Server, command: Command, rights: Rights | None = None) -> list[Json]:
    """What a client is sent that asks for nothing else."""
    client = server.connect() if rights is None else server.connect(rights)
    client.ask(**command)
    messages = await client.read()
    client.session.close()
    return messages


def test_every_command_is_answered_for_what_it_is() -> None:
    """It is taken, or refused with a reason of its part and a sentence of some length; nothing is unforeseen."""

    async def ask_all() -> None:
        server = Server().loaded()
        server.put({"id": 1, "text": "ab" * 1000})
        odd = [
            (name, message["reason"], len(message.get("message", "")))
            for name, command in quick_commands()
            for message in await answered(server, command)
            if "reason" in message and not _is_refusal(message)
        ]
        assert odd == []
        assert [one["command"] for one in await answered(server, {"command": "heartbeat"})] == ["heartbeat"]

    asyncio.run(ask_all())


@pytest.mark.parametrize("command", ["sow", "subscribe", "sow_delete"])
def test_rights_come_before_patterns(command: str) -> None:
    """Of who may do nothing no pattern is compiled, neither of topics nor of a filter."""

    async def ask_all() -> None:
        server = Server().loaded()
        for pattern in PATTERNS.values():
            of_topic = {"command": command, "topic": f"^{pattern}", "filter": "1=1"}
            of_filter = {"command": command, "filter": f"/text LIKE '{pattern}'"}
            for asked in (of_topic, of_filter):
                (message,) = await answered(server, asked, Rights())
                too_long = len(asked.get("topic", "")) > 4096
                assert message["reason"] == ("bad regex topic" if too_long else "not entitled")

    with patch("sowline.language.filter.regex.re2.compile", side_effect=AssertionError("compiled")):
        asyncio.run(ask_all())


@pytest.mark.parametrize("name", PATTERNS_TOO_LARGE)
def test_a_delete_with_a_pattern_that_is_too_large(name: str) -> None:
    """The materializer makes a dead letter of it, and compiles nothing."""
    core = Core()
    core.write({"id": 1})
    with patch("sowline.language.filter.regex.re2.compile", side_effect=AssertionError("compiled")):
        step = core.write(None, "sow_delete", filter=f"/text LIKE '{PATTERNS_TOO_LARGE[name]}'")
    assert (reasons(step), core.body("1")) == (["bad filter"], {"id": 1})
