"""From Kafka to ten thousand clients with one key each: Lightstreamer's published load test at this machine's size.

Records of 1 KB are published to the log at a rate, for keys by chance. A materializer and a query service, in
separate processes, deliver them to clients that subscribe to one key each. Publisher, broker, services and clients
share the cores of this machine. Each rate is held for some seconds; it is sustained if all messages arrive soon after
the last publish. Lightstreamer's clients share 40 keys, so that each record goes to many of them. In a harder
variant, each client has its own key.
"""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from bench.broker import broker
from bench.frames import request
from bench.listeners import ACKNOWLEDGED
from bench.rates import CLIENTS, HEAD, RECORD_BYTES, Log, Server, Shape, raised
from bench.service import Running, running, until
from bench.table import table
from sowline.config.kafka_options import kafka_config
from sowline.config.topic_definition import define_topic
from sowline.kafka.admin import Cluster

PARTITIONS = 4
TOPIC = "prices"
SHARED = Shape(40, (25_000, 50_000, 100_000, 150_000, 200_000, 250_000, 300_000, 350_000))
OWN = Shape(CLIENTS, (5_000, 10_000, 15_000, 20_000, 25_000, 30_000, 35_000, 40_000))


class Services(NamedTuple):
    """Sowline's processes."""

    materializer: Running
    query_service: Running


def run(records: int, runs: int) -> str:
    """Raise the rate until it is not sustained; return the table."""
    del records, runs
    with broker() as kafka, services(kafka) as ours:
        server = as_server(kafka, ours.query_service, ours.query_service)
        found = [(shape, held) for shape in (SHARED, OWN) for held in raised(server, shape)]
    rows = [(f"{shape.keys:,}", *held.cells, f"{held.cpu_us:.1f}") for shape, held in found]
    head = ("keys", *HEAD, "µs CPU of the service")
    return f"{CLIENTS:,} clients, {RECORD_BYTES:,} bytes a record.\n\n{table(head, rows)}"


@contextmanager
def services(kafka: str) -> Iterator[Services]:
    """Run both over a topic of Kafka."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        environment = _environment(kafka, directory)
        materializer = stack.enter_context(running("materializer", environment))
        query_service = stack.enter_context(running("query_service", environment))
        until(query_service.has_started)
        yield Services(materializer, query_service)


def as_server(kafka: str, query_service: Running, *counted: Running) -> Server:
    """Return the service that clients use, and the CPU of the processes that count."""
    return Server(
        int(query_service.url.rpartition(":")[2]),
        lambda key: request("subscribe", TOPIC, filter=f"/order = {key}"),
        ACKNOWLEDGED,
        partial(Log, kafka, TOPIC),
        lambda: sum(one.usage().cpu_seconds for one in counted),
    )


def _environment(kafka: str, directory: Path) -> dict[str, str]:
    Cluster(kafka_config(kafka)).ensure_topic(
        define_topic(name=TOPIC, key=("/order",), partitions=PARTITIONS)
    )
    config = directory / "topics.yaml"
    config.write_text(f"topics:\n  - {{name: {TOPIC}, key: [/order], partitions: {PARTITIONS}}}\n")
    return {
        "SOWLINE_KAFKA": kafka,
        "SOWLINE_CONFIG": str(config),
        "SOWLINE_DATA_DIR": str(directory / "state"),
        "SOWLINE_SESSIONS_MAX": str(CLIENTS + 100),
    }
