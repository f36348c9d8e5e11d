"""Two replicas of topics with a history, and clients that come back to them anywhere and at any time."""

import asyncio
import random
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime

from sowline.client.async_client import AsyncClient
from sowline.client.stream import Stream
from sowline.errors import SowlineError
from sowline.model.bookmark import format_time, read_time
from sowline.subscriptions.ask import Ask
from tests.integration.load import SELECTIONS, Life, assert_same
from tests.integration.model import Model, Position
from tests.integration.positions import positions_of
from tests.integration.services import Service, System
from tests.integration.wire import Json
from tests.waiting import SECONDS_MAX, pace

GRANULARITY_MS = 50

LAG_MS_MAX = 3000
"""How far a replica may be behind the log while all of this goes on on a small machine."""

PROOFS_MIN = 4


class Replicas:
    """A materializer and two query services over topics with a history and one without."""

    def __init__(self, made: System, prefix: str) -> None:
        self.system = made
        self.prefix = prefix
        materializer = made.service("materializer").start()
        limits: Json = {"ring_changes_max": 100, "progress_seconds": 0.4}
        self.queries = [made.service("query_service", **limits).start() for _ in range(2)]
        for service in (materializer, *self.queries):
            service.wait_ready()

    @property
    def query(self) -> Service:
        """The first of them."""
        return self.queries[0]

    def topic(self, name: str) -> str:
        """Return the whole name of a topic."""
        return f"{self.prefix}-{name}"

    def write(self, topic: str, *records: Json) -> None:
        """Publish, and wait until both have it."""
        self.system.write(topic, *records)
        for query in self.queries:
            self.system.wait_settled(query.url, topic)

    def times(self, topic: str) -> dict[tuple[int, int], int]:
        """Return the log time of each record, by partition and offset: it never runs backwards."""
        times: dict[tuple[int, int], int] = {}
        last: dict[int, int] = {}
        for message in self.system.read(self.system.topic(topic).log):
            partition = message.partition() or 0
            last[partition] = max(last.get(partition, 0), message.timestamp()[1])
            times[partition, message.offset() or 0] = last[partition]
        return times


@dataclass
class Visit(Life):
    """A life that may have begun at a bookmark, with the view that there was, or at a time."""

    begun: str | None = None
    """The bookmark."""
    time_ms: int | None = None
    asked_ms: int = 0
    """When the time was asked for."""

    def stands(self, partition: int) -> Position:
        """Return where it stands: a group may hold all that there is."""
        end = self.group_end.bookmark if self.group_end is not None else None
        group = positions_of(end).get(partition, (-1, 0)) if end is not None else (-1, 0)
        return max(group, self.position(partition))

    def check(self, model: Model) -> None:
        """Compare with the model, from the begin on."""
        if self.begun is None:
            super().check(model)
            return
        start = positions_of(self.begun)
        ends = {partition: self.position(partition) for partition in range(model.definition.partitions)}
        wanted = model.messages(self.filter, self.oof, start, ends)
        for partition, messages in wanted.items():
            assert_same(self.messages.get(partition, []), messages)
        for bookmark, view in self.looks:
            assert view == model.sow(self.filter, positions_of(bookmark))

    def check_time(self, model: Model, times: dict[tuple[int, int], int]) -> None:
        """Of each partition, its group is behind the last change until that time and none after it.

        A replica that has not applied all of that time yet answers with what it has.
        """
        if self.time_ms is None:
            return
        assert self.group_end is not None
        assert self.group_end.bookmark is not None
        start = positions_of(self.group_end.bookmark)
        at = self.time_ms // GRANULARITY_MS * GRANULARITY_MS
        for step in model.steps:
            is_before = step.position <= start.get(step.partition, (-1, 0))
            was_before = times[step.partition, step.position[0]] <= at
            if is_before is not was_before:
                assert was_before, f"{step} is after {at}, but in {start}"
                assert self.asked_ms - at < LAG_MS_MAX, f"{step} is of {at}, but not in {start}"


class Visitor:
    """Begins anywhere, reads for a while, leaves, and comes back on the other replica."""

    def __init__(self, replicas: Replicas, topic: str, dice: random.Random) -> None:
        self.visits: list[Visit] = []
        self._urls = [query.url for query in replicas.queries]
        self._topic = topic
        self._dice = dice
        self._began_ms = int(time.time() * 1000)

    async def run(self, stop: asyncio.Event, marks: "asyncio.Future[dict[int, Position]]") -> None:
        """Visit until it is stopped; open subscriptions then read to the end."""
        while not stop.is_set():
            visit, ask = self._new_visit()
            self.visits.append(visit)
            for _ in range(self._dice.randrange(1, 4)):
                await self._read(visit, ask, self._dice.uniform(0.05, 0.6))
                ask = self._again(visit, ask)
        await self._read(visit, ask, SECONDS_MAX, await marks)

    def _new_visit(self) -> tuple[Visit, Ask]:
        filter = self._dice.choice(SELECTIONS)
        oof = self._dice.random() < 0.8
        options = "oof" if oof else ""
        seen = [(visit.filter, *look) for visit in self.visits if visit.oof for look in visit.looks]
        kind = self._dice.random()
        if kind < 0.3 and seen:
            filter, begun, view = self._dice.choice(seen)
            visit = Visit(filter, True, view=dict(view), begun=begun)
            return visit, Ask("subscribe", self._topic, filter, "oof", begun)
        if kind < 0.65:
            asked_ms = int(time.time() * 1000)
            ms = self._dice.randrange(self._began_ms, asked_ms + 1)
            text = format_time(datetime.fromtimestamp(ms / 1000, UTC))
            us = read_time(text)
            assert us is not None
            visit = Visit(filter, oof, time_ms=us // 1000, asked_ms=asked_ms)
            return visit, Ask("sow_and_subscribe", self._topic, filter, options, text)
        return Visit(filter, oof), Ask("sow_and_subscribe", self._topic, filter, options)

    def _again(self, visit: Visit, ask: Ask) -> Ask:
        """What to ask the other replica for: what comes after the last message, or the same as before."""
        self._urls.reverse()
        if visit.bookmark is None:
            return ask
        options = "oof" if visit.oof else ""
        return Ask("subscribe", self._topic, visit.filter, options, visit.bookmark)

    async def _read(
        self, visit: Visit, ask: Ask, seconds: float, marks: dict[int, Position] | None = None
    ) -> None:
        async with AsyncClient(self._urls[0]) as client:
            stream = await self._open(client, ask)
            try:
                async with asyncio.timeout(seconds):
                    while marks is None or any(visit.stands(p) < mark for p, mark in marks.items()):
                        for message in await stream.next_batch(50):
                            visit.take(message)
            except TimeoutError:
                assert marks is None, f"{visit.filter} waited for {marks}, and has {visit.bookmark}"
            visit.left(stream)
            await client.end(stream)

    @staticmethod
    async def _open(client: AsyncClient, ask: Ask) -> Stream:
        """Open a stream; a replica that is behind for long is asked again."""
        async with asyncio.timeout(SECONDS_MAX):
            while True:
                try:
                    return await client.open(ask)
                except SowlineError as error:
                    if error.reason not in ("behind", "not ready"):
                        raise


@dataclass
class Watching:
    """A local view with deltas that is verified again and again."""

    url: str
    topic: str
    filter: str
    proofs: int = 0
    looks: list[tuple[str, dict[str, Json]]] = field(default_factory=list)

    async def run(self, stop: asyncio.Event) -> None:
        """Verify until it is stopped, and some times at least."""
        async with (
            AsyncClient(self.url) as client,
            client.local_view(self.topic, filter=self.filter) as view,
        ):
            while not stop.is_set() or self.proofs < PROOFS_MIN:
                assert await view.verify(SECONDS_MAX), f"{self.filter} is wrong at {view.bookmark}"
                self.proofs += 1
                self.looks.append((view.bookmark, dict(view.items())))
                await pace(0.1)
