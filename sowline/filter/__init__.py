"""The filter language: text to tree (`parse`), tree to closures (`compile`), tree to text (`printer`).

`compile_filter(text).matches(document)` is all that most callers need; who indexes filters reads
`Filter.tree`. `compile_expression(text).value(document)` is the same language where a value is due, and
`Metadata` what else may be known of a record. `docs/filters.md` specifies the language.
"""

from sowline.filter.compiled import ALL, Filter, compile_filter
from sowline.filter.determinism import require_deterministic
from sowline.filter.errors import FilterError
from sowline.filter.expression import Expression, compile_expression
from sowline.filter.metadata import UNKNOWN, Metadata

__all__ = [
    "ALL",
    "UNKNOWN",
    "Expression",
    "Filter",
    "FilterError",
    "Metadata",
    "compile_expression",
    "compile_filter",
    "require_deterministic",
]
