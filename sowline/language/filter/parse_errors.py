"""Error messages for texts that the parser refuses: the expected form, its column, and the text found."""

import re

from lark import Token, UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from sowline.language.filter.errors import FilterError

EXCERPT_CHARS_MAX = 40

# Names for what the parser would have accepted. The first row whose terminals are all acceptable applies.
_EXPECTATIONS = (
    ("NUMBER", "an operand"),
    ("PATH", "a path"),
    ("STRING", "a quoted pattern"),
    ("_AS", "an operator or AS"),
    ("_HINT", "HINT or the end"),
    ("OPTIONAL", "OPTIONAL or SET_CURRENT"),
    ("PREVIOUS", "PREVIOUS or CURRENT"),
    ("DESC", "ASC, DESC, TEXT, ',' or the end"),
    ("TEXT", "TEXT, ',' or the end"),
    ("_OR", "an operator"),
    ("_COMMA $END", "',' or the end"),
    ("$END", "an operator or the end"),
    ("_AND", "AND"),
    ("_IN", "IN, LIKE, BETWEEN, BEGINS WITH, ENDS WITH or NULL"),
    ("NOT", "NULL, NAN, NOT NULL or NOT NAN"),
    ("NAN", "NULL or NAN"),
    ("_COMMA", "',' or ')'"),
    ("_RPAR", "')'"),
    ("_LPAR", "'('"),
)
_WORD = re.compile(r"\w+")
_CLOSING = {"'": "'", '"': '"', "[": "]"}


def complaint(text: str, error: UnexpectedInput, previous: Token | None, what: str) -> FilterError:
    """Return the error for the token or character that the parser refused after the token `previous`.

    `what` says for the message what the text is, for example `filter`.
    """
    token: Token | None = error.token if isinstance(error, UnexpectedToken) else None
    at_end = token is not None and token.type == "$END"
    column = (len(text) if at_end else error.pos_in_stream or 0) + 1
    found = "" if at_end else _found(text, column, token)
    return FilterError(_sentence(text, column, error, found, previous, f"end of {what}"), column)


def _sentence(
    text: str, column: int, error: UnexpectedInput, found: str, previous: Token | None, end: str
) -> str:
    allowed = _allowed(error)
    # A quote at which no token starts is one that nothing closes.
    if found in ("'", '"') or (found == "[" and "]" not in text[column:]):
        return f"expected a closing {_CLOSING[found]} for the {found} at column {column}, got {end}"
    if _is_comparison(error) and "_OR" in allowed and "COMPARISON" not in allowed:
        return f"comparisons can't be chained: expected AND or OR at column {column}, got {found!r}"
    after = f" after {_excerpt(previous)}" if previous is not None else ""
    got = repr(_excerpt(found)) if found else end
    return (
        f"expected {_expected(allowed)}{after} at column {column}, got {got}{_hint(error, found, previous)}"
    )


def _allowed(error: UnexpectedInput) -> set[str]:
    if isinstance(error, UnexpectedToken):
        return set(error.expected)
    return set(error.allowed or ()) if isinstance(error, UnexpectedCharacters) else set()


def _is_comparison(error: UnexpectedInput) -> bool:
    return isinstance(error, UnexpectedToken) and error.token.type == "COMPARISON"


def _found(text: str, column: int, token: Token | None) -> str:
    """Return the refused token, or the word or character at which no token starts."""
    if token is not None:
        return str(token)
    word = _WORD.match(text, column - 1)
    return word[0] if word else text[column - 1]


def _expected(allowed: set[str]) -> str:
    return next(
        (name for terminals, name in _EXPECTATIONS if allowed.issuperset(terminals.split())), "something else"
    )


def _hint(error: UnexpectedInput, found: str, previous: Token | None) -> str:
    if previous is not None and previous.type == "SLASH":
        return " (after an operand, '/' divides)"
    is_bare_word = (
        isinstance(error, UnexpectedCharacters) and found[:1].isalpha() and "PATH" in _allowed(error)
    )
    return " (a field's name begins with '/')" if is_bare_word else ""


def _excerpt(text: str) -> str:
    return str(text) if len(text) <= EXCERPT_CHARS_MAX else text[: EXCERPT_CHARS_MAX - 3] + "..."
