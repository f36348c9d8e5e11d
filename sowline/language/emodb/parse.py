"""Parses a text to its tree: checks the limits of texts, and drives the grammar's parser."""

import re
from collections.abc import Iterator
from functools import cache
from itertools import islice
from types import ModuleType
from typing import Any

from lark import Lark, UnexpectedToken

from sowline.language.emodb.builder import Misused, tree_builder
from sowline.language.emodb.deltas import members_delta, plain_map
from sowline.language.emodb.errors import BAD_CONDITION, BAD_DELTA, DocumentError, location
from sowline.language.emodb.lexer import DocumentLexer, Lexeme, Malformed, whole
from sowline.language.emodb.parse_errors import complaint
from sowline.language.emodb.tree import Condition, Delta, LiteralDelta
from sowline.language.emodb.values import Json
from sowline.model.nesting import NESTING_MAX
from sowline.native import raise_unless_panic

TEXT_CHARS_MAX = 1 << 20

LEXEMES_MAX = 50_000
"""The maximum number of lexemes in a text, so that reading it takes at most a second. Plain JSON counts as one."""

_native: ModuleType | None = None
"""The reader of plain deltas, if it is not Python: it makes the same trees (tests/property/test_native_deltas.py)."""

_OPENERS = ("{", "[", "(", "if")
_STRINGS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_LEVELS = re.compile(r"[\[{(]|[\]})]|\bif\b|\bend\b")


def read_delta(text: str) -> Delta:
    """Return the tree of a delta; raise `DocumentError` with reason `bad delta`."""
    _check_limits(text, BAD_DELTA)
    # Most deltas are an object, or fields to set: one lexeme, for which the grammar's parser takes longer to start.
    delta: Delta = _plain_delta(text) or _read(text, "delta", BAD_DELTA)
    return delta


def read_condition(text: str) -> Condition:
    """Return the tree of a condition; raise `DocumentError` with reason `bad condition`."""
    _check_limits(text, BAD_CONDITION)
    condition: Condition = _read(text, "condition", BAD_CONDITION)
    return condition


def use_native(module: ModuleType | None) -> None:
    """Let the native core, or Python, read plain deltas from now on. Services call this on startup."""
    global _native  # noqa: PLW0603 - one choice for the process
    _native = module


def _plain_delta(text: str) -> Delta | None:
    """Return the tree of a delta that is one lexeme from a brace on; None if it is anything else, or invalid."""
    found = None if _native is None else _natively(_native, text)
    if found is not None:
        return LiteralDelta(found) if isinstance(found, dict) else plain_map(found)
    lexeme = whole(text)
    if lexeme is None:
        return None
    return LiteralDelta(lexeme.value) if lexeme.type == "VALUE" else members_delta(lexeme.value)


def _natively(module: ModuleType, text: str) -> dict[str, Json] | list[tuple[str, Json]] | None:
    """Return the value of a plain object, or the sorted entries of a plain map; None if only Python can read it."""
    try:
        plain: dict[str, Json] | list[tuple[str, Json]] | None = module.plain_delta(text)
        return plain
    except BaseException as error:
        raise_unless_panic(error, "deltas")
        # A panic is a fault of the core, and the next delta may cause it again (test_after_a_panic_python_reads).
        use_native(None)
        return None


def _read(text: str, start: str, reason: str) -> Any:
    """Parse the whole text by the rule `start`."""
    parser = _parser(start).parse_interactive(text)
    try:
        lexemes: Iterator[Lexeme] = parser.lexer_thread.lex(parser.parser_state)
        for lexeme in islice(lexemes, LEXEMES_MAX):
            parser.feed_token(lexeme)
        _check_exhausted(lexemes)
        return parser.feed_token(Lexeme("$END", None, len(text), len(text)))
    except UnexpectedToken as error:
        raise complaint(text, error.token, parser.accepts(), reason) from None
    except (Malformed, Misused) as error:
        sentence = f"{error}, at {location(text, error.position)}"
        raise DocumentError(reason, sentence, error.position) from None


@cache
def _parser(start: str) -> Lark:
    return Lark.open(
        "grammar.lark",
        rel_to=__file__,
        start=start,
        parser="lalr",
        lexer=DocumentLexer,
        transformer=tree_builder(),
        maybe_placeholders=False,
    )


def _check_limits(text: str, reason: str) -> None:
    if len(text) > TEXT_CHARS_MAX:
        message = f"expected at most {TEXT_CHARS_MAX} characters, got {len(text)}"
        raise DocumentError(reason, message, TEXT_CHARS_MAX)
    # Few texts have that many characters, and fewer that many opening brackets: the count is almost always enough.
    if len(text) > NESTING_MAX and sum(map(text.count, _OPENERS)) > NESTING_MAX:
        _check_nesting(text, reason)


def _check_exhausted(lexemes: Iterator[Lexeme]) -> None:
    """Raise if lexemes remain."""
    following = next(lexemes, None)
    if following is not None:
        raise Misused(f"expected at most {LEXEMES_MAX} words, values and marks, got more", following.position)


def _check_nesting(text: str, reason: str) -> None:
    """Raise if brackets and conditionals are nested too deep, before anything recurses."""
    # Brackets in strings are text. As many blanks take the place of each, so that the error's position is that in the
    # text.
    blanked = _STRINGS.sub(lambda string: " " * len(string[0]), text)
    depth = 0
    for found in _LEVELS.finditer(blanked):
        depth += 1 if found[0] in _OPENERS else -1
        if depth > NESTING_MAX:
            message = f"expected at most {NESTING_MAX} levels, got more at {location(text, found.start())}"
            raise DocumentError(reason, message, found.start())
