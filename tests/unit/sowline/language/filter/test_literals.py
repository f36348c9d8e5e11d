"""The literals that clients write read back as the values that they were written for."""

import json
from pathlib import Path
from typing import Any

import pytest

from sowline.language.filter import compile_filter
from sowline.language.filter.literals import quoted

LINES = (Path(__file__).parents[4] / "conformance" / "literals.jsonl").read_text()
CASES = [json.loads(line) for line in LINES.splitlines()]


@pytest.mark.parametrize("line", CASES, ids=lambda line: ascii(line["literal"]))
def test_a_literal(line: dict[str, Any]) -> None:
    """A record with the value equals it, and one with another value does not."""
    value = line["value"]
    equal = compile_filter(f"/a = {line['literal']}")
    assert equal.matches({"a": value})
    assert not equal.matches({"a": f"{value}!"})
    if isinstance(value, str):
        assert quoted(value) == line["literal"]
