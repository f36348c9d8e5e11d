"""Builds the tree: the parser calls one method for each form of the grammar, bottom-up, while it reads."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from lark import Transformer, v_args

from sowline.language.emodb.conditions import (
    ALWAYS,
    NEVER,
    comparison,
    conjunction,
    contains,
    disjunction,
    intrinsic,
    map_test,
    negation,
    one_of,
    partition,
    state,
)
from sowline.language.emodb.deltas import (
    DELETE,
    NOOP,
    conditional,
    literal_of,
    map_delta,
    members_delta,
    set_delta,
)
from sowline.language.emodb.errors import excerpt
from sowline.language.emodb.json_text import json_text
from sowline.language.emodb.lexer import Lexeme
from sowline.language.emodb.like import like
from sowline.language.emodb.tree import Condition, Delta, Equal, Is, LiteralDelta
from sowline.language.emodb.values import Json


class Misused(ValueError):
    """A form of the grammar is used where it has no meaning; `position` is its start."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position


class Removed:
    """An item of a set that is written after a `~`."""

    def __init__(self, delta: Delta) -> None:
        self.delta = delta


def tree_builder() -> Transformer[Any, Any]:
    """Return the transformer for a parser of the grammar."""
    return _EmodbTreeBuilder()


def _placed(build: Callable[..., Any], at: Lexeme, *arguments: Any) -> Any:
    """Return the result of `build`; report an error in the arguments at the position of `at`."""
    try:
        return build(*arguments)
    except ValueError as error:
        raise Misused(str(error), at.position) from None


def _pairs(parts: Sequence[Any]) -> list[tuple[str, Any]]:
    """Return pairs from a flat list of keys and values; raise if a key occurs twice."""
    keys: list[Lexeme] = list(parts[::2])
    entries = {key.value: part for key, part in zip(keys, parts[1::2], strict=True)}
    # The dict has silently taken the last of two values (test_a_form_without_meaning).
    if len(entries) < len(keys):
        seen: set[str] = set()
        for key in keys:
            if key.value in seen:
                raise Misused(f"expected each key once, got {excerpt(key.value)!r} again", key.position)
            seen.add(key.value)
    return list(entries.items())


def _is_dots(part: object) -> bool:
    return isinstance(part, Lexeme) and part.type == "DOTS"


@v_args(inline=True)
class _EmodbTreeBuilder(Transformer[Any, Any]):
    """One method per form of the grammar."""

    def literal(self, value: Json) -> Delta:
        return LiteralDelta(value)

    def members(self, lexeme: Lexeme) -> Delta:
        return members_delta(lexeme.value)

    def delete(self, _tilde: Lexeme) -> Delta:
        return DELETE

    def noop(self, _dots: Lexeme) -> Delta:
        return NOOP

    def map_delta(self, *parts: Any) -> Delta:
        *inside, end = parts
        keeps_rest = _is_dots(inside[0]) if inside else False
        return map_delta(keeps_rest, _pairs(inside[keeps_rest:]), end.type == "EMPTY_RBRACE")

    def set_delta(self, begin: Lexeme, *parts: Any) -> Delta:
        *inside, end = parts
        keeps_rest = _is_dots(inside[0]) if inside else False
        delta: Delta = _placed(_set, begin, keeps_rest, inside[keeps_rest:], end.type == "EMPTY_RPAR")
        return delta

    def removed(self, _tilde: Lexeme, delta: Delta) -> Removed:
        return Removed(delta)

    def conditional(self, *parts: Any) -> Delta:
        cases = list(zip(parts[:-1:2], parts[1::2], strict=len(parts) % 2 == 0))
        return conditional(cases, parts[-1] if len(parts) % 2 else NOOP)

    def equal(self, value: Json) -> Condition:
        return Equal(value)

    def equal_members(self, lexeme: Lexeme) -> Condition:
        return map_test((key, Equal(value)) for key, value in lexeme.value.items())

    def is_undefined(self, _tilde: Lexeme) -> Condition:
        return Is("undefined")

    def is_defined(self, _plus: Lexeme) -> Condition:
        return Is("defined")

    def map_test(self, _dots: Lexeme, *parts: Any) -> Condition:
        return map_test(_pairs(parts[:-1]))

    def constant(self, word: Lexeme, *_brackets: Lexeme) -> Condition:
        return ALWAYS if word.value == "alwaysTrue" else NEVER

    def one_of(self, _in: Lexeme, _begin: Lexeme, *values: Any) -> Condition:
        return one_of(values[:-1])

    def state(self, _is: Lexeme, _begin: Lexeme, word: Lexeme, _end: Lexeme) -> Condition:
        return Equal(None) if word.type == "NULL" else state(word.value)

    def comparison(self, operator: Lexeme, _begin: Lexeme, operand: Json, _end: Lexeme) -> Condition:
        test: Condition = _placed(comparison, operator, operator.value, operand)
        return test

    def like(self, _like: Lexeme, _begin: Lexeme, pattern: Lexeme, _end: Lexeme) -> Condition:
        test: Condition = _placed(_like_text, pattern, pattern.value)
        return test

    def contains(self, name: Lexeme, _begin: Lexeme, *values: Any) -> Condition:
        return contains(name.value.removeprefix("contains") or "All", values[:-1])

    def intrinsic(self, word: Lexeme, _begin: Lexeme, name: Lexeme, *tests: Any) -> Condition:
        test: Condition = _placed(intrinsic, name, name.value, tests[:-1])
        return test

    def partition(self, word: Lexeme, _begin: Lexeme, count: Json, *tests: Any) -> Condition:
        test: Condition = _placed(partition, word, count, tests[:-1])
        return test

    def negation(self, _not: Lexeme, _begin: Lexeme, test: Condition, _end: Lexeme) -> Condition:
        return negation(test)

    def conjunction(self, _and: Lexeme, _begin: Lexeme, *tests: Any) -> Condition:
        return conjunction(tests[:-1])

    def disjunction(self, _or: Lexeme, _begin: Lexeme, *tests: Any) -> Condition:
        return disjunction(tests[:-1])

    def value(self, lexeme: Lexeme) -> Json:
        return lexeme.value

    def array(self, *elements: Json) -> Json:
        return list(elements)

    def object(self, *parts: Any) -> Json:
        return dict(_pairs(parts[:-1]))


def _set(keeps_rest: bool, items: Iterable[Delta | Removed], deletes_empty: bool) -> Delta:
    added = [literal_of(item) for item in items if not isinstance(item, Removed)]
    removed = [literal_of(item.delta) for item in items if isinstance(item, Removed)]
    return set_delta(keeps_rest, added, removed, deletes_empty)


def _like_text(pattern: Json) -> Condition:
    if not isinstance(pattern, str):
        raise ValueError(f"expected a text for like, got {excerpt(json_text(pattern))}")
    return like(pattern)
