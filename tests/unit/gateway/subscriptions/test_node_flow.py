"""The subscriptions at nodes that one subscription has of its own: how they end, and what ends with them."""

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sowline.errors import SowlineError
from sowline.serving.cooperative import first_of
from sowline.subscriptions.service_lifecycle import Renewed
from sowline.wire.node_queries import COMMAND_ID
from sowline.wire.request import SowAndSubscribe
from sowline_gateway.nodes.connections import NodeLost
from sowline_gateway.nodes.node_message import NodeMessage
from sowline_gateway.query.seen import SeenPositions
from sowline_gateway.subscriptions.node_flow import Ending, FlowEnd, NodeFlow
from tests.waiting import as_soon_as


class PlayedPart:
    """A node's subscription whose messages the test makes."""

    url = "http://node"
    is_completed = has_counts = True
    up_to = ""

    def __init__(self) -> None:
        self.messages: asyncio.Queue[NodeMessage | None] = asyncio.Queue()
        self.sent: list[tuple[str, str]] = []
        self.connection = self

    async def send(self, request: Any) -> None:
        """Note a command about the subscription."""
        self.sent.append((request.command, request.command_id))

    def note_ack(self, received: NodeMessage) -> None:
        """Take an acknowledgement."""

    async def live(self) -> AsyncIterator[NodeMessage]:
        """Yield messages until the node is lost."""
        while (received := await self.messages.get()) is not None:
            yield received
        raise NodeLost(self.url)


class PlayedClient:
    """A subscription that is fed by nodes."""

    relays = False

    def __init__(self) -> None:
        self.taken: list[str] = []
        self.reads = True

    def begin(self, parts: Any, positions: Any) -> None:
        """Take messages of these nodes."""

    async def take(self, part: Any, received: NodeMessage) -> bool:
        """Take a message, unless the client reads nothing."""
        self.taken.append(received.bookmark)
        return self.reads

    def note_acknowledged(self) -> None:
        """Note that a node has acknowledged something."""


class Played:
    """A flow over two nodes, and what becomes of it."""

    def __init__(self) -> None:
        self.parts = [PlayedPart(), PlayedPart()]
        self.client = PlayedClient()
        self.ended: Ending | None = None
        subscriber = SimpleNamespace(
            seen=SeenPositions(),
            floor=lambda *given: {},
            query=lambda *given, **more: SimpleNamespace(
                parts=self.parts, positions={}, begin=self.at_once, close=self.at_once
            ),
            context=SimpleNamespace(nodes=SimpleNamespace(note_shown=lambda *given: None)),
        )
        outlet: Any = self.client
        request = SowAndSubscribe(sub_id="mine", topic="orders")
        self.flow = NodeFlow(cast("Any", subscriber), request, outlet, self.client)

    async def at_once(self, *given: Any) -> None:
        """Begin or end at the nodes at once."""

    async def run(self) -> None:
        """Follow the nodes until the flow ends."""
        async with self.flow:
            await self.flow.begin(None, is_paused=False)
            self.ended = await first_of(self.flow.followed())

    async def checksum(self) -> int:
        """Return how many records the client should hold; nothing was sent since."""
        async with self.flow.checksum() as checksum:
            assert self.client.taken == []
            return checksum.records


def a_message(command: str, **fields: Any) -> NodeMessage:
    """Return a message of a node."""
    return NodeMessage(command=command, **fields)


def a_checksum(records: int, command_id: str) -> NodeMessage:
    """Return the checksum of a node."""
    return a_message("progress", command_id=command_id, records=records, hash="1", bookmark="orders:0@1")


async def asked(played: Played) -> str:
    """Return the id of the checksum that the nodes are asked for."""
    await as_soon_as(lambda: all(part.sent for part in played.parts))
    ((command, command_id),) = {sent for part in played.parts for sent in part.sent}
    assert command == "heartbeat"
    return command_id


async def test_a_checksum_is_of_all_nodes() -> None:
    """It is lent when all have sent theirs; the messages behind them wait for the block."""
    played = Played()
    following = asyncio.create_task(played.run())
    proving = asyncio.create_task(played.checksum())
    command_id = await asked(played)
    for part in played.parts:
        part.messages.put_nowait(a_checksum(2, command_id))
        part.messages.put_nowait(a_message("publish", bookmark="orders:0@2"))
    assert await proving == 4
    part.messages.put_nowait(a_checksum(3, command_id))  # late: nobody wants it
    part.messages.put_nowait(None)
    await following
    assert played.ended is FlowEnd.LOST
    assert played.client.taken == ["orders:0@2"] * 2


@pytest.mark.parametrize(
    ("what", "ending", "reason"),
    [
        (a_message("group_begin"), Renewed(), "not ready"),
        (a_message("group_begin", reset=True), Renewed(is_reset=True), "not ready"),
        (None, FlowEnd.LOST, "shard unavailable"),
        ("interrupt", FlowEnd.INTERRUPTED, "not ready"),
        (a_message("publish", bookmark="orders:0@2"), FlowEnd.INTERRUPTED, "not ready"),
    ],
)
async def test_a_checksum_ends_with_the_flow(what: Any, ending: Ending, reason: str) -> None:
    """A client whose node begins with a new group, or that pauses meanwhile, does not wait for it for ever."""
    played = Played()
    played.client.reads = False
    following = asyncio.create_task(played.run())
    proving = asyncio.create_task(played.checksum())
    played.parts[0].messages.put_nowait(a_checksum(2, await asked(played)))
    if what == "interrupt":
        played.flow.interrupt()
    else:
        played.parts[1].messages.put_nowait(what)
    async with asyncio.timeout(5):
        await following
        with pytest.raises(SowlineError) as refused:
            await proving
    assert played.ended == ending
    assert refused.value.reason == reason


async def test_a_node_refuses_a_checksum() -> None:
    """Its error is the one of the checksum; the flow goes on."""
    played = Played()
    following = asyncio.create_task(played.run())
    proving = asyncio.create_task(played.checksum())
    command_id = await asked(played)
    error = {"status": "failure", "reason": "no sow", "message": "none"}
    played.parts[0].messages.put_nowait(a_message("ack", command_id=command_id, **error))
    with pytest.raises(SowlineError, match="none"):
        await proving
    played.parts[0].messages.put_nowait(a_message("ack", command_id=COMMAND_ID, ack_type="stats"))
    played.parts[0].messages.put_nowait(a_message("publish", bookmark="orders:0@2"))
    played.parts[0].messages.put_nowait(None)
    await following
    assert played.client.taken == ["orders:0@2"]
