"""A stand-in for the native core's groups, whose answers a test gives.

tests/property/test_native_views.py compares the real one with Python. This one shows what Python asks it, and what
Python does with its answers, also where there is no native core.
"""

from typing import Any

Changed = list[tuple[bytes, bytes | None]]
"""Key texts of groups, and their states; None for a group without records."""


class StandInGroups:
    """Notes what it is asked. It answers None, as for a record that is not plain, until a test gives it an answer."""

    def __init__(self, rule: Any) -> None:
        self.rule = rule
        self.asked: list[Any] = []
        self.made: Changed | None = None
        """The answer to `change`."""
        self.replaced: Changed = []
        self.found: list[bytes] | None = None
        """The join keys that it makes of any record."""
        self.held: Changed = []

    def change(self, before: Any, now: Any) -> Changed | None:
        """Return the changed groups."""
        self.asked.append((before, now))
        return self.made

    def replace(self, left: Any, entered: Any) -> Changed:
        """Return the changed groups, from what Python has read of two records."""
        self.asked.append(("replace", left, entered))
        return self.replaced

    def keys(self, body: bytes) -> list[bytes] | None:
        """Return the join keys of a record."""
        return self.found

    def records(self) -> Changed:
        """Return the groups that were loaded."""
        return list(self.held)


class StandInCore:
    """The module of the native core; `groups` are those that were made last."""

    groups: StandInGroups

    def Groups(self, rule: Any) -> StandInGroups:  # noqa: N802 - the name of the class in the native core
        """Make groups."""
        self.groups = StandInGroups(rule)
        return self.groups
