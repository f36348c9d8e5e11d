"""A reader of a changes partition, whatever owners write, compaction removes, and however long reading takes.

The model knows the true changes. It says what a follower must do with each event, and which records a load must have.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from hypothesis import example, given
from hypothesis import strategies as st

from sowline.changes.change import Change
from sowline.changes.changes_reader import ChangesMissing, ChangesReader, Phase, Verdict
from sowline.changes.event import Event
from sowline.changes.newest_changes import NewestChanges
from sowline.changes.progress import PROGRESS_KEY, Progress
from sowline.model.position import Position

LAG = 10.0
"""The compaction lag of the topic, in seconds."""

KEYS = b"abc"

NOWHERE = Position(0, -1)


@dataclass
class Partition:
    """A changes partition with one owner: its true changes in order, and what Kafka has of them."""

    chance: random.Random
    now: float = 0.0
    end: int = 0
    truth: list[Event] = field(default_factory=list)
    """All changes and progress events in the order in which the owner wrote them first."""
    held: list[tuple[int, float, Event]] = field(default_factory=list)
    """Offsets, append times and events, compacted."""

    def __post_init__(self) -> None:
        self._append(Progress(NOWHERE, NOWHERE, 0, {}, "", "", 0, {}))

    @property
    def newest(self) -> tuple[Position, Position]:
        """The newest position, and that of the newest change."""
        changes = [event.position for event in self.truth if isinstance(event, Change)]
        return max((event.position for event in self.truth), default=NOWHERE), max(changes, default=NOWHERE)

    def _append(self, event: Event) -> None:
        self.truth.append(event)
        self._write(event)

    def _write(self, event: Event) -> None:
        self.held.append((self.end, self.now, event))
        self.end += 1

    def write(self) -> None:
        """The owner applies a log record: a change, or none."""
        newest, change = self.newest
        position = Position(newest.era, newest.offset + self.chance.choice((1, 1, 2)))
        if self.chance.random() < 0.3:
            self._append(Progress(position, change, 0, {}, "", "", 0, {}))
        else:
            key = bytes([self.chance.choice(KEYS)])
            body = None if self.chance.random() < 0.2 else b"%d" % position.offset
            self._append(Change(key, body, None, position, change, "publish", 0))

    def repeat(self) -> None:
        """A stalled owner writes again what it had not written yet when it stalled; the owner repairs the key."""
        event = self.chance.choice(self.truth)
        self._write(event)
        if isinstance(event, Change):
            of_key = [one for one in self.truth if isinstance(one, Change) and one.sow_key == event.sow_key]
            self._write(max(of_key, key=lambda one: one.position))

    def compact(self) -> None:
        """Remove an event if a later one of its key is older than the lag."""
        old = {_key(event): offset for offset, at, event in self.held if at <= self.now - LAG}
        self.held = [one for one in self.held if one[0] >= old.get(_key(one[2]), 0)]

    def read(self, offset: int, count: int) -> Iterator[tuple[int, Event]]:
        """Yield the next events from an offset on."""
        found = [(at, event) for at, _, event in self.held if at >= offset]
        yield from found[:count]

    def records(self, position: Position) -> dict[bytes, Position]:
        """Return the newest change of each live record at a position."""
        found: dict[bytes, Position] = {}
        for event in self.truth:
            if isinstance(event, Change) and event.position <= position:
                found[event.sow_key] = event.position
                if event.body is None:
                    del found[event.sow_key]
        return found

    def continues(self, event: Event, position: Position) -> bool:
        """Whether no true change is missing between a position and an event."""
        between = (one.position for one in self.truth if isinstance(one, Change))
        return not any(position < one < event.position for one in between)

    def live(self) -> None:
        """Let something happen."""
        what = self.chance.random()
        if what < 0.5:
            self.write()
        elif what < 0.6:
            self.repeat()
        elif what < 0.8:
            self.now += self.chance.choice((0.5, 2.0, 8.0))
        else:
            self.compact()


def _key(event: Event) -> bytes:
    return event.sow_key if isinstance(event, Change) else PROGRESS_KEY


def follow(partition: Partition, reader: ChangesReader, records: dict[bytes, Position], count: int) -> None:
    """Follow; compare each verdict with what the model says."""
    for offset, event in list(partition.read(reader.next_offset, count)):
        before, is_newer = reader.position, event.position > reader.position
        continues = partition.continues(event, before)
        try:
            judged = reader.take(event, offset)
        except ChangesMissing:
            assert is_newer
            assert not continues
            assert reader.phase is Phase.MISSING
            return
        assert judged is (Verdict.TAKE if is_newer else Verdict.DROP)
        assert continues or not is_newer
        if judged is Verdict.TAKE and isinstance(event, Change):
            records.pop(event.sow_key, None)
            if event.body is not None:
                records[event.sow_key] = event.position
        assert records == partition.records(reader.position)


def load(partition: Partition, chance: random.Random) -> tuple[ChangesReader, dict[bytes, Position]]:
    """Load while the partition changes; return the reader, which follows now, and its records."""
    reader, newest, target = ChangesReader("", LAG), NewestChanges(), 0
    for _ in range(200):
        if reader.look(partition.now) is Phase.AIMING:
            target = partition.end
            reader.aim(target, partition.now)
        elif reader.phase is Phase.COMPLETE:
            assert reader.next_offset >= target
            reader.follow()
            return reader, {change.sow_key: change.position for change in newest.live()}
        for offset, event in list(partition.read(reader.next_offset, chance.choice((1, 2, 50)))):
            assert reader.take(event, offset) is Verdict.LOAD
            newest.take(event)
        if not any(partition.read(reader.next_offset, 1)):
            reader.at_end(partition.end)
        for _ in range(chance.choice((0, 1, 3, 20))):
            partition.live()
    raise AssertionError("the load does not end")


@given(seed=st.integers(0, 1_000_000))
@example(seed=0)
def test_a_load_has_every_record_and_following_misses_none(seed: int) -> None:
    """At its end a load has the records at its position. Following it takes each change, or finds the gap."""
    chance = random.Random(seed)
    partition = Partition(chance)
    for _ in range(chance.randint(0, 30)):
        partition.live()
    reader, records = load(partition, chance)
    assert records == partition.records(reader.position)
    is_away = 0.9 if chance.random() < 0.5 else 0.3
    for _ in range(60):
        partition.live()
        if reader.phase is Phase.FOLLOWING and chance.random() > is_away:
            follow(partition, reader, records, chance.choice((1, 3, 50)))
    if reader.phase is Phase.FOLLOWING:
        follow(partition, reader, records, partition.end)
