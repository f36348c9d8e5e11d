"""The groups of several processes, merged from the states that they export."""

import orjson
import pytest

from sowline.errors import SowlineError
from sowline.language.expressions.projection import parse_grouping, parse_projection
from sowline.language.groups.layout import Layout
from sowline.language.groups.merged import MergedGroups

GROUPING = parse_grouping("/color")
PROJECTION = parse_projection("/color, SUM(/qty) AS /sum, /name")


@pytest.fixture
def merged() -> MergedGroups:
    """No groups yet, and room for two."""
    return MergedGroups("orders", GROUPING, PROJECTION, groups_max=2)


def state(color: str, *quantities: int) -> bytes:
    """Return the state of a group of records with these quantities; the last has changed last."""
    layout = Layout(GROUPING, PROJECTION)
    group = layout.new_group(b'["%b"]' % color.encode(), b"")
    for number, quantity in enumerate(quantities):
        read = layout.read({"color": color, "qty": quantity, "name": f"n{quantity}"})
        for one, (_, argument) in zip(group.states, layout.states, strict=True):
            one.add(read.arguments[argument])
        assert group.latest is not None
        group.latest.add((number,), b"%d" % quantity, read.others)
        group.records += 1
    return group.exported()


def test_a_result_is_that_of_all_records(merged: MergedGroups) -> None:
    """Whatever process has them."""
    key = merged.put("one", state("red", 1, 2))
    assert merged.put("other", state("red", 4, 5, 6)) == key
    body = merged.body(key)
    assert body is not None
    assert orjson.loads(body) == {"color": "red", "sum": 18, "name": "n6"}
    assert (len(merged), merged.members, merged.tells_latest) == (1, 5, True)


def test_a_newer_state_replaces_that_of_its_source(merged: MergedGroups) -> None:
    """The result is computed again."""
    key = merged.put("one", state("red", 1))
    assert b'"sum":1' in (merged.body(key) or b"")
    merged.put("one", state("red", 7))
    assert b'"sum":7' in (merged.body(key) or b"")


def test_a_group_is_gone_with_its_last_source(merged: MergedGroups) -> None:
    """Its SOW key has no result then."""
    key = merged.put("one", state("red", 1))
    merged.put("other", state("red", 2))
    merged.remove("one", key)
    assert b'"sum":2' in (merged.body(key) or b"")
    merged.remove("other", key)
    assert (merged.body(key), len(merged)) == (None, 0)


def test_groups_are_in_the_order_of_their_sow_keys(merged: MergedGroups) -> None:
    """That is the order of a query without another one."""
    keys = [merged.put("one", state(color, 1)) for color in ("red", "blue")]
    assert [key for key, _ in merged.records()] == sorted(keys)
    assert all(merged.body(key) == body for key, body in merged.records())


def test_there_is_a_limit_to_groups(merged: MergedGroups) -> None:
    """A refused state has no effect, and groups that exist still take states."""
    merged.put("one", state("red", 1))
    merged.put("one", state("blue", 1))
    with pytest.raises(SowlineError) as refused:
        merged.put("one", state("green", 1))
    assert refused.value.reason == "too many groups"
    merged.put("other", state("red", 2))
    assert (len(merged), merged.members) == (2, 3)
