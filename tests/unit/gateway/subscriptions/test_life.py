"""The life of a subscription at a gateway: what is acknowledged, and when changes may pass."""

import asyncio
import json
from typing import Any

from sowline.model.bookmark import PositionsByLog
from sowline.model.position import Position
from sowline.serving.outbox.outbox import Outbox
from sowline.serving.result import Result
from sowline.subscriptions.service_lifecycle import CaughtUp, Held, LifeTerms, Opening, ServiceSignal
from sowline.wire.request import SowAndSubscribe, Subscribe
from sowline.wire.request_parser import parse_request
from sowline_gateway.subscriptions.life import ClientGate, GatewayLife

AT: PositionsByLog = {"orders": {0: Position(0, 7)}}
BOOKMARK = "orders:0@7"


class Lived:
    """The life of one subscription, and what its client was sent."""

    def __init__(self, kind: type[Subscribe] = SowAndSubscribe, replaced: Held | None = None, **fields: Any):
        given = {"command": kind.command, "command_id": "1", "sub_id": "mine", "topic": "orders"}
        given |= {"ack_type": "processed,completed" + ",stats" * kind.command.startswith("sow"), **fields}
        request = parse_request(kind, json.dumps(given).encode())
        self.outbox = Outbox(1 << 20)
        begins_now = request.bookmark_range.begins_now
        terms = LifeTerms.of(request, begins_now=begins_now, replaced=replaced)
        self.life = GatewayLife(ClientGate(self.outbox), self.outbox, request, terms)

    async def acks(self) -> list[tuple[str, str, str]]:
        """Return the type, bookmark and subscription of each acknowledgement since."""
        if not self.outbox.unsent_bytes:
            return []
        found = [json.loads(text) for text in await self.outbox.take()]
        return [(one["ack_type"], one.get("bookmark", ""), one.get("sub_id", "")) for one in found]


async def test_a_group_is_acknowledged_once() -> None:
    """Changes pass once it was sent; a node that is lost later changes nothing about that."""
    lived = Lived()
    life = lived.life
    assert life.begin(AT)
    assert life.opening is Opening.GROUP
    assert await lived.acks() == [("processed", BOOKMARK, "mine")]
    assert not life.gate.is_open
    life.handle(ServiceSignal.SENT, AT)
    life.handle(ServiceSignal.COUNTED, result=Result())
    assert await lived.acks() == [("completed", BOOKMARK, ""), ("stats", "", "")]
    assert life.gate.is_open
    life.handle(CaughtUp())
    life.handle(ServiceSignal.LOST)
    assert not life.gate.is_open
    assert not life.begin(AT)
    life.handle(CaughtUp(), AT)
    life.handle(ServiceSignal.COUNTED, result=Result())
    assert life.gate.is_open
    assert await lived.acks() == []


async def test_a_client_that_comes_back() -> None:
    """It is completed when it was sent everything from before it came."""
    lived = Lived(Subscribe, bookmark="orders:0@1")
    assert not lived.life.begin(AT, "orders:0@9")
    assert await lived.acks() == [("processed", BOOKMARK, "mine")]
    lived.life.handle(CaughtUp(), AT)
    lived.life.handle(CaughtUp(), AT)
    assert await lived.acks() == [("completed", BOOKMARK, "mine")]


async def test_changes_pass_unless_the_client_wants_none() -> None:
    """Whether it pauses before the group or after it, and until it has left."""
    life = Lived(options="pause").life
    life.begin(AT)
    life.handle(ServiceSignal.SENT, AT)
    assert not life.gate.is_open
    waiting = asyncio.create_task(life.gate.wait())
    life.handle(ServiceSignal.RESUME)
    await waiting
    life.handle(ServiceSignal.PAUSE)
    assert not life.gate.is_open
    life.handle(ServiceSignal.RESUME)
    life.handle(ServiceSignal.LEAVE)
    life.handle(ServiceSignal.RESUME)
    assert not life.gate.is_open


async def test_a_message_waits_for_room_and_for_the_client() -> None:
    """One that is paused while a message waits for room is not sent it."""
    outbox = Outbox(10)
    gate = ClientGate(outbox)
    gate.open()
    await gate.wait()
    outbox.put_behind(b"more than it has room for", ("mine",))
    waiting = asyncio.create_task(gate.wait())
    await asyncio.sleep(0)
    gate.shut()
    await outbox.take()
    for _ in range(3):
        await asyncio.sleep(0)
    assert not waiting.done()
    gate.open()
    await waiting


def test_what_a_replacement_begins_with() -> None:
    """The difference from what the client holds; everything, if that is not known."""
    assert Lived(replaced=Held.ALL).life.opening is Opening.REPLACE
    assert Lived(replaced=Held.UNKNOWN).life.opening is Opening.RESET
    assert Lived(Subscribe, replaced=Held.CHANGED, options="oof").life.opening is Opening.LEAVE
    assert Lived(Subscribe, replaced=Held.CHANGED).life.opening is Opening.NOTHING
