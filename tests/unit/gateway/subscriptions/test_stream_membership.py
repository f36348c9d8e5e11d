"""How a subscription joins a stream that goes on meanwhile."""

import json
from types import SimpleNamespace
from typing import Any, cast

from sowline.model.bookmark import PositionsByLog
from sowline.model.position import Position
from sowline.serving.authorization.entitlements import EVERYTHING
from sowline.serving.outbox.outbox import Outbox
from sowline.wire.request import Subscribe
from sowline_gateway.nodes.node_message import NodeMessage, messages_of
from sowline_gateway.query.seen import SeenPositions
from sowline_gateway.streams.member import HeldBytes, LiveMessage, Member, put_to_client
from sowline_gateway.subscriptions.node_flow import FlowEnd, NodeFlow
from sowline_gateway.subscriptions.outlets import PassingOutlet
from sowline_gateway.subscriptions.shared_records import SharedRecords
from sowline_gateway.subscriptions.stream_membership import StreamMembership
from sowline_gateway.subscriptions.subscriber import RecordSubscriber


class MovingStream:
    """A stream of one partition."""

    def __init__(self, offset: int) -> None:
        self.positions: PositionsByLog = {"orders": {0: Position(0, offset)}}
        self.is_over = False
        self.members: list[Member] = []

    def join(self, outbox: Outbox, sub_id: str, sink: Any) -> Member:
        """Add a member."""
        self.members.append(Member(outbox, sub_id, sink, self.positions, HeldBytes()))
        return self.members[-1]

    def drop(self, member: Member) -> None:
        """Remove a member."""
        self.members.remove(member)

    def send(self, offset: int) -> None:
        """Send a change to all members."""
        text = {"command": "publish", "sids": ["s"], "topic": "orders", "bookmark": f"orders:0@{offset}"}
        [received] = messages_of(json.dumps(text, separators=(",", ":")).encode())
        message = LiveMessage(received, "orders", 0, Position(0, offset))
        for member in list(self.members):
            if member.is_in and member.wants(message):
                put_to_client(message, [member])
        self.positions["orders"][0] = Position(0, offset)


class Streams:
    """The streams of a gateway, of which there is one."""

    def __init__(self, stream: MovingStream) -> None:
        self._stream = stream

    async def use(self, *_: object, relays: bool) -> MovingStream:
        """Return it."""
        return self._stream

    def end_use(self, stream: MovingStream) -> None:
        """Use it no longer."""


async def waiting_for(stream: MovingStream, outbox: Outbox) -> tuple[PassingOutlet, StreamMembership]:
    """Return a subscription that wants to join a stream: what sends to its client, and its relation to the stream."""
    request = Subscribe(sub_id="mine", topic="orders")
    outlet = PassingOutlet(outbox, "mine", cast("Any", None))
    context: Any = SimpleNamespace(streams=Streams(stream))
    subscriber = RecordSubscriber(context, outbox, request, ["orders"], EVERYTHING, SeenPositions())
    membership = StreamMembership(subscriber, outlet)
    await membership.hold_stream()
    return outlet, membership


async def test_a_subscription_joins_although_it_is_always_behind() -> None:
    """It needs what the stream had sent when it first tried; from there on, what the stream sends waits for it."""
    outbox, stream = Outbox(1 << 20), MovingStream(3)
    outlet, membership = await waiting_for(stream, outbox)
    for offset in range(1, 6):
        outlet.note({"orders": {0: Position(0, offset)}})
        stream.send(offset + 3)
        if membership.join_if_level():
            break
    # It has tried first when the stream was at 4. It is sent from 5 on what it does not have, each message once.
    assert offset == 4
    stream.send(9)
    bookmarks = [json.loads(text)["bookmark"] for text in await outbox.take()]
    assert bookmarks == [f"orders:0@{number}" for number in (5, 6, 7, 9)]
    membership.leave()
    assert membership.sent == {"orders": {0: Position(0, 9)}}
    membership.end()
    assert not stream.members


async def test_what_the_stream_is_to_send_counts_as_seen_when_it_was_sent() -> None:
    """A node's message that comes once the subscription has joined waits at the stream, and ends the flow."""
    outbox, stream = Outbox(1 << 20), MovingStream(3)
    context: Any = SimpleNamespace(
        streams=SimpleNamespace(end_use=lambda stream: None),
        nodes=SimpleNamespace(note_shown=lambda *given: None),
    )
    request, seen = Subscribe(sub_id="mine", topic="orders"), SeenPositions()
    subscriber = RecordSubscriber(context, outbox, request, ["orders"], EVERYTHING, seen)
    records = SharedRecords(subscriber, cast("Any", None), cast("Any", None), None)
    records._membership._stream = cast("Any", stream)
    records._shared.note({"orders": {0: Position(0, 3)}})
    assert records._membership.join_if_level()
    flow = NodeFlow(subscriber, request, records._shared, records)
    part: Any = SimpleNamespace(url="http://node")
    ending = await flow._pass_on(part, NodeMessage(command="publish", bookmark="orders:0@5"))
    assert ending is FlowEnd.INTERRUPTED
    assert seen.floor(["orders"]) == {"orders": {0: Position(0, 3)}}
    stream.send(5)
    assert seen.floor(["orders"]) == {"orders": {0: Position(0, 5)}}


async def test_an_attempt_to_join_is_given_up() -> None:
    """Nothing waits any more, and the next attempt begins where the stream is then."""
    stream = MovingStream(3)
    outlet, membership = await waiting_for(stream, Outbox(1 << 20))
    outlet.note({"orders": {0: Position(0, 1)}})
    assert not membership.join_if_level()
    stream.send(4)
    membership.give_up_joining()
    assert not stream.members
    outlet.note({"orders": {0: Position(0, 3)}})
    assert not membership.join_if_level(), "4 is missing"
    outlet.note({"orders": {0: Position(0, 4)}})
    assert membership.join_if_level()
