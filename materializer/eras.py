"""Foreign events that are newer than an owner's state, and the base of an era.

Whoever stalls, and wakes up as an owner no more, finds such events: what it holds is not the newest, so it can put
nothing right. It is to open the partition again, and finds where that stands.

An owner of before may also write what it still had when an era begins. A follower takes that in order, as long as it
stands in the old era: up to the new era's first event in the changes partition, and nothing after it. So the base of
an era is what the changes say up to that event. An owner whose state is another one must not go on: it opens the
partition once more, and finds by the era's first event that it is to load the changes.
"""

from collections.abc import Iterable

from sowline.change import Change, Event
from sowline.position import Position


class Overtaken(Exception):
    """Followers were told of more than an owner's state holds: open the partition again."""


def check_owner(found: Iterable[Event], position: Position) -> None:
    """Raise `Overtaken` if an event is newer than an owner's own: somebody else is further by now."""
    for event in found:
        if event.position > position:
            raise Overtaken(f"expected the owner of a partition at {position}, found {event.position}")


def check_base(found: Iterable[Event], base: Position) -> None:
    """Raise `Overtaken` if an event before the first of a new era says more than its base, which ends at `base`."""
    for event in found:
        if event.position.era > base.era:
            return
        if isinstance(event, Change) and event.position > base:
            raise Overtaken(f"expected an era's base up to {base}, found {event.position}")
