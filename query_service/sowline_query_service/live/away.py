"""The viewers of a topic that are away: they note which records leave the sight of their users meanwhile."""

from typing import Protocol

from sowline.language.filter import Filter
from sowline.subscriptions.engine.subscription import ChangeView, Delivery, left_sight


class AwayViewer(Protocol):
    """A viewer that holds records and is not sent changes."""

    def note_left(self, sow_key: bytes, gone: Delivery) -> None:
        """Note the change that took a record out of the user's sight."""


class AwayViewers:
    """The viewers that hold records, are not sent changes, and whose users may not see all records."""

    def __init__(self) -> None:
        # By entitlement: users have a few roles between them, and each filter is evaluated once for a change.
        self._viewers: dict[Filter, dict[AwayViewer, None]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._viewers.values()))

    def enter(self, viewer: AwayViewer, entitlement: Filter) -> None:
        """Let a viewer note what leaves from now on."""
        self._viewers.setdefault(entitlement, {})[viewer] = None

    def leave(self, viewer: AwayViewer, entitlement: Filter) -> None:
        """Let a viewer, which may have left before, note nothing more."""
        viewers = self._viewers.get(entitlement, {})
        viewers.pop(viewer, None)
        if not viewers:
            self._viewers.pop(entitlement, None)

    def take(self, seen: ChangeView) -> None:
        """Let all of them note a change."""
        for entitlement, viewers in self._viewers.items():
            gone = left_sight(seen, entitlement)
            if gone is None:
                continue
            for viewer in viewers:
                viewer.note_left(seen.change.sow_key, gone)
