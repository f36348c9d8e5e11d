"""The life of a served subscription: what is acknowledged, and when changes may pass."""

import asyncio
import json
from typing import Any

from sowline.serving.outbox.outbox import Outbox
from sowline.serving.result import Result
from sowline.subscriptions.live.client_gate import ClientGate
from sowline.subscriptions.live.led_subscription import LedSubscription
from sowline.subscriptions.service_lifecycle import CaughtUp, Held, Opening, SendOpening, ServiceSignal
from sowline.subscriptions.service_machine import LifeTerms
from sowline.wire.request import SowAndSubscribe, Subscribe
from sowline.wire.request_parser import parse_request
from tests.waiting import loop_turns

BOOKMARK = "orders:0@7"


class Lived(LedSubscription):
    """A subscription at one position, and what its client was sent."""

    _bookmark = BOOKMARK

    def __init__(
        self, kind: type[Subscribe] = SowAndSubscribe, replaced: Held | None = None, **fields: Any
    ) -> None:
        given = {"command": kind.command, "command_id": "1", "sub_id": "mine", "topic": "orders"}
        given |= {"ack_type": "processed,completed" + ",stats" * kind.command.startswith("sow"), **fields}
        request = parse_request(kind, json.dumps(given).encode())
        begins_now = request.bookmark_range.begins_now
        terms = LifeTerms.of(request, begins_now=begins_now, replaced=replaced)
        super().__init__(request, ClientGate(Outbox(1 << 20)), terms)
        self.gate = self._gate

    async def acks(self) -> list[tuple[str, str, str]]:
        """Return the type, bookmark and subscription of each acknowledgement since."""
        if not self.gate.outbox.unsent_bytes:
            return []
        found = [json.loads(text) for text in await self.gate.outbox.take()]
        return [(one["ack_type"], one.get("bookmark", ""), one.get("sub_id", "")) for one in found]


async def test_a_group_is_acknowledged_once() -> None:
    """Changes pass once it was sent; what feeds it may be lost later, which changes nothing about that."""
    life = Lived()
    assert life.tell(ServiceSignal.BEGUN) == SendOpening(Opening.GROUP)
    assert await life.acks() == [("processed", BOOKMARK, "mine")]
    assert not life.gate.is_open
    life.note_sent(Result())
    assert await life.acks() == [("completed", BOOKMARK, ""), ("stats", "", "")]
    assert life.gate.is_open
    life.tell(CaughtUp())
    life.tell(ServiceSignal.LOST)
    assert not life.gate.is_open
    assert life.tell(ServiceSignal.BEGUN) is None
    life.tell(CaughtUp())
    life.tell(ServiceSignal.COUNTED, Result())
    assert life.gate.is_open
    assert await life.acks() == []


async def test_a_client_that_comes_back() -> None:
    """It is completed when it was sent everything from before it came."""
    life = Lived(Subscribe, bookmark="orders:0@1")
    assert life.tell(ServiceSignal.BEGUN, bookmark="orders:0@1", up_to="orders:0@9") is None
    assert await life.acks() == [("processed", "orders:0@1", "mine")]
    life.tell(CaughtUp())
    life.tell(CaughtUp())
    assert await life.acks() == [("completed", BOOKMARK, "mine")]


async def test_changes_pass_unless_the_client_wants_none() -> None:
    """Whether it pauses before the group or after it, and until it has left."""
    life = Lived(options="pause")
    life.tell(ServiceSignal.BEGUN)
    life.tell(ServiceSignal.SENT)
    assert not life.gate.is_open
    waiting = asyncio.create_task(life.gate.wait())
    life.resume()
    await waiting
    life.pause()
    assert not life.gate.is_open
    life.resume()
    life.stop()
    life.resume()
    assert not life.gate.is_open


async def test_a_message_waits_for_room_and_for_the_client() -> None:
    """One that is paused while a message waits for room is not sent it."""
    outbox = Outbox(10)
    gate = ClientGate(outbox)
    gate.open()
    await gate.wait()
    outbox.put_behind(b"more than it has room for", ("mine",))
    waiting = asyncio.create_task(gate.wait())
    await loop_turns()
    gate.shut()
    await outbox.take()
    await loop_turns(3)
    assert not waiting.done()
    gate.open()
    await waiting


def test_what_a_replacement_begins_with() -> None:
    """The difference from what the client holds; everything, if that is not known."""
    assert Lived(replaced=Held.ALL).machine.begin.opening is Opening.REPLACE
    assert Lived(replaced=Held.UNKNOWN).machine.begin.opening is Opening.RESET
    assert Lived(Subscribe, replaced=Held.CHANGED, options="oof").machine.begin.opening is Opening.LEAVE
    assert Lived(Subscribe, replaced=Held.CHANGED).machine.begin.opening is Opening.NOTHING
