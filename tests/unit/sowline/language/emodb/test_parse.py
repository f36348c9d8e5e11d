"""Texts are read up to their limits, in Python or natively."""

import threading
import time
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from sowline.language.emodb import UNDEFINED, DocumentError, parse_delta
from sowline.language.emodb.parse import LEXEMES_MAX, TEXT_CHARS_MAX, read_condition, read_delta, use_native
from sowline.language.emodb.printer import text_of
from sowline.model.nesting import NESTING_MAX
from tests.panics import PanicException

SECONDS_AT_ONCE = 10.0
"""Generous, as the machine may be busy; what would hang takes minutes."""


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


def test_the_limits_are_what_the_documentation_says() -> None:
    """1 MiB of text, 50,000 lexemes, 500 levels."""
    assert (TEXT_CHARS_MAX, LEXEMES_MAX, NESTING_MAX) == (1024 * 1024, 50_000, 500)


@pytest.fixture
def native() -> Iterator[ModuleType]:
    """A native core that knows no delta, until a test says otherwise."""
    module = ModuleType("core")
    vars(module)["plain_delta"] = lambda text: None
    use_native(module)
    yield module
    use_native(None)


def test_a_plain_delta_may_be_read_natively(native: ModuleType) -> None:
    """An object is the value itself, and a map comes as sorted entries; Python reads all else."""
    known = {"object": {"a": 1}, "map": [("a", 1), ("b", 2)]}
    vars(native)["plain_delta"] = known.get
    assert text_of(read_delta("object")) == '{"a":1}'
    assert text_of(read_delta("map")) == '{..,"a":1,"b":2}'
    assert text_of(read_delta('{..,"c":3}')) == '{..,"c":3}'


def test_after_a_panic_python_reads(native: ModuleType) -> None:
    """The native core is not asked again."""
    asked = []

    def failing(text: str) -> None:
        asked.append(text)
        raise PanicException("index out of bounds")

    vars(native)["plain_delta"] = failing
    assert [text_of(read_delta(text)) for text in ('{"a":1}', '{"b":2}')] == ['{"a":1}', '{"b":2}']
    assert asked == ['{"a":1}']


def test_any_other_error_of_the_native_core_is_raised(native: ModuleType) -> None:
    """Memory may be short, for example."""

    def failing(text: str) -> None:
        raise MemoryError

    vars(native)["plain_delta"] = failing
    with pytest.raises(MemoryError):
        read_delta("{}")


@pytest.mark.parametrize(
    ("text", "reason"), [("{", "bad delta"), ("~ ~", "bad delta"), ("and(", "bad condition")]
)
def test_a_text_is_read_to_its_end(text: str, reason: str) -> None:
    """Nothing may be missing or left over."""
    with pytest.raises(DocumentError) as refused:
        (read_condition if reason == "bad condition" else read_delta)(text)
    assert refused.value.reason == reason
