"""Topics without a SOW: each message is passed on, nothing is kept, and what happened is not told twice."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from sowline.changes.change import Change
from sowline.client.publisher import Publisher
from sowline.config.declared_topic import NEEDS_SOW
from sowline.config.topic_definition import define_topic
from sowline.config.topics import parse_topics
from sowline.errors import SowlineError
from sowline.model.limits import Limits, define_value
from sowline.model.position import Position
from sowline_materializer.core.step import Step
from sowline_materializer.store.integrity import survey
from tests.property.world import World, changes_of
from tests.unit.materializer.core.test_applier import Core, only, reasons
from tests.unit.sowline.client.test_publisher import FakeProducer

WITHOUT = define_topic(name="ticks", sow="false", partitions=2)


class Stream(Core):
    """Partition 0 of a topic without a SOW."""

    def __init__(self, **given: Any) -> None:
        super().__init__()
        self.definition = define_topic(**{"name": "ticks", "sow": False, "partitions": 2, **given})


# the definition


def test_a_topic_without_a_sow_has_no_key() -> None:
    """Nor anything else that is about records; the rest is as in any topic."""
    (topic,) = parse_topics(
        "topics: [{name: ticks, sow: false, partitions: 3, record_bytes_max: 100}]"
    ).topics
    assert (topic.has_sow, topic.declared.key, topic.log, topic.changes) == (
        False,
        (),
        "ticks",
        "ticks.changes",
    )
    assert define_topic(name="a", key="/id").has_sow
    assert topic.digest != define_topic(name="ticks", key="/id", partitions=3).digest


UNFIT = {
    "key": "/id",
    "key_domain": "x",
    "expiration": "1s",
    "durability": "transient",
    "recovery_point": "epoch",
    "preprocessing": ["1 AS /a"],
    "enrichment": ["1 AS /a"],
    "delta": True,
    "records_max": 5,
    "repeat_window": "1d",
    "history": {"window": "1h"},
    "documents": True,
    "template": {"type": "x"},
    "history_ttl": "1d",
    "indexes": ["/a"],
    "hash_indexes": [["/a"]],
}


@pytest.mark.parametrize("name", NEEDS_SOW)
def test_options_about_records_are_refused_without_a_sow(name: str) -> None:
    """With a sentence that names it."""
    with pytest.raises(ValueError, match=f"with sow: false, got {name}"):
        define_topic(**{"name": "ticks", "sow": False, name: UNFIT[name]})


# the core


@pytest.mark.parametrize("command", [None, "publish", "delta_publish"])
def test_each_message_is_a_change(command: str | None) -> None:
    """A delta, too, is taken as it stands; the key is the message's place, for it has no other."""
    stream = Stream()
    for _ in range(2):
        change = only(stream.write(b'{ "a": 1 }', command, correlation="c").changes)
        assert (change.body, change.previous, change.op) == (b'{ "a": 1 }', None, "publish")
        assert (change.correlation, change.expires, change.numbers) == ("c", None, None)
    assert (change.sow_key, change.position, change.after) == (b"0@1", Position(0, 1), Position(0, 0))
    assert (list(stream.store.scan()), stream.checkpoint.records) == ([], 0)


def test_nothing_is_misplaced_and_nothing_is_a_repeat() -> None:
    """Whatever partition a message lies in, and whatever number it has."""
    stream = Stream()
    steps: list[Step] = [
        stream.write({"id": n % 2}, publisher="p", sequence="1", key=b"%d" % n) for n in range(6)
    ]
    assert [len(step.changes) for step in steps] == [1] * 6
    assert [step.forwards for step in steps] == [[]] * 6


@pytest.mark.parametrize(
    ("value", "headers"),
    [
        (None, {}),
        (None, {"command": "sow_delete", "filter": "1=1"}),
        (None, {"command": "sow_delete", "keys": "1"}),
        (b'{"id":1}', {"command": "sow_delete"}),
        (None, {"command": "expire", "guard": "0"}),
    ],
)
def test_what_is_about_a_record_is_refused(value: bytes | None, headers: dict[str, str]) -> None:
    """And not forwarded either."""
    step = Stream().write(value, key=b"1", **headers)
    assert (reasons(step), step.changes, step.forwards) == (["no sow"], [], [])


def test_malformed_messages_are_refused() -> None:
    """As in any topic."""
    stream = Stream(record_bytes_max=64)
    stream.checkpoint = stream.checkpoint.__class__(limits=stream.definition.limits)
    assert reasons(stream.write(b"{")) == ["not json"]
    assert reasons(stream.write(b"[1]")) == ["not an object"]
    assert reasons(stream.write({"a": "x" * 64})) == ["too large"]
    stream.write(define_value(stream.checkpoint.limits, Limits(record_bytes_max=200)), "define")
    assert reasons(stream.write({"a": "x" * 64})) == []


# recovery


@pytest.fixture
def world() -> Iterator[World]:
    """A world with a topic without a SOW, and some messages."""
    world = World(define_topic(name="ticks", sow=False))
    with ExitStack() as stack:
        for entered in world.patched():
            stack.enter_context(entered)
        for number in range(4):
            world.write(0, b'{"n":%d}' % number, None, [])
        world.write(0, b"{", None, [])
        world.drain(2)
        yield world


def written_changes(world: World) -> list[tuple[Position, bytes | None]]:
    """Return the changes that were ever written, in their order."""
    return [(event.position, event.body) for _, event in changes_of(world.changes[0].history)]


@pytest.mark.parametrize(
    "recovery_source", ["restart", "lost", "damaged", "replaced", "shortened", "changes only"]
)
def test_every_recovery_source_goes_on_where_it_was(world: World, recovery_source: str) -> None:
    """No change is written twice, and none is left out."""
    before = world.owner(0).checkpoint
    world.crash(0)
    if recovery_source in ("lost", "shortened", "changes only"):
        world.disk.clear()
    elif recovery_source == "damaged":
        world.disk[Path("0")]["_entries"][b"1"] = b"x"
    held = world.changes[0].held
    if recovery_source == "replaced":
        world.changes[0].replace()
    elif recovery_source == "shortened":
        world.changes[0].held = held[-2:]
    elif recovery_source == "changes only":
        world.changes[0].held = [message for message in held if isinstance(message.event, Change)][2:]
    partition = world.owner(0)
    assert survey(world.store(0)).checksum.entries == 0
    if recovery_source == "changes only":
        assert partition.checkpoint.position == Position(0, 3)
    else:
        assert (partition.checkpoint.position, partition.checkpoint.last_change) == (
            before.position,
            before.last_change,
        )
    world.write(0, b'{"n":9}', None, [])
    world.drain()
    assert written_changes(world) == [(Position(0, n), b'{"n":%d}' % n) for n in range(4)] + [
        (Position(0, 5), b'{"n":9}')
    ]


def test_with_everything_lost_the_log_is_sent_again_as_it_was(world: World) -> None:
    """The same changes at the same positions: a reader that has seen them drops them."""
    world.crash(0)
    world.disk.clear()
    world.changes[0].replace()
    world.owner(0)
    world.drain()
    assert written_changes(world) == [(Position(0, n), b'{"n":%d}' % n) for n in range(4)] * 2


def test_stale_owner_events_need_no_repair(world: World) -> None:
    """Followers drop them by their position, and there is no compaction that could keep the wrong one."""
    old = next(event for _, event in changes_of(world.changes[0].history))
    world.changes[0].append(old)
    world.write(0, b'{"n":9}', None, [])
    world.drain()
    assert [body for _, body in written_changes(world)].count(b'{"n":0}') == 2
    assert world.owner(0).checkpoint.stale_keys == frozenset()


# the publisher


def test_a_message_has_no_kafka_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any partition is right; what is about records is refused before it is written."""
    producer = FakeProducer()
    monkeypatch.setattr("sowline.client.publisher.exact_producer", lambda *_, **__: producer)
    publisher = Publisher({}, parse_topics("topics: [{name: ticks, sow: false}]"))
    publisher.publish("ticks", {"a": 1})
    publisher.delta_publish("ticks", {"a": 1})
    assert [(value, key) for _, value, key, _ in producer.produced] == [(b'{"a":1}', None)] * 2
    with pytest.raises(SowlineError) as error:
        publisher.sow_delete("ticks", filter="1=1")
    assert error.value.reason == "no sow"
    with pytest.raises(SowlineError):
        publisher.publish("ticks", b"[1]")
