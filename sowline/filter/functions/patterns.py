"""REGEXP_MATCH and REGEXP_REPLACE: RE2's patterns, compiled once each, and never without a limit.

One search is linear in the text, but a replacement searches again after every match, and a pattern can make
each of these searches read to the end. So a replacement has a budget.
"""

from functools import lru_cache

from sowline.filter.functions.registry import TEXT_CHARS_MAX
from sowline.filter.regex import PATTERN_BYTES_MAX, PatternError, Regex, encoded

COMPILED_PATTERNS_MAX = 64

REPLACEMENT_STEPS_MAX = 1 << 26
"""Steps of about a nanosecond that all searches of one replacement may take."""


@lru_cache(maxsize=COMPILED_PATTERNS_MAX)
def _compiled(pattern: str) -> Regex | None:
    try:
        return Regex(pattern)
    except PatternError:
        return None


def _regex(pattern: str) -> Regex | None:
    # The cache must not keep long texts, not even to remember that they are refused.
    return _compiled(pattern) if len(pattern) <= PATTERN_BYTES_MAX else None


def first_match(source: str, pattern: str) -> str | None:
    """The first text that the pattern matches; NULL, too, of a text that is too long for the pattern."""
    regex, text = _regex(pattern), encoded(source)
    match = regex.search(text) if regex is not None and regex.allows(len(text)) else None
    return None if match is None else _decoded(match.group())


def with_replaced(source: str | None, pattern: str | None, replacement: str | None) -> str | None:
    """Every match replaced, from the left, by the text; a NULL replacement removes it."""
    if source is None or pattern is None:
        return None
    regex, text = _regex(pattern), encoded(source)
    if regex is None or not regex.allows(len(text)):
        return None
    return _replace_all(regex, text, encoded(replacement or ""))


def _replace_all(regex: Regex, source: bytes, replacement: bytes) -> str | None:
    pieces: list[bytes] = []
    copied = position = size = 0
    budget = REPLACEMENT_STEPS_MAX
    while position <= len(source):
        match = regex.search(source, position)
        if match is None:
            break
        start, end = match.span()
        pieces += (source[copied:start], replacement)
        size += start - copied + len(replacement)
        budget -= (len(source) - position) * regex.byte_steps
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
