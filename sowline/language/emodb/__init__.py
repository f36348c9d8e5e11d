"""The language of deltas and conditions: text to tree (`parse`), tree to text (`printer`), evaluation (`evaluate`).

`parse_delta(text).apply(value)` returns a new value; `compile_condition(text).matches(value)` tests a value. Both can
also use the document's `Intrinsics`. `UNDEFINED` stands for no value.
`docs/emodb.md` specifies the language.
"""

from sowline.language.emodb.compiled import Condition, Delta, compile_condition, parse_delta
from sowline.language.emodb.errors import DocumentError
from sowline.language.emodb.intrinsics import UNKNOWN, Intrinsics
from sowline.language.emodb.parse import use_native
from sowline.language.emodb.stream import parse_deltas
from sowline.language.emodb.values import UNDEFINED, Json, Undefined, same

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
    "use_native",
]
