"""Groups as a projection lays them out: inputs of records, states, templates and bodies."""

from math import inf, nan
from typing import Any

import orjson
import pytest

from sowline.language.expressions.projection import parse_grouping, parse_projection
from sowline.language.groups.layout import (
    ExportedGroup,
    FieldRule,
    GroupState,
    Layout,
    class_name,
    exported_text,
    grouped_value,
)


def layout(projection: str, grouping: str = "/color") -> Layout:
    """Return the layout of a projection."""
    return Layout(parse_grouping(grouping), parse_projection(projection))


def filled(made: Layout, *documents: dict[str, Any]) -> GroupState:
    """Return a group with these records, all with the first one's values of the grouping."""
    group = made.new_group(made.read(documents[0]).key, b"k")
    for number, document in enumerate(documents):
        read = made.read(document)
        for state, (_, argument) in zip(group.states, made.states, strict=True):
            state.add(read.arguments[argument])
        if group.latest is not None:
            group.latest.add((number,), b"%d" % number, read.others)
        group.records += 1
    return group


def test_the_inputs_from_a_record() -> None:
    """Arguments are scalars, and fields of the latest record keep their arrays."""
    made = layout("SUM(/qty + 1) AS /sum, MAX(/list) AS /max, /list AS /shown")
    read = made.read({"color": 1.0, "qty": 2, "list": [3, 4]})
    assert read.key == b"[1]"
    assert (read.arguments, read.others) == ([3, 3], [[3, 4]])
    assert made.tells_latest


def test_equal_aggregates_share_a_state() -> None:
    """MIN and MAX of one argument are read from the same values."""
    made = layout("MIN(/a) AS /min, MAX(/a) AS /max, SUM(/a) + MIN(/a) AS /both")
    assert [(class_name(state), argument) for state, argument in made.states] == [
        ("OrderedValues", 0),
        ("Sums", 0),
    ]
    assert not made.tells_latest


def test_the_body_of_a_group() -> None:
    """Fields are nested as the projection says; what JSON can't represent is null."""
    made = layout("/color AS /of/color, SUM(/qty) / COUNT(/qty) AS /of/mean, MAX(/x) AS /max, /last")
    group = filled(made, {"color": "red", "qty": 1, "x": inf}, {"color": "red", "qty": 4, "last": ["a"]})
    assert orjson.loads(made.body(group)) == {"of": {"color": "red", "mean": 2}, "max": None, "last": ["a"]}


def test_groups_of_several_processes_add_up() -> None:
    """A merged group has the body of one with all records."""
    made = layout("SUM(/qty) AS /sum, MAX(/qty) AS /max, GROUP_CONCAT(/name, '; ') AS /names, /name")
    documents = [{"color": "red", "qty": number, "name": f"n{number}"} for number in (1e300, 2**63, -1e300)]
    merged = filled(made, documents[0])
    for document in documents[1:]:
        merged.merge(ExportedGroup.read(filled(made, document).exported()))
    assert merged.records == 3
    assert orjson.loads(made.body(merged))["sum"] == 2.0**63
    assert orjson.loads(made.body(merged))["names"] == "n-1e+300; n1e+300; n9223372036854775808"


@pytest.mark.parametrize(
    ("states", "latest"),
    [([[1, 2**2000]], None), ([[inf, -inf]], None), ([["Infinity"]], [[1], "k", [inf, "x"]])],
)
def test_an_exported_state_can_be_read(states: list[Any], latest: Any) -> None:
    """Integers of any size come back, and infinities too."""
    text = exported_text(b'["red"]', 2, states, latest)
    assert ExportedGroup.read(text) == ('["red"]', 2, states, latest)
    assert b": Infinity" not in text


def test_the_template_of_simple_bodies() -> None:
    """Each field is a value of the grouping, or a result that is read from one state."""
    template = layout("/color, ANY(/qty) AS /a/any, SUM(/qty) AS /a/sum").template
    assert template is not None
    assert template.pieces == [b'{"color":', b',"a":{"any":', b',"sum":', b"}}"]
    assert template.fields == [FieldRule("group", 0), FieldRule("MIN", 0), FieldRule("SUM", 1)]
    assert (template.states, template.grouped_by) == (["OrderedValues", "Sums"], 1)


@pytest.mark.parametrize("projection", ["SUM(/a) + 1 AS /b", "/other", "COUNT_DISTINCT(/a) AS /b"])
def test_other_bodies_have_no_template(projection: str) -> None:
    """They are computed, or they are of the latest record."""
    assert layout(projection).template is None


def test_the_memory_of_a_group() -> None:
    """Values that are kept, the latest record and the body count."""
    made = layout("MIN(/a) AS /min, /other")
    small = filled(made, {"color": "red", "a": "x", "other": "y"})
    large = filled(made, {"color": "red", "a": "x" * 1000, "other": "y" * 1000})
    assert large.nbytes >= small.nbytes + 2 * 999
    before = small.nbytes
    small.body = b"x" * 100
    assert small.nbytes == before + 100


@pytest.mark.parametrize(
    ("value", "canonical"),
    [
        (1.0, "1"),
        (1, "1"),
        (1.5, "1.5"),
        (1e300, "1e+300"),
        ("1.0", "'1.0'"),
        ([2.0, 3], "2"),
        (None, "None"),
    ],
)
def test_equal_values_are_one_group(value: Any, canonical: str) -> None:
    """A double without a fraction is an integer, within 64 bits."""
    assert repr(grouped_value(value)) == canonical


def test_nan_is_a_value_that_json_can_not_represent() -> None:
    """Its group is that of NULL."""
    made = layout("COUNT(/a) AS /count")
    assert made.read({"color": nan, "a": 1}).key == made.read({"a": 1}).key
