"""The patterns of LIKE: searched anywhere in a text, in time linear in the text for every pattern.

A pattern is in RE2's syntax. Without metacharacters (except `^` at the start and `$` at the end), it becomes a method
of `str`, which is many times faster. Users' patterns never reach the standard library's `re`, because `(a+)+$` would
hang it (`test_no_pattern_takes_forever`). For texts that are too long for a regular expression, the result is NULL.
"""

from collections.abc import Callable, Iterable
from operator import methodcaller

from sowline.language.filter.regex import PATTERN_BYTES_MAX, PatternError, Regex, encoded

TextTest = Callable[[str], bool | None]

_METACHARACTERS = frozenset(r"\^$.|?*+()[]{}")


def compile_pattern(pattern: str, *, raw: bool) -> TextTest:
    """Return a function that tests whether a text contains the pattern; raise `PatternError`.

    A raw pattern is a plain text, without metacharacters.
    """
    if len(pattern) > PATTERN_BYTES_MAX or len(encoded(pattern)) > PATTERN_BYTES_MAX:
        raise PatternError(f"more than {PATTERN_BYTES_MAX} bytes")
    if raw:
        return _plain_test(pattern, at_start=False, at_end=False)
    at_start, body = pattern.startswith("^"), pattern.removeprefix("^")
    at_end = body.endswith("$")
    plain = _plain_text(body.removesuffix("$"))
    if plain is None:
        return _regex_test(pattern)
    return _plain_test(plain, at_start=at_start, at_end=at_end)


def takes_regex(pattern: str, *, raw: bool) -> bool:
    """Return whether the pattern needs a regular expression."""
    return not raw and _plain_text(pattern.removeprefix("^").removesuffix("$")) is None


def _plain_text(body: str) -> str | None:
    """Return the only text that the body matches, or None if the body needs a regular expression."""
    characters: list[str] = []
    rest = iter(body)
    for character in rest:
        if character == "\\":
            escaped = next(rest, "")
            # Before a letter or a digit, a backslash has a meaning in RE2, such as `\d`.
            if not escaped or escaped.isalnum() or not escaped.isascii():
                return None
            characters.append(escaped)
        elif character in _METACHARACTERS:
            return None
        else:
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


def _regex_test(pattern: str) -> "RegexTest":
    return RegexTest(Regex(pattern))


class RegexTest:
    """Tests whether a regular expression matches anywhere in a text; None if the text is too long for it."""

    __slots__ = ("_allows", "_search")

    def __init__(self, regex: Regex) -> None:
        self._allows = regex.allows
        self._search = regex.search

    def __call__(self, value: str) -> bool | None:
        """Test one text."""
        text = encoded(value)
        return self._search(text) is not None if self._allows(len(text)) else None

    def allows(self, texts: Iterable[str]) -> bool:
        """Return whether these texts together are short enough to be searched."""
        return self._allows(sum(len(encoded(text)) for text in texts))
