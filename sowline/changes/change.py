r"""Changes and progress events: the Kafka records in which a partition reports its state.

A **change** is one record's step from one state to the next. Its Kafka key is the SOW key. Its value is the new body;
null means that the record is gone. The header `sow` is a small JSON object, `sow.previous` the previous body. An
update may have the header `sow.delta` with the fields that it changed, for other readers: nothing here reads it.

A change of a document is a write: `sow.document` holds the metadata of its writes, `sow.text` the delta. If the
document is gone, the value is empty and not null, because the metadata outlives the document.

A **progress event** has the Kafka key `\x00progress`, or `\x00catch-up` while its owner is behind the changes that
were emitted. It reports that the partition advanced without a change.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec
import orjson
from msgspec.structs import replace

from sowline.changes.partials import read_reflected, reflected_fields
from sowline.commands.command import PARTIALS, Headers, Origin, Sequence2
from sowline.commands.stored_format import BY, FIRST_FORMAT, FORMAT, require_format
from sowline.commands.traceparent import TRACEPARENT, read_traceparent
from sowline.language.emodb.writes import DocumentMetadata, Writes
from sowline.model.difference import ChangeDelta, Keys, difference
from sowline.model.limits import Limits
from sowline.model.log_time import TIME_MAX, known_log_time
from sowline.model.position import Position, position_of

PROGRESS_KEY: Final = b"\0progress"

CATCH_UP_KEY: Final = b"\0catch-up"
"""The key of progress events whose owner is behind the last emitted change. With `PROGRESS_KEY`, compaction would
keep them in place of the newest one. In `[change 36, progress 37, progress 31 by the next owner]` compaction would
remove `progress 37`. Loaders would then find a change that no progress event reaches (`test_example`, seed 1601)."""

DELETE: Final = "delete"
AGAIN: Final = "again"
"""The `op` of an event that is written again so that compaction keeps it: it changes no state."""

RESET: Final = "reset"
"""The `op` of the deletion of a record when a state reset restarts its partition without records."""

DELETED: Final = "deleted"
EXPIRED: Final = "expired"

REMOVED_BYTES_MAX: Final = 32 * 1024
"""The size limit of the list of removed fields in a header: half of the space that a topic leaves for headers."""

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
        """Read what a progress event has."""
        topic, _, start = text.partition("@")
        return cls(topic, int(start) if start.isdecimal() else 0)

    def __str__(self) -> str:
        return f"{self.topic}@{self.start}" if self.start else self.topic


Numbers = Mapping[str, tuple[int, int, int]]
"""The highest sequence of each publisher that wrote a record, as (n, m, log time in ms)."""


class Begin(NamedTuple):
    """The start of an era without records: an offset of the log, a log time in ms, and the reader schema's digest."""

    offset: int
    time: int
    schema: str | None = None

    def fields(self) -> list[Any]:
        """Return the fields, ready for JSON; the schema only if there is one."""
        return [self.offset, self.time] if self.schema is None else list(self)


LOG_BEGIN: Final = Begin(0, 0)


Rank = tuple[int, Position]
"""The era in which an event was emitted, and its position."""


class Change(msgspec.Struct, frozen=True, gc=False):
    """One record's step from one state to the next.

    - `after`: the position of the previous change in the partition.
    - `last`: False on all but the last of the changes that one log record makes.
    - `time`: the time of the log record, in ms since 1970.
    - `log_time`: the log time, if `time` is a later one that the producer gave.
    - `emitted_in`: the era in which an event was written again, if later than the era of its position.
    - `key_text`: set for documents, and for a deletion that is written again, which has no previous body to read it
      from.
    - `writes`, `writes_before`: the metadata of a document's writes after and before the change.
    - `text`: the delta, if the write to a document was one.
    - `schema_id`: the schema that the message named, in a topic whose message type has schemas.
    - `states`: the states of a group of a view, by source partition, as `sowline.changes.partials` encodes them.
    - `reflects`: in a view, a source partition, and the position up to which its changes are reflected.
    - `taken`: in a view with joins, a bookmark of what that is in positions of the source and the joined topics.
    - `traceparent`: the trace context that is passed on with the change; not part of the record.
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
    schema_id: int | None = None
    origin: Origin | None = None
    outcome: str | None = None
    key_text: str | None = None
    emitted_in: int | None = None
    writes: Writes | None = None
    writes_before: Writes | None = None
    text: bytes | None = None
    states: bytes | None = None
    reflects: tuple[int, Position] | None = None
    taken: str | None = None
    traceparent: str | None = None
    log_time: int | None = None

    @property
    def partition_time(self) -> int:
        """The log time of the partition after the change, as far as the change tells; 0 if it does not."""
        return known_log_time(self.time if self.log_time is None else self.log_time)

    @property
    def replay_time(self) -> int:
        """The time by which changes are replayed: log time, or, before Kafka has dated a record, the producer's."""
        return self.partition_time or min(self.time, TIME_MAX)

    @property
    def value(self) -> bytes | None:
        """The Kafka value: the body; empty for a deleted document or a hidden group, None for any other deletion.

        Compaction would remove the event of a value of None after a while, and what is kept of the record with it.
        """
        is_kept = self.writes is not None or self.states is not None
        return b"" if self.body is None and is_kept else self.body

    @property
    def known(self) -> DocumentMetadata | None:
        """The document's metadata after the change; None if the record is not a document."""
        return None if self.writes is None else DocumentMetadata(self.key_text or "", self.writes)

    @property
    def known_before(self) -> DocumentMetadata | None:
        """The document's metadata before the change; None if it was not a document, or was never written."""
        return (
            None if self.writes_before is None else DocumentMetadata(self.key_text or "", self.writes_before)
        )

    @property
    def is_redundant(self) -> bool:
        """Whether this is a write to a document that changed neither its content nor its tags."""
        return self.writes is not None and self.writes.redundant

    @property
    def shows_nothing_new(self) -> bool:
        """Whether only the states of a group have changed, and not its record: subscribers get no message."""
        # An owner of a source partition that starts writes all states again (test_views_equal_a_recomputation). And
        # while `having` hides a group, its states change, too.
        return self.op == PARTIALS and self.body == self.previous

    @property
    def rank(self) -> Rank:
        """The era in which the event was written, then its position: the highest rank of a key counts in a load."""
        position, emitted_in = self.position, self.emitted_in
        return position.era if emitted_in is None else emitted_in, position

    def headers(self, delta: ChangeDelta | None = None) -> Headers:
        """Return the Kafka headers, without fields that have their default values.

        A `delta` (as returned by `delta()`) is added as the header `sow.delta`.
        """
        position, after = _number(self.position), _relative(self.after, self.position.era)
        more = "" if self._is_plain and delta is None else self._more(delta)
        about = f'{{"position":"{position}","after":"{after}","op":"{self.op}","time":{self.time}{more}}}'
        headers: Headers = [("sow", about.encode())]
        if self.previous is not None:
            headers.append(("sow.previous", self.previous))
        if delta is not None:
            headers.append(("sow.delta", delta.body))
        if self.writes is not None:
            headers.append(("sow.document", _write_accounts(_Accounts(self.writes, self.writes_before))))
        if self.text is not None:
            headers.append(("sow.text", self.text))
        if self.states is not None:
            headers.append(("sow.states", self.states))
        if self.traceparent is not None:
            headers.append((TRACEPARENT, self.traceparent.encode()))
        return headers

    def delta(self, keys: Keys) -> ChangeDelta | None:
        """Return what an update changed; None for inserts and deletions, and if headers can't hold the delta."""
        if self.previous is None or self.body is None:
            return None
        delta = difference(self.previous, self.body, keys)
        return None if delta.whole or not fit_header(delta.removed) else delta

    @property
    def _is_plain(self) -> bool:
        """Whether the change has only the fields that every change has. Most changes are plain."""
        return (
            self.numbers is None
            and self.correlation is None
            and self.expires is None
            and self.schema_id is None
            and self.outcome is None
            and self.reason is None
            and self.origin is None
            and self.last
            and self.key_text is None
            and self.emitted_in is None
            and self.reflects is None
            and self.log_time is None
            and not self.position.era
        )

    def _more(self, delta: ChangeDelta | None) -> str:
        """Return the fields that most changes do not have, as the end of a JSON object."""
        rare: dict[str, Any] = {}
        if self.position.era:
            rare["era"] = self.position.era
        if not self.last:
            rare["last"] = False
        for name in _RARE:
            value = getattr(self, name)
            if value is not None:
                rare[name] = value
        if self.emitted_in is not None:
            # A reader that knows only format 1 ignores `emitted_in`. It would rank a repair too low and keep the
            # invalid record. The format number makes it refuse the event
            # (test_an_event_written_again_has_the_second_format).
            rare["v"] = FORMAT
        if self.origin is not None:
            rare["origin"] = str(self.origin)
        if self.reflects is not None:
            rare["reflects"] = [self.reflects[0], str(self.reflects[1])]
        if delta is not None and delta.removed:
            rare["removed"] = delta.removed
        return "," + orjson.dumps(rare)[1:-1].decode() if rare else ""


_RARE = (
    "reason",
    "expires",
    "correlation",
    "numbers",
    "schema_id",
    "log_time",
    "outcome",
    "key_text",
    "emitted_in",
    "taken",
)


def fit_header(removed: tuple[str, ...]) -> bool:
    """Return whether the paths of removed fields fit into the header `sow`."""
    # An update removes thousands of fields, and their paths are longer than both bodies. With them the change would
    # exceed the size that Kafka accepts for the topic, so it goes without a delta
    # (test_removed_fields_fit_into_a_header, test_the_largest_change_fits_its_topic).
    return not removed or len(orjson.dumps(removed)) <= REMOVED_BYTES_MAX


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
    """In a view with joins: by source partition, a bookmark of what that is in the source and the joined topics."""
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
                "begin": None if self.begin is None else self.begin.fields(),
                "changes_id": self.changes_id,
                "format": FORMAT,
                "by": BY,
                **reflected_fields(self.reflected, self.taken),
            }
        )


Event = Change | Progress


def _number(position: Position) -> str:
    """Return the text of a position without its era, which is in another field."""
    _, offset, nth = position
    return f"{offset}.{nth}" if nth else str(offset)


def _relative(after: Position, era: int) -> str:
    """Return the text of a previous position, with its era if that differs from `era`."""
    # The first change of era 2 has the position 2/0, after 1/5. Without its era, `after` would be read as 2/5, newer
    # than any position that a follower holds, and each follower would report a gap
    # (test_the_position_before_names_its_era_where_it_is_another).
    return _number(after) if after.era == era else f"{after.era}/{_number(after)}"


def read_event(key: bytes, value: bytes | None, headers: Headers | None) -> Event:
    """Return the event in a record of a changes topic.

    Raise ValueError or KeyError if the record is not an event, and `unknown format` if an unknown version of Sowline
    wrote it.
    """
    if key in (PROGRESS_KEY, CATCH_UP_KEY):
        return _read_progress(orjson.loads(value or b""), key == CATCH_UP_KEY)
    named = dict(headers or ())
    about = named.get("sow")
    if about is None:
        raise ValueError(f"expected a change with a 'sow' header, got none at key {key!r}")
    change = _read_change(key, value, named.get("sow.previous"), _read_about(about))
    trace, accounts, states = named.get(TRACEPARENT), named.get("sow.document"), named.get("sow.states")
    if trace is not None:
        change = replace(change, traceparent=read_traceparent(trace))
    if states is not None:
        change = replace(change, body=value or None, states=states)
    if accounts is None:
        return change
    of, text = _read_accounts(accounts), named.get("sow.text")
    return replace(change, body=value or None, writes=of.now, writes_before=of.before, text=text)


class _Accounts(msgspec.Struct, gc=False, omit_defaults=True):
    """The content of the header `sow.document`."""

    now: Writes
    before: Writes | None = None


_read_accounts = msgspec.json.Decoder(_Accounts).decode
_write_accounts = msgspec.json.Encoder().encode


class _About(msgspec.Struct, gc=False):
    """The content of the header `sow`."""

    position: str
    after: str
    op: str
    time: int
    era: int = 0
    last: bool = True
    reason: str | None = None
    expires: int | None = None
    correlation: str | None = None
    numbers: dict[str, tuple[int, int, int]] | None = None
    schema_id: int | None = None
    log_time: int | None = None
    origin: str | None = None
    outcome: str | None = None
    key_text: str | None = None
    emitted_in: int | None = None
    emitted_in_format_1: int | None = msgspec.field(default=None, name="said_in")
    reflects: tuple[int, str] | None = None
    taken: str | None = None
    v: Any = FIRST_FORMAT
    by: Any = None


_read_about = msgspec.json.Decoder(_About).decode


def _read_change(key: bytes, value: bytes | None, previous: bytes | None, about: _About) -> Change:
    if about.v is not FIRST_FORMAT:
        require_format("a change", about.v, about.by)
    era, origin = about.era, about.origin
    return Change(
        key,
        value,
        previous,
        _position(era, about.position),
        _after(era, about.after),
        about.op,
        about.time,
        about.last,
        about.reason,
        about.expires,
        about.correlation,
        about.numbers,
        about.schema_id,
        None if origin is None else Origin(*(int(part) for part in origin.split("@"))),
        about.outcome,
        about.key_text,
        # A compacted topic keeps repairs that a version of format 1 wrote. Without this name they would rank too low
        # (test_an_event_written_again_in_the_first_format_is_read).
        about.emitted_in_format_1 if about.emitted_in is None else about.emitted_in,
        reflects=None if about.reflects is None else (about.reflects[0], Position.parse(about.reflects[1])),
        taken=about.taken,
        log_time=about.log_time,
    )


def _read_progress(about: dict[str, Any], is_catching_up: bool) -> Progress:
    require_format("a progress event", about.get("format", FIRST_FORMAT), about.get("by"))
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
        _begin(era, about),
        about.get("changes_id", ""),
        *read_reflected(about),
        is_catching_up,
    )


def _begin(era: int, about: dict[str, Any]) -> Begin | None:
    """Return the start of the era. Older events do not contain it: then only the first era's start is known."""
    fields = about.get("begin", None if era else LOG_BEGIN)
    return None if fields is None else Begin(*fields)


def _position(era: int, text: str) -> Position:
    if "." in text:
        offset, _, nth = text.partition(".")
        return position_of((era, int(offset), int(nth)))
    return position_of((era, int(text), 0))


def _after(era: int, text: str) -> Position:
    if "/" in text:
        own, _, text = text.partition("/")
        era = int(own)
    return _position(era, text)


def sequence_text(sequence: Sequence2) -> str:
    """Return a sequence as `n` or `n.m`."""
    return f"{sequence[0]}.{sequence[1]}" if sequence[1] else str(sequence[0])
