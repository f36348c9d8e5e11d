"""The workload: rounds of random writes and reads through the public API, each of which ends when all is settled."""

import asyncio
import itertools
import random
import time
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from msgspec import structs

from sowline.check.fanouts import FanoutReader, UncheckedError, followed_fanouts
from sowline.check.history import CheckedTopic, FaultRun, HistoryBegin, Unanswered
from sowline.check.judge.bookmarks import covers
from sowline.check.patience import Patience, UnansweredError
from sowline.check.readers import (
    WorkloadQueries,
    WorkloadSubscription,
    described,
    going_on,
    is_computed,
    last_bookmark,
)
from sowline.check.recorder import Recorder
from sowline.check.topics import GROUPED, OPEN, CheckedFanout, WorkloadTopics, by_status
from sowline.check.writers import KEYS, Effects, WorkloadWriter
from sowline.client.async_client import AsyncClient
from sowline.config.kafka_options import KafkaConfig, kafka_config
from sowline.errors import SowlineError
from sowline.subscriptions.ask import Ask

ROUND_SECONDS: Final = 3.0
WRITERS: Final = 4
RESUME_WINDOW_SECONDS: Final = 600.0
"""Every topic keeps its changes so long, at least."""
FILTERS: Final = ("", OPEN, "/qty > 50", "/status = 'late' AND /qty < 80")
ORDER_BY: Final = "/qty DESC, /id"


@dataclass(frozen=True)
class WorkloadOptions:
    """What a user may choose."""

    connection: Mapping[str, Any]
    """The arguments of a client."""
    topics: WorkloadTopics
    seconds: float = 30.0
    writes_per_second: float = 100.0
    seed: int = 0
    faults: Sequence[str] = ()
    """Commands of a shell, each of which runs during a round, in turn."""
    answer_seconds: float = 120.0
    """How long to wait for each answer, also while a system recovers from a fault."""

    def kafka(self, named: str) -> KafkaConfig:
        """Return the options of a Kafka client; `named` are the servers that the service names."""
        return kafka_config(self.connection.get("kafka") or named, self.connection.get("kafka_options"))


async def run_workload(options: WorkloadOptions, recorder: Recorder) -> None:
    """Run the workload, and note its history; an answer that does not come in time is the last event.

    Raises the error if the system can't even begin.
    """
    patience = Patience(options.answer_seconds)
    async with AsyncExitStack() as clients:

        async def client() -> AsyncClient:
            return await clients.enter_async_context(AsyncClient(**options.connection))

        control = await client()
        running = await patience.answered("the description of the topics", control.topics())
        options.topics.check_defined({topic["name"] for topic in running["topics"]})
        fanouts, unchecked = None, ""
        try:
            mark = partial(_mark, control, patience)
            reading = followed_fanouts(
                options.topics.fanouts, options.kafka(running["kafka"]), mark, recorder, patience
            )
            fanouts = await clients.enter_async_context(reading)
        except UncheckedError as error:
            unchecked = error.message
        begin = structs.replace(await _begin(options, control, patience), unchecked_fanouts=unchecked)
        recorder.note(begin)
        if fanouts is not None:
            fanouts.begin(begin)
        run = WorkloadRun(options, recorder, control, [await client() for _ in range(WRITERS + 2)], fanouts)
        try:
            async with run.subscribed():
                await run.rounds()
            for topic in options.topics.written:
                # Again, unlike at the beginning: a service that a fault has killed meanwhile starts again.
                await patience.until_answered(
                    f"the delete of all records of {topic}", partial(_empty, topic, control, patience)
                )
        except UnansweredError as error:
            recorder.note(Unanswered(error.message, recorder.now))


async def _mark(client: AsyncClient, patience: Patience, topic: str) -> str:
    """Write every record that the workload may write; return the effect."""
    records = [{"id": f"k{number}", "status": "open", "qty": 0} for number in range(KEYS)]
    marks = client.publish_all(topic, records)
    return (await patience.answered(f"the answer to marks in {topic}", marks)).effect


async def _empty(topic: str, client: AsyncClient, patience: Patience) -> None:
    await patience.answered(f"the delete of all records of {topic}", client.sow_delete(topic, filter="1=1"))


async def _begin(options: WorkloadOptions, client: AsyncClient, patience: Patience) -> HistoryBegin:
    """Empty the topics; return the first event, with the bookmarks at which they have no records."""
    queries, topics = WorkloadQueries("begin", client, Recorder(time.monotonic), patience), []
    for name in options.topics.written:
        await _empty(name, client, patience)
        _, messages = await queries.collect(Ask("sow", name, at_least=_of(client.effect, name)))
        if any(message.command == "sow" for message in messages):
            raise SowlineError(
                "bad request", f"expected {name} to be the checker's alone, but others write to it"
            )
        topics.append(CheckedTopic(name, last_bookmark(messages)))
    topics.append(CheckedTopic(options.topics.totals, "", "status", by_status(options.topics.records)))
    url = str(options.connection.get("url", ""))
    return HistoryBegin(tuple(topics), RESUME_WINDOW_SECONDS, seed=options.seed, url=url)


def _of(bookmark: str, topic: str) -> str:
    """Return a bookmark's positions in one topic."""
    return ";".join(part for part in bookmark.split(";") if part.startswith(f"{topic}:"))


def _shows(ask: Ask, fanout: CheckedFanout) -> bool:
    """Return whether a subscription receives each change that a fanout writes."""
    options = ask.options.split(",")
    is_each = not is_computed(ask) and not any(option.startswith("conflation=") for option in options)
    return is_each and "oof" in options and (ask.topic, ask.filter) == (fanout.topic, fanout.filter)


async def _complete(tasks: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Run tasks to their ends, then raise the first error: what others write and receive meanwhile must be noted."""
    for error in await asyncio.gather(*tasks, return_exceptions=True):
        if error is not None:
            raise error


class WorkloadRun:
    """The writers and readers of one run."""

    def __init__(
        self,
        options: WorkloadOptions,
        recorder: Recorder,
        control: AsyncClient,
        clients: Sequence[AsyncClient],
        fanouts: FanoutReader | None,
    ) -> None:
        self._options = options
        self._fanouts = fanouts
        self._topics = options.topics
        self._recorder = recorder
        self._control = control
        self._dice = random.Random(options.seed)  # noqa: S311 - a seed repeats the choices of a run
        self._effects = Effects()
        self._patience = patience = Patience(options.answer_seconds)
        self._queries = WorkloadQueries("query", control, recorder, patience)
        self._writers = [
            WorkloadWriter(
                f"writer{number}",
                clients[number],
                options.topics,
                random.Random(self._dice.random()),  # noqa: S311 - as above
                recorder,
                self._effects,
                patience,
                waits=number % 2 == 1,
            )
            for number in range(WRITERS)
        ]
        self._readers = clients[WRITERS:]
        self._own_reads = WorkloadQueries("own", self._readers[0], recorder, patience)
        self._monotonic = [
            WorkloadQueries(f"monotonic{number}", client, recorder, patience)
            for number, client in enumerate(self._readers)
        ]
        self._subscriptions = [
            WorkloadSubscription(f"{ask.command}{number}", self._readers[number % 2], ask, recorder, patience)
            for number, ask in enumerate(self._asks())
        ]
        self._replays = itertools.count(1)
        self._seen: dict[str, str] = {}
        """By topic, the bookmark of the newest read of those that are to be monotonic."""

    def _asks(self) -> list[Ask]:
        records, expiring, documents, totals = self._topics
        return [
            Ask("subscribe", records, options="oof,timestamp"),
            Ask("subscribe", expiring, options="oof,timestamp"),
            Ask("sow_and_subscribe", records, filter=FILTERS[1], options="oof"),
            Ask("sow_and_subscribe", records, filter=FILTERS[2]),
            Ask("sow_and_subscribe", expiring, filter=FILTERS[3], options="oof"),
            Ask("sow_and_delta_subscribe", records, filter=FILTERS[1], options="oof"),
            Ask("delta_subscribe", records, options="oof"),
            Ask("delta_subscribe", expiring, filter=FILTERS[2], options="oof"),
            Ask("sow_and_subscribe", records, filter=FILTERS[3], options="oof,conflation=100ms"),
            Ask("sow_and_subscribe", totals, options="oof"),
            Ask("subscribe", documents, options="oof"),
            Ask("sow_and_subscribe", documents, filter=FILTERS[1], options="oof"),
            Ask("sow_and_subscribe", records, filter=FILTERS[2], options=f"oof,{GROUPED}"),
            Ask("sow_and_subscribe", expiring, options=f"oof,{GROUPED}"),
            Ask("sow_and_subscribe", records, options="oof", order_by=ORDER_BY, skip_n=2, top_n=5),
            Ask(
                "sow_and_subscribe",
                expiring,
                filter=FILTERS[1],
                options="oof",
                order_by=ORDER_BY,
                skip_n=0,
                top_n=4,
            ),
        ]

    @asynccontextmanager
    async def subscribed(self) -> AsyncIterator[None]:
        """Follow all subscriptions during the block."""
        for one in self._subscriptions:
            await self._patience.until_answered(described(one.ask), one.open)
        try:
            yield
        finally:
            # First: a subscription that does not end would leave the fanouts without an end, and unjudged.
            if self._fanouts is not None:
                self._fanouts.end()
            # Last: those of all records, which tell the judge what has expired meanwhile.
            for one in reversed(self._subscriptions):
                await one.close()

    async def rounds(self) -> None:
        """Write and read for as long as the user wants, with a fault in each round if there are any."""
        loop = asyncio.get_running_loop()
        end, number = loop.time() + self._options.seconds, 0
        while loop.time() < end:
            saved = [(one, list(one.bookmarks)) for one in self._subscriptions]
            seconds = min(ROUND_SECONDS, max(end - loop.time(), 0.1))
            tasks = [self._write(writer, loop.time() + seconds) for writer in self._writers]
            tasks += [self._read(loop.time() + seconds), self._resume_some(loop.time() + seconds)]
            if self._options.faults:
                tasks.append(self._fault(self._options.faults[number % len(self._options.faults)]))
            await _complete(tasks)
            number += 1
            settled = await self._settle()
            await self._replay(saved, settled)

    async def _write(self, writer: WorkloadWriter, end: float) -> None:
        loop = asyncio.get_running_loop()
        pause_seconds = WRITERS / self._options.writes_per_second
        while loop.time() < end:
            topic, effect = await writer.write()
            if effect and self._dice.random() < 0.3:
                await self._ask(
                    self._own_reads, Ask("sow", topic, at_least=_of(effect, topic)), "read_your_writes"
                )
            await asyncio.sleep(pause_seconds * 2 * self._dice.random())
        await writer.flush()

    async def _read(self, end: float) -> None:
        """Query again and again, each time for what the last query had, or something newer."""
        loop = asyncio.get_running_loop()
        while loop.time() < end:
            topic = self._dice.choice(self._topics.written)
            ask = Ask("sow", topic, self._dice.choice(FILTERS), at_least=self._seen.get(topic, ""))
            kind = self._dice.random()
            if kind < 1 / 3:
                ask = replace(ask, order_by=ORDER_BY, skip_n=2, top_n=5)
            elif kind < 1 / 2:
                ask = replace(ask, options=GROUPED)
            promise = "monotonic_reads" if ask.at_least else ""
            if found := await self._ask(self._dice.choice(self._monotonic), ask, promise):
                self._seen[topic] = found
            await asyncio.sleep(0.05 * self._dice.random())

    async def _ask(self, queries: WorkloadQueries, ask: Ask, promise: str) -> str:
        """Run a query, and return its bookmark; empty if the service can't answer now."""
        try:
            return await queries.query(ask, promise)
        except UnansweredError:
            raise
        except SowlineError:
            return ""

    async def _resume_some(self, end: float) -> None:
        """Leave a subscription now and then, and go on from its bookmark."""
        loop = asyncio.get_running_loop()
        while loop.time() < end:
            await asyncio.sleep(0.7 * self._dice.random())
            one = self._dice.choice([one for one in self._subscriptions if self._may_resume(one.ask)])
            await self._patience.until_answered(f"a resumed {described(one.ask)}", one.resume)

    def _may_resume(self, ask: Ask) -> bool:
        return "conflation" not in ask.options and ask.topic != self._topics.totals

    async def _fault(self, command: str) -> None:
        await asyncio.sleep(ROUND_SECONDS / 3)
        at = self._recorder.now
        process = await asyncio.create_subprocess_exec("sh", "-c", command)
        try:
            await self._patience.answered(f"the end of {command!r}", process.wait())
        except UnansweredError:
            process.kill()
        self._recorder.note(FaultRun(command, at, await process.wait()))

    async def _settle(self) -> dict[str, str]:
        """Wait until all readers have what was written; return the bookmark of each topic then."""
        for writer in self._writers:
            await writer.flush()
        settled: dict[str, str] = {}
        for topic in self._topics.written:
            ask = Ask("sow", topic, at_least=self._effects.bookmark(topic))
            settled[topic] = await self._patience.until_answered(
                described(ask), partial(self._queries.query, ask, "read_your_writes")
            )
        settled[self._topics.totals] = await self._query_view(settled[self._topics.records])
        await _complete([one.prove(settled[one.ask.topic]) for one in self._subscriptions])
        if self._fanouts is not None:
            await _complete(
                [self._settle_fanout(self._fanouts, one, settled) for one in self._topics.fanouts]
            )
        return settled

    async def _settle_fanout(
        self, fanouts: FanoutReader, fanout: CheckedFanout, settled: Mapping[str, str]
    ) -> None:
        one = next(one for one in self._subscriptions if _shows(one.ask, fanout))
        bookmark = settled[fanout.topic]
        await fanouts.settle(fanout, bookmark, one.received(bookmark))

    async def _query_view(self, source: str) -> str:
        """Query the view, and note which bookmark of its source it reflects, if nothing moved meanwhile."""
        totals, until_answered = self._topics.totals, self._patience.until_answered
        ask = Ask("sow", totals, at_least=source)
        opened, messages = await until_answered(described(ask), partial(self._queries.collect, ask))
        ask = Ask("sow", self._topics.records, at_least=source)
        again = await until_answered(described(ask), partial(self._queries.query, ask))
        running = (await until_answered("the description of the topics", self._control.topics))["topics"]
        reflects = next(topic.get("reflects") or "" for topic in running if topic["name"] == totals)
        is_exact = covers(source, again) and covers(source, reflects) and bool(reflects)
        self._queries.note(structs.replace(opened, reflects=source if is_exact else ""), messages)
        return last_bookmark(messages)

    async def _replay(
        self,
        saved: Sequence[tuple[WorkloadSubscription, Sequence[tuple[str, float]]]],
        settled: Mapping[str, str],
    ) -> None:
        """Replay, from bookmarks received before the round, what some subscriptions have received in it."""
        for one, bookmarks in saved:
            may_end = self._may_resume(one.ask) and not is_computed(one.ask)
            if bookmarks and may_end and self._dice.random() < 0.4:
                bookmark, received_at = self._dice.choice(bookmarks)
                if covers(settled[one.ask.topic], bookmark):
                    ask = going_on(one.ask, bookmark, settled[one.ask.topic])
                    replayed = WorkloadSubscription(
                        f"replay{next(self._replays)}", one.client, ask, self._recorder, self._patience
                    )
                    await self._patience.until_answered(
                        described(ask), partial(replayed.open, ask, received_at)
                    )
                    await replayed.wait_ended()
