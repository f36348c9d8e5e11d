"""The hub: who is live, and what each change is to them."""

import json
from unittest.mock import patch

from sowline.language.filter import compile_filter
from sowline.model.position import Position
from sowline.serving.outbox.outbox import Outbox
from sowline.subscriptions.engine.subscription import Subscription
from sowline.wire.options import Options
from sowline_query_service.live.subscription import LiveSubscription
from sowline_query_service.query.selection import Selection
from tests.unit.query_service.sessions import Server
from tests.waiting import loop_turns


def live(server: Server, outbox: Outbox, sub_id: str, text: str = "") -> LiveSubscription:
    """Return a live subscription."""
    engine = Subscription(compile_filter(text), oof=True)
    active = LiveSubscription(outbox, sub_id, server.topic, engine, Selection(options=Options(oof=True)))
    server.dispatcher.add(active)
    return active


async def test_clients_get_their_own_messages() -> None:
    """Two clients get one message each; a client without a match gets none."""
    server, boxes = Server().loaded(), [Outbox(1000) for _ in range(3)]
    for box, text in zip(boxes, ("", "/a = 1", "/a = 2"), strict=True):
        live(server, box, "s", text)
    server.put({"id": 1, "a": 1})
    assert [len(box.take_now()) for box in boxes[:1] + boxes[2:]] == [1, 0]
    assert (server.dispatcher.live, server.dispatcher.messages_sent) == (3, 2)
    assert (server.dispatcher.live_in("orders"), server.dispatcher.live_in("others")) == (3, 0)
    assert json.loads((await boxes[1].take())[0])["sids"] == ["s"]


async def test_who_is_removed_is_sent_nothing() -> None:
    """After its removal a subscription gets nothing, and removing it twice does not matter."""
    server, box = Server().loaded(), Outbox(1000)
    active = live(server, box, "s")
    for _ in range(2):
        server.dispatcher.remove(active)
    server.put({"id": 1})
    assert (server.dispatcher.live, len(box.take_now())) == (0, 0)


async def test_who_is_too_slow_falls_behind_where_it_was_left() -> None:
    """A full outbox ends being live: the subscription stands at the last change that it was sent."""
    server, box = Server().loaded(), Outbox(10)
    active = live(server, box, "s")
    server.put({"id": 1})
    server.put({"id": 2})
    assert (server.dispatcher.live, len(box.take_now())) == (0, 1)
    assert active.positions == {0: Position(0, 0)}


async def test_many_subscriptions_end_in_several_turns() -> None:
    """A client that leaves keeps the event loop from others only for some of its subscriptions at a time."""
    server = Server().loaded()
    client = server.connect()
    for number in range(5):
        client.ask(command="subscribe", command_id="1", topic="orders", sub_id=f"s{number}")
    await loop_turns()
    assert server.dispatcher.live == 5
    with patch("sowline.serving.sessions.open_subscriptions.ENDED_A_TURN", 2):
        client.session.close()
        assert server.dispatcher.live == 3
        await loop_turns()
        assert server.dispatcher.live == 1
        await loop_turns()
    assert server.dispatcher.live == 0
