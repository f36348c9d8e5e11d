"""What pages show of the WebSocket, played against a live service: a connection for each section of a page."""

import contextlib
import json
from typing import Any, Self

from tests.docs.compare import same
from tests.docs.pages import Block
from tests.integration.wire import Wire, wire

_OF_SERVER = {"sids", "records", "writes", "access_paths", "status"}
"""Fields that only messages of the service have, beside what begins a group."""


class Transcript:
    """Sends what a client says on a page, and compares what comes with what the service says there."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._section = ""
        self._wire: Wire | None = None
        self._connection = contextlib.ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if error[0] is None:
            self._end()
        self._connection.close()

    def play(self, block: Block, text: str) -> None:
        """Play a block, of whose section the ones before it were played."""
        client = self._connected(block.section)
        for message, raw in messages_in(text):
            if not is_of_server(message):
                client.send_text(raw)
            else:
                came = client.receive()
                assert same(came, message), (
                    f"{block.location}: came\n{json.dumps(came)}\nnot\n{json.dumps(message)}"
                )

    def _connected(self, section: str) -> Wire:
        if self._wire is None or section != self._section:
            self._end()
            self._wire, self._section = self._connection.enter_context(wire(self._url)), section
        return self._wire

    def _end(self) -> None:
        """End a section: nothing that was asked in it was refused without the page saying so."""
        if self._wire is not None:
            _no_failure(self._wire.heartbeat(), self._section)
        self._connection.close()
        self._wire = None


def is_of_server(message: dict[str, Any]) -> bool:
    """Whether it is the service that says so."""
    return message["command"] in ("group_begin", "ack") or bool(_OF_SERVER & message.keys())


def messages_in(text: str) -> list[tuple[dict[str, Any], str]]:
    """Return the messages of a block, each with its text."""
    found, decoder = [], json.JSONDecoder()
    while text := text.lstrip():
        message, end = decoder.raw_decode(text)
        found.append((message, text[:end]))
        text = text[end:]
    return found


def _no_failure(messages: list[dict[str, Any]], location: str) -> None:
    failures = [message for message in messages if message.get("status") == "failure"]
    assert not failures, f"{location}: {failures}"
