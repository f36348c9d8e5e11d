"""The sentence for what a setting or a field of a file should have."""

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from sowline.config.expected import expected_and_got, expected_by


class Server(BaseModel):
    """A model with one field."""

    model_config = ConfigDict(extra="forbid")
    port: int


def error_of(kind: Any, value: Any) -> dict[str, Any]:
    """Return the error of a value that a type refuses."""
    with pytest.raises(ValidationError) as refusal:
        TypeAdapter(kind).validate_python(value)
    (error,) = refusal.value.errors()
    return dict(error)


@pytest.mark.parametrize(
    ("kind", "value", "sentence"),
    [
        (int, "many", "expected a whole number, got 'many'"),
        (int, 1.5, "expected a whole number, got 1.5"),
        (bool, "perhaps", "expected true or false, got 'perhaps'"),
        (Literal["a", "b"], "c", "expected 'a' or 'b', got 'c'"),
        (Annotated[float, Field(gt=0.0)], 0, "expected a number greater than 0, got 0"),
        (Annotated[float, Field(ge=0.5)], 0, "expected a number of at least 0.5, got 0"),
        (Annotated[str, Field(max_length=2)], "abc", "expected at most 2 characters, got 3"),
        (Annotated[list[int], Field(min_length=1)], [], "expected a list of at least 1, got 0"),
        (tuple[int, ...], "a", "expected a list, got 'a'"),
        (Server, {}, "expected this field, got nothing"),
        (Server, {"port": 1, "host": "a"}, "expected a known field"),
        (Server, 5, "expected a mapping of fields to values, got 5"),
        (str, {"a": 1}, "expected a text"),
    ],
)
def test_an_error_has_a_sentence(kind: Any, value: Any, sentence: str) -> None:
    """With the value, unless it is long, or the sentence has it already."""
    assert expected_and_got(error_of(kind, value)) == sentence


def test_a_long_value_is_cut() -> None:
    """A line of a log stays short."""
    assert len(expected_and_got(error_of(int, "x" * 1000))) < 150


def test_the_sentence_of_a_validator_stays() -> None:
    """It has been written for its reader, and has the value already."""
    error = {"type": "value_error", "msg": "Value error, expected a duration, got 7", "input": 7}
    assert expected_by(error) == expected_and_got(error) == "expected a duration, got 7"


def test_an_unknown_kind_has_the_words_of_its_library() -> None:
    """They are better than none."""
    error = {"type": "date_type", "msg": "Input should be a valid date", "input": 7}
    assert expected_and_got(error) == "Input should be a valid date, got 7"
