"""Makes the subscription that a command begins: to records, or to a view."""

from typing import cast

from sowline.serving.sessions.command_runner import CommandRunner
from sowline.serving.sessions.open_subscriptions import ServedSubscription
from sowline.subscriptions.live.request_checks import check_complete, check_pace, check_replaced
from sowline.wire.request import Subscribe
from sowline_query_service.context import ServiceContext
from sowline_query_service.query.read_request import (
    ReadRequest,
    bookmark_range_of,
    check_documents,
    is_view,
    only_topic,
)
from sowline_query_service.subscriptions.record_subscription import RecordSubscription
from sowline_query_service.subscriptions.view_subscription import ViewSubscription


def subscription_for(
    context: ServiceContext,
    runner: CommandRunner,
    request: Subscribe,
    checked: ReadRequest,
    replaced: ServedSubscription | None,
) -> ServedSubscription:
    """Return a new subscription; this stops the subscription that it replaces."""
    topics, selection = checked
    check_documents(selection.options, topics)
    check_complete(selection.options)
    bookmark_range = bookmark_range_of(request, topics)
    to_view = is_view(request, selection)
    check_pace(request, is_view=to_view)
    check_replaced(replaced, ViewSubscription if to_view else RecordSubscription, request)
    if to_view:
        topic, view = only_topic(request, topics), cast("ViewSubscription | None", replaced)
        return ViewSubscription(context, runner, request, topic, selection, bookmark_range, view)
    records = cast("RecordSubscription | None", replaced)
    made = RecordSubscription(context, runner, request, topics, selection, bookmark_range, records)
    made.begin_at_once()
    return made
