"""Several deltas in one text: `[delta,delta]`, or separated by blanks. NUL is a blank between deltas, as in EmoDB."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from sowline.language.emodb.compiled import Delta, parse_delta
from sowline.language.emodb.errors import BAD_DELTA, DocumentError, location

_BLANK = "".join(map(chr, range(0x21)))
"""The characters that separate deltas: control characters and the space. Within a delta, NUL is not a blank."""

_BLANKS = re.compile(r"[\x00-\x20]*")
_PIECE = re.compile(
    r"""(?P<blank>[\x00-\x20]+)
      | (?P<comma>,)
      | (?P<open>[\[{(])
      | (?P<close>[\]})])
      | (?P<string>"[^"\\]*(?:\\.[^"\\]*)*"?)
      | (?P<other>[^\x00-\x20,\[\](){}"]+)""",
    re.VERBOSE | re.DOTALL,
)
_DEEPER = {"open": 1, "close": -1}


class Piece(NamedTuple):
    """The text of one delta of a stream, and its start in the stream."""

    text: str
    position: int


def parse_deltas(text: str) -> Iterator[Delta]:
    """Yield the deltas of a stream, one by one. Raise `DocumentError` at the first invalid one, after those before
    it.

    The position in the message counts from the start of the invalid delta. In a stream that is separated by blanks,
    no delta may have blanks outside of brackets, so `if` needs the form with `[`.
    """
    for piece in pieces(text):
        yield parse_delta(piece.text)


def pieces(text: str) -> Iterator[Piece]:
    """Yield the texts of a stream's deltas without parsing them; raise `DocumentError` if the stream does not end."""
    start = _after_blanks(text, 0)
    return _in_array(text, start + 1) if text.startswith("[", start) else _apart(text, start)


def _in_array(text: str, begin: int) -> Iterator[Piece]:
    """Yield the texts between commas up to the closing bracket; a comma may be last."""
    depth = 0
    begin = _after_blanks(text, begin)
    for found in _PIECE.finditer(text, begin):
        is_end = found[0] == "]"
        if depth == 0 and (is_end or found[0] == ","):
            following = found.end() if is_end else _after_blanks(text, found.end())
            if not is_end and following == len(text):
                # A delta is complete only once more text follows its comma: the stream may be cut off here.
                break
            if not is_end or begin < found.start():
                yield Piece(text[begin : found.start()].rstrip(_BLANK), begin)
            if is_end:
                return _check_end(text, following)
            begin = following
        depth += _DEEPER.get(found.lastgroup or "", 0)
    raise _error("expected ',' or ']' after the last delta, got the end", text, len(text))


def _apart(text: str, begin: int) -> Iterator[Piece]:
    """Yield the texts between blanks outside of brackets and strings."""
    depth = 0
    for found in _PIECE.finditer(text, begin):
        if depth == 0 and found.lastgroup == "blank":
            yield Piece(text[begin : found.start()], begin)
            begin = found.end()
        depth += _DEEPER.get(found.lastgroup or "", 0)
    if begin < len(text):
        yield Piece(text[begin:], begin)


def _check_end(text: str, position: int) -> None:
    position = _after_blanks(text, position)
    if position < len(text):
        raise _error("expected the end after the ']' of the deltas, got more", text, position)


def _after_blanks(text: str, position: int) -> int:
    blanks = _BLANKS.match(text, position)
    assert blanks is not None
    return blanks.end()


def _error(sentence: str, text: str, position: int) -> DocumentError:
    return DocumentError(BAD_DELTA, f"{sentence}, at {location(text, position)}", position)
