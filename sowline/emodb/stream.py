"""Several deltas in one text: `[delta,delta]`, or with blanks between them."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from sowline.document.compiled import Delta, parse_delta
from sowline.document.errors import BAD_DELTA, DocumentError, place

_BLANKS = re.compile(r"[\x01-\x20]*")
_PIECE = re.compile(
    r"""(?P<blank>[\x01-\x20]+)
      | (?P<comma>,)
      | (?P<open>[\[{(])
      | (?P<close>[\]})])
      | (?P<string>"[^"\\]*(?:\\.[^"\\]*)*"?)
      | (?P<other>[^\x01-\x20,\[\](){}"]+)""",
    re.VERBOSE | re.DOTALL,
)
_DEEPER = {"open": 1, "close": -1}


class Piece(NamedTuple):
    """The text of one delta of a stream, and where in the stream it begins."""

    text: str
    position: int


def parse_deltas(text: str) -> Iterator[Delta]:
    """Yield the deltas of a stream, one by one. Raises `DocumentError` at the first that is none.

    Those before it have been given by then. The place in the sentence counts from where the wrong delta begins.
    Between blanks no delta may have blanks of its own outside brackets, so `if` needs the form with `[`.
    """
    for piece in pieces(text):
        yield parse_delta(piece.text)


def pieces(text: str) -> Iterator[Piece]:
    """Yield the texts of a stream's deltas, which are not read yet; raises `DocumentError` where it has no end."""
    start = _after_blanks(text, 0)
    return _in_array(text, start + 1) if text.startswith("[", start) else _apart(text, start)


def _in_array(text: str, begin: int) -> Iterator[Piece]:
    """The texts between commas up to the bracket that closes; a comma may be last."""
    depth = 0
    for found in _PIECE.finditer(text, begin):
        is_end = found[0] == "]"
        if depth == 0 and (is_end or found[0] == ","):
            if not is_end or _after_blanks(text, begin) < found.start():
                yield Piece(text[begin : found.start()], begin)
            if is_end:
                return _check_end(text, found.end())
            begin = found.end()
        depth += _DEEPER.get(found.lastgroup or "", 0)
    raise _error("expected ',' or ']' behind the last delta, got the end", text, len(text))


def _apart(text: str, begin: int) -> Iterator[Piece]:
    """The texts between blanks outside brackets and strings."""
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
        raise _error("expected the end behind the ']' of the deltas, got more", text, position)


def _after_blanks(text: str, position: int) -> int:
    blanks = _BLANKS.match(text, position)
    assert blanks is not None
    return blanks.end()


def _error(sentence: str, text: str, position: int) -> DocumentError:
    return DocumentError(BAD_DELTA, f"{sentence}, at {place(text, position)}", position)
