"""One message of a fanout topic: Kafka key = SOW key, value = body or delta, header `sow` = the other fields."""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Self

import orjson

from sowline.changes.change import Change
from sowline.commands.command import Headers
from sowline.commands.traceparent import TRACEPARENT
from sowline.config.topic_definition import TopicDefinition
from sowline.model.bookmark import format_position
from sowline.model.merge import merge, take_out
from sowline.model.position import Position
from sowline.subscriptions.engine.delivery import Payload
from sowline.subscriptions.engine.subscription import OOF
from sowline.wire.server_message import iso_time

FIELDS: Final = "sow.fields"
"""The header with the paths of the fields that a delta changes, as in a `delta_publish`."""


def fanout_headers(
    definition: TopicDefinition,
    partition: int,
    change: Change,
    payload: Payload,
    intrinsics: bytes | None = None,
    traceparent: str | None = None,
    fields: Sequence[str] = (),
) -> Headers:
    """Return the headers of the message of a change; `intrinsics` are those of a document as JSON, if requested.

    `fields` are the paths of the fields that a delta changes, if its value does not show them.
    `bookmark` is the position of the change, `after` that of the change before it. A message is a repeat if its
    bookmark is not newer than the last one. A change before the log has no position and no time.
    """
    about: dict[str, Any] = {
        "command": payload.command,
        "topic": definition.name,
        "sow_key": payload.sow_key.decode(),
    }
    if change.position.offset >= 0:
        about["bookmark"] = format_position(definition.log, partition, change.position)
        about["after"] = format_position(definition.log, partition, change.after)
        about["timestamp"] = iso_time(change.time)
    if payload.reason is not None:
        about["reason"] = payload.reason
    if payload.correlation is not None:
        about["correlation_id"] = payload.correlation
    # A delta that removes nothing has `()`; None is a whole record.
    if payload.removed is not None:
        about["delta"] = True
    if payload.removed:
        about["removed"] = payload.removed
    if intrinsics is not None:
        about["intrinsics"] = orjson.Fragment(intrinsics)
    headers: Headers = [("sow", orjson.dumps(about))]
    if fields:
        headers.append((FIELDS, ",".join(fields).encode()))
    if traceparent is not None:
        headers.append((TRACEPARENT, traceparent.encode()))
    return headers


class OutputMessage(NamedTuple):
    """The parts of a fanout's message that determine what a reader holds after it.

    `command` is `sow`, `publish` or `oof`. The value is a body; in a delta, it has the key fields and the changed
    fields, and `removed` has the paths of removed fields. `position` is that of the bookmark; a message without one
    is never a repeat. `fields` are the paths in the header `sow.fields`.
    """

    command: str
    value: bytes
    position: Position | None
    delta: bool = False
    removed: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()

    @classmethod
    def read(cls, value: bytes | None, headers: Headers) -> Self:
        """Read a message of a fanout topic."""
        contents = dict(headers)
        about = orjson.loads(contents.get("sow") or b"{}")
        bookmark = about.get("bookmark")
        fields = contents.get(FIELDS)
        return cls(
            about.get("command", ""),
            value or b"",
            None if bookmark is None else Position.parse(bookmark.rpartition("@")[2]),
            about.get("delta", False),
            tuple(about.get("removed", ())),
            () if fields is None else tuple(fields.decode().split(",")),
        )


class ReaderState:
    """The records, by SOW key, that a reader holds after it has read a partition of a fanout topic."""

    def __init__(self, merged: Callable[[bytes, bytes], bytes] = merge) -> None:
        """Hold nothing yet; `merged` lays a delta over a record, by the rules of the message type."""
        self._merged = merged
        self.bodies: dict[bytes, bytes] = {}
        self.position: Position | None = None
        """The newest position of a message; None if no message has one."""

    def take(self, key: bytes, message: OutputMessage) -> None:
        """Apply the next message; a repeat changes nothing."""
        if message.position is not None:
            if self.position is not None and message.position <= self.position:
                return
            self.position = message.position
        if message.command == OOF:
            self.bodies.pop(key, None)
        # A delta without its record is all that a reader has
        # (test_a_delta_of_a_record_that_is_not_held_is_taken_as_it_is).
        elif message.delta and key in self.bodies:
            self.bodies[key] = take_out(self._merged(self.bodies[key], message.value), message.removed)
        else:
            self.bodies[key] = message.value
