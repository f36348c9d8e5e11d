"""The pure core, its recovery, its followers and its subscribers against a perfect model, whatever happens."""

import json
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import patch

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from msgspec import structs

from sowline.changes.change import AGAIN, Change
from sowline.changes.changes_reader import Verdict, verdict
from sowline.commands.command import EXPIRE, Headers, joined_keys
from sowline.config.topic_definition import TopicDefinition, define_topic
from sowline.language.filter import compile_filter
from sowline.model.key import partition_of, sow_key
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
from tests.examples import examples
from tests.memory_store import MemoryStore
from tests.property.model import FILTERS, Body, PartitionModel
from tests.property.world import World, Written, changes_of, dump

WINDOW = 20
BYTES_MAX = 250
DOMAIN = b"things\0"

ids = st.sampled_from([1, "1", 2, "ü", True])
numbers = st.integers(0, 9)
bodies = st.fixed_dictionaries(
    {"id": ids},
    optional={
        "q": numbers,
        "r": st.sampled_from(["n", "s"]),
        "more": st.dictionaries(st.sampled_from("ab"), numbers | st.none(), max_size=2),
        "tags": st.lists(numbers, max_size=2),
        "n": st.none(),
    },
)
malformed = st.sampled_from(
    [
        b"",
        b"{",
        b"[1]",
        b"3",
        b"{}",
        b'{"id":null}',
        b'{"id":""}',
        b'{"id":1.5}',
        b'{"id":{}}',
        b'{"id":1,"more":"' + b"x" * (BYTES_MAX + 2000) + b'"}',
    ]
)
sequences = st.sampled_from(["1", "2", "2.1", "3", "10"])
publishers = (
    st.none()
    | st.tuples(st.sampled_from("abcdefghij"), sequences)
    | st.tuples(st.just("a"), st.sampled_from(["1", "2"]))
)
bad_headers = st.sampled_from(
    [
        ("sow.what", b"1"),
        ("sow.command", b"upsert"),
        ("sow.command", b"define"),
        ("sow.command", b"expire"),
        ("sow.sequence", b"1"),
    ]
)
lifetimes = st.none() | st.sampled_from(["0", "0.001", "0.005", "0.02", "60"])
limits = st.fixed_dictionaries(
    {},
    optional={
        "expiration": st.sampled_from(["enabled", "5ms", "20ms"]),
        "record_bytes_max": st.sampled_from([BYTES_MAX - 100, BYTES_MAX + 50]),
        "repeat_window": st.sampled_from(["0ms", "5ms", "60ms"]),
        "records_max": st.integers(1, 7),
    },
)
other_logs = st.sampled_from(["log2", "LOG", "a-b_c"])
far_offsets = st.sampled_from([0, 1, 2, 99_999_999_999, 2**63])
foreign_headers = st.lists(st.just(("traceparent", b"00-1")), max_size=1)


def encoded(body: Body) -> bytes:
    """Return the body as JSON."""
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()


def text_of(key: Any) -> str:
    """Return the key text of an id."""
    return str(key).lower() if isinstance(key, bool) else str(key)


class CoreAgainstModel(RuleBasedStateMachine):
    """Writers, owners, crashes, lost disks and late writers in any order; then everything must add up."""

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

    # writers

    def _write(
        self,
        key: str | None,
        value: bytes | None,
        headers: Headers,
        number: tuple[str, str] | None,
        misplaced: int | None,
    ) -> None:
        if number is not None:
            headers = [
                *headers,
                ("sow.publisher", number[0].encode()),
                ("sow.sequence", number[1].encode()),
            ]
        count = self.partitions
        partition = partition_of(key, count) if key is not None and misplaced is None else misplaced or 0
        self.world.write(partition % count, value, None if key is None else key.encode(), headers)

    @rule(
        some=st.lists(bodies, min_size=1, max_size=4),
        delta=st.booleans(),
        number=publishers,
        more=foreign_headers,
        slot=st.none() | numbers,
        lifetime=lifetimes,
    )
    def write_records(
        self, some: list[Body], delta: bool, number: Any, more: Any, slot: int | None, lifetime: str | None
    ) -> None:
        """Publish records, whole or as deltas, in their partition or elsewhere, for ever or for a while."""
        headers = [*more, ("sow.command", b"delta_publish")] if delta else more
        if lifetime is not None:
            headers = [*headers, ("sow.expiration", lifetime.encode())]
        for body in some:
            self._write(self.key_of(body["id"]), encoded(body), headers, number, slot)

    @rule(
        selector=st.sampled_from([("sow.filter", text) for text in FILTERS])
        | st.lists(ids, min_size=1, max_size=3),
        number=publishers,
        slot=numbers,
    )
    def delete_selected(self, selector: Any, number: Any, slot: int) -> None:
        """Delete what matches a filter, or what SOW keys name."""
        if isinstance(selector, list):
            keys = [self.sow_key(self.key_of(key)).decode() for key in selector]
            selector = ("sow.keys", joined_keys([*keys, "77"]))
        headers = [("sow.command", b"sow_delete"), (selector[0], selector[1].encode())]
        self._write(None, None, headers, number, slot)

    @rule(key=ids, by_data=st.booleans(), number=publishers, slot=st.none() | numbers)
    def delete_named(self, key: Any, by_data: bool, number: Any, slot: int | None) -> None:
        """Delete a record by its data, or by a tombstone."""
        if by_data:
            self._write(
                self.key_of(key), encoded({"id": key}), [("sow.command", b"sow_delete")], number, slot
            )
        else:
            self._write(self.key_of(key), None, [], number, slot)

    @rule(value=malformed, header=st.none() | bad_headers, slot=numbers)
    def write_malformed(self, value: bytes, header: Any, slot: int) -> None:
        """Write what can't be applied."""
        self._write(None, value, [] if header is None else [header], None, slot)

    @rule(key=ids, body=bodies, log_id=other_logs, origin=st.tuples(numbers, far_offsets), slot=numbers)
    def write_copy_of_another_log(
        self, key: Any, body: Body, log_id: str, origin: tuple[int, int], slot: int
    ) -> None:
        """A log is mirrored with its headers, or somebody makes an origin up: of another log, as far as it says."""
        headers: Headers = [("sow.origin", b"%b:%d@%d" % (log_id.encode(), *origin))]
        self._write(self.key_of(key), encoded({**body, "id": key}), headers, None, slot)

    @rule(ms=st.sampled_from([1, 5, WINDOW, WINDOW + 1, -3]))
    def pass_time(self, ms: int) -> None:
        """Let the log's clock go on, or step back."""
        self.world.time += ms

    @rule(key=ids, back=st.integers(0, 2), slot=st.none() | numbers, more=st.booleans())
    def expire(self, key: Any, back: int, slot: int | None, more: bool) -> None:
        """Ask for a record's end: by its newest update, by one before that, in any partition, or malformed."""
        owner = partition_of(self.key_of(key), self.partitions)
        changes = [event for _, event in changes_of(self.world.changes[owner].history) if event.op != AGAIN]
        positions = [event.position for event in changes if event.sow_key == self.sow_key(self.key_of(key))]
        guard = (positions or [Position(0, 3)])[-1 - back :][0]
        headers: Headers = [("sow.command", b"expire"), ("sow.guard", str(guard).encode())]
        self._write(self.key_of(key), b"{}" if more and back else None, headers, None, slot)

    @rule(key=ids, slot=numbers, ms=st.sampled_from([0, 1, 5]))
    def race(self, key: Any, slot: int, ms: int) -> None:
        """A record is due, and its owner asks for its end, but before that comes it is updated and due again."""
        owner = partition_of(self.key_of(key), self.partitions)
        for _ in range(2):
            self._write(self.key_of(key), encoded({"id": key}), [("sow.expiration", b"0.001")], None, None)
            self.world.owner(owner)
            self.world.work(owner, 100)
            self.world.time += 1
        position = self.world.changes[owner].history[-1].event.after
        self.world.time += ms
        headers: Headers = [("sow.command", b"expire"), ("sow.guard", str(position).encode())]
        self._write(self.key_of(key), None, headers, None, None)

    @rule(slot=numbers)
    def keep_up(self, slot: int) -> None:
        """The owner appends what is due by its own clock."""
        number = slot % self.partitions
        self.world.owner(number)
        self.world.keep_up(number)

    @rule(limits=limits, cut=st.none() | st.integers(0, 2), key=ids)
    def redefine(self, limits: dict[str, Any], cut: int | None, key: Any) -> None:
        """Lifetime and limits change: all owners begin again with another definition, and may die saying so."""
        for number in range(self.partitions):
            self.world.owner(number)
        self.world.definition = self.definition = self._defined(limits)
        for number in range(self.partitions):
            self.world.crash(number)
            self.world.owner(number)
        self.world.drain()
        for number in range(self.partitions):
            self.world.keep_up(number)
        if cut is not None:
            self._write(self.key_of(key), encoded({"id": key}), [], None, None)
            self.die_at_work(partition_of(self.key_of(key), self.partitions), 6, cut, True)

    @rule(key=ids, number=st.sampled_from("12"), ms=st.sampled_from([1, 7, 30]), gone=st.booleans())
    def repeat_in_a_longer_window(self, key: Any, number: str, ms: int, gone: bool) -> None:
        """A number is out of the window, the window grows, and the number comes again."""
        self.redefine({"repeat_window": "5ms"}, None, key)
        self._write(self.key_of(key), encoded({"id": key}), [], ("z", number), None)
        if gone:
            self._write(self.key_of(key), None, [], None, None)
        self.world.time += ms
        self.redefine({"repeat_window": "60ms"}, None, key)
        self._write(self.key_of(key), encoded({"id": key}), [], ("z", number), None)

    # owners

    @rule(slot=numbers, size=st.integers(1, 6), intrude=st.integers(0, 3), restart=st.booleans())
    def work(self, slot: int, size: int, intrude: int, restart: bool) -> None:
        """Apply a batch; what a dead owner had on its way arrives in the midst of it."""
        self.world.work(slot % self.partitions, size, intrude=intrude, restart=restart)

    @rule(slot=numbers, size=st.integers(1, 6), cut=st.integers(0, 5), lost=st.booleans())
    def die_at_work(self, slot: int, size: int, cut: int, lost: bool) -> None:
        """Apply a batch but die before all of its output is written; the disk may go with the owner.

        Without its disk it is dead for good: nothing of it arrives later.
        """
        number = slot % self.partitions
        self.world.work(number, size, cut=cut)
        self.world.crash(number)
        if lost:
            self.world.late[number] = []
            self.world.disk.pop(Path(str(number)), None)
        self.world.owner(number)

    @rule(slot=numbers, lost=st.booleans())
    def die_within_a_delete(self, slot: int, lost: bool) -> None:
        """Delete everything, and die after the first of the changes."""
        self.world.drain()
        self._write(None, None, [("sow.command", b"sow_delete"), ("sow.filter", b"1=1")], None, slot)
        self.die_at_work(slot, 1, self.partitions, lost)

    @rule(slot=numbers)
    def restart(self, slot: int) -> None:
        """Begin again from what was committed."""
        number = slot % self.partitions
        self.world.crash(number)
        self.world.owner(number)

    @rule(slot=numbers, count=st.integers(1, 3))
    def arrive_late(self, slot: int, count: int) -> None:
        """Some of what a dead owner had on its way arrives."""
        self.world.arrive_late(slot % self.partitions, count)

    @rule(slot=numbers, start=numbers, count=st.integers(1, 3))
    def repeat_old(self, slot: int, start: int, count: int) -> None:
        """A worker that was thought dead writes old changes once more."""
        changes = self.world.changes[slot % self.partitions]
        own = [event for _, event in changes_of(changes.history[changes.since :]) if event.op != AGAIN]
        for event in own[start : start + count]:
            changes.append(event)

    @rule(slot=numbers, loss=st.sampled_from(["lost", "damaged", "changes", "both"]))
    def lose(self, slot: int, loss: str) -> None:
        """Lose the local state, find it damaged, or lose the changes topic, or both."""
        number = slot % self.partitions
        self.world.owner(number)
        self.world.crash(number)
        path = Path(str(number))
        if loss == "damaged":
            entries = self.world.disk[path]["_entries"]
            entries[b"1"] = b"x"
        elif loss in ("lost", "both"):
            del self.world.disk[path]
        if loss in ("changes", "both"):
            self.world.changes[number].replace()
            self.world.late[number] = []
        self.world.owner(number)

    @rule(slot=numbers, data=st.data())
    def compact(self, slot: int, data: st.DataObject) -> None:
        """Kafka compacts the changes, once they are older than the lag: stale-owner writes were repaired by then."""
        self._settle()
        changes = self.world.changes[slot % self.partitions]
        changes.compact(lambda: data.draw(st.booleans()))

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
        for message in self.world.changes[number].history:
            event = message.event
            judged = verdict(event, held)
            assert judged is not Verdict.GAP, (held, event)
            if judged is Verdict.DROP:
                continue
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


CoreAgainstModel.TestCase.settings = examples(250, stateful_step_count=40)
TestCoreAgainstModel = CoreAgainstModel.TestCase
