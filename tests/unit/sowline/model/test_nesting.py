"""Nesting: how deep a body may go."""

import pytest

from sowline.errors import SowlineError
from sowline.model.nesting import NESTING_MAX, check_nesting


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")])
def test_a_body_has_a_largest_depth(opening: str, closing: str) -> None:
    """Objects and arrays count alike; the limit itself is allowed."""
    levels = opening.count("[") + opening.count("{")
    fits, more = NESTING_MAX // levels, NESTING_MAX // levels + 1
    check_nesting((opening * fits + "1" + closing * fits).encode())
    with pytest.raises(SowlineError) as error:
        check_nesting((opening * more + "1" + closing * more).encode())
    assert error.value.reason == "too deep"


def test_another_limit() -> None:
    """A document has one of its own."""
    check_nesting(b"[[]]", 2)
    with pytest.raises(SowlineError, match="at most 2 levels"):
        check_nesting(b"[[[]]]", 2)


def test_many_brackets_side_by_side_are_not_deep() -> None:
    """A long body of small arrays is shallow."""
    check_nesting(b"[" + b",".join([b"[[1]]"] * NESTING_MAX) + b"]")


@pytest.mark.parametrize("text", ["[[{", '\\"[', "\\\\", '[\\\\\\"{', "ü[\n["])
def test_brackets_in_strings_do_not_count(text: str) -> None:
    """What stands in a string is text, whatever is escaped in it."""
    brackets = "[" * NESTING_MAX
    check_nesting(f'{{"a":["{text}"],"b":{{"[":"{brackets}"}}}}'.encode())
