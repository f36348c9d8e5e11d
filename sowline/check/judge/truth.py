"""What happened to a topic, by what writers sent and subscribers received: every change of each partition. Pure.

A write whose answer names its position stands there. Where no answer does, subscribers decide: a write without an
answer, a delete by filter and an expiry stand where most of their messages have them. One reader with a wrong message
is then the one that differs.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from sowline.check.history import CheckedTopic, MessageRead, WriteAnswered, WriteSent
from sowline.check.judge.bookmarks import BEFORE_ALL, Partition, Position, named_position, read_bookmark
from sowline.check.judge.records import Body, delta_applied, key_of, merged

EXPIRED: Final = "expired"

Stand = tuple[Partition, Position]
"""Where something stands in a topic."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What stands at a position: a write or an expiry, and the key of the record that it changes."""

    key: str
    write: str
    """The id of the write; empty for an expiry."""


@dataclass(frozen=True, slots=True)
class KnownChange:
    """A record's step from one state to the next; a body is None where there is no record."""

    partition: Partition
    position: Position
    key: str
    write: str
    before: Body | None
    after: Body | None
    is_mortal: bool
    """Whether the record before the change had a lifetime."""
    due: float | None
    """When that lifetime ended, in seconds since 1970; None without one, or if no subscriber received its start."""


@dataclass
class TopicTruth:
    """The changes of one topic."""

    topic: CheckedTopic
    begin: Mapping[Partition, Position]
    times: Mapping[Stand, float]
    """The log time of positions, in seconds since 1970, where a subscriber received it."""
    sow_keys: Mapping[str, str]
    """By key, the record's SOW key."""
    lifetimes: Mapping[str, float]
    """By write, the lifetime in seconds that it gives to its record, 0 for none."""
    changes: dict[Partition, list[KnownChange]] = field(default_factory=dict)
    groundless: list[tuple[Partition, Position, Claim]] = field(default_factory=list)
    """Removals of records that there were not."""
    outcomes: dict[str, str] = field(default_factory=dict)
    """By write, what a delta must have done to its document."""

    def __post_init__(self) -> None:
        self._by_position: dict[Stand, KnownChange] = {}
        self._last: dict[tuple[Partition, str], KnownChange] = {}
        self._versions: dict[Partition, dict[str, tuple[list[Position], list[Body | None]]]] = {}

    @property
    def partitions(self) -> set[Partition]:
        """The partitions of the topic."""
        return {*self.begin, *self.changes}

    def add(self, change: KnownChange) -> None:
        """Append the next change of a partition."""
        self.changes.setdefault(change.partition, []).append(change)
        self._by_position[change.partition, change.position] = change
        self._last[change.partition, change.key] = change
        positions, bodies = self._versions.setdefault(change.partition, {}).setdefault(change.key, ([], []))
        positions.append(change.position)
        bodies.append(change.after)

    def last(self, partition: Partition, key: str) -> KnownChange | None:
        """Return the newest change of a record; None if there is none."""
        return self._last.get((partition, key))

    def newest(self, partition: Partition) -> Iterator[KnownChange]:
        """Yield the newest change of each record of a partition."""
        return (change for (where, _), change in self._last.items() if where == partition)

    def lifetime(self, change: KnownChange) -> float:
        """Return the lifetime in seconds of a record after a change, 0 for none."""
        return 0.0 if change.after is None else self.lifetimes.get(change.write, 0.0)

    def at(self, partition: Partition, position: Position) -> KnownChange | None:
        """Return the change at a position; None if there is none."""
        return self._by_position.get((partition, position))

    def between(self, partition: Partition, after: Position, last: Position) -> Iterator[KnownChange]:
        """Yield the changes of a partition after a position, up to another."""
        changes = self.changes.get(partition, [])
        for number in range(bisect_right(changes, after, key=_position_of), len(changes)):
            if changes[number].position > last:
                return
            yield changes[number]

    def is_known(self, bookmark: Mapping[Partition, Position]) -> bool:
        """Return False if a record may have expired up to a bookmark, and no subscriber was left to receive that."""
        return not any(
            position > changes[-1].position and any(map(self.lifetime, self.newest(partition)))
            for partition, position in bookmark.items()
            if (changes := self.changes.get(partition))
        )

    def state(self, bookmark: Mapping[Partition, Position]) -> dict[str, tuple[Body, Partition, Position]]:
        """Return the records at a bookmark by key, each with the position of its last change."""
        found: dict[str, tuple[Body, Partition, Position]] = {}
        for partition in self.partitions:
            last = bookmark.get(partition, BEFORE_ALL)
            for key, (positions, bodies) in self._versions.get(partition, {}).items():
                number = bisect_right(positions, last) - 1
                body = bodies[number] if number >= 0 else None
                if body is not None:
                    found[key] = (body, partition, positions[number])
        return found


def _position_of(change: KnownChange) -> Position:
    return change.position


def truth_of(
    topic: CheckedTopic,
    writes: Mapping[str, WriteSent],
    answers: Mapping[str, WriteAnswered],
    received: Sequence[MessageRead],
) -> TopicTruth:
    """Return what happened to a topic.

    `received` are the live messages of its subscriptions that had one message for each change.
    """
    own = {id: write for id, write in writes.items() if write.topic == topic.name}
    lifetimes = {id: write.expiration for id, write in own.items()}
    begin = read_bookmark(topic.begin)
    truth = TopicTruth(topic, begin, _times(received), _sow_keys(topic, received), lifetimes)
    for (partition, position), claim in sorted(_claims(topic, own, answers, received).items(), key=_at):
        _replay(truth, partition, position, claim, own)
    return truth


def _at(claimed: tuple[Stand, Claim]) -> Stand:
    return claimed[0]


def _claims(
    topic: CheckedTopic,
    writes: Mapping[str, WriteSent],
    answers: Mapping[str, WriteAnswered],
    received: Iterable[MessageRead],
) -> dict[Stand, Claim]:
    keys = {id: key_of(write.data, topic.key) for id, write in writes.items() if not write.filter}
    found: dict[Stand, Claim] = {}
    standing: set[str] = set()
    for id, key in keys.items():
        stand = named_position(answers[id].position) if id in answers else None
        if key is not None and stand is not None:
            found[stand] = Claim(key, id)
            standing.add(id)
    # What most messages say comes first: one reader that shows another position must not decide
    # (test_subscribers_decide_about_a_write_without_an_answer).
    for (stand, claim), _ in _votes(topic, writes, received).most_common():
        # A delete by filter stands at every record that it removes (test_a_delete_by_filter). Any other write stands
        # once, at its own record (test_a_message_names_another_record).
        is_single = claim.write in keys
        is_wrong = is_single and (claim.write in standing or keys[claim.write] != claim.key)
        # An answer counts for more than all messages: a service that has a write at a wrong position shows it there
        # to all of its subscribers (test_answers_decide).
        if stand not in found and not is_wrong:
            found[stand] = claim
            standing.add(claim.write)
    return found


def _votes(
    topic: CheckedTopic, writes: Mapping[str, WriteSent], received: Iterable[MessageRead]
) -> Counter[tuple[Stand, Claim]]:
    votes: Counter[tuple[Stand, Claim]] = Counter()
    for message in received:
        stand, key = named_position(message.bookmark), key_of(message.data, topic.key)
        is_expiry = message.reason == EXPIRED
        if stand is not None and key is not None and (is_expiry or message.correlation_id in writes):
            votes[stand, Claim(key, "" if is_expiry else message.correlation_id)] += 1
    return votes


def _replay(
    truth: TopicTruth, partition: Partition, position: Position, claim: Claim, writes: Mapping[str, WriteSent]
) -> None:
    """Apply what stands at the next position of a partition."""
    held = truth.last(partition, claim.key)
    before = None if held is None else held.after
    write = writes.get(claim.write)
    after: Body | None = None
    if write is not None and write.delta is not None:
        after, truth.outcomes[claim.write] = delta_applied(before, write.delta)
        if before is None and after is None:
            return
    elif write is not None and write.command != "sow_delete":
        after = dict(write.data or {}) if write.command == "publish" else merged(before, write.data or {})
    # Not a change: a second removal of a record would hide that there was nothing to remove (test_lifetimes).
    elif before is None:
        truth.groundless.append((partition, position, claim))
        return
    lifetime = 0.0 if held is None else truth.lifetime(held)
    begun = None if held is None else truth.times.get((partition, held.position))
    # Unknown, unless a subscriber received the write's log time: a guess would accuse an expiry that was in time
    # (test_lifetimes).
    due = begun + lifetime if begun is not None and lifetime else None
    truth.add(KnownChange(partition, position, claim.key, claim.write, before, after, lifetime > 0, due))


def _times(received: Iterable[MessageRead]) -> dict[Stand, float]:
    votes: dict[Stand, Counter[float]] = defaultdict(Counter)
    for message in received:
        stand = named_position(message.bookmark)
        if stand is not None and message.timestamp:
            votes[stand][datetime.fromisoformat(message.timestamp).timestamp()] += 1
    return {stand: count.most_common(1)[0][0] for stand, count in votes.items()}


def _sow_keys(topic: CheckedTopic, received: Iterable[MessageRead]) -> dict[str, str]:
    votes: dict[str, Counter[str]] = defaultdict(Counter)
    for message in received:
        key = key_of(message.data, topic.key)
        if key is not None and message.sow_key:
            votes[key][message.sow_key] += 1
    return {key: count.most_common(1)[0][0] for key, count in votes.items()}
