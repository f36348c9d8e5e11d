"""The windows of nodes that a page or groups at a gateway are merged from: how they are opened and followed."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from sowline.errors import SowlineError
from sowline.language.filter import ALL
from sowline.model.bookmark import PositionsByLog, parse_bookmark
from sowline.serving.authorization.entitlements import Rights
from sowline.serving.query_slots import QuerySlot
from sowline.serving.window_memory import HELD_BYTES, WindowBytes, WindowHolder
from sowline.subscriptions.engine.shown import ShownRecord
from sowline.subscriptions.engine.subscription import MATCH, OOF, Delivery, hidden
from sowline.wire.node_queries import NodeQuery, past_view_of, view_of
from sowline.wire.request import Read
from sowline.wire.server_message import ms_of
from sowline_gateway.context import GatewayContext
from sowline_gateway.nodes.connections import NodeLost
from sowline_gateway.nodes.failover import AGAIN_SECONDS
from sowline_gateway.nodes.node_message import NodeMessage
from sowline_gateway.nodes.routing import UNAVAILABLE
from sowline_gateway.query.keyed_records import RecordsAsked, left_since, read_record, records_of
from sowline_gateway.query.part import Part
from sowline_gateway.query.seen import NONE, SeenPositions, newest
from sowline_gateway.query.sharded_query import ShardedQuery
from sowline_gateway.subscriptions.held_window import HeldWindow
from sowline_gateway.subscriptions.merged_window import MergedWindow
from sowline_gateway.subscriptions.past_window import past_record
from sowline_gateway.subscriptions.window_request import WindowRequest


@dataclass(frozen=True, slots=True)
class WindowSubscriber:
    """A client that asks for a page or groups: its request, its rights, and the positions it was shown."""

    context: GatewayContext
    asked: WindowRequest
    rights: Rights
    seen: SeenPositions
    """The positions that its connection was shown."""
    slot: QuerySlot
    holder: WindowHolder


class Shows(Protocol):
    """The subscription of a client to the merged windows."""

    def note_step(self, when: int | None) -> None:
        """Note that a node has sent a step, and its time if the client wants that."""

    def note_idle(self) -> None:
        """Note that an idle node has sent its bookmark."""


@dataclass(slots=True)
class OpenedWindow:
    """The merged windows of all nodes, at the positions that they have sent."""

    query: ShardedQuery
    merged: MergedWindow
    positions: PositionsByLog


class WindowParts:
    """The windows of all nodes. `open` them first, and again when `followed` says that they have ended."""

    def __init__(self, subscriber: WindowSubscriber) -> None:
        self._subscriber = subscriber
        self._context = subscriber.context
        self._asked = subscriber.asked
        self._slot = subscriber.slot
        self._bytes = WindowBytes(subscriber.context.views)
        self._opened: OpenedWindow | None = None

    @property
    def opened(self) -> OpenedWindow:
        """The merged windows."""
        assert self._opened is not None, "it was opened"
        return self._opened

    def enter(self) -> None:
        """Count the memory for the client from now on."""
        self._bytes.enter(self._subscriber.holder)

    async def close(self) -> None:
        """Stop counting the memory, and end the windows of the nodes."""
        self._bytes.leave(self._subscriber.holder)
        if self._opened is not None:
            await self._opened.query.close()

    # the start

    async def past(self) -> ShardedQuery:
        """Return the query for the window at the client's bookmark or time; raise why there is none."""
        request = self._asked.in_the_past()
        query = self._query(request, NONE, past_view_of)
        try:
            await query.begin(self._slot)
        except BaseException:
            await query.close()
            raise
        return query

    async def hold_past(self, past: ShardedQuery, held: HeldWindow) -> None:
        """Note that the client holds the window of its bookmark or time; raise `views too large`."""
        shown: dict[bytes, ShownRecord] = {}
        nbytes = 0
        async for portion in past.records():
            for record in portion.records:
                key, of = past_record(record)
                shown[key] = of
                nbytes += len(of.body) + HELD_BYTES
            self._bytes.note(nbytes)
        held.hold(shown, past.positions, is_guess=self._asked.tells_latest)

    async def open(self, held: HeldWindow, at_least: PositionsByLog = NONE) -> None:
        """Begin at all nodes, read their windows, and find out why records that the client holds are not shown.

        Raise `shard unavailable`, or why the request is refused.
        """
        has_turn = self._slot.is_taken
        while (opened := await self._try_to_open(held, at_least)) is None:
            self._slot.free()
            await asyncio.sleep(AGAIN_SECONDS)
            if has_turn:
                # A start that gave up waiting for nodes has freed it (test_what_begins_again_takes_its_turn_again).
                await self._slot.take()
        before, self._opened = self._opened, opened
        assert before is not opened, "a window that is opened again is another one"
        if before is not None:
            await before.query.close()
        # Other nodes may answer now, at other positions: everything is compared.
        held.touch_all()

    async def _try_to_open(self, held: HeldWindow, at_least: PositionsByLog) -> OpenedWindow | None:
        """Return the merged windows; None if a node is lost before they are complete."""
        query = self._begun(self._floor(held, at_least))
        try:
            opened = await self._read(query, held)
            await self._look_up_left(opened, held)
        except NodeLost:
            await query.close()
            return None
        except BaseException:
            await query.close()
            raise
        return opened

    def _floor(self, held: HeldWindow, at_least: PositionsByLog) -> PositionsByLog:
        """Return the positions that the nodes must have reached."""
        # A client that comes back holds its window at a bookmark that this connection has not shown yet.
        shown = held.positions if self._opened is None else newest(self._opened.positions, held.positions)
        return newest(self._subscriber.seen.floor([self._asked.topic.log], at_least), shown)

    def _begun(self, floor: PositionsByLog) -> ShardedQuery:
        asked = self._asked
        parts = partial(view_of, user=self._subscriber.holder.user, records=asked.records_at_nodes)
        return self._query(asked.at_nodes(), floor, parts)

    def _query(
        self, request: Read, floor: PositionsByLog, instead: Callable[[NodeQuery], NodeQuery]
    ) -> ShardedQuery:
        context, topics, rights = self._context, [self._asked.topic.name], self._subscriber.rights
        return ShardedQuery(context.nodes, request, topics, rights, context.limits, floor, instead)

    async def _read(self, query: ShardedQuery, held: HeldWindow) -> OpenedWindow:
        """Begin at all nodes, and read their windows; raise `NodeLost`, `shard unavailable` or other errors."""
        await query.begin(self._slot)
        merged = self._asked.merged(self._context.limits.groups_max)
        async for part, batch in query.batches():
            for record in batch.records:
                found = read_record(record)
                merged.put(part.share, found.sow_key.encode(), bytes(found.data), bytes(found.relayed))
            self._count_bytes(merged, held)
        query.count()
        return OpenedWindow(query, merged, query.positions)

    def _count_bytes(self, merged: MergedWindow, held: HeldWindow) -> None:
        """Count the memory of the window; raise `views too large` if there is no room for it."""
        self._bytes.note(merged.measure() + len(held.shown) * HELD_BYTES)

    async def _look_up_left(self, opened: OpenedWindow, held: HeldWindow) -> None:
        """Find out why records that the client holds are not shown, if no node has sent the reason."""
        unknown = held.unexplained(opened.merged) if self._asked.options.oof else []
        if not unknown:
            return
        try:
            left = await self._left(unknown, opened, held)
        except SowlineError as error:
            # A node that is lost is reported like this, too.
            if error.reason == UNAVAILABLE:
                raise NodeLost(error.message) from error
            raise
        assert left.keys() <= set(unknown), "nodes send records that they are asked for"
        for key, gone in left.items():
            opened.merged.remove("", key, gone)

    async def _left(
        self, sow_keys: list[bytes], opened: OpenedWindow, held: HeldWindow
    ) -> dict[bytes, Delivery]:
        """Return the `oof` of records that the client holds, unless it says no more than that they were deleted."""
        subscriber, name = self._subscriber, self._asked.topic.name
        asked = RecordsAsked(self._context.nodes, name, subscriber.rights, self._context.limits)
        keys = [key.decode() for key in sow_keys]
        found = await records_of(asked, keys, opened.positions, self._slot)
        left = {key: Delivery(OOF, body, MATCH, held.shown[key].body) for key, body in found.items()}
        gone = [key for key in sow_keys if key not in found]
        keys = [key.decode() for key in gone]
        if gone and subscriber.rights.read.of(name).filter != ALL:
            reported = await left_since(asked, keys, held.positions, opened.positions, self._slot)
            # If it is no longer known how a record left, the user learns nothing of that
            # (test_how_a_record_left_is_no_longer_known).
            left |= {key: reported.get(key, hidden(held.shown[key].body)) for key in gone}
        return left

    # the changes

    def followed(self, client: Shows, held: HeldWindow) -> Iterable[Coroutine[Any, Any, None]]:
        """Return a coroutine for each node: it ends when the node is lost, or begins again."""
        opened = self.opened
        return [self._follow(opened, part, client, held) for part in opened.query.parts]

    async def _follow(self, opened: OpenedWindow, part: Part, client: Shows, held: HeldWindow) -> None:
        # Collected up to its last message: if the node is lost within a step, half of it must not be shown.
        step: list[NodeMessage] = []
        try:
            async for received in part.live():
                match received.command:
                    case "publish" | "oof":
                        step.append(received)
                        if not received.more:
                            client.note_step(self._take(opened, part, step, held))
                            step = []
                    case "progress":
                        self._note_positions(opened, part, received.bookmark)
                        client.note_idle()
                    case "group_begin":
                        return
                    case _:
                        pass
        except NodeLost:
            return

    def _take(
        self, opened: OpenedWindow, part: Part, step: list[NodeMessage], held: HeldWindow
    ) -> int | None:
        """Apply a step of a node; return its time, if the client wants that."""
        window = opened.merged
        for received in step:
            key = received.sow_key.encode()
            if received.command == OOF:
                known = ShownRecord.read(b"", bytes(received.relayed)).known
                body = bytes(received.data)
                gone = Delivery(OOF, body, received.reason, body, known)
                # The reason matters only for records that the client holds. Others would take memory.
                window.remove(part.share, key, gone if key in held.shown else None)
            else:
                window.put(part.share, key, bytes(received.data), bytes(received.relayed))
        self._note_positions(opened, part, step[-1].bookmark)
        self._count_bytes(window, held)
        timestamp = step[-1].timestamp if self._asked.form.timestamp else ""
        when = ms_of(timestamp) if timestamp else None
        held.touch((received.sow_key.encode() for received in step), when)
        return when

    def _note_positions(self, opened: OpenedWindow, part: Part, bookmark: str) -> None:
        positions = parse_bookmark(bookmark)
        opened.positions = newest(opened.positions, positions)
        self._context.nodes.note_shown(part.url, positions)
