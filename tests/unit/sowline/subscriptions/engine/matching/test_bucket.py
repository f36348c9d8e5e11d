"""A bucket of filters, which its columns compare at once."""

from collections.abc import Iterable
from typing import Any

import pytest

from sowline.language.filter import UNKNOWN, Metadata, compile_filter
from sowline.model.path import Document
from sowline.subscriptions.engine.matching import SubscriptionIndex
from sowline.subscriptions.engine.matching.bucket import Bucket
from sowline.subscriptions.engine.matching.entry import Entry, make_entry
from sowline.subscriptions.engine.matching.terms import terms_of
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


def test_subscribing_between_changes_is_cheap() -> None:
    """With a change after each of 1,000 additions, far fewer filters are asked than exist at each change."""
    index: SubscriptionIndex[int] = SubscriptionIndex()
    for number in range(1000):
        index.add(number, Asked(f"/p > {number}"))  # type: ignore[arg-type]
        assert matching(index, {"p": 0.5}) == [0]
    assert Asked.times < 1000 * 100


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
