"""One run: a world in the place of what is around the services, by one seed."""

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from types import SimpleNamespace
from unittest.mock import patch

import structlog

from sowline.native import Core
from tests.property.clock import at_once
from tests.simulation import clients, leaders, strands
from tests.simulation.admin_client import AdminClient
from tests.simulation.gateway_events import noted
from tests.simulation.harness import CORES, LAG_MS, STEPS, Loop, Outcome, for_us, one_by_one, uncollected
from tests.simulation.world import Simulation


@contextmanager
def _played(simulation: Simulation) -> Iterator[None]:
    """Put the stand-ins in place of what is around the services."""
    threads = SimpleNamespace(Event=strands.Event, Thread=strands.Thread)
    chance = simulation.chance_of("sizes")
    snapshot_rows = simulation.chance_of("snapshot rows").choice((1, 3, 1000))
    config = structlog.get_config()
    patches: list[AbstractContextManager[object]] = [
        patch("sowline.kafka.clients.Consumer", clients.Consumer),
        patch("sowline.kafka.clients.Producer", clients.Producer),
        patch("sowline.kafka.admin.AdminClient", AdminClient),
        patch("sowline_materializer.partition.kafka_partition.read_natively", clients.read_by_python),
        patch("sowline_materializer.partition.recovery.RocksStore", simulation.disks.store_class()),
        patch("sowline.kafka.topic_settings.COMPACTION_LAG_MS_MIN", LAG_MS),
        patch("sowline_materializer.service.ensure_topics", lambda kafka, topics, stop: None),
        patch(
            "sowline_materializer.service.has_disk_space", lambda path: path.name not in simulation.disks.full
        ),
        patch("sowline_materializer.service.Path", lambda path: SimpleNamespace(mkdir=lambda **_: None)),
        patch("sowline_materializer.worker.assignment.RECOVERED_AT_ONCE", 1),
        patch("sowline_materializer.partition.partition.OUTCOMES_MAX", chance.choice((1, 3, 1000))),
        patch(
            "sowline_materializer.core.portions.PORTION_CHANGES_MAX",
            simulation.chance_of("portion").choice((1, 2, 5000)),
        ),
        patch("sowline_query_service.topics.follower.threading", threads),
        patch("sowline_fanout.runner.LOAD_STEP", simulation.chance_of("load step").choice((1, 2, 10_000))),
        patch("sowline_query_service.replica.partition_replica.INDEX_STEP", chance.choice((1, 3, 500))),
        patch("sowline_query_service.snapshots.partition_snapshots.BLOCK_RECORDS_MAX", snapshot_rows),
        patch("sowline_query_service.snapshots.partition_snapshots.ROWS_MAX", snapshot_rows),
        patch("sowline_query_service.snapshots.block.BLOCK_RECORDS_MAX", snapshot_rows),
        patch("sowline_query_service.subscriptions.catch_up.BATCH_MAX", chance.choice((2, 5, 1000))),
        patch("sowline_query_service.subscriptions.catch_up._in_thread", one_by_one),
        simulation.unforeseen.patch(),
        patch("sowline.client.stream.log.warning", partial(simulation.trace, "a client logs")),
        *leaders.answered_by(simulation.broker),
        patch("time.monotonic", for_us(simulation.monotonic, time.monotonic)),
        patch("time.time_ns", for_us(simulation.time_ns, time.time_ns)),
        patch("time.time", for_us(lambda: simulation.time_ns() / 1e9, time.time)),
        patch("time.sleep", for_us(lambda seconds: strands.pause(), time.sleep)),
    ]
    if simulation.typed is not None:
        registry = simulation.typed.registry
        patches.append(patch("sowline_materializer.worker.worker.Registry", lambda url: registry))
        patches.append(patch("sowline_materializer.worker.schemas.ThreadPoolExecutor", lambda *_: registry))
    if simulation.gateways is not None:
        patches.append(patch("asyncio.to_thread", at_once))
        if simulation.trace.events is not None:
            patches += noted(simulation.trace)
    clients.PROCESSES.clear()
    clients.PROCESSES.update(simulation.processes)
    with ExitStack() as stack:
        for each in patches:
            stack.enter_context(each)
        structlog.configure(processors=[simulation.trace.note_log])
        stack.callback(structlog.configure, **config)
        yield


def simulate(
    seed: int,
    steps: int = STEPS,
    faults: frozenset[str] | None = None,
    cores: Sequence[Core] = CORES,
    has_gateways: bool | None = None,
    is_typed: bool | None = None,
) -> Outcome:
    """Run a seed, and return what became of it. Each worker and each query service has one core.

    The seed decides whether there are gateways, and whether the message type has schemas, unless that is given.
    """
    return play(Simulation(seed, steps, Loop(), faults, cores, has_gateways, is_typed))


def play(simulation: Simulation) -> Outcome:
    """Run a simulation to its end, and return what became of it."""
    loop = simulation.loop
    error: BaseException | None = None
    with uncollected(), _played(simulation):
        try:
            loop.run_until_complete(simulation.run())
        except Exception as wrong:
            error = wrong
        finally:
            loop.run_until_complete(loop.end())
            loop.close()
    return Outcome(
        simulation.seed,
        simulation.step,
        simulation.all_faults,
        simulation.trace.lines(),
        error,
        simulation.counts,
    )
