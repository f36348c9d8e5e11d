"""The subscription engine: computes from one change the message for one subscription. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import orjson

from sowline.changes.change import DELETED, Change
from sowline.language.emodb.writes import DocumentMetadata, Writes
from sowline.language.filter import UNKNOWN, Filter, FilterError, Metadata, require_deterministic
from sowline.language.filter.metadata import document_about
from sowline.language.filter.tree import Call, walk
from sowline.model.position import Position

PUBLISH = "publish"
OOF = "oof"
MATCH = "match"
ENTITLEMENT = "entitlement"

_UNREAD = object()

WITHOUT_VALUE_BEFORE = ("LAST_UPDATED", "CORRELATION_ID", "BOOKMARK")
"""Functions whose value for the previous record can't be computed from the change."""


class ChangeView:
    """A change, shared by all subscriptions: both bodies are parsed at most once.

    `topic` is the metadata that all records of the topic share. `log_partition` is the log and the partition, as in
    bookmarks. `after` is the position of the partition before the change. A change does not contain when, and with
    which correlation, the previous record was written: these values are NULL.
    """

    __slots__ = (
        "_about_before",
        "_about_now",
        "_before",
        "_now",
        "after",
        "change",
        "log_partition",
        "topic",
    )

    def __init__(
        self,
        change: Change,
        topic: Metadata = UNKNOWN,
        log_partition: str = "",
        stood_at: Position | None = None,
    ) -> None:
        self.change = change
        # The partition may be beyond `change.after`: progress events move its position without a change. A step's
        # first messages carry `after` as their bookmark, and a client's bookmark must not go back.
        after = change.after
        self.after = after if stood_at is None or stood_at < after else stood_at
        self.topic = topic
        self.log_partition = log_partition
        self._before: Any = _UNREAD
        self._now: Any = _UNREAD
        self._about_before: Metadata | None = None
        self._about_now: Metadata | None = None

    @property
    def before(self) -> dict[str, Any] | None:
        """The record before the change; None if there was none."""
        if self._before is _UNREAD:
            previous = self.change.previous
            self._before = None if previous is None else orjson.loads(previous)
        before: dict[str, Any] | None = self._before
        return before

    @property
    def now(self) -> dict[str, Any] | None:
        """The record after the change; None if it was deleted."""
        if self._now is _UNREAD:
            body = self.change.body
            self._now = None if body is None else orjson.loads(body)
        now: dict[str, Any] | None = self._now
        return now

    @property
    def about_before(self) -> Metadata:
        """The metadata of the record before the change."""
        if self._about_before is None:
            change = self.change
            self._about_before = self._of_document(change.writes_before)._replace(
                sow_key=change.sow_key.decode(), size=len(change.previous or b"")
            )
        return self._about_before

    @property
    def about_now(self) -> Metadata:
        """The metadata of the record after the change."""
        if self._about_now is None:
            change = self.change
            self._about_now = self._of_document(change.writes)._replace(
                sow_key=change.sow_key.decode(),
                bookmark=f"{self.log_partition}@{change.position}" if self.log_partition else None,
                size=len(change.body or b""),
                updated=change.time / 1000,
                correlation=change.correlation,
            )
        return self._about_now

    def _of_document(self, writes: Writes | None) -> Metadata:
        if writes is None:
            return self.topic  # a record of a topic without documents
        return document_about(self.topic, self.change.key_text or "", writes)

    def verdicts(self, filters: Sequence[Filter], *, is_now: bool) -> list[bool]:
        """Return for each filter whether it matches the record after the change, or else the one before it."""
        document = self.now if is_now else self.before
        if document is None:
            return [False] * len(filters)
        if not any(filter.needs_about for filter in filters):
            return [filter.matches(document) for filter in filters]
        about = self.about_now if is_now else self.about_before
        return [filter.matches_about(document, about) for filter in filters]

    def matches_now(self, filter: Filter) -> bool:
        """Whether there is a record after the change, and it matches the filter."""
        if self.now is None:
            return False
        return (
            filter.matches_about(self.now, self.about_now) if filter.needs_about else filter.matches(self.now)
        )

    def matched_before(self, filter: Filter) -> bool:
        """Whether there was a record before the change, and it matched the filter."""
        if self.before is None:
            return False
        before = self.before
        return (
            filter.matches_about(before, self.about_before) if filter.needs_about else filter.matches(before)
        )


class Delivery(msgspec.Struct, frozen=True, gc=False):
    """The message of a change for one subscription.

    The body of an `oof` is the new record, or the previous one if the record was deleted. `previous` is the record as
    a subscriber with `oof` or `delta` holds it; None if the subscriber holds none, and for other subscribers. `known`
    is the metadata of a document, also of a deleted one. `correlation` is the text that came with the command.
    """

    command: str
    body: bytes
    reason: str | None = None
    previous: bytes | None = None
    known: DocumentMetadata | None = None
    correlation: str | None = None


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscriber's request: records that match the filter, and with `oof` a message when one no longer matches.

    With `delta` it gets deltas of records that it holds. With `no_redundant` it gets no message for a redundant write
    that leaves a record in focus.
    """

    filter: Filter
    oof: bool = False
    delta: bool = False
    no_redundant: bool = False

    @property
    def looks_back(self) -> bool:
        """Whether the message depends on the record before a change."""
        return self.oof or self.delta

    def on_change(self, seen: ChangeView) -> Delivery | None:
        """Return the message for the subscriber; None if the change does not concern it."""
        if seen.change.shows_nothing_new:
            return None
        # Parse the previous body only for subscribers that need it: that doubles the work for each change
        # (test_without_oof_the_previous_record_is_not_read).
        is_held = self.looks_back and seen.matched_before(self.filter)
        if seen.matches_now(self.filter):
            if self.no_redundant and seen.change.is_redundant and seen.matched_before(self.filter):
                return None
            return updated(seen.change) if is_held else entered(seen.change)
        return left(seen.change) if self.oof and is_held else None


def entered(change: Change) -> Delivery:
    """Return the message to subscribers that match the new record and may not hold the previous one."""
    assert change.body is not None, "what enters is there"
    return Delivery(PUBLISH, change.body, known=change.known, correlation=change.correlation)


def updated(change: Change) -> Delivery:
    """Return the message to subscribers that match the new record and hold the previous one."""
    assert change.body is not None, "what is updated is there"
    return Delivery(PUBLISH, change.body, None, change.previous, change.known, change.correlation)


def left(change: Change) -> Delivery:
    """Return the message to subscribers with `oof` that matched the previous record only."""
    assert change.previous is not None, "what leaves was there"
    if change.body is not None:
        return Delivery(OOF, change.body, MATCH, change.previous, change.known, change.correlation)
    reason = change.reason or DELETED
    return Delivery(OOF, change.previous, reason, change.previous, change.known, change.correlation)


def entitled(delivery: Delivery, filter: Filter) -> Delivery:
    """Return the message for a user who may see only the records that match the filter.

    If the record no longer matches, the message has the previous record, and nothing of the new write.
    """
    # An `oof` for a record that no longer matches has the new body, which the user may not be allowed to see
    # (test_who_may_not_see_the_new_record_shares_no_message_of_it).
    if delivery.command != OOF or delivery.reason != MATCH or filter.matches(orjson.loads(delivery.body)):
        return delivery
    assert delivery.previous is not None, (
        "a client that may not see a record gets a message only of one that it saw"
    )
    # Neither the correlation nor the metadata of the new write: the user may not know of it
    # (test_the_correlation_of_the_command_goes_along).
    return hidden(delivery.previous)


def hidden(held: bytes) -> Delivery:
    """Return the message for a user who may no longer see a record, and has this body of it."""
    return Delivery(OOF, held, ENTITLEMENT, held)


def left_sight(seen: ChangeView, entitlement: Filter) -> Delivery | None:
    """Return the `oof` of a change that takes a record out of a user's sight; None if it does not.

    The last such change decides what a user who was away is told: what happens to the record later is not for it.
    """
    if not seen.matched_before(entitlement) or seen.matches_now(entitlement):
        return None
    return entitled(left(seen.change), entitlement)


def as_left(gone: Delivery | None, held: bytes) -> Delivery:
    """Return the `oof` of a record that left a user's sight, for a client that holds this body of it.

    Without the change that it left by, it is hidden: a filter of the time, for example, may hide it without any.
    """
    if gone is None:
        return hidden(held)
    return msgspec.structs.replace(gone, body=held, previous=held, correlation=None)


def is_sent_before(filter: Filter) -> bool:
    """Whether the filter can be evaluated for the record before a change, with the same result as at that time."""
    return not filter.nondeterministic and not _without_value_before(filter)


def require_sent_before(filter: Filter, where: str) -> None:
    """Raise `FilterError` unless `is_sent_before`; `where` names the filter in the message."""
    require_deterministic(filter, where)
    for call in _without_value_before(filter):
        raise FilterError(
            f"{call.name} at column {call.column} can't be used in {where}; expected only functions that a change has"
            " of the record before",
            call.column,
        )


def _without_value_before(filter: Filter) -> list[Call]:
    return [
        node for node in walk(filter.tree) if isinstance(node, Call) and node.name in WITHOUT_VALUE_BEFORE
    ]
