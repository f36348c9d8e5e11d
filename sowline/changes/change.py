"""A change: one record's step from one state to the next, as a Kafka record.

Its Kafka key is the SOW key. Its value is the new body; null means that the record is gone. The header `sow` is a
small JSON object, `sow.previous` the previous body. An update may have the header `sow.delta` with the fields that it
changed, for other readers: nothing here reads it.

A change of a document is a write, or the `define` of another template: `sow.document` holds the metadata of its
writes, `sow.text` the delta. If the document is gone, the value is empty and not null, because the metadata outlives
the document.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
import orjson

from sowline.changes.position_text import position_before, position_text
from sowline.commands.command import DEFINE, PARTIALS, Headers, Origin
from sowline.commands.stored_format import FORMAT, TEMPLATE_FORMAT
from sowline.commands.traceparent import TRACEPARENT
from sowline.language.emodb.writes import DocumentMetadata, Writes
from sowline.model.difference import ChangeDelta, Keys, difference
from sowline.model.log_time import TIME_MAX, known_log_time
from sowline.model.position import Position

DELETE: Final = "delete"
AGAIN: Final = "again"
"""The `op` of an event that is written again so that compaction keeps it: it changes no state."""

RESET: Final = "reset"
"""The `op` of the deletion of a record when a state reset restarts its partition without records."""

DELETED: Final = "deleted"
EXPIRED: Final = "expired"

REMOVED_BYTES_MAX: Final = 32 * 1024
"""The size limit of the list of removed fields in a header: half of the space that a topic leaves for headers."""

Numbers = Mapping[str, tuple[int, int, int]]
"""The highest sequence of each publisher that wrote a record, as (n, m, log time in ms)."""


Rank = tuple[int, Position]
"""The era in which an event was emitted, and its position."""


class Accounts(msgspec.Struct, gc=False, omit_defaults=True):
    """The content of the header `sow.document`."""

    now: Writes
    before: Writes | None = None


read_accounts = msgspec.json.Decoder(Accounts).decode
write_accounts = msgspec.json.Encoder().encode


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
    - `taken`: in a view with joins, the same as a bookmark of the source and the joined topics.
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
        """The log time of the partition after the change; 0 if the change does not have it."""
        return known_log_time(self.time if self.log_time is None else self.log_time)

    @property
    def replay_time(self) -> int:
        """The time by which changes are replayed: log time, or, before Kafka has dated a record, the producer's."""
        return self.partition_time or min(self.time, TIME_MAX)

    @property
    def value(self) -> bytes | None:
        """The Kafka value: the body; empty for a deleted document or a hidden group, None for any other deletion.

        With the value None, compaction would remove the event after a while, and the metadata or states with it.
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
        """Whether only what readers don't see has changed: the states of a group, or hidden fields of a document.

        Subscribers get no message.
        """
        # An owner of a source partition that starts writes all states again (test_views_equal_a_recomputation). And
        # while `having` hides a group, its states change, too. A template may set a field to what a document has
        # (test_a_field_that_a_template_repeats_comes_back).
        return self.op in (PARTIALS, DEFINE) and self.body == self.previous

    @property
    def rank(self) -> Rank:
        """The era in which the event was written, then its position: the highest rank of a key counts in a load."""
        position, emitted_in = self.position, self.emitted_in
        return position.era if emitted_in is None else emitted_in, position

    def headers(self, delta: ChangeDelta | None = None) -> Headers:
        """Return the Kafka headers, without fields that have their default values.

        A `delta` (as returned by `delta()`) is added as the header `sow.delta`.
        """
        assert self.position.offset >= -1, "a change is in the log, or begins it"
        position, after = position_text(self.position), position_before(self.after, self.position.era)
        more = "" if self._is_plain and delta is None else self._more(delta)
        about = f'{{"position":"{position}","after":"{after}","op":"{self.op}","time":{self.time}{more}}}'
        headers: Headers = [("sow", about.encode())]
        if self.previous is not None:
            headers.append(("sow.previous", self.previous))
        if delta is not None:
            headers.append(("sow.delta", delta.body))
        if self.writes is not None:
            headers.append(("sow.document", write_accounts(Accounts(self.writes, self.writes_before))))
        if self.text is not None:
            headers.append(("sow.text", self.text))
        if self.states is not None:
            headers.append(("sow.states", self.states))
        if self.traceparent is not None:
            headers.append((TRACEPARENT, self.traceparent.encode()))
        return headers

    def traced(self, traceparent: str) -> "Change":
        """Return the change with a trace context."""
        return msgspec.structs.replace(self, traceparent=traceparent)

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
        if self.op == DEFINE:
            # An owner of an earlier version would load these changes, and refuse the rest of their `define`.
            rare["v"] = TEMPLATE_FORMAT
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
