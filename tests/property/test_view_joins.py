"""Joins of views: after any changes of both sides and of owners, the view equals a plain recomputation."""

from collections import Counter
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from materializer.core.applier import Applier
from materializer.core.checkpoint import Checkpoint
from materializer.store.memory import MemoryStore
from materializer.store.overlay import Overlay
from sowline.config.topics import TopicDefinition, parse_topics
from sowline.model.key import partition_of
from sowline.model.position import Position, before_the_log
from sowline.protocol.change import Change, Event, Progress
from sowline.protocol.changes_loader import LoadProgress, Phase
from sowline.protocol.command import PARTIALS, LogRecord
from sowline.protocol.partials import read_partials
from views.core import outgoing
from views.core.joins import JoinedTable
from views.core.outgoing import Outgoing
from views.core.source_partition import SourcePartition

TOPICS = parse_topics("""
topics:
  - {name: orders, key: /id, partitions: 2}
  - {name: customers, key: [/id, /desk]}
views:
  - {name: tiers, from: customers, grouping: [/tier], projection: [COUNT(1) AS /members]}
  - name: joined
    from: orders
    partitions: 2
    join:
      - {topic: customers, on: /customer = /id AND /desk = /desk, as: c}
      - {topic: tiers, on: /c/tier = /tier, as: t, kind: inner}
    grouping: [/c/tier, /t/members]
    projection: [COUNT(1) AS /orders, MAX(/qty) AS /largest]
  - name: labeled
    from: orders
    partitions: 1
    join: [{topic: customers, on: /customer = /id AND /desk = /desk, as: c}]
    projection: [/id, /c/tier AS /tier]
""")
VIEW = TOPICS.named("joined")
KEYS = ("1", 1, "2", None, True)
orders = st.fixed_dictionaries(
    {
        "id": st.integers(0, 5),
        "customer": st.sampled_from(KEYS),
        "desk": st.sampled_from(["a", "b"]),
        "qty": st.integers(0, 9),
    }
)
customers = st.fixed_dictionaries(
    {"id": st.sampled_from(["1", "2", True]), "desk": st.sampled_from(["a", "b"]), "tier": st.integers(0, 1)}
)
tiers = st.fixed_dictionaries({"tier": st.integers(0, 1), "members": st.integers(0, 2)})
steps = st.one_of(
    st.tuples(st.just("orders"), orders, st.booleans()),
    st.tuples(st.just("customers"), customers, st.booleans()),
    st.tuples(st.just("tiers"), tiers, st.booleans()),
    st.tuples(st.just("owner"), st.integers(0, 1), st.booleans()),
    st.tuples(st.just("flush"), st.none(), st.booleans()),
)


class Side:
    """The records of one topic, and the changes that were made."""

    def __init__(self, topic: TopicDefinition) -> None:
        self.topic = topic
        self.records: dict[str, dict[str, Any]] = {}
        self._held: dict[str, Change] = {}
        self._positions = [before_the_log() for _ in range(topic.partitions)]

    def text_of(self, record: dict[str, Any]) -> str:
        """Return the key text of a record."""
        if self.topic.view is not None:
            return orjson.dumps([record["tier"]]).decode()
        return self.topic.key_rule.given(record, None) or ""

    def change(self, record: dict[str, Any], *, is_deleted: bool) -> tuple[int, Change] | None:
        """Publish or delete a record; return the change and its partition, None if there is nothing to delete."""
        text = self.text_of(record)
        held = self._held.pop(text, None)
        if is_deleted and held is None:
            return None
        number = partition_of(text, self.topic.partitions)
        after = self._positions[number]
        self._positions[number] = position = Position(0, after.offset + 1)
        change = Change(
            sow_key=self.topic.key_rule.sow_key(text),
            body=None if is_deleted else orjson.dumps(record),
            previous=None if held is None else held.body,
            position=position,
            after=after,
            op="publish",
            time=position.offset,
        )
        self.records.pop(text, None)
        if not is_deleted:
            self._held[text] = change
            self.records[text] = record
        return number, change

    def live(self, number: int) -> list[Change]:
        """Return the newest changes of a partition's records."""
        texts = [text for text in self._held if partition_of(text, self.topic.partitions) == number]
        return [self._held[text] for text in texts]

    def progress(self, number: int) -> Progress:
        """Return a progress event that makes a load of these changes whole."""
        at = self._positions[number]
        return Progress(at, at, 0, {}, "", "", 0, {})


class Joins:
    """Owners of the source's partitions, and the log of the view that they write."""

    def __init__(self, view: TopicDefinition = VIEW) -> None:
        self.view = view
        self.sides = {name: Side(TOPICS.named(name)) for name in ("orders", "customers", "tiers")}
        assert view.view is not None
        self.tables = [JoinedTable(join, TOPICS.named(join.topic)) for join in view.view.joins]
        self.log: list[list[bytes]] = [[] for _ in range(view.partitions)]
        self.generations = [0, 0]
        self.owners = [self.owner(number) for number in range(2)]

    def write(self, messages: Any) -> None:
        """Append messages to the log."""
        for partition, message in map(Outgoing._make, messages):
            self.log[partition].append(message.encode())

    def owner(self, number: int) -> SourcePartition:
        """Return a new owner of a partition, which has written its snapshot."""
        self.generations[number] += 1
        progress = LoadProgress("", 1)
        progress.aim(0, 0)
        owner = SourcePartition(self.view, number, 2, "", progress, self.tables, self.generations[number])
        events: list[Event] = [*self.sides["orders"].live(number), self.sides["orders"].progress(number)]
        for event in events:
            owner.take(event, 0)
        assert owner.load is not None
        assert owner.load.phase(0) is Phase.COMPLETE
        owner.end_load()
        while owner.is_sending_snapshot:
            self.write(owner.snapshot(1))
        return owner

    def step(self, kind: str, given: Any, *, is_deleted: bool) -> None:
        """Take one step."""
        if kind == "owner":
            late, self.owners[given] = self.owners[given], self.owner(given)
            if is_deleted:  # the owner that has lost the partition still writes
                self.write(late.flush(also_idle=True))
        elif kind == "flush":
            for owner in self.owners:
                self.write(owner.flush(also_idle=is_deleted))
        elif (made := self.sides[kind].change(given, is_deleted=is_deleted)) is not None:
            number, change = made
            if kind == "orders":
                self.write(self.owners[number].take(change, 0))
            for table in self.tables:
                if table.join.topic == kind:
                    taken_out = [(owner, owner.take_out(table, change.sow_key)) for owner in self.owners]
                    table.put(change)
                    for owner, records in taken_out:
                        self.write(owner.take_in(records))

    def shown(self) -> list[dict[str, Any]]:
        """Return the records of the view, by its log."""
        found: list[dict[str, Any]] = []
        for number, messages in enumerate(self.log):
            overlay = Overlay(MemoryStore())
            applier = Applier(self.view, number, Checkpoint(), overlay)
            headers = [("sow.command", PARTIALS.encode())]
            step = applier.apply(
                [LogRecord(offset, 0, None, value, headers) for offset, value in enumerate(messages)]  # type: ignore[arg-type]
            )
            assert not step.dead
            found += [orjson.loads(record.body or b"") for _, record in overlay.scan()]
        return sorted(found, key=str)

    def expected(self) -> list[dict[str, Any]]:
        """Return the groups, computed from all records."""
        counts: Counter[tuple[Any, Any]] = Counter()
        largest: dict[tuple[Any, Any], int] = {}
        by_text = {(str_of(one["id"]), one["desk"]): one for one in self.sides["customers"].records.values()}
        by_tier = {one["tier"]: one for one in self.sides["tiers"].records.values()}
        for order in self.sides["orders"].records.values():
            customer = by_text.get((str_of(order["customer"]), order["desk"]), {})
            tier = by_tier.get(customer.get("tier"))
            if tier is not None:
                group = customer.get("tier"), tier["members"]
                counts[group] += 1
                largest[group] = max(order["qty"], largest.get(group, 0))
        return sorted(
            (
                {
                    "c": {"tier": tier},
                    "t": {"members": members},
                    "orders": orders,
                    "largest": largest[tier, members],
                }
                for (tier, members), orders in counts.items()
            ),
            key=str,
        )


def str_of(value: Any) -> str | None:
    """Return the text of a key field's value; None for what is no key."""
    return "true" if value is True else None if value is None else str(value)


@settings(max_examples=50, deadline=None)
@given(st.lists(steps, min_size=1, max_size=8) | st.lists(steps, min_size=60, max_size=120))
def test_joins_equal_a_recomputation(taken: list[tuple[str, Any, bool]]) -> None:
    """Rows that change groups or join keys, joined records that come and go, joins of joins, and late owners."""
    joins = Joins()
    for kind, given_, is_deleted in taken:
        joins.step(kind, given_, is_deleted=is_deleted)
    for owner in joins.owners:
        joins.write(owner.flush(also_idle=True))
    assert joins.shown() == joins.expected()


def test_a_joined_record_of_many_goes_out_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step is a message of bounded size. Only the last one moves what the view reflects."""
    monkeypatch.setattr(outgoing, "STATES_MAX", 4)
    joins = Joins(TOPICS.named("labeled"))
    for id in range(30):
        order = {"id": id, "customer": "1", "desk": "a", "qty": 0}
        joins.step("orders", order, is_deleted=False)
    for owner in joins.owners:
        joins.write(owner.flush(also_idle=True))
    before = len(joins.log[0])
    joins.step("customers", {"id": "1", "desk": "a", "tier": 7}, is_deleted=False)
    steps = [read_partials(message) for message in joins.log[0][before:]]
    assert all(len(step.states) <= 4 for step in steps)
    assert sum(len(step.states) for step in steps) == 30
    assert sum(step.ends for step in steps) == 2, "of two source partitions"
    assert joins.shown() == sorted(({"id": id, "tier": 7} for id in range(30)), key=str)
