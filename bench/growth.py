"""The cost of each record, subscription and partition as their number grows.

Records: the materializer's partition and the query service's state, without Kafka, in a process for each size. The
partition opens and checks a store of this many records, as after a restart, and applies random updates with the code
that applies a log. The state is queried in memory. Subscriptions: in-process matching. Partitions: whole
materializers and the whole system, with Kafka.
"""

import asyncio
import gc
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from multiprocessing import get_context
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple, TypeVar

import orjson

from bench.broker import broker
from bench.materialize import materializer
from bench.merging import Entrant, entered, measure, new_load
from bench.queries import asked
from bench.relay import BARE, RATE, SYSTEM, compare
from bench.service import running, until
from bench.table import table
from bench.usage import usage
from sowline.changes.change import Change
from sowline.commands.command import LogRecord, command_headers
from sowline.config.topic_definition import define_topic
from sowline.config.topics import parse_topics
from sowline.language.filter import compile_filter
from sowline.model.key import sow_key
from sowline.model.position import Position
from sowline.runtime.native import native_core
from sowline.runtime.process import spare_the_collector
from sowline.subscriptions.engine.matching import LiveSubscriptions
from sowline.subscriptions.engine.subscription import ChangeView, Subscription
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.core.record import Record, encode_record
from sowline_materializer.partition.opened import OpenedPartition
from sowline_materializer.partition.partition import Partition
from sowline_materializer.store.cache import RecordCache
from sowline_materializer.store.checksum import Checksum, entry_hash
from sowline_materializer.store.integrity import verified
from sowline_materializer.store.rocksdb import RocksStore
from sowline_materializer.store.write_behind import WriteBehindStore
from sowline_query_service.topics.state import ServedTopics

BATCH = 1000
UPDATES = 100_000
WARM_UPDATES_MAX = 1_500_000
"""How many updates fill the records' cache of the largest size, four times over."""
SETTLED_CPU_SECONDS = 0.02
LOOKUPS = 200
COUNTS = 5
CONDITION = "/ticker = 'T042' AND /qty > 5000"
SUBSCRIPTIONS = (1, 100, 10_000)
CHANGES = 2_000
PARTITIONS = (1, 8, 64)
LIVE_RUNS = 3
LIVE_SECONDS = 5
DEFINITION = define_topic(name="orders", key=("/order",), partitions=1)
Figure = TypeVar("Figure")
DELTA = command_headers("delta_publish")
NATIVE = native_core(None)
CACHE_BYTES_MAX = 128 << 20
"""The default of a materializer."""
LARGE_CACHE_BYTES_MAX = 4 * CACHE_BYTES_MAX


def run(records: int, runs: int) -> str:
    """Measure with a hundredth of `records`, with `records`, and with ten times as many; return three tables."""
    return "\n\n".join((_of_records(records), _of_subscriptions(runs), _of_partitions(records // 5)))


# records


class Stored(NamedTuple):
    """The cost of a partition with this many records."""

    apply_cpu_us: float
    headers_cpu_us: float
    commit_cpu_us: float
    read_share: float
    disk_bytes: float
    check_seconds: float


class Queried(NamedTuple):
    """The cost of a query service's state with this many records."""

    rss_bytes: float
    key_us: float
    number_us: float
    first_count_seconds: float
    count_ms: float


def _of_records(records: int) -> str:
    sizes = (records // 100, records, records * 10)
    figures, larger = [], []
    for size in sizes:
        stored, queried = _apart(_stored, size), _apart(_queried, size)
        large = _apart(_stored_in_large_cache, size)
        print(
            f"{size:,} records: {stored}, {queried}; with {LARGE_CACHE_BYTES_MAX:,} bytes: {large}",
            flush=True,
        )
        figures.append((stored, queried))
        larger.append(large)
    rows = [
        ("applying an update, µs CPU", *(f"{stored.apply_cpu_us:.1f}" for stored, _ in figures)),
        ("updates that read the store", *(f"{stored.read_share:.0%}" for stored, _ in figures)),
        ("with four times the cache: applying an update", *(f"{one.apply_cpu_us:.1f}" for one in larger)),
        (
            "with four times the cache: updates that read the store",
            *(f"{one.read_share:.0%}" for one in larger),
        ),
        ("creating the change's headers, µs CPU", *(f"{stored.headers_cpu_us:.1f}" for stored, _ in figures)),
        ("committing an update, µs CPU", *(f"{stored.commit_cpu_us:.1f}" for stored, _ in figures)),
        ("the store on disk, bytes a record", *(f"{stored.disk_bytes:,.0f}" for stored, _ in figures)),
        ("recovery from the local state, s", *(f"{stored.check_seconds:.2f}" for stored, _ in figures)),
        ("replica in memory, bytes a record", *(f"{queried.rss_bytes:,.0f}" for _, queried in figures)),
        ("query of one record by its key as text, µs", *(f"{queried.key_us:.0f}" for _, queried in figures)),
        ("query of one record by a number, µs", *(f"{queried.number_us:.0f}" for _, queried in figures)),
        (
            "count by a filter, first time, s",
            *(f"{queried.first_count_seconds:.2f}" for _, queried in figures),
        ),
        ("count by the filter, indexed, ms", *(f"{queried.count_ms:.2f}" for _, queried in figures)),
    ]
    return table(("records", *(f"{size:,}" for size in sizes)), rows)


def _apart(task: Callable[[int], Figure], size: int) -> Figure:
    """Do a task in its own process, whose end frees its memory."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(task, size).result()


def _body(number: int) -> bytes:
    """An order of about 170 bytes."""
    mixed = number * 2_654_435_761 % (1 << 32)
    values = (number, mixed % 5000, mixed % 200, (b"buy", b"sell")[mixed & 1], mixed % 10_000, mixed % 500)
    return (
        b'{"order":%d,"customer":"customer-%05d","ticker":"T%03d","side":"%b","status":"new","qty":%d,"price":%d.25,'
        b'"note":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}' % values
    )


class _CountedStore(WriteBehindStore[RocksStore]):
    """Counts the records that are read from it."""

    def __init__(self, disk: RocksStore) -> None:
        super().__init__(disk, NATIVE)
        self.reads = 0

    def get(self, key: bytes) -> bytes | None:
        """Return the bytes under the key."""
        self.reads += 1
        return super().get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the bytes under each key."""
        self.reads += len(keys)
        return super().get_many(keys)


def _stored_in_large_cache(size: int) -> Stored:
    return _stored(size, LARGE_CACHE_BYTES_MAX)


def _stored(size: int, cache_bytes_max: int = CACHE_BYTES_MAX) -> Stored:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "0"
        store = RocksStore(path, create=True)
        checkpoint = _fill(store, size)
        _settle()
        opened = OpenedPartition(store, checkpoint, checkpoint.position)
        behind = _CountedStore(store)
        partition = Partition(DEFINITION, 0, opened, RecordCache(lambda: cache_bytes_max), behind, NATIVE)
        spare_the_collector()
        # The first updates fill caches that are empty at a start.
        end = size + max(UPDATES, min(4 * size, WARM_UPDATES_MAX))
        for start in range(size, end, UPDATES):
            _applied(partition, _updates(size, start), behind)
        behind.reads = 0
        updates = _applied(partition, _updates(size, end), behind)
        reads = behind.reads
        store.mark_finished()
        partition.close()
        disk = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        began = time.perf_counter()
        store = RocksStore(path, create=False)
        assert verified(store, NATIVE)[0].records == size
        seconds = time.perf_counter() - began
        store.close()
    applying, heading, committing = (cpu / UPDATES * 1e6 for cpu in updates)
    return Stored(applying, heading, committing, reads / UPDATES, disk / size, seconds)


def _fill(store: RocksStore, size: int) -> Checkpoint:
    """Write a record for each of this many log records, and the head after them."""
    end = Position(0, size - 1)
    checkpoint = Checkpoint(
        position=end, last_change=end, definition=DEFINITION.digest, limits=DEFINITION.limits, records=size
    )
    for start in range(0, size, BATCH):
        entries: dict[bytes, bytes | None] = {}
        count, total = store.checksum()
        for number in range(start, min(start + BATCH, size)):
            text = str(number)
            key = sow_key(DEFINITION.declared.domain_prefix, text)
            data = entries[key] = encode_record(Record(_body(number), text, Position(0, number), number))
            total += entry_hash(key, data)
        store.commit(entries, Checksum.of(count + len(entries), total), checkpoint.encode())
    store.mark_finished()
    return checkpoint


def _settle() -> None:
    """Wait until RocksDB has merged its files, which takes longer than to write them."""
    seen = -1.0
    while time.process_time() - seen > SETTLED_CPU_SECONDS:
        seen = time.process_time()
        time.sleep(1)


def _updates(size: int, start: int) -> Iterator[LogRecord]:
    """Updates of records by chance, half of them deltas, with offsets from `start` on."""
    chance = random.Random(start)
    for offset in range(start, start + UPDATES):
        number = chance.randrange(size)
        if offset % 2:
            yield LogRecord(offset, offset, b"%d" % number, _body(number))
        else:
            yield LogRecord(
                offset, offset, b"%d" % number, b'{"order":%d,"qty":%d}' % (number, offset), DELTA
            )


def _applied(
    partition: Partition, records: Iterator[LogRecord], store: WriteBehindStore[RocksStore]
) -> tuple[float, float, float]:
    """Apply records batch by batch, make the headers of their changes, and commit: the CPU seconds of each.

    The flush after the last batch is part of the commits. RocksDB's own threads are in it.
    """
    applying = heading = committing = 0.0
    while given := list(islice(records, BATCH)):
        batch, end = _as_consumed(given), given[-1].offset + 1
        began = time.process_time()
        prepared = partition.prepare(batch, end)
        applied = time.process_time()
        if NATIVE is not None:
            NATIVE.messages(prepared.events, 0, len(prepared.events))
        else:
            for event in prepared.events:
                if isinstance(event, Change):
                    event.headers()
        headed = time.process_time()
        partition.commit(prepared, end)
        applying += applied - began
        heading += headed - applied
        committing += time.process_time() - headed
    began = time.process_time()
    store.flush()
    committing += time.process_time() - began
    return applying, heading, committing


def _as_consumed(records: list[LogRecord]) -> Sequence[LogRecord]:
    """Return log records as the installed core gets them from Kafka."""
    if NATIVE is None:
        return records
    fields = attrgetter("offset", "time", "key", "value", "headers")
    batch: Sequence[LogRecord] = NATIVE.LogRecords([NATIVE.LogRecord(*fields(record)) for record in records])
    return batch


def _queried(size: int) -> Queried:
    before = _rss_bytes()
    state = ServedTopics(parse_topics("topics: [{name: orders, key: /order}]"), ring_changes_max=1000)
    topic = state.topics["orders"]
    domain = topic.definition.declared.domain_prefix
    for number in range(size):
        topic.rows.put(sow_key(domain, str(number)), _body(number), 0, Position(0, number), number)
    for partition in topic.partitions.values():
        partition.loaded()
    held = _rss_bytes() - before
    gc.collect()
    spare_the_collector()
    return Queried(held / size, *asyncio.run(_ask(state, size)))


async def _ask(state: ServedTopics, size: int) -> tuple[float, float, float, float]:
    orders = [number * size // LOOKUPS for number in range(LOOKUPS)]
    by_key = [await _seconds(state, f"/order = '{order}'", top_n=None) for order in orders]
    by_number = [await _seconds(state, f"/order = {order}", top_n=None) for order in orders]
    first = await _seconds(state, CONDITION)
    counts = [await _seconds(state, CONDITION) for _ in range(COUNTS)]
    micros = [statistics.median(seconds) * 1e6 for seconds in (by_key, by_number)]
    return micros[0], micros[1], first, statistics.median(counts) * 1e3


async def _seconds(state: ServedTopics, filter: str, top_n: int | None = 0) -> float:
    began = time.perf_counter()
    await asked(state, filter, top_n=top_n)
    return time.perf_counter() - began


def _rss_bytes() -> int:
    return usage([os.getpid()]).rss_bytes_max


# subscriptions


def _of_subscriptions(runs: int) -> str:
    """The cost of a change that matches none of the subscriptions, or one."""
    rows = []
    for matches in (0, 1):
        micros = []
        for count in SUBSCRIPTIONS:
            live = _subscribed(count)
            changes = list(_changes(count, matches))
            micros.append(statistics.median(_matched(live, changes, matches) for _ in range(runs)))
        rows.append((f"a change that matches {matches}, µs CPU", *(f"{micro:.1f}" for micro in micros)))
    return table(("subscriptions", *(f"{count:,}" for count in SUBSCRIPTIONS)), rows)


def _subscribed(count: int) -> LiveSubscriptions[int]:
    live: LiveSubscriptions[int] = LiveSubscriptions()
    for number in range(count):
        filter = compile_filter(f"/customer = 'customer-{number:05d}' AND /price > {number % 100}")
        live.add(number, Subscription(filter, oof=False))
    return live


def _changes(count: int, matches: int) -> Iterator[Change]:
    """Changes of orders of customers that a subscription asks for, or of one that none does."""
    chance = random.Random(11)
    for number in range(CHANGES):
        customer = f"customer-{chance.randrange(count):05d}" if matches else "nobody"
        order = orjson.loads(_body(number)) | {"customer": customer, "price": 100 + number}
        previous, body = orjson.dumps(order), orjson.dumps(order | {"qty": number})
        position, after = Position(0, number + 1), Position(0, number)
        yield Change(b"%d" % number, body, previous, position, after, "publish", 0)


def _matched(live: LiveSubscriptions[int], changes: list[Change], matches: int) -> float:
    began = time.process_time()
    deliveries = sum(len(live.on_change(ChangeView(change))) for change in changes)
    micros = (time.process_time() - began) / len(changes) * 1e6
    assert deliveries == matches * len(changes), f"expected {matches} deliveries a change, got {deliveries}"
    return micros


# partitions


def _of_partitions(records: int) -> str:
    """The cost of a record to one materializer, and its time to a subscriber, by the number of partitions."""
    with broker() as kafka:
        services = [_of_services(kafka, records, partitions) for partitions in PARTITIONS]
        seconds = min(LIVE_SECONDS, records / RATE)
        lags = [compare(kafka, partitions, seconds, (RATE,), LIVE_RUNS) for partitions in PARTITIONS]
    rows = [
        ("one materializer, µs of CPU per record", *(f"{applied:.1f}" for applied, _ in services)),
        (
            "one query service while it loads, µs of CPU per change",
            *(f"{loaded:.1f}" for _, loaded in services),
        ),
        (
            f"publish to subscriber at {RATE:,}/s, p50 in ms",
            *(f"{one[SYSTEM, RATE].p50:.1f}" for one in lags),
        ),
        (
            "through a bare relay with the same number of partitions",
            *(f"{one[BARE, RATE].p50:.1f}" for one in lags),
        ),
    ]
    return table(("partitions", *map(str, PARTITIONS)), rows)


def _of_services(kafka: str, records: int, partitions: int) -> tuple[float, float]:
    """The CPU microseconds of a record in a materializer, and those of a change in a query service that loads it."""
    load, empty = new_load(kafka, records, partitions), new_load(kafka, 0, partitions)
    with materializer(load) as entrant:
        applied = measure(load, entrant).cpu_us
        loading = _load_seconds(entrant)
    with materializer(empty) as entrant:
        # A query service is ready once the owner of each partition has written its first event.
        with entered(entrant):
            until(lambda: sum(empty.cluster.ends(entrant.output, range(partitions)).values()) >= partitions)
        loaded = (loading - _load_seconds(entrant)) / records * 1e6
    print(f"{partitions} partitions: {applied:.1f} µs CPU applied, {loaded:.1f} loaded", flush=True)
    return applied, loaded


def _load_seconds(entrant: Entrant) -> float:
    """The CPU seconds of a query service from its start until it has loaded all changes."""
    ((_, settings),) = entrant.processes
    elsewhere = {name: value for name, value in settings.items() if name != "SOWLINE_PORT"}
    with running("query_service", elsewhere) as service:
        until(service.has_started)
        return service.usage().cpu_seconds
