"""The live subscriptions of a topic; the native core makes the messages of plain ones. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from types import ModuleType
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import orjson

from sowline.changes.change import Change
from sowline.config.topic_definition import TopicDefinition
from sowline.language.filter import ALL, Filter
from sowline.model.path import Path
from sowline.model.select import Flat
from sowline.native import raise_unless_panic
from sowline.subscriptions.engine.deliver import MessageTerms
from sowline.subscriptions.engine.matching import LiveSubscriptions
from sowline.subscriptions.engine.matching.terms import terms_of
from sowline.subscriptions.engine.subscription import ChangeView, Delivery, Subscription


class Planned(Protocol):
    """A live subscription. Hashable; equal only to itself."""

    engine: Subscription
    terms: MessageTerms

    @property
    def is_plain(self) -> bool:
        """Whether it gets each message at once, as `deliver` makes it."""
        ...

    @property
    def is_restricted(self) -> bool:
        """Whether its user may see only some of the records."""
        ...


P = TypeVar("P", bound=Planned)

Part = tuple[Any, list[bytes], list[tuple[str, ...]]]
"""A connection, the messages that it is sent, and the subscriptions that each is for."""


class Asked(NamedTuple):
    """The request of a subscription, in the words of the native core."""

    oof: bool
    delta: bool
    no_redundant: bool
    is_restricted: bool
    no_empties: bool
    sends_deltas: bool
    sow_key: bool
    timestamp: bool
    shares: bool
    select: Flat | None


Steps = list[str]

Demands = tuple[list[tuple[Steps, list[Any]]], list[tuple[Steps, float, float]], Filter | None]
"""A filter's equalities, each a path and keys; its ranges, each a path and two numbers; itself if it demands more."""


@dataclass(slots=True)
class _Connection(Generic[P]):
    """The subscriptions of one connection, and those among them that the native core can't serve."""

    items: dict[P, None] = field(default_factory=dict)
    odd: set[P] = field(default_factory=set)


class DeliveryPlan(Generic[P]):
    """The live subscriptions of a topic.

    The native core has all plain subscriptions of a connection or none, because they share messages: it has them
    while each of them asks only for what it knows (`asked_of`). It makes no messages of some changes. Then Python
    does.
    """

    def __init__(self, topic: TopicDefinition, native: ModuleType | None = None) -> None:
        """Plan nothing yet. `native` is the module of the native core, if that is to be used."""
        self._topic = topic
        self._native: Any = None
        if native is not None:
            keys = [list(names) for names in topic.key_fields]
            name, log = orjson.dumps(topic.name), topic.log.encode()
            self._native = native.DeliveryPlan(name, log, keys, topic.is_conflated)
        self._numbers = count()
        self._number_of: dict[P, int] = {}
        self._connections: dict[Any, _Connection[P]] = {}
        self._by_native: LiveSubscriptions[P] = LiveSubscriptions()
        self._by_python: LiveSubscriptions[P] = LiveSubscriptions()

    def __len__(self) -> int:
        return len(self._number_of)

    @property
    def has_native(self) -> bool:
        """Whether the native core has some of the subscriptions."""
        return self._native is not None and len(self._by_native) > 0

    @property
    def has_others(self) -> bool:
        """Whether it does not have all of them."""
        return len(self._by_python) > 0

    def add(self, item: P) -> None:
        """Add a subscription; raise ValueError if it was added before."""
        if item in self._number_of:
            raise ValueError(
                f"expected a subscription that is not in the plan, got {item!r}; remove it first"
            )
        number = self._number_of[item] = next(self._numbers)
        # It shares no messages, so the other subscriptions of its connection may stay where they are.
        if not item.is_plain:
            self._by_python.add(item, item.engine, number)
            return
        name = item.terms.connection
        connection = self._connections.setdefault(name, _Connection())
        was_odd = bool(connection.odd)
        asked = self._asked(item)
        if asked is None or (not was_odd and not self._take_natively(item, asked)):
            connection.odd.add(item)
        if connection.odd and not was_odd:
            # The others share messages with this one (test_the_subscriptions_of_a_connection_are_of_one_core).
            self._leave_to_python(connection)
        connection.items[item] = None
        if connection.odd:
            self._by_python.add(item, item.engine, number)
        assert (item in self._by_native) is not (item in self._by_python), "one core has it"

    def remove(self, item: P) -> None:
        """Remove a subscription, if it was added."""
        number = self._number_of.pop(item, None)
        if number is None:
            return
        if item in self._by_native:
            self._let_go(item, number)
        else:
            assert item in self._by_python, "one core has it"
            self._by_python.remove(item)
        if not item.is_plain:
            return
        name = item.terms.connection
        connection = self._connections[name]
        del connection.items[item]
        if not connection.items:
            del self._connections[name]
        if item not in connection.odd:
            return
        connection.odd.remove(item)
        if not connection.odd:
            self._leave_to_native(connection)

    def deliver(
        self, partition: int, changes: list[Change], start: int, seen: Callable[[int], ChangeView]
    ) -> tuple[int, Sequence[Part], Sequence[P]]:
        """Make the messages of changes from `start` on to the subscriptions that the native core has.

        Return the index of the first change of which only Python can make them, or the end; the messages of the
        changes before it; and the subscriptions that get one. `seen` returns the view of the change with an index, to
        evaluate the filters that the native core does not know.
        """

        def hold(at: int, filters: list[Filter], is_now: bool) -> list[bool]:
            return seen(at).verdicts(filters, is_now=is_now)

        try:
            made: tuple[int, Sequence[Part], Sequence[P]] = self._native.deliver(
                partition, changes, start, hold
            )
        except BaseException as error:
            # Only the native core is lost. Python makes the messages from `start` on
            # (test_a_native_core_that_panics_is_used_no_more).
            raise_unless_panic(error, f"{self._topic.name} [{partition}]")
            self._native = None
            return start, (), ()
        assert start <= made[0] <= len(changes), "the native core reads on, and no further than the changes"
        return made

    def on_change(self, seen: ChangeView) -> list[tuple[P, Delivery]]:
        """Return the deliveries of a change to all subscriptions."""
        return self.left_by_native(seen) + self.to_others(seen)

    def left_by_native(self, seen: ChangeView) -> list[tuple[P, Delivery]]:
        """Return the deliveries to subscriptions that the native core has, of a change that it does not know."""
        return self._by_native.on_change(seen)

    def to_others(self, seen: ChangeView) -> list[tuple[P, Delivery]]:
        """Return the deliveries to subscriptions that the native core does not have."""
        return self._by_python.on_change(seen)

    def _asked(self, item: P) -> tuple[Asked, tuple[str, Demands]] | None:
        """Return the request of a subscription; None if the native core does not know all of it."""
        if self._native is None:
            return None
        asked, filter = asked_of(item), item.engine.filter
        return None if asked is None else (asked, (filter.text, demands_of(filter)))

    def _take_natively(self, item: P, asked: tuple[Asked, tuple[str, Demands]]) -> bool:
        """Let the native core have a subscription; return whether it does."""
        number, terms = self._number_of[item], item.terms
        sids = terms.whole.sids
        to = terms.connection, orjson.dumps(sids[0]), sids
        if self._native.add(number, item, to, *asked):
            self._by_native.add(item, item.engine, number)
        return item in self._by_native

    def _let_go(self, item: P, number: int) -> None:
        assert item in self._by_native, "only what the native core has is taken from it"
        self._by_native.remove(item)
        if self._native is not None:
            self._native.remove(number)

    def _leave_to_python(self, connection: _Connection[P]) -> None:
        """Take all subscriptions of a connection from the native core."""
        for item in connection.items:
            if item in self._by_native:
                number = self._number_of[item]
                self._let_go(item, number)
                self._by_python.add(item, item.engine, number)

    def _leave_to_native(self, connection: _Connection[P]) -> None:
        """Let the native core have all subscriptions of a connection, if it can."""
        for item in connection.items:
            asked = self._asked(item)
            if asked is None or not self._take_natively(item, asked):
                connection.odd.add(item)
                self._leave_to_python(connection)
                return
            assert item in self._by_python, "what the native core gets was Python's"
            self._by_python.remove(item)


def asked_of(item: Planned) -> Asked | None:
    """Return the request of a plain subscription; None if the native core does not know all of it."""
    form, engine = item.terms.as_deltas.form, item.engine
    flat = None if form.select is None else form.select.flat
    if form.intrinsics or (form.select is not None and flat is None):
        return None
    return Asked(
        engine.oof,
        engine.delta,
        engine.no_redundant,
        item.is_restricted,
        item.terms.no_empties,
        form.delta,
        form.sow_key,
        form.timestamp,
        item.terms.shares,
        flat,
    )


def demands_of(filter: Filter) -> Demands:
    """Return a filter's demands on single fields, and the filter itself if it demands anything else."""
    if filter == ALL:
        return [], [], None
    terms = terms_of(filter)
    equalities = [(names(one.path), list(one.keys)) for one in terms.equalities if has_names(one.path)]
    ranges = [(names(path), *bounds) for path, bounds in terms.ranges.items() if has_names(path)]
    is_all = terms.whole and len(equalities) == len(terms.equalities) and len(ranges) == len(terms.ranges)
    return equalities, ranges, None if is_all and not filter.needs_about else filter


def has_names(path: Path) -> bool:
    """Whether a path has only names, and no index of an array."""
    return not any(isinstance(step, int) for step in path.steps)


def names(path: Path) -> list[str]:
    """Return the steps of a path that has only names."""
    return [step for step in path.steps if isinstance(step, str)]
