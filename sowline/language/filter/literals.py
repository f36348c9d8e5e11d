"""Converts string literals: from the text between the quotes to the value, and back."""

import re

_ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{2}|[0-3][0-7]{2}|.)", re.DOTALL)
_NAMED = {"a": "\a", "b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r"}
_UNPRINTED = re.compile(r"[\x00-\x1f\x7f'\\]")
_ESCAPED = {"'": r"\'", "\\": r"\\"} | {character: "\\" + letter for letter, character in _NAMED.items()}


def unescape(inner: str) -> str:
    r"""Return the value of a quoted string with the escapes `\a \b \t \n \f \r \xHH \OOO`; any other `\c` is `c`.

    `\xHH` and `\OOO` give a character by its code point, as in a LIKE pattern.
    """
    return _ESCAPE.sub(_unescaped, inner) if "\\" in inner else inner


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    if len(code) == 1:
        return _NAMED.get(code, code)
    return chr(int(code[1:], 16) if code[0] == "x" else int(code, 8))


def quoted(value: str) -> str:
    """Return a literal in single quotes with this value."""
    return f"'{_UNPRINTED.sub(_escaped, value)}'"


def _escaped(match: re.Match[str]) -> str:
    character = match[0]
    return _ESCAPED.get(character) or f"\\x{ord(character):02x}"


def quoted_as_is(inner: str) -> str:
    """Return the text in quotes of a kind that it does not contain unescaped, so that it reads back unchanged."""
    # An escaped quote ends nothing: the pattern can stay between quotes of its own kind
    # (test_a_pattern_keeps_its_escapes).
    bare = re.sub(r"\\.", "", inner, flags=re.DOTALL)
    return f'"{inner}"' if "'" in bare else f"'{inner}'"
