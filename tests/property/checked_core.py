"""A topic whose partitions are held against a perfect model: state, changes, followers and subscribers."""

import json
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, ClassVar
from unittest.mock import patch

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize
from msgspec import structs

from sowline.changes.change import AGAIN, Change
from sowline.commands.command import EXPIRE
from sowline.config.topic_definition import TopicDefinition, define_topic
from sowline.language.filter import compile_filter
from sowline.model.key import sow_key
from sowline.model.position import Position, before_the_log
from sowline.subscriptions.engine.subscription import OOF, PUBLISH, ChangeView, Subscription
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.partition.changes_loader import ChangesLoader
from sowline_materializer.partition.opened import OpenedPartition
from sowline_materializer.partition.partition import Partition
from sowline_materializer.store.integrity import survey
from sowline_query_service.index.rows import Rows
from sowline_query_service.replica.partition_replica import PartitionReplica
from sowline_query_service.replica.plain_run import EventAtOffset
from tests.memory_store import MemoryStore
from tests.property.core_writes import BYTES_MAX, WINDOW, limits, text_of
from tests.property.model import FILTERS, Body, PartitionModel
from tests.property.world import World, Written, dump, without_gaps

DOMAIN = b"things\0"


class CheckedCore(RuleBasedStateMachine):
    """The partitions of a topic, which subclasses write to and disturb; in the end everything must add up."""

    defined: ClassVar[dict[str, Any]] = {"key": "/id"}
    """What decides the meaning of the log, and the model that knows it."""
    model: ClassVar[type[PartitionModel]] = PartitionModel
    room: ClassVar[int] = 0
    """Bytes that a record may have beyond its limit."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()

    @initialize(
        partitions=st.integers(1, 3),
        limits=limits,
        skew=st.sampled_from([0, 7, -7, 100]),
        portion=st.sampled_from([1, 2, 5000]),
        data=st.data(),
    )
    def begin(
        self, partitions: int, limits: dict[str, Any], skew: int, portion: int, data: st.DataObject
    ) -> None:
        """Define the topic."""
        self.stack.enter_context(patch("sowline_materializer.core.portions.PORTION_CHANGES_MAX", portion))
        self._choose_keys(data)
        self.partitions = partitions
        self.definition = self.first = self._defined(limits)
        self.world = World(self.definition)
        self.world.skew = skew
        for entered in self.world.patched():
            self.stack.enter_context(entered)

    def _choose_keys(self, data: st.DataObject) -> None:
        """Choose the keys that stand for the ids, where a kind of topic has others."""

    def key_of(self, id: Any) -> str:
        """Return the key text that stands for an id."""
        return text_of(id)

    def sow_key(self, key: str) -> bytes:
        """Return the SOW key of a key text."""
        return sow_key(DOMAIN, key)

    def keyed(self, records: dict[str, Body]) -> dict[bytes, Body]:
        """Return the records by SOW key."""
        return {self.sow_key(key): body for key, body in records.items()}

    def _defined(self, limits: dict[str, Any]) -> TopicDefinition:
        """Return the definition with these limits."""
        given: dict[str, Any] = {"repeat_window": f"{WINDOW}ms", "record_bytes_max": BYTES_MAX} | limits
        given |= {"partitions": self.partitions, "record_bytes_max": given["record_bytes_max"] + self.room}
        return define_topic(**{"name": "things", **self.defined, **given})

    def _settle(self) -> None:
        """Apply everything, and one more record in each partition, so that the last stale-owner writes are seen."""
        for number in range(self.partitions):
            self.world.arrive_late(number)
        self.world.drain()
        for number in range(self.partitions):
            self.world.write(number, b"{", None, [])
        self.world.drain()

    def _settle_what_is_due(self) -> None:
        """Let the owners append until they have no more to append: that must come to its end."""
        for _ in range(6):
            if not sum([self.world.keep_up(number) for number in range(self.partitions)]):
                break
            self._settle()
        else:
            raise AssertionError("owners append for ever")
        for number in range(self.partitions):
            assert self.world.owner(number).checkpoint.limits == self.definition.limits
            assert list(self.world.owner(number).due(self.world.time)) == []

    # everything must add up

    def teardown(self) -> None:
        """Apply what is left and hold everything against the model."""
        try:
            if hasattr(self, "world"):
                self._settle()
                self._settle_what_is_due()
                for number in range(self.partitions):
                    self._check(number)
        finally:
            self.stack.close()

    def _check(self, number: int) -> None:
        first = self.first.limits
        model = self.model(
            number,
            self.partitions,
            DOMAIN,
            first.record_bytes_max,
            first.repeat_window,
            first.expiration,
            first.records_max,
        )
        model.replay(self.world.logs[number])
        self._check_state(number, model)
        changes = self._check_following(number, model)
        self._check_changes(number, model, changes)
        self._check_other_batches(number, changes)
        self._check_loading(number)
        self._check_subscriptions(model, changes)

    def _check_state(self, number: int, model: PartitionModel) -> None:
        """The store holds the model's records, refused what it refused, and forwarded what it forwarded."""
        store = self.world.store(number)
        records = dump(store, 0, 0)
        live = {r.key_text: json.loads(r.body) for r in records.values() if r.body is not None}
        assert live == model.live
        assert self.world.dead[number] == set(model.dead)
        assert survey(store).checksum == store.checksum()
        ours = b"log:%d@" % number
        forwarded = {
            (owner, int(origin.removeprefix(ours)))
            for owner, log in enumerate(self.world.logs)
            for record in log
            for name, origin in record.headers or []
            if name == "sow.origin" and origin is not None and origin.startswith(ours)
        }
        assert forwarded == set(model.forwards)

    def _check_following(self, number: int, model: PartitionModel) -> list[tuple[Written, Change]]:
        """A follower never sees a gap, and at every log record's end it holds the model's records."""
        held = before_the_log()
        taken: list[tuple[Written, Change]] = []
        records: dict[bytes, bytes] = {}
        for message in without_gaps(self.world.changes[number].history, held):
            event = message.event
            held = event.position
            if isinstance(event, Change):
                assert event.op != AGAIN
                assert event.previous == records.get(event.sow_key)
                assert event.after == (taken[-1][1].position if taken else before_the_log())
                taken.append((message, event))
                if event.body is None:
                    del records[event.sow_key]
                else:
                    records[event.sow_key] = event.body
            if not isinstance(event, Change) or event.last:
                expected = {self.sow_key(k): body for k, body in model.states[held.offset].items()}
                assert {key: json.loads(body) for key, body in records.items()} == expected
        assert held.offset == len(self.world.logs[number]) - 1
        return taken

    def _check_changes(
        self, number: int, model: PartitionModel, changes: list[tuple[Written, Change]]
    ) -> None:
        """Each effect of the model is one change, at its position."""
        assert [(e.position.offset, e.position.nth) for _, e in changes] == [
            e.position for e in model.effects
        ]
        for (_, event), effect in zip(changes, model.effects, strict=True):
            assert event.sow_key == self.sow_key(effect.key)
            assert (event.body and json.loads(event.body)) == effect.now

    def _check_other_batches(self, number: int, changes: list[tuple[Written, Change]]) -> None:
        """The same log in batches of another size makes the same changes, byte for byte, and the same state."""
        for size in (1, 1000):
            store, partition = fresh(self.definition, number, self.first)
            made: list[Change] = []
            log = self.world.logs[number]
            for start in range(0, len(log), size):
                while partition.are_left(log[start : start + size]):
                    prepared = partition.prepare(log[start : start + size], len(log))
                    made += prepared.step.changes
                    partition.commit(prepared, 0)
            assert [(e.sow_key, e.body, e.headers()) for e in made] == [
                (m.name, m.body, m.about) for m, _ in changes
            ]
            self._same(number, store, partition.checkpoint)

    def _check_loading(self, number: int) -> None:
        """The changes topic as it is, and compacted to the last of each key, loads to the same state."""
        changes = self.world.changes[number]
        for _ in range(2):
            store = MemoryStore()
            loader = ChangesLoader(store, self.definition)
            for start in range(0, len(changes.held), 4):
                loader.load([message.event for message in changes.held[start : start + 4]])
                loader.finish()
            assert loader.stale_keys == set()
            self._same(number, store, loader.checkpoint(0))
            self._check_replica(number, changes.held)
            changes.compact(lambda: False)

    def _same(self, number: int, store: MemoryStore, checkpoint: Checkpoint) -> None:
        """A store and its head are those of the partition that did the work."""
        ours = self.world.owner(number).checkpoint
        assert replace(
            checkpoint, definition="", log_id="", changes_id="", changes_end=0, stale_keys=frozenset()
        ) == replace(ours, definition="", log_id="", changes_id="", changes_end=0, stale_keys=frozenset())
        since = ours.remembered_since
        assert dump(store, since, 0) == dump(self.world.store(number), since, 0)
        assert survey(store).checksum == store.checksum()

    def _check_replica(self, number: int, held: list[Written]) -> None:
        """A replica that loads the topic, and one that loads a part of it and follows, hold the same records."""
        expected = {
            key: (record.body, record.position)
            for key, record in dump(self.world.store(number), 0, 0).items()
            if record.body is not None
        }
        history = self.world.changes[number].history
        for loaded, followed in ((held, []), (history[: len(history) // 2], history[len(history) // 2 :])):
            rows = Rows()
            replica = PartitionReplica(number, rows, ring_changes_max=5)
            replica.load([EventAtOffset(message.at, message.event) for message in loaded])
            replica.loaded()
            replica.apply([EventAtOffset(message.at, message.event) for message in followed])
            found = {key: (rows.body(key), rows.position(key)) for key in rows.numbers}
            assert found == expected

    def _check_subscriptions(self, model: PartitionModel, changes: list[tuple[Written, Change]]) -> None:
        """A view from a snapshot and the deliveries after it equals the filter over the model, at every instant."""
        for text, matches in FILTERS.items():
            for begin in {0, len(changes) // 3, len(changes)}:
                self._check_view(model, changes, text, matches, begin)

    def _check_view(
        self,
        model: PartitionModel,
        changes: list[tuple[Written, Change]],
        text: str,
        matches: Any,
        begin: int,
    ) -> None:
        while 0 < begin < len(changes) and not changes[begin - 1][1].last:
            begin -= 1
        at = changes[begin - 1][1].position.offset if begin else -1
        view = self.keyed({k: body for k, body in model.states[at].items() if matches(body)})
        with_oof, without = (Subscription(compile_filter(text), oof) for oof in (True, False))
        for _, change in changes[begin:]:
            delivery = with_oof.on_change(ChangeView(change))
            plain = without.on_change(ChangeView(change))
            published = delivery if delivery and delivery.command == PUBLISH else None
            assert plain == (None if published is None else structs.replace(published, previous=None))
            if delivery is not None and delivery.command == OOF:
                del view[change.sow_key]
                gone = "expired" if change.op == EXPIRE else "deleted"
                assert delivery.reason == ("match" if change.body else gone)
                assert delivery.body == (change.body or change.previous)
            elif delivery is not None:
                view[change.sow_key] = json.loads(delivery.body)
            if change.last:
                state = model.states[change.position.offset]
                assert view == self.keyed({k: body for k, body in state.items() if matches(body)})


def fresh(definition: TopicDefinition, number: int, first: TopicDefinition) -> tuple[MemoryStore, Partition]:
    """Return a partition that has applied nothing."""
    store = MemoryStore()
    opened = OpenedPartition(store, Checkpoint(limits=first.limits, log_id="log"), Position(0, -1))
    return store, Partition(definition, number, opened)
