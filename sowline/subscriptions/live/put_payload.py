"""Puts the messages of one step into an outbox: the client's view is consistent only after the last of them."""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from sowline.subscriptions.engine.change_message import change_message, with_relayed
from sowline.subscriptions.engine.delivery import Form, Payload
from sowline.subscriptions.engine.subscription import PUBLISH
from sowline.wire.server_message import with_rank

RankOf = Callable[[bytes], int | None]
"""Returns the rank of a record or group after the step, by its SOW key."""


class SubscriptionMessages(Protocol):
    """What an outbox has for the messages of subscriptions."""

    def put_behind(self, message: bytes, of: Iterable[str]) -> None:
        """Put a message of these subscriptions, after a group that is open."""


class Recipient(Protocol):
    """The destination and the form of one subscription's messages."""

    @property
    def outbox(self) -> SubscriptionMessages:
        """The outbox of its client."""
        ...

    @property
    def sub_id(self) -> str:
        """Its name."""
        ...

    @property
    def form(self) -> Form:
        """The content of its messages."""
        ...


def put_step(
    to: Recipient,
    topic: str,
    payloads: Sequence[Payload],
    before: str,
    now: str,
    rank_of: RankOf | None = None,
) -> None:
    """Put the messages of a step; all but the last are marked with `more` and have the bookmark before the step.

    With `rank_of`, each `publish` has its rank.
    """
    # A client that loses its connection within the step resumes before it, and gets the whole step again. With the
    # later bookmark it would miss the rest (test_the_messages_of_an_interval_are_one_step).
    for number, payload in enumerate(payloads, 1):
        more = number < len(payloads)
        rank = None if rank_of is None or payload.command != PUBLISH else rank_of(payload.sow_key)
        put_payload(to, topic, payload, before if more else now, more=more, rank=rank)


def put_payload(
    to: Recipient, topic: str, payload: Payload, bookmark: str, *, more: bool, rank: int | None = None
) -> None:
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
    if rank is not None:
        message = with_rank(message, rank)
    to.outbox.put_behind(message, sids)
