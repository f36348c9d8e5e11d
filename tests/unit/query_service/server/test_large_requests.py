"""Large requests: texts that take long to parse are parsed in the worker thread, and keys are short."""

import asyncio
import threading
from typing import Any
from unittest.mock import patch

import pytest
from lark import Lark

from bench.hostile import commands
from sowline.serving.worker_thread import FILTER_CHAR_BYTES, THREAD_BYTES_MIN
from sowline.serving.writes.command_writer import CommandWriter
from tests.unit.query_service.sessions import Json, Server

pytestmark = pytest.mark.slow

CHARS_MAX = THREAD_BYTES_MIN // FILTER_CHAR_BYTES
"""The longest text that the event loop parses itself."""

LARGE = [(name, command) for name, command in commands() if name.endswith(", 61440")]


async def answers(command: Json) -> tuple[list[Json], list[int]]:
    """Return the answers to a command, and the lengths of the texts that the event loop has parsed for it."""
    client, here, parsed = Server().loaded().connect(), threading.get_ident(), []
    parse = Lark.parse_interactive

    def watched(parser: Lark, text: str) -> Any:
        if threading.get_ident() == here:
            parsed.append(len(text))
        return parse(parser, text)

    # A producer without a Kafka would end after the loop of this test, and its error be that of another one.
    written = asyncio.get_running_loop().create_future()
    with (
        patch.object(Lark, "parse_interactive", watched),
        patch.object(CommandWriter, "write", lambda writer, command: written),
    ):
        client.ask(**{"topic": "orders", **command})
        return await client.read(), parsed


@pytest.mark.parametrize(("name", "command"), LARGE, ids=[name for name, _ in LARGE])
async def test_long_texts_are_parsed_in_the_worker_thread(name: str, command: Json) -> None:
    """Each of these took the event loop up to half a second, in which no other client was answered."""
    _, parsed = await answers(command)
    assert [size for size in parsed if size > CHARS_MAX] == []


async def test_a_key_is_as_short_as_a_key_can_be() -> None:
    """A longer one names no record, and its hash alone would take half a second for 4 MiB."""
    (answer,), _ = await answers({"command": "timeline", "key": "a" * 5000})
    assert (answer["reason"], answer["message"]) == (
        "bad key",
        "expected a key of at most 4096 bytes, got 5000",
    )
