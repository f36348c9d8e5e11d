"""Views with joins in memory: processes of the service `views`, each with its copies of the joined topics.

The order in which an owner takes changes of several topics is its own. The world notes for each of its positions what
it has taken by then: so the view is compared with a plain recomputation at each message boundary, and no reader may
see an older combination after a newer one.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from sowline.changes.change import Change
from sowline.changes.changes_reader import ChangesMissing, ChangesReader, Phase
from sowline.config.topic_definition import TopicDefinition
from sowline.config.topics import Topics
from sowline.model.key import partition_of
from sowline.model.position import Position
from sowline_views.core.followed_partition import FollowedPartition
from sowline_views.core.joined_tables import JoinedEvent, JoinedTables, joined_table
from sowline_views.core.outgoing import Outgoing
from sowline_views.core.source_partition import SourcePartition, take_joined
from tests.property.view_reference import Body
from tests.property.view_sources import SourceModel, SourceOwner
from tests.property.view_world import MESSAGES_MAX, Vector, ViewFollower, ViewWorld
from tests.property.world import World

CUSTOMERS, TIERS = "customers", "tiers"
JOINED = {CUSTOMERS: "id", TIERS: "tier"}
"""By joined topic, the field that is its key."""

TOPICS: list[dict[str, Any]] = [
    {"name": CUSTOMERS, "key": "/id", "partitions": 2},
    {"name": TIERS, "key": "/tier"},
]
CUSTOMER = {"topic": CUSTOMERS, "on": "/g = /id", "as": "c"}

Number = tuple[str, int]
"""A joined topic, and the number of a partition."""


class Row(NamedTuple):
    """A record of the source with those that belong to it; None without a match."""

    key: str
    order: Body
    customer: Body | None
    tier: Body | None


def groups_by_tier(rows: Iterable[Row]) -> dict[str, Body]:
    """`by tier`: the orders whose customer has a known tier."""
    found: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row.tier is not None:
            assert row.customer is not None
            found[_text([row.customer["tier"], row.tier.get("rate")])].append(row)
    return {text: _group(members) for text, members in found.items()}


def _group(rows: list[Row]) -> Body:
    customer, tier = rows[0].customer, rows[0].tier
    assert customer is not None
    assert tier is not None
    return {
        "c": {"tier": customer["tier"]},
        "t": {"rate": tier.get("rate")},
        "orders": len(rows),
        "most": max(row.order["q"] for row in rows),
    }


def groups_by_customer(rows: Iterable[Row]) -> dict[str, Body]:
    """`by customer`: the orders by the tier of their customer; NULL is the tier of those without one."""
    found: defaultdict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        found[None if row.customer is None else row.customer["tier"]].append(row)
    return {
        _text([tier]): {
            "c": {"tier": tier},
            "orders": len(members),
            "most": max(row.order["q"] for row in members),
        }
        for tier, members in found.items()
    }


def labeled(rows: Iterable[Row]) -> dict[str, Body]:
    """`labeled`: each order with the tier of its customer."""
    return {
        row.key: {"q": row.order["q"], "tier": None if row.customer is None else row.customer["tier"]}
        for row in rows
    }


JOINS: dict[str, tuple[dict[str, Any], Callable[[Iterable[Row]], dict[str, Body]]]] = {
    "by tier": (
        {
            "join": [CUSTOMER, {"topic": TIERS, "on": "/c/tier = /tier", "as": "t", "kind": "inner"}],
            "grouping": ["/c/tier", "/t/rate"],
            "projection": ["COUNT(1) AS /orders", "MAX(/q) AS /most"],
        },
        groups_by_tier,
    ),
    # The only one of which the native core finds the join keys.
    "by customer": (
        {
            "join": [CUSTOMER],
            "grouping": ["/c/tier"],
            "projection": ["COUNT(1) AS /orders", "MAX(/q) AS /most"],
        },
        groups_by_customer,
    ),
    "labeled": ({"join": [CUSTOMER], "projection": ["/q", "/c/tier AS /tier"]}, labeled),
}
"""The views: what is defined of each, and the recomputation."""


def _text(values: list[Any]) -> str:
    return orjson.dumps(values).decode()


def key_text(value: Any) -> str | None:
    """Return the key text of a field's value; None for what is no key."""
    if value is None:
        return None
    return "true" if value is True else str(value)


class Taken(NamedTuple):
    """What an owner has taken: the position of its source partition, and of each partition of the joined topics."""

    source: Position
    joined: tuple[Position, ...]

    def is_newer(self, other: "Taken") -> bool:
        """Whether nothing was taken later in the other one."""
        pairs = zip((self.source, *self.joined), (other.source, *other.joined), strict=True)
        return all(mine >= theirs for mine, theirs in pairs)


@dataclass
class JoinOwner(SourceOwner):
    """The owner of a source partition in a process. It writes a snapshot once the process has all of `ends`."""

    ends: Mapping[Number, int] = field(default_factory=dict)

    @property
    def position(self) -> Position:
        """Its own position: its generation, and how many changes it has taken."""
        assert self.partition._outgoing is not None, "its snapshot has begun"
        return self.partition._outgoing.position


class Process:
    """A process of the service `views`: its copies of the joined topics, and its owners of source partitions."""

    def __init__(self, tables: JoinedTables, models: Mapping[Number, SourceModel]) -> None:
        self.tables = tables
        self.models = models
        self.followed: dict[Number, FollowedPartition] = {}
        self.owners: dict[int, JoinOwner] = {}
        for number, model in models.items():
            reader = ChangesReader("", 1e9)
            reader.aim(model.end, 0)
            followed = FollowedPartition(str(number), reader)
            for offset, event in model.held:
                followed.taken(event, offset)
            reader.at_end(model.end)
            assert reader.look(0) is Phase.COMPLETE
            reader.follow()
            for change in followed.take_loaded():
                tables.put(JoinedEvent(*number, change.position, change))
            tables.put(JoinedEvent(*number, reader.position))
            self.followed[number] = followed

    def take_joined(self, number: Number, count: int) -> None:
        """Take events of a partition of a joined topic; raise `ChangesMissing` if some are gone."""
        followed = self.followed[number]
        for _ in range(count):
            # As in the runner: a snapshot is of one position.
            if any(owner.partition.is_sending_snapshot for owner in self.owners.values()):
                return
            ahead = (one for one in self.models[number].held if one[0] >= followed.reader.next_offset)
            offset, event = next(ahead, (None, None))
            if offset is None or event is None:
                return
            taken = followed.taken(event, offset)
            if taken is not None and self.tables.of(number[0]):  # the view joins it
                change = taken if isinstance(taken, Change) else None
                self._take(JoinedEvent(*number, taken.position, change))

    def _take(self, event: JoinedEvent) -> None:
        owners = {id(one.partition): one for one in self.owners.values()}
        for partition, messages in take_joined(
            event, self.tables, [one.partition for one in owners.values()]
        ):
            owners[id(partition)].produced += messages

    def has_joined(self, owner: JoinOwner) -> bool:
        """Whether it has what the joined topics had when the owner's generation began."""
        return all(self.followed[number].reader.next_offset >= end for number, end in owner.ends.items())

    def taken_by(self, owner: JoinOwner) -> Taken:
        """Return what an owner has taken."""
        joined = tuple(followed.reader.position for followed in self.followed.values())
        return Taken(owner.partition.reader.position, joined)


class JoinFollower(ViewFollower):
    """A reader of one partition of the view, which also checks that nothing that it sees is older than before."""

    def __init__(self, number: int, world: "JoinWorld") -> None:
        super().__init__(number, world.definition.key_fields)
        self._world = world

    def _move(self, reflected: Vector) -> None:
        for source, position in self.reflected.items():
            before, now = (
                self._world.taken[source, one] for one in (position, reflected.get(source, position))
            )
            assert now.is_newer(before), f"an older combination {now} after {before}"
        super()._move(reflected)


class JoinWorld(ViewWorld):
    """A view with joins, its source and joined topics, two processes, and the materializer of the view."""

    def __init__(self, view: str, sources: int, partitions: int) -> None:
        text, self._recompute_rows = JOINS[view]
        self.topics = Topics.model_validate(
            {
                "topics": [{"name": "orders", "key": {"from": "kafka_key"}, "partitions": sources}, *TOPICS],
                "views": [{"name": "view", "from": "orders", "partitions": partitions, **text}],
            }
        )
        self.definition: TopicDefinition = self.topics.named("view")
        self.partitions = partitions
        self.sources = [SourceModel(number) for number in range(sources)]
        assert self.definition.view is not None
        self.joined = {
            (join.topic, number): SourceModel(number)
            for join in self.definition.view.joins
            for number in range(self.topics.named(join.topic).partitions)
        }
        self.taken: dict[tuple[int, Position], Taken] = {}
        """By source partition and position of its owner, what the owner had taken when it came there."""
        self._generations = [0] * sources
        self.owners: list[SourceOwner] = []
        self.stage2 = World(self.definition)
        self.followers = [JoinFollower(number, self) for number in range(partitions)]
        self.processes = [self._new_process(), self._new_process()]

    def _new_process(self) -> Process:
        assert self.definition.view is not None
        joins = self.definition.view.joins
        tables = JoinedTables([joined_table(join, self.topics.named(join.topic)) for join in joins])
        return Process(tables, self.joined)

    def write_joined(self, topic: str, value: Any, body: Body | None) -> None:
        """Write a record of a joined topic, or delete it (None)."""
        definition = self.topics.named(topic)
        text = key_text(value)
        assert text is not None
        number = partition_of(text, definition.partitions)
        whole = None if body is None else {JOINED[topic]: value, **body}
        self.joined[topic, number].write(definition.key_rule.sow_key(text), whole)

    # the service `views`

    def begin(self, source: int, process: int = 0) -> None:
        """A process takes a source partition. The owner before takes nothing more, but may still write."""
        self._generations[source] += 1
        for one in self.processes:
            one.owners.pop(source, None)
        reader = ChangesReader("", 1e9)
        reader.aim(self.sources[source].end, 0)
        partition = SourcePartition(
            self.definition,
            source,
            len(self.sources),
            reader,
            self.processes[process].tables,
            self._generations[source],
            "orders",
            self.native,
        )
        ends = {number: model.end for number, model in self.joined.items()}
        owner = JoinOwner(self.sources[source], partition, deque[Outgoing](), ends)
        for offset, event in owner.source.held:
            partition.take(event, offset)
        reader.at_end(owner.source.end)
        self.owners.append(owner)
        self.processes[process].owners[source] = owner

    def replace(self, process: int) -> None:
        """A process is killed, with all that it has not written; another one takes its source partitions."""
        lost = self.processes[process].owners
        self.owners = [owner for owner in self.owners if owner not in lost.values()]
        self.processes[process] = self._new_process()
        for source in lost:
            self.begin(source, process)

    def process_of(self, owner: SourceOwner) -> Process | None:
        """Return the process that owns the source partition by this owner; None if it has lost it."""
        return next((one for one in self.processes if owner in one.owners.values()), None)

    def take(self, owner: SourceOwner, count: int) -> None:
        """Let an owner read; one that finds changes missing begins again."""
        process = self.process_of(owner)
        assert isinstance(owner, JoinOwner)
        if process is None:
            return
        partition = owner.partition
        for _ in range(count):
            if partition.reader.is_loading:
                if not process.has_joined(owner):
                    return
                assert partition.reader.look(0) is Phase.COMPLETE
                partition.reader.follow()
                partition.end_load()
                self._note(process)
                continue
            try:
                owner.take(1)
            except ChangesMissing:
                self.owners.remove(owner)
                self.begin(owner.source.number, self.processes.index(process))
                return
            self._note(process)

    def take_joined(self, process: int, number: Number, count: int) -> None:
        """Let a process read a joined topic; one that finds changes missing begins again."""
        one = self.processes[process]
        for _ in range(count):
            try:
                one.take_joined(number, 1)
            except ChangesMissing:
                self.replace(process)
                return
            self._note(one)

    def _note(self, process: Process) -> None:
        for source, owner in process.owners.items():
            if not owner.partition.reader.is_loading:
                self.taken.setdefault((source, owner.position), process.taken_by(owner))

    # everything must add up

    def recomputed(self, partition: int, vector: Vector) -> dict[str, Body]:
        """Return the records of a partition of the view, by key text, of what the owners have taken."""
        rows = [
            row
            for source, position in vector.items()
            for row in self._rows(source, self.taken[source, position])
        ]
        return {
            key: body
            for key, body in self._recompute_rows(rows).items()
            if partition_of(key, self.partitions) == partition
        }

    def _rows(self, source: int, taken: Taken) -> Iterable[Row]:
        tables: dict[str, dict[str | None, Body]] = {name: {} for name in JOINED}
        for (name, _), position, model in zip(self.joined, taken.joined, self.joined.values(), strict=True):
            for seen in model.at(position).values():
                tables[name][key_text(seen.body[JOINED[name]])] = seen.body
        for key, seen in self.sources[source].at(taken.source).items():
            customer = tables[CUSTOMERS].get(key_text(seen.body["g"]))
            tier = None if customer is None else tables[TIERS].get(key_text(customer["tier"]))
            yield Row(key.decode(), seen.body, customer, tier)

    def bring_up_to_date(self) -> None:
        """Let a new process take and write everything."""
        self.owners = []
        self.processes = [self._new_process(), self._new_process()]
        for source in range(len(self.sources)):
            self.begin(source)
        for owner in list(self.owners):
            self.take(owner, owner.source.end + MESSAGES_MAX)
        for owner in self.owners:
            owner.flush(also_idle=True)
            for number in range(self.partitions):
                self.append(owner, number, len(owner.produced))

    def newest(self) -> Vector:
        """Return what the view reflects once it is up to date."""
        owners = [owner for owner in self.owners if isinstance(owner, JoinOwner)]
        return {owner.source.number: owner.position for owner in owners}
