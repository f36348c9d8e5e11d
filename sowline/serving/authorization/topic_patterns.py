"""Topics as requests and entitlements name them: one name, or a pattern with a leading `^`."""

from collections.abc import Callable, Collection

from sowline.errors import SowlineError
from sowline.language.filter.regex import PatternError, Regex

TOPIC_CHARS_MAX = 4096
"""The largest number of characters of a topic name or pattern in a request."""

EXCERPT_CHARS_MAX = 200


def is_pattern(text: str) -> bool:
    """Whether the text is a pattern."""
    return text.startswith("^")


def names(text: str) -> Callable[[str], bool]:
    """Return a function that tells whether the text names a topic; raise `bad regex topic`."""
    # Whole names only: the right to `^orders` must not be one to `orders_of_the_board`, too
    # (test_a_name_or_a_pattern_means_topics).
    return _regex(text).is_whole if is_pattern(text) else text.__eq__


def meant(text: str, topics: Collection[str]) -> list[str]:
    """Return the topics that the text names.

    Raise `bad regex topic`, also for a pattern that would take too long to match all topics.
    """
    if not is_pattern(text):
        return [text] if text in topics else []
    regex = _regex(text)
    if not regex.allows(sum(map(len, topics))):
        raise _bad(text, "it takes too many steps to match all topics")
    return [name for name in topics if regex.is_whole(name)]


def excerpt(text: str) -> str:
    """Return the text for an error message, cut if it is long."""
    return text if len(text) <= EXCERPT_CHARS_MAX else text[: EXCERPT_CHARS_MAX - 3] + "..."


def _regex(text: str) -> Regex:
    try:
        return Regex(text)
    except PatternError as error:
        raise _bad(text, str(error)) from None


def _bad(text: str, why: str) -> SowlineError:
    return SowlineError(
        "bad regex topic", f"expected a pattern in RE2's syntax, got {excerpt(text)!r}: {why}"
    )
