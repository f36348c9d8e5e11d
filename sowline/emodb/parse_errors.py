"""What is wrong with a text that can't be read, in a sentence: what was expected, where, and what came."""

from sowline.emodb.errors import DocumentError, excerpt, location
from sowline.emodb.lexer import Lexeme

# What the parser could have taken, told by a terminal that stands for the rest. The first that fits names it.
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
    """The error to raise for a lexeme that the parser could not take: it accepts others."""
    found = repr(excerpt(text[lexeme.position : lexeme.end]))
    if lexeme.type == "$END":
        found = f"the end of the {reason.removeprefix('bad ')}"
    sentence = f"expected {_expected(accepted)} at {location(text, lexeme.position)}, got {found}"
    return DocumentError(reason, sentence, lexeme.position)


def _expected(accepted: set[str]) -> str:
    named = next((name for terminal, name in _EXPECTATIONS if terminal in accepted), None)
    return named or " or ".join(name for terminal, name in _CLOSING.items() if terminal in accepted)
