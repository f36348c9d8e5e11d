"""Groups: which record is in which, and what their changes tell."""

from collections.abc import Sequence
from typing import Any

import orjson
import pytest

from sowline.errors import SowlineError
from sowline.language.expressions.projection import parse_grouping, parse_projection
from sowline.language.groups import GroupChange, Groups
from sowline.model.key import sow_key

Document = dict[str, Any]


def groups(projection: str = "/k, SUM(/v) AS /sum", grouping: str = "/k", *, groups_max: int = 100) -> Groups:
    """Groups of orders without a record."""
    return Groups("orders", parse_grouping(grouping), parse_projection(projection), groups_max=groups_max)


def body(**fields: Any) -> bytes:
    """A result."""
    return orjson.dumps(fields)


def bodies(changes: Sequence[GroupChange]) -> list[tuple[bytes | None, bytes | None]]:
    """The previous result and the new one of each change."""
    return [(change.previous, change.body) for change in changes]


def results(of: Groups) -> list[Document]:
    """All results, in the order of their texts."""
    return [orjson.loads(text) for text in sorted(text for _, text in of.records())]


def result(of: Groups) -> Document:
    """The result of the only group."""
    (only,) = results(of)
    return only


def loaded(of: Groups, *documents: Document) -> Groups:
    """The groups with these records, each of which changed after the one before."""
    of.load((b"%d" % n, document, (n,)) for n, document in enumerate(documents))
    return of


def test_a_new_record_begins_a_group() -> None:
    """A group that was not there has no previous result."""
    changes = groups().change(b"1", None, {"k": "a", "v": 1}, (1,))
    assert bodies(changes) == [(None, body(k="a", sum=1))]


def test_an_update_changes_its_group() -> None:
    """What the record was is taken out, and what it is now is let in."""
    kept = loaded(groups(), {"k": "a", "v": 1}, {"k": "a", "v": 5})
    changes = kept.change(b"0", {"k": "a", "v": 1}, {"k": "a", "v": 2}, (9,))
    assert bodies(changes) == [(body(k="a", sum=6), body(k="a", sum=7))]


def test_an_update_without_a_difference_is_one() -> None:
    """The group was updated, though its result is what it was."""
    kept = loaded(groups(), {"k": "a", "v": 1})
    changes = kept.change(b"0", {"k": "a", "v": 1}, {"k": "a", "v": 1, "x": 2}, (9,))
    assert bodies(changes) == [(body(k="a", sum=1), body(k="a", sum=1))]


def test_a_record_that_moves_changes_two_groups() -> None:
    """The group that it leaves comes first."""
    kept = loaded(groups(), {"k": "a", "v": 1}, {"k": "a", "v": 2}, {"k": "b", "v": 4})
    changes = kept.change(b"0", {"k": "a", "v": 1}, {"k": "b", "v": 1}, (9,))
    assert bodies(changes) == [
        (body(k="a", sum=3), body(k="a", sum=2)),
        (body(k="b", sum=4), body(k="b", sum=5)),
    ]


def test_a_group_is_gone_with_its_last_record() -> None:
    """It has no result any more; the change tells the last one."""
    kept = loaded(groups(), {"k": "a", "v": 1})
    assert bodies(kept.change(b"0", {"k": "a", "v": 1}, None, (9,))) == [(body(k="a", sum=1), None)]
    assert (len(kept), list(kept.records())) == (0, [])


def test_a_group_may_come_back() -> None:
    """Nothing is left of the group that was, and its SOW key is the same."""
    kept = groups("/k, MAX(/v) AS /max, GROUP_CONCAT(/v) AS /all, /v")
    (begun,) = kept.change(b"1", None, {"k": "a", "v": 9}, (1,))
    kept.change(b"1", {"k": "a", "v": 9}, None, (2,))
    (back,) = kept.change(b"2", None, {"k": "a", "v": 1}, (3,))
    assert back == GroupChange(begun.sow_key, body(k="a", max=1, all="1", v=1), None, begun.key)


def test_a_change_outside_is_none() -> None:
    """A record that neither was in nor is changes no group."""
    assert groups().change(b"1", None, None, (1,)) == []


def test_the_sow_key_is_made_of_topic_grouping_and_values() -> None:
    """So that it is the same after a restart, and differs from that of every other group."""
    kept = loaded(groups("COUNT(1) AS /n", "/k,/legs[0]/x"), {"k": 1.0, "legs": [{"x": "é"}]})
    ((key, _),) = kept.records()
    assert key == sow_key(b"orders by /k,/legs[0]/x\0", '[1,"é"]') == b"8748976779199412246"


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        (1, 1.0, True),
        (0, -0.0, True),
        (2**63, 2.0**63, True),
        (None, "", True),
        ("a", ["a", "b"], True),
        (None, {"b": 1}, True),
        (None, [], True),
        (1, "1", False),
        (1, True, False),
        ("true", True, False),
        (None, "null", False),
        (None, 0, False),
        (0.5, "0.5", False),
        (2**53 + 1, 2.0**53, False),
        (1e300, 1e301, False),
    ],
)
def test_which_values_are_one_group(one: Any, other: Any, together: bool) -> None:
    """Numbers that are equal, and all forms of NULL; nothing is converted."""
    kept = loaded(groups(), {"k": one}, {"k": other})
    assert len(kept) == (1 if together else 2)


def test_several_paths_cannot_be_confused() -> None:
    """Where one value ends and the next begins is part of a group's identity."""
    kept = loaded(groups("/a, /b", "/a,/b"), {"a": "x,y", "b": "z"}, {"a": "x", "b": "y,z"}, {"a": "x"})
    assert results(kept) == [{"a": "x", "b": "y,z"}, {"a": "x", "b": None}, {"a": "x,y", "b": "z"}]


def test_records_are_in_the_order_of_their_sow_keys() -> None:
    """The order does not depend on how the groups came to be."""
    keys = [key for key, _ in loaded(groups(), *({"k": n} for n in range(50))).records()]
    assert len(keys) == 50
    assert keys == sorted(keys)


def test_the_latest_record_tells_the_other_fields() -> None:
    """They are those of the record that changed last of all in the group, no matter which arrived last here."""
    kept = groups("/v, /w")
    kept.load([(b"1", {"v": "new"}, (5, 0)), (b"2", {"v": "old", "w": 1}, (4, 1))])
    assert result(kept) == {"v": "new", "w": None}


def test_the_latest_record_leaves() -> None:
    """When it is gone, or elsewhere, the next latest one tells."""
    kept = loaded(groups("/v", "/k"), {"v": 0}, {"v": 1}, {"v": 2})
    kept.change(b"2", {"v": 2}, None, (8,))
    assert result(kept) == {"v": 1}
    kept.change(b"1", {"v": 1}, {"v": 1, "k": "other"}, (9,))
    assert results(kept) == [{"v": 0}, {"v": 1}]


def test_no_order_is_kept_of_records_that_left() -> None:
    """Memory is that of the records that are in, not of all there ever were."""
    kept = groups("/v")
    for n in range(10):
        kept.change(b"%d" % n, None, {"v": n}, (n,))
        kept.change(b"%d" % n, {"v": n}, None, (n + 1,))
    assert kept._orders == {}


def test_an_update_makes_a_record_the_latest() -> None:
    """And it stays so while others leave."""
    kept = loaded(groups("/v"), {"v": 0}, {"v": 1})
    assert bodies(kept.change(b"0", {"v": 0}, {"v": 3}, (7,))) == [(body(v=1), body(v=3))]
    kept.change(b"1", {"v": 1}, None, (8,))
    assert result(kept) == {"v": 3}


def test_other_fields_keep_their_arrays() -> None:
    """A field of the latest record that is an array is projected whole; an object has no value."""
    kept = loaded(
        groups("/tags, /tags[1] AS /second, /address"), {"tags": ["a", "b", None], "address": {"zip": 1}}
    )
    assert result(kept) == {"tags": ["a", "b", None], "second": "b", "address": None}


def test_a_grouped_field_has_one_form_in_all_expressions() -> None:
    """It doesn't depend on which of the equal values came."""
    kept = groups("/k, /k + 0.5 AS /sum, CONCAT(/k, '!') AS /text")
    assert result(loaded(kept, {"k": 2.0}, {"k": 2})) == {"k": 2, "sum": 2.5, "text": "2!"}


def test_names_of_slots_cannot_be_taken() -> None:
    """A field may have any name, that of a slot for a result included."""
    kept = groups("[/group 0], [/aggregate 0] AS /x, SUM([/aggregate 0]) AS /y, [/other 0] AS /z")
    document = {"k": 1, "group 0": "g", "aggregate 0": 7, "other 0": "o"}
    assert result(loaded(kept, document)) == {"group 0": "g", "x": 7, "y": 7, "z": "o"}


def test_results_are_nested_in_the_order_of_the_projection() -> None:
    """Fields with a common beginning share an object, which stands where the first of them does."""
    kept = loaded(groups("COUNT(1) AS /a/n, /k, MIN(/v) AS /a/v/min, MAX(/v) AS /a/v/max"), {"k": 1, "v": 2})
    ((_, text),) = kept.records()
    assert text == b'{"a":{"n":1,"v":{"min":2,"max":2}},"k":1}'


def test_what_json_cannot_write_is_null() -> None:
    """NaN and the infinities; the sum comes back when the text is gone."""
    kept = loaded(groups("SUM(/v) AS /sum, MAX(/v * 1e308) AS /max"), {"v": "cat"}, {"v": 20})
    assert result(kept) == {"sum": None, "max": None}
    kept.change(b"0", {"v": "cat"}, None, (9,))
    assert result(kept) == {"sum": 20, "max": None}


def test_there_is_a_limit_to_groups() -> None:
    """A record that would begin one group too many is refused, and nothing is changed by it."""
    kept = loaded(groups(groups_max=2), {"k": 1}, {"k": 1}, {"k": 2})
    before = list(kept.records())
    for left in (None, {"k": 1}):
        with pytest.raises(SowlineError) as error:
            kept.change(b"0", left, {"k": 3}, (9,))
        assert error.value.reason == "too many groups"
        assert list(kept.records()) == before
    with pytest.raises(SowlineError, match="at most 2 groups"):
        kept.load([(b"9", {"k": 3}, (9,))])


def test_a_group_that_ends_makes_room() -> None:
    """The last record of a group may move to a new one where no more groups are allowed."""
    kept = loaded(groups(groups_max=1), {"k": 1})
    assert len(kept.change(b"0", {"k": 1}, {"k": 2}, (9,))) == 2
    assert len(kept) == 1


def test_a_record_cannot_leave_where_it_never_was() -> None:
    """Changes that don't fit the ones before are a mistake, not another result."""
    with pytest.raises(AssertionError, match="leaves group"):
        groups().change(b"1", {"k": "a"}, None, (1,))


def test_a_load_after_changes_is_in_the_next_result() -> None:
    """Records may be loaded in portions, results asked for in between."""
    kept = loaded(groups(), {"k": "a", "v": 1})
    assert result(kept) == {"k": "a", "sum": 1}
    kept.load([(b"7", {"k": "a", "v": 2}, (7,))])
    assert result(kept) == {"k": "a", "sum": 3}


def test_a_move_there_and_back_is_no_trace() -> None:
    """Rounding can't drift: the sum is the same as ever to the last bit."""
    kept = loaded(groups("SUM(/v) AS /sum"), {"v": 0.1}, {"v": 0.2}, {"v": 1e300})
    kept.change(b"2", {"v": 1e300}, None, (9,))
    assert result(kept) == {"sum": 0.30000000000000004}


def test_the_memory_of_the_latest_record_is_that_of_its_values() -> None:
    """They are kept as long as the record is, and none of their memory is left over."""
    few, many = groups("/k, /text, /list"), groups("/k, /text, /list")
    for of, times in ((few, 1), (many, 10_000)):
        records = ({"k": 1, "text": "ü" * times, "list": ["x" * times, 2]} for _ in range(10))
        of.load((b"%d" % number, document, (number,)) for number, document in enumerate(records))
    assert few.measure() < 10_000
    assert many.measure() > 10 * 30_000
    long = {"k": 1, "text": "ü" * 10_000, "list": ["x" * 10_000, 2]}
    for number in range(10):
        many.change(b"%d" % number, long, {"k": 1, "text": "ü", "list": ["x", 2]}, (10 + number,))
    few.change(b"9", {"k": 1, "text": "ü", "list": ["x", 2]}, {"k": 1, "text": "ü", "list": ["x", 2]}, (19,))
    assert many.measure() == few.measure()


def test_results_that_are_computed_later_count() -> None:
    """A group's result is kept once it was asked for."""
    of = groups("/k, CONCAT(/k, /k) AS /twice, COUNT(1) AS /n")
    of.load((b"%d" % number, {"k": f"{number}" * 1000}, (number,)) for number in range(20))
    before = of.measure()
    kept = sum(len(text) for _, text in of.records())
    assert of.measure() == before + kept > before + 20 * 2000
