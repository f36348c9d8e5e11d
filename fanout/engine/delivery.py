"""The form in which a subscriber receives a change: which fields, and whether as a delta. Pure."""

from functools import lru_cache
from typing import NamedTuple

import orjson

from fanout.engine.subscription import MATCH, OOF, PUBLISH, Delivery
from sowline.emodb.writes import DocumentMetadata, intrinsics_json
from sowline.errors import SowlineError
from sowline.model.difference import ChangeDelta, Keys, difference
from sowline.model.merge import merge, take_out
from sowline.model.select import Select
from sowline.protocol.options import Options


class Form(NamedTuple):
    """What a subscriber wants of a message. With `intrinsics` nothing is empty: every write changes some of them."""

    select: Select | None = None
    delta: bool = False
    no_empties: bool = False
    sow_key: bool = True
    timestamp: bool = False
    intrinsics: bool = False

    @classmethod
    def of(cls, options: Options, *, delta: bool = False) -> "Form":
        """The form that the options of a read ask for."""
        return cls(
            options.select,
            delta,
            options.no_empties and not options.intrinsics,
            not options.no_sowkey,
            options.timestamp,
            options.intrinsics,
        )

    def __or__(self, other: "Form") -> "Form":
        """What a message has to have that is for both."""
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
    """The list of what either sends; None is all."""
    return None if first is None or second is None else first | second


class Payload(NamedTuple):
    """One message for a subscriber, but for where it then stands; `time` is in ms since 1970.

    `known` is what is known of a document. `removed` makes it a delta: `body` holds key fields and changed fields,
    and `removed` names those removed. `correlation` is the text that came with the command.
    """

    sow_key: bytes
    command: str
    body: bytes
    time: int | None
    reason: str | None = None
    removed: tuple[str, ...] | None = None
    known: DocumentMetadata | None = None
    correlation: str | None = None


class Deltas:
    """What one change did to its record, worked out at most once for each select list."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._found: dict[Select | None, ChangeDelta] = {}

    def of(self, delivery: Delivery, form: Form) -> ChangeDelta | None:
        """The delta to send; None if the whole record must be sent."""
        if not form.delta or delivery.previous is None or delivery.command != PUBLISH:
            return None
        delta = self._found.get(form.select)
        if delta is None:
            delta = difference(delivery.previous, delivery.body, self._keys, form.select)
            self._found[form.select] = delta
        return None if delta.whole else delta

    def shared(self, delivery: Delivery, form: Form, selects: frozenset[Select | None]) -> ChangeDelta | None:
        """The delta to send to several subscribers at once, `form` being for all of them; None if the whole record
        must be sent.

        A delta of all that they select is not always one of what each selects: of an object of which one of
        them is sent nothing, or not all, it does not say to that one whether it is there.
        """
        delta = self.of(delivery, form)
        if delta is None or len(selects) == 1:
            return delta
        return delta if all(_tells(delivery, delta, select) for select in selects) else None


def _tells(delivery: Delivery, delta: ChangeDelta, select: Select | None) -> bool:
    """Whether who keeps of a delta only what it selects holds what it would be sent whole."""
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
    """The intrinsics of a message, as JSON; None if they are not requested, or the record is not a document."""
    if not form.intrinsics or delivery.known is None:
        return None
    return intrinsics_json(
        table, delivery.known, deleted=delivery.command == OOF and delivery.reason != MATCH
    )


def selected(body: bytes, form: Form) -> bytes:
    """The fields of a body that are sent."""
    return body if form.select is None else form.select.apply(body)
