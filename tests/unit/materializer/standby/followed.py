"""Changes and progress events that copies follow."""

from typing import Any

from sowline.changes.change import Change
from sowline.changes.progress import Progress
from sowline.config.topic_definition import define_topic
from sowline.model.position import Position

DEFINITION = define_topic(name="orders", key="/id", repeat_window="50ms")


def change(
    offset: int,
    key: bytes = b"1",
    body: bytes | None = b'{"id":1}',
    *,
    after: Position | None = None,
    era: int = 0,
    **given: Any,
) -> Change:
    """Return a change."""
    position = Position(era, offset)
    before = after or Position(era, offset - 1)
    return Change(key, body, b'{"id":1}', position, before, given.pop("op", "publish"), 100 + offset, **given)


def progress(offset: int, era: int = 0, after: Position | None = None, **given: Any) -> Progress:
    """Return a progress event."""
    position = Position(era, offset)
    return Progress(
        position, after or Position(0, -1), 0, {}, DEFINITION.digest, "log", 100 + offset, {}
    )._replace(**given)
