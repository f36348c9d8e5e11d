"""Numbers in files and settings: those that people read differently are refused."""

import pytest
from pydantic import ValidationError

from sowline.config.plain_numbers import PlainNumbers


class Limits(PlainNumbers):
    """A model with two numbers and a text."""

    count: int = 0
    share: float | None = None
    name: str = ""


@pytest.mark.parametrize(("text", "count"), [("10", 10), ("0", 0), ("-5", -5), (" 7 ", 7)])
def test_plain_digits_are_a_number(text: str, count: int) -> None:
    """A value is a text in files and in the environment."""
    assert Limits.model_validate({"count": text}).count == count


@pytest.mark.parametrize("text", ["010", "1_000", "+5", "-01", "0_1", " 010"])
def test_another_spelling_is_refused(text: str) -> None:
    """It would be 8 for one reader and 10 for the next."""
    for field in ("count", "share"):
        with pytest.raises(ValidationError, match=r"expected a number in plain digits, such as 10 or 2\.5"):
            Limits.model_validate({field: text})


def test_a_fraction_may_begin_with_a_zero() -> None:
    """There is only one way to read it."""
    assert Limits.model_validate({"share": "0.5"}).share == 0.5


def test_a_text_may_look_like_such_a_number() -> None:
    """Names keep their digits."""
    assert Limits.model_validate({"name": "007"}).name == "007"
