"""Fencing: events of other owners that are newer than an owner's state, and the base of an era.

A worker that stalls, and is no owner any more when it wakes up, finds such events. Its state is not the newest, so it
can repair nothing: it must open the partition again to learn the current state.

A previous owner may also write pending events when an era begins. Followers take that, in order, while they are in
the old era: up to the new era's first event in the changes partition, and nothing after it. So the base of an era is
what the changes hold up to that event. An owner with another state must not continue. It opens the partition again,
and the era's first event makes it load the changes.
"""

from collections.abc import Iterable

from sowline.model.position import Position
from sowline.protocol.change import Change, Event


class Fenced(Exception):
    """Followers received more than an owner's state holds: open the partition again."""


def check_owner(found: Iterable[Event], position: Position) -> None:
    """Raise `Fenced` if an event is newer than an owner's own: another owner is further by now."""
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
