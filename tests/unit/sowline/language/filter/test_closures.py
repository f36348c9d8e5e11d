"""The closures of a compiled filter: which operands each calls, and how it combines their results."""

from collections.abc import Callable
from typing import Any

import pytest

from sowline.language.filter import closures
from sowline.language.filter.arithmetic import OPERATIONS
from sowline.language.filter.evaluate import all_true, any_true

DOCUMENT: dict[str, Any] = {"n": 3, "s": "abc", "list": ["b", "a"]}


def field(name: str) -> closures.Evaluate:
    """Return the closure for a top-level field."""
    return lambda document: document.get(name)


def never(document: Any) -> bool:
    """Fail, because the result is known without this operand."""
    raise AssertionError("called in vain")


@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize(("join", "decides"), [(closures.all_hold, False), (closures.any_holds, True)])
def test_tests_are_called_until_one_decides(join: Callable[..., Any], decides: bool, count: int) -> None:
    """The others are not called; without one that decides, all are."""
    other = closures.always(not decides)
    for position in range(count):
        tests = [other] * position + [closures.always(decides)] + [never] * (count - position - 1)
        assert join(tests)(DOCUMENT) is decides
    assert join([other] * count)(DOCUMENT) is not decides


def test_null_is_neither_true_nor_false() -> None:
    """NOT NULL is NULL, and NULL is exactly neither."""
    verdicts = [closures.always(verdict) for verdict in (True, False, None)]
    assert [closures.inverting(verdict)(DOCUMENT) for verdict in verdicts] == [False, True, None]
    assert [closures.is_exactly(False, verdict)(DOCUMENT) for verdict in verdicts] == [False, True, False]
    assert closures.joining(all_true, verdicts[::2])(DOCUMENT) is None
    assert closures.joining(any_true, verdicts)(DOCUMENT) is True


def test_predicates_of_fields() -> None:
    """Every operand may come from the document."""
    assert closures.judging(lambda value: value == 3, field("n"))(DOCUMENT) is True
    assert closures.comparing("<", field("n"), closures.always(4))(DOCUMENT) is True
    assert closures.betweening(field("n"), closures.always(1), closures.always(2))(DOCUMENT) is False
    assert closures.containing(field("s"), [field("none"), field("s")])(DOCUMENT) is True
    assert closures.containing(field("s"), [field("none"), field("n")])(DOCUMENT) is None
    assert closures.as_truth(field("n"))(DOCUMENT) is True


def test_affixes_of_fields() -> None:
    """An item that is an array gives several."""
    assert closures.affixing("BEGINS", field("s"), [field("list")])(DOCUMENT) is True
    assert closures.affixing("ENDS", field("s"), [field("list")])(DOCUMENT) is False


def test_only_the_chosen_value_is_computed() -> None:
    """Of an array it is the first element."""
    assert closures.choosing(closures.always(True), field("list"), never)(DOCUMENT) == "b"
    assert closures.choosing(closures.always(False), never, closures.always(""))(DOCUMENT) is None


@pytest.mark.parametrize("count", range(4))
def test_a_function_gets_all_arguments(count: int) -> None:
    """They come in their order."""
    arguments = [closures.always(number) for number in range(count)]
    assert closures.calling(lambda *values: repr(values), arguments)(DOCUMENT) == repr(tuple(range(count)))


def test_arithmetic_goes_from_left_to_right() -> None:
    """One step, or a chain of them."""
    minus, times = OPERATIONS["-"], OPERATIONS["*"]
    assert closures.calculating(field("n"), [(minus, closures.always(1))])(DOCUMENT) == 2
    assert closures.calculating(field("n"), [(minus, closures.always(1)), (times, field("n"))])(DOCUMENT) == 6
    assert closures.signing("-", field("n"))(DOCUMENT) == -3
