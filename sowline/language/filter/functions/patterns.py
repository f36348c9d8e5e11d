"""REGEXP_MATCH and REGEXP_REPLACE, with RE2's patterns. Compiled patterns are cached.

A search is linear in the text. But a replacement searches again after every match, and some patterns make each of
these searches read to the end of the text. So a replacement has a budget.
"""

from functools import lru_cache

from sowline.language.filter.functions.registry import TEXT_CHARS_MAX
from sowline.language.filter.regex import PATTERN_BYTES_MAX, PatternError, Regex, encoded

COMPILED_PATTERNS_MAX = 64

REPLACEMENT_STEPS_MAX = 1 << 26
"""The limit for all searches of one replacement, in steps of about a nanosecond."""


@lru_cache(maxsize=COMPILED_PATTERNS_MAX)
def _compiled(pattern: str) -> Regex | None:
    try:
        return Regex(pattern)
    except PatternError:
        return None


def _regex(pattern: str) -> Regex | None:
    # A pattern can be a field of a record. Long ones are always refused: keep them out of the cache, which would
    # otherwise use much memory.
    return _compiled(pattern) if len(pattern) <= PATTERN_BYTES_MAX else None


def first_match(source: str, pattern: str) -> str | None:
    """Return the first match; None if there is none, or if the text is too long for the pattern."""
    regex, text = _regex(pattern), encoded(source)
    match = regex.search(text) if regex is not None and regex.allows(len(text)) else None
    return None if match is None else _decoded(match.group())


def with_replaced(source: str | None, pattern: str | None, replacement: str | None) -> str | None:
    """Return the text with every match replaced, from the left; a NULL replacement removes the matches."""
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
        # After each match the next search can read to the end of the text. Without a budget, the work would be
        # quadratic (test_a_replacement_has_a_budget). A character has at most four bytes, so more are too long.
        if size > 4 * TEXT_CHARS_MAX or budget < 0:
            return None
        copied = end
        # After an empty match, the next search begins at the next character. It would find the same match again, and
        # from the next byte it would split a character (test_empty_matches_are_between_characters).
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
        # RE2's `\C` matches one byte, so a match can end inside a character (test_a_match_of_bytes_is_still_a_text).
        return found.decode("utf-8", "replace")
