"""The events of materializers as lines: the model of one replays them."""

from collections import defaultdict
from typing import Any

from sowline.changes.change import AGAIN, Change
from sowline.changes.event import read_event
from sowline.changes.progress import PROGRESS_KEY
from sowline_materializer.core.checkpoint import Checkpoint
from tests.simulation.broker import Written
from tests.simulation.truth import Truth

Line = dict[str, Any]


class OwnerLines:
    """Turns events into lines."""

    def __init__(self, truth: Truth) -> None:
        definition = truth.definition
        self._log, self._changes = definition.log, definition.changes
        self._effects: dict[tuple[int, int], list[tuple[str, bool]]] = defaultdict(list)
        for number in range(definition.partitions):
            for effect in truth.model(number).effects:
                key = truth.key(effect.key).hex()
                self._effects[number, effect.position[0]].append((key, effect.now is not None))

    def line(self, event: Line) -> Line | None:
        """Return the line of an event; None if it is of another process or topic."""
        if "written" in event:
            return self._written(event["written"], event["by"])
        is_other = event.get("topic", self._changes) != self._changes
        if is_other or not event["by"].startswith("worker"):
            return None
        line = {name: value for name, value in event.items() if name not in {"topic", "checkpoint"}}
        return line | _stored(event["checkpoint"]) if "checkpoint" in event else line

    def _written(self, written: Written, by: str) -> Line | None:
        topic, number = written.partition_id
        where = {"partition": number, "offset": written.at}
        if topic == self._log:
            return {"event": "log", **where, "effects": self._effects[number, written.at]}
        if topic != self._changes:
            return None
        event = read_event(written.name or b"", written.body, written.about)
        line = {**where, "by": by, "position": list(event.position), "after": list(event.after)}
        if not isinstance(event, Change):
            return {"event": "progress", **line}
        return {
            "event": "change",
            **line,
            "key": event.sow_key.hex(),
            "live": event.body is not None,
            "last": event.last,
            "again": event.op == AGAIN,
            "written_in": event.rank[0],
        }


def _stored(data: bytes) -> Line:
    """Return the parts of a checkpoint that the model has."""
    checkpoint = Checkpoint.decode(data)
    return {
        "position": list(checkpoint.position),
        "last_change": list(checkpoint.last_change),
        "complete": checkpoint.complete,
        "changes_end": checkpoint.changes_end,
        "stale": ["" if key == PROGRESS_KEY else key.hex() for key in sorted(checkpoint.stale_keys)],
    }
