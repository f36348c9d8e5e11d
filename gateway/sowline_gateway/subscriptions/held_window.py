"""The window that a client of a page or of groups holds, and its difference from the nodes' windows. Pure."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from sowline.model.bookmark import PositionsByLog
from sowline.subscriptions.engine.shown import (
    Due,
    ShownRecord,
    as_held,
    difference,
    no_longer_shown,
)
from sowline.subscriptions.engine.subscription import MATCH, OOF, Delivery
from sowline_gateway.subscriptions.merged_window import MergedWindow
from sowline_gateway.subscriptions.window_request import WindowRequest

TOUCHED_MAX = 10_000
"""The maximum number of changed keys to note for a slow client; beyond it, its whole window is compared."""


class Difference(NamedTuple):
    """The messages that turn a client's window into the current one, as one step between two positions."""

    due: Due
    times: Mapping[bytes, int | None]
    """By record or group, the time of its first change that the client lacks."""
    before: PositionsByLog
    now: PositionsByLog


class HeldWindow:
    """The window that a client holds, and the keys that were touched since: the client lacks their changes."""

    def __init__(self, asked: WindowRequest) -> None:
        self.asked = asked
        """The request that the client's window belongs to."""
        self.shown: dict[bytes, ShownRecord] = {}
        self.positions: PositionsByLog = {}
        """The positions at which the client holds it."""
        self._touched: dict[bytes, int | None] | None = {}
        """The records and groups of the steps that the client lacks, with the time of the first; None means any."""

    def taken_over(self, asked: WindowRequest) -> "HeldWindow":
        """Return the client's window for a subscription that replaces this one."""
        held = HeldWindow(self.asked)
        is_same_order = self.asked.request.order == asked.request.order
        shows_like = self.asked.options.shows_like(asked.options, is_same_order=is_same_order)
        held.hold(self.shown, self.positions, is_guess=not shows_like)
        return held

    def hold(
        self, shown: dict[bytes, ShownRecord], positions: PositionsByLog, *, is_guess: bool = False
    ) -> None:
        """Note what the client holds at these positions. With `is_guess`, the bodies may differ."""
        if is_guess:
            shown = {key: of.as_guess() for key, of in shown.items()}
        self.shown, self._touched = shown, {}
        # Copies: the caller keeps changing its own (test_positions_are_those_of_the_moment).
        self.positions = {log: dict(of) for log, of in positions.items()}

    def touch(self, sow_keys: Iterable[bytes], when: int | None) -> None:
        """Note that the nodes have changed these records or groups."""
        if self._touched is None:
            return
        for key in sow_keys:
            # The first change gives the time (test_the_first_change_of_several_gives_the_time).
            self._touched.setdefault(key, when)
        if len(self._touched) > TOUCHED_MAX:
            self._touched = None
        assert not self._touched or len(self._touched) <= TOUCHED_MAX, "what is noted has a limit"

    def touch_all(self) -> None:
        """Note that any record or group may have changed."""
        self._touched = None

    def advance(self, window: MergedWindow, positions: PositionsByLog, *, is_step: bool) -> Difference:
        """Return the difference to the window shown at these positions, and hold that window.

        With `is_step`, touched groups are sent even if they are unchanged.
        """
        touched, before, options = self._touched, self.positions, self.asked.options
        some = None if touched is None else window.shown_of(touched)
        if touched is None or some is None:
            held, now = self.shown, window.shown()
        else:
            held, now = {key: self.shown[key] for key in touched if key in self.shown}, some
        due = difference(
            held,
            now,
            lambda key, body: self._left(window, key, body),
            oof=options.oof,
            no_redundant=options.no_redundant,
            touched=touched if touched is not None and options.projection and is_step else (),
        )
        if options.conflation is not None:
            due = [(key, as_held(delivery)) for key, delivery in due]
        if some is not None:
            # Only the touched keys were compared: the rest of the window is what the client holds already.
            for key in held.keys() - now.keys():
                del self.shown[key]
            self.shown.update(now)
            now = self.shown
        self.hold(now, positions)
        window.forget_gone()
        assert not self._touched, "what was compared is touched no more"
        return Difference(due, touched or {}, before, self.positions)

    def replaced(self, window: MergedWindow, asked: WindowRequest) -> Due:
        """Return the difference to the current window, for a client that now asks for something else."""
        options = asked.options
        # Another window knows only its own groups: one that it lacks was not deleted.
        is_other = asked.is_grouped and not asked.is_grouped_like(self.asked)
        return difference(
            self.shown,
            window.shown(),
            lambda key, body: Delivery(OOF, body, MATCH, body) if is_other else self._left(window, key, body),
            oof=options.oof,
            no_redundant=options.no_redundant,
        )

    def _left(self, window: MergedWindow, key: bytes, body: bytes) -> Delivery:
        """Return the `oof` for a record or group that the client holds with this body and that is no longer shown."""
        found = window.left(key, body)
        if found is None:
            return no_longer_shown(body, None)
        # The node's reason is of its own last change, but the client may still hold an earlier body.
        found = msgspec.structs.replace(found, previous=body)
        return as_held(found) if self.asked.topic.is_conflated else found

    def unexplained(self, window: MergedWindow) -> list[bytes]:
        """Return the keys that the client holds, but that are not shown, if no node has sent the reason."""
        shown = window.shown()
        return [key for key in self.shown if key not in shown and window.left(key, b"") is None]
