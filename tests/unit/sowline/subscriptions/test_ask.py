"""The request of a query or subscription: what it is, and how it goes on."""

from datetime import UTC, datetime
from typing import Any

import pytest

from sowline.model.select import parse_select
from sowline.subscriptions.ask import Ask


def ask(command: str = "sow_and_subscribe", **given: Any) -> Ask:
    """Return a request for orders."""
    return Ask(command, "orders", **given)


@pytest.mark.parametrize(
    ("given", "is_query", "is_window", "has_no_group", "has_end"),
    [
        (ask("sow", up_to="now"), True, False, False, False),
        (ask("subscribe"), False, False, True, False),
        (ask(), False, False, False, False),
        (ask(bookmark="orders:0@5"), False, False, True, False),
        (ask(skip_n=0, top_n=5), False, True, False, False),
        (ask(options="grouping=[/a],projection=[/a]"), False, True, False, False),
        (ask("subscribe", up_to="now"), False, False, True, True),
    ],
)
def test_a_request_tells_what_follows(
    given: Ask, is_query: bool, is_window: bool, has_no_group: bool, has_end: bool
) -> None:
    """A group, changes, or both, and whether they end."""
    assert (given.is_query, given.is_window, given.has_no_group, given.has_end) == (
        is_query,
        is_window,
        has_no_group,
        has_end,
    )


def test_options_are_read() -> None:
    """Those of a newer service are passed on, and read as none."""
    given = ask(options="pause,select=[-/,+/id]")
    assert (given.is_paused, given.select) == (True, parse_select("[-/,+/id]"))
    assert (ask(options="newer").is_paused, ask(options="newer").select) == (False, None)


def test_a_request_may_begin_paused_or_not() -> None:
    """The other options stay; a request that is as asked is the same object."""
    given = ask(options="oof")
    assert given.paused(True).is_paused
    assert given.paused(True).paused(False) == given
    assert given.paused(False) is given


def test_a_replacement_begins_at_what_is_held() -> None:
    """So it has no bookmark, and is not paused unless its options are."""
    given = ask(bookmark="orders:0@5", options="pause", filter="/a = 1")
    assert given.replaced({"filter": "/a = 2"}) == ask(filter="/a = 2")
    assert given.replaced({"options": "pause"}).is_paused
    assert given.replaced({"bookmark": "now"}).bookmark == "now"


def test_a_request_begins_afresh() -> None:
    """With a group, to the same end."""
    given = ask("subscribe", bookmark="orders:0@5", up_to="now", at_least="orders:0@1")
    assert given.afresh("") == ask(up_to="now")
    assert given.afresh("orders:0@9").up_to == "orders:0@9"


def test_a_request_goes_on_after_a_bookmark() -> None:
    """Without a group, and without demands on how fresh its start is; a page always begins with its group."""
    given = ask(max_staleness="1s", top_n=5)
    assert given.going_on("orders:0@5", "") == ask("subscribe", bookmark="orders:0@5", top_n=5)
    assert ask(skip_n=0).going_on("orders:0@5", "").command == "sow_and_subscribe"


def test_a_range_keeps_its_end_until_it_is_known() -> None:
    """Otherwise the subscription would never end."""
    given = ask("subscribe", bookmark="[epoch..now]")
    assert given.going_on("orders:0@5", "").bookmark == "(orders:0@5..now]"
    known = given.going_on("orders:0@5", "orders:0@9")
    assert (known.bookmark, known.up_to) == ("orders:0@5", "orders:0@9")


def test_only_what_is_asked_for_is_sent() -> None:
    """Times are bookmarks."""
    given = ask("subscribe", up_to=datetime(2026, 11, 21, tzinfo=UTC), sow_keys=("1",), skip_n=0)
    assert given.request("7") == {
        "command": "subscribe",
        "command_id": "7",
        "topic": "orders",
        "up_to": "20261121T000000.000000Z",
        "batch_size": 10,
        "skip_n": 0,
        "sow_keys": ["1"],
        "ack_type": "processed,completed",
    }


@pytest.mark.parametrize(("options", "sent"), [("", "replace"), ("oof", "replace,oof")])
def test_a_replacement_names_the_subscription(options: str, sent: str) -> None:
    """It has a command id of its own."""
    request = ask(options=options).replacement_request("s", "8")
    assert (request["sub_id"], request["query_id"], request["command_id"]) == ("s", "s", "8")
    assert request["options"] == sent
