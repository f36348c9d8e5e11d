"""Histories: what a workload sent and received, one event as a line of JSON. Pure.

A history begins with a `begin`. Each write is a `write` when it is sent, and a `written` once it is answered. Each
query or subscription is an `open`, its `message`s in the order in which they arrived, and an `end`. A `fault` is a
command that was run. An `unanswered` tells that an answer did not come in time. docs/guarantees.md describes the
fields for other programs that write histories.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal

import msgspec

from sowline.errors import SowlineError

VERSION: Final = 1

TERM: Final = re.compile(r"/(\w+) (=|<=|>=|<|>) (?:'([^']*)'|(-?\d+))")
"""One comparison of a filter: a field, and a text or an integer."""

ORDER: Final = re.compile(r"/(\w+)( DESC)?")
"""One field of an order: integers or texts, which every record has."""

EVERY: Final = "1=1"
"""The filter of a delete that removes every record."""


def is_filter(text: str) -> bool:
    """Return whether a history may have this filter: comparisons that AND combines; a judge needs no others."""
    # The whole term: a judge that reads `/a = 'b' OR /c = 1` as far as the OR accuses sound reads (test_filters).
    return text in ("", EVERY) or all(TERM.fullmatch(term) for term in text.split(" AND "))


def _check_filter(text: str) -> None:
    if not is_filter(text):
        raise ValueError(f"expected comparisons like /qty > 5, combined with AND, got {text!r}")


class HistoryEvent(
    msgspec.Struct, frozen=True, tag_field="event", omit_defaults=True, forbid_unknown_fields=True
):
    """One line of a history."""


class DeltaParts(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a delta does to a document, by its parts: a judge needs no parser of its text."""

    fields: dict[str, Any]
    """Values that replace those of the document."""
    removed: tuple[str, ...] = ()
    """Fields that are removed."""
    added: dict[str, tuple[str, ...]] = {}
    """By field, strings that are added to its set."""
    condition: dict[str, Any] | None = None
    """The values that the document must have; without them, nothing changes."""


class TotalsOf(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a view or a read of groups computes: for each value of a field, the number of records and a sum."""

    source: str
    grouping: str
    count: str
    """The field with the number of records."""
    summed: str
    total: str
    """The field with the sum of `summed`."""


class CheckedTopic(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A topic that had no records at the bookmark `begin`, and that no other program has written to since."""

    name: str
    begin: str
    key: str = "id"
    """The field that identifies a record."""
    totals: TotalsOf | None = None


class HistoryBegin(HistoryEvent, frozen=True, tag="begin"):
    """The first event."""

    topics: tuple[CheckedTopic, ...]
    resume_window_seconds: float
    version: int = VERSION
    seed: int = 0
    url: str = ""
    unchecked_fanouts: str = ""
    """Why no fanout is read; empty if they are."""


class WriteSent(HistoryEvent, frozen=True, tag="write"):
    """A command on its way. Its `id` is its correlation id too, by which subscribers name it."""

    id: str
    topic: str
    command: Literal["publish", "delta_publish", "sow_delete", "delta"]
    writer: str
    """A writer sends its commands in order: to Kafka, or to a service once the previous one has been answered."""
    at: float
    """Seconds since the history began, by the clock of the workload."""
    data: dict[str, Any] | None = None
    """The record, the changed fields, or the key of the record to delete or of the document."""
    filter: str = ""
    """The filter of a delete, in place of `data`."""
    expiration: float = 0
    """The record's lifetime in seconds, 0 for none."""
    delta: DeltaParts | None = None

    def __post_init__(self) -> None:
        _check_filter(self.filter)


class WriteAnswered(HistoryEvent, frozen=True, tag="written"):
    """The answer to a write. Without one, or with the status `unknown`, it may have taken effect or not."""

    id: str
    status: Literal["acknowledged", "unknown"]
    at: float
    position: str = ""
    """Where the command is in the log, as a bookmark."""
    effect: str = ""
    """The bookmark from which its effect is visible."""
    deleted: int | None = None
    """The number of records that a delete has removed."""
    reason: str = ""
    outcome: str = ""
    """What a delta is said to have done: `applied`, `noop` or `condition_false`."""


class ReadOpened(HistoryEvent, frozen=True, tag="open"):
    """A query or a subscription that the service has accepted, or the subscription of a fanout."""

    read: str
    """Its name in later events."""
    command: Literal["sow", "subscribe", "sow_and_subscribe", "delta_subscribe", "sow_and_delta_subscribe"]
    topic: str
    at: float
    filter: str = ""
    oof: bool = False
    conflated: bool = False
    bookmark: str = ""
    """Where a subscription without a group begins."""
    resumed: bool = False
    """Whether the bookmark is one that another read has received."""
    up_to: str = ""
    at_least: str = ""
    promise: Literal["", "read_your_writes", "monotonic_reads"] = ""
    """Where `at_least` comes from: from the reader's own writes, or from its earlier reads."""
    reflects: str = ""
    """For a view: the bookmark of its source up to which every write had been answered, and after which none was sent
    before the answer of this read.
    """
    order_by: str = ""
    skip_n: int = 0
    top_n: int | None = None
    groups: TotalsOf | None = None
    """What a read of groups computes of the records that match."""
    fanout: str = ""
    """The fanout whose Kafka topic is read, in place of what a service sends."""

    @property
    def is_computed(self) -> bool:
        """Whether its messages are steps of a whole result, of groups or of a live page, and not single changes."""
        return self.groups is not None or (self.command != "sow" and self.top_n is not None)

    def __post_init__(self) -> None:
        _check_filter(self.filter)
        if self.order_by and not all(ORDER.fullmatch(field) for field in self.order_by.split(", ")):
            raise ValueError(f"expected fields like /qty DESC, separated by commas, got {self.order_by!r}")


class MessageRead(HistoryEvent, frozen=True, tag="message"):
    """A message that the reader received, with the fields that the API names so."""

    read: str
    command: Literal["group_begin", "sow", "group_end", "publish", "oof", "progress"]
    at: float
    bookmark: str = ""
    sow_key: str = ""
    data: dict[str, Any] | None = None
    delta: bool = False
    removed: tuple[str, ...] = ()
    reason: str = ""
    timestamp: str = ""
    updated_at: str = ""
    correlation_id: str = ""
    records: int | None = None
    hash: str = ""
    more: bool = False
    """Whether the next message belongs to the same step of groups or of a page."""


class ReadEnded(HistoryEvent, frozen=True, tag="end"):
    """The end of a read: the reader left it, it was complete, or it failed with a reason."""

    read: str
    at: float
    bookmark: str = ""
    """Where the reader could resume: it has received everything up to here, or waited for it in vain at a fanout."""
    reason: str = ""
    bookmark_age_seconds: float = 0
    """For a resumed subscription that failed: the seconds since its bookmark was received."""


class FaultRun(HistoryEvent, frozen=True, tag="fault"):
    """A command that was run against the system."""

    command: str
    at: float
    exit_code: int


class Unanswered(HistoryEvent, frozen=True, tag="unanswered"):
    """An answer that did not come within the deadline, after which the workload ended."""

    message: str
    """What was expected, of which read or write, and what came."""
    at: float


Event = (
    HistoryBegin | WriteSent | WriteAnswered | ReadOpened | MessageRead | ReadEnded | FaultRun | Unanswered
)

_read_event = msgspec.json.Decoder(Event).decode
_write_event = msgspec.json.Encoder().encode


def read_history(lines: Iterable[bytes | str]) -> Iterator[Event]:
    """Yield the events of lines; raise `bad request` for a line that is no event, or that names something unknown."""
    known: set[tuple[str, str]] = set()
    number = 0
    for number, line in enumerate(lines, 1):
        try:
            event = _read_event(line)
        except msgspec.DecodeError as error:
            raise SowlineError("bad request", f"expected an event in line {number}: {error}") from None
        # A second one would describe other topics than those that earlier lines name (test_what_is_no_history).
        if (number == 1) is not isinstance(event, HistoryBegin):
            message = f"expected one begin, in the first line, got {event} in line {number}"
            raise SowlineError("bad request", message)
        if isinstance(event, HistoryBegin) and event.version != VERSION:
            raise SowlineError("bad request", f"expected a history of version {VERSION}, got {event.version}")
        # Here, because the judge looks these names up: it would fail without the number of the line
        # (test_what_is_no_history).
        if unknown := sorted({*_named(event)} - known):
            kind, name = unknown[0]
            raise SowlineError(
                "bad request", f"expected a {kind} of earlier lines, got {name!r} in line {number}"
            )
        known |= {*_introduced(event)}
        yield event
    if not number:
        raise SowlineError("bad request", "expected a history, got no line")


def _named(event: Event) -> Iterator[tuple[str, str]]:
    """Yield what an event names that others must have introduced."""
    match event:
        case WriteSent() | ReadOpened():
            yield "topic", event.topic
        case WriteAnswered():
            yield "write", event.id
        case MessageRead() | ReadEnded():
            yield "read", event.read
        case _:
            pass


def _introduced(event: Event) -> Iterator[tuple[str, str]]:
    """Yield what later events may name."""
    match event:
        case HistoryBegin():
            yield from (("topic", topic.name) for topic in event.topics)
        case WriteSent():
            yield "write", event.id
        case ReadOpened():
            yield "read", event.read
        case _:
            pass


def event_line(event: Event) -> bytes:
    """Return the line of an event, without its end."""
    return _write_event(event)
