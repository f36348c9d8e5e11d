"""Computed fields in the pure core against a perfect model: batches, crashes and lost disks change nothing."""

import json
from dataclasses import dataclass, field

from sowline.commands.command import LogRecord
from tests.examples import examples
from tests.property.model import Body, Effect, Kept, PartitionModel, RecordPosition, Refused, merged
from tests.property.test_core_model import CoreAgainstModel

PREPROCESSING = ["/id AS /key"]
ENRICHMENT = [
    "COALESCE(/count OF PREVIOUS, 0) + 1 AS /count",
    "/q + 1 AS /q HINT OPTIONAL HINT SET_CURRENT",
    "/q > 5 AS /more/b HINT OPTIONAL",
    "/q OF PREVIOUS AS /was HINT OPTIONAL",
    "UNIX_TIMESTAMP() - LAST_UPDATED() AS /since",
    "CONCAT(TOPIC_NAME(), BOOKMARK()) AS /place",
]


@dataclass
class EnrichedModel(PartitionModel):
    """The perfect model, with the fields above computed in plain Python."""

    updated: dict[str, int] = field(default_factory=dict)

    def _parse(self, value: bytes) -> tuple[str, Body]:
        try:
            key, body = super()._parse(value)
        except Refused as refusal:
            # A field that is computed is there, but an object, an empty string or nothing at all has no value.
            reason = str(refusal)
            if reason in ("key missing", "key empty") or (
                reason == "bad key" and json.loads(value)["id"] == {}
            ):
                raise Refused("key null") from None
            raise
        return key, body | {"key": body["id"]}

    def _publish(self, record: LogRecord, command: str, number: tuple[str, RecordPosition] | None) -> None:
        key, body = self._read(record)
        if not self._is_mine(record, key):
            return
        kept = self.kept.get(key, Kept(None, {}))
        if self._is_repeat(kept, number):
            return
        self._check_room(kept)
        body = self._enriched(body, kept.body or {}, self.updated.get(key), record.offset)
        if command == "delta_publish" and kept.body is not None:
            body = merged(kept.body, body)
        self._set(record, 0, key, kept, body, number)

    def _enriched(self, body: Body, previous: Body, updated: int | None, offset: int) -> Body:
        """What enrichment makes of a body."""
        since = None if updated is None else self.time / 1000 - updated / 1000
        position = f"thingsthings:{self.number}@{offset}"
        body = body | {"count": previous.get("count", 0) + 1, "since": since, "place": position}
        body.pop("was", None)
        if "q" in previous:
            body["was"] = previous["q"]
        if "q" in body:
            body["q"] += 1
            body["more"] = body.get("more", {}) | {"b": body["q"] > 5}
        elif "b" in body.get("more", {}):
            body["more"] = {name: value for name, value in body["more"].items() if name != "b"}
        return body

    def _note(self, record: LogRecord, effect: Effect) -> None:
        self.updated.pop(effect.key, None)
        if effect.now is not None:
            self.updated[effect.key] = self.time


class EnrichedCoreAgainstModel(CoreAgainstModel):
    """All that may happen to a topic may happen to one with computed fields, of which one is its key."""

    defined = {"key": "/key", "preprocessing": PREPROCESSING, "enrichment": ENRICHMENT}  # noqa: RUF012 - it is never changed
    model = EnrichedModel
    room = 1000


EnrichedCoreAgainstModel.TestCase.settings = examples(60, stateful_step_count=40)
TestEnrichedCoreAgainstModel = EnrichedCoreAgainstModel.TestCase
