"""Steps: messages to one subscription that belong together, because its view is true only behind the last."""

from collections.abc import Sequence

from fanout.telling import Form, Told, account
from query_service.outbox import Outbox
from sowline.wire import change_head, change_tail


def put_step(
    outbox: Outbox, sub_id: str, topic: str, form: Form, told: Sequence[Told], before: str, now: str
) -> None:
    """Put the messages of a step; all but the last say that there is more, and the bookmark before them."""
    for number, message in enumerate(told, 1):
        more = number < len(told)
        put_told(outbox, sub_id, topic, form, message, before if more else now, more=more)


def put_told(
    outbox: Outbox, sub_id: str, topic: str, form: Form, told: Told, bookmark: str, *, more: bool
) -> None:
    """Put one message."""
    head = change_head(told.command, [sub_id], told.reason, more=more, removed=told.removed)
    key = told.sow_key if form.sow_key else None
    time = told.time if form.timestamp else None
    tail = change_tail(topic, key, bookmark, told.body, time, account(topic, form, told))
    outbox.put(head + tail)
