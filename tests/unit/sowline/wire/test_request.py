"""Commands of clients: what they are asked, and what is asked again when a client returns."""

from typing import Any

import msgspec
import pytest

from sowline.model.bookmark_range import BookmarkRange
from sowline.model.position import Position
from sowline.wire.request import Sow, Subscribe, from_now, returned, staleness_text, with_snapshot
from sowline.wire.request_parser import parse_request


def test_ids_default_to_the_commands() -> None:
    """A query and a subscription are named by their command unless they have names of their own."""
    plain = parse_request(Sow, b'{"command":"sow","command_id":"7"}')
    assert (plain.id_of_query, plain.id_of_subscription) == ("7", "7")
    named = parse_request(Sow, b'{"command":"sow","command_id":"7","query_id":"q","sub_id":"s"}')
    assert (named.id_of_query, named.id_of_subscription) == ("q", "s")


def subscription(**fields: Any) -> Subscribe:
    """Return a subscription with these fields."""
    return parse_request(
        Subscribe, msgspec.json.encode({"command": "subscribe", "topic": "orders", **fields})
    )


POSITIONS = {"orders": {0: Position(0, 7)}}
END = {"orders": {0: Position(0, 9)}}


def test_a_page_or_groups_are_a_window() -> None:
    """All others are subscriptions to single records."""
    assert subscription(skip_n=0, top_n=5).is_window
    assert subscription(options="grouping=[/a],projection=[/a]").is_window
    assert not subscription(top_n=5).is_window


def test_a_read_may_demand_a_fresh_state() -> None:
    """By positions, or by an age; a service passes the age on as it was written."""
    assert not subscription().demands_fresh
    assert subscription(at_least="orders:0@1").demands_fresh
    assert subscription(max_staleness="500ms").demands_fresh
    assert [staleness_text(one) for one in (subscription(), subscription(max_staleness="1.5s"))] == [
        "",
        "1500ms",
    ]


def test_a_subscription_may_begin_now_instead() -> None:
    """Its end stays; that of a range goes with the range."""
    ended = from_now(subscription(bookmark="orders:0@5", up_to="orders:0@9"))
    assert (ended.bookmark, ended.bookmark_range) == ("", BookmarkRange(end=END))
    assert from_now(subscription(bookmark="[orders:0@5..orders:0@9]")).bookmark_range == BookmarkRange()


def test_a_client_returns_after_what_it_has() -> None:
    """To the same end, and without demands on the start."""
    asked = subscription(bookmark="epoch", up_to="orders:0@9", at_least="orders:0@1", max_staleness="1s")
    again = returned(asked, POSITIONS, None)
    assert (again.bookmark, again.up_to) == ("orders:0@7", "orders:0@9")
    assert (again.bookmark_range.starts, again.bookmark_range.takes_start) == ((POSITIONS,), False)
    assert not again.demands_fresh


def test_a_client_returns_into_a_range() -> None:
    """The range keeps its end; once the service knows where that is, it is an `up_to`."""
    asked = subscription(bookmark="[orders:0@5..orders:0@9)")
    assert returned(asked, POSITIONS, None).bookmark == "(orders:0@7..orders:0@9)"
    known = returned(asked, POSITIONS, END)
    assert (known.bookmark, known.up_to, known.bookmark_range.takes_end) == ("orders:0@7", "orders:0@9", True)


@pytest.mark.parametrize(
    ("command", "other"),
    [("subscribe", "sow_and_subscribe"), ("delta_subscribe", "sow_and_delta_subscribe")],
)
def test_a_subscription_may_get_a_snapshot(command: str, other: str) -> None:
    """Everything else stays as it was asked."""
    made = with_snapshot(subscription(command=command, filter="/a = 1"))
    assert (made.command, made.filter, made.has_snapshot) == (other, "/a = 1", True)
