"""Splits a text into its lexemes: punctuation, words, and values, which are read at once.

Blanks are all characters from U+0001 to U+0020. A word is a run of characters up to a blank, a quote, a backslash,
or one of `, : ] } ) > / [ { ( < ; = # ?`; so `then~` is one word, not a keyword. A plain JSON array or
object is one lexeme, and so is a map with `..` followed by plain JSON: that makes the usual deltas cheap.
"""

import json
import re
from collections.abc import Callable, Iterator
from json import JSONDecodeError
from math import isinf
from typing import Any, NamedTuple

from lark.lexer import Lexer, LexerState

from sowline.language.emodb.values import Json

INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1
INT64_CHARS_MAX = 20

READ_AHEAD_MAX = 8
"""A lexer gives up reading plain JSON after it has read this many times the text's length in vain."""

_BLANKS = r"[\x01-\x20]*"
_TERMINATORS = r"\x00-\x20,:\]})>/\\\"\[{(<;=#?"
_NEXT = re.compile(
    rf"""[\x01-\x20]*(?:
        (?P<KEY>"[^"\\\x00-\x1f]*"{_BLANKS}:)
      | (?P<VALUE>"[^"\\\x00-\x1f]*")
      | (?P<quote>")
      | (?P<WORD>[^{_TERMINATORS}~+.'][^{_TERMINATORS}]*)
      | (?P<DOTS>\.\.)
      | (?P<open>[\[{{])
      | (?P<punctuation>[}})]\?|[}})(\],:~+])
      | (?P<foreign>[^\x01-\x20])
    )""",
    re.VERBOSE,
)
_BLANK = "".join(map(chr, range(1, 0x21)))
_BRACE = re.compile(rf"{_BLANKS}\{{")
_COLON = re.compile(rf"{_BLANKS}:")
_OPEN_MAP = re.compile(rf"\{{{_BLANKS}\.\.{_BLANKS}(,?)")
_INTEGER = re.compile(r"-?[0-9]+")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")

_PUNCTUATION = {
    "{": "_LBRACE",
    "}": "RBRACE",
    "}?": "EMPTY_RBRACE",
    "(": "LPAR",
    ")": "RPAR",
    ")?": "EMPTY_RPAR",
    "[": "_LSQB",
    "]": "_RSQB",
    ",": "_COMMA",
    ":": "_COLON",
    "~": "TILDE",
    "+": "PLUS",
}
_KEYWORDS = ("if", "then", "elif", "else", "end")
_STATES = ("undefined", "defined", "bool", "num", "string", "array", "object", "map", "list")
_FUNCTIONS = ("in", "is", "like", "contains", "intrinsic", "partition", "not", "and", "or")
_WORDS = (
    {word: f"_{word.upper()}" for word in _KEYWORDS}
    | {word: word.upper() for word in _FUNCTIONS}
    | dict.fromkeys(_STATES, "STATE")
    | dict.fromkeys(("alwaysTrue", "alwaysFalse"), "CONSTANT")
    | dict.fromkeys(("gt", "ge", "lt", "le"), "COMPARISON")
    | dict.fromkeys(("containsAny", "containsAll", "containsOnly"), "CONTAINS_MANY")
)
_CONSTANTS = {"true": ("VALUE", True), "false": ("VALUE", False), "null": ("NULL", None)}


class _NotPlain(ValueError):
    """Valid JSON, but not a value of a document."""


class Malformed(ValueError):
    """The text can't be read at `position`."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position


class Lexeme(NamedTuple):
    """One terminal of the grammar, with its value and its position."""

    type: str
    value: Any
    position: int
    end: int


class DocumentLexer(Lexer):
    """The lexer of the grammar's parser."""

    # Without it, Lark would call `lex` with the text alone.
    __future_interface__ = 2

    def __init__(self, _configuration: object) -> None:
        pass

    def lex(self, lexer_state: LexerState, parser_state: object) -> Iterator[Any]:
        """Return the lexemes, as `lexemes` does."""
        return lexemes(str(lexer_state.text.text))


def lexemes(text: str) -> Iterator[Lexeme]:
    """Yield the lexemes in order. Raise `Malformed` at a character that no lexeme starts with."""
    position, allowance = 0, READ_AHEAD_MAX * len(text)
    while (found := _NEXT.match(text, position)) is not None:
        kind = found.lastgroup or ""
        start, position = found.start(kind), found.end()
        if kind == "open":
            # Nested forms that are not plain JSON are read in vain from each bracket on: without the allowance, the
            # time would be quadratic.
            lexeme = _plain(text, start) if allowance >= len(text) - start else None
            if lexeme is None or lexeme.type == "MEMBERS":
                allowance -= len(text) - start
            lexeme = lexeme or Lexeme(_PUNCTUATION[text[start]], text[start], start, position)
            position = lexeme.end
        elif kind == "quote":
            lexeme = _string(text, start)
            position = lexeme.end
        else:
            lexeme = _READ[kind](text[start:position], start, position)
        yield lexeme


def whole(text: str) -> Lexeme | None:
    """Return the one lexeme of a text that is an object, or a map with `..`, of plain JSON; None for other texts."""
    brace = _BRACE.match(text)
    if brace is None:
        return None
    lexeme = _plain(text, brace.end() - 1)
    return None if lexeme is None or text[lexeme.end :].strip(_BLANK) else lexeme


def _plain(text: str, start: int) -> Lexeme | None:
    """Return an array or object, or a map with `..`, of plain JSON; None if it is something else, or invalid."""
    open_map = _OPEN_MAP.match(text, start)
    try:
        if open_map is None:
            value, end = _decode(text, start)
        elif open_map[1]:
            value, end = _decode("{" + text[open_map.end() :], 0)
            end += open_map.end() - 1
        else:
            return None
    except (JSONDecodeError, _NotPlain, RecursionError):
        # The recursion fails only if the caller's stack is already deep; the grammar itself does not recurse.
        return None
    # `{"a":1}?` is a delta that may delete, and not a value (test_what_is_not_plain_json_is_taken_apart). `{..,}` is
    # none at all: the grammar finds out what is wrong with it.
    if text.startswith("?", end) or (open_map is not None and not value):
        return None
    return Lexeme("VALUE" if open_map is None else "MEMBERS", value, start, end)


def _string(text: str, start: int) -> Lexeme:
    """Return a string with escapes, and the colon after it if there is one."""
    try:
        value, end = _decode(text, start)
    except JSONDecodeError as error:
        raise Malformed(_string_complaint(text, start, error), error.pos) from None
    colon = _COLON.match(text, end)
    return Lexeme("KEY", value, start, colon.end()) if colon else Lexeme("VALUE", value, start, end)


def _string_complaint(text: str, start: int, error: JSONDecodeError) -> str:
    if error.msg.startswith("Unterminated"):
        return 'expected a closing " for the string'
    if error.msg.startswith("Invalid control"):
        return f"expected no control character in a string, got {text[error.pos]!r}"
    return 'expected one of \\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX in a string'


def _key(text: str, start: int, end: int) -> Lexeme:
    return Lexeme("KEY", text[1 : text.rindex('"')], start, end)


def _plain_string(text: str, start: int, end: int) -> Lexeme:
    return Lexeme("VALUE", text[1:-1], start, end)


def _word(text: str, start: int, end: int) -> Lexeme:
    if text in _WORDS:
        return Lexeme(_WORDS[text], text, start, end)
    if text in _CONSTANTS:
        return Lexeme(*_CONSTANTS[text], start, end)
    if _NUMBER.fullmatch(text) is None:
        return Lexeme("WORD", text, start, end)
    try:
        return Lexeme("VALUE", _number(text), start, end)
    except _NotPlain as error:
        raise Malformed(str(error), start) from None


def _punctuation(text: str, start: int, end: int) -> Lexeme:
    return Lexeme(_PUNCTUATION.get(text, "FOREIGN"), text, start, end)


def _number(text: str) -> Json:
    """Return an integer if the number has neither point nor exponent and fits 64 bits, else a double."""
    # By the length first: Python raises an error of its own for an integer of more than 4,300 digits.
    if len(text) <= INT64_CHARS_MAX and _INTEGER.fullmatch(text):
        number = int(text)
        if INT64_MIN <= number <= INT64_MAX:
            return number
    return _double(text)


def _double(text: str) -> float:
    number = float(text)
    # Python would read 1e400 as infinity, which no JSON can write: the document could not be stored
    # (test_a_text_that_can_not_be_read).
    if isinf(number):
        raise _NotPlain("expected a number that a double can hold")
    return number


def _object(members: list[tuple[str, Json]]) -> dict[str, Json]:
    # The parser alone would keep the last value of a repeated key without notice.
    made = dict(members)
    if len(made) < len(members):
        raise _NotPlain("expected each key once")
    return made


def _constant(name: str) -> Json:
    raise _NotPlain(f"expected a value, got {name}")


_decode = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_number, parse_float=_double, parse_constant=_constant
).raw_decode

_READ: dict[str, Callable[[str, int, int], Lexeme]] = {
    "KEY": _key,
    "VALUE": _plain_string,
    "WORD": _word,
    "DOTS": lambda text, start, end: Lexeme("DOTS", text, start, end),
    "punctuation": _punctuation,
    "foreign": _punctuation,
}
