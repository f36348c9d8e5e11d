"""What a change means to each of many subscriptions, without asking each."""

from collections.abc import Iterable
from itertools import count
from operator import itemgetter
from typing import Generic

from fanout.matching.entry import Entry, T
from fanout.matching.index import SubscriptionIndex
from fanout.subscription import Delivery, Sighting, Subscription, in_focus, out_of_focus
from sowline.filter import UNKNOWN


class LiveSubscriptions(Generic[T]):
    """Items, each with a subscription; a change's deliveries are those of `Subscription.on_change` of all.

    Those that want no word of records out of focus are kept apart: of them only the new record is asked.
    """

    def __init__(self) -> None:
        numbers = count()
        self._plain: SubscriptionIndex[T] = SubscriptionIndex(numbers)
        self._with_oof: SubscriptionIndex[T] = SubscriptionIndex(numbers)
        self._home: dict[T, SubscriptionIndex[T]] = {}

    def __len__(self) -> int:
        return len(self._home)

    def add(self, item: T, subscription: Subscription) -> None:
        """Put an item in; raises ValueError if it is in."""
        if item in self._home:
            raise ValueError(f"expected an item that has no subscription yet, got {item!r}; remove it first")
        home = self._with_oof if subscription.oof else self._plain
        home.add(item, subscription.filter)
        self._home[item] = home

    def remove(self, item: T) -> None:
        """Take an item out, if it is in."""
        home = self._home.pop(item, None)
        if home is not None:
            home.remove(item)

    def on_change(self, seen: Sighting) -> list[tuple[T, Delivery]]:
        """The items that the change means something to, in the order of adding; equal deliveries are one."""
        staying: list[Entry[T]] = []
        found: list[tuple[int, T, Delivery]] = []
        if seen.now is not None:
            about = seen.about_now if self._plain.needs_about or self._with_oof.needs_about else UNKNOWN
            staying = self._with_oof.true_of(seen.now, about)
            found = _addressed(self._plain.true_of(seen.now, about) + staying, in_focus(seen.change))
        if len(self._with_oof) and seen.before is not None:
            about = seen.about_before if self._with_oof.needs_about else UNKNOWN
            leaving = set(self._with_oof.true_of(seen.before, about)).difference(staying)
            if leaving:
                found += _addressed(leaving, out_of_focus(seen.change))
        found.sort(key=itemgetter(0))
        return [(item, delivery) for _, item, delivery in found]


def _addressed(entries: Iterable[Entry[T]], delivery: Delivery) -> list[tuple[int, T, Delivery]]:
    return [(number, item, delivery) for entry in entries for item, number in entry.items.items()]
