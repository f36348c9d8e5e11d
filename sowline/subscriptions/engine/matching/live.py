"""Computes the deliveries of a change to many subscriptions, without evaluating each filter."""

from collections.abc import Collection, Iterable
from itertools import count
from operator import itemgetter
from typing import Generic

from sowline.language.filter import UNKNOWN
from sowline.subscriptions.engine.matching.entry import Entry, T
from sowline.subscriptions.engine.matching.index import SubscriptionIndex
from sowline.subscriptions.engine.subscription import (
    ChangeView,
    Delivery,
    Subscription,
    entered,
    left,
    updated,
)


class LiveSubscriptions(Generic[T]):
    """Items, each with a subscription. The deliveries equal those of `Subscription.on_change` for each of them.

    Subscriptions that do not look back are kept apart. For them only the new record is matched, unless a write is
    redundant and some subscriptions leave out such writes.
    """

    def __init__(self) -> None:
        self._numbers = count()
        self._plain: SubscriptionIndex[T] = SubscriptionIndex()
        self._with_delta: SubscriptionIndex[T] = SubscriptionIndex()
        self._with_oof: SubscriptionIndex[T] = SubscriptionIndex()
        self._home: dict[T, SubscriptionIndex[T]] = {}
        self._no_redundant: set[T] = set()

    def __len__(self) -> int:
        return len(self._home)

    def __contains__(self, item: T) -> bool:
        return item in self._home

    def add(self, item: T, subscription: Subscription, number: int | None = None) -> None:
        """Add an item; raise ValueError if it was added before. The order is that of adding, or of the numbers."""
        if item in self._home:
            raise ValueError(f"expected an item that has no subscription yet, got {item!r}; remove it first")
        delta_only = self._with_delta if subscription.delta else self._plain
        home = self._with_oof if subscription.oof else delta_only
        home.add(item, subscription.filter, next(self._numbers) if number is None else number)
        self._home[item] = home
        if subscription.no_redundant:
            self._no_redundant.add(item)
        assert len(self._home) == self._indexed, "an item is in one index"

    def remove(self, item: T) -> None:
        """Remove an item, if it was added."""
        home = self._home.pop(item, None)
        if home is not None:
            home.remove(item)
            self._no_redundant.discard(item)
        assert len(self._home) == self._indexed, "an item is in one index"

    @property
    def _indexed(self) -> int:
        return len(self._plain) + len(self._with_delta) + len(self._with_oof)

    def on_change(self, seen: ChangeView) -> list[tuple[T, Delivery]]:
        """Return the deliveries of a change, in the order of the items; equal deliveries are one object."""
        if seen.change.shows_nothing_new:
            return []
        # A redundant write has the same body, but a filter on metadata may match only since this write: only
        # subscribers that hold the record can do without the message
        # (test_a_redundant_write_that_moves_a_document_is_sent).
        silent = self._no_redundant if self._no_redundant and seen.change.is_redundant else frozenset[T]()
        found = self._plainly(seen, silent) if len(self._plain) and seen.now is not None else []
        for home in (self._with_delta, self._with_oof):
            if not len(home):
                continue
            now, before = _matching_now(home, seen), _matched_before(home, seen)
            staying = before.intersection(now)
            if staying:
                found += _addressed(staying, updated(seen.change), silent)
            if len(staying) < len(now):
                found += _addressed(set(now).difference(staying), entered(seen.change))
            if home is self._with_oof and len(staying) < len(before):
                found += _addressed(before.difference(staying), left(seen.change))
        # Indexes find items in no order (test_a_change_means_to_all_what_it_means_to_each).
        if len(found) > 1:
            found.sort(key=itemgetter(0))
        return [(item, delivery) for _, item, delivery in found]

    def _plainly(self, seen: ChangeView, silent: Collection[T]) -> list[tuple[int, T, Delivery]]:
        """Return the deliveries to subscriptions that do not look back.

        `silent` ones get none for a record that stays in focus.
        """
        now = _matching_now(self._plain, seen)
        if not now:
            return []
        delivery = entered(seen.change)
        if not silent:
            return _addressed(now, delivery)
        staying = _matched_before(self._plain, seen).intersection(now)
        entering = set(now).difference(staying)
        return _addressed(staying, delivery, silent) + _addressed(entering, delivery)


def _matching_now(home: SubscriptionIndex[T], seen: ChangeView) -> list[Entry[T]]:
    if seen.now is None:
        return []
    return home.true_of(seen.now, seen.about_now if home.needs_about else UNKNOWN)


def _matched_before(home: SubscriptionIndex[T], seen: ChangeView) -> set[Entry[T]]:
    if seen.before is None:
        return set()
    return set(home.true_of(seen.before, seen.about_before if home.needs_about else UNKNOWN))


def _addressed(
    entries: Iterable[Entry[T]], delivery: Delivery, without: Collection[T] = ()
) -> list[tuple[int, T, Delivery]]:
    found = [(number, item, delivery) for entry in entries for item, number in entry.items.items()]
    return [one for one in found if one[1] not in without] if without else found
