"""Checks of subscriptions that depend on their kind: to records, to a page, or to groups. Pure."""

from typing import Protocol

from sowline.errors import SowlineError
from sowline.wire.options import Options
from sowline.wire.request import Subscribe

PAGE_RECORDS_MAX = 10_000

GONE = ("bookmark_expired", "history expired")
"""The reasons that mean that the requested start is no longer available."""


def check_window(request: Subscribe) -> None:
    """Raise `not supported` or `invalid top_n` if a request for a page or groups has what these do not support."""
    kind = "an aggregated" if request.options.projection else "a paginated"
    if not request.has_snapshot:
        raise SowlineError(
            "not supported",
            f"expected sow_and_subscribe or sow_and_delta_subscribe for {kind} subscription, got {request.command}",
        )
    if request.sow_keys:
        raise SowlineError(
            "not supported",
            f"expected no sow_keys in {kind} subscription, got {len(request.sow_keys)}; use a filter",
        )
    if request.skip_n is not None and (request.top_n or 0) > PAGE_RECORDS_MAX:
        raise SowlineError(
            "invalid top_n", f"expected a page of at most {PAGE_RECORDS_MAX} records, got {request.top_n}"
        )


def check_pace(request: Subscribe) -> None:
    """Raise `invalid options` if the request has a rate and does not support one."""
    if request.options.rate is None:
        return
    if request.is_window:
        raise SowlineError(
            "invalid options", "expected no rate with pages and groups, which send differences"
        )
    if not request.bookmark:
        raise SowlineError(
            "invalid options", "expected a bookmark together with a rate, to replay from there, got none"
        )


def check_complete(options: Options) -> None:
    """Raise `invalid options` if a subscription may be without some partitions: it would never get their changes."""
    if options.partial:
        raise SowlineError(
            "invalid options",
            "expected no partial with a subscription, which has all partitions; use it with sow",
        )


class Replaceable(Protocol):
    """A subscription that another one may replace."""

    @property
    def request(self) -> Subscribe:
        """The request that it serves."""
        ...


def check_window_replaced(topic_before: str, topic: str) -> None:
    """Raise `not supported` unless a view is of the topic of the view that it replaces."""
    if topic_before != topic:
        raise SowlineError(
            "not supported",
            f"expected the topic of the replaced subscription to a page or groups, {topic_before}, got {topic};"
            " unsubscribe first",
        )


def check_restated(before: Subscribe, now: Subscribe) -> None:
    """Raise unless a request restates the `top_n`, `skip_n` and `order_by` of the subscription that it replaces.

    Raise `invalid top_n`, `invalid skip_n` or `invalid order by`.
    """
    # A client that changes the filter and leaves out `order_by` would silently get other records, or in another
    # order (test_a_page_is_restated, test_the_first_records_are_restated).
    for name, had, has in (
        ("top_n", before.top_n, now.top_n),
        ("skip_n", before.skip_n, now.skip_n),
        ("order_by", before.order_text, now.order_text),
    ):
        if had not in (None, "") and has in (None, ""):
            raise SowlineError(
                f"invalid {name.replace('order_by', 'order by')}",
                f"expected {name} in the command that replaces a subscription with {name} {had!r}, got none; restate"
                " it, or unsubscribe first",
            )


def check_endless(request: Subscribe) -> None:
    """Raise `not supported` if a subscription to a page or to groups has an end."""
    if request.bookmark_range.end is not None:
        raise SowlineError(
            "not supported", "expected no end of a subscription to a page or to groups, got up_to or a range"
        )


def check_replaced(replaced: Replaceable | None, kind: type, request: Subscribe) -> None:
    """Raise if a request for a subscription of a kind can't replace this one, if any.

    Raise `not supported`, `invalid bookmark`, and as `check_restated` does.
    """
    if replaced is None:
        return
    if not request.bookmark_range.begins_now:
        raise SowlineError(
            "invalid bookmark",
            "expected no bookmark with replace: the new subscription continues from the position of the old one",
        )
    if not isinstance(replaced, kind):
        raise SowlineError(
            "not supported",
            "expected a subscription to a page (top_n and skip_n) or to groups to replace another such one, and no"
            " other, got a mix: unsubscribe the first",
        )
    check_restated(replaced.request, request)
