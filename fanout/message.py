"""One message of a fanout topic: Kafka key = SOW key, value = body or delta, header `sow` = the other fields."""

from typing import Any, NamedTuple, Self

import orjson

from fanout.subscription import OOF
from fanout.telling import Told
from sowline.bookmark import format_position
from sowline.change import Change
from sowline.command import Headers
from sowline.merge import merge, take_out
from sowline.position import Position
from sowline.topics import TopicDefinition
from sowline.traceparent import TRACEPARENT
from sowline.wire import iso_time


def fanout_headers(
    definition: TopicDefinition,
    partition: int,
    change: Change,
    told: Told,
    intrinsics: bytes | None = None,
    traceparent: str | None = None,
) -> Headers:
    """Return the headers of the message that a change leads to; `intrinsics` are a document's, as JSON, if asked for.

    `bookmark` is the change's own place and `after` that of the change before it: a message whose bookmark
    is not newer than the last one is a repeat. A change that is before the log has no place and no time.
    """
    about: dict[str, Any] = {
        "command": told.command,
        "topic": definition.name,
        "sow_key": told.sow_key.decode(),
    }
    if change.position.offset >= 0:
        about["bookmark"] = format_position(definition.log, partition, change.position)
        about["after"] = format_position(definition.log, partition, change.after)
        about["timestamp"] = iso_time(change.time)
    if told.reason is not None:
        about["reason"] = told.reason
    if told.removed is not None:
        about["delta"] = True
    if told.removed:
        about["removed"] = told.removed
    if intrinsics is not None:
        about["intrinsics"] = orjson.Fragment(intrinsics)
    headers: Headers = [("sow", orjson.dumps(about))]
    if traceparent is not None:
        headers.append((TRACEPARENT, traceparent.encode()))
    return headers


class Written(NamedTuple):
    """A message that a fanout topic holds, as far as it says what a reader holds after it.

    `command` is `sow`, `publish` or `oof`. The value is a body, or, of a delta, the key fields and what
    changed; `removed` are the paths of the fields that are gone. `place` is the position of the bookmark; what
    has none is no repeat.
    """

    command: str
    value: bytes
    place: Position | None
    delta: bool = False
    removed: tuple[str, ...] = ()

    @classmethod
    def read(cls, value: bytes | None, headers: Headers) -> Self:
        """Read a message of a fanout topic."""
        told = orjson.loads(next((content for name, content in headers if name == "sow"), None) or b"{}")
        bookmark = told.get("bookmark")
        return cls(
            told.get("command", ""),
            value or b"",
            None if bookmark is None else Position.parse(bookmark.rpartition("@")[2]),
            told.get("delta", False),
            tuple(told.get("removed", ())),
        )


class Holding:
    """The records, by SOW key, that a reader holds who has read a partition of a fanout topic in order."""

    def __init__(self) -> None:
        self.bodies: dict[bytes, bytes] = {}
        self._place: Position | None = None

    def take(self, key: bytes, message: Written) -> None:
        """Apply the next message; a repeat changes nothing."""
        if message.place is not None:
            if self._place is not None and message.place <= self._place:
                return
            self._place = message.place
        if message.command == OOF:
            self.bodies.pop(key, None)
        elif message.delta and key in self.bodies:
            self.bodies[key] = take_out(merge(self.bodies[key], message.value), message.removed)
        else:
            self.bodies[key] = message.value
