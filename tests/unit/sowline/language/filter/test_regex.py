"""The limits of regular expressions: how large one is, and how long a text it may search."""

import re as standard
from itertools import product
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bench.hostile import PATTERNS_REFUSED, PATTERNS_TAKEN, PATTERNS_TOO_LARGE
from sowline.errors import SowlineError
from sowline.language.filter import FilterError, compile_filter
from sowline.language.filter.functions.patterns import REPLACEMENT_STEPS_MAX, first_match, with_replaced
from sowline.language.filter.regex import (
    INSTRUCTION_STEPS,
    PATTERN_BYTES_MAX,
    PATTERN_SIZE_MAX,
    SEARCH_STEPS_MAX,
    UNICODE_CLASS_CHARS,
    PatternError,
    Regex,
    pattern_size,
)
from sowline.serving.authorization.topic_patterns import meant, names

Written = tuple[str, str]
"""A pattern, and the same with its repetitions written out."""


def _atoms(text: str) -> Written:
    return text, text


def _grouped(one: Written) -> Written:
    return f"({one[0]})", f"({one[1]})"


def _repeated(one: Written, least: int, more: int) -> Written:
    pattern, written = _grouped(one)
    return f"{pattern}{{{least},{least + more}}}", written * max(1, least) + f"{written}?" * more


atoms = st.sampled_from(["a", ".", "[a)]", r"\)", "[]{2}]", r"\x{41}", "b*", "c+?", "[[:alpha:]({]"]).map(
    _atoms
)
patterns = st.recursive(
    atoms,
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3).map(lambda some: tuple(map("".join, zip(*some, strict=True))))
        | inner.map(_grouped)
        | st.builds(_repeated, inner, st.integers(0, 3), st.integers(0, 3))
    ),
    max_leaves=6,
)


@given(patterns)
@example(_repeated(_atoms("[)]"), 3, 0))
def test_the_size_is_that_of_what_is_repeated(written: Written) -> None:
    """Sets, escapes and quotes hide brackets; nothing is counted for less than it becomes."""
    pattern, out = written
    assert pattern_size(pattern) == len(out)


@pytest.mark.parametrize(
    ("pattern", "size"),
    [
        ("", 0),
        ("abc", 3),
        ("a{1000}", 1000),
        ("a{2,}", 2),
        ("a{0}", 1),
        ("(a{30}){30}", (30 + 2) * 30),
        (r"\pL", UNICODE_CLASS_CHARS),
        (r"\p{Greek}{3}", 3 * UNICODE_CLASS_CHARS),
        (r"[\pL\PN]", len(r"[\pL\PN]") + 2 * UNICODE_CLASS_CHARS),
        (r"\Q(a){9}\E", len(r"\Q(a){9}\E")),
        (r"\Q(a", 4),
        ("a{x}", 4),
        ("((", 2),
    ],
)
def test_sizes(pattern: str, size: int) -> None:
    """What is no repetition counts as it stands, and so does what RE2 will refuse."""
    assert pattern_size(pattern) == size


@given(st.text("(){}[]a1,|?*\\pLQE^-", max_size=30))
def test_any_text_has_a_size(text: str) -> None:
    """What RE2 takes has a size of which its program is no large multiple."""
    size = pattern_size(text)
    assert size >= 0
    try:
        regex = Regex(text)
    except PatternError:
        return
    assert regex.byte_steps <= INSTRUCTION_STEPS * (100 + 20 * size)


@pytest.mark.parametrize("name", PATTERNS_TOO_LARGE)
def test_what_is_too_large_never_reaches_re2(name: str) -> None:
    """Neither a topic nor a filter of any kind compiles it."""
    pattern = PATTERNS_TOO_LARGE[name]
    with patch("sowline.language.filter.regex.re2.compile", side_effect=AssertionError("compiled")):
        with pytest.raises(SowlineError) as error:
            names("^" + pattern)
        assert error.value.reason == "bad regex topic"
        assert len(error.value.message) < 1000
        for text in (f"/a LIKE '{pattern}'", f"REGEXP_MATCH(/a, r'{pattern}') = 'x'"):
            with pytest.raises(FilterError) as refused:
                compile_filter(text)
            assert refused.value.reason == "bad filter"
            assert len(refused.value.message) < 1000
        assert first_match("abc", pattern) is None
        assert with_replaced("abc", pattern, "x") is None


@pytest.mark.parametrize("name", PATTERNS_REFUSED)
def test_what_re2_refuses(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    """It says nothing on stderr, in no place where patterns are compiled."""
    pattern = PATTERNS_REFUSED[name]
    with pytest.raises(SowlineError) as error:
        names("^" + pattern)
    assert error.value.reason == "bad regex topic"
    with pytest.raises(FilterError):
        compile_filter(f"/a LIKE '{pattern}'")
    assert first_match("abc", pattern) is None
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", PATTERNS_TAKEN)
def test_what_is_taken(name: str) -> None:
    """Within the limits a pattern is taken, up to the last character."""
    pattern = PATTERNS_TAKEN[name]
    Regex(pattern)
    compile_filter(f"/a LIKE '{pattern}'")
    longest = pattern.ljust(PATTERN_BYTES_MAX, "b")
    with pytest.raises(PatternError, match="more than 4096"):
        Regex(longest + "b")


def test_the_limits_are_of_bytes() -> None:
    """A plain pattern of LIKE has the same limit, a raw one too."""
    for quote in ("'", "r'"):
        compile_filter(f"/a LIKE {quote}{'é' * (PATTERN_BYTES_MAX // 2)}'")
        with pytest.raises(FilterError, match="more than 4096 bytes"):
            compile_filter(f"/a LIKE {quote}{'é' * (PATTERN_BYTES_MAX // 2)}e'")


def test_the_regular_expressions_of_a_filter_are_counted_together() -> None:
    """One more character than there may be is refused; a pattern of the record counts as the largest."""
    half = "." * PATTERN_SIZE_MAX
    compile_filter(f"/a LIKE '{half}' OR /b LIKE '{half}'")
    with pytest.raises(FilterError, match="8192 characters"):
        compile_filter(f"/a LIKE '{half}' OR /b LIKE '{half}' OR /c LIKE '.'")
    compile_filter("REGEXP_MATCH(/a, /p) = REGEXP_MATCH(/b, /q)")
    with pytest.raises(FilterError, match="8192 characters"):
        compile_filter("REGEXP_MATCH(/a, /p) = REGEXP_MATCH(/b, /q) OR /c LIKE '.'")


def test_a_small_pattern_takes_a_step_a_byte() -> None:
    """A larger one takes steps for each instruction, so that its texts are shorter."""
    assert Regex("x.*y|x").byte_steps == 1
    large = Regex("(?:a?b?){500}c")
    assert large.byte_steps > 1000
    limit = SEARCH_STEPS_MAX // large.byte_steps
    assert large.allows(limit)
    assert not large.allows(limit + 1)


def test_a_text_that_is_too_long_for_a_pattern() -> None:
    """It is NULL, alone and in an array, whichever way the filter takes."""
    pattern = "(?:a?b?){500}c"
    text = "c" * (SEARCH_STEPS_MAX // Regex(pattern).byte_steps)
    like, unlike = compile_filter(f"/a LIKE '{pattern}'"), compile_filter(f"/a NOT LIKE '{pattern}'")
    assert like.matches({"a": text})
    for value in (text + "c", [text, "c"]):
        assert not like.matches({"a": value})
        assert not unlike.matches({"a": value})
    assert compile_filter(f"(/a LIKE '{pattern}') IS NULL").matches({"a": [text, "c"]})
    assert first_match(text, pattern) == "c"
    assert first_match(text + "c", pattern) is None
    assert with_replaced(text + "c", pattern, "x") is None


def test_a_replacement_has_steps() -> None:
    """Each match costs a search of what is left."""
    some = "x" * 5000
    assert with_replaced(some, "x.*y|x", "z") == "z" * 5000
    many = "x" * (2 * REPLACEMENT_STEPS_MAX // 5000)
    assert with_replaced(many, "x.*y|x", "z") is None


def test_a_pattern_of_topics_is_matched_within_steps() -> None:
    """Where there are very many topics, a pattern may be too large for all their names."""
    topics = [f"topic-{number:0190}" for number in range(100)]
    assert meant("^topic-0*7$", topics) == [topics[7]]
    with pytest.raises(SowlineError, match="too many steps"):
        meant("^(?:t?o?p?i?c?-?){200}", topics)


@given(st.lists(st.text("ab", max_size=3), max_size=4), st.text("ab|^$.*()", max_size=5))
def test_topics_are_those_whose_whole_name_matches(topics: list[str], text: str) -> None:
    """As the standard library has it, where both take the pattern."""
    pattern = "^" + text
    try:
        expected = [name for name in topics if standard.fullmatch(pattern, name)]
        found = meant(pattern, topics)
    except (standard.error, SowlineError):
        return
    assert found == expected


def test_nothing_is_lost_of_an_exact_name() -> None:
    """A name is no pattern."""
    for name, other in product(("a", "a.b", "^a"), repeat=2):
        is_meant = other == ("a" if name == "^a" else name)
        assert meant(name, [other]) == ([other] if is_meant else [])
