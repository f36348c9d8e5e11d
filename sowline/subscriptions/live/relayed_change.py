"""A change as a query service sends it to a gateway that makes the client's messages itself."""

import msgspec

from sowline.language.emodb.writes import DocumentMetadata
from sowline.model.position import Position
from sowline.model.select import Select
from sowline.subscriptions.engine.change_message import change_message, with_relayed
from sowline.subscriptions.engine.delivery import Form
from sowline.subscriptions.engine.subscription import ChangeView, Delivery

WHOLE = Form(sow_key=True)


class RelayedChange(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The data that the message of a change lacks: the position of the partition before it, and its time in ms.

    `replay_time` is the time by which it is replayed, if that differs. `previous` and `known` are as in a `Delivery`.
    """

    after: Position
    time: int
    previous: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    known: DocumentMetadata | None = None
    replay_time: int | None = None


_encode = msgspec.json.Encoder().encode
read_relayed_change = msgspec.json.Decoder(RelayedChange).decode


def relayed_message(
    sub_id: str, topic: str, readable: Select | None, seen: ChangeView, delivery: Delivery, bookmark: str
) -> bytes:
    """Return the message of a change for a gateway; `readable` are the fields that the client may see."""
    change, body, previous = seen.change, delivery.body, delivery.previous
    assert seen.after < change.position, "a change moves its partition on"
    # Here and not at the gateway: fields that the client may not see do not leave the query service.
    if readable is not None:
        body, previous = readable.apply(body), None if previous is None else readable.apply(previous)
    raw = msgspec.UNSET if previous is None else msgspec.Raw(previous)
    replay_time = None if change.replay_time == change.time else change.replay_time
    relayed = RelayedChange(seen.after, change.time, raw, delivery.known, replay_time)
    sow_key, sids = change.sow_key, (sub_id,)
    message = change_message(sids, topic, WHOLE, delivery, sow_key, body, None, bookmark, removed=None)
    return with_relayed(message, _encode(relayed))


def relayed_delivery(
    command: str, body: bytes, reason: str | None, correlation: str | None, relayed: RelayedChange
) -> Delivery:
    """Return the delivery in a message with these fields."""
    previous = None if isinstance(relayed.previous, msgspec.UnsetType) else bytes(relayed.previous)
    return Delivery(command, body, reason, previous, relayed.known, correlation)
