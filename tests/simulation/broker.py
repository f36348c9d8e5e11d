"""The Kafka that is played: topics, their compaction, a consumer group, and what is still on its way to them."""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

from confluent_kafka import KafkaError

from sowline.commands.command import UNREADABLE_HEADERS, Headers

PartitionId = tuple[str, int]


class Written(NamedTuple):
    """A record of a topic, or an error in its stead; quacks like a Kafka message."""

    partition_id: PartitionId
    at: int
    time: int = 0
    name: bytes | None = None
    body: bytes | None = None
    about: Headers | None = None
    wrong: KafkaError | None = None

    def topic(self) -> str:
        """Return the topic's name."""
        return self.partition_id[0]

    def partition(self) -> int:
        """Return the partition's number."""
        return self.partition_id[1]

    def offset(self) -> int:
        """Return the offset."""
        return self.at

    def timestamp(self) -> tuple[int, int]:
        """Return the kind of the time, and the append time in ms."""
        return 2, self.time

    def key(self) -> bytes | None:
        """Return the Kafka key."""
        return self.name

    def value(self) -> bytes | None:
        """Return the Kafka value."""
        return self.body

    def headers(self) -> Headers | None:
        """Return the Kafka headers; raise what the client raises for a name among them that is not UTF-8."""
        if self.about is UNREADABLE_HEADERS:
            raise SystemError("returned a result with an exception set")
        return self.about or None

    def set_headers(self, headers: Headers) -> None:
        """Take what stands for headers that can't be read. Here they are never read twice."""

    def error(self) -> KafkaError | None:
        """Return the error, if it is one."""
        return self.wrong


@dataclass
class Part:
    """A partition of a topic: what it still holds, in order of offsets, which may have holes."""

    held: list[Written] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    end: int = 0
    generation: int = 0
    open: list[int] = field(default_factory=list)
    """The offsets of the records of a transaction that is open."""

    @property
    def stable(self) -> int:
        """Where what is committed ends: before the first record of an open transaction."""
        return self.open[0] if self.open else self.end

    def end_transaction(self, is_committed: bool) -> None:
        """Commit or abort what is open. A marker, which no reader gets, takes an offset."""
        if not is_committed:
            self.held = [message for message in self.held if message.at not in self.open]
            self.offsets = [message.at for message in self.held]
        self.open, self.end = [], self.end + 1

    def first_from(self, offset: int) -> Written | None:
        """Return the first record at an offset or behind it."""
        found = bisect_left(self.offsets, offset)
        return self.held[found] if found < len(self.held) else None

    def compact(self, before: int) -> int:
        """Keep, of what was written before a time in ms, the last of each key; return how many records went."""
        bound = next((n for n, message in enumerate(self.held) if message.time >= before), len(self.held) - 1)
        last = {message.name: message.at for message in self.held[:bound]}
        kept = [message for message in self.held[:bound] if last[message.name] == message.at]
        gone = bound - len(kept)
        if gone > 0:
            self.held[:bound] = kept
            self.offsets = [message.at for message in self.held]
        return max(0, gone)


@dataclass
class Broker:
    """All topics. `on_append` is told of each record as it is written."""

    chance: Random
    clock: Callable[[], int]
    on_append: Callable[[Written], None]
    parts: dict[PartitionId, Part] = field(default_factory=dict)
    skew: int = 0
    is_refusing: bool = False
    leaderless: set[PartitionId] = field(default_factory=set)
    """The partitions of which it says that they have no leader; it takes and gives their records all the same."""
    has_holes: bool = False
    without_holes: set[str] = field(default_factory=set)
    is_calm: bool = False
    """Whether all that is there is delivered at once."""
    late: list[deque[tuple[PartitionId, Any]]] = field(default_factory=list)
    writer: str = ""
    """The process whose message is being written; empty if it has died, or is none of the simulated ones."""
    lost: int = 0
    """Records that compaction took, or that went with their topic."""

    def make(self, topic: str, partitions: int) -> None:
        """Make a topic, in place of one of that name."""
        for number in range(partitions):
            before = self.parts.get((topic, number))
            generation = 0 if before is None else before.generation + 1
            self.lost += 0 if before is None else before.end
            self.parts[topic, number] = Part(generation=generation)

    def append(
        self, partition_id: PartitionId, key: bytes | None, value: bytes | None, headers: Headers | None
    ) -> Written:
        """Write a record."""
        part = self.parts[partition_id]
        if self.has_holes and partition_id[0] not in self.without_holes and self.chance.random() < 0.1:
            part.end += 1
        written = Written(partition_id, part.end, self.clock() + self.skew, key, value, headers)
        part.held.append(written)
        part.offsets.append(written.at)
        part.end += 1
        self.on_append(written)
        return written

    def compact(self, partition_id: PartitionId, before: int) -> None:
        """Let compaction run over what was written before a time in ms."""
        self.lost += self.parts[partition_id].compact(before)

    def arrive(self) -> None:
        """Let some of what a dead process had sent arrive after all."""
        if self.late:
            requests = self.chance.choice(self.late)
            partition_id, (key, value, headers) = requests.popleft()
            self.append(partition_id, key, value, headers)
            self.late = [requests for requests in self.late if requests]


class Group:
    """The workers' consumer group: cooperative, so that a partition is let go before another member gets it."""

    def __init__(self, chance: Random, partition_ids: list[PartitionId]) -> None:
        self._chance = chance
        self._partition_ids = partition_ids
        self.members: list[Any] = []
        self.owners: dict[PartitionId, Any] = {}
        self.commits: dict[PartitionId, tuple[int, str]] = {}
        """The offset that was committed of each partition, and what was noted with it."""
        self.target: dict[PartitionId, Any] = {}

    def join(self, member: Any) -> None:
        """Take in a member."""
        if member not in self.members:
            self.members.append(member)
            self.share_out()

    def leave(self, member: Any) -> None:
        """Let a member go, or give it up: what it had is free."""
        if member in self.members:
            self.members.remove(member)
        self.owners = {
            partition_id: owner for partition_id, owner in self.owners.items() if owner is not member
        }
        self.share_out()

    def share_out(self, reset_to: bool = False) -> None:
        """Say who shall have what: owners keep theirs, unless all is shared out afresh."""
        self.target = {}
        if not self.members:
            return
        members = self._chance.sample(self.members, len(self.members))
        most = -(-len(self._partition_ids) // len(members))
        counts = {id(member): 0 for member in members}
        for partition_id in self._partition_ids:
            owner = self.owners.get(partition_id)
            if not reset_to and owner in members and counts[id(owner)] < most:
                self.target[partition_id] = owner
                counts[id(owner)] += 1
        for partition_id in self._partition_ids:
            if partition_id not in self.target:
                member = min(members, key=lambda one: counts[id(one)])
                self.target[partition_id] = member
                counts[id(member)] += 1
