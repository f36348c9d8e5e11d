"""One run of the demo over a running system: the feed, and everything that watches its records."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

import orjson
from rich.console import Console, RenderableType

from examples.flights.board import OPTIONS, Board, board_filter, date_line, new_york, picture
from examples.flights.computed import GROUPED_BY, Body, recompute_views, view_difference
from examples.flights.counter import ChangeCounter
from examples.flights.data import Airport
from examples.flights.feed import Feed
from examples.flights.processes import DemoError
from examples.flights.recompute import recompute
from examples.flights.screen import Screen
from examples.flights.summary import Summary
from examples.flights.view import View, differences, percentile
from sowline import AsyncClient
from sowline.model.key import sow_key

TOPIC = "flights"
DOMAIN = f"{TOPIC}\0".encode()
LATENCIES = 200
"""The newest changes whose latency the landing page shows."""
GAP_S = 2.0
"""Where no change has come for so long, the landing page's chart has a gap."""
AHEAD_MAX = 50_000
"""How many facts the feed may be ahead of the subscriber of everything before it waits."""
STALL_S_MAX = 90.0
"""How long nothing may move before the demo gives up waiting for what it has fed."""
QUERY_S_MAX = 300.0
LOOK_S = 0.05
REFRESH_S = 0.5
BOARD_MARGIN_LINES = 9


class Run:
    """Feeds the flights, follows all of them and the board of one airport, and reports what was lost."""

    def __init__(
        self,
        airport: str,
        url: str,
        feed: Feed,
        airports: Sequence[Airport],
        counter: ChangeCounter,
        console: Console,
    ) -> None:
        self._url = url
        self._airports = airports
        self._feed = feed
        self._counter = counter
        self._view = View()
        self._board = Board(airport)
        self._zone = new_york()
        self._console = console
        self._screen = Screen(console, self._picture)
        self._sow_size: int | None = None
        self._groups: dict[str, int | None] = dict.fromkeys(GROUPED_BY)
        self._moved = ((0, 0, 0, 0), time.monotonic())
        self._is_held = False
        """Whether the feed waits, so that everything can be compared."""
        self._outages = 0
        self._is_ending = False
        """Whether the feed has ended."""

    async def watch(self) -> None:
        """Follow the topic and the board, and show it, until cancelled."""
        with self._screen:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._follow_all())
                tasks.create_task(self._follow_board())
                tasks.create_task(self._refresh())

    async def replay(self, until: float | None, stop: asyncio.Event) -> None:
        """Feed until a moment of the monotonic clock, or `stop`; wait until log, SOW and subscriber have all of it.

        Raises DemoError if nothing moves before they have it.
        """
        await self._wait(lambda: self._view.complete and self._board.complete)
        if until is not None:
            asyncio.get_running_loop().call_later(max(0.0, until - time.monotonic()), stop.set)
        await self._feed.run(stop, self._has_room)
        self._is_ending = True
        await self._wait(self._settled)

    async def losses(self) -> list[str]:
        """Query the SOW and the views, and return a sentence for each difference from the facts.

        Records that visitors have written, and their groups, are left out.
        """
        everything = await asyncio.to_thread(recompute, self._feed.facts[: self._feed.fed])
        async with asyncio.timeout(QUERY_S_MAX), AsyncClient(self._url) as client:
            found = [m async for m in client.sow(TOPIC, batch_size=1000) if m.command == "sow"]
        self._sow_size = len(found)
        visited = self._counter.visited
        expected = {text: body for text, body in everything.items() if _sow_key(text) not in visited}
        bodies = [message.body for message in found if message.sow_key not in visited]
        viewed = [body for key, body in self._view.bodies.items() if key not in visited]
        sentences = (
            differences(expected, bodies).sentence("the SOW"),
            differences(expected, viewed).sentence("the subscriber's view"),
            f"{self._counter.dead:,} records became dead letters" if self._counter.dead else None,
            *await self._losses_of_views(everything),
        )
        return [sentence for sentence in sentences if sentence]

    async def _losses_of_views(self, everything: dict[str, Body]) -> list[str | None]:
        """Return how the views differ from a recomputation once they equal it, or have not changed for long."""
        expected = await asyncio.to_thread(recompute_views, everything.values(), self._airports)
        found: dict[str, list[bytes]] = {}
        since = time.monotonic()
        async with AsyncClient(self._url) as client:
            while True:
                before, found = found, {view: await _bodies(client, view) for view in GROUPED_BY}
                self._groups.update({view: len(bodies) for view, bodies in found.items()})
                visited = self._visited_bodies(everything)
                sentences = [
                    view_difference(view, expected[view], found[view], visited) for view in GROUPED_BY
                ]
                if found != before:
                    since = time.monotonic()
                if not any(sentences) or time.monotonic() - since > STALL_S_MAX:
                    return sentences
                await asyncio.sleep(LOOK_S)

    def _visited_bodies(self, everything: dict[str, Body]) -> list[Body]:
        """Return the records that visitors have written, as they should be by the facts and as they are now."""
        visited = self._counter.visited
        if not visited:
            return []
        by_facts = [body for text, body in everything.items() if _sow_key(text) in visited]
        return by_facts + [orjson.loads(body) for key, body in self._view.bodies.items() if key in visited]

    async def compared(self) -> list[str]:
        """After an outage, hold the feed until everything has arrived; return what was lost, as `losses` does."""
        self._outages += 1
        self._is_held = True
        try:
            await self._wait(self._settled)
            return await self.losses()
        finally:
            self._is_held = False

    @property
    def written_s(self) -> float:
        """When the newest command was written whose change the subscriber of everything has (seconds since 1970)."""
        return self._view.written_s

    @property
    def sow_size(self) -> int | None:
        """How many records the last comparison found in the SOW; None before it."""
        return self._sow_size

    def state(self) -> dict[str, Any]:
        """Return the current numbers, for the landing page."""
        return {
            "is_ending": self._is_ending,
            "is_settled": self._settled(),
            "came_s": self._view.came_s,
            "speed": self._feed.speed,
            "fed_until": self.moment,
            "reached": self._feed.reached,
            "latency_ms": self._latency_ms(),
            "by_visitors": self._counter.by_visitors,
            "refused_visits": self._counter.refused_visits,
            "visited": len(self._counter.visited),
            "stalls": self._view.stalls,
        }

    def sample_ms(self, now_s: float) -> float | None:
        """Return the latency for the chart of the landing page; None while no change comes."""
        came_s = self._view.came_s
        return None if came_s is None or now_s - came_s > GAP_S else self._latency_ms()

    def _latency_ms(self) -> float | None:
        return percentile(self._view.latencies_ms[-LATENCIES:], 0.5)

    @property
    def moment(self) -> int:
        """The simulated moment of the newest fact that was fed (seconds since 1970)."""
        return self._feed.facts[max(0, self._feed.fed - 1)].moment

    def summary(self) -> Summary:
        """Return the numbers so far."""
        return Summary(
            airport=self._board.airport,
            facts=self._feed.fed,
            records_in=self._counter.commands,
            deltas=self._counter.deltas,
            dead_letters=self._counter.dead,
            sow_size=self._sow_size,
            changes_out=self._counter.changes,
            oofs=self._view.oofs,
            board_oofs=self._board.left,
            latencies_ms=self._view.latencies_ms,
            by_visitors=self._counter.by_visitors,
            refused_visits=self._counter.refused_visits,
            outages=self._outages,
            stalls=len(self._view.stalls),
            groups=self._groups,
        )

    def _settled(self) -> bool:
        counter, view = self._counter, self._view
        return counter.commands >= self._feed.fed and counter.applied and view.changes >= counter.changes

    def _has_room(self) -> bool:
        self._check()
        return not self._is_held and self._feed.fed - self._view.changes < AHEAD_MAX

    async def _wait(self, condition: Callable[[], bool]) -> None:
        self._moved = (self._moved[0], time.monotonic())
        while not condition():
            self._check()
            await asyncio.sleep(LOOK_S)

    def _check(self) -> None:
        """Raise DemoError if the counter failed, or if nothing has moved for long although something should have."""
        if self._counter.error is not None:
            raise DemoError(f"counting the topics' records failed: {self._counter.error!r}")
        now = time.monotonic()
        reached = (self._feed.fed, self._counter.commands, self._counter.changes, self._view.changes)
        if reached != self._moved[0]:
            self._moved = (reached, now)
        elif now - self._moved[1] > STALL_S_MAX:
            numbers = "{:,} facts fed, {:,} in Kafka, {:,} changes sent, {:,} received".format(*reached)
            raise DemoError(f"nothing moved for {STALL_S_MAX:.0f} s: {numbers}")

    async def _follow_all(self) -> None:
        async with AsyncClient(self._url) as client:
            async for message in client.sow_and_subscribe(TOPIC, options="oof,timestamp"):
                self._view.take(message, time.time())

    async def _follow_board(self) -> None:
        filter = board_filter(self._board.airport)
        async with AsyncClient(self._url) as client:
            async for message in client.sow_and_subscribe(TOPIC, filter=filter, options=OPTIONS):
                line = self._board.take(message)
                if line is not None:
                    self._screen.add(f"{self._clock()}  {line}")

    async def _refresh(self) -> None:
        while True:
            await asyncio.sleep(REFRESH_S)
            self._screen.refresh()

    def _clock(self) -> str:
        return date_line(self._feed.clock, self._zone)

    def _picture(self) -> RenderableType:
        numbers = (self._feed.fed, self._counter.commands, self._view.changes)
        footer = "{:,} facts fed, {:,} in Kafka, {:,} changes received".format(*numbers)
        rows = max(3, self._console.height - BOARD_MARGIN_LINES)
        return picture(self._board, self._clock(), footer, rows)


def _sow_key(text: str) -> str:
    """Return the SOW key of a key text."""
    return sow_key(DOMAIN, text).decode()


async def _bodies(client: AsyncClient, topic: str) -> list[bytes]:
    """Return the bodies of all records of a topic."""
    return [message.body async for message in client.sow(topic, batch_size=1000) if message.command == "sow"]
