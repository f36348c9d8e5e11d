"""Many live subscriptions: what a change means to each of them."""

from typing import Any
from unittest.mock import patch

import orjson
import pytest
from msgspec import structs

from sowline.changes.change import Change
from sowline.language.emodb.writes import Writes
from sowline.language.filter import Metadata, compile_filter
from sowline.model.position import Position
from sowline.subscriptions.engine.matching import LiveSubscriptions, SubscriptionIndex
from sowline.subscriptions.engine.subscription import ChangeView, Delivery, Subscription
from tests.matching import matching


def seen(before: dict[str, Any] | None, now: dict[str, Any] | None) -> ChangeView:
    """A change from one record to another."""
    previous, body = (None if side is None else orjson.dumps(side) for side in (before, now))
    op, reason = ("delete", "expired") if body is None else ("publish", None)
    return ChangeView(Change(b"1", body, previous, Position(0, 1), Position(0, 0), op, 0, True, reason))


def test_a_change_means_to_all_what_it_means_to_each() -> None:
    """Those whose filter matches now get it; those with `oof` whose filter did, word of that; in their order."""
    live: LiveSubscriptions[int] = LiveSubscriptions()
    asked = [("/a = 1", True), ("/a = 2", False), ("/a = 1", False), ("/a > 0", True), ("/a = 1", True)]
    for number, (text, oof) in enumerate(asked):
        live.add(number, Subscription(compile_filter(text), oof))
    publish, match = Delivery("publish", b'{"a":2}'), Delivery("oof", b'{"a":2}', "match", b'{"a":1}')
    update = Delivery("publish", b'{"a":2}', previous=b'{"a":1}')
    assert live.on_change(seen({"a": 1}, {"a": 2})) == [(0, match), (1, publish), (3, update), (4, match)]
    gone = Delivery("oof", b'{"a":1}', "expired", b'{"a":1}')
    assert live.on_change(seen({"a": 1}, None)) == [(0, gone), (3, gone), (4, gone)]
    assert live.on_change(seen(None, None)) == []
    live.remove(3)
    live.remove(3)
    assert (live.on_change(seen({"a": 3}, {"a": 2})), len(live)) == ([(1, publish)], 4)


def test_deliveries_are_shared() -> None:
    """All who get the same message of a change get the same object."""
    live: LiveSubscriptions[int] = LiveSubscriptions()
    for number in range(4):
        live.add(number, Subscription(compile_filter(f"/a < {number + 2}"), oof=number % 2 == 0))
    deliveries = [delivery for _, delivery in live.on_change(seen({"a": 1}, {"a": 1}))]
    assert len(deliveries) == 4
    assert deliveries[0] is deliveries[2] is not deliveries[1] is deliveries[3]


def test_without_oof_the_previous_record_is_not_read() -> None:
    """Its body is parsed only if someone wants word of records out of focus."""
    live: LiveSubscriptions[int] = LiveSubscriptions()
    live.add(1, Subscription(compile_filter("/a = 1")))
    change_view = seen({"a": 1}, {"a": 2})
    with patch.object(ChangeView, "before", property(lambda seen: pytest.fail("it was read"))):
        assert live.on_change(change_view) == []
    with pytest.raises(ValueError, match="no subscription yet, got 1"):
        live.add(1, Subscription(compile_filter("/a = 2"), oof=True))


def test_metadata_of_the_document_is_known() -> None:
    """A filter of message functions is asked of each record's own facts, whether found by a value or not."""
    texts = [
        "MESSAGE_SIZE() > 8",
        "/a = 1 AND SOW_KEY() = '1'",
        "/a IN (5, MESSAGE_SIZE())",
        "LAST_UPDATED() = 2",
    ]
    index: SubscriptionIndex[int] = SubscriptionIndex()
    live: LiveSubscriptions[int] = LiveSubscriptions()
    for number, text in enumerate(texts):
        index.add(number, compile_filter(text))
        live.add(number, Subscription(compile_filter(text), oof=True))
    assert matching(index, {"a": 7}, Metadata(size=7)) == [2]
    assert (matching(index, {"a": 5}), matching(index, {"a": 1}, Metadata(sow_key="1"))) == ([2], [1])
    given = [(number, delivery.command) for number, delivery in live.on_change(seen({"a": 1}, {"a": 123}))]
    assert given == [(0, "publish"), (1, "oof")]
    for number in range(len(texts)):
        index.remove(number)
    assert not index.needs_about


def test_states_alone_concern_no_subscriber() -> None:
    """The record of the group is as it was."""
    live: LiveSubscriptions[int] = LiveSubscriptions()
    live.add(1, Subscription(compile_filter(""), oof=True))
    change = seen({"a": 1}, {"a": 1}).change
    assert live.on_change(ChangeView(structs.replace(change, op="partials"))) == []
    assert (1 in live, 2 in live) == (True, False)


def test_a_redundant_write_is_for_those_who_want_it() -> None:
    """And for those who did not hold the record."""
    live: LiveSubscriptions[int] = LiveSubscriptions()
    for number, quiet in enumerate((True, False)):
        live.add(number, Subscription(compile_filter("/a = 1"), no_redundant=quiet))
    live.add(2, Subscription(compile_filter("/a = 1"), oof=True, no_redundant=True))
    writes = Writes(2, "b", 1, 9, 1, redundant=True)
    change = structs.replace(seen({"a": 1}, {"a": 1}).change, writes=writes)
    assert [number for number, _ in live.on_change(ChangeView(change))] == [1]
    moved = structs.replace(change, previous=b'{"a":2}')
    assert [number for number, _ in live.on_change(ChangeView(moved))] == [0, 1, 2]
