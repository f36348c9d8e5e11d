"""Checks deltas before they are written to the log: every reader of the log must accept them."""

import re
from collections.abc import Iterator

from sowline.errors import SowlineError
from sowline.language.emodb.compiled import parse_delta
from sowline.language.emodb.errors import BAD_DELTA, location
from sowline.language.emodb.sanitize import sanitized
from sowline.language.emodb.stream import Piece, pieces

DELTAS_MAX = 10_000
"""The maximum number of deltas in one stream."""

_CONDITIONAL = re.compile(r"[\x01-\x20]*if")


def check_delta(text: str) -> bytes:
    """Return a delta's text in the form that is written to the log.

    Raise `bad delta` if it is not a delta, and `not an object` if it could not result in a document.
    """
    # The log keeps what was written. An invalid delta would become a dead letter long after its write was
    # acknowledged (test_what_would_be_refused_is_not_written).
    sanitized(parse_delta(text))
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise SowlineError(BAD_DELTA, f"expected text that UTF-8 can hold: {error}") from None


def check_deltas(text: str) -> list[bytes]:
    """Return the texts of one delta, or of the deltas of a stream, after checking all of them.

    A text that begins with `if` is one delta. Raise what `check_delta` raises, with the number and the start of the
    delta if there are several, and `bad request` if there are none or too many.
    """
    found = list(_pieces(text))
    if not found:
        raise SowlineError(
            "bad request", "expected a delta, or several in brackets or with blanks between them, got none"
        )
    return [_check(text, piece, number, len(found)) for number, piece in enumerate(found, 1)]


def _pieces(text: str) -> Iterator[Piece]:
    if _CONDITIONAL.match(text):
        yield Piece(text, 0)
        return
    for number, piece in enumerate(pieces(text)):
        if number == DELTAS_MAX:
            raise SowlineError("too large", f"expected at most {DELTAS_MAX} deltas, got more")
        yield piece


def _check(text: str, piece: Piece, number: int, of: int) -> bytes:
    try:
        return check_delta(piece.text)
    except SowlineError as error:
        if of == 1:
            raise
        where = f"delta {number} of {of}, from {location(text, piece.position)} on"
        raise SowlineError(error.reason, f"{where}: {error.message}") from error
