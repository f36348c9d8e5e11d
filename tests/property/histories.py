"""Random histories of a changes partition: eras, stalled owners, refills of a lost topic, and compaction."""

import random
from zlib import crc32

from sowline.changes.change import AGAIN, Change
from sowline.changes.event import Event
from sowline.changes.progress import UNFILLED, Progress
from sowline.model.position import Position

TOPIC_ID = "this"
"""The id of the topic that is read; progress events may name another."""

History = list[tuple[int, Event]]
"""Events with their offsets."""


def random_position(chance: random.Random) -> Position:
    """Return a position of one of a few eras and log records."""
    return Position(chance.choice((0, 0, 0, 1, 1, 2)), chance.randint(-1, 9), chance.choice((0, 0, 0, 1)))


def random_event(chance: random.Random, held: Position) -> Event:
    """Return an event that leads on from a position, or one of whatever was written by whomever."""
    position = random_position(chance)
    if chance.random() < 0.5:
        position = Position(held.era, held.offset + chance.randint(0, 2), chance.choice((0, 1)))
    after = held if chance.random() < 0.6 else random_position(chance)
    if chance.random() < 0.3:
        changes_id = chance.choice(
            ("", UNFILLED, TOPIC_ID, TOPIC_ID, f"{TOPIC_ID}@4", "another", "another@4")
        )
        is_catching_up = chance.random() < 0.2
        return Progress(
            position,
            after,
            0,
            {},
            "digest",
            "log",
            0,
            {},
            changes_id=changes_id,
            is_catching_up=is_catching_up,
        )
    key, is_again = chance.choice("abc"), chance.random() < 0.3
    emitted_in = position.era + chance.randint(1, 2) if is_again and chance.random() < 0.4 else None
    is_gone = crc32(f"{key}{position}".encode()) % 4 == 0
    body = None if is_gone else b'{"id":"%s","n":"%s"}' % (key.encode(), str(position).encode())
    op = AGAIN if is_again else "publish"
    return Change(key.encode(), body, None, position, after, op, 7, emitted_in=emitted_in)


def random_history(seed: int) -> History:
    """Return events in the order of their offsets, which have holes where compaction came by."""
    chance = random.Random(seed)
    held, offset = Position(0, -1), chance.choice((0, 0, 0, 3))
    has_holes, history = chance.random() < 0.5, History()
    for _ in range(chance.randint(0, 14)):
        event = random_event(chance, held)
        held = max(held, event.position)
        history.append((offset, event))
        offset += chance.choice((1, 1, 1, 2)) if has_holes else 1
    return history
