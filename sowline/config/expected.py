"""The value that a setting or a field of a file should have: a sentence for each kind of error of Pydantic."""

from collections.abc import Mapping
from typing import Any

_SENTENCES = {
    "missing": "expected this field, got nothing",
    "extra_forbidden": "expected a known field",
    "model_type": "expected a mapping of fields to values",
    "dict_type": "expected a mapping of names to values",
    "tuple_type": "expected a list",
    "string_type": "expected a text",
    "int_parsing": "expected a whole number",
    "int_type": "expected a whole number",
    "int_from_float": "expected a whole number",
    "float_parsing": "expected a number",
    "float_type": "expected a number",
    "finite_number": "expected a finite number",
    "bool_parsing": "expected true or false",
    "bool_type": "expected true or false",
    "literal_error": "expected {expected}",
    "greater_than": "expected a number greater than {gt}",
    "greater_than_equal": "expected a number of at least {ge}",
    "less_than": "expected a number less than {lt}",
    "less_than_equal": "expected a number of at most {le}",
    "string_too_long": "expected at most {max_length:,} characters",
    "string_too_short": "expected at least {min_length:,} characters",
    "too_short": "expected a list of at least {min_length:,}",
    "too_long": "expected a list of at most {max_length:,}",
}
_LENGTHS = {"string_too_long", "string_too_short", "too_short", "too_long"}
"""Kinds whose value is shown by its length."""
_OWN = {"missing", "extra_forbidden", "value_error"}
"""Kinds whose sentence contains the value already, or needs none."""


def expected_by(error: Mapping[str, Any]) -> str:
    """Return the expected value in words, for one error of a `ValidationError`; a validator's sentence stays."""
    sentence = _SENTENCES.get(error["type"])
    if sentence is None:
        return str(error["msg"]).removeprefix("Value error, ")
    limits = {
        name: int(limit) if isinstance(limit, float) and limit.is_integer() else limit
        for name, limit in error.get("ctx", {}).items()
    }
    return sentence.format(**limits)


def expected_and_got(error: Mapping[str, Any]) -> str:
    """Return the expected value and, unless it is a mapping or in the sentence already, the given one."""
    kind, value = error["type"], error["input"]
    if kind in _LENGTHS:
        return f"{expected_by(error)}, got {len(value):,}"
    if kind in _OWN or isinstance(value, dict | list):
        return expected_by(error)
    return f"{expected_by(error)}, got {repr(value)[:100]}"
