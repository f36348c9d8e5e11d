"""The subscription engine: one change → the message that one subscription gets. Pure."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import orjson

from sowline.change import DELETED, Change
from sowline.filter import Filter

PUBLISH = "publish"
OOF = "oof"
MATCH = "match"


class Sighting:
    """A change as all subscriptions look at it: both bodies are parsed at most once."""

    __slots__ = ("__dict__", "change")

    def __init__(self, change: Change) -> None:
        self.change = change

    @cached_property
    def before(self) -> dict[str, Any] | None:
        """The record before the change; None where there was none."""
        return None if self.change.previous is None else orjson.loads(self.change.previous)

    @cached_property
    def now(self) -> dict[str, Any] | None:
        """The record after the change; None where it is gone."""
        return None if self.change.body is None else orjson.loads(self.change.body)


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message for one subscription. The body of an `oof` is the new record, or the previous one if it is gone."""

    command: str
    body: bytes
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a subscriber asked for: records that match the filter, and with `oof` word of those that stop to."""

    filter: Filter
    oof: bool = False

    def on_change(self, seen: Sighting) -> Delivery | None:
        """Return what the change means to the subscriber; None where it means nothing."""
        matches = self.filter.matches
        if seen.now is not None and matches(seen.now):
            return in_focus(seen.change)
        if self.oof and seen.before is not None and matches(seen.before):
            return out_of_focus(seen.change)
        return None


def in_focus(change: Change) -> Delivery:
    """The message to those whose filter matches the new record."""
    assert change.body is not None
    return Delivery(PUBLISH, change.body)


def out_of_focus(change: Change) -> Delivery:
    """The message to those with `oof` whose filter matched the previous record only."""
    if change.body is not None:
        return Delivery(OOF, change.body, MATCH)
    assert change.previous is not None
    return Delivery(OOF, change.previous, change.reason or DELETED)
