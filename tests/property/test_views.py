"""Views are, at each message boundary, what a plain recomputation over their sources is, whatever happens."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from sowline.native import Core
from sowline.runtime.native import native_core
from tests.examples import examples
from tests.property.view_reference import VIEWS, Body
from tests.property.view_sources import SourceOwner
from tests.property.view_world import ViewWorld

CORES: Sequence[Core] = ("python", "native") if native_core(None) else ("python",)

numbers = st.integers(0, 9)
groups = st.sampled_from(["a", "b", None, "", 1, 1.0, "1", True, "long" * 80])
values = st.one_of(
    st.integers(-3, 9),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda value: value + 0.0),
    st.booleans(),
    st.sampled_from(["7", "07", "x", "y", 2**63, 2**64 - 1, 1e308, -1e308, 0.1, None]),
)
bodies = st.fixed_dictionaries(
    {},
    optional={"g": groups, "h": st.sampled_from([1, 2]), "q": values, "f": st.sampled_from([0, 1, 1])},
)


class ViewsAgainstRecomputation(RuleBasedStateMachine):
    """Sources change, their owners stall, wake and die, and so do the owners of the view's partitions."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()

    @initialize(
        view=st.sampled_from(sorted(VIEWS)),
        sources=st.integers(1, 3),
        partitions=st.integers(1, 3),
        cores=st.tuples(st.sampled_from(CORES), st.sampled_from(CORES)),
    )
    def define(self, view: str, sources: int, partitions: int, cores: tuple[Core, Core]) -> None:
        """Define the view; each source partition has an owner."""
        self.world = ViewWorld(view, sources, partitions)
        self.world.native, self.world.stage2.native = map(native_core, cores)
        for entered in self.world.patched():
            self.stack.enter_context(entered)
        for source in range(sources):
            self.world.begin(source)

    def _source(self, slot: int) -> int:
        return slot % len(self.world.sources)

    def _owner(self, slot: int) -> SourceOwner:
        return self.world.owners[-1 - slot % len(self.world.owners)]

    def _partition(self, slot: int) -> int:
        return slot % self.world.partitions

    # the sources

    @rule(
        slot=numbers,
        written=st.lists(st.tuples(st.integers(0, 3), st.none() | bodies), min_size=1, max_size=8),
    )
    def write(self, slot: int, written: list[tuple[int, Body | None]]) -> None:
        """Records are written and deleted; of several, the later ones by the log record of the first."""
        number = self._source(slot)
        source = self.world.sources[number]
        for nth, (key, body) in enumerate(written):
            source.write(b"%d.%d" % (number, key), body, in_same_record=nth > 0 and bool(source.changes))

    @rule(
        slot=numbers, what=st.sampled_from(["compact", "report", "stale", "era"]), number=st.integers(0, 30)
    )
    def age(self, slot: int, what: str, number: int) -> None:
        """Its changes topic is compacted, gets progress events or late writes, or its log is another one."""
        source = self.world.sources[self._source(slot)]
        if what == "compact":
            source.compact(lambda: False)
        elif what == "report":
            source.report(source.position._replace(offset=source.position.offset + 2, nth=0))
        elif what == "stale":
            source.write_again(number)
        else:
            source.begin_era()

    # their owners

    @rule(slot=numbers, is_fresh=st.booleans())
    def take_over(self, slot: int, is_fresh: bool) -> None:
        """Another process owns a source partition; the one before may only be stalled."""
        if is_fresh:
            self.world.begin(self._source(slot))
        else:
            self.world.resume(self._source(slot))

    @rule(slot=numbers, count=st.integers(1, 9), idle=st.none() | st.booleans(), sent=st.integers(0, 4))
    def own(self, slot: int, count: int, idle: bool | None, sent: int) -> None:
        """An owner reads changes, and writes some of what it has produced."""
        owner = self._owner(slot)
        self.world.take(owner, count)
        owner = self._owner(slot)
        if idle is not None:
            owner.flush(also_idle=idle)
        for number in range(self.world.partitions):
            self.world.append(owner, number, sent)
        self.world.save(owner)

    @rule(slot=numbers, partition=numbers, count=st.integers(1, 3))
    def append(self, slot: int, partition: int, count: int) -> None:
        """Some of what an owner has produced comes to one partition."""
        self.world.append(self._owner(slot), self._partition(partition), count)

    @rule(slot=numbers)
    def die(self, slot: int) -> None:
        """An owner dies with what it has not written."""
        if len(self.world.owners) > 1:
            self.world.owners.remove(self._owner(slot))

    @rule(partition=numbers, number=st.integers(0, 30))
    def repeat(self, partition: int, number: int) -> None:
        """A message comes again."""
        self.world.repeat(self._partition(partition), number)

    # the materializer

    @rule(slot=numbers, size=st.integers(1, 6), intrude=st.integers(0, 3), restart=st.booleans())
    def work(self, slot: int, size: int, intrude: int, restart: bool) -> None:
        """Apply a batch; what a dead owner had on its way arrives within it."""
        self.world.stage2.work(self._partition(slot), size, intrude=intrude, restart=restart)
        self.world.check()

    @rule(
        slot=numbers,
        size=st.integers(1, 6),
        cut=st.integers(0, 5),
        lost=st.sampled_from(["", "store", "both"]),
    )
    def die_at_work(self, slot: int, size: int, cut: int, lost: str) -> None:
        """Apply a batch, but die before all of its output is written."""
        number = self._partition(slot)
        self.world.stage2.work(number, size, cut=cut)
        if lost:
            self.world.stage2.late[number] = []
        self.world.lose(number, store=bool(lost), changes=lost == "both")
        self.world.check()

    @rule(slot=numbers, store=st.booleans(), changes=st.booleans())
    def lose(self, slot: int, store: bool, changes: bool) -> None:
        """An owner is killed; its disk is lost, or the changes topic, or both."""
        self.world.lose(self._partition(slot), store=store, changes=changes)
        self.world.check()

    @rule(slot=numbers, count=st.integers(1, 3))
    def arrive_late(self, slot: int, count: int) -> None:
        """Some of what a dead owner had on its way arrives."""
        self.world.stage2.arrive_late(self._partition(slot), count)

    @rule(slot=numbers, start=numbers, count=st.integers(1, 3))
    def write_old(self, slot: int, start: int, count: int) -> None:
        """An owner that was thought dead writes old changes once more."""
        self.world.write_old(self._partition(slot), start, count)

    @rule(slot=numbers, data=st.data())
    def compact(self, slot: int, data: Any) -> None:
        """Kafka compacts the changes."""
        self.world.compact(self._partition(slot), lambda: data.draw(st.booleans()))
        self.world.check()

    def teardown(self) -> None:
        """Bring the view up to date, and compare everything."""
        try:
            if hasattr(self, "world"):
                self.world.settle()
        finally:
            self.stack.close()


ViewsAgainstRecomputation.TestCase.settings = examples(100, stateful_step_count=25)
TestViewsAgainstRecomputation = ViewsAgainstRecomputation.TestCase
