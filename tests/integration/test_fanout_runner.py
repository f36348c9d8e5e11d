"""A configured subscription on a Kafka topic of its own: the SOW first, then every change, at least once."""

import json
import random
import threading
import uuid
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Message
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from sowline.changes.change import REMOVED_BYTES_MAX
from sowline.config.settings import read_settings
from sowline_fanout.runner import FanoutRunner
from tests.integration.load import KEYS, Publishers, model_of, new_seed, write_marks
from tests.integration.model import Body, Model, Position, Sent
from tests.integration.positions import positions_of
from tests.integration.services import (
    SESSION_MS,
    Service,
    System,
    headers_of,
    http_status,
    system,
)
from tests.integration.test_change_deltas import merge_into, take_out
from tests.waiting import wait_for

FILTER = "/region = 'north'"
PARTITIONS = 2
KILLS = 3


class Output(NamedTuple):
    """One message of a fanout's topic."""

    partition: int
    key: str
    position: Position
    after: Position
    command: str
    body: Body
    reason: str | None


class Fanout:
    """A system with a fanout, which is not started yet."""

    def __init__(self, made: System) -> None:
        self.system = made
        self.topic = made.topics.topics[0].name
        self.output = made.topics.fanouts[0].output
        self.materializer = made.service("materializer").start().wait_ready()
        self.query = made.service("query_service").start().wait_ready()
        self.fanout: Service = made.service("fanout")

    def outputs(self) -> list[Output]:
        """Return what was written, in order."""
        return [output_of(message, self.topic) for message in self.system.read(self.output)]

    def count(self) -> int:
        """Return how many messages were written."""
        return sum(self.system.cluster.ends(self.output, range(PARTITIONS)).values())

    def wait_for(self, marks: dict[int, Position]) -> list[Output]:
        """Wait until the last record of every partition was written, and return everything."""

        def found() -> list[Output]:
            outputs = self.outputs()
            newest = {output.partition: output.position for output in outputs}
            return outputs if newest == marks else []

        return wait_for(found, "the fanout to be done")


def output_of(message: Message, topic: str) -> Output:
    """Read a message, which names its record and its position as frames do."""
    about = json.loads(headers_of(message)["sow"])
    ((partition, position),) = positions_of(about["bookmark"]).items()
    ((same, after),) = positions_of(about["after"]).items()
    key, body = message.key(), json.loads(message.value() or b"")
    assert isinstance(key, bytes)
    assert partition == same == message.partition()
    assert about["topic"] == topic
    assert about["sow_key"] == key.decode()
    return Output(partition, key.decode(), position, after, about["command"], body, about.get("reason"))


def without_repeats(outputs: list[Output]) -> list[Output]:
    """Drop what is not newer than what came before it in its partition."""
    held: dict[int, Position] = {}
    kept = []
    for output in outputs:
        if output.position > held.get(output.partition, (-1, 0)):
            held[output.partition] = output.position
            kept.append(output)
    return kept


@pytest.fixture
def fanout(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fanout]:
    """A system of the test's own."""
    name = f"t{uuid.uuid4().hex[:12]}-source"
    topics = [{"name": name, "key": ["/id"], "partitions": PARTITIONS}]
    late = {"name": f"{name}-late", "topic": name, "filter": FILTER, "options": "oof"}
    fanouts = [late, late | {"name": f"{name}-ids", "options": "oof,select=[-/,+/id]"}]
    with system(kafka, tmp_path_factory.mktemp("fanout"), topics, fanouts) as made:
        yield Fanout(made)


@pytest.fixture
def delta_fanout(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fanout]:
    """A system whose fanouts write deltas: one with all that happens, one with some fields only."""
    name = f"t{uuid.uuid4().hex[:12]}-told"
    topics = [{"name": name, "key": ["/id"], "partitions": PARTITIONS}]
    every: dict[str, Any] = {"name": f"{name}-every", "topic": name, "filter": FILTER, "delta": True}
    some = {"name": f"{name}-some", "options": "oof,no_empties,timestamp,select=[-/more/text,-/qty]"}
    fanouts = [every | {"options": "oof"}, every | some]
    with system(kafka, tmp_path_factory.mktemp("delta_fanout"), topics, fanouts) as made:
        yield Fanout(made)


def check(outputs: list[Output], model: Model) -> None:
    """Compare with the model: the view that a reader builds, and every message after the SOW."""
    view: dict[str, Body] = {}
    live: dict[int, list[Sent]] = {partition: [] for partition in range(PARTITIONS)}
    for output in without_repeats(outputs):
        if output.command == "oof":
            del view[output.key]
        else:
            view[output.key] = output.body
        if output.command == "sow":
            assert not live[output.partition], "the SOW comes first"
        else:
            live[output.partition].append(Sent(output.position, output.command, output.key, *output[5:]))
    assert view == model.sow(FILTER)
    for partition, messages in live.items():
        offset, nth = messages[0].position
        start = {partition: (offset, nth - 1)}
        assert messages == model.messages(FILTER, True, start, {partition: messages[-1].position})[partition]


def test_fanout(fanout: Fanout) -> None:
    """A new fanout begins with the records that match, each once, and goes on with what happens to them."""
    fanout.system.write(fanout.topic, *({"id": n % 10, "region": "north", "qty": n} for n in range(40)))
    fanout.system.write(fanout.topic, {"id": 3, "region": "south"})
    fanout.system.wait_settled(fanout.query.url, fanout.topic)
    fanout.fanout.start().wait_ready()
    wait_for(lambda: fanout.count() == 9, "the SOW to be written")
    assert {output.command for output in fanout.outputs()} == {"sow"}
    fanout.system.write(fanout.topic, {"id": 4, "region": "east"}, {"id": 3, "region": "north"})
    publisher = fanout.system.publisher()
    publisher.sow_delete(fanout.topic, data={"id": 5}, correlation="gone")
    publisher.flush()
    outputs = fanout.wait_for(write_marks(fanout.system, fanout.query.url, fanout.topic))
    assert outputs == without_repeats(outputs)
    selected = fanout.system.topics.fanouts[1].output
    wait_for(lambda: len(fanout.system.read(selected)) == len(outputs), "the other fanout to be done")
    bodies = [json.loads(message.value() or b"") for message in fanout.system.read(selected)]
    assert {body["id"] for body in bodies} == {output.body["id"] for output in outputs}
    assert {name for body in bodies for name in body} == {"id"}
    abouts = [json.loads(headers_of(message)["sow"]) for message in fanout.system.read(fanout.output)]
    assert [(of["command"], of["correlation_id"]) for of in abouts if "correlation_id" in of] == [
        ("oof", "gone")
    ]
    check(outputs, model_of(fanout.system, fanout.topic))


def test_killed_fanout(fanout: Fanout) -> None:
    """A fanout that is killed under load repeats messages at most, which their bookmarks tell."""
    seed = new_seed()
    dice = random.Random(seed)
    fanout.fanout.start().wait_ready()
    with Publishers(fanout.system, fanout.topic, seed, count=2):
        for _ in range(KILLS):
            goal = fanout.count() + dice.randrange(50, 300)
            wait_for(lambda goal=goal: fanout.count() >= goal, "the fanout to move on")
            fanout.fanout.kill()
            fanout.fanout.start()
        goal = fanout.count() + 1
        wait_for(lambda: fanout.count() >= goal, "the fanout to move on")
    outputs = fanout.wait_for(write_marks(fanout.system, fanout.query.url, fanout.topic))
    check(outputs, model_of(fanout.system, fanout.topic))


def test_load_that_was_cut_short(fanout: Fanout) -> None:
    """What a load has written before it was killed, and has stopped to match since, goes out of focus."""
    fanout.system.write(fanout.topic, {"id": 1, "region": "north"}, {"id": 2, "region": "north"})
    fanout.system.wait_settled(fanout.query.url, fanout.topic)
    written = [message for message in fanout.system.read(f"{fanout.topic}.changes") if message.value()]
    records = [message for message in written if headers_of(message).get("sow")]
    for message in records:
        fanout.system.produce(
            fanout.output,
            message.value(),
            message.key(),
            message.partition() or 0,
            [("sow", json.dumps({"command": "sow"}).encode())],
        )
    fanout.system.write(fanout.topic, {"id": 1, "region": "south"})
    publisher = fanout.system.publisher()
    publisher.sow_delete(fanout.topic, data={"id": 2})
    publisher.flush()
    fanout.system.write(fanout.topic, {"id": 3, "region": "north"})
    fanout.system.wait_settled(fanout.query.url, fanout.topic)
    before = fanout.count()
    fanout.fanout.start().wait_ready()
    wait_for(lambda: fanout.count() == before + 3, "the load to be done")
    late = [json.loads(headers_of(message)["sow"]) for message in fanout.system.read(fanout.output)]
    kinds = {(about["command"], about.get("reason")) for about in late if "bookmark" in about}
    assert kinds == {("oof", "match"), ("oof", "deleted"), ("sow", None)}


def test_load_over_records_that_left_no_trace(fanout: Fanout) -> None:
    """What was written and is nowhere any more goes out of focus, as the reader has it, and is never a repeat."""
    messages = [
        (b"1", b'{"id":1,"a":{"b":1,"c":2}}', {"command": "sow"}),
        (b"2", b'{"id":2}', {"command": "sow"}),
        (b"1", b'{"id":1,"a":{"b":2}}', {"command": "publish", "delta": True, "removed": ["/a/c"]}),
    ]
    for key, value, about in messages:
        fanout.system.produce(fanout.output, value, key, 0, [("sow", json.dumps(about).encode())])
    fanout.fanout.start().wait_ready()
    wait_for(lambda: fanout.count() == 5, "the load to be done")
    left = fanout.system.read(fanout.output)[3:]
    assert [message.value() for message in left] == [b'{"id":1,"a":{"b":2}}', b'{"id":2}']
    for about in (json.loads(headers_of(message)["sow"]) for message in left):
        assert (about["command"], about["reason"], "bookmark" in about) == ("oof", "deleted", False)


def test_load_in_steps(fanout: Fanout, monkeypatch: pytest.MonkeyPatch) -> None:
    """A load that takes many polls leaves nothing out of what is written meanwhile."""
    monkeypatch.setattr("sowline_fanout.runner.LOAD_STEP", 2)
    made = fanout.system
    settings = read_settings(kafka=made.kafka, group=made.group, session_timeout_ms=SESSION_MS)
    stop = threading.Event()
    runner = FanoutRunner(settings, made.topics.fanouts[0], made.topics.topics[0], stop)
    running = threading.Thread(target=runner.run)
    kept = [{"id": KEYS + n, "region": "north"} for n in range(20)]
    made.write(fanout.topic, *kept)
    made.wait_settled(fanout.query.url, fanout.topic)
    with Publishers(made, fanout.topic, new_seed(), count=2) as publishers:
        wait_for(lambda: publishers.written >= 500, "a state to load")
        running.start()
        wait_for(lambda: fanout.count() >= 200, "the fanout to move on")
    try:
        outputs = fanout.wait_for(write_marks(made, fanout.query.url, fanout.topic))
    finally:
        stop.set()
        running.join()
    check(outputs, model_of(made, fanout.topic))
    assert sum(output.command == "sow" for output in outputs) >= len(kept), "ten steps"


class Copy:
    """The records that a plain consumer of a fanout holds, which does what the documentation says."""

    def __init__(self) -> None:
        self.records: dict[str, Body] = {}
        self.positions: dict[int, Position] = {}
        self.kinds = {"sow": 0, "publish": 0, "oof": 0, "delta": 0, "removed": 0, "empty": 0}
        self.repeats = 0

    def take(self, message: Message) -> None:
        """Apply the next message of its partition."""
        about, body = json.loads(headers_of(message)["sow"]), json.loads(message.value() or b"")
        if "bookmark" in about:
            ((partition, position),) = positions_of(about["bookmark"]).items()
            if position <= self.positions.get(partition, (-1, 0)):
                self.repeats += 1
                return
            self.positions[partition] = position
        key = about["sow_key"]
        self.kinds[about["command"]] += 1
        if about["command"] == "oof":
            self.records.pop(key)
        elif about.get("delta"):
            self.kinds["delta"] += 1
            self.kinds["removed"] += "removed" in about
            self.kinds["empty"] += body.keys() == {"id"} and "removed" not in about
            merge_into(self.records[key], body)
            for path in about.get("removed", ()):
                take_out(self.records[key], path)
        else:
            self.records[key] = body


def copy_of(fanout: Fanout, number: int) -> Copy:
    """Read a fanout's topic from its beginning."""
    copy = Copy()
    for message in fanout.system.read(fanout.system.topics.fanouts[number].output):
        copy.take(message)
    return copy


def selected(body: Body) -> Body:
    """Return what the second fanout's select list leaves of a body."""
    more = {name: value for name, value in body.get("more", {}).items() if name != "text"}
    rest = {name: value for name, value in body.items() if name not in ("qty", "more")}
    return rest | ({"more": more} if more else {})


def messages_of(fanout: Fanout, number: int) -> list[tuple[str, Body, dict[str, Any]]]:
    """Return the messages of a fanout: command, value, and what says that it is a delta, or why it went."""
    found = []
    for message in fanout.system.read(fanout.system.topics.fanouts[number].output):
        about = json.loads(headers_of(message)["sow"])
        more = {name: about[name] for name in ("reason", "delta", "removed") if name in about}
        found.append((about["command"], json.loads(message.value() or b""), more))
    return found


def test_deltas(delta_fanout: Fanout) -> None:
    """What was there is written whole; what readers hold is told as the key and what has changed."""
    inner = {"level": 1, "text": "a"}
    delta_fanout.system.write(delta_fanout.topic, {"id": 1, "region": "north", "more": inner})
    delta_fanout.system.wait_settled(delta_fanout.query.url, delta_fanout.topic)
    delta_fanout.fanout.start().wait_ready()
    wait_for(lambda: delta_fanout.count() == 1, "the SOW to be written")
    delta_fanout.system.write(
        delta_fanout.topic,
        {"id": 1, "region": "north", "more": inner, "qty": 5},
        {"id": 1, "region": "north", "more": {"text": "a"}, "qty": 5},
        {"id": 1, "region": "north", "more": {"text": "b"}, "qty": 5},
        {"id": 1, "region": "north", "more": {"text": "b"}, "qty": 5},
        {"id": 1, "region": "south", "qty": 6},
        {"id": 1, "region": "south", "qty": 7},
        {"id": 1, "region": "north", "qty": 8},
        {"id": 1, "region": "north"},
    )
    publisher = delta_fanout.system.publisher()
    publisher.sow_delete(delta_fanout.topic, data={"id": 1})
    long = "x" * REMOVED_BYTES_MAX
    for more in ({}, {long: 1}, {}):
        publisher.publish(delta_fanout.topic, {"id": 1, "region": "north"} | more)
    publisher.flush()
    wait_for(lambda: delta_fanout.count() == 12, "the changes to be written")
    is_delta = {"delta": True}
    assert messages_of(delta_fanout, 0) == [
        ("sow", {"id": 1, "region": "north", "more": inner}, {}),
        ("publish", {"id": 1, "qty": 5}, is_delta),
        ("publish", {"id": 1}, is_delta | {"removed": ["/more/level"]}),
        ("publish", {"id": 1, "more": {"text": "b"}}, is_delta),
        ("publish", {"id": 1}, is_delta),
        ("oof", {"id": 1, "region": "south", "qty": 6}, {"reason": "match"}),
        ("publish", {"id": 1, "region": "north", "qty": 8}, {}),
        ("publish", {"id": 1}, is_delta | {"removed": ["/qty"]}),
        ("oof", {"id": 1, "region": "north"}, {"reason": "deleted"}),
        ("publish", {"id": 1, "region": "north"}, {}),
        ("publish", {"id": 1, long: 1}, is_delta),
        ("publish", {"id": 1, "region": "north"}, {}),
    ]
    wait_for(lambda: len(messages_of(delta_fanout, 1)) == 8, "the other fanout to be done")
    assert messages_of(delta_fanout, 1) == [
        ("sow", {"id": 1, "region": "north", "more": {"level": 1}}, {}),
        ("publish", {"id": 1}, is_delta | {"removed": ["/more"]}),
        ("oof", {"id": 1, "region": "south"}, {"reason": "match"}),
        ("publish", {"id": 1, "region": "north"}, {}),
        ("oof", {"id": 1, "region": "north"}, {"reason": "deleted"}),
        ("publish", {"id": 1, "region": "north"}, {}),
        ("publish", {"id": 1, long: 1}, is_delta),
        ("publish", {"id": 1, "region": "north"}, {}),
    ]


def test_killed_fanout_with_deltas(delta_fanout: Fanout) -> None:
    """A plain consumer that follows the rules ends with the records, however often the fanout was killed."""
    seed = new_seed()
    dice = random.Random(seed)
    with Publishers(delta_fanout.system, delta_fanout.topic, seed, count=2) as publishers:
        wait_for(lambda: publishers.written > 200, "records to be there")
        delta_fanout.fanout.start().wait_ready()
        for _ in range(KILLS):
            bare = ({"id": dice.randrange(KEYS), "region": "north", "qty": n} for n in range(KEYS))
            delta_fanout.system.write(delta_fanout.topic, *bare)
            goal = delta_fanout.count() + dice.randrange(50, 300)
            wait_for(lambda goal=goal: delta_fanout.count() >= goal, "the fanout to move on")
            delta_fanout.fanout.kill()
            delta_fanout.fanout.start()
        goal = delta_fanout.count() + 1
        wait_for(lambda: delta_fanout.count() >= goal, "the fanout to move on")
    marks = write_marks(delta_fanout.system, delta_fanout.query.url, delta_fanout.topic)
    wait_for(
        lambda: all(copy_of(delta_fanout, number).positions == marks for number in (0, 1)),
        "the fanouts to be done",
    )
    every, some = copy_of(delta_fanout, 0), copy_of(delta_fanout, 1)
    held = model_of(delta_fanout.system, delta_fanout.topic).sow(FILTER)
    assert every.records == held
    assert some.records == {key: selected(body) for key, body in held.items()}
    assert all(every.kinds.values()), every.kinds
    assert some.kinds["delta"] < every.kinds["delta"]
    assert some.kinds["empty"] == 0


def test_switched_deltas(delta_fanout: Fanout) -> None:
    """Deltas may come and go, for readers hold the same records; with another filter they would not."""
    delta_fanout.system.write(delta_fanout.topic, {"id": 1, "region": "north"})
    delta_fanout.system.wait_settled(delta_fanout.query.url, delta_fanout.topic)
    text = delta_fanout.system.config.read_text()
    for number, switch in enumerate(("false", "true")):
        delta_fanout.system.config.write_text(text.replace("delta: true", f"delta: {switch}", 1))
        delta_fanout.fanout.start().wait_ready()
        wait_for(lambda: copy_of(delta_fanout, 0).kinds["sow"], "the load to be done")
        delta_fanout.system.write(
            delta_fanout.topic, *({"id": 1, "region": "north", "qty": 2 * number + n} for n in range(2))
        )
        wait_for(
            lambda most=2 * number + 1: copy_of(delta_fanout, 0).kinds["publish"] > most,
            "the changes to be written",
        )
        delta_fanout.fanout.stop()
    delta_fanout.system.config.write_text(text.replace("north", "south"))
    delta_fanout.fanout.start()
    wait_for(lambda: "expected the filter, select list" in delta_fanout.fanout.log, "the fanout to stop")
    assert http_status(f"{delta_fanout.fanout.url}/readyz") == 503
    copy = copy_of(delta_fanout, 0)
    assert copy.records == model_of(delta_fanout.system, delta_fanout.topic).sow(FILTER)
    assert copy.kinds["delta"] == 2


def test_deltas_are_never_compacted(delta_fanout: Fanout) -> None:
    """The last delta of a record is not the record: where they are written, everything is kept."""
    admin = AdminClient({"bootstrap.servers": delta_fanout.system.kafka})
    compact = [ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)]
    change = ConfigResource(ResourceType.TOPIC, delta_fanout.output, incremental_configs=compact)
    admin.incremental_alter_configs([change])[change].result()
    delta_fanout.fanout.start().wait_ready()
    topic = ConfigResource(ResourceType.TOPIC, delta_fanout.output)
    settings = admin.describe_configs([topic])[topic].result()
    assert settings["cleanup.policy"].value == "delete"
    assert {settings[name].value for name in ("retention.ms", "retention.bytes")} == {"-1"}
