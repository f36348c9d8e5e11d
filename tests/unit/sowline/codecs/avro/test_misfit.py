"""The error for a value that doesn't fit a schema."""

from typing import Any

import pytest

from sowline.codecs.avro.misfit import PATH_TEXT_MAX, SchemaMisfit, excerpt


def test_an_error_names_the_path() -> None:
    """Each caller has added its step, the innermost first."""
    misfit = SchemaMisfit("a number", "'x'")
    assert misfit.error().message == "the record: expected a number, got 'x'"
    misfit.steps += ["qty", 1, "legs"]
    assert misfit.error().message == "/legs[1]/qty: expected a number, got 'x'"


def test_a_long_path_is_cut() -> None:
    """Keys of maps can have any length."""
    misfit = SchemaMisfit("a", "b")
    misfit.steps.append("x" * 1000)
    path = "/" + "x" * (PATH_TEXT_MAX - 1)
    assert misfit.error().message == f"{path}...: expected a, got b"


def test_the_caller_may_know_the_reason_better() -> None:
    """The value of a writer is a bad message, and that of a merged record an incomplete one."""
    assert SchemaMisfit("a", "b").error().reason == "bad message"
    assert SchemaMisfit("a", "b", "incomplete record").error().reason == "incomplete record"
    assert SchemaMisfit("a", "b", "incomplete record").error("bad message").reason == "bad message"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (False, "false"),
        ({"a": 1}, "an object"),
        ([1], "an array"),
        ("it's", '"it\'s"'),
        ("x" * 100, f"'{'x' * 60}'"),
        (b"\xff", "b'\\xff'"),
        (1.5, "1.5"),
        (7, "7"),
    ],
)
def test_an_excerpt_shows_a_value_of_json(value: Any, text: str) -> None:
    """In the words of JSON, and never a large one."""
    assert excerpt(value) == text
