"""Which records were hidden from a user when they ended: the user must not learn that they were deleted. Pure."""

from sowline.language.filter import Filter
from sowline.subscriptions.engine.subscription import ChangeView


class HiddenEnds:
    """The keys of the records that the filter of an entitlement hid when they ended.

    `note` the changes of each record in order.
    """

    __slots__ = ("_entitlement", "_keys")

    def __init__(self, entitlement: Filter, keys: frozenset[bytes] = frozenset()) -> None:
        self._entitlement = entitlement
        self._keys = set(keys)

    def __contains__(self, sow_key: object) -> bool:
        return sow_key in self._keys

    def note(self, seen: ChangeView) -> None:
        """Note how a record ended, if this change ends one. The last end of a record counts."""
        change = seen.change
        # The deletion of what was deleted already ends nothing (test_a_second_deletion_ends_nothing).
        if change.body is not None or change.previous is None:
            return
        if seen.matched_before(self._entitlement):
            self._keys.discard(change.sow_key)
        else:
            self._keys.add(change.sow_key)

    def copy(self) -> "HiddenEnds":
        """Return a copy, which notes changes by itself."""
        return HiddenEnds(self._entitlement, frozenset(self._keys))

    def clear(self) -> None:
        """Forget all of them."""
        self._keys.clear()
