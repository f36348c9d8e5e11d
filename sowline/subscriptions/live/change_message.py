"""Builds the messages `publish` and `oof`, and puts the messages of one step into an outbox.

The messages of a step belong together: the client's view is consistent only after the last of them.
"""

from collections.abc import Sequence
from typing import Protocol

from sowline.serving.outbox.outbox import Outbox
from sowline.subscriptions.engine.delivery import Form, Payload, intrinsics_of
from sowline.subscriptions.engine.subscription import Delivery
from sowline.wire.server_message import change_prefix, change_suffix


class Recipient(Protocol):
    """The destination and the form of one subscription's messages."""

    @property
    def outbox(self) -> Outbox:
        """The outbox of its client."""

    @property
    def sub_id(self) -> str:
        """Its name."""

    @property
    def form(self) -> Form:
        """The content of its messages."""


def put_step(to: Recipient, topic: str, payloads: Sequence[Payload], before: str, now: str) -> None:
    """Put the messages of a step; all but the last are marked with `more` and have the bookmark before the step."""
    # A client that loses its connection within the step resumes before it, and gets the whole step again. With the
    # later bookmark it would miss the rest (test_the_messages_of_an_interval_are_one_step).
    for number, payload in enumerate(payloads, 1):
        more = number < len(payloads)
        put_payload(to, topic, payload, before if more else now, more=more)


def put_payload(to: Recipient, topic: str, payload: Payload, bookmark: str, *, more: bool) -> None:
    """Put one message into the outbox."""
    sids = (to.sub_id,)
    message = change_message(
        sids,
        topic,
        to.form,
        payload,
        payload.sow_key,
        payload.body,
        payload.time,
        bookmark,
        removed=payload.removed,
        more=more,
    )
    if payload.relayed is not None:
        message = with_relayed(message, payload.relayed)
    to.outbox.put_behind(message, sids)


def with_relayed(message: bytes, relayed: bytes) -> bytes:
    """Return a message or a record with what a gateway needs to know of the record."""
    return b'%s,"relayed":%s}' % (message[:-1], relayed)


def change_message(
    sids: Sequence[str],
    topic: str,
    form: Form,
    outcome: Delivery | Payload,
    sow_key: bytes,
    body: bytes,
    time: int | None,
    bookmark: str,
    *,
    removed: Sequence[str] | None,
    more: bool = False,
) -> bytes:
    """Return the message of a delivery or payload with this body; `removed` makes it a delta."""
    prefix = change_prefix(outcome.command, sids, outcome.reason, more=more, removed=removed)
    return prefix + change_suffix(
        topic,
        sow_key if form.sow_key else None,
        bookmark,
        body,
        time if form.timestamp else None,
        intrinsics_of(topic, form, outcome),
        outcome.correlation,
    )
