"""The names of topics in requests and entitlements: one, or with a leading `^` all that match a pattern."""

from collections.abc import Callable, Collection

from sowline.errors import SowlineError
from sowline.filter.regex import PatternError, Regex

TOPIC_CHARS_MAX = 4096
"""Of what a request names its topics by."""

EXCERPT_CHARS_MAX = 200


def is_pattern(text: str) -> bool:
    """Whether the text names topics by a pattern."""
    return text.startswith("^")


def names(text: str) -> Callable[[str], bool]:
    """Return what tells whether a topic of that name is meant; raises `bad regex topic`."""
    return _regex(text).is_whole if is_pattern(text) else text.__eq__


def meant(text: str, topics: Collection[str]) -> list[str]:
    """Return those of the topics that the text names.

    Raises `bad regex topic`, also for a pattern that would take too long for so many topics.
    """
    if not is_pattern(text):
        return [text] if text in topics else []
    regex = _regex(text)
    if not regex.allows(sum(map(len, topics))):
        raise _bad(text, "it takes too many steps to match all topics")
    return [name for name in topics if regex.is_whole(name)]


def excerpt(text: str) -> str:
    """Return the text, or its begin: an error repeats no more of it."""
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
