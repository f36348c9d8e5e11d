"""How a case of each kind is asked, and whether the answer is the one expected."""

from collections.abc import Callable
from typing import Any

from sowline.language.emodb import (
    UNDEFINED,
    DocumentError,
    Intrinsics,
    compile_condition,
    parse_delta,
    parse_deltas,
    same,
)
from sowline.language.emodb.intrinsics import FIELDS
from tests.conformance.sequences import run_sequence

Case = dict[str, Any]


def run_case(case: Case) -> str | None:
    """None if the case passes, else what came instead of what was expected."""
    try:
        return _RUN[case["kind"]](case)
    except Exception as error:
        # What should never be raised fails its own case, and the others are still asked.
        return f"{type(error).__name__}: {error}"


def _delta(case: Case) -> str | None:
    try:
        found = parse_delta(case["text"]).apply(_input(case), _about(case))
    except DocumentError as error:
        return error.message
    expected = UNDEFINED if _is_undefined(case["expect"]) else case["expect"]
    return None if same(found, expected) else f"expected {expected!r}, got {found!r}"


def _condition(case: Case) -> str | None:
    try:
        found = compile_condition(case["text"]).matches_about(_input(case), _about(case))
    except DocumentError as error:
        return error.message
    return None if found is case["expect"] else f"expected {case['expect']}, got {found}"


def _canonical(case: Case) -> str | None:
    try:
        found = _PARSE[case["grammar"]](case["text"]).text
        again = _PARSE[case["grammar"]](found).text
    except DocumentError as error:
        return error.message
    if found != again:
        return f"{found} reads back as {again}"
    return None if found == case["expect"] else f"expected {case['expect']}, got {found}"


def _parse_error(case: Case) -> str | None:
    try:
        found = _PARSE[case["grammar"]](case["text"]).text
    except DocumentError:
        return None
    return f"expected {case['expect']['error']}, got {found}"


def _stream(case: Case) -> str | None:
    found, error = [], None
    try:
        for delta in parse_deltas(case["text"]):
            found.append(delta.text)  # noqa: PERF401 - an error leaves those before it
    except DocumentError as raised:
        error = raised.message
    expected = case["expect"]
    if found != expected["deltas"]:
        return f"expected {expected['deltas']}, got {found}"
    return None if (error is None) == ("error" not in expected) else f"error {error!r}"


def _input(case: Case) -> Any:
    return UNDEFINED if case.get("undefined") else case["input"]


def _is_undefined(expected: Any) -> bool:
    return isinstance(expected, dict) and expected.get("undefined") is True and len(expected) == 1


def _about(case: Case) -> Intrinsics:
    known = case.get("intrinsics") or {}
    return Intrinsics(**{FIELDS[name]: value for name, value in known.items()})


_PARSE: dict[str, Callable[[str], Any]] = {"delta": parse_delta, "condition": compile_condition}

_RUN: dict[str, Callable[[Case], str | None]] = {
    "delta": _delta,
    "condition": _condition,
    "canonical": _canonical,
    "parse_error": _parse_error,
    "stream": _stream,
    "sequence": run_sequence,
}
