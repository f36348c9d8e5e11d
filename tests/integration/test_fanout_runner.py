"""A configured subscription on a Kafka topic of its own: the SOW first, then every change, at least once."""

import json
import random
import uuid
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from confluent_kafka import Message

from tests.integration.load import Publishers, model_of, new_seed, write_marks
from tests.integration.model import Body, Model, Position, Sent
from tests.integration.services import Service, System, headers_of, positions_of, system, wait_for

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
    """Read a message, which names its record and its place as frames do."""
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
    publisher.sow_delete(fanout.topic, data={"id": 5})
    publisher.flush()
    outputs = fanout.wait_for(write_marks(fanout.system, fanout.query.url, fanout.topic))
    assert outputs == without_repeats(outputs)
    selected = fanout.system.topics.fanouts[1].output
    wait_for(lambda: len(fanout.system.read(selected)) == len(outputs), "the other fanout to be done")
    bodies = [json.loads(message.value() or b"") for message in fanout.system.read(selected)]
    assert {body["id"] for body in bodies} == {output.body["id"] for output in outputs}
    assert {name for body in bodies for name in body} == {"id"}
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
            message.key(),  # type: ignore[arg-type]
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
    told = {(about["command"], about.get("reason")) for about in late if "bookmark" in about}
    assert told == {("oof", "match"), ("oof", "deleted"), ("sow", None)}
