"""A transient topic that begins again at any moment, with owners that die on the way: all agree on what is left."""

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from sowline.changes.change import AGAIN, Change
from sowline.config.topic_definition import define_topic
from sowline.model.position import before_the_log
from sowline_materializer.partition.changes_loader import ChangesLoader
from sowline_materializer.store.integrity import survey
from tests.examples import examples
from tests.memory_store import MemoryStore
from tests.property.world import World, changes_of, dump, without_gaps

DEFINITION = define_topic(
    name="things", key="/id", durability="transient", recovery_point="now", expiration="20ms"
)
DISK = Path("0")
ids = st.integers(1, 4)
cuts = st.none() | st.integers(0, 4)


class Transient(RuleBasedStateMachine):
    """Writers, owners that die, services that start; then the log since the last start says what there is."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World(DEFINITION)
        self.stack = ExitStack()
        for entered in self.world.patched():
            self.stack.enter_context(entered)
        self.world.owner(0)

    @rule(
        keys=st.lists(ids, min_size=1, max_size=4),
        value=st.integers(0, 9),
        number=st.none() | st.integers(1, 3),
    )
    def write(self, keys: list[int], value: int, number: int | None) -> None:
        """Publish records, some with a number that others have had."""
        headers = [] if number is None else [("sow.publisher", b"p"), ("sow.sequence", b"%d" % number)]
        for key in keys:
            self.world.write(0, b'{"id":%d,"v":%d}' % (key, value), None, list(headers))

    @rule(key=ids | st.none())
    def delete(self, key: int | None) -> None:
        """Delete a record, or all."""
        if key is None:
            self.world.write(0, None, None, [("sow.command", b"sow_delete"), ("sow.filter", b"1=1")])
        else:
            self.world.write(0, None, b"%d" % key, [])

    @rule(ms=st.sampled_from([1, 30]))
    def pass_time(self, ms: int) -> None:
        """Let records come due, and their owner ask for their end."""
        self.world.time += ms
        self.world.owner(0)
        self.world.keep_up(0)

    @rule(size=st.integers(1, 6), intrude=st.integers(0, 3), cut=cuts, lost=st.booleans())
    def work(self, size: int, intrude: int, cut: int | None, lost: bool) -> None:
        """Apply a batch; its owner may die on the way, and its disk may go with it."""
        self.world.work(0, size, cut=cut, intrude=0 if cut is not None else intrude)
        if cut is not None and lost:
            self.world.late[0] = []
            self.lose()

    @rule(back=st.integers(0, 4), cut=cuts, lost=st.booleans())
    def start(self, back: int, cut: int | None, lost: bool) -> None:
        """The service starts, at the log's end or before it; the first worker may die on the way."""
        self.world.start_empty(0, max(0, len(self.world.logs[0]) - back), cut)
        if lost:
            self.lose()

    @rule()
    def lose(self) -> None:
        """Lose the disk."""
        self.world.crash(0)
        self.world.disk.pop(DISK, None)
        self.world.owner(0)

    @rule(count=st.integers(1, 3))
    def arrive_late(self, count: int) -> None:
        """What a dead owner had on its way arrives."""
        self.world.arrive_late(0, count)

    @rule(start=st.integers(0, 9), count=st.integers(1, 3))
    def repeat_old(self, start: int, count: int) -> None:
        """A worker that was thought dead writes old changes once more."""
        own = [event for _, event in changes_of(self.world.changes[0].history) if event.op != AGAIN]
        for event in own[start : start + count]:
            self.world.changes[0].append(event)

    @rule()
    def compact(self) -> None:
        """Kafka compacts the changes, after stale-owner writes were repaired."""
        self.settle()
        self.world.changes[0].compact(lambda: False)

    def settle(self) -> None:
        """Apply everything, and one more record, so that the last stale-owner writes are seen."""
        self.world.owner(0)
        self.world.arrive_late(0)
        self.world.drain()
        self.world.write(0, b"{", None, [])
        self.world.drain()

    def teardown(self) -> None:
        """Store, changes and a follower agree, and so does the log since the last start."""
        with self.stack:
            self.settle()
            partition = self.world.owner(0)
            store = self.world.store(0)
            assert survey(store).checksum == store.checksum()
            since = partition.checkpoint.remembered_since
            records = dump(store, since, 0)
            live = {key: record.body for key, record in records.items() if record.body is not None}
            assert len(live) == partition.checkpoint.records
            assert self.followed() == live
            for _ in range(2):
                store = MemoryStore()
                loader = ChangesLoader(store, DEFINITION)
                loader.load([message.event for message in self.world.changes[0].held])
                loader.finish()
                assert (loader.stale_keys, loader.is_resetting) == (set(), False)
                assert dump(store, since, 0) == records
                assert same(loader.checkpoint(0)) == same(partition.checkpoint)
                self.world.changes[0].compact(lambda: False)
            self.check_log(live)

    def followed(self) -> dict[bytes, bytes]:
        """Return what a follower holds that was there from the first change on; it never sees a gap."""
        records: dict[bytes, bytes] = {}
        for message in without_gaps(self.world.changes[0].history, before_the_log()):
            event = message.event
            if isinstance(event, Change):
                assert event.previous == records.get(event.sow_key)
                if event.body is None:
                    del records[event.sow_key]
                else:
                    records[event.sow_key] = event.body
        return records

    def check_log(self, live: dict[bytes, bytes]) -> None:
        """Every record that is there was written in the last era, and is what was written there."""
        for body in live.values():
            assert body in [record.value for record in self.world.logs[0]]
        changes = [event for _, event in changes_of(self.world.changes[0].history) if event.op != AGAIN]
        era = self.world.owner(0).checkpoint.position.era
        written = {event.sow_key for event in changes if event.position.era == era and event.body is not None}
        assert not era or set(live) <= written


def test_a_start_after_an_owner_was_fenced() -> None:
    """What a dead owner says late may be more than the next one has applied, when the service starts at the end."""
    machine = Transient()
    machine.write(keys=[1], value=0, number=None)
    machine.delete(key=None)
    machine.work(size=2, intrude=0, cut=0, lost=False)
    machine.work(size=1, intrude=0, cut=None, lost=False)
    machine.start(back=0, cut=None, lost=False)
    machine.teardown()


def same(checkpoint: Any) -> Any:
    """Return what all recovery sources must agree on."""
    return replace(checkpoint, changes_end=0, changes_id="", stale_keys=frozenset())


Transient.TestCase.settings = examples(150, stateful_step_count=30)
TestTransient = Transient.TestCase
