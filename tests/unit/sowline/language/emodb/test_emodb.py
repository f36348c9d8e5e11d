"""Deltas and conditions as objects, errors, limits. (What they mean: test_emodb_docs, test_conformance.)"""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from sowline.language.emodb import UNDEFINED, DocumentError, Intrinsics, compile_condition, parse_delta
from sowline.language.emodb.parse import LEXEMES_MAX, TEXT_CHARS_MAX
from sowline.model.nesting import NESTING_MAX

SECONDS_AT_ONCE = 10.0
"""Generous, as the machine may be busy; what would hang takes minutes."""


def test_deltas_of_one_meaning_are_equal() -> None:
    """The canonical text decides, however a delta was written."""
    one, other = parse_delta('{ .. , "b":2,"a":1}'), parse_delta('{..,"a":1,"b":2}')
    assert one == other
    assert hash(one) == hash(other)
    assert str(one) == one.text == '{..,"a":1,"b":2}'
    assert one != parse_delta('{..,"a":1.0,"b":2}')


def test_conditions_of_one_meaning_are_equal() -> None:
    """The canonical text decides, however a condition was written."""
    assert compile_condition("or(1,2)") == compile_condition("in( 2, 1)")
    assert compile_condition("1") != compile_condition("1.0")
    assert repr(compile_condition("is(null)")) == "Condition('null')"


def test_a_value_stays_as_it_is() -> None:
    """What a delta is applied to can still be used."""
    value = {"a": {"b": 1}, "s": [3, 1]}
    result = parse_delta('{..,"a":{..,"c":2},"s":(..,2)}').apply(value)
    assert result == {"a": {"b": 1, "c": 2}, "s": [1, 2, 3]}
    assert value == {"a": {"b": 1}, "s": [3, 1]}


def test_a_noop_gives_the_value_itself() -> None:
    """Nothing is copied that doesn't change."""
    value = {"a": 1}
    assert parse_delta('if {..,"a":2} then ~ end').apply(value) is value


def test_intrinsics_are_null_where_nothing_is_known() -> None:
    """A condition can be asked of a value without a document around it."""
    condition = compile_condition('intrinsic("~id":"k")')
    assert not condition.matches({})
    assert condition.matches_about({}, Intrinsics(id="k"))
    assert compile_condition('intrinsic("~lastUpdateAt":null)').matches(UNDEFINED)
    assert not compile_condition("partition(1:1)").matches({})


@pytest.mark.parametrize(
    ("text", "needs"),
    [
        ('{..,"a":1}', False),
        ('{..,"a":if intrinsic("~id":"k") then 1 end}', True),
        ("if not(partition(2:1)) then ~ end", True),
    ],
)
def test_a_delta_tells_whether_it_asks_for_intrinsics(text: str, needs: bool) -> None:
    """Who applies many deltas works out no intrinsics in vain."""
    assert parse_delta(text).needs_about is needs


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "expected a delta at column 1, got the end of the delta"),
        ("foo", "expected a delta at column 1, got 'foo'"),
        ('{..,"a" 1}', "expected a key in double quotes and a colon at column 5, got '\"a\"'"),
        ('{"a":1,\n "b":}', "expected a delta at line 2, column 6, got '}'"),
        ("{..", "expected ',' or '}' at column 4, got the end of the delta"),
        ("if 1 the 2 end", "expected then at column 6, got 'the'"),
        ("if 1 then 2", "expected elif, else or end at column 12, got the end of the delta"),
        ("5 5", "expected the end at column 3, got '5'"),
        ("{..} ?", "expected the end at column 6, got '?'"),
        ('"abc', 'expected a closing " for the string, at column 1'),
        ('"a\nb"', "expected no control character in a string, got '\\n', at line 1, column 3"),
        (r'"\q"', r"expected one of \" \\ \/ \b \f \n \r \t \uXXXX in a string, at column 2"),
        ("1e400", "expected a number that a double can hold, at column 1"),
        ('{..,"a":1,"a":2}', "expected each key once, got 'a' again, at column 11"),
        ('{"a":[{"b":1,"b":2}]}', "expected each key once, got 'b' again, at column 14"),
        ("(1,(2))", "expected only values in a set, got (2), at column 1"),
        ("(1,~1)", "expected each value of a set once, got 1 twice, at column 1"),
        ("{..}\0", "expected the end at column 5, got '\\x00'"),
        ("[~]", "expected a value at column 2, got '~'"),
    ],
)
def test_what_is_no_delta_is_refused_with_a_sentence(text: str, sentence: str) -> None:
    """The sentence says what was expected, where, and what came."""
    with pytest.raises(DocumentError) as refused:
        parse_delta(text)
    assert (refused.value.reason, refused.value.message) == ("bad delta", sentence)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "expected a condition at column 1, got the end of the condition"),
        ("(1)", "expected a condition at column 1, got '('"),
        (
            "is(number)",
            "string, array or object at column 4, got 'number'",
        ),
        ("gt(true)", "expected a number or a text for gt, got true, at column 1"),
        ("like(5)", "expected a text for like, got 5, at column 6"),
        (r'like("a\\")', "expected a character after the backslash that ends the pattern, at column 6"),
        ('intrinsic("~version":1)', "~version"),
        ("partition(4:5)", "expected a partition between 1 and 4, got 5, at column 1"),
        ("partition(0:1)", "expected at least 1 partition, got 0, at column 1"),
        ("not()", "expected a condition at column 5, got ')'"),
        ("not(1,2)", "expected ')' at column 6, got ','"),
        ("contains", "expected '(' at column 9, got the end of the condition"),
        ("True", "expected a condition at column 1, got 'True'"),
    ],
)
def test_what_is_no_condition_is_refused_with_a_sentence(text: str, sentence: str) -> None:
    """The sentence says what was expected, where, and what came."""
    with pytest.raises(DocumentError) as refused:
        compile_condition(text)
    assert refused.value.reason == "bad condition"
    assert sentence in refused.value.message


def _seconds(task: Callable[[], Any]) -> float:
    began = time.perf_counter()
    task()
    return time.perf_counter() - began


@pytest.mark.parametrize(
    "text",
    [
        '{..,"a":' * 100_000 + "1" + "}" * 100_000,
        "[" * 100_000,
        "(" * 100_000,
        "if ~ then " * 100_000,
        "if not(" * 100_000,
        "[" + "1," * 5_000_000 + "1]",
        "(" + "1," * 300_000 + "1)",
        "if 1 then 1 " + "elif 1 then 1 " * 70_000 + "end",
        '"' + "a" * 2_000_000,
    ],
    ids=lambda text: text[:12],
)
def test_what_is_too_deep_or_too_long_is_refused_at_once(text: str) -> None:
    """Nobody can hold a service up with one text, or crash it."""

    def refused() -> None:
        with pytest.raises(DocumentError, match="expected at most"):
            parse_delta(text)

    assert _seconds(refused) < SECONDS_AT_ONCE


@pytest.mark.parametrize(
    "text",
    [
        '{..,"a":' * NESTING_MAX + "1" + "}" * NESTING_MAX,
        '{"a":' * NESTING_MAX + "1" + "}" * NESTING_MAX,
        '{"a":' * NESTING_MAX + "~" + "}" * NESTING_MAX,
        "[" * NESTING_MAX + "]" * NESTING_MAX,
        "if ~ then " * NESTING_MAX + "1" + " end" * NESTING_MAX,
        "if 1 then 2 else " * NESTING_MAX + "1" + " end" * NESTING_MAX,
        "if " + "and(~,and(~," * 200 + "~" + "))" * 200 + " then ~ end",
    ],
    ids=lambda text: text[:12],
)
def test_the_deepest_delta_is_read_applied_and_printed(text: str) -> None:
    """What isn't refused works, on a thread as well."""
    results: list[Any] = []

    def work() -> None:
        delta = parse_delta(text)
        results.append(delta.apply(delta.apply(UNDEFINED)))
        results.append(parse_delta(delta.text) == delta)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert results[1:] == [True]


def test_a_chain_of_conditions_is_no_nesting() -> None:
    """`elif` can go on as long as the text may."""
    count = LEXEMES_MAX // 5
    delta = parse_delta("if 0 then 0 " + "".join(f"elif {n} then {n} " for n in range(1, count)) + "end")
    assert delta.apply(count - 1) == count - 1


@pytest.mark.parametrize(
    ("pattern", "text", "holds"),
    [
        ("*a" * 1000 + "*", "a" * 100_000, True),
        ("*a" * 1000 + "*b", "a" * 100_000, False),
        ("*" * 1000, "a" * 100_000, True),
        ("*" + "ab*" * 1000, "ab" * 999, False),
        ("a" + "*" * 1000 + "b", "a" * 100_000, False),
    ],
)
def test_a_thousand_stars_are_matched_at_once(pattern: str, text: str, holds: bool) -> None:
    """No pattern takes longer than its text is long."""
    condition = compile_condition(f'like("{pattern}")')
    assert _seconds(lambda: condition.matches(text)) < SECONDS_AT_ONCE
    assert condition.matches(text) is holds


def test_the_limits_are_what_the_documentation_says() -> None:
    """1 MiB of text, 50,000 lexemes, 500 levels."""
    assert (TEXT_CHARS_MAX, LEXEMES_MAX, NESTING_MAX) == (1024 * 1024, 50_000, 500)
