"""The filter language: text to tree (`parse`), tree to closures (`compile`), tree to text (`printer`).

`compile_filter(text).matches(document)` is all that most callers need; who indexes filters reads
`Filter.tree`. `docs/filters.md` specifies the language.
"""

from sowline.filter.compiled import ALL, Filter, compile_filter
from sowline.filter.errors import FilterError

__all__ = ["ALL", "Filter", "FilterError", "compile_filter"]
