"""A log that is deleted and created again under a running worker, and transactions that stay open in it.

The worker, the query service and what samples the ends of the logs are the real ones. A run is decided by its seed.
"""

import asyncio
import itertools
import json
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import structlog

from sowline.commands.command import UNREADABLE_HEADERS, Headers
from sowline.config.topics import parse_topics
from sowline.errors import SowlineError
from sowline.model.key import partition_of
from sowline.model.position import before_the_log
from sowline.wire.request import Sow
from sowline_query_service.query.freshness import wait_until_fresh
from sowline_query_service.topics.log_ends import LogEnds, LogEndSample
from tests.simulation import clients, leaders, strands
from tests.simulation.admin_client import AdminClient
from tests.simulation.broker import Broker, Group, Part, Written
from tests.simulation.disk import Disks
from tests.simulation.harness import BEGIN_MS, CORES, LAG_MS, Loop, Outcome, for_us, uncollected
from tests.simulation.log_truth import LogTruth
from tests.simulation.process import Process
from tests.simulation.services import QueryService, Worker
from tests.simulation.trace import Trace
from tests.simulation.truth import Untrue, hold

LOG_STEPS = 60
REST_ROUNDS_MAX = 400
RECORDS_MAX = 300
"""The records of a log that is made several times longer; a worker applies more than that in these rounds."""

KEYS = ("a", "b", "c", "d", "e", "f")
FRESH_MS = 500
"""How old a state may be that a read demands."""


class LogWorld:
    """A topic, a worker and a query service over it, and what happens to its log."""

    def __init__(self, seed: int, loop: Loop) -> None:
        self._loop = loop
        self._chance = chance = Random(f"{seed} logs")
        partitions = chance.choice((1, 1, 2))
        self._topics = parse_topics(
            f"topics: [{{name: orders, key: /id, partitions: {partitions}, resume_window: {LAG_MS // 1000}s}}]"
        )
        self._definition = definition = self._topics.topics[0]
        self._numbers = range(partitions)
        self._truth = LogTruth(definition)
        self._broker = Broker(Random(f"{seed} broker"), self.now, self._on_append)
        self._broker.make(definition.changes, partitions)
        self.step = 0
        self.trace = Trace(lambda: (self.step, self.now() - BEGIN_MS))
        self._broker.make(definition.kafka.dead, 1)
        self._make_log()
        self._group = Group(Random(f"{seed} group"), [(definition.log, number) for number in self._numbers])
        self.processes: dict[str, Process] = {}
        self.disks = Disks(self.processes, self._truth.committed)
        self._worker = Worker(
            "worker",
            Random(f"{seed} worker"),
            self._broker,
            self._group,
            self.trace,
            self.disks,
            chance.choice((1, 4, 50)),
            chance.choice(CORES),
        )
        truth: Any = self._truth
        self._service = QueryService(
            "service",
            Random(f"{seed} service"),
            self._broker,
            self.trace,
            truth,
            chance.choice(CORES),
            Random(f"{seed} snapshots"),
        )
        self._service.has_snapshots = False
        self.processes |= {"worker": self._worker, "service": self._service}
        self._sequence = 0
        self._creep = 0.0
        self._sampled_at: dict[int, float] = {}
        """When the end of each partition of the log was last sampled."""
        self._sampled_log: dict[int, str] = {}
        """Kafka's id of the log that was last sampled."""
        self.counts = {"replaced": 0, "transactions": 0, "refused": 0, "fresh": 0}
        self._background_error: BaseException | None = None
        loop.set_exception_handler(self._on_exception)

    def _on_exception(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Keep what was raised where nobody waits for it."""
        self._background_error = (
            self._background_error or context.get("exception") or Untrue(context["message"])
        )

    def _check_service(self) -> None:
        if self._background_error is not None:
            raise self._background_error
        self._service.check_whole()

    # time, and what is written down

    def now(self) -> int:
        """Return the time, in ms since 1970."""
        return BEGIN_MS + round(self._loop.time() * 1000)

    def monotonic(self) -> float:
        """Return the time in seconds.

        Each look moves it on a little: who waits for less than it can tell apart would wait for ever.
        """
        self._creep += 1e-9
        return self._loop.time() + self._creep

    def _on_append(self, written: Written) -> None:
        position = f"{written.partition_id[0]}[{written.partition_id[1]}]@{written.at}"
        self.trace("  ", position, written.name, written.body, written.about)
        if written.partition_id[0] == self._definition.changes:
            self._truth.written(written)
        elif written.partition_id[0] == self._definition.kafka.dead:
            self._truth.letters.append(written)

    # the log

    def _make_log(self) -> None:
        name = self._definition.log
        self._broker.make(name, len(self._numbers))
        parts = [self._part(number) for number in self._numbers]
        self._truth.logs[f"{name}-{parts[0].generation}"] = parts

    def _part(self, number: int) -> Part:
        return self._broker.parts[self._definition.log, number]

    def _replace(self) -> None:
        """Delete the log and create it again; it is then shorter than before, or longer."""
        self.counts["replaced"] += 1
        longest = max(self._part(number).end for number in self._numbers)
        self._make_log()
        longer = max(longest + 1, min(3 * longest, RECORDS_MAX))
        records = self._chance.choice((0, 1, longest, longest + 1, longer))
        self.trace("fault: the log is replaced, and", records, "records are written")
        self._publish(records)

    def _publish(self, count: int, number: int | None = None) -> None:
        """Write commands; all to one partition, if one is named."""
        for _ in range(count):
            at, key, value, headers = self._command(number)
            self._broker.append((self._definition.log, at), key, value, headers)

    def _command(self, number: int | None) -> tuple[int, bytes, bytes | None, Headers]:
        chance, count = self._chance, len(self._numbers)
        id = chance.choice([key for key in KEYS if number in (None, partition_of(key, count))])
        body: dict[str, Any] = {"id": id, chance.choice("qr"): chance.randrange(10)}
        value: bytes | None = json.dumps(body, separators=(",", ":")).encode()
        headers: Headers = []
        kind = chance.random()
        if kind < 0.2:
            headers = [("sow.command", b"delta_publish")]
        elif kind < 0.3:
            value = None
        elif kind < 0.35:
            value = b"{not json"
        elif kind < 0.38:
            headers = UNREADABLE_HEADERS
        elif kind < 0.6:
            self._sequence += chance.choice((0, 1, 1))
            headers = [("sow.publisher", b"P"), ("sow.sequence", b"%d" % self._sequence)]
        return partition_of(id, count), id.encode(), value, headers

    def _begin_transaction(self) -> None:
        """Write records of a transaction, and others behind them that are none of it."""
        number = self._chance.choice(self._numbers)
        part = self._part(number)
        if part.open or not any(partition_of(key, len(self._numbers)) == number for key in KEYS):
            return
        self.counts["transactions"] += 1
        start = part.end
        # Before its first record is written it holds nothing, and between two nobody reads.
        part.open = [start]
        self._publish(self._chance.randint(1, 2), number)
        part.open = list(range(start, part.end))
        self.trace("fault: a transaction is open in", number, "with", part.open)
        self._publish(self._chance.randint(1, 3), number)

    def _end_transactions(self) -> None:
        for number in self._numbers:
            if self._part(number).open:
                is_committed = self._chance.random() < 0.5
                self.trace("a transaction in", number, "is", "committed" if is_committed else "aborted")
                self._part(number).end_transaction(is_committed)

    # the run

    async def run(self, steps: int) -> None:
        """Do all steps, then bring everything to rest."""
        sampler: strands.Strand | None = None
        try:
            self._worker.start(self._topics)
            self._service.start(self._topics, 1000, lambda _: None)
            sampler = self._start_sampling()
            # Of a log that is replaced before the first sample a query service can't know.
            while len(self._sampled_at) < len(self._numbers):
                for strand in (self._worker.strand, self._service.strand, sampler):
                    assert strand is not None
                    strand.resume()
                await self._loop.tick(10)
            for self.step in range(steps):
                await self._step(sampler)
            await self._come_to_rest(sampler)
        finally:
            for process in self.processes.values():
                process.kill()
            if sampler is not None:
                sampler.kill()

    def _start_sampling(self) -> strands.Strand:
        """Sample the ends of the logs as a query service does."""
        state = self._service.state

        def take(sample: LogEndSample) -> None:
            for log, number in sample.reached:
                self._sampled_at[number], self._sampled_log[number] = sample.at, sample.topic_ids[log]
            state.take_log_ends(sample)

        ends = LogEnds(
            self._service.kafka, self._topics.topics, state.reached, state.unapplied, take, state.take_hole
        )
        state.sample_soon = ends.sample_soon
        ends.start()
        return strands.Thread.started.pop()

    async def _step(self, sampler: strands.Strand) -> None:
        chance, kind = self._chance, self._chance.random()
        if chance.random() < 0.5:
            self._publish(chance.choice((1, 1, 2, 5)))
        if kind < 0.06:
            self._replace()
        elif kind < 0.12:
            self._begin_transaction()
        elif kind < 0.2:
            self._end_transactions()
        elif kind < 0.3 and self._worker.runs:
            mishap = chance.choice(("crash", "stall", "stall"))
            self._worker.fuse, self._worker.mishap = chance.randint(1, 40), mishap
        self._recover()
        for _ in range(chance.randint(1, 6)):
            await self._turn(sampler)
        await self._loop.tick(chance.choice((1, 10, 50, 200, 1000)))
        if chance.random() < 0.2:
            await self._read(sampler)
        self._check_lags()

    def _recover(self) -> None:
        """Let the worker come back; its log may be another one by then, also if it stood within its recovery."""
        worker, chance = self._worker, self._chance
        if worker.is_stalled:
            if chance.random() < 0.4:
                self._replace()
            worker.is_stalled = False
        elif worker.is_dead:
            # What it had sent arrives before another one begins.
            while self._broker.late:
                self._broker.arrive()
            if worker.consumer is not None:
                self._group.leave(worker.consumer)
            worker.kill()
            if chance.random() < 0.3:
                self.disks.wipe(worker.name)
            worker.start(self._topics)
        elif worker.strand is not None and worker.strand.ended:
            raise Untrue("the worker has ended by itself")

    async def _turn(self, sampler: strands.Strand) -> None:
        kind = self._chance.random()
        if kind < 0.5:
            self._worker.turn()
        elif kind < 0.8:
            self._service.turn()
        else:
            sampler.resume()
        await self._loop.rest()
        self._check_service()

    async def _read(self, sampler: strands.Strand) -> None:
        """Demand a fresh state, and check that it is one."""
        read = asyncio.ensure_future(self._fresh())
        while not read.done():
            for _ in range(self._chance.randint(1, 8)):
                await self._turn(sampler)
            await self._loop.tick(self._chance.choice((10, 100, 300)))
        try:
            read.result()
        except SowlineError as refused:
            hold(refused.reason == "stale", "a read is refused:", refused)
            self.counts["refused"] += 1

    async def _fresh(self) -> None:
        state = self._service.state
        topic = state.topics[self._definition.name]
        request = Sow(topic=topic.definition.name, staleness_seconds_max=FRESH_MS / 1000)
        await wait_until_fresh(state, [topic], request)
        self.counts["fresh"] += 1
        for number, replica in topic.partitions.items():
            self._truth.check_fresh(number, replica.held, self.now() - FRESH_MS)

    def _check_lags(self) -> None:
        """What was in the log at the last sample, and is not applied, is lag, whatever holds it.

        Of another log than that of the sample there is none.
        """
        topic = self._service.state.topics[self._definition.name]
        for number, lag in topic.lags().items():
            held = topic.partitions[number].held
            if lag.records is None:
                continue
            log = self._sampled_log[number]
            is_of = held == before_the_log() or self._truth.applies(number, held, log)
            hold(is_of, number, "says a lag of", lag.records, "at", held, "which is not of", log)
            if not self._truth.is_present(number, held):
                continue
            sampled = BEGIN_MS + round(self._sampled_at[number] * 1000)
            behind = self._truth.count_behind(number, held, sampled)
            hold(lag.records >= behind, number, "says a lag of", lag.records, "of", behind, "at", held)

    # the end

    async def _come_to_rest(self, sampler: strands.Strand) -> None:
        """Let nothing more go wrong; the worker applies the present log to its end, and the lag is nothing."""
        self.trace("nothing more goes wrong")
        self._broker.is_calm, self._worker.fuse = True, 0
        self._end_transactions()
        self._publish(1)
        for turn in itertools.count():
            self.step += 1
            hold(turn < REST_ROUNDS_MAX, "does not come to rest:", *self._unrest())
            self._recover()
            self._worker.turn()
            self._service.turn()
            sampler.resume()
            await self._loop.tick(50)
            self._check_service()
            self._check_lags()
            if not self._unrest():
                break
        self._truth.check_read()
        self._truth.check_letters()

    def _unrest(self) -> list[object]:
        topic = self._service.state.topics[self._definition.name]
        behind = [
            (number, one.held)
            for number, one in topic.partitions.items()
            if one.loading or not self._truth.is_applied(number, one.held)
        ]
        lags = [lag for lag in topic.lags().values() if lag.records != 0]
        return [*behind, *lags, *topic.transactions().values()]


@contextmanager
def _played(world: LogWorld) -> Iterator[None]:
    """Put the stand-ins in place of what is around the services."""
    threads = SimpleNamespace(Event=strands.Event, Thread=strands.Thread)
    config = structlog.get_config()
    patches: list[AbstractContextManager[object]] = [
        patch("sowline.kafka.clients.Consumer", clients.Consumer),
        patch("sowline.kafka.clients.Producer", clients.Producer),
        patch("sowline.kafka.admin.AdminClient", AdminClient),
        patch("sowline_materializer.partition.kafka_partition.read_natively", clients.read_by_python),
        patch("sowline_materializer.partition.recovery.RocksStore", world.disks.store_class()),
        patch("sowline.kafka.topic_settings.COMPACTION_LAG_MS_MIN", LAG_MS),
        patch("sowline_materializer.service.ensure_topics", lambda kafka, topics, stop: None),
        patch("sowline_materializer.service.Path", lambda path: SimpleNamespace(mkdir=lambda **_: None)),
        patch("sowline_materializer.worker.assignment.RECOVERED_AT_ONCE", 1),
        patch("sowline_query_service.topics.follower.threading", threads),
        patch("sowline_query_service.topics.log_ends.threading", threads),
        *leaders.answered_by(world._broker),
        patch("time.monotonic", for_us(world.monotonic, time.monotonic)),
        patch("time.time_ns", for_us(lambda: world.now() * 1_000_000, time.time_ns)),
        patch("time.time", for_us(lambda: world.now() / 1000, time.time)),
        patch("time.sleep", for_us(lambda seconds: strands.pause(), time.sleep)),
    ]
    clients.PROCESSES.clear()
    clients.PROCESSES.update(world.processes)
    with ExitStack() as stack:
        for each in patches:
            stack.enter_context(each)
        structlog.configure(processors=[world.trace.note_log])
        stack.callback(structlog.configure, **config)
        yield


def simulate_logs(seed: int, steps: int = LOG_STEPS) -> Outcome:
    """Run a seed, and return what became of it."""
    loop = Loop()
    world = LogWorld(seed, loop)
    error: BaseException | None = None
    with uncollected(), _played(world):
        try:
            loop.run_until_complete(world.run(steps))
        except Exception as wrong:
            error = wrong
        finally:
            loop.run_until_complete(loop.end())
            loop.close()
    return Outcome(seed, world.step, frozenset(), world.trace.lines(), error, world.counts)


def log_failures(seeds: Iterable[int], steps: int = LOG_STEPS) -> list[str]:
    """Run seeds, one after the other, and return what the failed ones say."""
    outcomes = [simulate_logs(seed, steps) for seed in seeds]
    return [
        f"python -m tests.simulation {outcome.seed} --logs\n{outcome}"
        for outcome in outcomes
        if outcome.error is not None
    ]
