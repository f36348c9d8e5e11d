"""Queries at a past time, as ratios to the same queries of now; and what it costs to keep the past.

The records are those of `bench.orders`; each is changed once on average, at random, over an hour of log time. Nothing
of Kafka is in it.
"""

import asyncio
import gc
import os
import random
import statistics
import time
from collections.abc import Iterator

import orjson

from bench.orders import CONDITION, bodies_of
from bench.usage import resident_bytes
from sowline.changes.change import Change
from sowline.config.topics import parse_topics
from sowline.language.expressions.order import parse_order
from sowline.language.filter import compile_filter
from sowline.model.key import key_text, sow_key
from sowline.model.position import Position
from sowline.serving.result import QueryLimits
from sowline_query_service.query.query import Query
from sowline_query_service.query.selection import Selection
from sowline_query_service.replica.partition_replica import PartitionReplica
from sowline_query_service.replica.plain_run import EventAtOffset
from sowline_query_service.topics.state import ServedTopics
from sowline_query_service.topics.topic_state import TopicState

DEFINITION = "name: orders, key: [/order, /side]"
HISTORY = ", history: {window: 2h, granularity: 1s}"
HOUR_MS = 3_600_000
BATCH = 1000
CHANGES = 100_000
"""That are applied with a history and without."""

QUERIES = {
    "count of those that match": (CONDITION, "", 0),
    "first 50 of all by /price DESC": ("", "/price DESC", 50),
    "one record by its key": ("", "", None),
}


def run(records: int, runs: int) -> None:
    """Measure the cost of keeping the past, then queries of it, and print medians and ratios."""
    state = _filled(bodies_of(records), HISTORY)
    gc.freeze()
    topic = state.topics["orders"]
    before = resident_bytes(os.getpid())
    size = _change_all(topic, records)
    (history,) = topic.histories
    taken = (resident_bytes(os.getpid()) - before) / history.states
    print(f"{records:,} records, {records:,} changes of them over an hour: {history.states:,} former states")
    print(f"  a former state takes {taken - size:.0f} bytes beside its body of {size:.0f}", flush=True)
    _noting(bodies_of(min(records, CHANGES)), runs)
    asyncio.run(_queries(state, runs))


def _filled(bodies: list[bytes], more: str) -> ServedTopics:
    """Return the state of a query service that has loaded these records at the beginning of the hour."""
    state = ServedTopics(
        parse_topics(f"topics: [{{{DEFINITION}{more}}}]"), ring_changes_max=1000, history_bytes_max=1 << 40
    )
    topic = state.topics["orders"]
    for number, body in enumerate(bodies):
        text = key_text(orjson.loads(body), topic.definition.key_paths)
        topic.rows.put(
            sow_key(topic.definition.declared.domain_prefix, text), body, 0, Position(0, number), 0
        )
    topic.partitions[0].position = Position(0, len(bodies) - 1)
    topic.partitions[0].loaded()
    return state


def _changes(topic: TopicState, count: int) -> Iterator[list[EventAtOffset]]:
    """Yield changes of prices in batches, as from Kafka: each has its own body."""
    chance, end = random.Random(11), topic.rows.end
    first = topic.partitions[0].held.offset
    for start in range(0, count, BATCH):
        batch: list[EventAtOffset] = []
        changed: dict[int, bytes] = {}
        for number in range(start, min(count, start + BATCH)):
            row = chance.randrange(end)
            body = changed.get(row) or topic.rows.bodies[row] or b"{}"
            order = orjson.loads(body)
            changed[row] = _copied(orjson.dumps(order | {"price": round(100 - order["price"], 4)}))
            key, previous = _copied(topic.rows.keys[row] or b""), _copied(body)
            position, after = Position(0, first + number + 1), Position(0, first + number)
            log_time = 1 + number * HOUR_MS // count
            change = Change(key, changed[row], previous, position, after, "publish", log_time)
            batch.append(EventAtOffset(number, change))
        yield batch


def _copied(text: bytes) -> bytes:
    return bytes(bytearray(text))


def _change_all(topic: TopicState, count: int) -> float:
    """Apply this many changes; return the mean size of the bodies that they replace."""
    size = 0
    for batch in _changes(topic, count):
        topic.partitions[0].apply(batch)
        size += sum(len(event.previous or b"") for _, event in batch if isinstance(event, Change))
    return size / count


def _noting(bodies: list[bytes], runs: int) -> None:
    """The cost of a change with a history and without, in turn."""
    taken: dict[str, list[float]] = {"": [], HISTORY: []}
    for _ in range(2 * runs):
        for more, seconds in taken.items():
            topic = _filled(bodies, more).topics["orders"]
            seconds.append(_applying(topic.partitions[0], topic) / len(bodies))
    without, kept = (statistics.median(seconds) * 1e6 for seconds in taken.values())
    print(f"  a change is applied in {without:.2f} us, with a history in {kept:.2f}", flush=True)


def _applying(partition: PartitionReplica, topic: TopicState) -> float:
    taken = 0.0
    for batch in _changes(topic, topic.rows.end):
        began = time.thread_time()
        partition.apply(batch)
        taken += time.thread_time() - began
    return taken


async def _queries(state: ServedTopics, runs: int) -> None:
    topic = state.topics["orders"]
    key = topic.rows.keys[topic.rows.end // 2] or b""
    for name, (filter, order, top_n) in QUERIES.items():
        keys = (key,) if top_n is None else ()
        selection = Selection(compile_filter(filter), order=parse_order(order), top_n=top_n, sow_keys=keys)
        await _seconds(topic, selection, None)
        now: list[float] = []
        for share in (0.01, 0.1, 1.0):
            at = HOUR_MS - int(share * HOUR_MS)
            found = [
                (await _seconds(topic, selection, None), await _seconds(topic, selection, at))
                for _ in range(runs)
            ]
            now += [whole for (_, whole), _ in found]
            instant, whole = (statistics.median(past[n] for _, past in found) for n in (0, 1))
            of_now = statistics.median(now)
            print(
                f"  {name:31} now {of_now * 1e3:9.2f} ms; {share:4.0%} back {whole * 1e3:9.2f} ms, of them"
                f" {instant * 1e3:6.2f} ms its instant; {whole / of_now:7.1f} times",
                flush=True,
            )


async def _seconds(topic: TopicState, selection: Selection, at: int | None) -> tuple[float, float]:
    """Return how long a query takes to take its instant, and altogether."""
    query = Query([topic], selection, QueryLimits(), at)
    await query.prepare()
    began = time.perf_counter()
    assert query.begin_now()
    instant = time.perf_counter() - began
    async for _ in query.records():
        pass
    return instant, time.perf_counter() - began
