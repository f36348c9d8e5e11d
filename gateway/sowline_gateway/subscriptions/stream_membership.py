"""How a subscription to records joins a shared stream and leaves it, without a change missed or sent twice."""

import asyncio

from sowline.errors import SowlineError
from sowline.model.bookmark import PositionsByLog
from sowline.serving.cooperative import running
from sowline.serving.flag import Flag
from sowline.subscriptions.live.progress import ProgressTimer
from sowline_gateway.streams.member import Member
from sowline_gateway.streams.shared_streams import SharedStreams
from sowline_gateway.streams.stream import SharedStream
from sowline_gateway.subscriptions.outlets import ConflatingOutlet, PassingOutlet
from sowline_gateway.subscriptions.subscriber import RecordSubscriber

JOIN_AGAIN_SECONDS = 1.0
"""The time between two attempts to follow a stream, for a subscription that is served without one."""


class StreamMembership:
    """A subscription's relation to the stream of equal requests: a member, about to become one, or neither."""

    def __init__(self, subscriber: RecordSubscriber, outlet: PassingOutlet | ConflatingOutlet) -> None:
        self._subscriber = subscriber
        self._streams: SharedStreams = subscriber.context.streams
        self._seen = subscriber.seen
        self._outlet = outlet
        self._stream: SharedStream | None = None
        self._member: Member | None = None
        self._next: Member | None = None
        """The member that it is about to become: messages from `_goal` on wait there."""
        self._goal: PositionsByLog = {}
        self._progress_timer = ProgressTimer()
        self.settled = Flag()
        """Whether it has become a member, or can't join the stream that it waits for."""

    @property
    def is_member(self) -> bool:
        """Whether the stream sends the client's messages, or is about to."""
        return self._member is not None

    @property
    def sent(self) -> PositionsByLog:
        """The positions up to which the client was sent everything."""
        member = self._member
        return self._outlet.sent if member is None or member.sink is not None else member.sent

    @property
    def stream(self) -> SharedStream | None:
        """The stream that it is in, or waits for."""
        return self._stream

    # joining

    async def hold_stream(self) -> None:
        """Wait until there is a stream to join; raise why there is none."""
        assert self._stream is None, "it uses one stream"
        self._stream = await self._use()

    async def join(self) -> SharedStream:
        """Become a member, whose messages wait until `release`; raise why there is no stream."""
        if self._stream is None or self._stream.is_over:
            self.end()
            self._stream = await self._use()
        self._attach(self._stream)
        return self._stream

    async def _use(self) -> SharedStream:
        asked = self._subscriber
        return await self._streams.use(asked.request, asked.topics, asked.rights, relays=self._outlet.relays)

    def _attach(self, stream: SharedStream) -> None:
        assert self._member is None, "it is a member once"
        self._member = self._joined(stream)

    def _joined(self, stream: SharedStream) -> Member:
        sink = self._outlet if isinstance(self._outlet, ConflatingOutlet) else None
        return stream.join(self._subscriber.outbox, self._subscriber.sub_id, sink)

    def release(self) -> None:
        """Let the stream send to the client from now on, from the position that the outlet is at."""
        member = self._member
        assert member is not None, "it has joined"
        member.release(self._outlet.received)
        if member.is_in:
            self._seen.follow(member.stream_positions)
            member.on_leaving = self._note_leaving

    def _note_leaving(self) -> None:
        """Keep the client's positions as they are now, while the stream advances."""
        assert self._member is not None, "only a member leaves"
        self._seen.unfollow(self._member.stream_positions)

    async def wait_for_stream(self) -> None:
        """Wait until there is a stream; `join_if_level` may make the subscription a member from then on."""
        while self._stream is None:
            try:
                self._stream = await self._use()
            except SowlineError:
                # Its own subscriptions continue; a stream of the same nodes may begin later.
                await asyncio.sleep(JOIN_AGAIN_SECONDS)

    def join_if_level(self) -> bool:
        """Become a member if nothing is missing in between; return whether it is one.

        From the first attempt on, messages of the stream wait. So the client only needs what the members were sent
        until then. Under load, it might never have everything that they have at one instant.
        """
        stream = self._stream
        if stream is None or self.is_member:
            return self.is_member
        if stream.is_over:
            self.settled.set()
            return False
        # The last attempt may have held too many messages, and left its stream.
        if self._next is None or not self._next.is_in:
            self.give_up_joining()
            self._next = self._joined(stream)
            # A copy: the stream advances its own, and a goal that moves on might never be reached.
            self._goal = {log: dict(of) for log, of in stream.positions.items()}
        received = self._outlet.received
        for log, of in self._goal.items():
            mine = received.get(log, {})
            if any(number not in mine or mine[number] < position for number, position in of.items()):
                return False
        assert self._member is None, "it is a member once"
        self._member, self._next = self._next, None
        self.release()
        self.settled.set()
        return True

    def give_up_joining(self) -> None:
        """Let no messages of the stream wait: the client will not get the ones before them."""
        if self._next is not None and self._stream is not None:
            self._next.leave()
            self._stream.drop(self._next)
            self._next = None

    # leaving

    async def wait_left(self) -> None:
        """Wait until it has to leave, and leave; raise the error that ended the stream."""
        assert self._member is not None, "only a member leaves"
        try:
            async with running(self._outlet.background()):
                await self._member.wait_left()
            self._streams.fell_behind += self._member.is_too_slow
        finally:
            self.end()

    def leave(self) -> None:
        """Take no more messages, from now on."""
        if self._member is not None:
            self._member.leave()
        self.give_up_joining()

    def end(self) -> None:
        """Leave the stream, or wait for it no longer; the outlet knows what the client was sent."""
        member, stream = self._member, self._stream
        if member is not None and stream is not None:
            member.leave()
            stream.drop(member)
            if isinstance(self._outlet, PassingOutlet):
                # A stream passes messages on without the outlet, which must learn where the client is.
                self._outlet.note(member.begun)
        self.give_up_joining()
        assert self._next is None, "what waits in a stream has that stream"
        self._member = self._stream = None
        self.settled.clear()
        if stream is not None:
            self._streams.end_use(stream)

    def quiet_position(self) -> PositionsByLog | None:
        """Return the bookmark of a member if its client should be sent that now: if it is idle."""
        member = self._member
        if member is None or not member.is_released:
            return None
        was_sent, member.was_sent = member.was_sent, False
        # As in the query service, positions are made only for an idle member.
        sent = {} if was_sent else self.sent
        return sent if self._progress_timer.look(was_sent, sent) else None
