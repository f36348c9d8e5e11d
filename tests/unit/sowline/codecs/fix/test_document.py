"""The JSON of a message: repeated tags, and groups."""

import pytest

from tests.unit.sowline.codecs.fix.messages import (
    PIPES,
    framed,
    read,
    refusal,
    refusal_of,
    with_options,
    written,
)


def test_a_tag_that_comes_several_times_is_an_array() -> None:
    """The order between several such tags is not kept."""
    assert read("58=a|1=x|58=b|1=y|58=c|") == {"58": ["a", "b", "c"], "1": ["x", "y"]}
    assert written({"58": ["a", "b", "c"], "1": ["x", "y"]}) == "58=a|58=b|58=c|1=x|1=y|"
    assert PIPES.completed(b'{"58":["a"]}') == b'{"58":"a"}'


PARTIES = "11=1|453=2|448=A|447=D|802=2|523=x|803=1|523=y|452=1|448=B|452=3|55=IBM|"


def test_groups_of_the_standard_are_arrays() -> None:
    """The length of an array is the count."""
    assert read(PARTIES) == {
        "11": "1",
        "453": [
            {"448": "A", "447": "D", "802": [{"523": "x", "803": "1"}, {"523": "y"}], "452": "1"},
            {"448": "B", "452": "3"},
        ],
        "55": "IBM",
    }
    assert written(read(PARTIES)) == PARTIES
    assert read("11=1|453=0|") == {"11": "1", "453": []}
    assert written({"11": "1", "453": []}) == "11=1|453=0|"


def test_the_members_of_a_group_depend_on_the_message_type() -> None:
    """Side is a field of an order, but within ListStrikePrice one of each underlying."""
    assert read(framed("8=FIX.4.4|35=D|711=1|311=X|54=1|"))["54"] == "1"
    assert read("711=1|311=X|54=1|")["54"] == "1"
    assert read(framed("8=FIX.4.4|35=m|711=1|311=X|54=1|"))["711"] == [{"311": "X", "54": "1"}]
    assert written({"8": "FIX.4.4", "35": "m", "711": [{"311": "X", "54": "1"}]}) == framed(
        "8=FIX.4.4|35=m|711=1|311=X|54=1|"
    )
    assert "expected members of the group 711" in refusal_of(
        {"8": "FIX.4.4", "35": "D", "711": [{"311": "X", "54": "1"}]}
    )


def test_groups_may_be_named() -> None:
    """A group of the options replaces that of the standard; without members, the count is an ordinary field."""
    codec = with_options(separator="|", groups={"5001": [5002, 5003], "453": [], "J:5001": ["5004"]})
    assert read("5001=1|5002=a|5003=b|", codec) == {"5001": [{"5002": "a", "5003": "b"}]}
    assert read("35=J|5001=1|5004=a|5003=b|", codec) == {"35": "J", "5001": [{"5004": "a"}], "5003": "b"}
    assert read("453=2|448=A|448=B|", codec) == {"453": "2", "448": ["A", "B"]}
    assert written({"5001": [{"5002": "a"}]}, codec) == "5001=1|5002=a|"


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        (
            "453=2|448=A|55=IBM|",
            "expected 2 entries in the group 453, the value of its count, got 1 before 55",
        ),
        (
            "453=1|448=A|448=B|",
            "expected 1 entries in the group 453, the value of its count, got 2 before the end",
        ),
        ("453=0|448=A|", "got 1 before the end"),
        ("453=1|", "got 0 before the end"),
        ("453=1|55=IBM|", "got 0 before 55"),
        ("453=2|448=A|9001=x|448=B|", "got 1 before 9001: name the members"),
        ("453=-1|448=A|", "expected a number of at most 9 digits in '453', got '-1'"),
        ("453=|448=A|", "got ''"),
        ("453=1.0|448=A|", "got '1.0'"),
        (f"453={'9' * 1_000_000}|448=A|", "expected a number"),
        (b"453=\xff|448=A|", "got bytes"),
        ("453=1|448=A|55=IBM|453=1|448=B|", "expected the group 453 once"),
    ],
)
def test_groups_that_are_wrong(message: str | bytes, sentence: str) -> None:
    """The count must be the number of entries."""
    assert sentence in refusal(message)


def test_a_field_that_a_group_would_take_comes_before_it() -> None:
    """A delta may add such a field to a record that ends with the group."""
    merged = PIPES.merged(b'{"11":"1","453":[{"448":"A"}]}', b'{"447":"D","448":"B","38":"5"}')
    assert PIPES.write(merged) == b"11=1|447=D|448=B|453=1|448=A|38=5|"
    assert PIPES.completed(merged) == b'{"11":"1","447":"D","448":"B","453":[{"448":"A"}],"38":"5"}'


def test_entries_begin_with_the_same_field() -> None:
    """It is the first field of the first entry."""
    assert written({"453": [{"448": "A", "447": "D"}, {"447": "E", "448": "B"}]}) == (
        "453=2|448=A|447=D|448=B|447=E|"
    )
    assert "expected '448' in each entry" in refusal_of({"453": [{"448": "A"}, {"447": "E"}]})


def test_entries_that_could_not_be_separated() -> None:
    """What a reader would read in another way is refused."""
    codec = with_options(groups={"5001": [5002, 5003], "5003": [5004, 5002]})
    inseparable = [{"5002": "a", "5003": [{"5004": "b"}]}, {"5002": "c"}]
    assert "only where it can't be read as part of the group before it" in refusal_of(
        {"5001": inseparable}, codec
    )
    first = [{"5003": [{"5004": "b"}], "5002": "a"}]
    assert "can't be read as part of" in refusal_of({"5001": first}, codec)
