"""Groups kept change by change are, to the last bit, those computed afresh; and so a client holds them."""

from collections.abc import Iterable
from itertools import count
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sowline.errors import SowlineError
from sowline.language.expressions.projection import parse_grouping, parse_projection
from sowline.language.groups import GroupChange, Groups, GroupStates, MergedGroups
from sowline.language.groups.aggregates import AGGREGATES
from sowline.model.position import Position
from tests.examples import examples

Document = dict[str, Any]
Step = tuple[int, Document | None]
"""A record's number, and what it is now; None is deleted, or out of the filter."""

EVERYTHING = ", ".join(
    [
        "/k, /k AS /same, /v AS /latest, /v + SUM(/v) AS /mixed, SUM(/v) / COUNT(1) AS /ratio, 'x' AS /constant",
        "SUM(IF(/v > 1, 1, 0)) AS /big, GROUP_CONCAT(/v, ' ') AS /nested/texts, IF(MAX(/v) > 2, MIN(/v), /k) AS /if",
        *(f"{name}(/v) AS /nested/{name.lower()}" for name in AGGREGATES),
        "SUM(/v * 0.1) AS /scaled, AVG(/v - /w) AS /difference",
    ]
)
WITHOUT_LATEST = ", ".join(f"{name}(/v) AS /{name.lower()}" for name in AGGREGATES)

numbers = st.one_of(
    st.integers(-3, 3),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0.0, -0.0, 1.0, 0.1, 1e308, -1e308, 5e-324, 2.0**53]),
)
values = st.one_of(
    numbers,
    st.booleans(),
    st.none(),
    st.sampled_from(["1", "01", "1.0", "", "cat", "é", "1e400", "-1e400", "18446744073709551616"]),
    st.lists(st.one_of(st.integers(0, 2), st.none(), st.text(max_size=2)), max_size=2),
)
keys = st.sampled_from([None, 1, 1.0, "1", True, "", "a", [1, 2], [], {"b": 1}, -0.0, 1e300])
documents = st.fixed_dictionaries({}, optional={"k": keys, "v": values, "w": values})
steps = st.lists(st.tuples(st.integers(0, 5), st.none() | documents), max_size=25)


def fresh(projection: str) -> Groups:
    """Groups that no record has reached."""
    return Groups("t", parse_grouping("/k"), parse_projection(projection), groups_max=1000)


def applied(view: dict[bytes, bytes], changes: Iterable[GroupChange]) -> None:
    """A client's view after the changes, each of which must fit it."""
    for change in changes:
        assert view.get(change.sow_key) == change.previous
        if change.body is None:
            del view[change.sow_key]
        else:
            view[change.sow_key] = change.body


@examples(150)
@given(history=steps, projection=st.sampled_from([EVERYTHING, WITHOUT_LATEST]))
@example(history=[(0, {"v": 1e308}), (1, {"v": 1e308}), (0, None)], projection=EVERYTHING)
@example(
    history=[(0, {"k": 1, "v": "cat"}), (1, {"k": 1.0, "v": 2}), (0, {"k": True})], projection=EVERYTHING
)
@example(history=[(0, {"v": 1}), (0, {"v": 1.0}), (0, {"v": True})], projection=WITHOUT_LATEST)
@example(history=[(0, {"v": -0.0}), (0, {"v": 0.0}), (0, {"v": 1})], projection=WITHOUT_LATEST)
def test_kept_is_computed_afresh(history: list[Step], projection: str) -> None:
    """After every change the groups are those of the records that are in, and a client has been told all."""
    kept, view = fresh(projection), dict[bytes, bytes]()
    records: dict[bytes, tuple[Document, tuple[int, ...]]] = {}
    for time, (number, now) in zip(count(), history, strict=False):
        sow_key, order = b"%d" % number, (time // 3, number % 2, time)
        before = records.pop(sow_key, (None,))[0]
        applied(view, kept.change(sow_key, before, now, order))
        if now is not None:
            records[sow_key] = now, order
        afresh = fresh(projection)
        afresh.load((sow_key, document, order) for sow_key, (document, order) in records.items())
        assert list(kept.records()) == list(afresh.records()) == sorted(view.items())
        assert len(kept) == len(view)


@examples(60)
@given(loaded=st.lists(documents, max_size=8), data=st.data())
def test_the_order_of_arrival_leaves_no_trace(loaded: list[Document], data: st.DataObject) -> None:
    """The same records in any order, loaded or as changes, are the same groups."""
    items = [(b"%d" % n, document, (0, n)) for n, document in enumerate(loaded)]
    one, other = fresh(EVERYTHING), fresh(EVERYTHING)
    one.load(items)
    for sow_key, document, order in data.draw(st.permutations(items)):
        other.change(sow_key, None, document, order)
    assert list(one.records()) == list(other.records())


@examples(150)
@given(
    loaded=st.lists(st.tuples(documents, st.integers(0, 2)), max_size=12),
    projection=st.sampled_from([EVERYTHING, WITHOUT_LATEST]),
)
@example(loaded=[({"v": 0.1}, 0), ({"v": 0.2}, 1), ({"v": 0.3}, 2)], projection=EVERYTHING)
@example(loaded=[({"v": 1e308}, 0), ({"v": 1e308}, 1), ({"v": -1e308}, 1)], projection=EVERYTHING)
@example(loaded=[({"v": "01"}, 0), ({"v": 1}, 1), ({"v": "1"}, 2)], projection=WITHOUT_LATEST)
@example(loaded=[({"v": 1}, 0), ({"v": 2}, 1), ({"v": 2}, 1)], projection="AVG(/v) AS /a, /k")
def test_merged_groups_are_those_of_all_records(loaded: list[tuple[Document, int]], projection: str) -> None:
    """Groups of parts of the records, exported and merged, are the groups of all of them, to the last bit."""
    items = [
        (b"%d" % n, document, (n // 3, part, Position(0, n))) for n, (document, part) in enumerate(loaded)
    ]
    grouping, parsed = parse_grouping("/k"), parse_projection(projection)
    whole, merged = fresh(projection), MergedGroups("t", grouping, parsed, groups_max=100)
    whole.load(items)
    for part in range(3):
        groups = GroupStates("t", grouping, parsed, groups_max=100)
        groups.load(item for item, (_, of) in zip(items, loaded, strict=True) if of == part)
        for _, exported in groups.records():
            merged.put(part, exported)
    assert list(merged.records()) == list(whole.records())
    assert (len(merged), merged.members) == (len(whole), whole.members)


@examples(150)
@given(
    changes=st.lists(st.tuples(st.integers(0, 4), st.none() | documents, st.integers(0, 2)), max_size=20),
    projection=st.sampled_from([EVERYTHING, WITHOUT_LATEST]),
)
def test_live_states_merge_to_the_groups_of_all_records(
    changes: list[tuple[int, Document | None, int]], projection: str
) -> None:
    """After each change, the newest states of all parts make the groups of all records, to the last bit."""
    grouping, parsed = parse_grouping("/k"), parse_projection(projection)
    whole, merged = fresh(projection), MergedGroups("t", grouping, parsed, groups_max=100)
    parts = [GroupStates("t", grouping, parsed, groups_max=100) for _ in range(3)]
    held: dict[bytes, Document] = {}
    for number, (key, now, part) in enumerate(changes):
        sow_key = b"%d of %d" % (key, part)
        before = held.pop(sow_key, None)
        if now is not None:
            held[sow_key] = now
        order = (number, part, Position(0, number))
        whole.change(sow_key, before, now, order)
        for change in parts[part].change(sow_key, before, now, order):
            if change.body is None:
                merged.remove(part, change.sow_key)
            else:
                assert merged.put(part, change.body) == change.sow_key
        assert list(merged.records()) == list(whole.records())


def test_the_limit_of_groups_counts_after_the_merge() -> None:
    """Two parts have the same groups: together they have no more. One group more is refused."""
    grouping, projection = parse_grouping("/k"), parse_projection("/k, COUNT(1) AS /n")
    merged = MergedGroups("t", grouping, projection, groups_max=2)
    part = GroupStates("t", grouping, projection, groups_max=3)
    part.load([(b"1", {"k": 1}, (0,)), (b"2", {"k": 2}, (1,))])
    for source in range(2):
        for _, exported in part.records():
            merged.put(source, exported)
    part.load([(b"3", {"k": 3}, (2,))])
    with pytest.raises(SowlineError, match="expected at most 2 groups"):
        [merged.put(0, exported) for _, exported in part.records()]
