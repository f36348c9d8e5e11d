"""Makes the messages of a change to many subscriptions: which connection is sent which bytes. Pure."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from sowline.changes.change import Change
from sowline.config.topic_definition import TopicDefinition
from sowline.model.bookmark import format_position
from sowline.model.select import Select
from sowline.subscriptions.engine.change_message import change_message
from sowline.subscriptions.engine.delivery import Deltas, Form, selected
from sowline.subscriptions.engine.subscription import Delivery


class Addressee(NamedTuple):
    """The subscriptions of one connection that share a message, and the form that serves all of them."""

    sids: tuple[str, ...]
    form: Form
    selects: frozenset[Select | None]

    def with_(self, other: "Addressee") -> "Addressee":
        """Return an addressee for the subscriptions of both."""
        return Addressee(self.sids + other.sids, self.form | other.form, self.selects | other.selects)


class MessageTerms(NamedTuple):
    """The properties that decide the messages of one subscription, and with which others it shares them."""

    connection: Any
    """Identifies its connection: hashable."""
    as_deltas: Addressee
    whole: Addressee
    no_empties: bool
    shares: bool
    """Whether a gateway passes its messages on to several clients: then only equal ones are sent as one."""

    @classmethod
    def of(cls, connection: Any, sub_id: str, form: Form, *, shares: bool) -> "MessageTerms":
        """Return the terms of a subscription with this form."""
        # Whether empty messages are left out decides who gets a message, not what is in it. With the option in the
        # form, a gateway's subscriptions with it and without it would not share their messages
        # (test_deltas_with_and_without_empty_ones_share_a_message).
        plain = form._replace(no_empties=False)
        as_deltas = Addressee((sub_id,), plain, frozenset({form.select}))
        whole = as_deltas._replace(form=plain._replace(delta=False))
        return cls(connection, as_deltas, whole, form.no_empties, shares)


class HasTerms(Protocol):
    """A subscription with its terms."""

    @property
    def terms(self) -> MessageTerms:
        """The properties that decide its messages."""
        ...


S = TypeVar("S", bound=HasTerms)


Outgoing: TypeAlias = tuple[Any, bytes, tuple[str, ...]]
"""A connection, the message that is sent to it, and the subscriptions that it is for."""

_Due: TypeAlias = tuple[MessageTerms, Delivery, Addressee]


def deliver(
    topic: TopicDefinition,
    partition: int,
    change: Change,
    found: Sequence[tuple[S, Delivery]],
    deltas: Deltas,
) -> tuple[list[Outgoing], list[S]]:
    """Return the messages of a change of a partition, and the subscriptions that get one.

    `found` has the subscriptions that the change concerns, each with its delivery as its user may see it. `deltas`
    are those of the change.

    Subscriptions of one connection share a message. It has the fields that any of them selects; if one of them needs
    the whole record, all get it. Subscriptions of a gateway are those of many clients: there only equal messages are
    one.
    """
    due: list[_Due] = []
    reached: list[S] = []
    for subscriber, delivery in found:
        terms = subscriber.terms
        to = terms.whole
        if terms.as_deltas.form.delta:
            delta = deltas.of(delivery, terms.as_deltas.form)
            if delta is not None:
                if terms.no_empties and not delta.changed:
                    continue
                to = terms.as_deltas
        reached.append(subscriber)
        due.append((terms, delivery, to))
    if len(due) != 1:
        return _shared(topic, partition, change, due, deltas), reached
    # By far the most frequent case: nothing is shared.
    ((terms, delivery, to),) = due
    return [(terms.connection, _message(topic, partition, change, delivery, to, deltas), to.sids)], reached


def _shared(
    topic: TopicDefinition, partition: int, change: Change, due: Sequence[_Due], deltas: Deltas
) -> list[Outgoing]:
    """Return the messages of a change to several subscriptions."""
    slots: dict[tuple[Any, str, Form | None], tuple[Delivery, Addressee]] = {}
    for terms, delivery, to in due:
        slot = terms.connection, delivery.command, to.form if terms.shares else None
        other = slots.get(slot)
        slots[slot] = (delivery, to) if other is None else (delivery, other[1].with_(to))
    made: dict[tuple[str, str | None, Addressee], bytes] = {}
    outgoing: list[Outgoing] = []
    for (connection, command, _), (delivery, to) in slots.items():
        # The reason is part of the key: a user who may not see the new record gets `oof` with reason `entitlement`
        # and the previous body. Shared by the command alone, the message of another user would reveal the new one.
        kind = command, delivery.reason, to
        message = made.get(kind)
        if message is None:
            message = made[kind] = _message(topic, partition, change, delivery, to, deltas)
        outgoing.append((connection, message, to.sids))
    return outgoing


def _message(
    topic: TopicDefinition, partition: int, change: Change, delivery: Delivery, to: Addressee, deltas: Deltas
) -> bytes:
    form = to.form
    delta = deltas.shared(delivery, form, to.selects) if form.delta else None
    body = selected(delivery.body, form) if delta is None else delta.body
    removed = None if delta is None else delta.removed
    bookmark = format_position(topic.log, partition, change.position)
    return change_message(
        to.sids, topic.name, form, delivery, change.sow_key, body, change.time, bookmark, removed=removed
    )
