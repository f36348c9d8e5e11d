"""The checkpoint of a partition: the position of its state, and what it needs to continue from there."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

import orjson

from sowline.changes.partials import read_reflected, reflected_fields
from sowline.changes.progress import LOG_BEGIN, Begin, ChangesId
from sowline.commands.stored_format import (
    BY,
    FIRST_FORMAT,
    format_of,
    read_limits,
    require_format,
    stored_limits,
)
from sowline.config.topic_definition import TopicDefinition
from sowline.model.limits import Limits
from sowline.model.log_time import known_log_time
from sowline.model.position import Position, before_the_log
from sowline_materializer.core.errors import StoreDamaged

EVERYTHING: Final = b""
"""No SOW key is empty: this stands for all keys, after a changes topic was replaced."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state of a partition apart from its records; written with them in one atomic batch.

    `position` is the last log record applied (with the index of its last change), `last_change` the last
    change made, `time` the log time in ms, `origins` the highest forwarded offset per origin partition,
    `definition` the digest of the topic's definition, `log_id` Kafka's id of the log topic, `changes_end`
    the offset in the changes partition up to which this state has written or seen it. `complete` is false
    only after a recovery that found some, but not all, of the changes that the last log record makes.
    `stale_keys` are the keys whose last event in the changes partition may not be their newest, and is yet to be
    repaired; `EVERYTHING` among them stands for all. `limits` are the topic's by now, `numbers_since` is the
    log time from before which publishers' numbers count no more, `records` the number of live records. `begin` is
    the log's offset, and its time, from which on its records alone make this state; None where the era began with
    records. `changes_id` is Kafka's id of the changes topic, empty while it is not known. In a view, `reflected` has
    by source partition the position up to which it is reflected. With joins, `taken` has a bookmark of what that is
    in positions of the source and the joined topics. `seen_end` is the end of the changes that was seen, if
    `changes_end` is before it: where the tail begins that this state has yet to reach. `holds_base` is whether the
    era's base may be in this state alone: the changes lack some of it.
    """

    position: Position = field(default_factory=before_the_log)
    last_change: Position = field(default_factory=before_the_log)
    time: int = 0
    origins: dict[int, int] = field(default_factory=dict)
    definition: str = ""
    log_id: str = ""
    changes_end: int = 0
    complete: bool = True
    stale_keys: frozenset[bytes] = frozenset()
    limits: Limits = field(default_factory=Limits)
    numbers_since: int = 0
    records: int = 0
    begin: Begin | None = LOG_BEGIN
    changes_id: str = ""
    reflected: Mapping[int, Position] = field(default_factory=dict[int, Position])
    taken: Mapping[int, str] = field(default_factory=dict[int, str])
    seen_end: int = 0
    holds_base: bool = False

    @property
    def remembered_since(self) -> int:
        """The log time from which publishers' numbers count: the begin of the repeat window, or `numbers_since` if
        later.
        """
        # `numbers_since` keeps what a shorter window has dropped from counting again under a longer one
        # (test_numbers_out_of_the_window_stay_out_of_a_longer_one).
        return max(self.time - self.limits.repeat_window, self.numbers_since)

    @property
    def next_offset(self) -> int:
        """The offset of the log at which to continue reading."""
        # If only some changes of the last log record were found, it is read again. The rest of its changes would
        # otherwise never be made (test_a_log_record_that_was_cut_short_is_read_again).
        return self.position.offset + self.complete

    def under(self, definition: TopicDefinition) -> Self | None:
        """Return the checkpoint of a state that was made under a definition; None if it was made under another one.

        Earlier versions stored only the digest of a template: such a state gets the template of the definition.
        """
        limits = self.limits
        if self.definition == definition.digest_with(limits.template):
            return self
        if limits.template is None and self.definition == definition.digest:
            return replace(self, limits=replace(limits, template=definition.limits.template))
        return None

    @property
    def is_untouched(self) -> bool:
        """Whether no log record was applied since the state began without records."""
        return self.begin is not None and self.position.offset < self.begin.offset

    def has_lost_changes(self, changes_id: str, changes_end: int) -> bool:
        """Return whether the present changes topic is not that of this state, or has lost an end of it."""
        # A topic that was deleted and made again usually has another id. Where ids are not known, an end before the
        # known one shows it. If the head of the topic was deleted, it begins after the first offset, and the ids
        # differ as well.
        known, present = ChangesId.parse(self.changes_id), ChangesId.parse(changes_id)
        is_another = known.topic not in ("", present.topic) or known.start != present.start
        return is_another or changes_end < max(self.changes_end, self.seen_end)

    def new_era(self, log_id: str, offset: int) -> Self:
        """Return the checkpoint of the next era, which begins at the log's `offset` with this state as its base.

        `last_change` stays that of the old era, so that followers can see that they have missed nothing in between.
        """
        # Origins are offsets of the old log. Kept, they would drop records that the new log forwards, as repeats
        # (test_a_new_era_keeps_the_state_and_begins_its_own_log).
        assert offset >= 0, "an era begins at an offset of its log"
        start = Position(self.position.era + 1, offset - 1)
        return replace(self, position=start, origins={}, log_id=log_id, complete=True, begin=None)

    def encode(self) -> bytes:
        """Return the checkpoint's bytes in the store."""
        assert self.records >= 0, "a count of live records is never negative"
        view = reflected_fields(self.reflected, self.taken)
        limits, extra = stored_limits(self.limits)
        about = {"format": format_of(self.limits), "by": BY, **extra}
        # Rare: an earlier version, which doesn't know them, does without.
        about |= {"seen_end": self.seen_end} if self.seen_end else {}
        about |= {"holds_base": True} if self.holds_base else {}
        return orjson.dumps({**about, "checkpoint": self._fields(limits), **view})

    def _fields(self, limits: dict[str, Any]) -> list[Any]:
        return [
            list(self.position),
            list(self.last_change),
            self.time,
            list(self.origins.items()),
            self.definition,
            self.log_id,
            self.changes_end,
            self.complete,
            [key.decode("latin-1") for key in sorted(self.stale_keys)],
            limits,
            self.numbers_since,
            self.records,
            None if self.begin is None else self.begin.fields(),
            self.changes_id,
        ]

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read the bytes of `encode`; raise `StoreDamaged` if they are anything else.

        Raise `unknown format` if a version wrote them whose format this one does not know.
        """
        try:
            given: dict[str, Any] | list[Any] = orjson.loads(data)
            # A version that does not know the format must stop here. If it took what it can read, it would commit a
            # checkpoint without the rest, and the newer version would continue from that
            # (test_state_of_an_unknown_format_is_refused_and_left).
            if isinstance(given, dict):
                require_format("state", given["format"], given.get("by"))
                fields = given["head" if given["format"] == FIRST_FORMAT else "checkpoint"]
                decoded = cls._decoded(fields, given)
                reflected, taken = read_reflected(given)
                return replace(decoded, reflected=reflected, taken=taken)
            return cls._decoded([*given, *_before_formats(given)], {})
        except (ValueError, TypeError, LookupError) as error:
            raise StoreDamaged(f"expected a checkpoint, got {data[:60]!r}: {error}") from error

    @classmethod
    def _decoded(cls, fields: list[Any], extra: Mapping[str, Any]) -> Self:
        position, last_change, time, origins, definition, log_id, changes_end, *more = fields
        complete, stale_keys, limits, numbers_since, records, begin, changes_id = more
        return cls(
            position=Position(*position),
            last_change=Position(*last_change),
            time=known_log_time(time),
            origins=dict(origins),
            definition=definition,
            log_id=log_id,
            changes_end=changes_end,
            complete=complete,
            stale_keys=frozenset(key.encode("latin-1") for key in stale_keys),
            limits=read_limits(limits, extra),
            numbers_since=known_log_time(numbers_since),
            records=records,
            begin=None if begin is None else Begin(*begin),
            changes_id=changes_id,
            seen_end=extra.get("seen_end", 0),
            holds_base=extra.get("holds_base", False),
        )


def _before_formats(fields: list[Any]) -> tuple[Begin | None, str]:
    """Return the fields that checkpoints lacked before they had a format: the era's begin, and the changes topic's
    id.
    """
    return None if fields[0][0] else LOG_BEGIN, ""
