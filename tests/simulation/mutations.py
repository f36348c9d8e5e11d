"""Small mistakes, as somebody might make them in the services: a simulation is worth what it finds of these."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from msgspec import structs

from fanout.subscription import OOF, Subscription
from materializer.core import Applier
from materializer.damage import DiskFull
from materializer.documents import write_of
from materializer.partition import Partition
from materializer.recovery import Loader, _read_tail, record_of
from materializer.worker import Worker
from query_service.active import Active
from query_service.catch_up import CatchUp
from query_service.follower import Follower
from query_service.hub import Hub
from query_service.replica import PartitionReplica, Ring
from sowline.change import Progress
from sowline.cluster import Asked, Cluster
from sowline.document.fold import fold
from sowline.following import Verdict, Wholeness, verdict
from sowline.stream import Stream

Mistake = Callable[[], list[Any]]
"""Returns the patches that make a mistake."""

_on_change = Subscription.on_change
_after = Ring.after
_begin = Applier._begin
_loaded_head = Loader.head
_messages = Stream._messages
_commit = Partition.commit
_again = Partition._again
_fold = fold
_record_of = record_of
_write_of = write_of


def _commit_before_emit() -> list[Any]:
    def apply(self: Worker, messages: Any) -> None:
        prepared = {place: self._prepare(place, batch) for place, batch in self._by_place(messages).items()}
        for place, batch in prepared.items():
            partition = self._partitions[place]
            partition.commit(batch, partition.head.changes_end + len(batch.events))
        for place, batch in prepared.items():
            self._emitter.events(self._definitions[place[0]], place[1], batch.events)
        self._emitter.wait()

    return [patch.object(Worker, "_apply", apply)]


def _events_before_forwards() -> list[Any]:
    def apply(self: Worker, messages: Any) -> None:
        batches = self._by_place(messages)
        prepared = {place: self._partitions[place].prepare(batch, 0) for place, batch in batches.items()}
        for place, batch in prepared.items():
            self._emitter.events(self._definitions[place[0]], place[1], batch.events)
        self._emitter.wait()
        for place, batch in prepared.items():
            self._emitter.forwards(place[0], batch.step.forwards)
            self._emitter.dead(self._definitions[place[0]].dead, place[1], batch.step.dead)
            self._commit(place, batch)
        self._emitter.wait()

    return [patch.object(Worker, "_apply", apply)]


def _foreign_writes_not_seen() -> list[Any]:
    return [patch.object(Partition, "spoil", lambda self, keys, changes_end: None)]


def _foreign_tail_not_seen() -> list[Any]:
    def tail(messages: Any, position: Any, topic_id: str, start: int) -> Any:
        return _read_tail(messages, position, topic_id, start)._replace(spoiled=frozenset(), live=frozenset())

    return [patch("materializer.recovery._read_tail", tail)]


def _repeat_window_ignored() -> list[Any]:
    def is_repeat(numbers: Any, command: Any, since: int) -> bool:
        seen = (numbers or {}).get(command.publisher)
        return seen is not None and command.sequence <= seen[:2]

    return [patch("materializer.stepping.is_repeat", is_repeat)]


def _gap_taken() -> list[Any]:
    def judge(event: Any, held: Any) -> Verdict:
        return Verdict.TAKE if event.position > held else Verdict.DROP

    return [patch("query_service.replica.verdict", judge), patch("query_service.catch_up.verdict", judge)]


def _repeat_taken() -> list[Any]:
    def judge(event: Any, held: Any) -> Verdict:
        return Verdict.TAKE if event.position == held else verdict(event, held)

    return [patch("query_service.replica.verdict", judge)]


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
    async def run(self: CatchUp, hub: Hub) -> None:
        await self._active.outbox.wait_drained()
        while behind := self._after.behind():
            for number in behind:
                async for changes in self._after.of(number):
                    await self._deliver(hub.turns, number, changes)
        await asyncio.sleep(0)
        hub.add(self._active)

    return [patch.object(CatchUp, "run", run)]


def _no_out_of_focus() -> list[Any]:
    def on_change(self: Subscription, seen: Any) -> Any:
        found = _on_change(self, seen)
        return None if found is not None and found.command == OOF and seen.change.body is not None else found

    return [patch.object(Subscription, "on_change", on_change)]


def _origin_not_remembered() -> list[Any]:
    return [patch.object(Applier, "_first_seen", lambda self, origin: True)]


def _guard_not_checked() -> list[Any]:
    def is_due(self: Applier, current: Any, command: Any) -> bool:
        return current.body is not None and current.expires is not None and self._limits.may_expire

    return [patch.object(Applier, "_is_due", is_due)]


def _due_time_not_checked() -> list[Any]:
    def is_due(self: Applier, current: Any, command: Any) -> bool:
        return current.body is not None and current.position == command.guard

    return [patch.object(Applier, "_is_due", is_due)]


def _last_loaded() -> list[Any]:
    def load(self: PartitionReplica, event: Any) -> None:
        self._keep(event)

    return [patch.object(PartitionReplica, "_load_change", load)]


def _halves_shown() -> list[Any]:
    return [patch.object(Follower, "_whole", lambda self, place, events: events)]


def _damage_not_seen() -> list[Any]:
    return [patch("materializer.recovery.walk", lambda store: store.tally())]


def _resumed_anew() -> list[Any]:
    def begin(self: Applier, record: Any) -> None:
        _begin(self, record)
        self._index, self._resumed = 0, False

    return [patch.object(Applier, "_begin", begin)]


def _cut_short_not_seen() -> list[Any]:
    def head(self: Loader, changes_end: int) -> Any:
        found = _loaded_head(self, changes_end)
        return type(found)(**{**_fields(found), "complete": True})

    return [patch.object(Loader, "head", head)]


def _account_not_written_again() -> list[Any]:
    def again(self: Partition, key: bytes, record: Any) -> Any:
        return structs.replace(_again(self, key, record), writes=None)

    return [patch.object(Partition, "_again", again)]


def _redundant_write_counts_as_a_change() -> list[Any]:
    def fold(document: Any, write: Any, template: Any) -> Any:
        folded = _fold(document, write, template)
        return folded._replace(document=replace(folded.document, last_mutate_ms=write.at_ms))

    return [patch("materializer.documents.fold", fold)]


def _deleted_document_not_loaded() -> list[Any]:
    def record_of(definition: Any, event: Any, held: Any) -> Any:
        return None if event.body is None else _record_of(definition, event, held)

    return [patch("materializer.recovery.record_of", record_of)]


def _forwarded_write_is_another() -> list[Any]:
    def write_of(delta: Any, record: Any, command: Any, partition: int, time: int) -> Any:
        return _write_of(delta, record, command._replace(origin=None), partition, time)

    return [patch("materializer.core.write_of", write_of)]


def _fields(head: Any) -> dict[str, Any]:
    return {name: getattr(head, name) for name in head.__dataclass_fields__}


def _replica_not_waited_for() -> list[Any]:
    async def wait(state: Any, topic: Any, positions: Any) -> None:
        return None

    return [patch("query_service.serving.wait_for_replica", wait)]


def _moved_on_receipt() -> list[Any]:
    def messages(self: Stream, received: Any) -> Any:
        for message in _messages(self, received):
            self._place.note(message)
            yield message

    return [patch.object(Stream, "_messages", messages)]


def _behind_from_now() -> list[Any]:
    def fall_behind(self: Active) -> None:
        self._behind.set()
        self.positions = self.topic.positions
        for number, position in self.positions.items():
            recent = self.topic.partitions[number].ring._changes
            self.positions[number] = recent[-1].after if recent else position

    return [patch.object(Active, "fall_behind", fall_behind)]


def _moved_partition_applied() -> list[Any]:
    def let_go(self: Worker, places: Any) -> None:
        for place in places:
            self._upkeep.pop((place.topic, place.partition), None)

    return [patch.object(Worker, "_let_go", let_go)]


def _written_amid_ours_not_seen() -> list[Any]:
    return [patch.object(Worker, "_put_right", _put_right)]


def _put_right(self: Worker, place: Any, partition: Partition, log_end: int) -> None:
    start = end = partition.head.changes_end
    for events in partition.put_right(log_end):
        end = self._write_apart(place, end, events)
    if end > start:
        partition.is_right(end)


def _reset_goes_on_from_before() -> list[Any]:
    def messages(self: Stream, received: Any) -> Any:
        return (structs.replace(message, reset=False) for message in _messages(self, received))

    return [patch.object(Stream, "_messages", messages)]


def _idle_owner_does_not_look() -> list[Any]:
    return [patch.object(Worker, "_look", lambda self: None)]


def _topics_not_known_by_their_ids() -> list[Any]:
    return [
        patch.object(Cluster, "topic_id", lambda self, name: name),
        patch.object(Asked, "topic_ids", lambda self: {name: name for name in self._topics}),
    ]


def _overtaken_not_seen() -> list[Any]:
    def tail(messages: Any, position: Any, topic_id: str, start: int) -> Any:
        return _read_tail(messages, position, topic_id, start)._replace(has_gap=False)

    owner = patch("materializer.worker.check_owner", lambda found, position: None)
    return [owner, patch("materializer.recovery._read_tail", tail)]


def _full_disk_taken_for_written() -> list[Any]:
    def commit(self: Partition, prepared: Any, changes_end: int) -> None:
        with suppress(DiskFull):
            _commit(self, prepared, changes_end)
        self.head = replace(prepared.step.head, changes_end=changes_end)

    return [patch.object(Partition, "commit", commit)]


def _long_load_not_read_on() -> list[Any]:
    return [patch.object(Follower, "_is_late", lambda self, place: False)]


def _loaded_amid_a_rewrite() -> list[Any]:
    def saw(self: Wholeness, events: Any, offsets: Any) -> None:
        self._has_word = self._has_word or any(isinstance(event, Progress) for event in events)

    return [patch.object(Wholeness, "saw", saw)]


def _loaded_without_a_word() -> list[Any]:
    return [patch.object(Follower, "_note_progress", lambda self, batches: None)]


MISTAKES: dict[str, Mistake] = {
    name.strip("_").replace("_", " "): made
    for name, made in globals().copy().items()
    if name.startswith("_")
    and callable(made)
    and getattr(made, "__annotations__", {}).get("return") == list[Any]
}
"""Each mistake, by what it is."""

FOUND_BY: dict[str, int] = {
    "events before forwards": 17,
    "repeat taken": 19,
    "live one change late": 25,
    "guard not checked": 14,
    "due time not checked": 14,
    "last loaded": 51,
    "resumed anew": 8,
    "cut short not seen": 8,
    "replica not waited for": 9,
    "reset goes on from before": 33,
    "overtaken not seen": 40,
    "long load not read on": 77,
    "written amid ours not seen": 28,
}
"""The seed that found a mistake that few of them find: it is tried first. Once the services differ, another may."""


_STALE = frozenset({"stale", "stall", "crash"})
FAULTS_OF: dict[str, frozenset[str]] = {
    "commit before emit": frozenset({"crash"}),
    "foreign writes not seen": _STALE,
    "foreign tail not seen": _STALE,
    "written amid ours not seen": _STALE,
    "repeat taken": _STALE,
    "last loaded": _STALE | {"service crash"},
    "repeat window ignored": frozenset({"idle"}),
    "live one change late": frozenset({"vanish", "restart"}),
    "resumed anew": frozenset({"disk loss", "crash"}),
    "cut short not seen": frozenset({"disk loss", "crash"}),
    "loaded without a word": frozenset({"changes loss", "service crash"}),
    "loaded amid a rewrite": frozenset({"changes loss", "service crash", "disk loss"}),
    "account not written again": _STALE,
    "deleted document not loaded": frozenset({"disk loss", "crash"}),
    "idle owner does not look": _STALE,
    "topics not known by their ids": frozenset({"changes loss", "service crash"}),
    "overtaken not seen": _STALE,
    "full disk taken for written": frozenset({"full disk"}),
    "long load not read on": frozenset({"compaction", "idle", "service crash"}),
}
"""What has to go wrong for a mistake to matter; of the others, whatever a seed brings."""


@contextmanager
def mistaken(name: str) -> Iterator[None]:
    """Let the services make a mistake."""
    with ExitStack() as stack:
        for each in MISTAKES[name]():
            stack.enter_context(each)
        yield
