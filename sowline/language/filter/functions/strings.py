"""Functions of texts. Positions and lengths count characters (code points), never bytes.

Functions that could make very long texts compute the length first, so that they never use that much memory.
"""

from functools import partial

from sowline.language.filter.functions.patterns import first_match, with_replaced
from sowline.language.filter.functions.registry import TEXT_CHARS_MAX, Function, text, whole


def concat(*parts: str | None) -> str | None:
    """Return the texts one after another, without NULLs."""
    return joined([part for part in parts if part is not None], "")


def joined(parts: list[str], delimiter: str) -> str | None:
    """Return the texts with the delimiter between them; None if the result is too long."""
    length = sum(map(len, parts)) + len(delimiter) * (len(parts) - 1)
    return delimiter.join(parts) if length <= TEXT_CHARS_MAX else None


def replace(source: str | None, match: str | None, replacement: str | None) -> str | None:
    """Return the text with every occurrence replaced, from the left; a NULL replacement removes the occurrences."""
    if source is None or match is None:
        return None
    new = replacement or ""
    if len(source) + source.count(match) * (len(new) - len(match)) > TEXT_CHARS_MAX:
        return None
    return source.replace(match, new)


def substr(source: str, start: int, chars_max: int | None = None) -> str:
    """Return the characters from `start` (1-based, or negative from the end), at most `chars_max` of them."""
    begin = start - 1 if start > 0 else max(0, len(source) + start) if start else 0
    return source[begin:] if chars_max is None else source[begin : begin + max(0, chars_max)]


def left(source: str, count: int) -> str:
    """Return the first `count` characters."""
    return source[: max(0, count)]


def right(source: str, count: int) -> str:
    """Return the last `count` characters."""
    return source[max(0, len(source) - count) :] if count > 0 else ""


def trim(source: str, characters: str = " ", *, at_start: bool = True, at_end: bool = True) -> str:
    """Return the text without these characters at its ends."""
    # `str.strip` compares each character with the whole list in turn, which is slow for a long list
    # (test_a_long_set_of_characters_to_trim).
    unwanted = set(characters)
    begin, end = 0, len(source)
    while at_start and begin < end and source[begin] in unwanted:
        begin += 1
    while at_end and begin < end and source[end - 1] in unwanted:
        end -= 1
    return source[begin:end]


def position(source: str, wanted: str) -> int:
    """Return the position of the first occurrence, from 1; 0 if there is none."""
    return source.find(wanted) + 1


def caseless(source: str) -> str:
    """Return the text with each character case-folded, and with the same length."""
    folded = source.casefold()
    # Folding can lengthen a text ('ß' becomes 'ss'), but positions must not change.
    return folded if len(folded) == len(source) else "".join(map(_caseless_character, source))


def _caseless_character(character: str) -> str:
    folded = character.casefold()
    return folded if len(folded) == 1 else character


def position_caseless(source: str, wanted: str) -> int:
    """Return the position of the first occurrence, ignoring case; 0 if there is none."""
    return position(caseless(source), caseless(wanted))


def equal_caseless(one: str, other: str) -> bool:
    """Return whether the texts are equal, ignoring case."""
    return caseless(one) == caseless(other)


def reversed_text(source: str) -> str:
    """Return the characters in reverse order."""
    return source[::-1]


def character(code: int) -> str | None:
    """Return the character with this code point; None if there is none."""
    # Half of a surrogate pair is no character: UTF-8 could not write the result.
    return chr(code) if 0 <= code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF else None


FUNCTIONS = (
    Function("CONCAT", (text,), concat, repeats=True, takes_null=True),
    Function("UPPER", (text,), str.upper),
    Function("LOWER", (text,), str.lower),
    Function("REPLACE", (text, text, text), replace, takes_null=True),
    Function("REGEXP_REPLACE", (text, text, text), with_replaced, takes_null=True),
    Function("REGEXP_MATCH", (text, text), first_match),
    Function("SUBSTR", (text, whole, whole), substr, optional=1),
    Function("TRIM", (text, text), trim, optional=1),
    Function("LTRIM", (text, text), partial(trim, at_end=False), optional=1),
    Function("RTRIM", (text, text), partial(trim, at_start=False), optional=1),
    Function("LEFT", (text, whole), left),
    Function("RIGHT", (text, whole), right),
    Function("REVERSE", (text,), reversed_text),
    Function("LENGTH", (text,), len),
    Function("INSTR", (text, text), position),
    Function("INSTR_I", (text, text), position_caseless),
    Function("STREQUAL_I", (text, text), equal_caseless),
    Function("CHAR_VALUE", (whole,), character),
)
