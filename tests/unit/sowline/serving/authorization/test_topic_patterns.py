"""Topics as requests and entitlements name them."""

import pytest

from sowline.errors import SowlineError
from sowline.serving.authorization.topic_patterns import EXCERPT_CHARS_MAX, excerpt, is_pattern, meant, names

TOPICS = ["orders", "orders/eu", "quotes"]


@pytest.mark.parametrize(
    ("text", "topics"),
    [
        ("orders", ["orders"]),
        ("^orders", ["orders"]),
        ("^orders.*", ["orders", "orders/eu"]),
        ("^.*", TOPICS),
        ("^(orders|quotes)", ["orders", "quotes"]),
        ("rders", []),
        ("^rders", []),
        ("gone", []),
    ],
)
def test_a_name_or_a_pattern_means_topics(text: str, topics: list[str]) -> None:
    """A pattern is for whole names, as `names` tells of each."""
    assert meant(text, TOPICS) == topics
    assert [topic for topic in TOPICS if names(text)(topic)] == topics
    assert is_pattern(text) is text.startswith("^")


@pytest.mark.parametrize("text", ["^(", "^[", "^" + "x" * 5000])
def test_what_is_no_pattern_is_refused(text: str) -> None:
    """The error has the pattern, cut, and why RE2 refuses it."""
    for call in (lambda: meant(text, TOPICS), lambda: names(text)):
        with pytest.raises(SowlineError, match="expected a pattern in RE2's syntax, got ") as error:
            call()
        assert error.value.reason == "bad regex topic"
        assert len(error.value.message) < 700


def test_a_pattern_that_would_take_too_long_is_refused() -> None:
    """Of the many topics of a large service."""
    slow = "^" + "(a?){200}" * 2
    assert meant(slow, ["a"]) == ["a"]
    with pytest.raises(SowlineError, match="it takes too many steps to match all topics"):
        meant(slow, ["a" * 200] * 100_000)


def test_a_long_text_is_cut_in_messages() -> None:
    """It shows that it is."""
    assert excerpt("x" * EXCERPT_CHARS_MAX) == "x" * EXCERPT_CHARS_MAX
    assert excerpt("x" * 300) == "x" * (EXCERPT_CHARS_MAX - 3) + "..."
