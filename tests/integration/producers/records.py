"""Kafka records of every kind that producers write, and what they make of a topic: by key, in their order."""

import random
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tests.integration.model import Body

PUBLISH, DELTA_PUBLISH, SOW_DELETE, GONE, UNKEYED = KINDS = (
    "publish",
    "delta_publish",
    "sow_delete",
    "gone",
    "unkeyed",
)
HEADERS: Mapping[str, Mapping[str, str]] = {
    PUBLISH: {"sow.correlation": "import"},
    DELTA_PUBLISH: {"sow.correlation": "change", "sow.command": "delta_publish"},
    SOW_DELETE: {"sow.command": "sow_delete"},
    GONE: {},
    UNKEYED: {},
}
KEYS = 80


class Record(NamedTuple):
    """A record for Kafka: its kind, which says what headers it has, its key and its body."""

    kind: str
    key: str | None
    body: Body | None

    @property
    def text(self) -> str:
        """The key text of the record that it is about."""
        return self.key if self.body is None and self.key is not None else str((self.body or {})["id"])

    @property
    def correlation(self) -> str | None:
        """What the header says."""
        return HEADERS[self.kind].get("sow.correlation")


class Delivered(NamedTuple):
    """What a record's change is to a subscriber, and the correlation that it carries."""

    command: str
    body: Body
    correlation: str | None


History = dict[str, list[Delivered]]
"""What was told of each record, in order, by key text."""


def records(dice: random.Random, count: int) -> list[Record]:
    """Return records in the order to be written; each of those without a key is alone with its `id`."""
    kinds = dice.choices(KINDS, (4, 4, 1, 1, 2), k=count)
    return [_record(dice, kind, number) for number, kind in enumerate(kinds)]


def _record(dice: random.Random, kind: str, number: int) -> Record:
    chosen = dice.randrange(KEYS)
    id: int | str = f"no key {number}" if kind == UNKEYED else chosen if chosen % 2 else f"ké {chosen}"
    bodies: dict[str, Body | None] = {
        PUBLISH: {"id": id, "status": dice.choice(("öpen", "shut")), "qty": dice.randrange(1000)},
        DELTA_PUBLISH: {"id": id, "qty": None}
        if dice.random() < 0.2
        else {"id": id, f"n{number % 3}": number},
        SOW_DELETE: {"id": id},
        GONE: None,
        UNKEYED: {"id": id, "number": number},
    }
    return Record(kind, None if kind == UNKEYED else str(id), bodies[kind])


def grouped(records: Sequence[Record]) -> list[Record]:
    """Return the records in the order in which a program writes them that takes one kind after the other."""
    return sorted(records, key=lambda record: KINDS.index(record.kind))


def history(records: Sequence[Record]) -> History:
    """Return what a subscriber is told who listens from the start."""
    held: dict[str, Body] = {}
    deliveries: History = {}
    for record in records:
        before = held.pop(record.text, None)
        if record.kind in (SOW_DELETE, GONE):
            found = None if before is None else Delivered("oof", before, record.correlation)
        else:
            old = before if before is not None and record.kind == DELTA_PUBLISH else {}
            held[record.text] = old | (record.body or {})
            found = Delivered("publish", held[record.text], record.correlation)
        if found is not None:
            deliveries.setdefault(record.text, []).append(found)
    return deliveries


def sow(deliveries: History) -> dict[str, Body]:
    """Return the records that there are in the end."""
    return {key: steps[-1].body for key, steps in deliveries.items() if steps[-1].command == "publish"}
