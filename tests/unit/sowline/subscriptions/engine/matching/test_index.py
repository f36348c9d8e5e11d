"""The index of subscriptions: which of many match, in which order, and how few are asked."""

from collections.abc import Iterable
from typing import Any

import pytest

from sowline.language.filter import Filter, Metadata, compile_filter
from sowline.model.path import Document
from sowline.subscriptions.engine.matching import SubscriptionIndex
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


def test_a_long_list_is_asked() -> None:
    """A list of more literals than an index takes apart is still matched."""
    long: Filter = compile_filter(f"/a IN ({', '.join(map(str, range(2000)))})")
    index: SubscriptionIndex[str] = SubscriptionIndex()
    index.add("long", long)
    assert (matching(index, {"a": 1999}), matching(index, {"a": 2000})) == (["long"], [])
