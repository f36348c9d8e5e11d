"""How requests and entitlements name topics: one, or with a `^` first all whose whole names match a pattern."""

from collections.abc import Callable

import re2  # type: ignore[import-untyped,unused-ignore]

from sowline.errors import SowlineError
from sowline.filter.patterns import reason_of


def is_pattern(text: str) -> bool:
    """Whether the text names topics by a pattern."""
    return text.startswith("^")


def names(text: str) -> Callable[[str], bool]:
    """Return what tells whether a topic of that name is meant; raises `bad regex topic`."""
    if not is_pattern(text):
        return lambda name: name == text
    options = re2.Options()
    options.log_errors = False
    try:
        matches = re2.compile(text, options).fullmatch
    except re2.error as error:
        raise SowlineError(
            "bad regex topic", f"expected a pattern in RE2's syntax, got {text!r}: {reason_of(error)}"
        ) from None
    return lambda name: matches(name) is not None
