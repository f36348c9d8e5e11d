"""The language of deltas and conditions, under the names that `docs/emodb.md` gives to other programs."""

from sowline.language.emodb import (
    UNDEFINED,
    UNKNOWN,
    Condition,
    Delta,
    DocumentError,
    Intrinsics,
    Json,
    Undefined,
    compile_condition,
    parse_delta,
    parse_deltas,
    same,
)

__all__ = [
    "UNDEFINED",
    "UNKNOWN",
    "Condition",
    "Delta",
    "DocumentError",
    "Intrinsics",
    "Json",
    "Undefined",
    "compile_condition",
    "parse_delta",
    "parse_deltas",
    "same",
]
