"""The services as processes of the simulation: the materializer's, with its real loop, and the query service's."""

import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from sowline.config.definition_changes import followed
from sowline.config.settings import Settings
from sowline.config.shard import WHOLE
from sowline.config.topics import Topics
from sowline.kafka.changes_driver import ChangesPartition
from sowline.native import Core
from sowline.runtime.native import native_core
from sowline.serving.access.login_session import LoginSession
from sowline.serving.outbox.outbox import Outbox
from sowline.serving.result import QueryLimits
from sowline.serving.sessions.session import Session
from sowline_materializer.service import Materializer
from sowline_query_service.context import ServiceContext
from sowline_query_service.live.dispatcher import Dispatcher
from sowline_query_service.replica.plain_run import events_of
from sowline_query_service.snapshots.reader import SnapshotReader
from sowline_query_service.topics.followed_partitions import Batches, Replicas, no_snapshot
from sowline_query_service.topics.follower import TopicFollower
from sowline_query_service.topics.state import ServedTopics
from sowline_query_service.topics.topic_state import TopicState
from tests.sessions import session_of
from tests.simulation.broker import Broker, Group
from tests.simulation.disk import Disks
from tests.simulation.process import Process
from tests.simulation.snapshots import SnapshotDisk, SnapshotsTaken
from tests.simulation.strands import Event, Strand, Thread
from tests.simulation.truth import Truth, hold
from tests.waiting import loop_turns

if TYPE_CHECKING:
    from tests.simulation.network import PlayedSocket


FEW = QueryLimits(page_margin=1)
"""Pages hold so few records that they run short of them."""


class Worker(Process):
    """A materializer: `Materializer.run` in a strand."""

    def __init__(
        self,
        name: str,
        chance: Random,
        broker: Broker,
        group: Group,
        trace: Any,
        disks: Disks,
        batch: int,
        core: Core,
    ) -> None:
        super().__init__(name, chance, broker, group, trace)
        self._core = core
        self._disks = disks
        self._batch = batch
        self.materializer: Materializer | None = None
        self.topics: Topics | None = None
        """The definitions that it has read last."""
        self.loses_disk = False

    def start(self, topics: Topics) -> None:
        """Start the process."""
        self.trace(self.name, "starts")
        self._disks.released(self.name)
        self.topics = topics
        settings = Settings.model_construct(
            kafka=self.name,
            kafka_options={},
            data_dir=Path("/") / self.name,
            batch_records_max=self._batch,
            session_timeout_ms=6000,
            accept_loss=False,
            group="sowline",
            core=self._core,
            registry="" if topics.topics[0].reader is None else "played",
        )
        self.materializer = Materializer(settings, topics, Event())  # type: ignore[arg-type]
        self.begin(Strand(self.materializer.run))

    def redefine(self, topics: Topics) -> None:
        """Take other definitions, unless a worker is just being made: this would wait for its strand."""
        assert self.materializer is not None
        assert self.topics is not None
        if not self.materializer._redefined.locked():
            self.trace(self.name, "reads the definitions")
            self.materializer.redefine(followed(self.topics, topics))
            self.topics = topics

    def stopped(self) -> dict[tuple[str, int], str]:
        """Return the partitions that it had to stop."""
        worker = None if self.materializer is None else self.materializer._worker
        return {} if worker is None or self.is_dead else dict(worker._owned.stopped)


class QueryService(Process):
    """A query service: its real follower in a strand, its state, and sessions without a socket."""

    def __init__(
        self,
        name: str,
        chance: Random,
        broker: Broker,
        trace: Any,
        truth: Truth,
        core: Core,
        snapshots: Random,
    ) -> None:
        super().__init__(name, chance, broker, None, trace)
        self._truth = truth
        self._native = native_core(core)
        self._snapshots = SnapshotDisk(trace)
        self._snapshot_chance = snapshots
        self.has_snapshots = snapshots.random() < 0.6
        self.shard = WHOLE
        """The partitions that it is to hold from its next start on."""
        self.held_shard = WHOLE
        """Those that it holds."""
        self.is_lagging = False
        """Whether it serves its clients, and reads no changes for now."""
        self.sessions: dict[Session, None] = {}
        self.sockets: dict[PlayedSocket, None] = {}
        """The connections of gateways, in the order in which they were made."""

    def start(self, topics: Topics, ring: int, failed: Callable[["QueryService"], None]) -> None:
        """Start the process."""
        self.trace(self.name, "starts", *([] if self.shard.is_whole else [self.shard]))
        self.trace.note("start", by=self.name)
        self.held_shard = self.shard
        self.state = ServedTopics(topics, ring, native=self._native, shard=self.shard)
        self.dispatcher = Dispatcher()
        self.state.listen(self.dispatcher.on_changes)
        self.context = ServiceContext(self.state, self.dispatcher, self.kafka, FEW)
        reader = SnapshotReader(self._snapshots, self.state)  # type: ignore[arg-type]
        follower = TopicFollower(
            self.kafka,
            topics.topics,
            Replicas(
                self._take,
                self._loaded,
                reader.restore if self.has_snapshots else no_snapshot,
                self.state.discard_snapshot,
            ),
            self._failed,
            native=self._native,
            shard=self.shard,
        )
        self.taken = SnapshotsTaken(
            self._snapshots, self.state, follower.partitions.topic_id, self._whole_at, self._snapshot_chance
        )
        follower.start()
        self.begin(Thread.started.pop())

    def turn(self) -> None:
        """Let it follow the changes up to its next pause."""
        if not self.is_lagging:
            super().turn()

    def new_session(self, outbox: Outbox, login: LoginSession | None = None) -> Session:
        """Return the session of a client that has connected."""
        session = session_of(self.context, outbox, login)
        self.sessions[session] = None
        return session

    def end_session(self, session: Session) -> None:
        """End the session of a client that has gone."""
        session.close()
        self.sessions.pop(session, None)

    def _take(self, batches: Batches) -> list[ChangesPartition]:
        if self.is_dead:
            return []
        again = self.state.take(batches)
        self.context.destination.take(batches)
        for (_, number), portions in batches.items():
            positions = [str(placed.event.position) for placed in events_of(portions)]
            self.trace(self.name, "takes", number, positions)
            self._note_position("apply", number)
            self._check(number)
        return again

    def _loaded(self, partition_ids: list[ChangesPartition]) -> None:
        if self.is_dead:
            return
        self.state.loaded(partition_ids)
        for _, number in partition_ids:
            self.trace(self.name, "has loaded", number)
            self._note_position("loaded", number)
            self._check(number)

    def _note_position(self, event: str, number: int) -> None:
        """Note the position up to which a partition is served now, for the models."""
        partition = self.state.topics[self._truth.definition.name].partitions[number]
        if not partition.loading and not self.state.broken:
            self.trace.note(event, partition=number, by=self.name, position=partition.held)

    def _check(self, number: int) -> None:
        topic = self.state.topics[self._truth.definition.name]
        if not topic.partitions[number].loading and not self.state.broken:
            self._truth.replica(self.name, self.state, number)

    def _failed(self, error: BaseException) -> None:
        self.state.failed(error)

    def _whole_at(self, topic: TopicState, number: int) -> float | None:
        """Return the time if the replica has every change; None if not."""
        end = self.broker.parts[topic.definition.changes, number].end
        return time.time() if topic.partitions[number].next_offset >= end else None

    def take_snapshots(self) -> None:
        """Take a little of a snapshot, if it has any."""
        if self.has_snapshots and not self.is_dead and not self.state.broken:
            self.taken.step()

    def check_whole(self) -> None:
        """Nothing may be missing from what it follows, unless something was lost."""
        if self.state.broken:
            hold(self._truth.may_expire, self.name, "is broken, and nothing was lost:", self.state.broken)

    def stop(self) -> None:
        """End the process and its connections."""
        self.kill()
        self.is_lagging = False
        for socket in list(self.sockets):
            socket.lose_node()
        for session in self.sessions:
            session.close()
        self.sessions.clear()

    async def tell_progress(self) -> None:
        """Tell quiet subscriptions where they stand."""
        self.trace.note("look", by=self.name)
        for session in list(self.sessions):
            session.commands.send_progress(0.0)
            await loop_turns()
