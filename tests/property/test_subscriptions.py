"""Subscriptions of every kind, by clients that lag, leave and change their minds, against a model of what they hold.

The model (`holdings.py`) works out afresh, from the records as they were at the client's bookmark, what the client
should hold; the client (`subscribers.py`) does with messages what docs/api.md says.
"""

import json
from collections.abc import Coroutine
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from sowline.model.bookmark import format_bookmark
from sowline.serving.result import QueryLimits
from tests.examples import examples
from tests.property.asks import FILTERS, GROUPINGS, IDS, KEY_OF, MINE, Ask, asks, bodies, writes
from tests.property.clock import ClockLoop
from tests.property.connections import Connection
from tests.property.recorded_service import NARROW, ROOMY, Service
from tests.property.subscribers import Subscriber
from tests.unit.query_service.sessions import Json


class Subscriptions(RuleBasedStateMachine):
    """Writers, a clock, and clients of all kinds."""

    @initialize(
        partitions=st.integers(1, 3),
        ring=st.sampled_from([1000, 3]),
        backlog=st.sampled_from([ROOMY, NARROW]),
        first=st.lists(bodies, min_size=6, max_size=6),
        asked=st.lists(asks, min_size=1, max_size=3),
        whose=st.sampled_from(list(MINE)),
    )
    def begin(
        self, partitions: int, ring: int, backlog: int, first: list[Json], asked: list[Ask], whose: str
    ) -> None:
        """Begin with some records and subscriptions."""
        self.loop = ClockLoop()
        self.stack = ExitStack()
        self.service = Service(self.loop, partitions, ring, backlog, QueryLimits())
        self.backlog = backlog
        self.stack.enter_context(self.service.patched())
        self.connections: list[Connection] = []
        self.sids = 0
        self.run(self._begin(first, whose))
        for ask in asked:
            self.subscribe(0, ask, settle=True)

    async def _begin(self, first: list[Json], whose: str) -> None:
        self.service.loaded()
        self.service.write([[write] for write in enumerate(first)])
        self.connections = [Connection(self.service, whose), Connection(self.service, "everything")]

    def run(self, step: Coroutine[Any, Any, None]) -> None:
        """Run something, and look at no more than that."""
        self.loop.run_until_complete(step)

    @rule(
        batch=st.lists(st.lists(writes, min_size=1, max_size=3), min_size=1, max_size=8), settle=st.booleans()
    )
    def write(self, batch: list[Any], settle: bool) -> None:
        """Some log records arrive."""

        async def step() -> None:
            self.service.write(batch)
            if settle:
                await self.loop.rest()

        self.run(step())

    @rule(number=st.sampled_from(IDS), times=st.integers(1, 2))
    def write_again(self, number: int, times: int) -> None:
        """An update changes nothing."""

        async def step() -> None:
            text = self.service.bodies.get(KEY_OF[number].encode())
            if text is not None:
                body = json.loads(text)
                del body["id"]
                self.service.write([[(number, body)]] * times)

        self.run(step())

    @rule(number=st.sampled_from(IDS), name=st.sampled_from("onnggt"), body=bodies)
    def write_field(self, number: int, name: str, body: Json) -> None:
        """An update of one field, or without it."""

        async def step() -> None:
            text = self.service.bodies.get(KEY_OF[number].encode())
            if text is not None:
                now = json.loads(text)
                del now["id"]
                now.pop(name, None)
                self.service.write([[(number, now | ({name: body[name]} if name in body else {}))]])

        self.run(step())

    @rule(partition=st.integers(0, 2))
    def move_on(self, partition: int) -> None:
        """A partition moves on without a change."""

        async def step() -> None:
            self.service.progress(partition % len(self.service.past))

        self.run(step())

    @rule(which=st.integers(0, 1), ask=asks, settle=st.booleans())
    def subscribe(self, which: int, ask: Ask, settle: bool) -> None:
        """A new subscription."""
        connection = self.connections[which]
        ask = replace(ask, whose=connection.whose)
        if len(connection.subscribers) < 4:
            self.sids += 1
            subscriber = Subscriber(self.service, f"s{self.sids}", ask)
            connection.subscribers[subscriber.sid] = subscriber
            self.run(self._ask(connection, subscriber, ask, "fresh", ask.fields(), settle))

    async def _ask(
        self, connection: Connection, subscriber: Subscriber, ask: Ask, kind: str, fields: Json, settle: bool
    ) -> None:
        if self.backlog == NARROW or not settle:
            connection.is_calm = False
        connection.ask(subscriber, ask, kind, fields)
        if kind in ("fresh", "replace", "back"):
            subscriber.asked = ask
            subscriber.replaced_at.add(self.loop.time())
        if settle:
            await self.loop.rest()

    @rule(which=st.integers(0, 1), slot=st.integers(0, 3), ask=asks, settle=st.booleans())
    def replace(self, which: int, slot: int, ask: Ask, settle: bool) -> None:
        """A subscription takes another one's place, or is of another kind."""
        subscriber = self._subscriber(which, slot)
        if subscriber is not None:
            ask = replace(ask, whose=self.connections[which].whose)
            kind = subscriber.asked.replaced_by(ask)
            fields = ask.fields("replace")
            self.run(self._ask(self.connections[which], subscriber, ask, kind, fields, settle))

    @rule(which=st.integers(0, 1), slot=st.integers(0, 3), narrower=st.sampled_from(list(FILTERS)))
    def replace_filter(self, which: int, slot: int, narrower: str) -> None:
        """Only the filter changes."""
        subscriber = self._subscriber(which, slot)
        if subscriber is not None:
            ask = Ask(**(vars(subscriber.asked) | {"filter": narrower}))
            fields = ask.fields("replace")
            self.run(self._ask(self.connections[which], subscriber, ask, "replace", fields, settle=True))

    @rule(
        which=st.integers(0, 1),
        slot=st.integers(0, 3),
        wrong=st.sampled_from(
            [
                ({"filter": "/n >"}, "bad filter"),
                ({"topic": "nosuch"}, "invalid topic"),
                ({"order_by": "n"}, "invalid order by"),
                ({"bookmark": "epoch"}, "invalid bookmark"),
                ("conflation=1s,conflation_key=[/n],oof", "invalid options"),
                ("conflation_key=[/t", "invalid options"),
                ("select=[/n]", "invalid options"),
                ("", "subid in use"),
            ]
        ),
    )
    def replace_wrongly(self, which: int, slot: int, wrong: tuple[Json | str, str]) -> None:
        """What is refused leaves the old subscription as it is."""
        subscriber = self._subscriber(which, slot)
        if subscriber is not None:
            fields, (change, reason) = subscriber.asked.fields("replace"), wrong
            if isinstance(change, str):
                words = ("replace", change) if change else ()
                fields = Ask(**(vars(subscriber.asked) | {"conflation": "", "words": ()})).fields(*words)
            else:
                fields |= change
            self.run(
                self._ask(self.connections[which], subscriber, subscriber.asked, reason, fields, settle=True)
            )

    def _subscriber(self, which: int, slot: int) -> Subscriber | None:
        there = list(self.connections[which].subscribers.values())
        return there[slot] if slot < len(there) else None

    @rule(which=st.integers(0, 1), slot=st.integers(0, 3))
    def unsubscribe(self, which: int, slot: int) -> None:
        """A subscription ends; nothing comes behind that."""
        subscriber, connection = self._subscriber(which, slot), self.connections[which]

        async def step(subscriber: Subscriber) -> None:
            connection.ask(subscriber, None, "end", {"command": "unsubscribe"})
            await connection.read()

        if subscriber is not None:
            self.run(step(subscriber))

    @rule(which=st.integers(0, 1))
    def read(self, which: int) -> None:
        """A client reads all that there is."""
        self.run(self.connections[which].read())

    @rule(which=st.integers(0, 1))
    def sip(self, which: int) -> None:
        """A client reads a frame."""
        self.run(self.connections[which].sip())

    @rule(milliseconds=st.sampled_from([1, 10, 49, 50, 60, 150, 200, 1000]))
    def tick(self, milliseconds: int) -> None:
        """Time passes."""
        self.run(self.loop.tick(milliseconds))

    @rule(which=st.integers(0, 1), reads=st.booleans(), misses=st.lists(writes, max_size=4))
    def come_back(self, which: int, reads: bool, misses: list[Any]) -> None:
        """A connection is lost, and all its subscriptions come back on a new one."""
        self.run(self._come_back(which, reads, misses))

    async def _come_back(self, which: int, reads: bool, misses: list[Any]) -> None:
        connection = self.connections[which]
        if reads:
            await connection.read()
        connection.client.session.close()
        self.service.write([[write] for write in misses])
        new = self.connections[which] = Connection(self.service, connection.whose)
        new.is_calm = False
        for subscriber in connection.subscribers.values():
            holding = subscriber.committed()
            bookmark = (
                {}
                if holding.positions is None
                else {"bookmark": format_bookmark({"orders": holding.positions})}
            )
            kind = "back" if bookmark else "fresh"
            new.subscribers[subscriber.sid] = subscriber
            if not bookmark:
                holding.ask = subscriber.asked
            await self._ask(new, subscriber, holding.ask, kind, holding.ask.fields() | bookmark, settle=False)
        await new.read()

    @rule()
    def come_to_rest(self) -> None:
        """Once all is read, and the intervals are over, everybody holds what is shown now."""
        self.run(self._come_to_rest())

    async def _come_to_rest(self) -> None:
        for _ in range(3):
            for connection in self.connections:
                await connection.read()
            await self.loop.tick(6000)
        for connection in self.connections:
            await connection.read()
            for subscriber in connection.subscribers.values():
                subscriber.check_now()

    def teardown(self) -> None:
        """Come to rest, and leave nothing behind."""
        if not hasattr(self, "loop"):
            return
        try:
            self.run(self._come_to_rest())
        finally:
            self.run(self._close())
            self.stack.close()
            self.loop.close()

    async def _close(self) -> None:
        for connection in self.connections:
            connection.client.session.close()
        await self.loop.rest()


TestSubscriptions = Subscriptions.TestCase
TestSubscriptions.settings = examples(60, stateful_step_count=30)


def test_a_group_that_went_meanwhile() -> None:
    """Nobody can tell which of its records was the latest: the one that it shows was in it."""
    a, b = {"n": 0, "g": "a"}, {"n": 0, "g": "b"}
    groups = Ask("sow_and_subscribe", words=("oof",), grouping=GROUPINGS[2])
    machine = Subscriptions()
    machine.begin(1, 1000, ROOMY, [a, a, a, a, a, b], [groups], "everything")
    machine.come_back(which=0, reads=False, misses=[(0, a), (1, None)])
    machine.write(batch=[[(0, None), (3, None), (4, None)]], settle=False)
    machine.come_back(which=0, reads=False, misses=[(2, None)])
    machine.teardown()
