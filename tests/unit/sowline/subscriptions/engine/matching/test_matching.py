"""The index of subscriptions: which of many match, in which order, and how few are asked."""

from collections.abc import Iterable
from typing import Any
from unittest.mock import patch

import orjson
import pytest

from sowline.changes.change import Change
from sowline.language.filter import UNKNOWN, Filter, Metadata, compile_filter
from sowline.model.path import Document
from sowline.model.position import Position
from sowline.subscriptions.engine.matching import LiveSubscriptions, SubscriptionIndex
from sowline.subscriptions.engine.matching.bucket import Bucket
from sowline.subscriptions.engine.matching.entry import Entry, make_entry
from sowline.subscriptions.engine.matching.terms import terms_of
from sowline.subscriptions.engine.subscription import ChangeView, Delivery, Subscription
from tests.matching import matching


class Asked:
    """A filter that counts how often it is asked."""

    times = 0

    def __init__(self, text: str) -> None:
        self._filter = compile_filter(text)
        self.tree, self.text, self.needs_about = (
            self._filter.tree,
            self._filter.text,
            self._filter.needs_about,
        )

    def matches(self, document: Document) -> bool:
        """What the filter says."""
        Asked.times += 1
        return self._filter.matches(document)

    def matches_about(self, document: Document, about: Metadata) -> bool:
        """What the filter says."""
        Asked.times += 1
        return self._filter.matches_about(document, about)


@pytest.fixture(autouse=True)
def _no_reader() -> None:
    Asked.times = 0


def index_of(texts: Iterable[str]) -> SubscriptionIndex[str]:
    """An index of filters that count, each the filter of its own text."""
    index: SubscriptionIndex[str] = SubscriptionIndex()
    for text in texts:
        index.add(text, Asked(text))  # type: ignore[arg-type]
    return index


def seen(before: dict[str, Any] | None, now: dict[str, Any] | None) -> ChangeView:
    """A change from one record to another."""
    previous, body = (None if side is None else orjson.dumps(side) for side in (before, now))
    op, reason = ("delete", "expired") if body is None else ("publish", None)
    return ChangeView(Change(b"1", body, previous, Position(0, 1), Position(0, 0), op, 0, True, reason))


def test_items_come_in_the_order_of_adding() -> None:
    """Whichever way each was found: by a value, by a range, by trying, or together with an equal filter."""
    index: SubscriptionIndex[int] = SubscriptionIndex()
    texts = [
        "",
        "/a = 'x'",
        "/b > 1",
        "/a = 'x'",
        "/a LIKE 'x'",
        "/a IN ('x', 'y') AND /b > 1",
        "/a = 'y'",
        "",
    ]
    for number, text in enumerate(texts):
        index.add(number, compile_filter(text))
    assert matching(index, {"a": "x", "b": 2}) == [0, 1, 2, 3, 4, 5, 7]
    assert matching(index, {"a": ["y", "x"], "b": 1}) == [0, 1, 3, 4, 6, 7]
    assert matching(index, {}) == [0, 7]


def test_an_item_is_in_once() -> None:
    """A second filter for it is refused; once removed it may come again, at the end."""
    index: SubscriptionIndex[str] = SubscriptionIndex()
    index.add("one", compile_filter("/a = 1"))
    index.add("two", compile_filter("/a = 1"))
    with pytest.raises(ValueError, match="not in the index, got 'one'"):
        index.add("one", compile_filter("/a = 2"))
    index.remove("one")
    index.remove("one")
    assert matching(index, {"a": 1}) == ["two"]
    index.add("one", compile_filter("/a = 1"))
    assert (matching(index, {"a": 1}), len(index)) == (["two", "one"], 2)


@pytest.mark.parametrize(
    ("text", "document"),
    [
        ("/a = '5'", {"a": 5}),
        ("/a = '5'", {"a": 5.0}),
        ("/a = 5", {"a": "5.0"}),
        ("5 = /a", {"a": ["x", "05"]}),
        ("/a IN ('x', 5)", {"a": "5"}),
        ("/a IN ('x', NULL)", {"a": "x"}),
        ("/a = TRUE", {"a": 1}),
        ("/a/b = 'x'", {"a": [{"b": "y"}, {"b": "x"}]}),
        ("/a = 10 / 2", {"a": 5}),
    ],
)
def test_an_equality_finds_what_it_equals(text: str, document: dict[str, Any]) -> None:
    """Strings that spell numbers, numbers, elements of arrays: all lead to the filter, without a try."""
    index = index_of([text, *(f"/other = {number}" for number in range(20))])
    assert matching(index, document) == [text]
    assert matching(index, {"a": "z", "other": 3}) == ["/other = 3"]


@pytest.mark.parametrize(
    ("text", "document"), [("/a = '5'", {"a": "5.0"}), ("/a = 'x'", {"a": 5}), ("/a = ''", {"a": ""})]
)
def test_an_equality_finds_nothing_else(text: str, document: dict[str, Any]) -> None:
    """Two strings are equal letter by letter only, and an empty one is NULL."""
    index = index_of([text, *(f"{text} AND /b > {number}" for number in range(20))])
    assert matching(index, document) == matching(index, document | {"b": 100}) == []


def test_only_the_filters_of_a_value_are_asked() -> None:
    """Of 1,000 equalities one document asks those of its own value."""
    index = index_of(f"/ticker = 'T{number}' AND /price LIKE '5'" for number in range(1000))
    assert matching(index, {"ticker": "T7", "price": 15}) == ["/ticker = 'T7' AND /price LIKE '5'"]
    assert matching(index, {"ticker": "T9", "price": 16}) == []
    assert Asked.times == 2


def test_a_value_that_most_filters_want_is_not_where_they_lie() -> None:
    """Of two equalities the rarer one leads to a filter, whichever is written first."""
    index = index_of(f"/status = 'open' AND /ticker = 'T{number}'" for number in range(1000))
    assert len(matching(index, {"status": "open", "ticker": "T7"})) == 1
    assert Asked.times <= 2


def test_ranges_and_texts_of_a_full_bucket_are_compared_and_not_asked() -> None:
    """Once a bucket is packed, a plain document is answered from its columns alone."""
    texts = [f"/t = 'x' AND /p > {low} AND /p <= {low + 2} AND /s = 'S{low % 2}'" for low in range(100)]
    index = index_of(texts)
    matching(index, {})
    matching(index, {"t": "x"})
    Asked.times = 0
    assert matching(index, {"t": "x", "p": 7, "s": "S1"}) == [texts[5]]
    assert matching(index, {"t": "x", "p": 7.5, "s": "S0"}) == [texts[6]]
    for other in ({"p": 7, "s": "other"}, {"p": 7, "s": 1}, {"s": "S1"}, {"p": 7}, {"p": "many", "s": "S0"}):
        assert matching(index, {"t": "x"} | other) == []
    assert Asked.times == 0


@pytest.mark.parametrize(
    ("price", "asks"),
    [
        *((price, False) for price in ("7", "7.0", "seven", "", True, float("nan"), float("inf"))),
        ({}, False),
        ([], False),
        *((price, True) for price in ([7], [0, 7], 2**53 + 1, -(2**53) - 1, "9007199254740993", 2**70)),
    ],
)
def test_a_value_of_any_kind_is_compared_as_filters_do(price: Any, asks: bool) -> None:
    """Of scalars the columns know all; arrays and integers that doubles can't tell apart are for the filters."""
    lows = (-1, 0, 5.5, 6, 2**53 - 1, 2**53, *range(20, 40))
    texts = [
        *(f"/t = 'x' AND /p > {low} AND /p < {low + 2}" for low in lows if low < 2**53 - 1),
        *(f"/t = 'x' AND /p {relation} {low}" for low in lows[:5] for relation in ("<", ">=", "=")),
        *(f"/t = 'x' AND /q < {number}" for number in range(10)),
    ]
    index = index_of(texts)
    matching(index, {"t": "x"})
    Asked.times = 0
    document = {"t": "x", "p": price, "q": 5}
    assert matching(index, document) == [text for text in texts if compile_filter(text).matches(document)]
    assert (Asked.times > 0) is asks


def test_ends_of_ranges_are_exact() -> None:
    """Open ends exclude and closed ones include, also at the outermost and the smallest doubles."""
    largest, smallest = 1.7976931348623157e308, 5e-324
    texts = [
        *(
            f"/p {operator} {end!r}"
            for operator in ("<", "<=", ">", ">=", "=")
            for end in (0, smallest, largest)
        ),
        f"/p BETWEEN {2**53} AND {2**53 + 1}",
        f"/p > {2**53 + 1}",
    ]
    index = index_of(texts)
    matching(index, {})
    for value in (
        0,
        -0.0,
        smallest,
        -smallest,
        largest,
        -largest,
        2**53,
        2**53 + 1,
        2.0**53,
        float("inf"),
        1,
    ):
        document = {"p": value}
        assert matching(index, document) == [text for text in texts if compile_filter(text).matches(document)]


def test_equal_filters_are_asked_once() -> None:
    """However many items share a filter."""
    index: SubscriptionIndex[int] = SubscriptionIndex()
    for number in range(100):
        index.add(number, Asked("/a LIKE 'x'"))  # type: ignore[arg-type]
    assert matching(index, {"a": "x"}) == list(range(100))
    assert Asked.times == 1


def test_subscribing_between_changes_is_cheap() -> None:
    """With a change after each of 1,000 additions, far fewer filters are asked than exist at each change."""
    index: SubscriptionIndex[int] = SubscriptionIndex()
    for number in range(1000):
        index.add(number, Asked(f"/p > {number}"))  # type: ignore[arg-type]
        assert matching(index, {"p": 0.5}) == [0]
    assert Asked.times < 1000 * 100


def test_nothing_is_left_of_what_is_gone() -> None:
    """After all have gone, in any order, the index is as new."""
    texts = [f"/t = 'T{number % 3}' AND /p > {number}" for number in range(60)] + [
        "",
        "/p < 5",
        "/u IN (1, 'x')",
    ]
    index = index_of(texts)
    matching(index, {"t": ["T0", "T1"], "p": 1})
    for text in texts[::2] + texts[1::2]:
        index.remove(text)
    fresh: SubscriptionIndex[str] = SubscriptionIndex()
    assert (len(index), index._tables, index._entries) == (0, fresh._tables, fresh._entries)
    assert matching(index, {"t": "T0", "p": 100}) == []


def test_removed_filters_of_a_packed_bucket_are_not_found() -> None:
    """Neither before the bucket is packed again nor after."""
    texts = [f"/p > {number}" for number in range(50)]
    index = index_of(texts)
    assert matching(index, {"p": 1000}) == texts
    for gone in range(40):
        index.remove(texts[gone])
        assert matching(index, {"p": 1000}) == texts[gone + 1 :]


def test_what_is_gone_takes_no_room() -> None:
    """A packed bucket that has lost most of its filters is packed again, or not at all."""
    bucket: Bucket[int] = Bucket()
    entries = [_entry(f"/p > {number}") for number in range(100)]
    for entry in entries:
        bucket.add(entry)
    assert bucket.true_of({"p": 1000}, UNKNOWN) == entries
    for left in (20, 3, 0):
        for entry in entries[left:]:
            bucket.remove(entry)
        del entries[left:]
        assert (bucket.true_of({"p": 1000}, UNKNOWN), len(bucket)) == (entries, left)
        assert len(bucket._packed or ()) + len(bucket._loose) == left
        assert bucket._packed is None or bucket._packed.removed == 0


def _entry(text: str) -> Entry[int]:
    filter = compile_filter(text)
    return make_entry(filter, terms_of(filter), None)


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


def test_a_long_list_is_asked() -> None:
    """A list of more literals than an index takes apart is still matched."""
    long: Filter = compile_filter(f"/a IN ({', '.join(map(str, range(2000)))})")
    index: SubscriptionIndex[str] = SubscriptionIndex()
    index.add("long", long)
    assert (matching(index, {"a": 1999}), matching(index, {"a": 2000})) == (["long"], [])
