"""Any text is a delta, or refused; what is one prints as itself, and always gives a value."""

import json
from collections.abc import Callable
from typing import Any, TypeVar

from hypothesis import example, given
from hypothesis import strategies as st

from sowline.errors import SowlineError
from sowline.language.emodb import (
    UNDEFINED,
    Condition,
    Delta,
    DocumentError,
    Intrinsics,
    compile_condition,
    parse_delta,
    parse_deltas,
    same,
)
from sowline.language.emodb.json_text import json_text
from sowline.language.emodb.writable import check_deltas
from tests.examples import examples

ABOUT = Intrinsics("k", "t", "0" * 32, False, None, "2012-06-22T20:11:53.473Z", None, "p:q")

MARKS = """{ } [ ] ( ) , : ~ + .. ? }? )? ' " \\ / #"""
WORDS = """if then elif else end is in not and or like contains containsAny containsAll containsOnly intrinsic
partition gt ge lt le alwaysTrue alwaysFalse undefined defined num map null true false"""
VALUES = r"""0 -1 1.5 1e400 007 12345678901234567890 "a" "~id" "a*" "\ud800" "\u0041" {"a":1} {..} (..,1)"""
PIECES = [*MARKS.split(), *WORDS.split(), *VALUES.split(), " ", "\n", "\0", "\x01"]

texts = st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=25).map("".join)

numbers = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from([0.0, -0.0, 1.0, 1e7]) | numbers
keys = st.sampled_from(["a", "b", "~id", "", "é", "\U0001f600", '"\\\n']) | st.text(max_size=3)
values = st.recursive(
    scalars | keys,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=6,
)


def _listed(inner: st.SearchStrategy[str], least: int = 0) -> st.SearchStrategy[str]:
    return st.lists(inner, min_size=least, max_size=3).map(",".join)


def _mapped(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    entries = st.dictionaries(keys, inner, max_size=3).map(dict.items)
    return entries.map(lambda some: ",".join(f"{json.dumps(key)}:{text}" for key, text in some))


value_texts = values.map(json.dumps)
calls = st.builds(
    "{}({})".format, st.sampled_from(["gt", "ge", "lt", "le"]), (numbers | keys).map(json.dumps)
)
likes = st.builds("like({})".format, st.text("ab*", max_size=5).map(json.dumps))
many = st.sampled_from(["in", "containsAny", "containsAll", "containsOnly"])
names = st.sampled_from(['"~id"', '"~deleted"', '"~lastUpdateAt"'])
states = st.sampled_from(
    ["~", "+", "alwaysTrue()", "alwaysFalse()", "is(null)", "is(num)", "is(map)", "is(string)"]
)
condition_texts = st.recursive(
    value_texts | states | calls | likes | st.builds("{}({})".format, many, _listed(value_texts)),
    lambda inner: (
        st.builds("not({})".format, inner)
        | st.builds("{}({})".format, st.sampled_from(["and", "or"]), _listed(inner))
        | st.builds("intrinsic({}:{})".format, names, _listed(inner, 1))
        | _mapped(inner).map(lambda entries: f"{{..,{entries}}}" if entries else "{..}")
    ),
    max_leaves=8,
)


def _body(brackets: str, inside: str, keeps_rest: bool, deletes_empty: bool) -> str:
    dots = (".. , " if inside else "..") if keeps_rest else ""
    return f"{brackets[0]}{dots}{inside}{brackets[1]}{'?' if deletes_empty else ''}"


items = st.builds("{}{}".format, st.sampled_from(["", "~", "~ "]), value_texts)
sets = st.builds(_body, st.just("()"), _listed(items), st.booleans(), st.booleans())
CHAIN = "if {} then {} elif {} then {} else {} end"
delta_texts = st.recursive(
    value_texts | st.sampled_from(["~", ".."]) | sets,
    lambda inner: (
        st.builds(_body, st.just("{}"), _mapped(inner), st.booleans(), st.booleans())
        | st.builds(CHAIN.format, condition_texts, inner, condition_texts, inner, inner)
        | st.builds("if {} then {} end".format, condition_texts, inner)
    ),
    max_leaves=6,
)

Cut = tuple[int, int, str]
cuts = st.tuples(st.integers(0, 60), st.integers(0, 6), st.sampled_from([*PIECES, ""]) | st.text(max_size=2))


def _mutated(text: str, changes: list[Cut]) -> str:
    """The text with something in the place of a few of its characters, here and there."""
    for start, length, put in changes:
        at = start % (len(text) + 1)
        text = text[:at] + put + text[at + length :]
    return text


mutated_texts = st.builds(
    _mutated, delta_texts | condition_texts | sets, st.lists(cuts, min_size=1, max_size=3)
)

Made = TypeVar("Made", Delta, Condition)


def _read(read: Callable[[str], Made], text: str) -> tuple[Made | None, DocumentError | None]:
    try:
        return read(text), None
    except DocumentError as error:
        return None, error


@given(texts | mutated_texts)
@example("like(5)")
@example("partition(true:1)")
@example('"\\ud800"')
def test_any_text_is_read_or_refused(text: str) -> None:
    """Nothing comes of a text but the one error, or what prints as a text that reads as the same."""
    _check(parse_delta, text, "bad delta")
    _check(compile_condition, text, "bad condition")
    for error in (_error_of(lambda: list(parse_deltas(text))), _error_of(lambda: check_deltas(text))):
        assert error in (None, "bad delta", "not an object", "bad request")


def _check(read: Callable[[str], Made], text: str, reason: str) -> None:
    made, error = _read(read, text)
    if made is not None:
        assert read(made.text).text == made.text
    else:
        assert error is not None
        assert error.reason == reason
        assert 0 <= error.position <= len(text)


def _error_of(do: Callable[[], object]) -> str | None:
    try:
        do()
    except SowlineError as error:
        return error.reason
    return None


@given(delta_texts, values | st.just(UNDEFINED))
@examples(150)
def test_a_delta_prints_as_itself_and_gives_a_value(text: str, value: Any) -> None:
    """Reading the canonical text gives the same text, and the same delta."""
    delta, _ = _read(parse_delta, text)
    if delta is None:
        return
    again = parse_delta(delta.text)
    assert again.text == delta.text
    result = delta.apply(value, ABOUT)
    assert same(result, again.apply(value, ABOUT))
    if result is not UNDEFINED:
        json.dumps(result, allow_nan=False)


@given(condition_texts, values | st.just(UNDEFINED))
@examples(150)
def test_a_condition_prints_as_itself_and_holds_or_not(text: str, value: Any) -> None:
    """Reading the canonical text gives the same text, and the same answer."""
    condition = compile_condition(text)
    again = compile_condition(condition.text)
    assert again.text == condition.text
    holds = condition.matches_about(value, ABOUT)
    assert holds is again.matches_about(value, ABOUT)
    assert compile_condition(f"not({text})").matches_about(value, ABOUT) is not holds


@given(values)
def test_a_value_is_read_and_printed_as_it_is(value: Any) -> None:
    """JSON is a delta, whatever it holds, and a condition that only the same value fulfills."""
    assert same(parse_delta(json.dumps(value)).apply(UNDEFINED), value)
    assert same(json.loads(json_text(value)), value)
    assert compile_condition(json_text(value)).matches(value)


@given(values, values)
def test_only_what_is_the_same_is_equal(one: Any, other: Any) -> None:
    """A condition tells what Python's `==` doesn't: 1 from 1.0 and true, at any depth."""
    assert compile_condition(json_text(one)).matches(other) is (json_text(one) == json_text(other))
    assert same(one, other) is (json_text(one) == json_text(other))


@given(st.lists(values, max_size=6), st.lists(values, max_size=6, unique_by=json_text))
def test_a_set_stays_a_set(elements: list[Any], added: list[Any]) -> None:
    """What is added is there once, and adding it again changes nothing."""
    delta, _ = _read(parse_delta, f"(..,{','.join(map(json_text, added))})" if added else "(..)")
    if delta is None:
        return
    once = delta.apply(elements)
    assert same(once, delta.apply(once))
    assert isinstance(once, list)
    assert compile_condition("containsOnly(" + ",".join(map(json_text, once)) + ")").matches(once)


zeros = st.sampled_from([0, 0.0, -0.0, 1, 1.0, 2**53, 2**53 + 1, float(2**53)])


@given(st.lists(zeros | numbers, max_size=6), zeros | numbers)
@example([-0.0, 0, 0.0], 0.0)
@example([-0.0, 0.0, 0], -0.0)
@example([-0.0, 5], 0)
def test_a_number_removed_alone_takes_its_equals(elements: list[float], removed: float) -> None:
    """Of one kind it takes the same, as Java's Double has it; of the other what has the same value as a double."""

    def is_equal(element: float) -> bool:
        if type(element) is type(removed):
            return repr(element) == repr(removed)
        return float(element) == float(removed)

    kept = [element for element in elements if not is_equal(element)]
    made = parse_delta(f"(..,~{json_text(removed)})").apply(elements)
    assert json_text(made) == json_text(parse_delta("(..)").apply(kept))


alternatives = st.lists(
    st.sampled_from(["2", "1", "in(4,3)", "gt(3)", "is(num)", "or(5,~)", "in()"]), min_size=1, max_size=5
)


@given(alternatives, st.sampled_from(['intrinsic("~id":{})', "partition(9:{})"]))
@example(["2", "1", "gt(3)"], 'intrinsic("~id":{})')
def test_values_among_other_tests_are_an_in(tests: list[str], form: str) -> None:
    """Where several tests may stand, values that are alone are a bare list; among others they stay an `in`."""
    listed = ",".join(tests)
    text, alone = compile_condition(form.format(listed)).text, compile_condition(f"or({listed})").text
    assert compile_condition(text).text == text
    if alone.startswith("in("):
        assert text == form.format(alone.removeprefix("in(").removesuffix(")"))
    else:
        assert text.count("in(") == alone.count("in(") + form.count("in(")
