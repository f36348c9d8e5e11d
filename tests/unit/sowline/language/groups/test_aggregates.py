"""Aggregates: each against the plainest computation of it, and through values that come and go."""

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sowline.language.expressions.projection import AGGREGATES as NAMES
from sowline.language.filter.arrays import compare
from sowline.language.groups import aggregates as table
from sowline.language.groups.aggregates import AGGREGATES, aggregate
from sowline.language.groups.ranks import CONCAT_CHARS_MAX, CUT
from sowline.model.path import Scalar
from tests.examples import examples

finite = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(-10, 10),
    st.sampled_from([0.1, 1e308, -1e308, 5e-324, -5e-324, 2.0**53]),
)
integers = st.one_of(st.integers(-9, 9), st.integers(-(2**63), 2**64 - 1))
numbers = st.one_of(finite, integers)
texts = st.sampled_from(["1", "01", "1.0", "1e0", "2", "-1", "1e400", "cat", "dog", "é", "10"])
scalars = st.one_of(
    numbers, texts, st.booleans(), st.none(), st.sampled_from([-0.0, 1.0, math.nan, math.inf, -math.inf])
)


def result(name: str, values: Sequence[Scalar], *gone: Scalar, delimiter: str = ",") -> Scalar:
    """The aggregate of the values, after others came and went among them."""
    new_state, read = aggregate(name, delimiter)
    state = new_state()
    for value in (*gone, *values):
        state.add(value)
    for value in gone:
        state.remove(value)
    return read(state)


def same(one: Scalar, other: Scalar) -> bool:
    """Whether they are the same to the last bit, and of one kind."""
    return type(one) is type(other) and repr(one) == repr(other)


def double(number: Fraction) -> float:
    """The nearest double."""
    try:
        return number.numerator / number.denominator
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def test_every_aggregate_of_the_language_is_there() -> None:
    """What a projection may call is what can be computed."""
    assert set(AGGREGATES) == set(NAMES)
    assert table.DELIMITER == ","


@examples(200)
@given(st.sampled_from(NAMES), st.lists(scalars, max_size=8), st.lists(scalars, max_size=5), st.randoms())
@example("SUM", [0.1], ["cat", math.inf, -math.inf, math.nan], None)
@example("MIN", [-0.0, 0.0], [0.0], None)
def test_nothing_is_left_of_what_came_and_went(name: str, values: Any, gone: Any, chance: Any) -> None:
    """A result is a function of the multiset of values: neither order nor what is gone shows."""
    mixed = list(values)
    if chance is not None:
        chance.shuffle(mixed)
    assert same(result(name, mixed, *gone), result(name, values))


@given(st.sampled_from(NAMES), st.lists(scalars, max_size=5), st.integers(1, 3))
def test_nulls_are_ignored(name: str, values: list[Scalar], nulls: int) -> None:
    """NULL changes no aggregate."""
    assert same(result(name, [*values, *[None] * nulls]), result(name, values))


@given(st.lists(integers, min_size=1))
def test_a_sum_of_integers_is_exact(values: list[int]) -> None:
    """It is an integer within 64 bits, and beyond the nearest double."""
    exact = sum(values)
    expected = exact if -(2**63) <= exact < 2**64 else float(exact)
    assert same(result("SUM", values), expected)


@given(finite, st.lists(numbers))
@example(1e308, [1e308, -1e308])
@example(1e308, [1e308])
@example(0.1, [0.2, -0.3, 2**64 - 1, -(2**63)])
def test_sum_and_average_are_rounded_once(one: float, others: list[float]) -> None:
    """With a double among them, the sum is the double nearest to the exact sum, as the average always is."""
    values = [one, *others]
    exact = sum(map(Fraction, values), Fraction())
    assert same(result("SUM", values), double(exact))
    assert same(result("AVG", values), double(exact / len(values)))


@given(st.lists(numbers.filter(lambda number: abs(number) < 1e150), min_size=2))
@example([5e-324, 0])
@example([0, 163])
@example([1e100, 1e-100, 1.0])
@example([2**64 - 1, -(2**63), 0.5])
def test_deviations_are_rounded_once(values: list[float]) -> None:
    """They are the doubles nearest to the exact ones: the square of neither neighbor is nearer."""
    mean = sum(map(Fraction, values)) / len(values)
    squares = sum((Fraction(value) - mean) ** 2 for value in values)
    for name, divisor in (("STDDEV_POP", len(values)), ("STDDEV_SAMP", len(values) - 1)):
        deviation = result(name, values)
        assert isinstance(deviation, float)
        above, below = (
            (Fraction(deviation) + Fraction(math.nextafter(deviation, to))) / 2 for to in (math.inf, 0.0)
        )
        assert below**2 <= squares / divisor <= above**2


@given(st.lists(st.integers(-1000, 1000), min_size=2))
def test_deviations_are_those_of_the_textbook(values: list[int]) -> None:
    """The population's is over n, the sample's over n - 1."""
    exact = [Fraction(value) for value in values]
    assert result("STDDEV_POP", values) == pytest.approx(statistics.pstdev(exact))
    assert result("STDDEV_SAMP", values) == pytest.approx(statistics.stdev(exact))


def test_large_deviations_do_not_overflow() -> None:
    """Squares may be beyond every double as long as the root isn't."""
    assert result("STDDEV_POP", [1e308, -1e308]) == 1e308
    assert result("STDDEV_SAMP", [1.7e308, -1.7e308]) == math.inf


@pytest.mark.parametrize("name", ["SUM", "AVG", "STDDEV_POP", "STDDEV_SAMP"])
@pytest.mark.parametrize("value", ["cat", math.nan])
def test_no_number_makes_nan_while_it_is_there(name: str, value: Scalar) -> None:
    """A text that spells no number is NaN, and so is the result until the text is gone."""
    aggregate = result(name, [1, 2, value])
    assert isinstance(aggregate, float)
    assert math.isnan(aggregate)
    assert same(result(name, [1, 2], value), result(name, [1, 2]))


def test_infinities() -> None:
    """One kind is the sum; both kinds have none; a deviation from infinity is none."""
    assert result("SUM", [math.inf, 1, math.inf]) == math.inf
    assert result("AVG", ["-1e400", 1]) == -math.inf
    both = result("SUM", [math.inf, -math.inf])
    deviation = result("STDDEV_POP", [math.inf, 1])
    assert isinstance(both, float)
    assert isinstance(deviation, float)
    assert math.isnan(both)
    assert math.isnan(deviation)
    assert result("SUM", [math.inf], -math.inf) == math.inf


@pytest.mark.parametrize("name", NAMES)
def test_of_nothing(name: str) -> None:
    """Without a value a count is 0, and all else NULL."""
    assert result(name, []) == result(name, [None, None]) == (0 if name.startswith("COUNT") else None)


def test_a_sample_of_one_has_no_deviation() -> None:
    """Over n - 1 there is nothing to divide by; over n there is."""
    assert result("STDDEV_SAMP", [7]) is None
    assert same(result("STDDEV_POP", [7]), 0.0)


@given(st.lists(scalars))
def test_count(values: list[Scalar]) -> None:
    """All values but NULL, each time they are there."""
    assert result("COUNT", values) == sum(value is not None for value in values)


@pytest.mark.parametrize(
    ("ascending"),
    [
        [-1, 0, 0.5, 1, 1.0, True, "01", "1", "1.0", 2, "10", 11, "1e400", "", "!", "a", "b", "é"],
        [False, "-0", "0", 5e-324, 2**53, 2.0**53, 2**53 + 1, 2**64 - 1, 2.0**64, math.inf],
    ],
)
def test_the_order_of_min_and_max(ascending: list[Scalar]) -> None:
    """Numbers and what spells them by number, all other strings behind them, and no two values tie."""
    values = [value for value in ascending if value != ""]
    for low, high in combinations(values, 2):
        assert same(result("MIN", [high, low]), low)
        assert same(result("MAX", [low, high]), high)
        assert same(result("ANY", [high, low]), low)


@given(st.lists(st.one_of(integers, texts), min_size=1, max_size=30), st.data())
def test_extremes_survive_the_loss_of_the_extreme(values: list[Scalar], data: st.DataObject) -> None:
    """However many extremes leave, the next one is known."""
    state = AGGREGATES["MAX"].state()
    for value in values:
        state.add(value)
    left = Counter((type(value), value) for value in values)
    for value in data.draw(st.permutations(values)):
        state.remove(value)
        left -= Counter([(type(value), value)])
        remaining = [value for _, value in left]
        assert same(AGGREGATES["MAX"].result(state), result("MAX", remaining))
        assert same(AGGREGATES["MIN"].result(state), result("MIN", remaining))


@examples(200)
@given(st.lists(st.one_of(texts, st.integers(0, 2), st.booleans(), st.sampled_from([1.0, 0.0])), max_size=7))
@example([1, "1", "01"])
@example([True, 1, 1.0])
def test_distinct_values_are_the_most_that_differ(values: list[Scalar]) -> None:
    """COUNT_DISTINCT is the size of the largest choice of values of which no two are equal."""
    different = list(dict.fromkeys((type(value), value) for value in values))
    sizes = (
        size
        for size in range(len(different), 0, -1)
        for chosen in combinations(different, size)
        if not any(compare("=", one, other) for (_, one), (_, other) in combinations(chosen, 2))
    )
    assert result("COUNT_DISTINCT", values) == next(sizes, 0)


@given(st.lists(st.one_of(texts, st.integers(0, 2), st.booleans()), min_size=1, max_size=4))
def test_unique_is_the_value_if_all_are_equal(values: list[Scalar]) -> None:
    """UNIQUE is NULL as soon as two values differ, else the one that MIN chooses."""
    equal = all(compare("=", one, other) for one, other in combinations(values, 2))
    assert same(result("UNIQUE", values), result("MIN", values) if equal else None)


@pytest.mark.parametrize("name", ["MIN", "MAX", "ANY", "UNIQUE", "COUNT_DISTINCT", "GROUP_CONCAT"])
def test_nan_is_not_ordered(name: str) -> None:
    """NaN is passed over as NULL is."""
    assert same(result(name, [math.nan, 2, math.nan]), result(name, [2]))
    assert same(result(name, [math.nan]), result(name, []))


def test_concatenation_is_distinct_and_in_order() -> None:
    """The texts, each once, in the order of MIN, whatever the order of arrival."""
    assert result("GROUP_CONCAT", ["b", 10, "a", 9, "9", True, 9], "a") == "9,10,a,b,true"
    assert result("GROUP_CONCAT", ["b", "a", "a"], "a", "c", delimiter=" | ") == "a | b"


def test_zero_has_one_sign() -> None:
    """-0.0 is 0.0, in whichever order they come and go."""
    for name in NAMES:
        assert same(result(name, [-0.0, 1.5]), result(name, [0.0, 1.5], 0.0))
        state = AGGREGATES[name].state()
        state.add(-0.0)
        state.remove(0.0)
        assert same(AGGREGATES[name].result(state), result(name, []))


def test_concatenation_has_a_limit() -> None:
    """What fits exactly is whole; of more, a mark tells that something is left out."""
    half = CONCAT_CHARS_MAX // 2
    fitting = ["a" * half, "b" * (half - 1)]
    assert result("GROUP_CONCAT", fitting) == ",".join(fitting)
    assert result("GROUP_CONCAT", [fitting[0], "b" * half]) == f"{fitting[0]},{CUT}"
    assert result("GROUP_CONCAT", ["c", "d" * CONCAT_CHARS_MAX, "e"]) == f"c,{CUT}"
    assert result("GROUP_CONCAT", ["d" * (CONCAT_CHARS_MAX + 1)]) == CUT


@pytest.mark.parametrize("name", ["MIN", "COUNT_DISTINCT", "GROUP_CONCAT"])
def test_only_what_is_in_can_leave(name: str) -> None:
    """A state that is told to let go what it doesn't hold says so, rather than go wrong."""
    state = AGGREGATES[name].state()
    state.add(1)
    with pytest.raises(KeyError):
        state.remove(2)
