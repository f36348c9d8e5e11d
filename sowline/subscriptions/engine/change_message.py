"""Writes the messages `publish` and `oof`. Pure."""

from collections.abc import Sequence

from sowline.subscriptions.engine.delivery import Form, Payload, intrinsics_of
from sowline.subscriptions.engine.subscription import Delivery
from sowline.wire.server_message import change_prefix, change_suffix


def with_relayed(message: bytes, relayed: bytes) -> bytes:
    """Return a message or a record with what a gateway needs to know of the record."""
    return b'%s,"relayed":%s}' % (message[:-1], relayed)


def change_message(  # noqa: PLR0913 - each message passes here: one object more costs time
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
