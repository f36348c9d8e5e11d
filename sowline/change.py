r"""Changes and progress events: what a partition of the State of the World says of itself, as Kafka records.

A **change** is one record's step from one state to the next: Kafka key = SOW key, value = the new body (null:
the record is gone), header `sow` = a small JSON object, header `sow.previous` = the previous body. An update
may say in the header `sow.delta` what it changed: for readers outside, nothing here reads it. A **progress
event** has the Kafka key `\x00progress` and says that the partition moved on without a change.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import orjson

from sowline.command import Headers, Origin, Sequence2
from sowline.difference import Delta, Keys, difference
from sowline.limits import Limits
from sowline.position import Position

PROGRESS_KEY: Final = b"\0progress"

DELETE: Final = "delete"
AGAIN: Final = "again"
"""The `op` of an event that is written once more so that compaction keeps it: nobody's state changes."""

RESET: Final = "reset"
"""The `op` of a record's end where its partition begins anew without it."""

DELETED: Final = "deleted"
EXPIRED: Final = "expired"

REMOVED_BYTES_MAX: Final = 32 * 1024
"""How long the list of removed fields may be in a header: half of the room that a topic's limit has for headers."""

Numbers = Mapping[str, tuple[int, int, int]]
"""The highest sequence of each publisher that wrote a record, as (n, m, log time in ms)."""


class Change(NamedTuple):
    """One record's step from one state to the next.

    `after` is the position of the change before it in the partition; `last` is false on all but the last
    change that one log record makes; `time` is the log's append time in ms since 1970; `key_text` is given
    where a deletion is written again, for there is no previous body to read it from.
    """

    sow_key: bytes
    body: bytes | None
    previous: bytes | None
    position: Position
    after: Position
    op: str
    time: int
    last: bool = True
    reason: str | None = None
    expires: int | None = None
    correlation: str | None = None
    numbers: Numbers | None = None
    origin: Origin | None = None
    outcome: str | None = None
    key_text: str | None = None

    def headers(self, delta: Delta | None = None) -> Headers:
        """Return the Kafka headers; what has its default value is left out.

        A `delta`, which `delta()` has returned, goes along in a header of its own.
        """
        position, after = _number(self.position), _relative(self.after, self.position.era)
        rare = self._rare_fields()
        if delta is not None and delta.removed:
            rare["removed"] = delta.removed
        more = "," + orjson.dumps(rare)[1:-1].decode() if rare else ""
        about = f'{{"position":"{position}","after":"{after}","op":"{self.op}","time":{self.time}{more}}}'
        headers: Headers = [("sow", about.encode())]
        if self.previous is not None:
            headers.append(("sow.previous", self.previous))
        if delta is not None:
            headers.append(("sow.delta", delta.body))
        return headers

    def delta(self, keys: Keys) -> Delta | None:
        """Return what an update changed; None for a new record, one that is gone, and what headers can't tell."""
        if self.previous is None or self.body is None:
            return None
        delta = difference(self.previous, self.body, keys)
        return None if delta.whole or not fit_header(delta.removed) else delta

    def _rare_fields(self) -> dict[str, Any]:
        """Return what most changes do not have; almost always nothing."""
        if self[7:] == _PLAIN and not self.position.era:
            return {}
        rare: dict[str, Any] = {}
        if self.position.era:
            rare["era"] = self.position.era
        if not self.last:
            rare["last"] = False
        for name in ("reason", "expires", "correlation", "numbers", "outcome", "key_text"):
            value = getattr(self, name)
            if value is not None:
                rare[name] = value
        if self.origin is not None:
            rare["origin"] = str(self.origin)
        return rare


def fit_header(removed: tuple[str, ...]) -> bool:
    """Whether the paths of removed fields fit into the header `sow`."""
    return not removed or len(orjson.dumps(removed)) <= REMOVED_BYTES_MAX


_PLAIN = (True, *(None for _ in range(len(Change._fields) - 8)))
"""The fields of a change behind `time`, where each has its default value."""


class Progress(NamedTuple):
    """A partition's word that it moved on without a change.

    `position` is the last log record it has applied, `after` its last change before that, `end` the log's
    end as it knew it, `origins` the highest forwarded offset per origin partition, `definition` the digest
    of the topic's definition, `log_id` Kafka's id of the log topic, `outcomes` what became of commands that
    made no change, by their position. `limits` are the topic's at that position; publishers' numbers from
    before the log time `numbers_since` count no more.
    """

    position: Position
    after: Position
    end: int
    origins: Mapping[int, int]
    definition: str
    log_id: str
    time: int
    outcomes: Mapping[str, str]
    limits: Limits = Limits()
    numbers_since: int = 0

    def value(self) -> bytes:
        """Return the Kafka value."""
        return orjson.dumps(
            {
                "position": _number(self.position),
                "after": _relative(self.after, self.position.era),
                "end": self.end,
                "origins": {str(partition): offset for partition, offset in self.origins.items()},
                "era": self.position.era,
                "definition": self.definition,
                "log_id": self.log_id,
                "time": self.time,
                "outcomes": dict(self.outcomes),
                "limits": self.limits.fields(),
                "numbers_since": self.numbers_since,
            }
        )


Event = Change | Progress


def _number(position: Position) -> str:
    """Write a position without its era, which has a field of its own."""
    _, offset, nth = position
    return f"{offset}.{nth}" if nth else str(offset)


def _relative(after: Position, era: int) -> str:
    """Write the position before, with its era where that is another one."""
    return _number(after) if after.era == era else f"{after.era}/{_number(after)}"


def read_event(key: bytes, value: bytes | None, headers: Headers | None) -> Event:
    """Read one record of a changes topic; raises ValueError or KeyError if it is none."""
    if key == PROGRESS_KEY:
        return _read_progress(orjson.loads(value or b""))
    about: dict[str, Any] | None = None
    previous = None
    for name, content in headers or ():
        if name == "sow":
            about = orjson.loads(content or b"")
        elif name == "sow.previous":
            previous = content
    if about is None:
        raise ValueError(f"expected a change with a 'sow' header, got none at key {key!r}")
    return _read_change(key, value, previous, about)


def _read_change(key: bytes, value: bytes | None, previous: bytes | None, about: dict[str, Any]) -> Change:
    era = about.get("era", 0)
    numbers = about.get("numbers")
    origin = about.get("origin")
    return Change(
        key,
        value,
        previous,
        _position(era, about["position"]),
        _after(era, about["after"]),
        about["op"],
        about["time"],
        about.get("last", True),
        about.get("reason"),
        about.get("expires"),
        about.get("correlation"),
        None if numbers is None else {name: (n, m, time) for name, (n, m, time) in numbers.items()},
        None if origin is None else Origin(*(int(part) for part in origin.split("@"))),
        about.get("outcome"),
        about.get("key_text"),
    )


def _read_progress(about: dict[str, Any]) -> Progress:
    era = about["era"]
    return Progress(
        _position(era, about["position"]),
        _after(era, about["after"]),
        about["end"],
        {int(partition): offset for partition, offset in about["origins"].items()},
        about["definition"],
        about["log_id"],
        about["time"],
        about["outcomes"],
        Limits.read(about["limits"]),
        about["numbers_since"],
    )


def _position(era: int, text: str) -> Position:
    offset, dot, index = text.partition(".")
    return Position(era, int(offset), int(index) if dot else 0)


def _after(era: int, text: str) -> Position:
    own, slash, rest = text.partition("/")
    return _position(int(own), rest) if slash else _position(era, text)


def sequence_text(sequence: Sequence2) -> str:
    """Write a sequence as `n` or `n.m`."""
    return f"{sequence[0]}.{sequence[1]}" if sequence[1] else str(sequence[0])
