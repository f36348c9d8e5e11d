"""The functions that choose a value."""

from sowline.language.filter.functions.values import FUNCTIONS, choose, coalesce


def test_the_first_value_that_is_not_null() -> None:
    """Zero and FALSE are values."""
    assert coalesce(None, 0, 1) == 0
    assert coalesce(None, False, True) is False
    assert coalesce(None, None) is None


def test_a_condition_chooses() -> None:
    """NULL, and a text that is not a number, are not TRUE."""
    assert [choose(condition, "then", "else") for condition in (1, "2", True)] == ["then"] * 3
    assert [choose(condition, "then", "else") for condition in (0, None, "x")] == ["else"] * 3


def test_constants() -> None:
    """NaN has no other notation."""
    constants = {function.name: function.applied_to(0)() for function in FUNCTIONS if not function.parameters}
    assert repr(constants) == "{'TRUE_VALUE': True, 'FALSE_VALUE': False, 'NAN_VALUE': nan}"
