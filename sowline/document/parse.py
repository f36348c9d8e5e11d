"""From a text to its tree: the grammar's driver, and what each of its forms becomes."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import islice
from typing import Any

from lark import Lark, Transformer, UnexpectedToken, v_args

from sowline.document.complaints import complaint
from sowline.document.conditions import (
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
from sowline.document.deltas import DELETE, NOOP, conditional, literal_of, map_delta, set_delta
from sowline.document.errors import BAD_CONDITION, BAD_DELTA, DocumentError, excerpt, place
from sowline.document.json_text import json_text
from sowline.document.lexer import DocumentLexer, Lexeme, Malformed
from sowline.document.like import like
from sowline.document.tree import Condition, Delta, Equal, Is, Literal
from sowline.document.values import Json
from sowline.nesting import NESTING_MAX

TEXT_CHARS_MAX = 1 << 20

LEXEMES_MAX = 50_000
"""Words, values and marks of one text, so that reading it takes a second at the most. Plain JSON counts as one."""

_OPENERS = ("{", "[", "(", "if")
_STRINGS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_LEVELS = re.compile(r"[\[{(]|[\]})]|\bif\b|\bend\b")


class Misused(ValueError):
    """A form of the grammar is used in a way that means nothing; `position` is where it begins."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position


class Removed:
    """A set's item behind a `~`."""

    def __init__(self, delta: Delta) -> None:
        self.delta = delta


def read_delta(text: str) -> Delta:
    """The tree of a delta. Raises `DocumentError` with reason `bad delta`."""
    delta: Delta = _read(text, "delta", BAD_DELTA)
    return delta


def read_condition(text: str) -> Condition:
    """The tree of a condition. Raises `DocumentError` with reason `bad condition`."""
    condition: Condition = _read(text, "condition", BAD_CONDITION)
    return condition


def _read(text: str, start: str, reason: str) -> Any:
    """What the rule `start` makes of the whole text."""
    _check_limits(text, reason)
    parser = _parser(start).parse_interactive(text)
    try:
        lexemes = parser.lexer_thread.lex(parser.parser_state)  # type: ignore[no-untyped-call]
        for lexeme in islice(lexemes, LEXEMES_MAX):
            parser.feed_token(lexeme)
        _check_exhausted(lexemes)
        return parser.feed_token(Lexeme("$END", None, len(text), len(text)))  # type: ignore[arg-type]
    except UnexpectedToken as error:
        raise complaint(text, error.token, parser.accepts(), reason) from None  # type: ignore[no-untyped-call]
    except (Malformed, Misused) as error:
        sentence = f"{error}, at {place(text, error.position)}"
        raise DocumentError(reason, sentence, error.position) from None


@cache
def _parser(start: str) -> Lark:
    return Lark.open(
        "grammar.lark",
        rel_to=__file__,
        start=start,
        parser="lalr",
        lexer=DocumentLexer,
        transformer=_TreeBuilder(),
        maybe_placeholders=False,
    )


def _check_limits(text: str, reason: str) -> None:
    if len(text) > TEXT_CHARS_MAX:
        message = f"expected at most {TEXT_CHARS_MAX} characters, got {len(text)}"
        raise DocumentError(reason, message, TEXT_CHARS_MAX)
    # Few texts have so many openers at all, so the count decides almost always.
    if sum(map(text.count, _OPENERS)) > NESTING_MAX:
        _check_nesting(text, reason)


def _check_exhausted(lexemes: Iterator[Lexeme]) -> None:
    """Raise if there are lexemes left."""
    following = next(lexemes, None)
    if following is not None:
        raise Misused(f"expected at most {LEXEMES_MAX} words, values and marks, got more", following.position)


def _check_nesting(text: str, reason: str) -> None:
    """Raise if brackets and conditionals nest too deep, before anything recurses."""
    blanked = _STRINGS.sub(lambda string: " " * len(string[0]), text)
    depth = 0
    for found in _LEVELS.finditer(blanked):
        depth += 1 if found[0] in _OPENERS else -1
        if depth > NESTING_MAX:
            message = f"expected at most {NESTING_MAX} levels, got more at {place(text, found.start())}"
            raise DocumentError(reason, message, found.start())


def _placed(build: Callable[..., Any], at: Lexeme, *arguments: Any) -> Any:
    """What `build` makes of the arguments; what is wrong with them is so where `at` stands."""
    try:
        return build(*arguments)
    except ValueError as error:
        raise Misused(str(error), at.position) from None


def _pairs(parts: Sequence[Any]) -> list[tuple[str, Any]]:
    """The entries of keys and what belongs to them, by turns; raises if a key comes twice."""
    keys: list[Lexeme] = list(parts[::2])
    entries = {key.value: part for key, part in zip(keys, parts[1::2], strict=True)}
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
class _TreeBuilder(Transformer[Any, Any]):
    """One method per form of the grammar; the parser calls them bottom-up while it reads."""

    def literal(self, value: Json) -> Delta:
        return Literal(value)

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
