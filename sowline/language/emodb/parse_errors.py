"""Error messages for texts that can't be parsed: the expected form, its position, and the text found."""

from sowline.language.emodb.errors import DocumentError, excerpt, location
from sowline.language.emodb.lexer import Lexeme

# Groups of terminals that the parser could have accepted, each named by one terminal. The first that fits is used.
_EXPECTATIONS = (
    ("STATE", "undefined, defined, null, bool, num, string, array or object"),
    ("_IF", "a delta"),
    ("CONSTANT", "a condition"),
    ("_LSQB", "a value"),
    ("VALUE", "a string"),
    ("_THEN", "then"),
    ("_END", "elif, else or end"),
    ("KEY", "a key in double quotes and a colon"),
    ("_COLON", "':'"),
    ("LPAR", "'('"),
    ("$END", "the end"),
)
_CLOSING = {"_COMMA": "','", "RBRACE": "'}'", "RPAR": "')'", "_RSQB": "']'"}


def complaint(text: str, lexeme: Lexeme, accepted: set[str], reason: str) -> DocumentError:
    """Return the error for a lexeme that the parser did not accept."""
    found = repr(excerpt(text[lexeme.position : lexeme.end]))
    if lexeme.type == "$END":
        found = f"the end of the {reason.removeprefix('bad ')}"
    sentence = f"expected {_expected(accepted)} at {location(text, lexeme.position)}, got {found}"
    return DocumentError(reason, sentence, lexeme.position)


def _expected(accepted: set[str]) -> str:
    named = next((name for terminal, name in _EXPECTATIONS if terminal in accepted), None)
    return named or " or ".join(name for terminal, name in _CLOSING.items() if terminal in accepted)
