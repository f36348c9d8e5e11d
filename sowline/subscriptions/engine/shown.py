"""Records and groups as the client of a page or of groups holds them, and the difference between two views. Pure."""

from collections.abc import Callable, Container, Mapping

import msgspec
import orjson
from msgspec.structs import replace

from sowline.changes.change import DELETED
from sowline.config.topic_definition import TopicDefinition
from sowline.language.emodb.writes import DocumentMetadata
from sowline.language.expressions.order import Order
from sowline.language.expressions.projection import parse_projection
from sowline.language.filter import Filter
from sowline.model.difference import Keys
from sowline.model.position import before_the_log
from sowline.subscriptions.engine.subscription import MATCH, OOF, PUBLISH, Delivery, entitled
from sowline.wire.options import Options

Due = list[tuple[bytes, Delivery]]
"""Messages for one subscriber: the SOW key of the record or group, and its message."""


class ShownRecord(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A record or group as a view shows it; `position` and `partition` are those of a record's last change."""

    # A page holds one for each record that matches. The garbage collector passes over them, and over plain tuples.
    # With a hundred pages of 200,000 records, each of its full passes would stop the service for a second
    # (test_the_garbage_collector_passes_over_the_records_of_a_page).

    body: bytes
    time: int
    partition: int = 0
    position: tuple[int, int, int] | None = None
    known: DocumentMetadata | None = None

    def relayed(self) -> bytes:
        """Return all but the body as JSON, for a gateway."""
        assert self.partition >= 0, "partitions are numbered from 0"
        return msgspec.json.encode(replace(self, body=b""))

    def as_guess(self) -> "ShownRecord":
        """Return the same, but say that the body at the client is not known exactly."""
        return replace(self, position=GUESSED)

    @classmethod
    def read(cls, body: bytes, relayed: bytes) -> "ShownRecord":
        """Return the record with this body, and what was relayed of it."""
        return replace(_read_relayed(relayed), body=body)


_read_relayed = msgspec.json.Decoder(ShownRecord).decode

GUESSED = before_the_log()
"""The position of a record whose exact body at the client is unknown, or has another form."""


def as_sent(delivery: Delivery, entitlement: Filter | None, *, is_conflated: bool) -> Delivery:
    """Return the message for a user who may see only the records that match `entitlement`; None is all.

    With `is_conflated` the topic is a conflated one.
    """
    sent = delivery if entitlement is None else entitled(delivery, entitlement)
    # An interval may hold changes between the record that a subscriber received and the one that no longer matches
    # (test_an_oof_has_what_the_subscriber_received).
    return as_held(sent) if is_conflated else sent


def as_held(delivery: Delivery) -> Delivery:
    """Return the message for a conflated subscriber: an `oof` has the body that the client holds."""
    return (
        replace(delivery, body=delivery.previous)
        if delivery.command == OOF and delivery.previous is not None
        else delivery
    )


def no_longer_shown(body: bytes, present: bytes | None, known: DocumentMetadata | None = None) -> Delivery:
    """Return the `oof` for a record that a viewer held with this body; `present` is None if it was deleted."""
    if present is None:
        return Delivery(OOF, body, DELETED, body, known)
    return Delivery(OOF, present, MATCH, body, known)


def is_redundant(delivery: Delivery, *, of_changed: bool) -> bool:
    """Whether the message of a redundant write changes nothing; `of_changed`: it is about the written document."""
    return (
        delivery.command == PUBLISH
        and delivery.previous is not None
        and (of_changed or delivery.previous == delivery.body)
    )


def as_they_were(held: ShownRecord, shown: ShownRecord) -> bool:
    """Whether only redundant writes lie between two states of a document."""
    one, other = held.known, shown.known
    if one is None or other is None or held.body != shown.body:
        return False
    return (one.writes.mutated, one.writes.tags) == (other.writes.mutated, other.writes.tags)


def keys_shown(topic: TopicDefinition, options: Options) -> Keys:
    """Return the fields that every delta of an entry has: the key fields, or the grouping fields."""
    if not options.projection:
        return topic.key_fields
    return parse_projection(options.projection).key_fields(options.grouping)


def identifying_fields(topic: TopicDefinition, options: Options) -> Keys:
    """Return the fields that tell an entry of a view from all others; empty if none do."""
    # A view may show a part of its source's key. Records that are equal there are not one
    # (test_a_part_of_the_key_is_no_conflation_key).
    if not options.projection:
        return topic.identified_by
    return tuple(tuple(map(str, path.steps)) for path in options.grouping)


def difference(
    held: Mapping[bytes, ShownRecord],
    now: Mapping[bytes, ShownRecord],
    left: Callable[[bytes, bytes], Delivery],
    *,
    oof: bool,
    no_redundant: bool = False,
    touched: Container[bytes] = (),
) -> Due:
    """Return the messages that turn the view that a client holds into the current one; `oof` only if requested.

    `left` makes the `oof` of a record or group with this SOW key and this body. A `touched` entry is sent, even if it
    is as it was.
    """
    due = [(key, left(key, shown.body)) for key, shown in held.items() if oof and key not in now]
    for key, shown in now.items():
        was = held.get(key)
        # After undoing changes, the exact body at the client may be unknown. A delta against a guess could be
        # wrong, so the whole body is sent (test_groups_of_a_guess_are_sent_whole).
        if was is None or was.position == GUESSED:
            due.append((key, Delivery(PUBLISH, shown.body, known=shown.known)))
        elif key in touched or (
            (was.body, was.position) != (shown.body, shown.position)
            and not (no_redundant and as_they_were(was, shown))
        ):
            due.append((key, Delivery(PUBLISH, shown.body, previous=was.body, known=shown.known)))
    return due


def in_order(
    shown: Mapping[bytes, ShownRecord], order: Order, skip: int, end: int | None
) -> dict[bytes, ShownRecord]:
    """Return the requested groups in the requested order: those after the first `skip`, up to number `end`."""
    groups = list(shown.items())
    if order.terms:
        groups.sort(key=lambda group: order.key(orjson.loads(group[1].body), group[0]))
    return dict(groups[skip:end])
