"""A view of groups next to the same aggregation in Kafka Streams, and how long a change takes through the view.

The job: orders of about 170 bytes over RECORDS / 10 keys, each published whole about ten times, in two partitions.
The view counts the open orders of each customer and region, adds up their quantities and keeps their latest update.
One publish in twenty moves an order to another group. Each update of a group is an output. Their number, and the last
output of each group, are compared to a plain recomputation.

The changes of the orders are there before the clock starts: the `views` service is stopped while a materializer
writes them. Measured are the `views` service and the materializer of the view. Kafka Streams reads the log of the
orders.

The same once more with a left join: the region comes from a second topic, whose records, one for each order, are
written before the first order. Kafka Streams joins its two tables by their key.
"""

import random
import signal
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from bench import relay
from bench.broker import broker
from bench.merging import LOOK_SECONDS, PARTITIONS, SECONDS_MAX, Figure, entered, line, median
from bench.peers.kafka_streams import Stores
from bench.peers.views import table_application
from bench.service import Running, running, until
from bench.table import medians_of, table
from bench.traffic import system
from bench.usage import Usage
from sowline.changes.progress import CATCH_UP_KEY, PROGRESS_KEY
from sowline.config.kafka_options import kafka_config
from sowline.config.topic_definition import TopicDefinition, define_topic
from sowline.config.topics import Topics, parse_topics
from sowline.kafka.admin import Cluster, ensure_topics
from sowline.kafka.clients import exact_producer, read_range

CUSTOMERS = 200
REGIONS = ("amer", "apac", "emea", "latam", "nordics")
STATUSES = ("open", "open", "working", "filled", "cancelled")
COUNTED = ("open", "working")
MOVED = 0.05
FIRST_UPDATE = 1_760_000_000_000
NOTE_CHARACTERS = 48

SESSION_MS = 300_000
"""How long a consumer group keeps a member that is stopped."""

VIEW = "view"
COMPUTES, MERGES = "of which: views service", "of which: materializer of the view"
WITH_JOIN = "{}, with a join"
PER_CPU_GOALS = {VIEW: 1.1, WITH_JOIN.format(VIEW): 0.8}
LATENCY_GOAL = 2.5

RATE = relay.RATE
SECONDS = relay.SECONDS
DIRECT, THROUGH = "subscription of the orders", "subscription of the view"

SOURCE = """topics:
  - {{name: {name}, key: /id, log: {log}, partitions: {partitions}}}
  - {{name: {name}-regions, key: /id, log: {log}-regions, partitions: {partitions}}}
"""
EXPOSURE = """views:
  - name: {name}
    from: {source}
    filter: "/status IN ('open', 'working')"
    grouping: [/customer, /region]
    projection: [COUNT(1) AS /orders, SUM(/qty) AS /qty, MAX(/updated) AS /latest]
"""
JOINED = """views:
  - name: {name}
    from: {source}
    join: [{{topic: {source}-regions, "on": "/id = /id", as: home}}]
    filter: "/status IN ('open', 'working')"
    grouping: [/customer, /home/region]
    projection: [COUNT(1) AS /orders, SUM(/qty) AS /qty, MAX(/updated) AS /latest]
"""
LATEST = """
topics: [{{name: {source}, key: /order, partitions: {partitions}}}]
views: [{{name: {name}, from: {source}, grouping: [/order], projection: [MAX(/at) AS /at]}}]
"""

Order = dict[str, Any]
Group = tuple[str, str]


class Job(NamedTuple):
    """A log with this many orders, one with the region of each, the number of their outputs, and the last output of
    each group.
    """

    bootstrap: str
    cluster: Cluster
    records: int
    source: TopicDefinition
    regions: TopicDefinition
    outputs: int
    groups: dict[Group, Order]


def run(records: int, runs: int) -> str:
    """Measure both in turn, without and with a join; return the tables of medians and ratios."""
    figures: dict[str, list[Figure]] = {}
    with broker() as kafka:
        job = new_job(kafka, records)
        for _ in range(runs):
            for definition in (EXPOSURE, JOINED):
                turn = measured(job, definition)
                for name, figure in turn.items():
                    figures.setdefault(name, []).append(figure)
                    print(line(name, figure), flush=True)
        lags = latencies(kafka, min(SECONDS, records / RATE), runs)
    medians = {name: median(some) for name, some in figures.items()}
    return f"{report(job, runs, medians)}\n\n{report_latencies(runs, lags)}"


def measured(job: Job, definition: str) -> dict[str, Figure]:
    """Measure the view and Kafka Streams, one after the other."""
    joins = definition == JOINED
    computes, merges = view(job, definition)
    turn = {
        **{str(stores): streams(job, stores, joins=joins) for stores in Stores},
        VIEW: both(computes, merges),
        COMPUTES: computes,
        MERGES: merges,
    }
    return {WITH_JOIN.format(name): figure for name, figure in turn.items()} if joins else turn


def new_job(bootstrap: str, records: int) -> Job:
    """Write a log of orders, and one of their regions, under new names."""
    name = f"orders-{uuid.uuid4().hex[:8]}"
    topics = parse_topics(_source(name, name))
    source, regions = topics.topics
    cluster = Cluster(kafka_config(bootstrap))
    for topic in topics.topics:
        cluster.ensure_topic(topic)
    write(bootstrap, regions, regions_of(records))
    write(bootstrap, source, orders(records))
    last, outputs = dict[int, Order](), 0
    for order in orders(records):
        outputs += len({group_of(last.get(order["id"])), group_of(order)} - {None})
        last[order["id"]] = order
    return Job(bootstrap, cluster, records, source, regions, outputs, grouped(last.values()))


def _source(name: str, log: str) -> str:
    return SOURCE.format(name=name, log=log, partitions=PARTITIONS)


def write(bootstrap: str, topic: TopicDefinition, bodies: Iterable[Order]) -> None:
    """Publish records to the log of a topic."""
    producer = exact_producer(kafka_config(bootstrap))
    for number, body in enumerate(bodies):
        producer.produce(topic.log, orjson.dumps(body), str(body["id"]))
        if number % 10_000 == 0:
            producer.poll(0)
    producer.flush()


def orders(records: int) -> Iterator[Order]:
    """Yield the publishes, the same every time."""
    chance = random.Random(7)
    keys = max(1, records // 10)
    for number in range(records):
        key = number if number < keys else chance.randrange(keys)
        customer = chance.randrange(CUSTOMERS) if chance.random() < MOVED else key % CUSTOMERS
        yield {
            "id": key,
            "customer": f"customer-{customer:03d}",
            "region": region_of(key),
            "status": chance.choice(STATUSES),
            "qty": chance.randrange(1, 10_000),
            "updated": FIRST_UPDATE + number,
            "note": "x" * NOTE_CHARACTERS,
        }


def region_of(key: int) -> str:
    """Return the region of an order, which never changes."""
    return REGIONS[key // CUSTOMERS % len(REGIONS)]


def regions_of(records: int) -> Iterator[Order]:
    """Yield the records with the regions."""
    return ({"id": key, "region": region_of(key)} for key in range(max(1, records // 10)))


def group_of(order: Order | None) -> Group | None:
    """Return the group that an order counts in; None if it does not count."""
    return None if order is None or order["status"] not in COUNTED else (order["customer"], order["region"])


def grouped(latest: Iterable[Order]) -> dict[Group, Order]:
    """Return the records of the view, from the latest publish of each order."""
    made: dict[Group, Order] = {}
    for order in latest:
        if (group := group_of(order)) is not None:
            names = {"customer": group[0], "region": group[1]}
            one = made.setdefault(group, {**names, "orders": 0, "qty": 0, "latest": 0})
            one["orders"] += 1
            one["qty"] += order["qty"]
            one["latest"] = max(one["latest"], order["updated"])
    return made


def streams(job: Job, stores: Stores, *, joins: bool) -> Figure:
    """Measure Kafka Streams, with empty stores."""
    name = f"table-{uuid.uuid4().hex[:8]}"
    output = define_topic(name=name, key=("/customer",), partitions=PARTITIONS)
    job.cluster.ensure_topic(output)
    logs = [job.source.log, job.regions.log] if joins else [job.source.log]
    with (
        table_application("GroupBy", job.bootstrap, [*logs, output.log], stores) as entrant,
        entered(entrant) as processes,
    ):
        deadline = time.monotonic() + SECONDS_MAX

        def written() -> int:
            processes.look(deadline)
            return _end(job, output.log)

        (figure,) = timed(job, [processes.usage], written)
    check(job, output.log)
    return figure


def view(job: Job, definition: str) -> tuple[Figure, Figure]:
    """Measure the `views` service and the materializer of the view, with empty stores."""
    name, source = f"exposure-{uuid.uuid4().hex[:8]}", f"orders-{uuid.uuid4().hex[:8]}"
    exposure = definition.format(name=name, source=source)
    topics = parse_topics(_source(source, source) + exposure)
    ensure_topics(kafka_config(job.bootstrap), topics)
    with (
        tempfile.TemporaryDirectory() as directory,
        held(job, topics, exposure, Path(directory)) as (computes, merges),
    ):
        output = topics.named(name).changes
        besides = _end(job, output)

        def written() -> int:
            # Progress events are in the topic, too. The metric does not count them, but asking for it takes CPU.
            count = _end(job, output) - besides
            return count if count < job.outputs else int(merges.metric("sowline_changes_total"))

        computed, merged = timed(job, [computes.usage, merges.usage], written)
    check(job, output)
    return computed, merged


@contextmanager
def held(job: Job, topics: Topics, exposure: str, directory: Path) -> Iterator[tuple[Running, Running]]:
    """Run the `views` service and the materializer of its view, and start them when the source has its changes."""
    source, regions, computed = topics.topics
    # A materializer owns all topics of its file. So the view's has the orders under an empty log.
    empty = _source(source.name, f"{source.log}-empty")
    filling = _settings(job, directory / "fill", _source(source.name, source.log))
    merging = _settings(job, directory / "merge", empty + exposure)
    computing = _settings(job, directory / "compute", _source(source.name, source.log) + exposure)
    with running("materializer", merging) as merges, running("materializer", filling) as fills:
        until(lambda: merges.metric("sowline_partitions") == len(topics.topics) * PARTITIONS)
        written = len(list(regions_of(job.records)))
        write(job.bootstrap, regions, regions_of(job.records))
        until(lambda: fills.metric("sowline_changes_total") >= written)
        with running("views", computing) as computes:
            # The first message of a source partition to a partition of the view is a snapshot. By then the service
            # has read the regions.
            until(lambda: _end(job, computed.log) >= PARTITIONS**2)
            computes.signal(signal.SIGSTOP)
            try:
                write(job.bootstrap, source, orders(job.records))
                until(lambda: fills.metric("sowline_changes_total") >= written + job.records)
                fills.end()
            finally:
                computes.signal(signal.SIGCONT)
            yield computes, merges


def _settings(job: Job, directory: Path, config: str) -> dict[str, str]:
    directory.mkdir()
    file = directory / "topics.yaml"
    file.write_text(config)
    return {
        "SOWLINE_KAFKA": job.bootstrap,
        "SOWLINE_CONFIG": str(file),
        "SOWLINE_DATA_DIR": str(directory / "state"),
        "SOWLINE_GROUP": uuid.uuid4().hex,
        "SOWLINE_SESSION_TIMEOUT_MS": str(SESSION_MS),
    }


def _end(job: Job, topic: str) -> int:
    return sum(job.cluster.ends(topic, range(PARTITIONS)).values())


def timed(job: Job, usages: Sequence[Callable[[], Usage]], written: Callable[[], int]) -> list[Figure]:
    """Wait for all outputs; return what each process took, by source change.

    Rate and CPU count from the first output that is seen, the whole CPU from the start of the process.
    """
    while (first := written()) <= 0:
        time.sleep(LOOK_SECONDS)
    began, before = time.monotonic(), [usage().cpu_seconds for usage in usages]
    until(lambda: written() >= job.outputs)
    ended, after = time.monotonic(), [usage() for usage in usages]
    left = job.records * (job.outputs - first) / job.outputs
    return [
        Figure(
            left / (ended - began),
            (now.cpu_seconds - then) / left * 1e6,
            now.cpu_seconds / job.records * 1e6,
            now.rss_bytes_max / 1e6,
        )
        for now, then in zip(after, before, strict=True)
    ]


def both(one: Figure, other: Figure) -> Figure:
    """Return what two processes took together."""
    return Figure(
        one.rate,
        one.cpu_us + other.cpu_us,
        one.whole_cpu_us + other.whole_cpu_us,
        one.rss_mb + other.rss_mb,
    )


def check(job: Job, output: str) -> None:
    """Raise unless a topic has the outputs of the job, and the last one of each group is its record."""
    outputs, last = 0, dict[bytes, bytes]()
    for number, end in job.cluster.ends(output, range(PARTITIONS)).items():
        for batch in read_range(kafka_config(job.bootstrap), output, number, 0, end):
            changes = [
                (message.key() or b"", message.value() or b"")
                for message in batch
                if message.key() not in (PROGRESS_KEY, CATCH_UP_KEY)
            ]
            outputs += len(changes)
            last.update(changes)
    bodies = [orjson.loads(body) for body in last.values() if body]
    made = {(body["customer"], body["region"]): body for body in map(_flat, bodies)}
    if outputs != job.outputs or made != job.groups or len(bodies) != len(made):
        wrong = sum(made.get(group) != body for group, body in job.groups.items())
        raise AssertionError(
            f"expected {job.outputs:,} outputs and {len(job.groups):,} groups in {output}, got {outputs:,} and"
            f" {len(made):,}, of which {wrong:,} are wrong"
        )


def _flat(body: Order) -> Order:
    """Return a record of a view with the field of its joined record as a separate field."""
    own = {name: value for name, value in body.items() if name != "home"}
    return {**own, **body.get("home", {})}


def latencies(kafka: str, seconds: float, runs: int) -> dict[str, relay.Lags]:
    """Measure in turn how long a publish takes to a subscriber of the orders, and to one of a view of them."""
    topics = LATEST.format(source="live-orders", name="live-latest", partitions=PARTITIONS)
    lags: dict[str, list[relay.Lags]] = {DIRECT: [], THROUGH: []}
    with tempfile.TemporaryDirectory() as directory, system(kafka, Path(directory), topics) as url:
        for number in range(relay.WARM_RUNS + runs):
            for name, topic in ((DIRECT, "live-orders"), (THROUGH, "live-latest")):
                subscriber = partial(relay.subscribe, url, topic)
                found = relay.measure(kafka, "live-orders", subscriber, int(seconds * RATE), RATE)
                if number >= relay.WARM_RUNS:
                    lags[name].append(found)
                    print(f"  {name:34} {found}", flush=True)
    return {
        name: relay.Lags(
            statistics.median(one.p50 for one in some), statistics.median(one.p99 for one in some)
        )
        for name, some in lags.items()
    }


def report(job: Job, runs: int, medians: Mapping[str, Figure]) -> str:
    """Return throughput and CPU as a table, with the ratio that has a goal."""
    rows = [
        (name, f"{one.rate:,.0f}", f"{one.cpu_us:.1f}", f"{one.whole_cpu_us:.1f}", f"{one.rss_mb:,.0f}")
        for name, one in medians.items()
    ]
    ratios = [
        ratio(f"{ours} compared to {stores}", medians[ours], medians[theirs], PER_CPU_GOALS[ours])
        for stores in Stores
        for ours, theirs in ((VIEW, str(stores)), (WITH_JOIN.format(VIEW), WITH_JOIN.format(stores)))
    ]
    caption = (
        f"{job.records:,} changes of {max(1, job.records // 10):,} orders in {PARTITIONS} partitions, {job.outputs:,}"
        f" outputs for {len(job.groups):,} groups, {medians_of(runs)}."
    )
    head = ("", "changes of orders/s", "µs of CPU per change", "including startup", "peak RSS, MB")
    return f"{caption}\n\n{table(head, [*rows, *ratios])}"


def ratio(name: str, ours: Figure, theirs: Figure, goal: float) -> tuple[str, ...]:
    """Return what a view took compared to Kafka Streams, as a row; `goal` is for the CPU."""
    return (
        name,
        f"{ours.rate / theirs.rate:.2f} times its changes/s",
        f"{theirs.cpu_us / ours.cpu_us:.2f} times as much per CPU (goal {goal})",
        f"{theirs.whole_cpu_us / ours.whole_cpu_us:.2f} times",
        f"{ours.rss_mb / theirs.rss_mb:.2f} of its memory",
    )


def report_latencies(runs: int, lags: Mapping[str, relay.Lags]) -> str:
    """Return the latencies as a table, with the ratio that has a goal."""
    rows = [(name, *(f"{figure:.1f}" for figure in one)) for name, one in lags.items()]
    p50, p99 = (ours / theirs for ours, theirs in zip(lags[THROUGH], lags[DIRECT], strict=True))
    compared = ("ratio", f"{p50:.2f} (goal {LATENCY_GOAL})", f"{p99:.2f}")
    head = (f"milliseconds from publish to receipt, at {RATE:,}/s", *relay.Lags._fields)
    return f"{table(head, [*rows, compared])}\n\n{medians_of(runs).capitalize()}."
