"""Parts of statements of Spark SQL, as text.

A column that is built in Python costs round trips to Java for each of its parts, some of them only to report where
the part was made. A text costs one round trip.
"""

import re

_PLAIN = re.compile(r"[^'\\$]*")


def name(column: str) -> str:
    """Return the name of a column or field, quoted."""
    return "`" + column.replace("`", "``") + "`"


def text(value: str) -> str:
    """Return a string as a literal."""
    if _PLAIN.fullmatch(value):
        return f"'{value}'"
    # The escapes of a quote, a backslash and a dollar depend on the session's settings.
    return f"CAST(X'{value.encode().hex()}' AS STRING)"


def any_of(conditions: list[str]) -> str | None:
    """Return whether one of the conditions is true; None if there are none."""
    return f"({' OR '.join(conditions)})" if conditions else None
