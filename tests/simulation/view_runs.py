"""Views, played by a seed: the world of the property test, with owners that seldom stall and often die.

Some seeds are of views with joins, in a world of their own.
"""

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from random import Random

from sowline.runtime.native import native_core
from tests.property.view_reference import VIEWS, Body
from tests.property.view_sources import SourceModel, SourceOwner
from tests.property.view_world import MESSAGES_MAX, ViewWorld
from tests.simulation.harness import CORES, Outcome
from tests.simulation.join_world import CUSTOMERS, JOINS, TIERS, JoinWorld
from tests.simulation.view_copies import ViewCopies

VIEW_STEPS = 90
JOIN_STEPS = 3
"""Steps of a view with joins for each step of another view: more has to come together."""

OWNERS_MAX = 5
"""Processes that may own a source partition: most of them are stalled."""

JOINS_EVERY = 5
"""Of so many seeds one is of a view with joins: the last."""

GROUPS = ("a", "a", "b", "c", None, "", 1, 1.0, "1", True, "long" * 80)
VALUES = (
    0,
    1,
    1,
    2,
    7,
    -3,
    0.5,
    0.1,
    2.0,
    "7",
    "07",
    "x",
    True,
    False,
    None,
    2**63,
    2**64 - 1,
    1e308,
    -1e308,
)


class ViewPlay:
    """One run: a view, its sources and its owners, as a seed has them."""

    def __init__(self, seed: int) -> None:
        self.chance = chance = Random(seed)
        name = chance.choice(sorted(self.views()))
        sources, partitions = chance.randint(1, 3), chance.randint(1, 3)
        self.world = self.new_world(name, sources, partitions)
        # Its own chance: what a seed does otherwise must not depend on which cores there are.
        cores = Random(f"{seed} cores")
        self.world.stage2.native = native_core(cores.choice(CORES))
        self.world.native = native_core(cores.choice(CORES))
        self.copies = ViewCopies(self.world, Random(f"{seed} copies"))
        self.trace = [f"view {name} with {sources} source partitions and {partitions} partitions"]
        self.step = 0

    def views(self) -> Iterable[str]:
        """Return the views that a seed chooses from."""
        return VIEWS

    def new_world(self, view: str, sources: int, partitions: int) -> ViewWorld:
        """Return a world without records."""
        return ViewWorld(view, sources, partitions)

    def acts(self) -> dict[Callable[[], None], float]:
        """Return what may happen in a step, by how often it does."""
        return {
            self._write: 22,
            self._age: 5,
            self._own: 26,
            self._append: 6,
            self._save: 5,
            self._take_over: 7,
            self._overtake: 7,
            self._repeat: 3,
            self._work: 20,
            self._die_at_work: 6,
            self._lose: 2,
            self._arrive_late: 4,
            self._write_old: 3,
            self._compact: 3,
        }

    def run(self, steps: int) -> None:
        """Disturb the world, bring it to rest, and compare everything."""
        with ExitStack() as stack:
            for entered in [*self.world.patched(), *self.copies.patched()]:
                stack.enter_context(entered)
            self.copies.start()
            for source in self.world.sources:
                self.world.begin(source.number)
            acts = self.acts()
            while self.step < steps:
                self.step += 1
                (act,) = self.chance.choices(list(acts), list(acts.values()))
                self.trace.append(act.__name__.strip("_"))
                act()
                self.world.check()
                self.copies.work()
            self.trace.append("settle")
            self.world.settle()
            self.copies.check()

    def _note(self, text: str) -> None:
        self.trace[-1] += f": {text}"

    def _source(self) -> int:
        return self.chance.randrange(len(self.world.sources))

    def _partition(self) -> int:
        return self.chance.randrange(self.world.partitions)

    def _owner(self) -> SourceOwner:
        """Return an owner: of a source partition the one that began last, or one that has stalled and wakes."""
        source = self.world.sources[self._source()]
        mine = [owner for owner in self.world.owners if owner.source is source]
        return mine[-1] if self.chance.random() < 0.75 else self.chance.choice(mine)

    def _body(self) -> Body:
        drawn = {
            "g": self.chance.choice(GROUPS),
            "h": self.chance.choice((1, 2)),
            "q": self.chance.choice(VALUES),
            "f": self.chance.choice((0, 1, 1, 1)),
        }
        return {name: value for name, value in drawn.items() if self.chance.random() < 0.9}

    # the sources, and their owners

    def _age(self) -> None:
        """Other things happen to a changes topic: compaction, progress, a stalled owner, another log."""
        source = self._aging()
        what = self.chance.choice(("compact", "compact", "report", "report", "stale", "era"))
        if what == "compact":
            source.compact(lambda: self.chance.random() < 0.5)
        elif what == "report":
            source.report(source.position._replace(offset=source.position.offset + 2, nth=0))
        elif what == "stale":
            source.write_again(self.chance.randrange(100))
        else:
            source.begin_era()
        self._note(f"{what} of source {source.number}")

    def _aging(self) -> SourceModel:
        return self.world.sources[self._source()]

    def _write(self) -> None:
        source = self.world.sources[self._source()]
        for nth in range(self.chance.randint(1, 6)):
            key = b"%d.%d" % (source.number, self.chance.randrange(4))
            body = None if self.chance.random() < 0.3 else self._body()
            source.write(key, body, in_same_record=nth > 0 and self.chance.random() < 0.3)
        self._note(f"source {source.number} to {source.position}")

    def _own(self) -> None:
        owner = self._owner()
        self.world.take(owner, self.chance.randint(1, 9))
        if self.chance.random() < 0.7:
            owner.flush(also_idle=self.chance.random() < 0.5)
        for number in range(self.world.partitions):
            self.world.append(owner, number, self.chance.choice((0, 1, 2, 9)))
        self._note(f"source {owner.source.number} up to offset {owner.partition.reader.next_offset}")

    def _append(self) -> None:
        self.world.append(self._owner(), self._partition(), self.chance.randint(1, 3))

    def _save(self) -> None:
        self.world.save(self._owner())

    def _take_over(self) -> None:
        source = self._source()
        take = self.world.begin if self.chance.random() < 0.4 else self.world.resume
        take(source)
        mine = [owner for owner in self.world.owners if owner.source.number == source]
        # Of those that are stalled some die.
        for owner in mine[:-1]:
            if len(mine) > OWNERS_MAX or self.chance.random() < 0.2:
                self.world.owners.remove(owner)
        self._note(f"{take.__name__} source {source}")

    def _overtake(self) -> None:
        """An owner writes a part of a snapshot, and the one before it wakes and writes what is older."""
        source = self._source()
        before = [owner for owner in self.world.owners if owner.source.number == source][-1]
        self.world.begin(source)
        self.world.take(self.world.owners[-1], self.chance.randint(1, 3))
        for number in range(self.world.partitions):
            self.world.append(self.world.owners[-1], number, self.chance.randint(0, 2))
        self.world.take(before, self.chance.randint(1, 5))
        before.flush(also_idle=False)
        for number in range(self.world.partitions):
            self.world.append(before, number, self.chance.randint(0, 9))
        self._note(f"source {source} up to offset {before.partition.reader.next_offset}")

    def _repeat(self) -> None:
        self.world.repeat(self._partition(), self.chance.randrange(1000))

    # the materializer

    def _work(self) -> None:
        number = self._partition()
        self.world.stage2.work(
            number,
            self.chance.randint(1, 6),
            intrude=self.chance.randrange(3),
            restart=self.chance.random() < 0.1,
        )
        self._note(f"partition {number}")

    def _die_at_work(self) -> None:
        number = self._partition()
        cut = self.chance.randrange(8)
        self.world.stage2.work(number, self.chance.randint(1, 6), cut=cut)
        is_lost = self.chance.random() < 0.5
        if is_lost:
            self.world.stage2.late[number] = []
        self.world.lose(number, store=is_lost, changes=self.chance.random() < 0.1)
        self._note(f"partition {number} before event {cut}{', its disk is lost' * is_lost}")

    def _lose(self) -> None:
        number = self._partition()
        store, changes = self.chance.random() < 0.6, self.chance.random() < 0.4
        self.world.lose(number, store=store, changes=changes)
        self._note(f"partition {number}, store: {store}, changes: {changes}")

    def _arrive_late(self) -> None:
        self.world.stage2.arrive_late(self._partition(), self.chance.randint(1, 3))

    def _write_old(self) -> None:
        self.world.write_old(self._partition(), self.chance.randrange(9), self.chance.randint(1, 3))

    def _compact(self) -> None:
        self.world.compact(self._partition(), lambda: self.chance.random() < 0.5)


class JoinPlay(ViewPlay):
    """One run of a view with joins."""

    world: JoinWorld

    def views(self) -> Iterable[str]:
        """Return the views that a seed chooses from."""
        return JOINS

    def new_world(self, view: str, sources: int, partitions: int) -> ViewWorld:
        """Return a world without records."""
        return JoinWorld(view, sources, partitions)

    def acts(self) -> dict[Callable[[], None], float]:
        """Return what may happen in a step, by how often it does."""
        others = {
            act: often for act, often in super().acts().items() if act not in (self._save, self._overtake)
        }
        more = {self._write_joined: 14, self._take_joined: 24, self._take_over: 4, self._replace: 2}
        return {**others, **more}

    def run(self, steps: int) -> None:
        """Disturb the world, bring it to rest, and compare everything."""
        super().run(steps * JOIN_STEPS)

    def _aging(self) -> SourceModel:
        return self.chance.choice([*self.world.sources, *self.world.joined.values()])

    def _body(self) -> Body:
        return {"g": self.chance.choice(("1", 1, 1, "2", None, True)), "q": self.chance.randrange(10)}

    def _write_joined(self) -> None:
        is_deleted = self.chance.random() < 0.2
        if (TIERS, 0) not in self.world.joined or self.chance.random() < 0.5:
            id = self.chance.choice(("1", 1, "2", True))
            self.world.write_joined(
                CUSTOMERS, id, None if is_deleted else {"tier": self.chance.choice((1, 2))}
            )
            self._note(f"{CUSTOMERS} {id!r}")
        else:
            tier = self.chance.choice((1, 2))
            rated = {"rate": self.chance.choice((0, 1))} if self.chance.random() < 0.8 else {}
            self.world.write_joined(TIERS, tier, None if is_deleted else rated)
            self._note(f"{TIERS} {tier}")

    def _process(self) -> int:
        return self.chance.randrange(len(self.world.processes))

    def _take_joined(self) -> None:
        process, number = self._process(), self.chance.choice(list(self.world.joined))
        self.world.take_joined(process, number, self.chance.randint(1, 9))
        self._note(f"process {process} of {number}")

    def _take_over(self) -> None:
        source, process = self._source(), self._process()
        self.world.begin(source, process)
        mine = [owner for owner in self.world.owners if owner.source.number == source]
        for owner in mine[:-1]:
            if len(mine) > OWNERS_MAX or self.chance.random() < 0.2:
                self.world.owners.remove(owner)
        self._note(f"process {process} takes source {source}")

    def _overtake(self) -> None:
        """An owner writes a part of a snapshot, and the one before it writes what it has taken until then."""
        source, process = self._source(), self._process()
        before = [owner for owner in self.world.owners if owner.source.number == source][-1]
        self.world.take(before, self.chance.randint(1, 5))
        self.world.begin(source, process)
        for joined in self.world.joined:
            self.world.take_joined(process, joined, MESSAGES_MAX)
        after = [owner for owner in self.world.owners if owner.source.number == source][-1]
        self.world.take(after, self.chance.randint(2, 4))
        for number in range(self.world.partitions):
            self.world.append(after, number, self.chance.randint(0, 2))
        before.flush(also_idle=False)
        for number in range(self.world.partitions):
            self.world.append(before, number, self.chance.randint(0, 9))
        self._note(f"source {source} in process {process}")

    def _replace(self) -> None:
        process = self._process()
        self.world.replace(process)
        self._note(f"process {process}")


def play_of(seed: int) -> ViewPlay:
    """Return the run of a seed."""
    return JoinPlay(seed) if has_joins(seed) else ViewPlay(seed)


def has_joins(seed: int) -> bool:
    """Whether a seed is of a view with joins."""
    return seed % JOINS_EVERY == JOINS_EVERY - 1


def simulate_views(seed: int, steps: int = VIEW_STEPS) -> Outcome:
    """Run a seed, and return what became of it."""
    play = play_of(seed)
    error: BaseException | None = None
    try:
        play.run(steps)
    except Exception as wrong:
        error = wrong
    return Outcome(seed, play.step, frozenset(), play.trace, error)
