"""The messages to the client of a page or of groups: the group, changes by a replacement, and each difference."""

from collections.abc import Mapping

from sowline.model.bookmark import format_bookmark
from sowline.model.key import hash_of
from sowline.serving.outbox.group import Mark, put_group
from sowline.serving.outbox.outbox import Outbox
from sowline.serving.result import Result
from sowline.subscriptions.engine.delivery import Deltas, payload_of, whole_payload
from sowline.subscriptions.engine.shown import ShownRecord
from sowline.subscriptions.engine.subscription import OOF
from sowline.subscriptions.live.progress import put_progress, put_window_checksum
from sowline.subscriptions.live.put_payload import RankOf, put_payload, put_step
from sowline.subscriptions.live.shown_records import records_shown
from sowline.wire.request import Heartbeat
from sowline_gateway.query.seen import SeenPositions
from sowline_gateway.query.sharded_query import ShardedQuery
from sowline_gateway.subscriptions.held_window import HeldWindow
from sowline_gateway.subscriptions.window_parts import OpenedWindow
from sowline_gateway.subscriptions.window_request import WindowRequest


class WindowOutlet:
    """Sends the messages that turn a client's window into the nodes' window, and tracks what the client holds."""

    def __init__(self, outbox: Outbox, asked: WindowRequest, seen: SeenPositions, held: HeldWindow) -> None:
        self.outbox = outbox
        self.sub_id = asked.request.id_of_subscription
        self.form = asked.form
        self.held = held
        self._asked = asked
        self._seen = seen

    def put_first_group(self, opened: OpenedWindow, mark: Mark) -> Result:
        """Send the current window as a group; return its counts."""
        shown = self._asked.first_shown(opened.merged.shown())
        return self._put_current(opened, shown, mark)

    def put_replacement(self, opened: OpenedWindow, mark: Mark) -> Result:
        """Send which records leave the client's window, and a group of those that it lacks; return its counts."""
        due = self.held.replaced(opened.merged, self._asked)
        lacked: set[bytes] = set()
        bookmark = format_bookmark(self.held.positions)
        for key, delivery in due:
            if delivery.command != OOF:
                lacked.add(key)
                continue
            # These messages and the group are one step. They have the bookmark before it, so a client that loses its
            # connection within the step resumes before it.
            payload = whole_payload(key, delivery, self.form, None)
            put_payload(self, self._asked.topic.name, payload, bookmark, more=True)
        shown = self._asked.first_shown(opened.merged.shown())
        return self._put_current(opened, {key: of for key, of in shown.items() if key in lacked}, mark)

    def _put_current(self, opened: OpenedWindow, shown: Mapping[bytes, ShownRecord], mark: Mark) -> Result:
        """Send these records as a group; afterwards the client holds everything that is shown."""
        counted = opened.query.result
        result = Result(
            counted.topic_matches, counted.matches, lag_seconds=counted.lag_seconds, warnings=counted.warnings
        )
        self._put_group(shown, format_bookmark(opened.positions), result, mark, opened.merged.rank_of)
        # From here on, differences are from this request, no longer from the replaced one.
        self.held.asked = self._asked
        self.held.hold(opened.merged.shown(), opened.positions)
        opened.merged.forget_gone()
        self._seen.note(opened.positions)
        return result

    def put_past_group(self, past: ShardedQuery) -> Result:
        """Send the window that the client holds at a time as a group; return its counts."""
        counted = past.result
        result = Result(counted.topic_matches, counted.matches, warnings=counted.warnings)
        first = self._asked.request.skip_n or 0
        ranks = {key: rank for rank, key in enumerate(self.held.shown, first)}
        shown = self._asked.first_shown(self.held.shown)
        self._put_group(shown, past.bookmark, result, None, ranks.get)
        return result

    def _put_group(
        self, shown: Mapping[bytes, ShownRecord], bookmark: str, result: Result, mark: Mark, rank_of: RankOf
    ) -> None:
        records = records_shown(self._asked.topic, self._asked.options, shown, rank_of)
        result.count(len(records), sum(map(len, records)), hash_of(shown))
        put_group(self.outbox, self._asked.request, bookmark, records, result, mark)

    def put_difference(self, opened: OpenedWindow, when: int | None, *, is_step: bool) -> None:
        """Send the messages that turn the client's window into the nodes' window, as one step.

        A client that was paused or slow gets only the difference, without groups that are unchanged.
        """
        difference = self.held.advance(opened.merged, opened.positions, is_step=is_step)
        self._seen.note(opened.positions)
        keys, times = self._asked.keys, difference.times
        payloads = (
            payload_of(key, delivery, self.form, Deltas(keys), times.get(key) if when is None else when)
            for key, delivery in difference.due
        )
        if found := [payload for payload in payloads if payload is not None]:
            before, now = format_bookmark(difference.before), format_bookmark(difference.now)
            rank_of = opened.merged.rank_of if self._asked.options.rank else None
            put_step(self, self._asked.topic.name, found, before, now, rank_of)

    def put_progress(self, opened: OpenedWindow) -> None:
        """Send the bookmark of a client that lacks nothing."""
        self.held.hold(self.held.shown, opened.positions)
        opened.merged.forget_gone()
        self._seen.note(opened.positions)
        put_progress(self.outbox, self.sub_id, self.held.positions)

    def put_checksum(self, request: Heartbeat) -> None:
        """Send the checksum of the window that the client holds."""
        shown = self._asked.first_shown(self.held.shown)
        bookmark = format_bookmark(self.held.positions)
        put_window_checksum(self.outbox, request, bookmark, len(shown), hash_of(shown))
