"""The form in which a subscriber receives a change: which fields, and whether as a delta. Pure."""

from functools import lru_cache
from typing import NamedTuple

import orjson

from sowline.config.topic_definition import TopicDefinition
from sowline.errors import SowlineError
from sowline.language.emodb.writes import DocumentMetadata, intrinsics_json
from sowline.model.difference import ChangeDelta, Keys, difference
from sowline.model.merge import merge, take_out
from sowline.model.select import Select
from sowline.subscriptions.engine.subscription import MATCH, OOF, PUBLISH, Delivery
from sowline.wire.options import Options


class Form(NamedTuple):
    """The content of a subscriber's messages.

    With `intrinsics` no message is empty, because every write changes some of them.
    """

    select: Select | None = None
    delta: bool = False
    no_empties: bool = False
    sow_key: bool = True
    timestamp: bool = False
    intrinsics: bool = False

    @classmethod
    def of(cls, options: Options, *, delta: bool = False) -> "Form":
        """Return the form that the options of a read request."""
        return cls(
            options.select,
            delta,
            options.no_empties and not options.intrinsics,
            not options.no_sowkey,
            options.timestamp,
            options.intrinsics,
        )

    @classmethod
    def live(cls, options: Options, topic: TopicDefinition, *, delta: bool) -> "Form":
        """Return the form of live messages about the records of a topic, or about groups of them."""
        has_deltas = topic.has_deltas or bool(options.projection)
        form = cls.of(options, delta=delta and has_deltas)
        return form if topic.has_sow else form._replace(sow_key=False)

    def __or__(self, other: "Form") -> "Form":
        """Return the form of a message that serves both."""
        if self == other:
            return self
        return Form(
            _either(self.select, other.select),
            self.delta and other.delta,
            self.no_empties and other.no_empties,
            self.sow_key or other.sow_key,
            self.timestamp or other.timestamp,
            self.intrinsics or other.intrinsics,
        )


@lru_cache(maxsize=1024)
def _either(first: Select | None, second: Select | None) -> Select | None:
    """Return a select list of all fields that either has; None is all fields."""
    return None if first is None or second is None else first | second


class Payload(NamedTuple):
    """One message for a subscriber, without its bookmark; `time` is in ms since 1970.

    `known` is the metadata of a document. `removed` makes it a delta: `body` holds key fields and changed fields,
    and `removed` names the removed ones. `correlation` is the text that came with the command. `relayed` is what a
    gateway needs to know of the record.
    """

    sow_key: bytes
    command: str
    body: bytes
    time: int | None
    reason: str | None = None
    removed: tuple[str, ...] | None = None
    known: DocumentMetadata | None = None
    correlation: str | None = None
    relayed: bytes | None = None


class Deltas:
    """The delta of one change, computed at most once for each select list."""

    __slots__ = ("_found", "_keys")

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._found: dict[Select | None, ChangeDelta] = {}

    def of(self, delivery: Delivery, form: Form) -> ChangeDelta | None:
        """Return the delta to send; None if the whole record must be sent."""
        if not form.delta or delivery.previous is None or delivery.command != PUBLISH:
            return None
        delta = self._found.get(form.select)
        if delta is None:
            delta = difference(delivery.previous, delivery.body, self._keys, form.select)
            self._found[form.select] = delta
        return None if delta.whole else delta

    def shared(self, delivery: Delivery, form: Form, selects: frozenset[Select | None]) -> ChangeDelta | None:
        """Return the delta to send to several subscribers at once; None if the whole record must be sent.

        `form` serves all of them.
        """
        delta = self.of(delivery, form)
        if delta is None or len(selects) == 1:
            return delta
        # A delta of all selected fields need not be right for each subscriber. If one selects only a part of an
        # object, the delta may not show whether that object exists
        # (test_deltas_are_shared_where_they_tell_each_enough).
        return delta if all(_tells(delivery, delta, select) for select in selects) else None


def _tells(delivery: Delivery, delta: ChangeDelta, select: Select | None) -> bool:
    """Whether a subscriber that applies the selected part of a delta then holds the selected part of the record."""
    if select is None or delivery.previous is None:
        return select is None
    held, now = select.apply(delivery.previous), select.apply(delivery.body)
    try:
        after = take_out(merge(held, select.apply(delta.body)), delta.removed)
    except SowlineError:
        return False
    return bool(orjson.loads(after) == orjson.loads(now))


def payload_of(
    sow_key: bytes, delivery: Delivery, form: Form, deltas: Deltas, time: int | None
) -> Payload | None:
    """Return the message to one subscriber; None if it would be empty and empty messages are not wanted."""
    delta = deltas.of(delivery, form)
    if delta is None:
        return whole_payload(sow_key, delivery, form, time)
    if form.no_empties and not delta.changed:
        return None
    return delta_payload(sow_key, delivery, delta, time)


def delta_payload(sow_key: bytes, delivery: Delivery, delta: ChangeDelta, time: int | None) -> Payload:
    """Return the message that sends a delta."""
    known, correlation = delivery.known, delivery.correlation
    return Payload(sow_key, delivery.command, delta.body, time, None, delta.removed, known, correlation)


def whole_payload(sow_key: bytes, delivery: Delivery, form: Form, time: int | None) -> Payload:
    """Return the message with all requested fields of a record."""
    body = selected(delivery.body, form)
    known, correlation = delivery.known, delivery.correlation
    return Payload(sow_key, delivery.command, body, time, delivery.reason, None, known, correlation)


def intrinsics_of(table: str, form: Form, delivery: Delivery | Payload) -> bytes | None:
    """Return the intrinsics of a message as JSON; None if not requested, or if the record is not a document."""
    if not form.intrinsics or delivery.known is None:
        return None
    return intrinsics_json(
        table, delivery.known, deleted=delivery.command == OOF and delivery.reason != MATCH
    )


def selected(body: bytes, form: Form) -> bytes:
    """Return the fields of a body that are sent."""
    return body if form.select is None else form.select.apply(body)
