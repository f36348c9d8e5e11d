"""The content of a page or of groups, merged from the windows of all nodes. Pure.

Each node keeps a window of the first records of its partitions, or the states of its groups, and sends each of their
changes. The first records of all partitions together are among those.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable

import orjson

from sowline.changes.change import DELETED
from sowline.language.expressions.order import Order, SortKey
from sowline.language.groups import MergedGroups
from sowline.subscriptions.engine.page import Page, SortedSet
from sowline.subscriptions.engine.shown import ShownRecord, no_longer_shown
from sowline.subscriptions.engine.subscription import MATCH, OOF, Delivery

GROUP_BYTES = 700
"""The memory of a group, without its state."""

READ_TIMES = 4
"""The memory of a group's parsed state, as a multiple of its text."""


class _AverageSize:
    """The average size of the bodies that nodes have sent."""

    def __init__(self) -> None:
        self._sum = self._count = 0

    def note(self, body: bytes) -> None:
        """Note one more body."""
        self._sum += len(body)
        self._count += 1
        assert self._sum > self._count, "a body is two characters at least"

    @property
    def of_body(self) -> int:
        """The average in bytes."""
        return self._sum // max(1, self._count)


class MergedWindow(ABC):
    """The merged windows of the nodes. `source` identifies the part of one node."""

    @abstractmethod
    def measure(self) -> int:
        """Return the estimated memory of the records and groups, in bytes."""

    @abstractmethod
    def put(self, source: Hashable, sow_key: bytes, body: bytes, relayed: bytes) -> None:
        """Take a record, or the state of a group, that a node shows now."""

    @abstractmethod
    def remove(self, source: Hashable, sow_key: bytes, gone: Delivery | None) -> None:
        """Drop a record or group that a node no longer shows; `gone` is its `oof`, if the client holds it."""

    @abstractmethod
    def shown(self) -> dict[bytes, ShownRecord]:
        """Return the records or groups shown to the client, by SOW key and in order."""

    @abstractmethod
    def shown_of(self, sow_keys: Iterable[bytes]) -> dict[bytes, ShownRecord] | None:
        """Return which of these are shown; None if their changes may have moved others in or out."""

    @abstractmethod
    def left(self, sow_key: bytes, body: bytes) -> Delivery | None:
        """Return the `oof` for a key that the client holds with this body and that is not shown; None if unknown."""

    def rank_of(self, sow_key: bytes) -> int | None:
        """Return the number of records or groups before one in the order of a page; None without an order."""
        return None

    @abstractmethod
    def forget_gone(self) -> None:
        """Forget why records are no longer shown by their nodes: the client holds none of them."""


class MergedPage(MergedWindow):
    """A page of records."""

    def __init__(self, order: Order, page: Page) -> None:
        self._order = order
        self._page = page
        self._set: SortedSet[ShownRecord] = SortedSet()
        self._gone: dict[bytes, Delivery] = {}
        """The `oof` of records that their nodes no longer show; a slow client may still hold them."""
        self._size = _AverageSize()

    def measure(self) -> int:
        """Return the estimated memory of the records, in bytes."""
        return self._set.nbytes + len(self._set) * self._size.of_body

    def put(self, source: Hashable, sow_key: bytes, body: bytes, relayed: bytes) -> None:
        """Take a record that a node shows now."""
        self._size.note(body)
        # It is shown again. If it later leaves without a reason, the earlier `oof` would be wrong.
        self._gone.pop(sow_key, None)
        self._set.put(_key_of(self._order, sow_key, body), ShownRecord.read(body, relayed))

    def remove(self, source: Hashable, sow_key: bytes, gone: Delivery | None) -> None:
        """Drop a record that a node no longer shows."""
        # Only for records that the client holds, so `_gone` is no larger than its page.
        if gone is not None:
            assert gone.command == OOF, "what is shown no more leaves"
            self._gone[sow_key] = gone
        self._set.remove(sow_key)

    def rank_of(self, sow_key: bytes) -> int | None:
        """Return the number of records before one, of all nodes together."""
        return self._set.rank_of(sow_key)

    def shown(self) -> dict[bytes, ShownRecord]:
        """Return the records of the page."""
        page = self._page
        return dict(self._set.between(page.skip, page.skip + page.top))

    def shown_of(self, sow_keys: Iterable[bytes]) -> None:
        """Return None: a record that enters or leaves moves others."""

    def left(self, sow_key: bytes, body: bytes) -> Delivery | None:
        """Return the `oof` for a record that is not on the page."""
        # The record is in a node's window, but beyond the page.
        if (shown := self._set.held(sow_key)) is not None:
            return Delivery(OOF, shown.body, MATCH, body, shown.known)
        return self._gone.get(sow_key)

    def forget_gone(self) -> None:
        """Forget why records are no longer shown by their nodes."""
        self._gone.clear()


class MergedGroupWindow(MergedWindow):
    """All groups."""

    def __init__(self, groups: MergedGroups) -> None:
        self._groups = groups
        self._size = _AverageSize()

    def measure(self) -> int:
        """Return the estimated memory of the groups and of their states at the nodes, in bytes."""
        return len(self._groups) * (GROUP_BYTES + READ_TIMES * self._size.of_body)

    def put(self, source: Hashable, sow_key: bytes, body: bytes, relayed: bytes) -> None:
        """Take the state of a group at a node; raise `too many groups`."""
        self._size.note(body)
        self._groups.put(source, body)

    def remove(self, source: Hashable, sow_key: bytes, gone: Delivery | None) -> None:
        """Drop the state of a group at a node that has no records of it any more."""
        self._groups.remove(source, sow_key)

    def shown(self) -> dict[bytes, ShownRecord]:
        """Return all groups."""
        return {key: ShownRecord(body, 0) for key, body in self._groups.records()}

    def shown_of(self, sow_keys: Iterable[bytes]) -> dict[bytes, ShownRecord] | None:
        """Return those of these groups that exist."""
        found = ((key, self._groups.body(key)) for key in sow_keys)
        return {key: ShownRecord(body, 0) for key, body in found if body is not None}

    def forget_gone(self) -> None:
        """Do nothing: why a group is not shown can always be found."""

    def left(self, sow_key: bytes, body: bytes) -> Delivery:
        """Return the `oof` for a group that does not exist any more."""
        return Delivery(OOF, body, DELETED, body)


class MergedGroupPage(MergedGroupWindow):
    """A page of the groups."""

    def __init__(self, groups: MergedGroups, order: Order, page: Page) -> None:
        super().__init__(groups)
        self._order = order
        self._page = page
        self._set: SortedSet[ShownRecord] = SortedSet()

    def put(self, source: Hashable, sow_key: bytes, body: bytes, relayed: bytes) -> None:
        """Take the state of a group at a node; raise `too many groups`."""
        self._size.note(body)
        self._update(self._groups.put(source, body))

    def measure(self) -> int:
        """Return the estimated memory of the groups and of their order, in bytes."""
        return super().measure() + self._set.nbytes

    def remove(self, source: Hashable, sow_key: bytes, gone: Delivery | None) -> None:
        """Drop the state of a group at a node that has no records of it any more."""
        super().remove(source, sow_key, gone)
        self._update(sow_key)

    def _update(self, sow_key: bytes) -> None:
        body = self._groups.body(sow_key)
        if body is None:
            self._set.remove(sow_key)
        else:
            self._set.put(_key_of(self._order, sow_key, body), ShownRecord(body, 0))
        assert len(self._set) == len(self._groups), "each group has its place"

    def rank_of(self, sow_key: bytes) -> int | None:
        """Return the number of groups before one, of all nodes together."""
        return self._set.rank_of(sow_key)

    def shown(self) -> dict[bytes, ShownRecord]:
        """Return the groups of the page."""
        page = self._page
        return dict(self._set.between(page.skip, page.skip + page.top))

    def shown_of(self, sow_keys: Iterable[bytes]) -> None:
        """Return None: a group that enters or leaves moves others."""

    def left(self, sow_key: bytes, body: bytes) -> Delivery:
        """Return the `oof` for a group that is not on the page."""
        return no_longer_shown(body, self._groups.body(sow_key))


def _key_of(order: Order, sow_key: bytes, body: bytes) -> SortKey:
    # Without terms, the SOW key alone decides, and no body needs parsing.
    return order.key(orjson.loads(body) if order.terms else {}, sow_key)
