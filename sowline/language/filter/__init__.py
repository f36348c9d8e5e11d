"""The filter language: text to tree (`parse`), tree to closures (`compile`), tree to text (`printer`).

`compile_filter(text).matches(document)` is all that most callers need. To index filters, read `Filter.tree`.
`compile_expression(text).value(document)` evaluates the same language to a value. `Metadata` holds the facts about a
record that are not in its body. `docs/filters.md` specifies the language.
"""

from sowline.language.filter.compiled import ALL, Filter, compile_filter
from sowline.language.filter.determinism import require_deterministic
from sowline.language.filter.errors import FilterError
from sowline.language.filter.expression import Expression, compile_expression
from sowline.language.filter.metadata import UNKNOWN, Metadata

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
