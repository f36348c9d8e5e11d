"""LIKE's patterns: found anywhere in the text, in time linear in its length whatever the pattern.

A pattern is in RE2's syntax. One without metacharacters, but for `^` in front and `$` behind, becomes a
method of `str`: many times faster. The standard library's `re` is never given a pattern of a user: `(a+)+$`
would hang it.
"""

from collections.abc import Callable
from operator import methodcaller
from typing import Any

import re2  # type: ignore[import-untyped,unused-ignore]

TextTest = Callable[[str], bool]

Search = Callable[..., Any]
"""Of an encoded text, and a position to begin at: the first match, or `None`."""

PATTERN_MEMORY_BYTES_MAX = 1 << 20

_METACHARACTERS = frozenset(r"\^$.|?*+()[]{}")


class PatternError(ValueError):
    """A pattern that RE2 refuses, and its reason."""


def compile_pattern(pattern: str, *, raw: bool) -> TextTest:
    """A test whether a text holds the pattern; raises `PatternError`. A raw pattern is a plain text."""
    if raw:
        return _plain_test(pattern, at_start=False, at_end=False)
    at_start, body = pattern.startswith("^"), pattern.removeprefix("^")
    at_end = body.endswith("$")
    plain = _plain_text(body.removesuffix("$"))
    if plain is None:
        return _regex_test(pattern)
    return _plain_test(plain, at_start=at_start, at_end=at_end)


def takes_regex(pattern: str, *, raw: bool) -> bool:
    """Whether telling what the pattern matches takes a regular expression."""
    return not raw and _plain_text(pattern.removeprefix("^").removesuffix("$")) is None


def _plain_text(body: str) -> str | None:
    """The one text that the body matches, or `None` if it takes a regular expression to tell."""
    characters: list[str] = []
    rest = iter(body)
    for character in rest:
        if character == "\\":
            character = next(rest, "")
            if not character or character.isalnum() or not character.isascii():
                return None
        elif character in _METACHARACTERS:
            return None
        characters.append(character)
    return "".join(characters)


def _plain_test(text: str, *, at_start: bool, at_end: bool) -> TextTest:
    if at_start and at_end:
        return text.__eq__
    if at_start:
        return methodcaller("startswith", text)
    if at_end:
        return methodcaller("endswith", text)

    def contains(value: str) -> bool:
        return text in value

    return contains


def _regex_test(pattern: str) -> TextTest:
    search = compile_search(pattern)

    def found(value: str) -> bool:
        return search(encoded(value)) is not None

    return found


def compile_search(pattern: str) -> Search:
    """The search for a pattern in encoded texts, from a position on; raises `PatternError`."""
    options = re2.Options()
    options.max_mem = PATTERN_MEMORY_BYTES_MAX
    options.log_errors = False
    options.never_capture = True
    try:
        # Bytes: with `str` the library would also count characters, to report positions that nobody asks for.
        search: Search = re2.compile(encoded(pattern), options).search
    except re2.error as error:
        raise PatternError(reason_of(error)) from None
    return search


def encoded(text: str) -> bytes:
    """The text in UTF-8."""
    # A lone surrogate, which some decoders let through, is no UTF-8; it must not become an exception here.
    return text.encode("utf-8", "surrogatepass")


def reason_of(error: Exception) -> str:
    """RE2's reason for refusing a pattern."""
    reason = error.args[0] if error.args else error
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
