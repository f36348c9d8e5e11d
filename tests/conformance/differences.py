"""What docs/emodb.md lists: the rules in which Sowline's language differs from the corpus's."""

import re
from collections.abc import Callable
from math import isinf
from pathlib import Path
from typing import Any

DOCUMENTATION = Path(__file__).parents[2] / "docs" / "emodb.md"

_ROW = re.compile(r"^\| `([a-z-]+)` \|", re.MULTILINE)


def listed() -> set[str]:
    """The names of the rules in the page's table of differences."""
    section = DOCUMENTATION.read_text(encoding="utf-8").split("\n## Differences from EmoDB\n")[1]
    return set(_ROW.findall(section.split("\n## ")[0]))


def rules_of(case: dict[str, Any]) -> set[str]:
    """The rules that a case is about: the corpus's own marks, and those for which it has none."""
    text = case.get("text", "")
    marked = set(case.get("quirk", ()))
    return marked | {rule for rule, is_about in _UNMARKED.items() if is_about(case, text)}


def _is_text_behind_stream(case: dict[str, Any], text: str) -> bool:
    return case["kind"] == "stream" and "error" not in case["expect"] and text.lstrip().startswith("[")


def _is_alias(case: dict[str, Any], text: str) -> bool:
    return case["kind"] == "parse_error" and re.search(r"\bis\s*\(\s*(map|list)\s*\)", text) is not None


def _is_not_finite(case: dict[str, Any], text: str) -> bool:
    numbers = re.findall(r"-Infinity|-NaN|[0-9][0-9.]*[eE]\+?[0-9]+", text)
    return any(number.startswith("-") or isinf(float(number)) for number in numbers)


_UNMARKED: dict[str, Callable[[dict[str, Any], str], bool]] = {
    "text-behind-stream": _is_text_behind_stream,
    "is-map-is-list": _is_alias,
    "non-finite-number": _is_not_finite,
}
