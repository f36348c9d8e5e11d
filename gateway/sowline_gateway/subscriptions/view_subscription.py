"""A client's subscription to a page or to groups: each node sends its part, and the gateway sends the differences.

The gateway always knows what the client holds, and what the nodes show now. After each step of a node it sends the
difference at once, if the client keeps up. Otherwise, and with conflation, it sends one difference for all steps
since. If a node is lost, all partitions are read again, at nodes that are at least as far, and the client gets one
difference, too.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import msgspec

from sowline.errors import SowlineError
from sowline.language.expressions.order import Order
from sowline.language.expressions.projection import parse_projection
from sowline.language.filter import ALL
from sowline.language.groups import MergedGroups
from sowline.model.bookmark import PositionsByLog, format_bookmark, parse_bookmark
from sowline.model.bookmark_range import BookmarkRange
from sowline.model.key import hash_of
from sowline.serving.authorization.entitlements import Rights
from sowline.serving.cooperative import together
from sowline.serving.outbox.group import (
    Mark,
    acknowledge,
    acknowledge_processed,
    put_group,
)
from sowline.serving.outbox.outbox import Outbox
from sowline.serving.query_slots import QuerySlot
from sowline.serving.result import Result
from sowline.serving.sessions.status import State, SubscriptionStatus
from sowline.serving.view_memory import HELD_BYTES, ViewBytes, ViewHolder
from sowline.subscriptions.engine.conflation import adapted, pending_of
from sowline.subscriptions.engine.delivery import Deltas, Form, payload_of, whole_payload
from sowline.subscriptions.engine.page import Window
from sowline.subscriptions.engine.shown import (
    GUESSED,
    Due,
    ShownRecord,
    as_held,
    difference,
    identifying_fields,
    in_order,
    keys_shown,
    no_longer_shown,
)
from sowline.subscriptions.engine.subscription import MATCH, OOF, Delivery, entitled
from sowline.subscriptions.live.change_message import put_payload, put_step
from sowline.subscriptions.live.progress import put_progress, put_view_checksum
from sowline.subscriptions.live.request_checks import (
    GONE,
    PAGE_RECORDS_MAX,
    check_endless,
    check_pace,
    check_view_replaced,
)
from sowline.subscriptions.live.shown_records import records_shown
from sowline.wire.node_queries import options_of_view, past_view_of, view_of
from sowline.wire.options import AUTO
from sowline.wire.request import Heartbeat, Subscribe, from_now
from sowline.wire.server_message import ack, ms_of
from sowline_gateway.context import GatewayContext
from sowline_gateway.nodes.connections import NodeLost, NodeMessage
from sowline_gateway.nodes.failover import AGAIN_SECONDS
from sowline_gateway.nodes.routing import UNAVAILABLE
from sowline_gateway.query.keyed_records import read_record, records_of
from sowline_gateway.query.part import Part
from sowline_gateway.query.seen import NONE, SeenPositions, newest
from sowline_gateway.query.sharded_query import ShardedQuery
from sowline_gateway.subscriptions.merged_view import (
    MergedGroupPage,
    MergedGroupsView,
    MergedPage,
    MergedView,
)
from sowline_gateway.subscriptions.past_view import past_record

TOUCHED_MAX = 10_000
"""Records and groups that a slow client lacks; if there are more, all that it holds is compared."""


class FreshView(Exception):
    """A node begins with a new group, or its view has ended: the gateway reads all parts again."""


class ViewOverNodes:
    """A subscription of a client to a page or to groups. It stops the subscription that it replaces."""

    def __init__(
        self,
        context: GatewayContext,
        outbox: Outbox,
        request: Subscribe,
        topic: str,
        rights: Rights,
        seen: SeenPositions,
        slot: QuerySlot,
        holder: ViewHolder,
        replaced: "ViewOverNodes | None" = None,
    ) -> None:
        check_endless(request)
        options = request.options
        check_pace(request, is_view=True)
        self._context = context
        self.outbox = outbox
        self.request = request
        self.sub_id = request.id_of_subscription
        self._topic = context.nodes.topics[topic]
        self._log = self._topic.log
        self._rights = rights
        self._seen = seen
        self._slot = slot
        self._holder = holder
        self._bytes = ViewBytes(context.views)
        self._options = options
        self.form = Form.live(options, self._topic, delta=request.is_delta)
        self._keys = keys_shown(self._topic, options)
        if options.conflation is not None:
            pending_of(options, self.form, identifying_fields(self._topic, options), of_each=True)
        self._window = self._checked_window()
        self._query: ShardedQuery | None = None
        self._view: MergedView | None = None
        self._positions: PositionsByLog = {}
        """The positions of the parts that the nodes have sent."""
        self._sent: PositionsByLog = {}
        """The positions at which the client holds `_held`."""
        self._held: dict[bytes, ShownRecord] = {}
        self._changed = asyncio.Event()
        """Whether the client lacks steps."""
        self._touched: dict[bytes, int | None] | None = {}
        """The records and groups of the steps that the client lacks, with the time of the first; None means any."""
        self._going = asyncio.Event()
        if not options.pause:
            self._going.set()
        self._live = asyncio.Event()
        self._steady = asyncio.Event()
        """Whether what the nodes show is known, and messages may be made from it."""
        self._is_stopped = False
        self._is_replaying = False
        self._is_replacement = replaced is not None
        self._replaces = False
        self.has_begun = False
        self.is_querying = False
        if replaced is not None:
            self._take_over(replaced)

    def _checked_window(self) -> Window | None:
        """Return the window of a page, None for all groups; raise `invalid top_n`."""
        request = self.request
        if request.skip_n is None or request.top_n is None:
            return None
        end = request.skip_n + request.top_n
        if not self._options.projection and end > PAGE_RECORDS_MAX:
            raise SowlineError(
                "invalid top_n",
                f"expected a page that ends within the first {PAGE_RECORDS_MAX} records at a gateway, got skip_n +"
                f" top_n = {end}; use a filter",
            )
        return Window(request.skip_n, request.top_n)

    def _take_over(self, replaced: "ViewOverNodes") -> None:
        """Stop the replaced subscription, and take over its client's view, if that is known."""
        check_view_replaced(replaced._topic.name, self._topic.name)
        replaced.stop()
        was_grouped, is_grouped = bool(replaced._options.projection), bool(self._options.projection)
        # Of groups with a limit, the client received only the first ones.
        is_known = replaced._live.is_set() and (
            replaced._window is not None or replaced.request.top_n is None
        )
        self._replaces = is_known and was_grouped == is_grouped
        if self._replaces:
            self._held, self._sent = replaced._held, replaced._sent
        if not replaced._options.shows_like(self._options):
            self._held = {key: shown._replace(position=GUESSED) for key, shown in self._held.items()}
        self._replaced_is_grouped_alike = (
            replaced._options.grouping,
            replaced._options.projection,
            replaced.request.filter,
        ) == (self._options.grouping, self._options.projection, self.request.filter)

    # the interface of a session

    def stop(self) -> None:
        """Send nothing more, from now on."""
        self._is_stopped = True

    def pause(self) -> None:
        """Send nothing more until `resume`; the client keeps its view."""
        self._going.clear()

    def resume(self) -> None:
        """Send the difference from the client's view to the current one, and continue."""
        self._going.set()

    def quiet_position(self) -> PositionsByLog | None:
        """Return None: bookmarks of an idle subscription are sent when the nodes send theirs."""
        return None

    def subscription_status(self) -> SubscriptionStatus:
        """Return whether it is live; how far it is behind is known to the nodes only."""
        return SubscriptionStatus(self.request, self._state, 0, 0.0)

    @property
    def _state(self) -> State:
        if not self._live.is_set():
            return "beginning"
        if not self._going.is_set():
            return "paused"
        return "catching up" if self._changed.is_set() else "live"

    @property
    def live_topics(self) -> Sequence[str]:
        """Its topic, if it is live now."""
        return (self._topic.name,) if self._state == "live" else ()

    async def prove(self, request: Heartbeat) -> None:
        """Send the checksum of the view that the client should hold, in order with the messages.

        Raise `not supported` while the subscription is paused.
        """
        if not self._going.is_set():
            raise SowlineError("not supported", "this subscription is paused: resume it first")
        await self._live.wait()
        await self._steady.wait()
        # In one instant: what was held back goes out, because the client compares at the bookmark of the checksum.
        self._send_difference()
        shown = self._first_shown(self._held)
        bookmark = format_bookmark(self._sent)
        put_view_checksum(self.outbox, request, bookmark, len(shown), hash_of(shown))

    async def run(self) -> bytes | None:
        """Serve until cancelled; raise if it can't continue. It never returns: a view has no end."""
        self._context.subscriptions.add(self)
        self._bytes.enter(self._holder)
        try:
            async with self._slot:
                await self._slot.take()
                await self._begin()
            await together([self._follow(), self._send_later()])
        finally:
            self._context.subscriptions.discard(self)
            self._bytes.leave(self._holder)
            if self._query is not None:
                await self._query.close()
        return None

    # the start

    async def _begin(self) -> None:
        bookmark_range = self.request.bookmark_range
        past: ShardedQuery | None = None
        mark: Mark = None
        if not self._begins_now:
            past = await self._past()
            mark = "reset"
        try:
            if past is not None:
                await self._hold_past(past)
            await self._open(self.request.at_least)
            if past is not None and self._is_known(past):
                await self._come_back(past, bookmark_range)
            elif self._is_replacement:
                await self._in_turn(self._replace)
            else:
                await self._in_turn(lambda: self._begin_with_group(mark))
        finally:
            if past is not None:
                await past.close()

    async def _in_turn(self, send: Callable[[], None]) -> None:
        """Call `send` when no other group is being sent."""
        self.is_querying = True
        try:
            async with self.outbox.group():
                send()
        finally:
            self.is_querying = False

    def _begin_with_group(self, mark: Mark) -> None:
        """Send the current view as a group, and be live from then on."""
        self._acknowledge(format_bookmark(self._positions))
        self._put_group(self._opened_view.shown(), mark)

    @property
    def _opened_view(self) -> MergedView:
        assert self._view is not None, "it was opened"
        return self._view

    def _first_shown(self, shown: Mapping[bytes, ShownRecord]) -> Mapping[bytes, ShownRecord]:
        """Return what the first group has: of groups with a limit, only the first ones."""
        if self._window is not None:
            return shown
        skip, top = self.request.skip_n or 0, self.request.top_n
        return in_order(shown, self.request.order, skip, None if top is None else skip + top)

    def _put_group(self, all_shown: dict[bytes, ShownRecord], mark: Mark, only: Iterable[bytes] = ()) -> None:
        assert self._query is not None
        shown = self._first_shown(all_shown)
        if mark == "replace":
            wanted = set(only)
            shown = {key: of for key, of in shown.items() if key in wanted}
        records = records_shown(self._topic, self._options, shown)
        counted = self._query.result
        result = Result(
            counted.topic_matches, counted.matches, lag_seconds=counted.lag_seconds, warnings=counted.warnings
        )
        result.count(len(records), sum(map(len, records)), hash_of(shown))
        bookmark = format_bookmark(self._positions)
        put_group(self.outbox, self.request, bookmark, records, result, mark)
        acknowledge(self.outbox, self.request, bookmark, result)
        self._held = all_shown
        self._note_sent()
        self._live.set()

    def _note_sent(self) -> None:
        """Note that the client holds what is shown now."""
        self._sent = {log: dict(held) for log, held in self._positions.items()}
        self._seen.note(self._positions)
        self._changed.clear()
        self._touched = {}
        self._opened_view.forget_gone()

    def _acknowledge(self, bookmark: str) -> None:
        self.has_begun = True
        acknowledge_processed(self.outbox, self.request, bookmark=bookmark, sub_id=self.sub_id)

    def _replace(self) -> None:
        """Send which records leave the client's view, and a group of those it lacks; be live from then on."""
        if not self._replaces:
            self._begin_with_group("reset")
            return
        self._acknowledge(format_bookmark(self._positions))
        bookmark, shown = format_bookmark(self._sent), self._opened_view.shown()
        options = self._options
        left = self._left_by_replacement
        due = difference(self._held, shown, left, oof=options.oof, no_redundant=options.no_redundant)
        lacked = []
        for key, delivery in due:
            if delivery.command != OOF:
                lacked.append(key)
                continue
            # These messages and the group are one step. They have the bookmark before it, so a client that loses its
            # connection within the step resumes before it.
            payload = whole_payload(key, delivery, self.form, None)
            put_payload(self, self._topic.name, payload, bookmark, more=True)
        self._put_group(shown, "replace", lacked)

    def _left_by_replacement(self, key: bytes, body: bytes) -> Delivery:
        """Return the `oof` for what only the replaced view shows."""
        # Another view knows only its own groups: one that it lacks was not deleted.
        if self._options.projection and not self._replaced_is_grouped_alike:
            return Delivery(OOF, body, MATCH, body)
        return self._left(key, body)

    # a client that comes back

    @property
    def _begins_now(self) -> bool:
        """Whether it begins with the current records; with `current`, also for a time where there is no history."""
        bookmark_range = self.request.bookmark_range
        is_instead = (
            self._options.current
            and bookmark_range.moment is not None
            and self._topic.declared.history is None
        )
        return bookmark_range.begins_now or is_instead

    async def _past(self) -> ShardedQuery | None:
        """Return the query of the view at the client's bookmark or time, or None for a new group."""
        options = options_of_view(self._options, is_live=False)
        request = msgspec.structs.replace(self.request, options=options)
        if self._window is None:
            # The client may hold more groups than the first ones: it was sent each that has changed.
            request = msgspec.structs.replace(request, top_n=None, skip_n=None, order=Order())
        context, topics = self._context, [self._topic.name]
        query = ShardedQuery(context.nodes, request, topics, self._rights, context.limits, {}, past_view_of)
        try:
            await query.begin(self._slot)
        except SowlineError as error:
            await query.close()
            if error.reason in GONE and self._options.bookmark_not_found in ("reset", "now"):
                return None
            raise
        except BaseException:
            await query.close()
            raise
        return query

    def _is_known(self, past: ShardedQuery) -> bool:
        """Return whether it is known what the client holds, or raise `bookmark_expired`.

        The order of a page of groups may depend on the latest record of each. Nodes do not know which one that was
        before changes that they undo, so such a page might be another one than the client was shown
        (test_a_page_of_latest_fields_that_came_back).
        """
        is_guess = (
            self._window is not None and bool(self._options.projection) and self._new_groups().tells_latest
        )
        if not is_guess or past.positions == self._positions:
            return True
        if self._options.bookmark_not_found not in ("reset", "now"):
            raise SowlineError(
                "bookmark_expired",
                f"it is not known which records were the latest of their groups at {past.bookmark}; start without a"
                " bookmark, or choose with bookmark_not_found=now or reset where to start instead",
            )
        self._held = {}
        return False

    async def _hold_past(self, past: ShardedQuery) -> None:
        """Note that the client holds what is found at its bookmark or time."""
        is_guess = bool(self._options.projection) and self._new_groups().tells_latest
        async for portion in past.records():
            for record in portion.records:
                key, shown = past_record(record)
                self._held[key] = shown._replace(position=GUESSED) if is_guess else shown
        self._sent = past.positions

    async def _come_back(self, past: ShardedQuery, bookmark_range: BookmarkRange) -> None:
        """Let the difference from what the client holds be sent; before it, the group of a time."""
        self._is_replaying = True
        self._acknowledge(past.bookmark)
        result = Result()
        if bookmark_range.moment is not None:
            held = self._first_shown(self._held)
            records = records_shown(self._topic, self._options, held)
            result = Result(past.result.topic_matches, past.result.matches, warnings=past.result.warnings)
            result.count(len(records), sum(map(len, records)), hash_of(held))
            async with self.outbox.group():
                put_group(self.outbox, self.request, past.bookmark, records, result, None)
        acknowledge(self.outbox, self.request, past.bookmark, result, is_completed=False)
        self._changed.set()
        self._live.set()

    # the parts of the nodes

    async def _open(self, at_least: PositionsByLog = NONE) -> None:
        """Begin at all nodes, read what they show, and find out why records that the client holds are not shown.

        Nothing is sent meanwhile. Raise `shard unavailable`, or why the request is refused.
        """
        self._steady.clear()
        has_turn = self._slot.is_taken
        while True:
            query: ShardedQuery | None = None
            try:
                query, view = await self._opened(at_least)
                await self._look_up_left(view, query.positions)
            except BaseException as error:
                if query is not None:
                    await query.close()
                if not isinstance(error, NodeLost):
                    raise
                self._slot.free()
                await asyncio.sleep(AGAIN_SECONDS)
                if has_turn:
                    # What gave up waiting for nodes has freed it (test_what_begins_again_takes_its_turn_again).
                    await self._slot.take()
                continue
            break
        before, self._query = self._query, query
        if before is not None:
            await before.close()
        self._view, self._positions = view, query.positions
        self._touched = None
        self._steady.set()

    async def _opened(self, at_least: PositionsByLog) -> tuple[ShardedQuery, MergedView]:
        """Begin at all nodes, and read what they show; raise `NodeLost`, `shard unavailable` or other errors."""
        request, nodes, window = self.request, self._context.nodes, self._window
        is_grouped = bool(self._options.projection)
        records = window.skip + window.top if window is not None and not is_grouped else None
        subscription = partial(view_of, user=self._holder.user, records=records)
        asked = msgspec.structs.replace(
            from_now(request),
            options=options_of_view(self._options),
            top_n=None,
            skip_n=None,
            at_least={},
            order=Order() if is_grouped else request.order,
        )
        # A client that comes back holds its view at a bookmark that this connection has not shown yet.
        held = newest(self._positions, self._sent)
        floor = newest(self._seen.floor([self._log], at_least), held)
        query = ShardedQuery(
            nodes, asked, [self._topic.name], self._rights, self._context.limits, floor, subscription
        )
        try:
            await query.begin(self._slot)
            view = self._new_view()
            async for part, batch in query.batches():
                for record in batch.records:
                    found = read_record(record)
                    view.put(part.share, found.sow_key.encode(), bytes(found.data), bytes(found.relayed))
                self._count_bytes(view)
            query.count()
        except BaseException:
            await query.close()
            raise
        return query, view

    def _new_groups(self) -> MergedGroups:
        options, limits = self._options, self._context.limits
        projection = parse_projection(options.projection)
        return MergedGroups(self._topic.name, options.grouping, projection, groups_max=limits.groups_max)

    def _new_view(self) -> MergedView:
        if not self._options.projection:
            assert self._window is not None, "a view without groups is a page"
            return MergedPage(self.request.order, self._window)
        if self._window is None:
            return MergedGroupsView(self._new_groups())
        return MergedGroupPage(self._new_groups(), self.request.order, self._window)

    async def _follow(self) -> None:
        """Follow the nodes; if one is lost, read all parts again."""
        while True:
            assert self._query is not None
            began = time.monotonic()
            try:
                await together(self._follow_part(part) for part in self._query.parts)
            except (NodeLost, FreshView):
                await asyncio.sleep(max(0.0, began + AGAIN_SECONDS - time.monotonic()))
            await self._open()
            self._send_soon(None)

    async def _follow_part(self, part: Part) -> None:
        step: list[NodeMessage] = []
        async for received in part.live():
            match received.command:
                case "publish" | "oof":
                    step.append(received)
                    if not received.more:
                        self._take(part, step)
                        step = []
                case "progress":
                    self._note_positions(part, received.bookmark)
                    self._send_progress()
                case "group_begin":
                    raise FreshView

    def _count_bytes(self, view: MergedView) -> None:
        """Count the memory of the view; raise `views too large` if there is no room for it."""
        self._bytes.note(view.measure() + len(self._held) * HELD_BYTES)

    def _note_positions(self, part: Part, bookmark: str) -> None:
        positions = parse_bookmark(bookmark)
        self._positions = newest(self._positions, positions)
        self._context.nodes.note_shown(part.url, positions)

    def _take(self, part: Part, step: Sequence[NodeMessage]) -> None:
        """Apply a step of a node, and send the difference, now or later."""
        view = self._opened_view
        for received in step:
            key = received.sow_key.encode()
            if received.command == OOF:
                known = ShownRecord.read(b"", bytes(received.relayed)).known
                body = bytes(received.data)
                gone = Delivery(OOF, body, received.reason, body, known)
                view.remove(part.share, key, gone if key in self._held else None)
            else:
                view.put(part.share, key, bytes(received.data), bytes(received.relayed))
        self._note_positions(part, step[-1].bookmark)
        self._count_bytes(view)
        when = ms_of(step[-1].timestamp) if self.form.timestamp and step[-1].timestamp else None
        if self._touched is not None:
            for received in step:
                self._touched.setdefault(received.sow_key.encode(), when)
            if len(self._touched) > TOUCHED_MAX:
                self._touched = None
        self._send_soon(when)

    # the messages to the client

    @property
    def _keeps_up(self) -> bool:
        """Whether the client lacks no step, and has room for the next message."""
        return (
            self._live.is_set()
            and self._going.is_set()
            and not self._changed.is_set()
            and not self.outbox.full
        )

    def _send_soon(self, when: int | None) -> None:
        if self._keeps_up and self._options.conflation is None:
            self._send_difference(when)
        else:
            self._changed.set()

    async def _send_later(self) -> None:
        """Send one difference for all steps that the client lacks, whenever it has room and the interval is over."""
        conflation = self._options.conflation
        interval = 0 if conflation in (None, AUTO) else conflation or 0
        while True:
            await self._changed.wait()
            if conflation is not None:
                await asyncio.sleep(interval / 1000)
            # Read the backlog before waiting for room: afterwards a slow client would look like a fast one.
            backlog = self.outbox.unsent_bytes
            await self.outbox.wait_turn()
            if not (self._going.is_set() and self._steady.is_set()):
                await self._going.wait()
                await self._steady.wait()
                continue
            if conflation == AUTO:
                interval = adapted(interval, backlog)
            self._send_difference()

    def _send_difference(self, when: int | None = None) -> None:
        """Send the messages that turn what the client holds into what the nodes show, as one step."""
        if self._is_stopped or self._view is None:
            return
        touched = self._touched
        some = None if touched is None else self._view.shown_of(touched)
        if some is None:
            held, now = self._held, self._view.shown()
        else:
            held = {key: self._held[key] for key in touched or () if key in self._held}
            now = some
        options = self._options
        # A client that was paused or slow gets the difference only: nothing of a group that is as it was.
        is_step = options.conflation is not None or not self._changed.is_set()
        due = difference(
            held,
            now,
            self._left,
            oof=options.oof,
            no_redundant=options.no_redundant,
            touched=touched if touched is not None and options.projection and is_step else (),
        )
        if options.conflation is not None:
            due = [(key, as_held(delivery)) for key, delivery in due]
        self._put(due, when, touched or {})
        if some is None:
            self._held = now
        else:
            for key in held.keys() - now.keys():
                del self._held[key]
            self._held.update(now)
        self._note_sent()
        self._complete_replay()

    def _put(self, due: Due, when: int | None, times: Mapping[bytes, int | None]) -> None:
        payloads = [
            payload
            for key, delivery in due
            if (
                payload := payload_of(
                    key,
                    delivery,
                    self.form,
                    Deltas(self._keys),
                    times.get(key, when) if when is None else when,
                )
            )
            is not None
        ]
        if payloads:
            before, now = format_bookmark(self._sent), format_bookmark(self._positions)
            put_step(self, self._topic.name, payloads, before, now)

    def _complete_replay(self) -> None:
        """After a replay acknowledge, once, that it is completed."""
        if self._is_replaying and "completed" in self.request.acks:
            bookmark = format_bookmark(self._sent)
            completed = ack("completed", self.request.command_id, bookmark=bookmark, sub_id=self.sub_id)
            self.outbox.put(completed, (self.sub_id,))
        self._is_replaying = False

    def _send_progress(self) -> None:
        """Send the bookmark of an idle subscription, when a node has sent its own."""
        if self._keeps_up:
            self._note_sent()
            put_progress(self.outbox, self.sub_id, self._sent)

    # what leaves

    def _left(self, key: bytes, body: bytes) -> Delivery:
        """Return the `oof` for what the client holds with this body, and is not shown."""
        found = self._opened_view.left(key, body)
        if found is None:
            return no_longer_shown(body, None)
        found = msgspec.structs.replace(found, previous=body)
        return as_held(found) if self._topic.is_conflated else found

    async def _look_up_left(self, view: MergedView, positions: PositionsByLog) -> None:
        """Find out why records that the client holds are not shown, where no node has sent that."""
        shown = view.shown()
        unknown = [key for key in self._held if key not in shown and view.left(key, b"") is None]
        if not unknown or not self._options.oof:
            return
        context, name = self._context, self._topic.name
        keys, entitlement = [key.decode() for key in unknown], self._rights.read.of(name)
        try:
            # With all rights: a record that the client may not see any more was not deleted.
            found = await records_of(context.nodes, name, keys, context.limits, positions, self._slot)
        except SowlineError as error:
            # A node that is lost is reported like this, too.
            if error.reason == UNAVAILABLE:
                raise NodeLost(error.message) from error
            raise
        for key, body in found.items():
            gone = Delivery(OOF, body, MATCH, self._held[key].body)
            if entitlement.filter != ALL:
                gone = entitled(gone, entitlement.filter)
            if entitlement.select is not None:
                gone = msgspec.structs.replace(gone, body=entitlement.select.apply(gone.body))
            view.remove("", key, gone)
