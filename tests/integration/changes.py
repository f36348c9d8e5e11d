"""A changes topic as a plain consumer finds it, and the rules that its events keep."""

import json
from typing import Any, NamedTuple

from confluent_kafka import Message

from tests.integration.model import Body, Model, Position
from tests.integration.positions import position_of
from tests.integration.services import System, headers_of

PROGRESS = (b"\0progress", b"\0catch-up")


class Event(NamedTuple):
    """One change as it lies on the topic."""

    partition: int
    sow_key: str
    body: Body | None
    previous: Body | None
    about: dict[str, Any]

    @property
    def position(self) -> Position:
        """Its own position."""
        return position_of(self.about["position"])

    @property
    def after(self) -> Position:
        """The position of the change before it."""
        return position_of(self.about["after"])


def read_changes(system: System, topic: str) -> tuple[list[Event], list[dict[str, Any]]]:
    """Return the changes and the progress events of a topic; these get their `partition` as a field."""
    changes, progress = [], []
    for message in system.read(system.topic(topic).changes):
        if message.key() in PROGRESS:
            progress.append({"partition": message.partition(), **json.loads(message.value() or b"")})
        else:
            changes.append(_event(message))
    return changes, progress


def _event(message: Message) -> Event:
    headers = headers_of(message)
    key = message.key()
    assert isinstance(key, bytes)
    body, previous = message.value(), headers.get("sow.previous")
    return Event(
        message.partition() or 0,
        key.decode(),
        json.loads(body) if body else None,
        None if previous is None else json.loads(previous),
        json.loads(headers["sow"]),
    )


def outcomes_of(system: System, topic: str) -> dict[tuple[int, str], str]:
    """Return what became of commands that made no change, by (partition, position)."""
    _, progress = read_changes(system, topic)
    return {
        (one["partition"], position): what for one in progress for position, what in one["outcomes"].items()
    }


def check_chain(events: list[Event], model: Model) -> None:
    """Check that followers find every change of the model, each after the one before, repeats left out."""
    for partition in range(model.definition.partitions):
        held: Position = (-1, 0)
        steps = iter([step for step in model.steps if step.partition == partition])
        for event in (event for event in events if event.partition == partition):
            if event.position > held:
                assert event.after == held, f"a gap in partition {partition}"
                held = event.position
                found = (event.position, event.sow_key, event.previous, event.body)
                step = next(steps, None)
                assert step is not None
                assert found == (step.position, step.sow_key, step.before, step.now)
        assert next(steps, None) is None, f"a change of partition {partition} was never emitted"


def check_compacted(events: list[Event], model: Model) -> None:
    """Check that the last event of each key, which compaction keeps, is its newest state."""
    last = {(event.partition, event.sow_key): event for event in events}
    newest = {(step.partition, step.sow_key): step for step in model.steps}
    assert last.keys() == newest.keys()
    for key, step in newest.items():
        assert last[key].body == step.now
        assert step.now is None or last[key].position == step.position
