"""What the client of a page or of groups holds, and what it is sent to hold what is shown. Pure."""

import json
from typing import Any

import pytest

from sowline.config.topics import parse_topics
from sowline.errors import SowlineError
from sowline.model.bookmark import PositionsByLog
from sowline.model.position import Position
from sowline.subscriptions.engine.shown import GUESSED, Due, ShownRecord
from sowline.subscriptions.engine.subscription import MATCH, OOF, Delivery
from sowline.wire.request import SowAndSubscribe
from sowline.wire.request_parser import parse_request
from sowline_gateway.subscriptions import held_window
from sowline_gateway.subscriptions.held_window import HeldWindow
from sowline_gateway.subscriptions.merged_window import MergedWindow
from sowline_gateway.subscriptions.window_request import WindowRequest

PAGE = {"skip_n": 0, "top_n": 2, "order_by": "/v", "options": "oof"}
COUNTS = {"options": "oof,grouping=[/v],projection=[/v,COUNT(1) AS /n]"}
[TOPIC] = parse_topics("topics: [{name: orders, key: /id, partitions: 4}]").topics


def asked(**fields: Any) -> WindowRequest:
    """Return a request for a page, or for what else these fields say."""
    given = {"command": "sow_and_subscribe", "sub_id": "mine", "topic": "orders", **(fields or PAGE)}
    return WindowRequest.of(parse_request(SowAndSubscribe, json.dumps(given).encode()), TOPIC)


def record(number: int, v: int) -> ShownRecord:
    """Return a record as a node shows it."""
    return ShownRecord(b'{"id":%d,"v":%d}' % (number, v), 0, 0, Position(0, v))


def at(offset: int) -> PositionsByLog:
    """Return the positions of the nodes."""
    return {"orders": {0: Position(0, offset)}}


def merged(window: WindowRequest, *shown: tuple[int, int]) -> MergedWindow:
    """Return what nodes show: records with these numbers and values."""
    found = window.merged(100)
    for number, v in shown:
        of = record(number, v)
        found.put("node", b"%d" % number, of.body, of.relayed())
    return found


def sent(due: Due) -> list[tuple[str, str, str | None]]:
    """Return the command, the SOW key and the reason of each message."""
    return [(delivery.command, key.decode(), delivery.reason) for key, delivery in due]


def test_the_difference_is_what_has_changed() -> None:
    """What left has its reason, and the client then holds what is shown, at its positions."""
    window = asked()
    held, nodes = HeldWindow(window), merged(window, (1, 1), (2, 2), (3, 3))
    held.hold(nodes.shown(), at(3))
    assert list(held.shown) == [b"1", b"2"]
    nodes.put("node", b"2", record(2, 9).body, record(2, 9).relayed())
    held.touch([b"2"], 7)
    found = held.advance(nodes, at(9), is_step=True)
    assert sent(found.due) == [(OOF, "2", MATCH), ("publish", "3", None)]
    assert (found.before, found.now, found.times) == (at(3), at(9), {b"2": 7})
    assert list(held.shown) == [b"1", b"3"]
    assert held.positions == at(9)
    assert sent(held.advance(nodes, at(10), is_step=True).due) == []


def test_positions_are_those_of_the_moment() -> None:
    """What the nodes send later does not change at which positions the client holds its window."""
    held, positions = HeldWindow(asked()), at(3)
    held.hold({}, positions)
    positions["orders"][0] = Position(0, 4)
    assert held.positions == at(3)


def test_the_first_change_of_several_gives_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """With too many of them all is compared, and none has a time."""
    monkeypatch.setattr(held_window, "TOUCHED_MAX", 2)
    window = asked()
    held, nodes = HeldWindow(window), merged(window, (1, 1), (2, 2))
    for when, keys in ((5, [b"1"]), (6, [b"1", b"2"])):
        held.touch(keys, when)
    assert held.advance(nodes, at(2), is_step=False).times == {b"1": 5, b"2": 6}
    held.hold({}, at(2))
    held.touch([b"1", b"2", b"3"], 7)
    held.touch([b"4"], 8)
    found = held.advance(nodes, at(3), is_step=False)
    assert found.times == {}
    assert sent(found.due) == [("publish", "1", None), ("publish", "2", None)]


def test_a_replacement_keeps_what_both_show() -> None:
    """The client lacks the rest, and drops what only the first one shows; its window is of the first until then."""
    first, second = asked(), asked(**PAGE | {"skip_n": 1})
    held = HeldWindow(first)
    held.hold(merged(first, (1, 1), (2, 2), (3, 3)).shown(), at(3))
    taken = held.taken_over(second)
    due = taken.replaced(merged(second, (1, 1), (2, 2), (3, 3)), second)
    assert sent(due) == [(OOF, "1", MATCH), ("publish", "3", None)]
    assert taken.asked is first
    assert taken.positions == at(3)


def test_what_is_held_in_another_form_is_sent_whole() -> None:
    """A client that now asks for less of each record holds other bodies than the nodes show."""
    first, second = asked(), asked(**PAGE | {"options": "oof,select=[-/v]"})
    held, nodes = HeldWindow(first), merged(second, (1, 1))
    held.hold(nodes.shown(), at(1))
    taken = held.taken_over(second)
    assert [of.position for of in taken.shown.values()] == [GUESSED]
    assert sent(taken.replaced(nodes, second)) == [("publish", "1", None)]


def test_what_no_node_explains_is_looked_up() -> None:
    """A node that was asked later than the client knows only what is there."""
    window = asked()
    held, nodes = HeldWindow(window), merged(window, (1, 1))
    held.hold({b"1": record(1, 1), b"2": record(2, 2), b"3": record(3, 3)}, at(3))
    nodes.remove("node", b"3", Delivery(OOF, b"{}", "expired"))
    assert held.unexplained(nodes) == [b"2"]


def test_groups_with_a_limit_begin_with_the_first_ones() -> None:
    """Later, each that has changed is sent: what the client holds is not known then."""
    window = asked(**COUNTS, top_n=2, order_by="/v DESC")
    shown = {b"%d" % v: ShownRecord(b'{"v":%d,"n":1}' % v, 0) for v in range(4)}
    assert list(window.first_shown(shown)) == [b"3", b"2"]
    assert not window.is_held_whole
    assert asked(**COUNTS).is_held_whole
    assert asked().is_held_whole


def test_what_nodes_are_asked() -> None:
    """For the first records up to the end of the page, in its order; for all groups, in none."""
    page = asked(**PAGE | {"skip_n": 3, "options": "oof,conflation=1s,select=[-/v]"})
    assert page.records_at_nodes == 5
    at_nodes = page.at_nodes()
    assert (at_nodes.order.text, at_nodes.top_n, at_nodes.skip_n) == ("/v", None, None)
    assert at_nodes.options.oof
    assert at_nodes.options.conflation is None
    assert at_nodes.options.select is None
    groups = asked(**COUNTS, skip_n=1, top_n=2, order_by="/n")
    assert groups.records_at_nodes is None
    assert groups.at_nodes().order.terms == ()
    assert groups.is_grouped_like(asked(**COUNTS))
    assert not groups.is_grouped_like(asked(**COUNTS, filter="/v > 1"))
    limited = asked(**COUNTS, top_n=1, order_by="/n", bookmark="orders:0@1")
    assert (limited.in_the_past().top_n, limited.in_the_past().order.terms) == (None, ())
    assert not limited.begins_now


def test_a_page_that_ends_too_far() -> None:
    """Each node would have to show all records before it."""
    with pytest.raises(SowlineError, match="first 10000 records"):
        asked(**PAGE | {"skip_n": 9_999})
