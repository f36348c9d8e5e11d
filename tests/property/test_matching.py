"""An index of filters gives exactly what trying every filter gives, whatever the filters and documents."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import orjson
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from sowline.changes.change import Change
from sowline.language.filter import Filter, compile_filter
from sowline.language.filter.parse import parse
from sowline.language.filter.printer import text_of
from sowline.language.filter.tree import conjunction
from sowline.model.position import Position
from sowline.subscriptions.engine.matching import LiveSubscriptions, SubscriptionIndex
from sowline.subscriptions.engine.subscription import ChangeView, Subscription
from tests.examples import examples
from tests.matching import matching
from tests.unit.sowline.language.filter.test_properties import documents as wild_documents
from tests.unit.sowline.language.filter.test_properties import nodes

NUMBERS = [0, 1, 2, 5, -1, 0.5, 2.0, 5.5, 1e300, 5e-324, 2**53, 2**53 + 1, 2**63, 2**64 - 1]
TEXTS = ["a", "b", "A", "5", "5.0", "05", "0.5", "-1", " 5", "1e0", "9007199254740993", "true", "x'y"]
PATHS = ["/a", "/b", "/c/a", "/a[0]", "/c"]

paths = st.sampled_from(PATHS)
number_texts = st.sampled_from([str(number) for number in NUMBERS])
text_texts = st.sampled_from(["'" + text.replace("'", "\\'") + "'" for text in TEXTS])
literals = st.one_of(
    text_texts, text_texts, number_texts, st.sampled_from(["''", "NULL", "TRUE", "FALSE", "2 * 2.5"])
)
relations = st.sampled_from(["=", "=", "!=", "<", "<=", ">", ">="])
terms = st.one_of(
    st.builds("{} = {}".format, paths, literals),
    st.builds("{} {} {}".format, paths, relations, literals),
    st.builds("{} {} {}".format, literals, relations, paths),
    st.builds("{} {} {}".format, paths, relations, paths),
    st.builds("{} BETWEEN {} AND {}".format, paths, number_texts, number_texts),
    st.builds(
        "{} {}IN ({})".format,
        paths,
        st.sampled_from(["", "", "NOT "]),
        st.lists(literals, min_size=1, max_size=4).map(", ".join),
    ),
    st.builds("{} LIKE 'a'".format, paths),
    st.builds("{} IS NULL".format, paths),
    st.builds("{} IN ({}, MESSAGE_SIZE())".format, paths, literals),
    st.builds("UPPER({}) = 'A'".format, paths),
    st.builds("NOT {} > {}".format, paths, literals),
    st.builds("({} = {} OR {} > {})".format, paths, literals, paths, literals),
)
texts = st.one_of(
    st.lists(terms, min_size=1, max_size=4).map(" AND ".join),
    st.lists(terms, min_size=1, max_size=4).map(" AND ".join),
    st.lists(terms, min_size=2, max_size=3).map(" OR ".join),
    st.just(""),
)
written_filters = texts.map(compile_filter)
filters = written_filters | nodes.map(text_of).map(compile_filter)

scalars = st.sampled_from([None, True, False, "", float("nan"), float("inf"), 2**70, *NUMBERS, *TEXTS])
values = scalars | scalars | st.lists(scalars | st.lists(scalars, max_size=2), max_size=4) | st.just({"a": 5})
documents = st.fixed_dictionaries(
    {},
    optional={"a": values, "b": values, "c": st.fixed_dictionaries({}, optional={"a": values}) | values},
)


def tried_one_by_one(filters: Iterable[Filter], document: dict[str, Any]) -> list[int]:
    """The numbers of the filters that are TRUE of a document."""
    return [number for number, filter in enumerate(filters) if filter.matches(document)]


# With each of these added to it, a filter fills its bucket: they are packed.
CROWD = [f"/b > {low} AND /c/a <= {low + 1} AND /c = '{low % 3}'" for low in range(-5, 5)]


@examples(200)
@given(
    st.lists(filters, min_size=1, max_size=12),
    st.lists(documents | wild_documents, min_size=1, max_size=4),
    st.booleans(),
)
@example([compile_filter("/a = '5'"), compile_filter("/a = 5")], [{"a": 5}, {"a": "5"}, {"a": "5.0"}], False)
@example([compile_filter("/a IN ('5', 5)")], [{"a": "5"}, {"a": ["5", 5]}], True)
@example([compile_filter("/a = 'a' AND /b > 9007199254740993")], [{"a": "a", "b": 2**53 + 2}], True)
def test_an_index_agrees_with_trying_all(
    filters: list[Filter], documents: list[dict[str, Any]], is_crowded: bool
) -> None:
    """Alone in a bucket or packed among others, a filter is found exactly when it is TRUE."""
    if is_crowded:
        filters = [
            *filters,
            *(compile_filter(f"({filter.text}) AND {more}") for filter in filters[:4] for more in CROWD),
        ]
    index: SubscriptionIndex[int] = SubscriptionIndex()
    for number, filter in enumerate(filters):
        index.add(number, filter)
    for document in documents * 2:
        assert matching(index, document) == tried_one_by_one(filters, document)


# Few values to be equal to, and many ranges: buckets get full, and are packed.
few_equalities = st.tuples(
    st.sampled_from(["/a = 'x'", "/a = '5'", "/a = 5", "/a IN ('5', 5)", "/a IN ('x', 5)", "/a LIKE '5'"]),
    st.sampled_from(["", "", "/d = '5'", "/d = 'y'", "/d = 5", "/d IN ('5', 'y')", "/d = '5' AND /d = 'y'"]),
)
ranges = st.lists(
    st.one_of(
        st.builds("/b {} {}".format, st.sampled_from(["<", "<=", ">", ">=", "="]), number_texts),
        st.builds("/c {} {}".format, st.sampled_from(["<", ">", "="]), number_texts),
        st.builds("/b BETWEEN {} AND {}".format, number_texts, number_texts),
    ),
    max_size=3,
)
parsed = lru_cache(parse)
plain_filters = (
    st.builds(lambda equalities, ranges: [*equalities, *ranges], few_equalities, ranges)
    .map(lambda terms: conjunction(parsed(term) for term in terms if term))
    .map(Filter)
)
plain_documents = st.fixed_dictionaries(
    {},
    optional={
        "a": st.sampled_from(["x", "5", 5, ["5", "x"]]),
        "b": values,
        "c": values,
        "d": values | st.sampled_from(["y", ["y", "5"]]),
    },
)


@examples(100)
@given(st.lists(plain_filters, min_size=25, max_size=50), st.lists(plain_documents, min_size=1, max_size=6))
def test_packed_columns_agree_with_trying_all(filters: list[Filter], documents: list[dict[str, Any]]) -> None:
    """Ranges and texts compared in columns are what the filters say, at every end of every range."""
    index: SubscriptionIndex[int] = SubscriptionIndex()
    for number, filter in enumerate(filters):
        index.add(number, filter)
    for document in documents * 2:
        assert matching(index, document) == tried_one_by_one(filters, document)


class Coming(RuleBasedStateMachine):
    """Subscriptions come and go between changes; the deliveries are those that each would make itself."""

    @initialize()
    def begin(self) -> None:
        """Begin without any."""
        self.live: LiveSubscriptions[int] = LiveSubscriptions()
        self.all: dict[int, Subscription] = {}
        self.number = 0

    @rule(some=st.lists(plain_filters | written_filters, min_size=1, max_size=15), oof=st.booleans())
    def come(self, some: list[Filter], oof: bool) -> None:
        """Subscribe."""
        for filter in some:
            self.number += 1
            self.all[self.number] = Subscription(filter, oof)
            self.live.add(self.number, self.all[self.number])

    @rule(share=st.integers(1, 4))
    def go(self, share: int) -> None:
        """Unsubscribe one in so many."""
        for number in [number for number in self.all if number % share == 0]:
            del self.all[number]
            self.live.remove(number)

    @rule(before=st.none() | plain_documents | documents, now=st.none() | plain_documents | documents)
    def change(self, before: dict[str, Any] | None, now: dict[str, Any] | None) -> None:
        """A record changes."""
        seen = change_view(before, now)
        answers = ((number, each.on_change(seen)) for number, each in self.all.items())
        expected = [(number, delivery) for number, delivery in answers if delivery is not None]
        assert self.live.on_change(seen) == expected

    @invariant()
    def none_is_lost(self) -> None:
        """As many are in as came and did not go."""
        assert len(self.live) == len(self.all)


def change_view(before: dict[str, Any] | None, now: dict[str, Any] | None) -> ChangeView:
    """A change from one document to another; what JSON can't hold becomes null."""
    previous, body = (None if side is None else as_json(side) for side in (before, now))
    reason = None if body is not None else "expired"
    op = "publish" if body is not None else "delete"
    return ChangeView(Change(b"1", body, previous, Position(0, 1), Position(0, 0), op, 0, True, reason))


def as_json(document: dict[str, Any]) -> bytes:
    """JSON of a document, however large its integers."""
    try:
        return orjson.dumps(document)
    except TypeError:
        return b'{"a": 18446744073709551615}'


TestComing = Coming.TestCase
TestComing.settings = examples(40, stateful_step_count=20)
