"""How long it takes until everything is applied after the last write: after kills under load, and after an overload.

Two materializers share the partitions of a topic; publishes, deltas and deletes, some of them in the wrong partition,
arrive at a steady rate. In one run a materializer is killed and started again, now and then; in the other the rate is
more than both can take. After the last write their positions are looked at each second, until the last record of the
log is applied: a slow partition advances, a stalled one does not.
"""

import multiprocessing
import random
import tempfile
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import orjson

from bench.broker import broker
from bench.service import Running, running
from bench.table import table
from sowline.commands.command import command_headers
from sowline.config.kafka_options import kafka_config
from sowline.config.topic_definition import TopicDefinition, define_topic
from sowline.kafka.admin import Cluster
from sowline.kafka.clients import exact_producer, read_range
from sowline.kafka.messages import event_of

PARTITIONS = 4
KEYS = 20_000
MISPLACED = 0.1
WORKERS = 2
RATE, OVERLOAD_RATE = 5_000, 100_000
KILL_SECONDS = 10.0
LOOK_SECONDS = 1.0
SECONDS_MAX = 1800.0


class Look(NamedTuple):
    """Seconds since the last write, and for each partition how many records of the log are not applied yet."""

    seconds: float
    behind: tuple[int, ...]


def run(records: int, runs: int) -> str:
    """Write a tenth of `records`, at most, in each case; return the table."""
    count = max(RATE, records // 10)
    with broker() as kafka:
        kinds = {
            f"{RATE:,} records/s, a materializer killed every {KILL_SECONDS:g} s": _leveled(
                kafka, count, RATE, kill
            ),
            "as fast as Kafka takes them": _leveled(kafka, count, OVERLOAD_RATE, leave_alone),
        }
    rows = [(name, f"{count:,}", *_cells(looks)) for name, looks in kinds.items()]
    checkpoints = (
        "load",
        "records",
        "behind when it ends",
        "caught up after, s",
        "records/s",
        "longest standstill, s",
    )
    return table(checkpoints, rows)


def _cells(looks: list[Look]) -> tuple[str, ...]:
    """Return the figures of a time series."""
    behind, seconds = sum(looks[0].behind), looks[-1].seconds
    return f"{behind:,}", f"{seconds:.0f}", f"{behind / max(1.0, seconds):,.0f}", f"{standstill(looks):.0f}"


def standstill(looks: list[Look]) -> float:
    """Return the longest time in which no partition that was behind moved on."""
    longest, since = 0.0, looks[0]
    for look in looks[1:]:
        if look.behind != since.behind:
            longest, since = max(longest, look.seconds - since.seconds), look
    return max(longest, looks[-1].seconds - since.seconds)


Disturb = Callable[[list[Running], random.Random], None]


def kill(services: list[Running], chance: random.Random) -> None:
    """Kill one of the services, and start it again."""
    chance.choice(services).kill()


def leave_alone(services: list[Running], chance: random.Random) -> None:
    """Do nothing."""


def _leveled(kafka: str, records: int, rate: int, disturb: Disturb) -> list[Look]:
    name = f"level-{uuid.uuid4().hex[:8]}"
    definition = define_topic(name=name, key=("/order",), partitions=PARTITIONS)
    cluster = Cluster(kafka_config(kafka))
    cluster.ensure_topic(definition)
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        config = Path(directory) / "topics.yaml"
        config.write_text(f"topics:\n  - {{name: {name}, key: [/order], partitions: {PARTITIONS}}}\n")
        services = []
        for number in range(WORKERS):
            settings = {
                "SOWLINE_KAFKA": kafka,
                "SOWLINE_CONFIG": str(config),
                "SOWLINE_DATA_DIR": f"{directory}/{number}",
                "SOWLINE_GROUP": name,
            }
            services.append(stack.enter_context(running("materializer", settings)))
        chance = random.Random(7)
        writer = multiprocessing.get_context("spawn").Process(
            target=_write, args=(kafka, name, records, rate)
        )
        writer.start()
        while writer.is_alive():
            writer.join(KILL_SECONDS)
            if writer.is_alive():
                disturb(services, chance)
        return _until_level(cluster, kafka, definition)


def _write(kafka: str, log: str, records: int, rate: int) -> None:
    """Publish orders at a rate, some of them to any partition, with deltas and deletes among them."""
    producer, chance = exact_producer(kafka_config(kafka)), random.Random(11)
    delta, delete = command_headers("delta_publish"), command_headers("sow_delete")
    began = time.monotonic()
    for number in range(records):
        key = chance.randrange(KEYS)
        kind = chance.random()
        headers = delta if kind < 0.4 else delete if kind < 0.45 else None
        body = orjson.dumps({"order": key, "qty": number, "note": "x" * 100})
        where = chance.randrange(PARTITIONS) if chance.random() < MISPLACED else -1
        producer.produce(log, body, str(key), where, headers=headers)  # type: ignore[arg-type]
        if number % 500 == 0:
            producer.poll(max(0.0, began + number / rate - time.monotonic()))
    producer.flush()


def _until_level(cluster: Cluster, kafka: str, definition: TopicDefinition) -> list[Look]:
    """Look at where the partitions stand until all of the log is applied, and nothing more is forwarded."""
    positions, began, looks = [(-1, 0)] * PARTITIONS, time.monotonic(), list[Look]()
    while True:
        ends = cluster.newest_ends(definition.log, range(PARTITIONS))
        positions = [
            _position(kafka, cluster, definition, number, position)
            for number, position in enumerate(positions)
        ]
        behind = tuple(max(0, ends[number] - 1 - offset) for number, (offset, _) in enumerate(positions))
        looks.append(Look(time.monotonic() - began, behind))
        print(f"{looks[-1].seconds:6.1f} s after the last write: {behind} records behind", flush=True)
        if not any(behind):
            return looks
        if looks[-1].seconds > SECONDS_MAX:
            raise RuntimeError(f"not level within {SECONDS_MAX:g} s")
        time.sleep(LOOK_SECONDS)


def _position(
    kafka: str, cluster: Cluster, definition: TopicDefinition, partition: int, position: tuple[int, int]
) -> tuple[int, int]:
    """Return the offset of the last log record that a partition says it has applied, and how far that was read."""
    offset, start = position
    end = cluster.ends(definition.changes, [partition])[partition]
    for messages in read_range(kafka_config(kafka), definition.changes, partition, max(start, end - 5), end):
        offset = max(offset, *(event_of(message).position.offset for message in messages))
    return offset, end
