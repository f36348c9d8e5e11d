"""JSON values of any depth, and the texts about them in errors."""

from typing import Any

import jsonschema_rs
import pytest

from sowline.codecs.json_schema.values import SHOWN_CHARS_MAX, is_deeper, nodes, sentence, shown


def test_all_values_in_values_are_found() -> None:
    """Of objects and arrays, with themselves; keys are none."""
    inner: dict[str, Any] = {"b": [1, "x"]}
    found = list(nodes([{"a": inner}, 2]))
    assert len(found) == 6
    for value in ({"a": inner}, inner, [1, "x"], 1, "x", 2):
        assert value in found


def nested(levels: int) -> Any:
    """Return arrays in objects in arrays, of this many levels."""
    document: Any = 5
    for level in range(levels):
        document = {"a": document} if level % 2 else [document]
    return document


@pytest.mark.parametrize("levels", [0, 1, 2, 50, 5000])
def test_levels_are_counted(levels: int) -> None:
    """Without recursion. The limit itself is allowed."""
    document = nested(levels)
    assert not is_deeper(document, max(levels, 1))
    assert is_deeper(nested(levels + 2), max(levels, 1))


def test_a_sentence_is_the_error_of_the_validator() -> None:
    """Without the schema that its text also has."""
    error = next(jsonschema_rs.validator_for({"type": "string"}).iter_errors(5))
    assert sentence(error) == '5 is not of type "string"'
    assert sentence(ValueError("no such anchor")) == "no such anchor"


def test_long_texts_are_cut() -> None:
    """What is cut ends with an ellipsis."""
    assert sentence(ValueError("x" * SHOWN_CHARS_MAX)) == "x" * SHOWN_CHARS_MAX
    assert sentence(ValueError("x" * 1000)) == "x" * SHOWN_CHARS_MAX + "…"
    assert shown("x" * 1000) == '"' + "x" * (SHOWN_CHARS_MAX - 1) + "…"


@pytest.mark.parametrize(
    ("value", "text"),
    [({"a": 1}, "an object"), ([1], "an array"), ("é", '"é"'), (1.5, "1.5"), (None, "null"), (True, "true")],
)
def test_a_value_is_shown_as_json(value: Any, text: str) -> None:
    """Containers only by their kind."""
    assert shown(value) == text
