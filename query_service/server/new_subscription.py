"""Makes the subscription that a command begins: to records, or to a view."""

from typing import TypeVar

from query_service.context import ServiceContext
from query_service.query.read_request import (
    ReadRequest,
    bookmark_range_of,
    check_documents,
    check_pace,
    is_view,
    only_topic,
)
from query_service.subscriptions.record_subscription import RecordSubscription
from query_service.subscriptions.view_subscription import ViewSubscription
from sowline.errors import SowlineError
from sowline.protocol.request import Request
from sowline.serving.outbox.outbox import Outbox
from sowline.serving.sessions.open_subscriptions import ServedSubscription

S = TypeVar("S", RecordSubscription, ViewSubscription)


def subscription_for(
    context: ServiceContext,
    outbox: Outbox,
    request: Request,
    checked: ReadRequest,
    replaced: ServedSubscription | None,
) -> ServedSubscription:
    """Return a new subscription; this stops the subscription that it replaces."""
    topics, selection = checked
    check_documents(selection.options, topics)
    bookmark_range = bookmark_range_of(request, topics)
    to_view = is_view(request, selection)
    check_pace(request, selection.options, is_view=to_view)
    if replaced is not None and not bookmark_range.begins_now:
        raise SowlineError(
            "invalid bookmark",
            f"expected no bookmark with replace, got {request.bookmark!r}: the new subscription continues from"
            " the position of the old one",
        )
    if to_view:
        topic, view = only_topic(request, topics), _of_kind(ViewSubscription, replaced)
        return ViewSubscription(context, outbox, request, topic, selection, bookmark_range, view)
    records = _of_kind(RecordSubscription, replaced)
    return RecordSubscription(context, outbox, request, topics, selection, bookmark_range, records)


def _of_kind(kind: type[S], replaced: ServedSubscription | None) -> S | None:
    """Return the subscription to be replaced; raises `not supported` if it is of another kind."""
    if replaced is None or isinstance(replaced, kind):
        return replaced
    raise SowlineError(
        "not supported",
        "a subscription to a page (top_n and skip_n) or to groups can only replace another such one, and no other"
        " subscription can: unsubscribe the first",
    )
