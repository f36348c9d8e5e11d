"""A client's subscription to records: a member of a shared stream, or one with subscriptions of its own at the nodes.

The live messages of a record come from the node that holds its partition, in its order, and each message has the
bookmark of its partition. So they need no merging. The snapshot is one group, made of the groups of all nodes. The
live messages wait until it has been sent.

A subscription that begins now joins the shared stream of all that ask for the same. It has subscriptions of its own
while its client lacks changes that the stream has passed: it came back with a bookmark, was paused, or is slow. Then
the gateway reads no faster than the client. Once the client has what the members have, it joins the stream. If a
node is lost, all partitions continue from the positions that the client was sent, at the nodes that hold them now.
"""

import asyncio
import contextlib
import itertools
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import msgspec

from sowline.errors import SowlineError
from sowline.model.bookmark import PositionsByLog, format_bookmark, lay_over, parse_bookmark
from sowline.serving.authorization.entitlements import Rights
from sowline.serving.cooperative import running
from sowline.serving.flag import Flag
from sowline.serving.outbox.group import (
    Mark,
    acknowledge_completed,
    acknowledge_processed,
    send_group,
)
from sowline.serving.outbox.outbox import Outbox
from sowline.serving.query_slots import QuerySlot, QueryTurn
from sowline.serving.result import Result
from sowline.serving.sessions.status import State, SubscriptionStatus
from sowline.subscriptions.live.progress import put_view_checksum
from sowline.subscriptions.live.request_checks import GONE
from sowline.wire.node_queries import (
    COMMAND_ID,
    about_subscription,
    difference_of,
    held_by,
    subscription_of,
)
from sowline.wire.request import Heartbeat, Subscribe, from_now, returned, with_snapshot
from sowline.wire.server_message import ack
from sowline_gateway.context import GatewayContext
from sowline_gateway.nodes.connections import NodeLost, NodeMessage
from sowline_gateway.nodes.failover import AGAIN_SECONDS, FAILOVER_SECONDS
from sowline_gateway.nodes.routing import UNAVAILABLE
from sowline_gateway.query.part import Part, longest_lag
from sowline_gateway.query.seen import SeenPositions, newest
from sowline_gateway.query.sharded_query import ShardedQuery
from sowline_gateway.streams.catch_up_slot import CatchUpSlot
from sowline_gateway.streams.stream import SharedStream
from sowline_gateway.subscriptions.checksum import NodeChecksums
from sowline_gateway.subscriptions.outlets import ConflatingOutlet, PassingOutlet, outlet_of
from sowline_gateway.subscriptions.replacement import HeldView, send_leaving
from sowline_gateway.subscriptions.stream_membership import StreamMembership

PATIENCE_SECONDS = 5.0
"""How long a subscription keeps connections of its own to the nodes while its client reads nothing."""

LATER_ID = "later"
"""The id of a command about that subscription."""


class FreshGroup(Exception):
    """A node can't continue, and begins with a new snapshot. The gateway then takes one of all nodes.

    `mark` is how the client gets it.
    """

    def __init__(self, mark: Mark) -> None:
        super().__init__("a node begins with a new group")
        self.mark: Mark = mark


class ForwardedSubscription:
    """A subscription of a client, over all nodes of its topics."""

    def __init__(
        self,
        context: GatewayContext,
        outbox: Outbox,
        request: Subscribe,
        topics: Sequence[str],
        rights: Rights,
        seen: SeenPositions,
        snapshot_slot: QuerySlot,
        slot: CatchUpSlot,
        replaced: "ForwardedSubscription | None" = None,
    ) -> None:
        """Prepare a subscription; stop the one that it replaces."""
        self._is_replacement = replaced is not None
        self._held: HeldView | None = None
        """Until it begins, what the client of the replaced subscription holds, if that is known."""
        self._context = context
        self._outbox = outbox
        self.request = request
        self._topics = topics
        self._logs = [context.nodes.topics[name].log for name in topics]
        self._rights = rights
        self._seen = seen
        self._snapshot_slot = snapshot_slot
        self._sub_id = request.id_of_subscription
        self._query: ShardedQuery | None = None
        self._going = Flag()
        if not request.options.pause:
            self._going.set()
        definitions = {name: context.nodes.topics[name] for name in topics}
        self._outlet = outlet_of(outbox, request, definitions, self._turn)
        self._up_to = ""
        """The bookmark of the end, if it is known."""
        self._nodes_are_paused = False
        """Whether the nodes of the query began paused."""
        self._membership: StreamMembership | None = None
        """Its relation to a stream; None if it is paced: with an end or a rate."""
        if isinstance(self._outlet, PassingOutlet | ConflatingOutlet):
            self._membership = StreamMembership(
                context.streams, outbox, request, topics, rights, self._outlet, seen
            )
        self._slot = slot
        self._is_sending = False
        """Whether changes of subscriptions of its own at the nodes are being sent."""
        self._interrupted = Flag()
        """Whether it must give up its subscriptions at the nodes: the client has paused it, or reads nothing."""
        self._caught_up = Flag()
        """Whether the nodes have sent everything from before its own subscription began."""
        self._at_nodes = Flag()
        """Whether it has a subscription of its own at all nodes."""
        self._taking = 0
        """Messages that wait for the client now."""
        self._checksum: NodeChecksums | None = None
        self._is_proving = False
        self._checking = asyncio.Lock()
        self._numbers = itertools.count(1)
        self._owes_completed = "completed" in request.acks
        self._owes_stats = "stats" in request.acks
        self._is_stopped = False
        self.has_begun = False
        self.is_querying = False
        # Last: a request that is refused leaves the other subscription as it is.
        if replaced is not None:
            self._held = replaced.held()

    # serving

    async def run(self) -> bytes | None:
        """Serve until cancelled, or until the requested end; raise if it can't continue.

        At the end return the `completed` acknowledgement.
        """
        request = self.request
        mark: Mark = "reset" if self._is_replacement else None
        self._context.subscriptions.add(self)
        try:
            if self._joins_at_once:
                await self._begin_in_stream(mark)
                request, mark = await self._returned(), None
            while True:
                began = time.monotonic()
                try:
                    try:
                        await self._begin(request, mark)
                        is_over = await self._send_all()
                    finally:
                        self._slot.free()
                    if is_over:
                        return self._completed()
                    request, mark = await self._returned(), None
                    continue
                except NodeLost:
                    # Continue where the client is, at the nodes that hold the partitions now.
                    request, mark = self._continued(), None
                except FreshGroup as fresh:
                    request, mark = self._afresh(), fresh.mark
                self._fail_checksum()
                await asyncio.sleep(max(0.0, began + AGAIN_SECONDS - time.monotonic()))
        finally:
            self._context.subscriptions.discard(self)
            self._fail_checksum()
            if self._membership is not None:
                self._membership.end()
            if self._query is not None:
                await self._query.close()

    # as a member of a shared stream

    @property
    def _is_member(self) -> bool:
        return self._membership is not None and self._membership.is_member

    @property
    def _joins_at_once(self) -> bool:
        """Whether it can begin in a shared stream. One that comes back has to catch up first, by itself."""
        request = self.request
        if self._membership is None or not request.bookmark_range.begins_now:
            return False
        if request.has_snapshot:
            return all(self._context.nodes.topics[name].has_sow for name in self._topics)
        return not request.demands_fresh or self._compared is not None

    @property
    def _compared(self) -> HeldView | None:
        """What the client holds, if it must be sent the difference from that; None if it begins like a new one."""
        held = self._held
        if held is None:
            return None
        if self.request.has_snapshot:
            # Without a snapshot, the client was sent only the records that changed: what it lacks is not known.
            return held if held.is_complete else None
        return held if self.request.options.oof else None

    async def _returned(self) -> Subscribe:
        """Wait until a member has to leave the stream, and until the client has room; return the request to go on."""
        assert self._membership is not None
        if self._membership.is_member:
            await self._membership.left()
        await self._turn()
        return self._continued()

    async def _begin_in_stream(self, mark: Mark) -> None:
        """Join the stream. Send the snapshot or the difference, if any, at the stream's positions or later ones."""
        assert self._membership is not None
        held, has_snapshot = self._compared, self.request.has_snapshot
        self.is_querying = has_snapshot or held is not None
        # First the stream, which may have to wait for nodes: others run meanwhile.
        await self._membership.hold_stream()
        async with self._snapshot_slot:
            if self.is_querying:
                await self._snapshot_slot.take()
            stream = await self._membership.join()
            floor = self._floor_in(stream)
            if held is None or not await self._send_difference(held, floor):
                if has_snapshot:
                    await self._send_snapshot(mark, floor)
                else:
                    self._note_begun(floor)
                    self._acknowledge_begin(stream.lag_seconds())
        self.is_querying = False
        if self._is_stopped or not self._going.is_set():
            self._membership.leave()
        self._membership.release()

    def _floor_in(self, stream: SharedStream) -> PositionsByLog:
        """Return where it begins at the earliest: what the stream has sent until now never comes again."""
        return newest(self._seen.floor(self._logs, self.request.at_least), stream.positions)

    async def _send_snapshot(self, mark: Mark, floor: PositionsByLog) -> None:
        """Send the records as a group, with the acknowledgements."""
        request, context = from_now(self.request), self._context
        query = ShardedQuery(context.nodes, request, self._topics, self._rights, context.limits, floor)
        try:
            await query.begin(self._snapshot_slot)
            self._note_begun(query.positions)
            await self._send_group(request, query, mark)
        finally:
            await query.close()

    async def _send_group(self, request: Subscribe, query: ShardedQuery, mark: Mark) -> None:
        await send_group(self._outbox, request, query, mark)
        self._acknowledge_completed(query.bookmark)
        self._acknowledge_counts(query.result)

    async def _send_difference(self, held: HeldView, floor: PositionsByLog) -> bool:
        """Send which records leave the client's view, and a group of those that it lacks, with the acknowledgements.

        Return False if the nodes can't determine what the client holds; then nothing was sent.
        """
        request, context = from_now(self.request), self._context
        if not request.has_snapshot:
            request = msgspec.structs.replace(request, top_n=0, skip_n=None)
        query = ShardedQuery(
            context.nodes,
            request,
            self._topics,
            self._rights,
            context.limits,
            floor,
            partial(difference_of, held=held_by(held.request, held.positions)),
            has_group=False,
            compared=[name for name in held.topics if name not in self._topics],
        )
        try:
            try:
                await query.begin(self._snapshot_slot)
            except SowlineError as error:
                if error.reason not in GONE:
                    raise
                return False
            self._note_begun(query.positions)
            now = "" if request.has_snapshot else query.bookmark
            await send_leaving(self._outbox, self._sub_id, query, held.bookmark, now)
            if request.has_snapshot:
                await self._send_group(request, query, "replace")
            else:
                async for _ in query.records():
                    pass  # the counts follow
                self._acknowledge_begin(query.result.lag_seconds)
        finally:
            await query.close()
        return True

    def _note_begun(self, positions: PositionsByLog) -> None:
        """Note at which positions it begins in the stream, and acknowledge that."""
        self.has_begun, self._held = True, None
        self._outlet.begin((), positions)
        self._seen.note(positions)
        bookmark = format_bookmark(positions)
        acknowledge_processed(self._outbox, self.request, bookmark=bookmark, sub_id=self._sub_id)

    async def _join_when_level(self, membership: StreamMembership) -> None:
        """Join the stream once the client was sent as much as its members."""
        while not membership.is_member:
            # First the stream: its positions are then such that the client will soon reach them.
            await membership.wait_for_stream()
            await self._caught_up.wait()
            self._join_if_level()
            await membership.settled.wait()
            if not membership.is_member:
                membership.end()

    def _join_if_level(self) -> None:
        # A change that waits for the client now would be sent by the stream, too.
        is_held = self._taking or self._is_proving or self._is_stopped or not self._going.is_set()
        is_free = self._is_sending and self._caught_up.is_set() and not is_held
        if self._membership is not None and is_free and self._membership.join_if_level():
            self._at_nodes.clear()

    def _continued(self) -> Subscribe:
        """Return the request of a client that comes back with its bookmark."""
        request = self.request
        if not request.options.reset:
            # `now` and `epoch` are for the bookmark of the client's request. If changes are gone later, that is an
            # error: the client must learn of it.
            options = replace(request.options, bookmark_not_found="fail")
            request = msgspec.structs.replace(request, options=options)
        return returned(request, self._outlet.sent, parse_bookmark(self._up_to) if self._up_to else None)

    def _afresh(self) -> Subscribe:
        """Return the request of a new client, with a snapshot: it replaces what the client holds."""
        floor = newest(self._seen.floor(self._logs), self._outlet.sent)
        request = with_snapshot(from_now(self.request))
        return msgspec.structs.replace(request, at_least=floor, staleness_seconds_max=None)

    async def _begin(self, request: Subscribe, mark: Mark) -> None:
        """Begin at all nodes; send the group, if there is one, and the acknowledgements that are due."""
        self._at_nodes.clear()
        self._caught_up.clear()
        self._interrupted.clear()
        before, self._query = self._query, None
        if before is not None:
            await before.close()
        has_group = request.has_snapshot and not request.bookmark_range.is_return
        if has_group:
            self.is_querying = True
            async with self._snapshot_slot:
                await self._snapshot_slot.take()
                query = await self._begun(request, self._snapshot_slot, has_group=True)
                try:
                    await send_group(self._outbox, request, query, mark)
                except BaseException:
                    await query.close()
                    raise
            self.is_querying = False
        else:
            if self._membership is not None:
                await self._slot.take()
            query = await self._begun(request, self._slot, has_group=False)
        self._query = query
        self._acknowledge(query, has_group=has_group)
        self._look_whether_caught_up(query)
        # The client may have paused or resumed while there was no query to tell
        # (test_pause_and_resume_while_the_snapshot_is_sent).
        if self._membership is not None:
            if not self._going.is_set():
                self._interrupted.set()
        elif self._nodes_are_paused == self._going.is_set():
            await self._tell(query, "resume" if self._nodes_are_paused else "pause")
        self._at_nodes.set()

    async def _begun(self, request: Subscribe, turn: QueryTurn, *, has_group: bool) -> ShardedQuery:
        """Return a subscription that has begun at all nodes; others may have its turn while it waits for nodes."""
        self._nodes_are_paused = not self._going.is_set()
        subscription = partial(
            subscription_of,
            request=request,
            is_paused=self._nodes_are_paused,
            relays=self._outlet.relays,
        )
        seen = self._seen if request.bookmark_range.begins_now else SeenPositions()
        context, topics, floor = self._context, self._topics, seen.floor(self._logs, request.at_least)
        query = ShardedQuery(
            context.nodes,
            request,
            topics,
            self._rights,
            context.limits,
            floor,
            subscription,
            has_group=has_group,
        )
        try:
            await query.begin(turn)
            self._outlet.begin(query.parts, query.positions)
            # Also those of a bookmark: the client has seen them.
            self._seen.note(query.positions)
            if not self.has_begun:
                self.has_begun, self._held = True, None
                self._up_to = _end_of(query.parts)
                fields = {"up_to": self._up_to, "sub_id": self._sub_id}
                acknowledge_processed(self._outbox, self.request, bookmark=query.bookmark, **fields)
        except BaseException:
            await query.close()
            raise
        return query

    def _acknowledge(self, query: ShardedQuery, *, has_group: bool = False) -> None:
        """Send the acknowledgements that are due: of a group that was sent, and of nodes that have caught up."""
        is_endless = self.request.bookmark_range.end is None
        if is_endless and all(part.is_completed for part in query.parts):
            self._acknowledge_completed(query.bookmark if has_group else "")
        if has_group:
            self._acknowledge_counts(query.result)
        elif all(part.has_counts for part in query.parts):
            self._acknowledge_counts(Result(lag_seconds=longest_lag(query.parts)))

    def _acknowledge_completed(self, group: str = "") -> None:
        """Acknowledge, once, that the begin is complete; `group` is the bookmark of the group, if there was one."""
        if not self._owes_completed:
            return
        self._owes_completed = False
        if group:
            acknowledge_completed(self._outbox, self.request, group)
        else:
            self._outbox.put(self._completed(), (self._sub_id,))

    def _acknowledge_begin(self, lag_seconds: float | None) -> None:
        """Acknowledge that the begin is complete, without a group."""
        self._acknowledge_completed()
        self._acknowledge_counts(Result(lag_seconds=lag_seconds))

    def _acknowledge_counts(self, result: Result) -> None:
        """Acknowledge the counts, once."""
        if self._owes_stats:
            self._owes_stats = False
            self._outbox.put(ack("stats", self.request.command_id, **result.stats), (self._sub_id,))

    def _completed(self) -> bytes:
        bookmark = format_bookmark(self._outlet.sent)
        return ack("completed", self.request.command_id, bookmark=bookmark, sub_id=self._sub_id)

    async def _send_all(self) -> bool:
        """Send the changes of all nodes; raise when one is lost or begins with a new group.

        Return whether the requested end is reached. If not, the subscription is a member of a stream, or its client
        has paused it or reads nothing.
        """
        assert self._query is not None
        over = asyncio.ensure_future(self._outlet.run())
        waits = [over]
        if self._membership is not None:
            waits.append(asyncio.ensure_future(self._join_when_level(self._membership)))
            waits.append(asyncio.ensure_future(self._interrupted.wait()))
        self._is_sending = True
        try:
            async with running(self._take_from(part) for part in self._query.parts):
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        except (NodeLost, FreshGroup):
            if not self._is_member:
                raise
        finally:
            self._is_sending = False
            if self._membership is not None:
                self._membership.give_up_joining()
            for one in waits:
                one.cancel()
        if over.done() and not over.cancelled():
            over.result()
            return True
        query, self._query = self._query, None
        await query.close()
        return False

    async def _turn(self) -> None:
        """Wait until the client is not paused, and its outbox has room."""
        await self._going.wait()
        await self._outbox.wait_turn()
        while not self._going.is_set():
            await self._going.wait()
            await self._outbox.wait_turn()
        if self._is_stopped:
            # It is cancelled soon, and sends nothing until then.
            await asyncio.get_running_loop().create_future()

    async def _take_from(self, part: Part) -> None:
        async for received in part.live():
            match received.command:
                case "publish" | "oof":
                    await self._take(received, part)
                case "progress" if received.command_id:
                    # A checksum that was requested before may arrive late: its command has failed.
                    if self._checksum is not None and self._checksum.command_id == received.command_id:
                        await self._checksum.add(received)
                case "progress":
                    await self._take(received, part)
                case "caught_up":
                    await self._outlet.catch_up(part)
                case "ack":
                    await self._note_ack(part, received)
                case "group_begin":
                    raise FreshGroup("reset" if received.reset else None)

    async def _take(self, received: NodeMessage, part: Part) -> None:
        if self._is_member:
            return  # the stream sends it
        self._taking += 1
        try:
            # A client that reads nothing must not keep connections: there may be many such clients.
            async with asyncio.timeout(None if self._membership is None else PATIENCE_SECONDS):
                await self._outlet.take(part, received)
        except TimeoutError:
            self._interrupted.set()
            await asyncio.get_running_loop().create_future()
        finally:
            self._taking -= 1
        positions = parse_bookmark(received.bookmark)
        self._seen.note(positions)
        self._context.nodes.note_shown(part.url, positions)
        self._join_if_level()

    def _look_whether_caught_up(self, query: ShardedQuery) -> None:
        if all(part.is_completed for part in query.parts):
            self._caught_up.set()
            self._slot.free()

    async def _note_ack(self, part: Part, received: NodeMessage) -> None:
        assert self._query is not None
        if received.command_id != COMMAND_ID:
            checksum = self._checksum
            is_of_it = checksum is not None and checksum.command_id == received.command_id
            if checksum is not None and is_of_it and received.status == "failure":
                checksum.fail(SowlineError(received.reason, received.message))
            return
        if received.ack_type == "completed":
            if self._membership is not None:
                self._membership.note(parse_bookmark(received.bookmark))
            await self._outlet.complete(part, received)
        part.note_ack(received)
        self._acknowledge(self._query)
        self._look_whether_caught_up(self._query)

    # the interface of a session

    def stop(self) -> None:
        """Send nothing more, from now on."""
        self._is_stopped = True
        self._leave()

    def held(self) -> HeldView | None:
        """Stop, and return what the client holds; None if that is unknown."""
        self.stop()
        # It replaces another one, and was replaced before it has sent anything: the client still holds the records of
        # the first.
        if not self.has_begun:
            return self._held
        # Within a snapshot it is unknown which of its records the client has; and so it is after one with a limit.
        if self.is_querying or self.request.top_n is not None:
            return None
        sent = self._outlet.sent if self._membership is None else self._membership.sent
        return HeldView(self.request, self._topics, {log: dict(of) for log, of in sent.items()})

    def _leave(self) -> None:
        """Leave the stream; its messages that wait for the snapshot are read again by the subscription itself."""
        if self._membership is not None:
            self._membership.leave()

    def pause(self) -> None:
        """Send nothing more until `resume`."""
        self._going.clear()
        self._leave()
        if self._membership is None:
            self._tell_soon("pause")
        else:
            self._interrupted.set()

    def resume(self) -> None:
        """Continue from the position at which it was paused."""
        self._going.set()
        if self._membership is None:
            self._tell_soon("resume")

    def quiet_position(self) -> PositionsByLog | None:
        """Return its bookmark if the client should be sent that now: if it is idle in a stream.

        Otherwise return None: the nodes send the bookmarks of idle subscriptions, and these are passed on.
        """
        return None if self._membership is None else self._membership.quiet_position()

    def subscription_status(self) -> SubscriptionStatus:
        """Return whether it is live. The gateway does not know how far it is behind, and returns 0."""
        return SubscriptionStatus(self.request, self._state, 0, 0.0)

    @property
    def _state(self) -> State:
        if not self.has_begun:
            return "beginning"
        if self.is_querying:
            return "group"
        if not self._going.is_set():
            return "paused"
        if self._membership is None:
            return "paced"
        return "live" if self._is_member or self._caught_up.is_set() else "catching up"

    @property
    def live_topics(self) -> Sequence[str]:
        """The topics in which it is live now."""
        return self._topics if self._state == "live" else ()

    async def prove(self, request: Heartbeat) -> None:
        """Send a checksum of the records that the client should hold; raise if there can't be one."""
        async with self._checking:
            if not self._going.is_set() or self._membership is None:
                raise SowlineError(
                    "not supported", "expected a subscription without an end or a rate that is not paused"
                )
            if self._query is None and not self._is_member:
                raise _not_ready()
            self._is_proving = True
            try:
                await self._prove_at_nodes(request)
            finally:
                self._is_proving = False
                self._join_if_level()

    async def _prove_at_nodes(self, request: Heartbeat) -> None:
        if self._is_member:
            # The nodes make checksums in order with the messages of one client.
            self._leave()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FAILOVER_SECONDS):
                    await self._at_nodes.wait()
        if self._query is None:
            raise _not_ready()
        checksum = NodeChecksums(f"checksum {next(self._numbers)}", len(self._query.parts))
        self._checksum = checksum
        try:
            await self._tell(self._query, "heartbeat", checksum.command_id)
            await checksum.wait()
            # The client compares at the bookmark of the checksum, and needs what was held back.
            self._outlet.flush()
            put_view_checksum(self._outbox, request, checksum.bookmark, checksum.records, checksum.hash)
            self._seen.note(checksum.positions)
            if self._membership is not None:
                self._membership.note(checksum.positions)
        except NodeLost:
            raise _lost() from None
        finally:
            self._checksum = None
            checksum.is_sent.set()

    def _fail_checksum(self) -> None:
        if self._checksum is not None:
            self._checksum.fail(_lost())

    async def _tell(self, query: ShardedQuery, command: str, command_id: str = LATER_ID) -> None:
        """Send a command about the subscription to all nodes."""
        request = about_subscription(command, command_id)
        for part in query.parts:
            if part.connection is not None:
                await part.connection.send(request)

    def _tell_soon(self, command: str) -> None:
        if self._query is not None:
            task = asyncio.ensure_future(self._tell(self._query, command))
            # If a node is lost meanwhile, the subscription begins at another one as it should be.
            task.add_done_callback(lambda done: done.cancelled() or done.exception())


def _end_of(parts: Sequence[Part]) -> str:
    """Return the bookmark of the end; empty if a node does not know it."""
    if not all(part.up_to for part in parts):
        return ""
    positions: PositionsByLog = {}
    for part in parts:
        positions = lay_over(positions, parse_bookmark(part.up_to))
    return format_bookmark(positions)


def _not_ready() -> SowlineError:
    return SowlineError("not ready", "the subscription is beginning at its query services; retry shortly")


def _lost() -> SowlineError:
    return SowlineError(UNAVAILABLE, "a query service was lost while it made a checksum; ask again")
