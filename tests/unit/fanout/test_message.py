"""The messages of a fanout topic: their headers, and what a reader holds after them."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from sowline.changes.change import Change
from sowline.commands.command import Headers
from sowline.config.topic_definition import define_topic
from sowline.model.difference import difference
from sowline.model.position import Position, before_the_log
from sowline.subscriptions.engine.delivery import Payload
from sowline.subscriptions.engine.subscription import MATCH, OOF, PUBLISH
from sowline_fanout.message import OutputMessage, ReaderState, fanout_headers

ORDERS = define_topic(name="eu/orders", key="/id", partitions=2)
CHANGE = Change(b"7", b'{"id":1}', None, Position(0, 5), Position(0, 3, 2), "publish", 1_700_000_000_000)
POSITION_HEADERS = {
    "topic": "eu/orders",
    "sow_key": "7",
    "bookmark": "eu.orders:1@5",
    "after": "eu.orders:1@3.2",
    "timestamp": "2023-11-14T22:13:20.000000Z",
}


def about(headers: Headers) -> dict[str, Any]:
    """Return the fields of the one header that there is."""
    ((name, value),) = headers
    assert name == "sow"
    return dict(json.loads(value or b""))


@pytest.mark.parametrize(
    ("command", "reason", "removed", "fields"),
    [
        (PUBLISH, None, None, {"command": "publish"}),
        (OOF, MATCH, None, {"command": "oof", "reason": "match"}),
        (PUBLISH, None, (), {"command": "publish", "delta": True}),
        (
            PUBLISH,
            None,
            ("/a", "[/odd name]"),
            {"command": "publish", "delta": True, "removed": ["/a", "[/odd name]"]},
        ),
    ],
)
def test_headers(
    command: str, reason: str | None, removed: tuple[str, ...] | None, fields: dict[str, Any]
) -> None:
    """They name the record and its position, why it was removed, and whether the value is a delta."""
    message = Payload(b"7", command, b"{}", CHANGE.time, reason, removed)
    assert about(fanout_headers(ORDERS, 1, CHANGE, message)) == POSITION_HEADERS | fields


def test_the_correlation_goes_along() -> None:
    """As the correlation id of the message, and as the delivery has it, not the change."""
    payload = Payload(b"7", PUBLISH, b"{}", CHANGE.time, correlation="batch-7")
    assert about(fanout_headers(ORDERS, 1, CHANGE, payload))["correlation_id"] == "batch-7"
    change = replace(CHANGE, correlation="batch-7")
    assert "correlation_id" not in about(
        fanout_headers(ORDERS, 1, change, payload._replace(correlation=None))
    )


def test_intrinsics_go_along() -> None:
    """Where they are asked for."""
    payload = Payload(b"7", PUBLISH, b"{}", CHANGE.time)
    headers = fanout_headers(ORDERS, 1, CHANGE, payload, b'{"~version":3}')
    assert about(headers) == POSITION_HEADERS | {"command": "publish", "intrinsics": {"~version": 3}}


def test_a_message_without_a_position_has_none() -> None:
    """Of a record that went nobody knows when, there is no bookmark and no time."""
    gone = replace(CHANGE, body=None, position=before_the_log())
    headers = about(fanout_headers(ORDERS, 1, gone, Payload(b"7", OOF, b"{}", 0, "deleted")))
    assert headers == {"command": "oof", "topic": "eu/orders", "sow_key": "7", "reason": "deleted"}


def message(
    offset: int, command: str, body: bytes = b"", previous: bytes | None = None
) -> tuple[bytes, OutputMessage]:
    """Return a message as it is read back; with the body before it is a delta."""
    delta = None if previous is None else difference(previous, body, (("id",),))
    value, removed = (body, None) if delta is None else (delta.body, delta.removed)
    change = replace(CHANGE, position=Position(0, offset))
    payload = Payload(change.sow_key, command, value, change.time, None, removed)
    return payload.sow_key, OutputMessage.read(value, fanout_headers(ORDERS, 1, change, payload))


FIRST = b'{"id":1,"a":{"b":1,"c d":1.50,"e":1},"x":0}'
SECOND = b'{"id":1,"a":{"b":2,"e":1},"y":"\\u00e9"}'
THIRD = b'{"id":1,"a":3,"y":"\\u00e9"}'


def test_deltas_lead_to_the_record() -> None:
    """What changed is merged, what was removed is taken out, and everything else keeps its text."""
    holding = ReaderState()
    holding.take(*message(1, "sow", FIRST))
    holding.take(*message(2, PUBLISH, SECOND, FIRST))
    assert holding.bodies == {b"7": SECOND}
    holding.take(*message(3, PUBLISH, THIRD, SECOND))
    assert holding.bodies == {b"7": THIRD}


def test_repeats_change_nothing() -> None:
    """Whatever is written again, from whatever place on, the reader holds what it held."""
    life = [
        message(1, "sow", FIRST),
        message(2, PUBLISH, SECOND, FIRST),
        message(3, OOF, SECOND),
        message(4, PUBLISH, SECOND),
        message(5, PUBLISH, THIRD, SECOND),
    ]
    for again in range(len(life)):
        for end in range(again, len(life)):
            holding = ReaderState()
            for one in (*life, *life[again : end + 1]):
                holding.take(*one)
            assert holding.bodies == {b"7": THIRD}


def test_what_has_no_bookmark_is_no_repeat() -> None:
    """It is applied where it stands."""
    holding = ReaderState()
    holding.take(*message(9, "sow", FIRST))
    holding.take(b"7", OutputMessage.read(FIRST, [("sow", b'{"command":"oof"}')]))
    assert holding.bodies == {}
    holding.take(*message(8, "sow", FIRST))
    assert holding.bodies == {}


def test_a_delta_of_a_record_that_is_not_held_is_taken_as_it_is() -> None:
    """A topic that was cut off in front may begin with one."""
    holding = ReaderState()
    holding.take(*message(2, PUBLISH, SECOND, FIRST))
    assert json.loads(holding.bodies[b"7"]) == {"id": 1, "a": {"b": 2}, "y": "é"}
