"""A real system with the topics of `sowline check`, and runs of the checker against it."""

import asyncio
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import yaml

from sowline.check.history import Event
from sowline.check.judge.judging import judge
from sowline.check.judge.verdict import Judgment
from sowline.check.recorder import Recorder
from sowline.check.topics import WorkloadTopics
from sowline.check.workload import WorkloadOptions, run_workload
from tests.integration.services import Service, System, system


class CheckedSystem:
    """The services that a check needs."""

    def __init__(
        self, made: System, topics: WorkloadTopics, nodes: Sequence[Service], front: Service
    ) -> None:
        self.system = made
        self.topics = topics
        self.nodes = nodes
        self.front = front
        self.materializer = made.service("materializer")
        self.views = made.service("views")
        self.fanout = made.service("fanout")

    @property
    def services(self) -> list[Service]:
        """All of them."""
        return [self.materializer, self.views, self.fanout, *self.nodes, self.front]

    def check(self, seed: int, seconds: float = 2.0, url: str = "") -> tuple[Judgment, Sequence[Event]]:
        """Run the workload, and judge its history."""
        return asyncio.run(self.run(seed, seconds, url))

    async def run(
        self,
        seed: int,
        seconds: float = 2.0,
        url: str = "",
        faults: Sequence[str] = (),
        answer_seconds: float = 60.0,
        topics: WorkloadTopics | None = None,
        recorder: Recorder | None = None,
    ) -> tuple[Judgment, Sequence[Event]]:
        """Run the workload, maybe with topics that name other fanouts, and judge its history."""
        recorder = Recorder(time.monotonic) if recorder is None else recorder
        options = WorkloadOptions(
            {"url": url or self.front.url},
            topics or self.topics,
            seconds,
            150.0,
            seed,
            faults,
            answer_seconds,
        )
        await run_workload(options, recorder)
        return judge(recorder.events), recorder.events


@contextmanager
def checked_system(kafka: str, directory: Path, shards: int = 1) -> Iterator[CheckedSystem]:
    """Lend a running system: a query service, or a gateway over shards."""
    topics = WorkloadTopics.below(f"t{uuid.uuid4().hex[:12]}")
    defined = yaml.safe_load(topics.definitions)
    with system(kafka, directory, defined["topics"], defined["fanouts"], defined["views"]) as made:
        if shards == 1:
            nodes: list[Service] = []
            front = made.service("query_service")
        else:
            nodes = [made.node(f"{number}/{shards}") for number in range(shards)]
            front = made.service("gateway", nodes=",".join(node.url for node in nodes))
        checked = CheckedSystem(made, topics, nodes, front)
        for service in checked.services:
            service.start()
        for service in checked.services:
            service.wait_ready()
        yield checked


def sentences(verdict: Judgment) -> list[str]:
    """Return what a verdict found, for a message."""
    return [str(violation) for violation in verdict.violations[:20]]
