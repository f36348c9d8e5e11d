"""The answers of tools as JSON text, in which records stay as the service sent them. Pure.

A record is never read and written again, so large integers and decimals stay exact.
"""

from collections.abc import Mapping, Sequence

import msgspec
import orjson

from sowline.agents.catalog import UNTRUSTED
from sowline.agents.events import Event
from sowline.errors import SowlineError
from sowline.serving.sessions.events import END, FAILURE

ANSWER_BYTES_MAX = 256 * 1024
"""The bytes of records after which an answer is cut: an agent reads all of them into its context."""

CHANGES = ("publish", "oof")
_OF_CHANGE = ("topic", "sow_key", "reason", "timestamp", "correlation_id", "intrinsics", "data")
_OF_TOPIC = (
    "name",
    "key",
    "sow",
    "documents",
    "records",
    "select",
    "view",
    "loading",
    "lag_seconds",
    "bookmark",
)

_fields_of = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class _Failure(msgspec.Struct):
    reason: str
    message: str


_failure_of = msgspec.json.Decoder(_Failure).decode


def with_notice(**parts: bytes) -> str:
    """Return an answer with content of records, which begins with a notice that they are untrusted."""
    return json_object({"notice": orjson.dumps(UNTRUSTED), **parts})


def json_object(parts: Mapping[str, bytes]) -> str:
    """Return a JSON object of values that are JSON already."""
    members = ",".join(f'"{name}":{value.decode()}' for name, value in parts.items())
    return f"{{{members}}}"


def json_array(values: Sequence[bytes]) -> bytes:
    """Return a JSON array of values that are JSON already."""
    return b"[%b]" % b",".join(values)


def topics_answer(described: Mapping[str, object]) -> str:
    """Return the fields of topics that help to query them."""
    listed = described["topics"]
    assert isinstance(listed, list), "the service lists them"
    return orjson.dumps({"topics": [{name: one[name] for name in _OF_TOPIC} for one in listed]}).decode()


class Collected:
    """The records of an answer, up to its limits."""

    def __init__(self, records_max: int) -> None:
        self._records_max = records_max
        self._size_bytes = 0
        self.records: list[bytes] = []
        self.is_cut = False
        """Whether a record did not fit."""

    def add(self, record: bytes) -> bool:
        """Add a record, and return whether it fitted; the first always does."""
        self._size_bytes += len(record)
        has_room = len(self.records) < self._records_max and self._size_bytes <= ANSWER_BYTES_MAX
        if self.records and not has_room:
            self.is_cut = True
            return False
        self.records.append(record)
        return True


class CollectedChanges:
    """The changes of a subscription up to its end or to the limits, and the bookmark after the last of them."""

    def __init__(self, after: str, records_max: int) -> None:
        self.bookmark = after
        self.changes = Collected(records_max)
        self.is_over = False
        """Whether the answer is complete, or full."""

    def take(self, event: Event) -> None:
        """Take the next event; raise the failure that it reports."""
        if event.name == FAILURE:
            raise failure_in(event)
        if event.name in CHANGES and not self.changes.add(change_in(event)):
            # The bookmark stays before this change, with which the next call begins.
            self.is_over = True
            return
        self.bookmark = event.id.removesuffix(END) or self.bookmark
        self.is_over = event.name == "completed" and event.id.endswith(END)

    @property
    def answer(self) -> str:
        """The answer of the tool."""
        return with_notice(
            bookmark=orjson.dumps(self.bookmark),
            more=orjson.dumps(self.changes.is_cut),
            changes=json_array(self.changes.records),
        )


def failure_in(event: Event) -> SowlineError:
    """Return the error that the last event of a stream reports."""
    failure = _failure_of(event.data)
    return SowlineError(failure.reason, failure.message)


def change_in(event: Event) -> bytes:
    """Return a change as an agent gets it: without what belongs to the subscription."""
    fields = _fields_of(event.data)
    kept = {name: fields[name] for name in _OF_CHANGE if name in fields}
    return msgspec.json.encode({"change": event.name, **kept})


def matched_in(event: Event) -> bytes:
    """Return the record of a change."""
    fields = _fields_of(event.data)
    return msgspec.json.encode(
        {name: fields[name] for name in ("topic", "sow_key", "data") if name in fields}
    )
