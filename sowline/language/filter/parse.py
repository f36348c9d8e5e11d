"""Parses a text to its tree: drives the parser of `grammar.lark`, and builds a node for each form."""

from collections.abc import Callable
from functools import cache
from math import isinf
from typing import Any, NamedTuple

from lark import Lark, Token, Transformer, UnexpectedInput, v_args

from sowline.language.emodb import DocumentError, compile_condition
from sowline.language.filter.errors import FilterError
from sowline.language.filter.functions import canonical_name
from sowline.language.filter.literals import unescape
from sowline.language.filter.numbers import parse_number
from sowline.language.filter.parse_errors import complaint
from sowline.language.filter.tree import (
    Affixed,
    Arithmetic,
    Between,
    Call,
    Comparison,
    Field,
    FieldOf,
    In,
    IsNaN,
    IsNull,
    Like,
    Literal,
    Meets,
    Node,
    Not,
    Signed,
    conjunction,
    disjunction,
)
from sowline.model.path import Path, PathError, parse_path

FILTER_CHARS_MAX = 64 * 1024

NESTING_MAX = 100
"""The maximum number of nested parentheses, operators and NOTs. A chain of one operator is one level."""

CONDITION = "CONDITION"
"""Looks like a function, but its argument is a condition in EmoDB's language."""

_SAME_OPERATOR = {"==": "=", "<>": "!="}


class Nested(NamedTuple):
    """A node during parsing, with the number of levels below it and the column at which it starts."""

    node: Node
    levels: int
    column: int


class Enriched(NamedTuple):
    """`expression AS path` with its hints in upper case. The path starts at `column`."""

    expression: Node
    path: Path
    hints: frozenset[str]
    column: int


class Projected(NamedTuple):
    """`expression AS path`, or a bare path, which is both. Each has the column at which it starts."""

    expression: Node
    column: int
    path: Path
    path_column: int


class OrderTerm(NamedTuple):
    """`path DESC TEXT`."""

    path: Path
    descending: bool
    text: bool


def check_length(text: str) -> None:
    """Raise `FilterError` if the text is longer than a filter may be."""
    if len(text) > FILTER_CHARS_MAX:
        raise FilterError(
            f"expected a filter of at most {FILTER_CHARS_MAX} characters, got {len(text)}",
            FILTER_CHARS_MAX + 1,
        )


def parse(text: str) -> Node:
    """Return the tree of a filter; a blank text is `TRUE`. Raise `FilterError`."""
    if not text.strip():
        return Literal(True)
    nested: Nested = _read(text, "start", "filter")
    return nested.node


def parse_enriched(text: str) -> Enriched:
    """Return one field of an enrichment; raise `FilterError`."""
    enriched: Enriched = _read(text, "enriched", "field")
    return enriched


def parse_projected(text: str) -> tuple[Projected, ...]:
    """Return the fields of a projection, unchecked; raise `FilterError`."""
    fields: tuple[Projected, ...] = _read(text, "projection", "projection")
    return fields


def parse_paths(text: str) -> tuple[tuple[Path, int], ...]:
    """Return the paths of a grouping, each with its column; raise `FilterError`."""
    paths: tuple[tuple[Path, int], ...] = _read(text, "grouping", "grouping")
    return paths


def parse_order_terms(text: str) -> tuple[OrderTerm, ...]:
    """Return the terms of an order; raise `FilterError`."""
    terms: tuple[OrderTerm, ...] = _read(text, "order", "order")
    return terms


def _read(text: str, start: str, what: str) -> Any:
    """Return the result of the grammar's rule `start` for the whole text."""
    parser = _parser(start).parse_interactive(text)
    # Token by token: an error names the token before the refused one.
    previous: Token | None = None
    try:
        for token in parser.lexer_thread.lex(parser.parser_state):
            parser.feed_token(token)
            previous = token
        return parser.feed_eof(previous)
    except UnexpectedInput as error:
        raise complaint(text, error, previous, what) from None


@cache
def _parser(start: str) -> Lark:
    return Lark.open(
        "grammar.lark",
        rel_to=__file__,
        start=start,
        parser="lalr",
        lexer="contextual",
        transformer=_FilterTreeBuilder(),
    )


def _nest(node: Node, parts: tuple[Nested, ...], column: int | None = None) -> Nested:
    """Return the node, one level above its parts; raise FilterError if there are too many levels.

    The check is made here, before any code recurses into the tree.
    """
    # A filter of a thousand parentheses would otherwise end in Python's RecursionError
    # (test_deeper_nesting_is_an_error).
    levels = 1 + max(part.levels for part in parts)
    column = parts[0].column if column is None else column
    if levels > NESTING_MAX:
        raise FilterError(
            f"expected at most {NESTING_MAX} levels of nesting, got more around column {column}", column
        )
    return Nested(node, levels, column)


def _meets(arguments: list[Node], column: int) -> Meets:
    match arguments:
        case [Literal(str() as text)]:
            try:
                return Meets(compile_condition(text))
            except DocumentError as error:
                raise FilterError(f"{error.message}, in CONDITION at column {column}", column) from None
        case _:
            raise FilterError(
                f"expected one quoted condition as the argument of {CONDITION} at column {column}",
                column,
            )


def _leaf(node: Node, token: Token) -> Nested:
    return Nested(node, 0, _column(token))


def _column(token: Token) -> int:
    return (token.start_pos or 0) + 1


def _negated(build: Callable[..., Nested]) -> Callable[..., Nested]:
    """Return a builder for the same form with an infix NOT, whose token is the second argument."""

    def build_negated(self: Any, operand: Nested, _not: Token, *rest: Any) -> Nested:
        nested = build(self, operand, *rest)
        return Nested(Not(nested.node), nested.levels, nested.column)

    return build_negated


@v_args(inline=True)
class _FilterTreeBuilder(Transformer[Token, Nested]):
    """Builds the tree: the parser calls one method per form of the grammar, from the leaves up."""

    def disjunction(self, *terms: Nested) -> Nested:
        return _nest(disjunction(term.node for term in terms), terms)

    def conjunction(self, *terms: Nested) -> Nested:
        return _nest(conjunction(term.node for term in terms), terms)

    def negated(self, not_: Token, operand: Nested) -> Nested:
        return _nest(Not(operand.node), (operand,), _column(not_))

    def group(self, inner: Nested) -> Nested:
        return _nest(inner.node, (inner,))

    def comparison(self, left: Nested, operator: Token, right: Nested) -> Nested:
        name = _SAME_OPERATOR.get(operator, str(operator))
        return _nest(Comparison(name, left.node, right.node), (left, right))

    def between(self, *parts: Nested) -> Nested:
        return _nest(Between(*(part.node for part in parts)), parts)

    def contained(self, operand: Nested, *items: Nested) -> Nested:
        return _nest(In(operand.node, tuple(item.node for item in items)), (operand, *items))

    def like(self, operand: Nested, pattern: Token) -> Nested:
        raw = pattern.type == "RAW_STRING"
        return _nest(
            Like(operand.node, pattern[2:-1] if raw else pattern[1:-1], raw, _column(pattern)), (operand,)
        )

    def affixed(self, operand: Nested, end: Token, *items: Nested) -> Nested:
        which = end.split()[0].upper()
        return _nest(Affixed(which, operand.node, tuple(item.node for item in items)), (operand, *items))

    def is_null(self, operand: Nested, _null: Token) -> Nested:
        return _nest(IsNull(operand.node), (operand,))

    def is_nan(self, operand: Nested, _nan: Token) -> Nested:
        return _nest(IsNaN(operand.node), (operand,))

    not_between = _negated(between)
    not_contained = _negated(contained)
    not_like = _negated(like)
    not_affixed = _negated(affixed)
    is_not_null = _negated(is_null)
    is_not_nan = _negated(is_nan)

    def sum(self, first: Nested, *rest: Any) -> Nested:
        operators, operands = rest[::2], rest[1::2]
        steps = tuple(
            (_operator(name), operand.node) for name, operand in zip(operators, operands, strict=True)
        )
        return _nest(Arithmetic(first.node, steps), (first, *operands))

    product = sum  # noqa: A003 - rules of the grammar have these names

    def signed(self, sign: Token, operand: Nested) -> Nested:
        return _nest(Signed(str(sign), operand.node), (operand,), _column(sign))

    def call(self, name: Token, *arguments: Nested | None) -> Nested:
        nested = tuple(argument for argument in arguments if argument is not None)
        if canonical_name(name) == CONDITION:
            return _leaf(_meets([argument.node for argument in nested], _column(name)), name)
        node = Call(canonical_name(name), tuple(argument.node for argument in nested), _column(name))
        return _nest(node, nested, _column(name)) if nested else _leaf(node, name)

    def field(self, path: Token) -> Nested:
        return _leaf(Field(_path(path)), path)

    def field_of(self, path: Token, state: Token) -> Nested:
        return _leaf(FieldOf(_path(path), state.upper(), _column(path)), path)

    def enriched(self, expression: Nested, path: Token, *hints: Token) -> Enriched:
        return Enriched(expression.node, _path(path), frozenset(map(str.upper, hints)), _column(path))

    def projection(self, *fields: Projected) -> tuple[Projected, ...]:
        return fields

    def projected(self, expression: Nested, path: Token) -> Projected:
        return Projected(expression.node, expression.column, _path(path), _column(path))

    def projected_path(self, token: Token) -> Projected:
        path, column = _path(token), _column(token)
        return Projected(Field(path), column, path, column)

    def grouping(self, *paths: Token) -> tuple[tuple[Path, int], ...]:
        return tuple((_path(path), _column(path)) for path in paths)

    def order(self, *terms: OrderTerm) -> tuple[OrderTerm, ...]:
        return terms

    def term(self, path: Token, direction: Token | None, text: Token | None) -> OrderTerm:
        return OrderTerm(_path(path), direction is not None and direction.type == "DESC", text is not None)

    def number(self, digits: Token) -> Nested:
        number = parse_number(digits)
        # 1e400 would be infinity, which has no literal: the canonical text of the filter could not be read.
        if number is None or isinf(number):
            raise FilterError(
                f"expected a number that a double can hold at column {_column(digits)}", _column(digits)
            )
        return _leaf(Literal(number), digits)

    def string(self, quoted: Token) -> Nested:
        return _leaf(Literal(unescape(quoted[1:-1])), quoted)

    def raw_string(self, quoted: Token) -> Nested:
        return _leaf(Literal(str(quoted[2:-1])), quoted)

    def null(self, word: Token) -> Nested:
        return _leaf(Literal(None), word)

    def true(self, word: Token) -> Nested:
        return _leaf(Literal(True), word)

    def false(self, word: Token) -> Nested:
        return _leaf(Literal(False), word)


def _path(token: Token) -> Path:
    try:
        return parse_path(str(token))
    except PathError as error:
        raise FilterError(f"{error.message}, at column {_column(token)}", _column(token)) from None


def _operator(token: Token) -> str:
    return "%" if token.type == "MOD" else str(token)
