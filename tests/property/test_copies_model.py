"""Warm copies against the models: whatever happens, a copy is what its owner has, and may take its place."""

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.store.integrity import checkpoint_of
from tests.examples import examples
from tests.memory_store import MemoryStore
from tests.property.copied import CopiedWorld
from tests.property.core_writes import limits, numbers
from tests.property.test_core_model import CoreAgainstModel
from tests.property.test_transient_model import Transient, same
from tests.property.world import dump


class CopiesAgainstModel(CoreAgainstModel):
    """All that can happen to partitions, while another worker keeps copies of them and takes them over."""

    @initialize(partitions=st.integers(1, 3), limits=limits, skew=st.sampled_from([0, 7, -7, 100]))
    def begin(self, partitions: int, limits: dict[str, Any], skew: int) -> None:
        """Define the topic."""
        self.partitions = partitions
        self.definition = self.first = self._defined(limits)
        self.world = self.copied = CopiedWorld(self.definition)
        self.world.skew = skew
        for entered in self.world.patched():
            self.stack.enter_context(entered)

    @rule(slot=numbers, count=st.integers(1, 12))
    def follow(self, slot: int, count: int) -> None:
        """A copy takes in some changes."""
        self.copied.follow(slot % self.partitions, count)

    @rule(slot=numbers, behind=st.integers(0, 6), cold=st.booleans())
    def move(self, slot: int, behind: int, cold: bool) -> None:
        """A partition moves to the worker that has a copy, which is some changes behind."""
        number = slot % self.partitions
        self.copied.owner(number)
        while self.copied.copy(number).next_offset < self.copied.changes[number].end - behind:
            self.copied.follow(number, 1)
        self.copied.move(number, cold)

    def _same(self, number: int, store: MemoryStore, checkpoint: Checkpoint) -> None:
        super()._same(
            number, store, replace(checkpoint, changes_id=self.world.owner(number).checkpoint.changes_id)
        )

    def _check(self, number: int) -> None:
        store = self.copied.catch_up(number)
        assert store is not None
        self._same(number, store, checkpoint_of(store))
        super()._check(number)


class TransientCopies(Transient):
    """A transient topic that begins again, while another worker keeps a copy."""

    def __init__(self) -> None:
        super().__init__()
        self.stack.close()
        self.world = self.copied = CopiedWorld(self.world.definition, knows_ids=False)
        for entered in self.world.patched():
            self.stack.enter_context(entered)
        self.world.owner(0)

    @rule(count=st.integers(1, 12))
    def follow(self, count: int) -> None:
        """The copy takes in some changes."""
        self.copied.follow(0, count)

    @rule(cold=st.booleans())
    def move(self, cold: bool) -> None:
        """The partition moves to the worker that has the copy."""
        self.copied.owner(0)
        self.copied.move(0, cold)

    def teardown(self) -> None:
        """The copy is the owner's state, too."""
        with self.stack:
            self.settle()
            store, partition = self.copied.catch_up(0), self.copied.owner(0)
            assert store is not None
            since = partition.checkpoint.remembered_since
            assert dump(store, since, 0) == dump(self.copied.store(0), since, 0)
            assert same(checkpoint_of(store)) == same(partition.checkpoint)
            super().teardown()


CopiesAgainstModel.TestCase.settings = examples(60, stateful_step_count=40)
TestCopiesAgainstModel = CopiesAgainstModel.TestCase
TransientCopies.TestCase.settings = examples(60, stateful_step_count=30)
TestTransientCopies = TransientCopies.TestCase


def test_an_owner_behind_what_was_emitted_dies() -> None:
    """It took a copy over that was behind, and had applied a little; the service starts again."""
    machine = TransientCopies()
    machine.move(cold=False)
    machine.compact()
    machine.write(keys=[1], number=None, value=0)
    machine.compact()
    machine.move(cold=False)
    machine.work(size=1, intrude=0, cut=None, lost=False)
    machine.start(back=2, cut=None, lost=False)
    machine.teardown()


def test_an_owner_without_new_records_sees_what_others_write() -> None:
    """It applies what was emitted before it came, so it writes nothing; what it repairs by then is everything."""
    machine = TransientCopies()
    machine.move(cold=False)
    machine.write(keys=[1, 2, 1], number=None, value=0)
    machine.work(size=6, intrude=0, cut=None, lost=False)
    machine.move(cold=False)
    machine.repeat_old(start=0, count=1)
    machine.work(size=6, intrude=0, cut=None, lost=False)
    machine.teardown()
