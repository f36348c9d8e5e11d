"""REGEXP_MATCH and REGEXP_REPLACE: RE2's patterns, compiled once each, and never without a limit.

One search is linear in the text, but a replacement searches anew after every match, and a pattern can make
each of these searches read to the end. So a replacement has a budget.
"""

from functools import lru_cache

from sowline.filter.functions.registry import TEXT_CHARS_MAX
from sowline.filter.patterns import PatternError, Search, compile_search, encoded

COMPILED_PATTERNS_MAX = 64
PATTERN_CHARS_MAX = 4096
"""A longer pattern is refused, so that the cache of compiled ones has a limit."""

REPLACED_BYTES_MAX = 1 << 28
"""The bytes of text times the matches replaced in it."""


def pattern_search(pattern: str) -> Search:
    """The search for the pattern; raises `PatternError`."""
    if len(pattern) > PATTERN_CHARS_MAX:
        raise PatternError(f"more than {PATTERN_CHARS_MAX} characters")
    return compile_search(pattern)


@lru_cache(maxsize=COMPILED_PATTERNS_MAX)
def _compiled(pattern: str) -> Search | None:
    try:
        return pattern_search(pattern)
    except PatternError:
        return None


def _search(pattern: str) -> Search | None:
    # The cache must not keep long texts, not even to remember that they are refused.
    return _compiled(pattern) if len(pattern) <= PATTERN_CHARS_MAX else None


def first_match(source: str, pattern: str) -> str | None:
    """The first text that the pattern matches."""
    search = _search(pattern)
    match = search(encoded(source)) if search is not None else None
    return None if match is None else _decoded(match.group())


def with_replaced(source: str | None, pattern: str | None, replacement: str | None) -> str | None:
    """Every match replaced, from the left, by the text; a NULL replacement removes it."""
    if source is None or pattern is None:
        return None
    search = _search(pattern)
    return None if search is None else _replace_all(search, encoded(source), encoded(replacement or ""))


def _replace_all(search: Search, source: bytes, replacement: bytes) -> str | None:
    pieces: list[bytes] = []
    copied = position = size = 0
    budget = REPLACED_BYTES_MAX
    while position <= len(source):
        match = search(source, position)
        if match is None:
            break
        start, end = match.span()
        pieces += (source[copied:start], replacement)
        size += start - copied + len(replacement)
        budget -= len(source)
        # A character has at most four bytes, so more than that is certainly too long.
        if size > 4 * TEXT_CHARS_MAX or budget < 0:
            return None
        copied = end
        position = end if end > start else _next_character(source, end)
    pieces.append(source[copied:])
    return _decoded(b"".join(pieces))


def _next_character(source: bytes, position: int) -> int:
    position += 1
    while position < len(source) and source[position] & 0xC0 == 0x80:
        position += 1
    return position


def _decoded(found: bytes) -> str:
    try:
        return found.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        # The pattern cut a character in two: RE2's `\C` matches one byte.
        return found.decode("utf-8", "replace")
