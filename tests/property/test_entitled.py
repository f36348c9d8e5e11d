"""Subscriptions with `oof` of somebody who may only see some records, or some fields, against the model of all."""

from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from hypothesis import event, example, given
from hypothesis import strategies as st

from sowline.serving.result import QueryLimits
from tests.examples import examples
from tests.property.asks import Ask, asks, asks_for_records, writes
from tests.property.clock import ClockLoop
from tests.property.connections import Connection
from tests.property.recorded_service import ROOMY, Service
from tests.property.subscribers import Subscriber

mine = st.sampled_from(["some records", "some fields"])
batches = st.lists(
    st.lists(st.lists(writes, min_size=1, max_size=2), min_size=1, max_size=4), min_size=3, max_size=8
)
pages = st.builds(
    Ask,
    st.sampled_from(["sow_and_subscribe", "sow_and_delta_subscribe"]),
    st.sampled_from(["", "", "/n > 1"]),
    st.sampled_from(["", "[-/o/x]"]),
    conflation=st.sampled_from(["", "", "50ms"]),
    order=st.sampled_from(["", "/n"]),
    top_n=st.integers(2, 4),
    skip_n=st.sampled_from([0, 0, 1]),
)
both = st.tuples(asks_for_records(), asks_for_records()) | st.tuples(pages, pages) | st.tuples(asks, asks)
PAGE = Ask("sow_and_subscribe", order="/n", top_n=2, skip_n=0)
HIDDEN_THEN_GONE: list[Any] = [[[(0, body)]] for body in (None, {"n": 3, "g": "a"}, {"n": 0, "g": "a"})]
"""Writes that, in their reverse order, show a record, hide it, and delete it."""


@examples(150)
@example("some records", (PAGE, PAGE), HIDDEN_THEN_GONE, HIDDEN_THEN_GONE, 1)
@given(whose=mine, asked=both, before=batches, after=batches, limits=st.integers(1, 3))
def test_only_what_may_be_seen(
    whose: str, asked: tuple[Ask, Ask], before: list[Any], after: list[Any], limits: int
) -> None:
    """Through updates, a replacement and a lost connection: nothing that may not be seen, and nothing that stays."""
    loop = ClockLoop()
    with ExitStack() as stack:
        stack.callback(loop.close)
        service = Service(loop, limits, 1000, ROOMY, QueryLimits())
        stack.enter_context(service.patched())
        loop.run_until_complete(_run(service, whose, [_with_oof(ask, whose) for ask in asked], before, after))


def _with_oof(ask: Ask, whose: str) -> Ask:
    return replace(ask, whose=whose, words=(*(word for word in ask.words if word != "oof"), "oof"))


async def _run(service: Service, whose: str, asked: list[Ask], before: list[Any], after: list[Any]) -> None:
    service.loaded()
    connection = Connection(service, whose)
    first, then = asked
    subscriber = connection.subscribers["s"] = Subscriber(service, "s", first)
    connection.ask(subscriber, first, "fresh", first.fields())
    await _write(connection, before)
    await _miss(connection, subscriber, before)
    if first.replaced_by(then) == "replace":
        connection.is_calm = False
        service.write(after[0])
        connection.ask(subscriber, then, "replace", then.fields("replace"))
        subscriber.asked = then
        subscriber.replaced_at.add(service.loop.time())
        await _write(connection, after)
    subscriber.check_now()
    for reason in connection.reasons:
        event(reason)
    connection.client.session.close()
    await service.loop.rest()


async def _miss(connection: Connection, subscriber: Subscriber, batches: list[Any]) -> None:
    """Write while a page is paused: its client gets the difference once it goes on."""
    if not subscriber.asked.is_window:
        return
    connection.ask(subscriber, None, "halt", {"command": "pause"})
    await connection.read()
    for batch in reversed(batches):
        connection.service.write(batch)
    subscriber.is_back = True
    connection.ask(subscriber, None, "halt", {"command": "resume"})
    await connection.read()
    await connection.service.loop.tick(6000)
    await connection.read()


async def _write(connection: Connection, batches: list[Any]) -> None:
    """Write batches, and read what comes of each, after the longest interval."""
    for batch in batches:
        connection.service.write(batch)
        await connection.read()
        await connection.service.loop.tick(6000)
        await connection.read()
