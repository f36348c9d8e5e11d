"""Small mistakes of what reads changes, query services, fanouts and clients, as somebody might make them."""

from typing import Any
from unittest.mock import patch

from confluent_kafka import TopicPartition
from msgspec import structs

from sowline.changes.changes_reader import ChangesReader, Phase, Verdict, takes
from sowline.changes.progress import Progress
from sowline.changes.wholeness import Wholeness
from sowline.client.stream import Stream
from sowline.kafka.changes_driver import AssignedChanges, ChangesDriver, MemberChanges
from sowline.subscriptions.engine.subscription import OOF, Subscription
from sowline_fanout.runner import FanoutRunner
from sowline_materializer.partition.partition import Partition
from sowline_query_service.live.catching_up import _Pass
from sowline_query_service.live.dispatcher import Dispatcher
from sowline_query_service.live.subscription import LiveSubscription
from sowline_query_service.replica.incomplete_record import IncompleteRecord
from sowline_query_service.replica.partition_replica import PartitionReplica, Ring
from sowline_query_service.snapshots.manifest import Manifest, discard_reason
from sowline_query_service.snapshots.partition_snapshots import PartitionSnapshots
from sowline_query_service.subscriptions.catch_up import CatchUp
from tests.simulation.mistake import Mistake, mistakes_in
from tests.waiting import loop_turns

_on_change = Subscription.on_change
_after = Ring.after
_take_more = _Pass._take_more
_messages = Stream._messages
_commit = Partition.commit
_load_phase = ChangesReader._load_phase
_load = ChangesDriver.load
_prepared = AssignedChanges.prepared
_resumed = FanoutRunner._resumed
_write = FanoutRunner._write
_keep = PartitionSnapshots.keep
_apply = PartitionReplica.apply


def _gap_taken() -> list[Any]:
    def judge(event: Any, held: Any) -> Verdict:
        return Verdict.TAKE if event.position > held else Verdict.DROP

    return [patch("sowline.changes.changes_reader.verdict", judge)]


def _repeat_taken() -> list[Any]:
    def takes_at(event: Any, held: Any) -> bool:
        return event.position == held or takes(event, held)

    return [patch("sowline_query_service.replica.partition_replica.takes", takes_at)]


def _ring_one_too_few() -> list[Any]:
    def after(self: Ring, position: Any, limit: int) -> Any:
        found = _after(self, position, limit)
        return found[1:] if found and len(found) > 1 else found

    return [patch.object(Ring, "after", after)]


def _ring_reaches_too_far() -> list[Any]:
    def after(self: Ring, position: Any, limit: int) -> Any:
        return [change for change in self._changes if change.position > position][:limit]

    return [patch.object(Ring, "after", after)]


def _live_one_change_late() -> list[Any]:
    async def run(self: CatchUp, dispatcher: Dispatcher) -> None:
        await self._live.outbox.wait_drained()
        while behind := self._after.behind():
            for number in behind:
                async for changes in self._after.of(number):
                    await self._deliver(dispatcher.turns, number, changes)
        await loop_turns()
        dispatcher.add(self._live)

    return [patch.object(CatchUp, "run", run)]


def _pass_begins_one_change_late() -> list[Any]:
    def take_more(self: _Pass) -> None:
        _take_more(self)
        next(self._changes, None)

    return [patch.object(_Pass, "_take_more", take_more)]


def _no_out_of_focus() -> list[Any]:
    def on_change(self: Subscription, seen: Any) -> Any:
        found = _on_change(self, seen)
        return None if found is not None and found.command == OOF and seen.change.body is not None else found

    return [patch.object(Subscription, "on_change", on_change)]


def _last_loaded() -> list[Any]:
    def load(self: PartitionReplica, event: Any) -> None:
        self._keep(event)

    return [patch.object(PartitionReplica, "_load_change", load)]


def _halves_shown() -> list[Any]:
    return [patch.object(IncompleteRecord, "complete", lambda self, portions: list(portions))]


def _replica_not_waited_for() -> list[Any]:
    async def wait(state: Any, topic: Any, positions: Any) -> None:
        return None

    return [patch("sowline_query_service.subscriptions.bookmark_resolver.wait_for_replica", wait)]


def _moved_on_receipt() -> list[Any]:
    def messages(self: Stream, received: Any) -> Any:
        messages = _messages(self, received)
        for message in messages:
            self.machine.taken._position.note(message)
        return messages

    return [patch.object(Stream, "_messages", messages)]


def _behind_from_now() -> list[Any]:
    def fall_behind(self: LiveSubscription) -> None:
        self._behind.set()
        self.positions = self.topic.positions
        for number, position in self.positions.items():
            recent = self.topic.partitions[number].ring._changes
            self.positions[number] = recent[-1].after if recent else position

    return [patch.object(LiveSubscription, "fall_behind", fall_behind)]


def _reset_goes_on_from_before() -> list[Any]:
    def messages(self: Stream, received: Any) -> Any:
        return (structs.replace(message, reset=False) for message in _messages(self, received))

    return [patch.object(Stream, "_messages", messages)]


def _long_load_not_read_on() -> list[Any]:
    def load_phase(self: ChangesReader, now: float) -> Phase:
        found = _load_phase(self, now)
        return Phase.COMPLETE if found is Phase.AIMING else found

    # A service that starts from snapshots seldom loads for long.
    return [
        patch.object(ChangesReader, "_load_phase", load_phase),
        patch("sowline_query_service.snapshots.reader.has_snapshots", lambda topic: False),
    ]


def _loaded_during_a_rewrite() -> list[Any]:
    def saw(self: Wholeness, events: Any, offsets: Any) -> None:
        self._has_progress = self._has_progress or any(isinstance(event, Progress) for event in events)

    return [patch.object(Wholeness, "saw", saw)]


def _loaded_without_a_word() -> list[Any]:
    def prepared(self: AssignedChanges, topic: Any, numbers: Any) -> Any:
        readers = _prepared(self, topic, numbers)
        for reader in readers.values():
            reader.wholeness = None
        return readers

    return [patch.object(AssignedChanges, "prepared", prepared)]


def _fanout_loads_during_a_refill() -> list[Any]:
    return [patch.object(MemberChanges, "load", _load_anything)]


def _load_anything(self: ChangesDriver, changes: str, numbers: Any) -> None:
    _load(self, changes, numbers)
    for number in numbers:
        self.readers[changes, number].wholeness = None


def _fanout_goes_on_in_another_topic() -> list[Any]:
    def resumed(self: FanoutRunner, committed: Any, start: int, topic_id: str) -> Any:
        metadata = (committed.metadata or "").rpartition(" ")[0]
        known = TopicPartition(committed.topic, committed.partition, committed.offset, metadata)
        return _resumed(self, known if metadata else committed, start, topic_id)

    return [patch.object(FanoutRunner, "_resumed", resumed)]


def _fanout_commits_before_it_writes() -> list[Any]:
    def write(self: FanoutRunner, messages: Any) -> None:
        for message in messages:
            partition = message.topic(), message.partition()
            if (reader := self._changes.readers.get(partition)) is not None:
                self._take(message.partition(), reader, message)
        self._commit()
        _write(self, [])

    return [patch.object(FanoutRunner, "_write", write)]


def _snapshot_of_another_topic() -> list[Any]:
    def ignoring(manifest: Manifest, expected: Any) -> Any:
        offsets = range(max(expected.offsets.stop, manifest.head.next_offset))
        return discard_reason(manifest, expected._replace(topic_id=manifest.topic_id, offsets=offsets))

    return [
        patch("sowline_query_service.snapshots.reader.discard_reason", ignoring),
        patch.object(ChangesReader, "note_topic", lambda self, topic_id: None),
    ]


def _snapshot_begins_at_its_end() -> list[Any]:
    def keep(self: PartitionSnapshots, topic: Any, number: int, begun: Any, blocks: Any) -> None:
        _keep(self, topic, number, begun._replace(head=topic.partitions[number].head), blocks)

    return [patch.object(PartitionSnapshots, "keep", keep)]


def _gap_behind_a_snapshot_taken() -> list[Any]:
    def takes_newer(event: Any, held: Any) -> bool:
        return bool(event.position > held)

    def apply(self: PartitionReplica, events: Any) -> Any:
        if not self.loading:
            return _apply(self, events)
        with patch("sowline_query_service.replica.partition_replica.takes", takes_newer):
            return _apply(self, events)

    def load_phase(self: ChangesReader, now: float) -> Phase:
        self._aimed_at = now if self.has_snapshot else self._aimed_at
        return _load_phase(self, now)

    def ignoring(manifest: Manifest, expected: Any) -> Any:
        return discard_reason(manifest, expected._replace(now=manifest.taken_at))

    # Young snapshots have no gaps behind them.
    return [
        patch.object(ChangesReader, "_load_phase", load_phase),
        patch.object(PartitionReplica, "apply", apply),
        patch("sowline_query_service.snapshots.reader.discard_reason", ignoring),
    ]


READER_MISTAKES: dict[str, Mistake] = mistakes_in(globals())
"""Each mistake, by what it is."""
