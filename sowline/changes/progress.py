r"""A progress event: the Kafka record in which a partition reports that it advanced without a change.

It has the Kafka key `\x00progress`, or `\x00catch-up` while its owner is behind the changes that were emitted.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import orjson

from sowline.changes.partials import reflected_fields
from sowline.changes.position_text import position_before, position_text
from sowline.commands.stored_format import BY, format_of, stored_limits
from sowline.model.limits import Limits
from sowline.model.log_time import known_log_time
from sowline.model.position import Position

PROGRESS_KEY: Final = b"\0progress"

CATCH_UP_KEY: Final = b"\0catch-up"
"""The key of progress events whose owner is behind the last emitted change. With `PROGRESS_KEY`, compaction would
keep them in place of the newest one. In `[change 36, progress 37, progress 31 by the next owner]` compaction would
remove `progress 37`. Loaders would then find a change that no progress event reaches (`test_example`, seed 1601)."""

UNFILLED: Final = "?"
"""The topic id in progress events while the owner has not finished refilling the changes topic."""


class ChangesId(NamedTuple):
    """Which changes a progress event describes: Kafka's id of their topic, and the offset that they begin at.

    Compaction keeps the first offset of a topic. So a `start` above 0 shows that events were deleted from its head,
    and that only a later refill has the records of these. As text it is the id alone, or `<id>@<start>`.
    """

    topic: str
    start: int

    @classmethod
    def parse(cls, text: str) -> "ChangesId":
        """Read the text in a progress event."""
        topic, _, start = text.partition("@")
        return cls(topic, int(start) if start.isdecimal() else 0)

    def __str__(self) -> str:
        return f"{self.topic}@{self.start}" if self.start else self.topic


class Begin(NamedTuple):
    """The start of an era without records: an offset of the log, a log time in ms, and the reader schema's digest."""

    offset: int
    time: int
    schema: str | None = None

    def fields(self) -> list[Any]:
        """Return the fields, ready for JSON; the schema only if there is one."""
        return [self.offset, self.time] if self.schema is None else list(self)


LOG_BEGIN: Final = Begin(0, 0)


class Progress(NamedTuple):
    """Reports that a partition advanced without a change.

    - `position`: the last log record that the partition has applied.
    - `after`: the position of the last change before `position`.
    - `end`: the log's end offset as the owner knew it.
    - `origins`: for each origin partition, the highest forwarded offset.
    - `definition`: the digest of the topic's definition.
    - `log_id`: Kafka's id of the log topic.
    - `outcomes`: the outcome of each command that made no change, by its position.
    - `limits`: the topic's limits at `position`.
    - `numbers_since`: publishers' numbers from before this log time do not count.
    - `begin`: the log offset and time from which the log alone determines the state; None if the era started with
      records.
    - `changes_id`: which changes the event was written for, as a `ChangesId`. It is empty if the topic's id was not
      known, and `UNFILLED` while a refill is unfinished.
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
    begin: Begin | None = LOG_BEGIN
    changes_id: str = ""
    reflected: Mapping[int, Position] = MappingProxyType({})
    """In a view: by source partition, the position up to which its changes are reflected."""
    taken: Mapping[int, str] = MappingProxyType({})
    """In a view with joins: by source partition, the same as a bookmark of the source and the joined topics."""
    is_catching_up: bool = False
    """Whether another owner has already emitted changes newer than this position."""

    @property
    def partition_time(self) -> int:
        """The log time of the partition; 0 if it is not known."""
        return known_log_time(self.time)

    @property
    def key(self) -> bytes:
        """Return the Kafka key."""
        return CATCH_UP_KEY if self.is_catching_up else PROGRESS_KEY

    def value(self) -> bytes:
        """Return the Kafka value."""
        assert self.position.offset >= -1, "what was applied is in the log, or nothing"
        limits, extra = stored_limits(self.limits)
        return orjson.dumps(
            {
                "position": position_text(self.position),
                "after": position_before(self.after, self.position.era),
                "end": self.end,
                "origins": {str(partition): offset for partition, offset in self.origins.items()},
                "era": self.position.era,
                "definition": self.definition,
                "log_id": self.log_id,
                "time": self.time,
                "outcomes": dict(self.outcomes),
                "limits": limits,
                "numbers_since": self.numbers_since,
                "begin": None if self.begin is None else self.begin.fields(),
                "changes_id": self.changes_id,
                "format": format_of(self.limits),
                "by": BY,
                **extra,
                **reflected_fields(self.reflected, self.taken),
            }
        )
