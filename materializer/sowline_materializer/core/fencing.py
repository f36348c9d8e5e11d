"""Fencing: an owner whose state is not the newest must stop and open its partition again.

A worker stalls, another worker becomes the owner and writes newer events, and the first worker wakes up. It still
writes what its Kafka client has queued. Followers drop these events, and the current owner repairs their keys. When
the stalled worker then finds events that are newer than its own state, it raises `Fenced` and repairs nothing.

A previous owner may also write queued events while an era begins. An era's first event in the changes partition, a
change or a progress event of that era, separates the two. Followers take older events before it and none after it. So
the base of the era is what the changes topic holds up to that event. An owner with another state raises `Fenced`.
When it opens the partition again, it finds that its state does not lead to that event, and loads the changes.
"""

from collections.abc import Iterable

from sowline.changes.change import Change
from sowline.changes.event import Event
from sowline.errors import StartAgain
from sowline.model.position import Position


class Fenced(StartAgain):
    """Followers received more than an owner's state holds: open the partition again."""


def check_owner(found: Iterable[Event], position: Position) -> None:
    """Raise `Fenced` if an event is newer than the owner's position: another owner is ahead."""
    for event in found:
        if event.position > position:
            raise Fenced(f"expected the owner of a partition at {position}, found {event.position}")


def check_base(found: Iterable[Event], base: Position) -> None:
    """Raise `Fenced` if an event before the first of a new era is newer than its base, which ends at `base`."""
    for event in found:
        # From the first event of a newer era on, followers ignore the old one: later events can't be in their base
        # (test_an_owner_of_before_writes_as_an_era_begins).
        if event.position.era > base.era:
            return
        # A follower has taken this change into its base, and this owner does not have it. If it began the era on its
        # own state, the two would differ permanently (test_followers_received_more).
        if isinstance(event, Change) and event.position > base:
            raise Fenced(f"expected an era's base up to {base}, found {event.position}")
